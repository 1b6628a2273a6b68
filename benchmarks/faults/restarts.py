"""Rows of processes that are killed while they write their own files: a predictor's snapshot and decision log, and the
journal of an admission. Each goes on from what it wrote."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.faults.injection import kill
from benchmarks.faults.soundness import NAME
from benchmarks.faults.sweeps import swept_over
from benchmarks.faults.tries import Bench, Try

if TYPE_CHECKING:
    from sojourn.simulator.admission import Admission

_FROM_S, _STEP_S, _LIFETIME_S = 1_712_707_200, 3_600, 1_800
_N, _N_PARTS = 50, 3
"""Requests between two writes, and how many writes there are."""
_SNAPSHOT, _LOG, _MACHINE = "snapshot", "decisions", "admission"
_N_CORES, _N_CALLS, _N_SAVED = 8, 60, 20
"""Calls of an admission, and how many of them there are from save to save."""


def killed_snapshot(bench: Bench) -> Iterator[Try]:
    """kill -9 while a predictor writes a snapshot; a restart goes on from the latest whole one"""
    yield from _swept(bench, _snapshots, partial(_asked, bench, _snapshot_problems))


def killed_log(bench: Bench) -> Iterator[Try]:
    """kill -9 while a predictor logs decisions; all that were flushed are read, and the next session goes on"""
    yield from _swept(bench, _logs, partial(_asked, bench, _log_problems))


def killed_admission(bench: Bench) -> Iterator[Try]:
    """kill -9 of an admission with a journal; a restart has each answer that was given and goes on as without a kill"""
    def problems(store: Path, answers: list[str]) -> list[str]:
        found = bench.asked(lambda: _admission_problems(store, answers))
        bench.n_decisions += len(answers)
        bench.n_kept += 0 if found else len(answers)
        return found

    yield from _swept(bench, _admissions, problems)


def _swept(bench: Bench, write: Callable[[Path, Path], None], problems: Callable[[Path, list[str]], list[str]]
           ) -> Iterator[Try]:
    """problems: of the store, and of the lines that were written to the second argument of `write`."""
    returned = bench.folder / "returned.txt"  # outside the store: no event
    bench.promoted()

    def ready() -> None:
        returned.unlink(missing_ok=True)
        for folder in (bench.store / _SNAPSHOT, bench.store / _LOG, bench.store / _MACHINE, *_temporary(bench.store)):
            shutil.rmtree(folder, ignore_errors=True)

    def after() -> list[str]:
        return problems(bench.store, returned.read_text().splitlines() if returned.exists() else [])

    yield from swept_over(bench, ready, lambda: write(bench.store, returned), kill, after=after, is_served=False)


def _asked(bench: Bench, problems: Callable[[Path, int], list[str]], store: Path, written: list[str]) -> list[str]:
    return bench.asked(lambda: problems(store, len(written)))


def _snapshots(store: Path, returned: Path) -> None:
    from sojourn.serving import Predictor

    predictor = Predictor.load(store / "bundles" / NAME)
    for part in range(_N_PARTS):
        for number in range(part * _N, (part + 1) * _N):
            predictor.admit({}, _FROM_S + number * _STEP_S)
        predictor.snapshot(store / _SNAPSHOT)
        with returned.open("a") as file:
            file.write(".\n")


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
            file.write(".\n")
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
    from sojourn.serving.decisions import read_log

    log = read_log(store / _LOG)
    wrong = {"half-written": log.skipped.n_places, "lost": log.n_lost, "unnamed": log.n_unnamed,
             "missing": log.n_missing}
    return sum(len(block.number) for block in log.decisions), [f"{n} {what}" for what, n in wrong.items() if n]


def _admissions(store: Path, returned: Path) -> None:
    from sojourn.simulator.admission import Admission

    with Admission.open(store / _MACHINE, _N_CORES, is_backfilling=True) as machine:
        for number in range(_N_CALLS):
            answer = _called(machine, number)
            with returned.open("a") as file:
                file.write(f"{answer}\n")
            if (number + 1) % _N_SAVED == 0:
                machine.save(store / _MACHINE)


def _called(machine: Admission, number: int) -> str:
    """The answer to the call of a number, which its number and the machine's state decide: two in three are offers."""
    from sojourn.simulator.admission import OfferedJob

    at_s = 600 * number
    running = machine.running(at_s)
    if number % 3 == 2 and running:
        job = running[number % len(running)]
        if number % 2:
            moved = machine.extended(job.name, job.end_s + 300, at_s)
        else:
            moved = (machine.ended if job.start_s <= at_s else machine.cancel)(job.name, at_s)
        return json.dumps([[each.name, each.start_s, each.end_s, each.cores] for each in moved])
    processing_s = 1_800 + 700 * (number % 5)
    answer = machine.offer(OfferedJob(at_s, processing_s, 1 + number % 4, at_s + 3 * processing_s, f"job-{number}"))
    return json.dumps([answer.is_accepted, answer.start_s, answer.cores, answer.reason, answer.counter_offer_s])


def _admission_problems(store: Path, answers: list[str]) -> list[str]:
    """What differs from a machine that was never killed; the call that was cut may or may not have had its effect."""
    from sojourn.simulator.admission import Admission

    folder, n = store / _MACHINE, len(answers)
    whole = Admission(_N_CORES, is_backfilling=True)
    try:
        with Admission.open(folder, _N_CORES, is_backfilling=True) as machine:
            found = [f"the answer to call {number} is another one" for number in range(n)
                     if _called(whole, number) != answers[number]]
            if _state(machine) != _state(whole) and n < _N_CALLS:
                _called(whole, n)
                n += 1
            if _state(machine) != _state(whole):
                found.append(f"{len(answers)} answers were given, and a restart has not all of them")
            else:
                found += [f"a restart answers call {number} otherwise" for number in range(n, _N_CALLS + _N_SAVED)
                          if _called(machine, number) != _called(whole, number)]
            for path in _temporary(store):
                os.utime(path, (0, 0))  # a save removes what is an hour old
            machine.save(folder)
        if _state(Admission.load(folder)) != _state(whole):
            found.append("what is saved after a restart is another state")
    except (ValueError, OSError) as error:
        return [f"the restart fails: {str(error)[:100]}"]
    return found + [f"left behind: {path.name}" for path in _temporary(store)]


def _temporary(store: Path) -> list[Path]:
    """The folders that killed saves of an admission left."""
    return sorted(store.glob(f".{_MACHINE}.*.*"))


def _state(machine: Admission) -> tuple[object, ...]:
    return machine.now_s, machine.n_offered, machine.n_accepted, machine.running()
