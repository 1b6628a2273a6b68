"""The one module that talks to Dask: a cluster of processes here or elsewhere, and its workers."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sojourn.flows.dask_address import LOCAL, possible_dask
from sojourn.flows.outside.workers import NewWorker

TIMEOUT_S = 10.0
"""A scheduler answers within so long, or is reported."""


@contextmanager
def cluster(dask: str) -> Iterator[str]:
    """The address of the scheduler that `dask` names; `local` and `local:N` start processes here, which end with it.

    Refused as `dask_workers` does, before any work: a scheduler that does not answer, no workers, other versions.
    """
    local = LOCAL.fullmatch(possible_dask(dask))
    if local is None:
        with dask_workers(dask):
            pass
        yield dask
        return
    distributed = _distributed()
    n_workers = int(local[1] or os.cpu_count() or 1)
    with distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, host="127.0.0.1",
                                  dashboard_address="127.0.0.1:0") as made:
        yield str(made.scheduler_address)


@contextmanager
def dask_workers(address: str, timeout_s: float = TIMEOUT_S) -> Iterator[list[NewWorker]]:
    """The workers of the Dask scheduler at `address`, each asked for one thing at a time.

    They must see the store's folder under the same path. A thing goes to another worker where its own has died: once on
    a cluster that was started here, else as often as its scheduler allows. Refused with ValueError where Dask is not
    installed, the cluster has no workers or one of them has another version of Sojourn; with OSError where the
    scheduler does not answer.
    """
    with _client(address, timeout_s) as client:
        names = _worker_names(client, address)
        _check_versions(client, timeout_s)
        yield [partial(client.get_executor, workers=[name], allow_other_workers=True, pure=False) for name in names]


def _client(address: str, timeout_s: float) -> Any:
    connect: Any = _distributed().Client
    try:
        return connect(address, timeout=timeout_s, set_as_default=False)
    except OSError as error:
        raise OSError(f"dask must be a scheduler that answers within {timeout_s:g} s, got none at {address} "
                      f"({type(error).__name__})") from error


def _worker_names(client: Any, address: str) -> list[str]:
    names = list(client.scheduler_info(n_workers=-1)["workers"])
    if not names:
        raise ValueError(f"dask must have at least one worker, got none at {address}")
    return names


def _check_versions(client: Any, timeout_s: float) -> None:
    """Asks for the installed package, with a function of Python's own: another version may lack ours."""
    own = importlib.metadata.version("sojourn")
    found: dict[str, Any] = client.run(importlib.metadata.version, "sojourn", on_error="return")
    for worker, version in found.items():
        if version != own:
            got = "none installed" if isinstance(version, importlib.metadata.PackageNotFoundError) else repr(version)
            raise ValueError(f"dask workers must have Sojourn {own}, as here; got {got} on {worker}")


def _distributed() -> Any:
    try:
        from dask import config as dask_config

        # What fails comes back with the work; what ends a second worker, too, is not given to a third.
        dask_config.set({"logging.distributed": "critical", "distributed.scheduler.allowed-failures": 1})
        import distributed
    except ImportError as error:
        raise ValueError("dask must have the package `distributed` (it is in sojourn[pipeline]), "
                         f"got {error.name!r} missing") from error
    return distributed
