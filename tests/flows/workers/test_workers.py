"""Groups over workers: everything once, groups kept together, and a worker that dies costs one item."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from typing import Any

import pytest

from made_tasks import die_of_two
from sojourn.flows.workers.dask import Here, local_workers, run_grouped


class _Later(Executor):
    """Does its work only when the next worker is asked for some, so that several are busy at once."""

    def __init__(self, log: list[tuple[int, str]], number: int) -> None:
        self._log, self._number = log, number

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._log.append((self._number, *args))
        return Here().submit(fn, *args)


def test_groups_stay_together_and_free_workers_help() -> None:
    log: list[tuple[int, str]] = []
    groups = [["a1", "a2", "a3", "a4"], ["b1"]]
    found = dict(run_grouped(groups, str.upper, [lambda: _Later(log, 0), lambda: _Later(log, 1)]))
    assert found == {name: name.upper() for group in groups for name in group}
    by_worker = defaultdict(list)
    for worker, name in log:
        by_worker[worker].append(name)
    # worker 0 walks its group from the front; worker 1 does b, then helps from the end
    assert by_worker[0] == ["a1", "a2", "a3"][:len(by_worker[0])]
    assert by_worker[1] == ["b1", "a4", "a3"][:len(by_worker[1])]
    assert len(log) == 5


def test_what_an_item_raises_is_its_result_and_ctrl_c_ends_all() -> None:
    found = dict(run_grouped([[0, 1]], lambda number: 1 // number, local_workers(1)))
    assert isinstance(found[0], ZeroDivisionError)
    assert found[1] == 1

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_grouped([[0, 1]], interrupted, local_workers(1)))


def test_what_is_cancelled_costs_itself() -> None:
    class Cancelling(Here):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future() if args == (2,) else super().submit(fn, *args)
            if future.cancel():
                future.set_running_or_notify_cancel()
            return future

    found = dict(run_grouped([[1, 2, 3]], str, [Cancelling]))
    assert (found[1], found[3]) == ("1", "3")
    assert isinstance(found[2], CancelledError)
    assert str(found[2]) == "it was cancelled"


def test_nothing_to_do_starts_nothing() -> None:
    assert list(run_grouped([], str.upper, [lambda: pytest.fail("a worker was started")])) == []


@pytest.mark.slow
def test_a_worker_that_dies_costs_the_item_that_it_was_at() -> None:
    found = dict(run_grouped([[1, 2, 3]], die_of_two, local_workers(2)[:1]))
    assert (found[1], found[3]) == (1, 3)
    assert isinstance(found[2], Exception)
