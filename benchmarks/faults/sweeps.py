"""Rows that end a run, or fail its disk, before the k-th of its events, and look at the store after one more run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial

from benchmarks.faults.injection import Action, disk_full, kill
from benchmarks.faults.launcher import Command
from benchmarks.faults.looks import looking
from benchmarks.faults.soundness import NAME, served_problems
from benchmarks.faults.tries import KILLED, Bench, Try, plain_failure, timed

_DENSE = ("alias", "registered_model", "model_version", "bundles", "journal", "candidates", "champion")
"""What events of a promotion name: more of them are tried than of the others."""


def killed_first_run(bench: Bench) -> Iterator[Try]:
    """kill -9 in the first run of a new store, MLflow's migration included"""
    yield from swept_over(bench, bench.empty, bench.retrain(KILLED), kill,
                      after=partial(bench.after, is_promoting=True), is_served=False, sparse=8)


def killed_retrain(bench: Bench) -> Iterator[Try]:
    """kill -9 in a retrain of a store with a champion"""
    yield from swept_over(bench, bench.promoted, bench.retrain(KILLED), kill)


def killed_compare(bench: Bench) -> Iterator[Try]:
    """kill -9 in a comparison"""
    yield from swept_over(bench, bench.promoted, bench.compare(), kill)


def killed_pull(bench: Bench) -> Iterator[Try]:
    """kill -9 while a new champion is pulled into a folder that a predictor watches"""
    served = bench.store / "served"

    def ready() -> None:
        bench.promoted()
        ended = bench.launcher.run([*_pull(bench, f"models:/{NAME}/1")], bench.store)
        assert ended.code == 0, ended.printed

    def again() -> list[str]:
        found = bench.asked(lambda: served_problems(served))
        ended = bench.launcher.run(_pull(bench, f"models:/{NAME}@champion"), bench.store)
        if ended.code != 0:
            return [*found, f"the next pull ends with exit code {ended.code}: {ended.last_line}"]
        left = sorted(path.name for path in bench.store.iterdir() if path.name.startswith(".served"))
        return found + bench.asked(lambda: served_problems(served)) + [f"left behind: {name}" for name in left]

    yield from swept_over(bench, ready, _pull(bench, f"models:/{NAME}@champion"), kill, after=again,
                      is_served=False)


def full_disk(bench: Bench) -> Iterator[Try]:
    """ENOSPC before a change of a file in a retrain"""
    yield from swept_over(bench, bench.promoted, bench.retrain(KILLED), disk_full, sparse=2)


def _pull(bench: Bench, uri: str) -> list[str]:
    return ["model", "pull", uri, str(bench.store / "served"), "--store", str(bench.store)]


def swept_over(bench: Bench, ready: Callable[[], None], command: Command, action: Action, *,
               after: Callable[[], list[str]] | None = None, is_served: bool = True, sparse: int = 1) -> Iterator[Try]:
    """Tries at every `bench.step` times `sparse`-th event, and at more of a promotion.

    A kill may come before any event, an error of the disk before one of a file.
    """
    ready()
    log = bench.folder / "events.txt"
    log.unlink(missing_ok=True)
    ended = bench.launcher.run(command, bench.store, log=log)
    if ended.code != 0:
        yield timed("without a fault", lambda: [f"exit code {ended.code}: {ended.last_line}"])
        return
    events = log.read_text().splitlines()
    possible = [k for k, event in enumerate(events, 1) if action is kill or not event.startswith("sql ")]
    chosen = _chosen(events, possible, bench.step * sparse, max(bench.step // 4, 1))

    def problems(k: int) -> list[str]:
        ready()
        found: list[str] = []
        with looking(bench, found) if is_served else nullcontext():
            ended = bench.launcher.run(command, bench.store, k, action)
        if action is not kill:
            found += plain_failure(ended, "the run")
        if action is kill and ended.code not in (0, -signal.SIGKILL):
            found.append(f"the run ends with exit code {ended.code}: {ended.last_line}")
        return found + bench.left_behind() + (after or bench.after)()

    for k in _spread(chosen):
        if bench.is_over():
            return
        yield timed(f"before event {k} of {len(events)}: {events[k - 1]}", partial(problems, k),
                    len(possible))


def _chosen(events: Sequence[str], possible: Sequence[int], step: int, dense_step: int) -> list[int]:
    """Of the possible events every `step`-th, and of those of a promotion every `dense_step`-th."""
    dense = [k for k in possible if any(word in events[k - 1] for word in _DENSE)]
    return sorted({*possible[::step], *dense[::dense_step]})


def _spread(numbers: Sequence[int]) -> list[int]:
    """The numbers in an order that covers their range early, for a sweep that its budget ends."""
    n = 1
    while n < len(numbers):
        n *= 2
    return [numbers[idx] for idx in (int(f"{position:0{max(n.bit_length() - 1, 1)}b}"[::-1], 2)
                                     for position in range(n)) if idx < len(numbers)]
