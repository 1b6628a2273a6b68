"""Cells over workers, processes here or a Dask cluster: each worker keeps to one group as long as it has cells, then
helps with another. The one module that talks to Dask."""

from __future__ import annotations

import importlib.metadata
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from sojourn import __version__
from sojourn.flows.settings.trace import LOCAL, possible_dask

T = TypeVar("T")
R = TypeVar("R")
NewWorker = Callable[[], Executor]
"""Makes an executor that does one thing at a time, and remembers what it prepared."""
TIMEOUT_S = 10.0
"""A scheduler answers within so long, or is reported."""
EMPTY_S = 60.0
"""A cluster without one worker for so long ends the work; a worker that died is started anew within seconds."""

_AT_ONCE_S = 0.1


def local_workers(n: int) -> list[NewWorker]:
    """n processes; for one, this process itself."""
    return [_process] * n if n > 1 else [Here]


def run_grouped(groups: Iterable[Sequence[T]], task: Callable[[T], R],
                workers: Sequence[NewWorker]) -> Iterator[tuple[T, R | Exception]]:
    """Each item with what `task` returned or raised, as they come.

    A free worker goes on in its group; else it takes an untouched group; else it helps where most is left. Every
    second worker takes items from the end, so that two in a like group do not compile the same policy at once. A
    worker that dies, or a cluster that cancels, costs the item that it was at.
    """
    queues = [deque(group) for group in groups]
    current: list[deque[T]] = [deque() for _ in workers]
    busy: dict[Future[R], tuple[int, T]] = {}
    with ExitStack() as stack:
        executors: dict[int, Executor] = {}

        def begin(worker: int) -> None:
            if not current[worker]:
                fresh = next((queue for queue in queues if queue and not any(queue is one for one in current)), None)
                current[worker] = fresh or max(queues, key=len, default=deque())
            queue = current[worker]
            if not queue:
                return
            item = queue.popleft() if worker % 2 == 0 else queue.pop()
            busy[submitted(worker, item)] = (worker, item)

        def submitted(worker: int, item: T) -> Future[R]:
            if worker in executors:
                with suppress(BrokenExecutor):  # it died while it had nothing to do
                    return executors[worker].submit(task, item)
            executors[worker] = stack.enter_context(workers[worker]())
            return executors[worker].submit(task, item)

        for worker in range(len(workers)):
            begin(worker)
        while busy:
            done, _ = wait(busy, return_when=FIRST_COMPLETED)
            for future in done:
                worker, item = busy.pop(future)
                error = CancelledError("it was cancelled") if future.cancelled() else future.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error
                begin(worker)
                yield item, error if error is not None else future.result()


class Here(Executor):
    """This process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future that is done already; what is no Exception (Ctrl-C) is raised at once."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def _process() -> Executor:
    # A fork would copy the threads' locks of numba and LightGBM in whatever state they are.
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_begin)


def _begin() -> None:
    """Runs first in a worker's process: it is quiet, and ends with the one that started it, however that ends."""
    from sojourn.flows.console import console

    console.quiet = True
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


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
def dask_workers(address: str, timeout_s: float = TIMEOUT_S, empty_s: float = EMPTY_S) -> Iterator[list[NewWorker]]:
    """As many executors as the Dask scheduler at `address` has workers, each asked for one thing at a time.

    The workers must see the store's folder under the same path. The scheduler gives a thing to a worker that is free,
    and to another one where that has died: once on a cluster that was started here, else as often as it allows. It is
    not tied to a worker: of such a thing Dask would never notice that a new worker has come. Where the cluster has no
    worker for `empty_s`, or its scheduler has gone, what was asked for is cancelled.

    Refused with ValueError where Dask is not installed, the cluster has no workers or one of them has another version
    of Sojourn; with OSError where the scheduler does not answer.
    """
    with dask_client(address, timeout_s) as (client, n_workers):
        is_over = threading.Event()
        watch = threading.Thread(target=_end_without_workers, args=(client, empty_s, is_over), daemon=True)
        watch.start()
        try:
            yield [partial(client.get_executor, pure=False)] * n_workers
        finally:
            is_over.set()
            watch.join()


@contextmanager
def dask_client(address: str, timeout_s: float = TIMEOUT_S) -> Iterator[tuple[Any, int]]:
    """A client of the scheduler at `address`, and the number of its workers; refused as in `dask_workers`."""
    with _client(address, timeout_s) as client:
        n_workers = len(_worker_names(client, address))
        _check_versions(client)
        yield client, n_workers


def _end_without_workers(client: Any, empty_s: float, is_over: threading.Event) -> None:
    """Cancel what was asked for once the cluster has had no worker for `empty_s`, and all that is asked for until it
    has one again: whoever asked goes on to the next thing."""
    n_looks, n_empty = 6, 0
    while not is_over.wait(empty_s / n_looks if n_empty < n_looks else _AT_ONCE_S):
        try:
            n_empty = 0 if client.scheduler_info(n_workers=-1)["workers"] else n_empty + 1
        except Exception:
            if client.status in ("closing", "closed"):  # the scheduler has gone; the client cancels by itself
                return
            n_empty += 1  # a scheduler that did not answer this time
        if n_empty >= n_looks:
            future: Any = _distributed().Future
            with suppress(Exception):  # tried again at the next look
                client.cancel([future(key, client) for key in list(client.futures)], force=True)


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


def _check_versions(client: Any) -> None:
    """Asks for the installed package, with a function of Python's own: another version may lack ours."""
    found: dict[str, Any] = client.run(importlib.metadata.version, "sojourn", on_error="return")
    for worker, version in found.items():
        if version != __version__:
            got = "none installed" if isinstance(version, importlib.metadata.PackageNotFoundError) else repr(version)
            raise ValueError(f"dask workers must have Sojourn {__version__}, as here; got {got} on {worker}")


def _distributed() -> Any:
    try:
        from dask import config as dask_config

        # What fails comes back with the work; what ends a second worker, too, is not given to a third.
        dask_config.set({"logging.distributed": "critical", "distributed.scheduler.allowed-failures": 1})
        import distributed
    except ImportError as error:
        raise ValueError("dask must have the package `distributed` (pip install '.[pipeline]' in a checkout), "
                         f"got {error.name!r} missing") from error
    return distributed
