"""The one module that talks to Dask: the workers of a cluster, for cells that one machine is too small for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sojourn.flows.outside.workers import NewWorker


@contextmanager
def cluster_workers(address: str, timeout_s: float = 10.0) -> Iterator[list[NewWorker]]:
    """The workers of the Dask scheduler at `address`, each asked for one thing at a time.

    They must see the store's folder under the same path. Refused with ValueError where Dask is not installed or the
    cluster has no workers, with OSError where it does not answer.
    """
    try:
        import distributed
    except ImportError as error:
        raise ValueError("cluster must have the package `distributed` (it is in sojourn[pipeline]), "
                         f"got {error.name!r} missing") from error
    connect: Any = distributed.Client
    with connect(address, timeout=timeout_s, set_as_default=False) as client:
        names = list(client.scheduler_info(n_workers=-1)["workers"])
        if not names:
            raise ValueError(f"cluster must have at least one worker, got none at {address}")
        # Another may take over from one that is gone; what a cell leaves does not depend on where it ran.
        yield [partial(client.get_executor, workers=[name], allow_other_workers=True, pure=False) for name in names]
