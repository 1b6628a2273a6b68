"""Rows of schedules: a run or its worker that is killed, a Prefect server that is restarted, what is refused.

A schedule is a real one, `sojourn model schedule` each minute, on the Prefect server of the bench.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
from benchmarks.faults.launcher import Started
from benchmarks.faults.looks import looking
from benchmarks.faults.soundness import NAME
from benchmarks.faults.tries import KILLED, Bench, Try, timed

_WITHIN_S = 400.0


class _NotSeen(Exception):
    """What was waited for did not come."""


def killed_scheduled_run(bench: Bench) -> Iterator[Try]:
    """kill -9 of a scheduled run, or of `sojourn model schedule` with its run; the next scheduled run finishes"""
    moments: tuple[tuple[str, Callable[[Bench], object], bool], ...] = (
        ("a run while it trains", _is_running, False),
        ("a run while it promotes", _is_promoting, False),
        ("the schedule with its run while it trains", _is_running, True),
    )
    for what, moment, is_whole in moments:
        if not bench.is_over():
            yield timed(what, partial(_after_a_kill, bench, moment, is_whole))


def _after_a_kill(bench: Bench, moment: Callable[[Bench], object], is_whole: bool) -> list[str]:
    bench.promoted()
    found: list[str] = []
    with looking(bench, found), suppress_unseen(found):
        with scheduled(bench) as first:
            _await(lambda: moment(bench), "a scheduled run", _WITHIN_S)
            killed_s = time.time()
            for process in _family(first) if is_whole else _family(first)[1:]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            if not is_whole:
                _await(lambda: _n_runs(bench, "FINISHED", killed_s), "the next run", _WITHIN_S)
        if is_whole:
            with scheduled(bench):
                _await(lambda: _n_runs(bench, "FINISHED", killed_s), "the next run", _WITHIN_S)
    return found + bench.after()


def restarted_prefect(bench: Bench) -> Iterator[Try]:
    """kill -9 of the Prefect server in a scheduled run; the server is started 5 s later, and the next run finishes"""
    def problems() -> list[str]:
        bench.promoted()
        found: list[str] = []
        with looking(bench, found), suppress_unseen(found), scheduled(bench):
            _await(lambda: _is_running(bench), "a scheduled run", _WITHIN_S)
            bench.launcher.restart_server(5.0)
            back = time.time()
            _await(lambda: _n_runs(bench, "FINISHED", back) > 0, "a run that began afterwards", _WITHIN_S)
        return found + bench.after()

    yield timed("while it trains", problems)


def never_fires(bench: Bench) -> Iterator[Try]:
    """A schedule that never fires: `0 0 31 2 *`"""
    def problems() -> list[str]:
        bench.empty()
        ended = bench.launcher.run(_schedule(bench, "0 0 31 2 *"), bench.store)
        found = _refused(ended.code, ended.printed, "cron must fire at some time, got '0 0 31 2 *'")
        return found + (["a store is made"] if bench.store.exists() else [])

    yield timed("31 February", problems)


def two_schedules(bench: Bench) -> Iterator[Try]:
    """Two schedules of one model in one store; then the first is killed, and a third begins"""
    def problems() -> list[str]:
        bench.promoted()
        found: list[str] = []
        with suppress_unseen(found):
            with scheduled(bench) as first:
                second = bench.launcher.run(_schedule(bench), bench.store)
                found += _refused(second.code, second.printed,
                                  f"must have one schedule in a store, got a second one: stop process {first.pid}")
                if first.ends_within(0.1):
                    found.append("the first one ended")
                for process in _family(first):
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
            with scheduled(bench):
                pass
        return found + bench.after(KILLED)

    yield timed("the second one, and a third", problems)


@contextmanager
def scheduled(bench: Bench) -> Iterator[Started]:
    """A schedule that stands; it is ended as Ctrl-C does, unless it was killed."""
    process = bench.launcher.start(_schedule(bench), bench.store)
    bench.launcher.spared.add(process.pid)
    try:
        _await(lambda: "server    " in process.printed() or process.ends_within(0.0), "a schedule", _WITHIN_S)
        yield process
    finally:
        if not process.ends_within(0.0):
            os.kill(process.pid, signal.SIGTERM)
        if not process.ends_within(60.0):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        bench.launcher.spared.discard(process.pid)


@contextmanager
def suppress_unseen(found: list[str]) -> Iterator[None]:
    """What was waited for and did not come is a problem, and ends the try."""
    try:
        yield
    except _NotSeen as error:
        found.append(str(error))


def _schedule(bench: Bench, cron: str = "* * * * *") -> list[str]:
    """The command of a schedule, each minute; its runs are those of `Bench.retrain`, trained anew each time."""
    file = bench.settings(KILLED, "again = true")
    return ["model", "schedule", "--cron", cron, "--config", str(file), "--store", str(bench.store)]


def _refused(code: int, printed: str, rule: str) -> list[str]:
    found = [] if code == 2 else [f"it ends with exit code {code}"]
    if "Traceback" in printed or len([line for line in printed.splitlines() if line.strip()]) != 1:
        found.append("it prints more than a line")
    return found + ([] if rule in printed else [f"it does not say: {rule}"])


def _await(what: Callable[[], object], name: str, limit_s: float) -> None:
    ends_s = time.monotonic() + limit_s
    while not what():
        if time.monotonic() > ends_s:
            raise _NotSeen(f"{name} is waited for in vain for {limit_s:.0f} s")
        time.sleep(0.005)


def _family(schedule: Started) -> list[psutil.Process]:
    """A schedule's process, then those of its run."""
    try:
        own = psutil.Process(schedule.pid)
        return [own, *own.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _is_running(bench: Bench) -> bool:
    return _n_runs(bench, "RUNNING") > 0


def _is_promoting(bench: Bench) -> bool:
    return any((bench.store / "promotions").glob("[!.]*.json"))


def _n_runs(bench: Bench, status: str, since_s: float = 0.0) -> int:
    """How many retrains of the store have this status, of those that began after `since_s`."""
    database: Path = bench.store / "mlflow.db"
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=60.0)) as connection:
        return int(connection.execute(
            "SELECT count(*) FROM runs r JOIN tags t ON t.run_uuid = r.run_uuid AND t.key = 'model' AND t.value = ? "
            "WHERE r.status = ? AND r.start_time > ?", (NAME, status, since_s * 1_000)).fetchone()[0])
