"""Cells over workers: each worker keeps to one group as long as it has cells, then helps with another."""

from __future__ import annotations

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
from contextlib import ExitStack, suppress
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
NewWorker = Callable[[], Executor]
"""Makes an executor that does one thing at a time, and remembers what it prepared."""


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
