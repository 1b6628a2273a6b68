"""Rows of a predictor's own files: a snapshot of its history and its decision log, each killed while it is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.faults.injection import kill
from benchmarks.faults.soundness import NAME
from benchmarks.faults.sweeps import swept_over
from benchmarks.faults.tries import Bench, Try

_FROM_S, _STEP_S, _LIFETIME_S = 100 * 86_400, 3_600, 1_800
_N, _N_PARTS = 50, 3
"""Requests between two writes, and how many writes there are."""
_SNAPSHOT, _LOG = "snapshot", "decisions"


def killed_snapshot(bench: Bench) -> Iterator[Try]:
    """kill -9 while a predictor writes a snapshot; a restart goes on from the latest whole one"""
    yield from _swept(bench, _snapshots, _snapshot_problems)


def killed_log(bench: Bench) -> Iterator[Try]:
    """kill -9 while a predictor logs decisions; all that were flushed are read, and the next session goes on"""
    yield from _swept(bench, _logs, _log_problems)


def _swept(bench: Bench, write: Callable[[Path, Path], None], problems: Callable[[Path, int], list[str]]
           ) -> Iterator[Try]:
    returned = bench.folder / "returned.txt"  # outside the store: no event
    bench.promoted()

    def ready() -> None:
        returned.unlink(missing_ok=True)
        for folder in (_SNAPSHOT, _LOG):
            shutil.rmtree(bench.store / folder, ignore_errors=True)

    def after() -> list[str]:
        n = len(returned.read_text()) if returned.exists() else 0
        return bench.asked(lambda: problems(bench.store, n))

    yield from swept_over(bench, ready, lambda: write(bench.store, returned), kill, after=after, is_served=False)


def _snapshots(store: Path, returned: Path) -> None:
    from sojourn.serving import Predictor

    predictor = Predictor.load(store / "bundles" / NAME)
    for part in range(_N_PARTS):
        for number in range(part * _N, (part + 1) * _N):
            predictor.admit({}, _FROM_S + number * _STEP_S)
        predictor.snapshot(store / _SNAPSHOT)
        with returned.open("a") as file:
            file.write(".")


def _snapshot_problems(store: Path, n_returned: int) -> list[str]:
    from sojourn.serving import Predictor, SnapshotError

    folder = store / _SNAPSHOT
    try:
        predictor = Predictor.load(store / "bundles" / NAME, history=folder)
        n_running = len(predictor.running())
        found = [] if n_running in (n_returned * _N, (n_returned + 1) * _N) else [
            f"{n_returned} snapshots were written, and {n_running} requests run after a restart"]
        predictor.admit({}, _FROM_S + _N_PARTS * _N * _STEP_S)
        predictor.snapshot(folder)
        again = len(Predictor.load(store / "bundles" / NAME, history=folder).running())
    except (SnapshotError, OSError) as error:
        return [f"the restart fails: {str(error)[:100]}"]
    if again != n_running + 1:
        found.append(f"{n_running + 1} requests ran at the next snapshot, {again} after a restart")
    return found + [f"left behind: {path.name}" for path in folder.iterdir() if path.name.startswith(".")]


def _logs(store: Path, returned: Path) -> None:
    from sojourn.serving import Predictor

    predictor = Predictor.load(store / "bundles" / NAME)
    for part in range(_N_PARTS):
        predictor.log_to(store / _LOG, flush_s=3_600.0)  # each begins a file
        for number in range(part * _N, (part + 1) * _N):
            predictor.ended(predictor.admit({}, _FROM_S + number * _STEP_S), _FROM_S + number * _STEP_S + _LIFETIME_S)
        if not predictor.flush_decisions():
            raise OSError("decisions must be flushed")
        with returned.open("a") as file:
            file.write(".")
    predictor.stop_logging()


def _log_problems(store: Path, n_returned: int) -> list[str]:
    from sojourn.serving import Predictor

    n_before, found = _n_logged(store)
    if not n_returned * _N <= n_before <= (n_returned + 1) * _N:
        found.append(f"{n_returned * _N} decisions were flushed, and {n_before} are read")
    predictor = Predictor.load(store / "bundles" / NAME)
    predictor.log_to(store / _LOG, flush_s=3_600.0)
    predictor.admit({}, _FROM_S + _N_PARTS * _N * _STEP_S)
    predictor.stop_logging()
    n_after, more = _n_logged(store)
    if n_after != n_before + 1:
        found.append(f"{n_before} decisions and one more are logged, and {n_after} are read")
    return found + more


def _n_logged(store: Path) -> tuple[int, list[str]]:
    """How many decisions a log holds, and what is wrong with it."""
    from sojourn.serving.decisions.log_reader import read_log

    log = read_log(store / _LOG)
    wrong = {"half-written": log.skipped.n_places, "lost": log.n_lost, "unnamed": log.n_unnamed,
             "missing": log.n_missing}
    return sum(len(block.number) for block in log.decisions), [f"{n} {what}" for what, n in wrong.items() if n]
