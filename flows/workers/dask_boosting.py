"""LightGBM's distributed training on a Dask cluster: each worker has a share of the rows, all grow the same trees.

`lightgbm.dask` deals rows out by which worker happens to hold them, and its result varies from run to run. Here the
rows of a rank and the order of ranks are given, so the same number of ranks gives the same trees, to the bit, whichever
workers have them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sojourn.flows.store.caches import check_same_code, source_hash
from sojourn.flows.workers.boost_shard import (
    SETTINGS,
    machines_file,
    read_trees,
    shard_file,
    trees_file,
    valid_file,
    write_rows,
)
from sojourn.flows.workers.dask import EMPTY_S, dask_client
from sojourn.models.lifetime import Learner, Rows, Trees

N_ATTEMPTS = 3
"""A fit in which a worker died begins anew; more often than that it ends with an error."""
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank's work. code: `boosting_code` where it was given out."""

    folder: Path
    rank: int
    attempt: int
    n_threads: int
    code: str


def boosting_code() -> str:
    """sha256 hex of the code that decides the trees, with the libraries' versions."""
    return source_hash("models", "flows/workers/boost_shard.py")


@contextmanager
def dask_learner(address: str, n_ranks: int, store: Path) -> Iterator[Learner]:
    """A learner that grows trees on `n_ranks` workers of the scheduler at `address`.

    store: a folder that the workers see under the same path; rows lie there for as long as a fit takes. Refused with
    ValueError where the cluster has fewer workers; as `dask_workers` refuses.
    """
    with dask_client(address) as (client, n_workers):
        if n_workers < n_ranks:
            raise ValueError(f"n_fit_workers must be at most the number of the cluster's workers, {n_workers}, "
                             f"got {n_ranks}")
        yield partial(_grown_by, client, n_ranks, store.resolve())


def _grown_by(client: Any, n_ranks: int, store: Path, settings: Mapping[str, Any], train: Rows, valid: Rows | None,
              n_rounds: int) -> Trees:
    """See `Learner`; RuntimeError where no attempt came to an end."""
    with tempfile.TemporaryDirectory(prefix=".fit.", dir=store) as made:
        folder = Path(made)
        for rank in range(n_ranks):
            write_rows(every(train, rank, n_ranks), shard_file(folder, rank))
        if valid is not None:
            write_rows(valid, valid_file(folder))
        (folder / SETTINGS).write_text(json.dumps({"settings": dict(settings), "n_rounds": n_rounds}))
        for attempt in range(N_ATTEMPTS):
            failed = _attempted(client, n_ranks, folder, attempt)
            if failed is None:
                return read_trees(trees_file(folder, attempt))
        raise RuntimeError(f"trees could not be grown on {n_ranks} workers in {N_ATTEMPTS} attempts: {failed}")


def every(rows: Rows, rank: int, n_ranks: int) -> Rows:
    """Of the rows each n-th, from the rank's own on: near in time are near in kind, so shares are alike.

    >>> import numpy as np
    >>> every(Rows(np.zeros((5, 1)), np.arange(5.0)), 1, 2).label.tolist()
    [1.0, 3.0]
    """
    taken = slice(rank, None, n_ranks)
    weight, init_score = (None if array is None else array[taken] for array in (rows.weight, rows.init_score))
    return Rows(rows.features[taken], rows.label[taken], weight, init_score)


def _attempted(client: Any, n_ranks: int, folder: Path, attempt: int) -> str | None:
    """Grow the trees once; why it failed, or None."""
    names, n_threads = _chosen(client, n_ranks)
    if len(names) < n_ranks:
        return f"the cluster has {len(names)} workers"
    ports: dict[str, Any] = client.run(free_port, workers=names, on_error="return")
    if odd := [each for each in ports.values() if not isinstance(each, int)]:
        return str(odd[0])
    machines = [f"{urlsplit(name).hostname}:{ports[name]}" for name in names]
    machines_file(folder, attempt).write_text(json.dumps(machines))
    futures = [client.submit(run_rank, Rank(folder, rank, attempt, n_threads[rank], boosting_code()), workers=[name],
                             pure=False) for rank, name in enumerate(names)]
    failed = _watched(client, futures, names)
    if failed is not None:
        _given_up(folder, attempt).touch()
    client.cancel(futures)
    return failed


def _watched(client: Any, futures: list[Any], names: list[str]) -> str | None:
    """Wait until all ranks have ended: None; or until one failed or its worker went: why."""
    while not all(future.status == "finished" for future in futures):
        for future in futures:
            if future.status == "error":
                error = future.exception()
                if isinstance(error, ValueError):
                    raise error
                return f"{type(error).__name__}: {error}"
            if future.status in ("cancelled", "lost"):
                return "the scheduler has gone"
        gone = set(names) - set(client.scheduler_info(n_workers=-1)["workers"])
        if gone:
            return f"the worker {min(gone)} has gone"
        time.sleep(_LOOK_S)
    return None


def _chosen(client: Any, n_ranks: int) -> tuple[list[str], list[int]]:
    """Addresses and threads of `n_ranks` workers, in the order of their names; waits for those that start anew."""
    until_s = time.monotonic() + EMPTY_S
    while True:
        workers = client.scheduler_info(n_workers=-1)["workers"]
        if len(workers) >= n_ranks or time.monotonic() > until_s:
            names = sorted(workers)[:n_ranks]
            return names, [int(workers[name]["nthreads"]) for name in names]
        time.sleep(1.0)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


def run_rank(work: Rank) -> None:
    """Run one rank in a process of its own until it ends or the attempt is given up; RuntimeError where it failed."""
    check_same_code(boosting_code(), work.code)
    command = [sys.executable, "-m", "sojourn.flows.workers.boost_shard", str(work.folder),
               *map(str, (work.rank, work.attempt, work.n_threads))]
    with (tempfile.TemporaryFile() as errors,
          subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors) as process):
        try:
            while (code := process.poll()) is None:
                if _given_up(work.folder, work.attempt).exists() or not work.folder.exists():
                    raise RuntimeError("the attempt was given up")
                time.sleep(_LOOK_S)
        finally:
            process.kill()
        if code != 0:
            errors.seek(0)
            lines = errors.read().decode("utf-8", "replace").strip().splitlines() or ["nothing was said"]
            raise RuntimeError(f"rank {work.rank} ended with code {code}: {lines[-1]}")


def _given_up(folder: Path, attempt: int) -> Path:
    return folder / f"given-up-{attempt}"
