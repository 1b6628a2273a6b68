"""Rows of two processes on one store: a run that is overtaken, first runs at once, a database that is held."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial

from benchmarks.faults.injection import stop
from benchmarks.faults.tries import FIRST, KILLED, NEXT, Bench, Try, plain_failure, timed

OFFSETS_S = (0.0, 1.0, 2.0, 4.0)


def overtaken(bench: Bench) -> Iterator[Try]:
    """Run A halts at an event, run B runs whole, A goes on"""
    bench.promoted()
    log = bench.folder / "events.txt"
    log.unlink(missing_ok=True)
    bench.launcher.run(bench.retrain(KILLED), bench.store, log=log)
    events = log.read_text().splitlines()
    stages = [(name, next((k for k, event in enumerate(events, 1) if re.search(pattern, event)), 0))
              for name, pattern in (
        ("its figures", r"\.png|artifact\.uploading"), ("its first row in MLflow", "INSERT INTO runs"),
        ("its version", "INSERT INTO model_versions"), ("its alias", "registered_model_aliases"))]  # fmt: skip

    def problems(k: int) -> list[str]:
        bench.promoted()
        first = bench.launcher.start(bench.retrain(KILLED), bench.store, k, stop)
        if not first.wait_until_stopped():
            return ["run A ended before it was halted"]
        second = bench.launcher.start(bench.retrain(NEXT), bench.store)
        second.ends_within(60.0)  # or it waits for what A holds
        first.go_on()
        return _both_ended(first.wait().code, second.wait().code) + bench.unsound()

    for name, k in stages:
        if k == 0 or bench.is_over():
            continue
        yield timed(f"halted at {name}", partial(problems, k))


def at_once(bench: Bench) -> Iterator[Try]:
    """Two first runs of a new store, begun 0 to 4 s apart"""
    def problems(commands: Sequence[Sequence[str]], offset_s: float) -> list[str]:
        bench.empty()
        started = []
        for command in commands:
            started.append(bench.launcher.start(command, bench.store))
            time.sleep(offset_s)
        ended = [run.wait() for run in started]
        found = [f"{command[0]} ends with exit code {run.code}: {run.last_line}"
                 for command, run in zip(commands, ended, strict=True) if run.code != 0]
        return found or bench.unsound()

    pairs = ((bench.retrain(KILLED), bench.retrain(NEXT)), (bench.retrain(KILLED), bench.compare()))
    for offset_s in OFFSETS_S:
        for commands in pairs:
            if bench.is_over():
                return
            yield timed(f"{commands[0][0]} and {commands[1][0]}, {offset_s:g} s apart",
                        partial(problems, commands, offset_s))


def held_database(bench: Bench) -> Iterator[Try]:
    """Another program holds MLflow's database"""
    def problems(held_s: float) -> list[str]:
        bench.promoted()
        with closing(sqlite3.connect(bench.store / "mlflow.db", isolation_level=None)) as database:
            database.execute("BEGIN EXCLUSIVE")
            run = bench.launcher.start(bench.retrain(KILLED), bench.store)
            time.sleep(held_s)
            database.execute("ROLLBACK")
        return plain_failure(run.wait(), "the run") + bench.after(FIRST)

    for held_s in (3.0, 30.0):
        if not bench.is_over():
            yield timed(f"for {held_s:g} s", partial(problems, held_s))


def _both_ended(*codes: int) -> list[str]:
    return [f"run {name} ends with exit code {code}" for name, code in zip("AB", codes, strict=True) if code != 0]
