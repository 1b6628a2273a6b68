"""Rows of two processes on one store: a run that is overtaken, first runs at once, a database that is held."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial

from benchmarks.faults.injection import kill, stop
from benchmarks.faults.launcher import Ended
from benchmarks.faults.looks import looking
from benchmarks.faults.tries import FIRST, KILLED, NEXT, Bench, Try, plain_failure, timed

OFFSETS_S = (0.0, 1.0, 2.0, 4.0)


def overtaken(bench: Bench) -> Iterator[Try]:
    """Retrain A halts at an event, retrain B is refused; A goes on, and B runs whole"""
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
        second = bench.launcher.start(bench.retrain(NEXT), bench.store).wait()
        first.go_on()
        return _refused(second, first.pid) + plain_failure(first.wait(), "run A") + bench.after(NEXT)

    for name, k in stages:
        if k == 0 or bench.is_over():
            continue
        yield timed(f"halted at {name}", partial(problems, k))


def at_once(bench: Bench) -> Iterator[Try]:
    """Two first runs of a new store, begun 0 to 4 s apart; of two retrains at once one is refused"""
    def problems(commands: Sequence[Sequence[str]], offset_s: float) -> list[str]:
        bench.empty()
        started = []
        for command in commands:
            started.append(bench.launcher.start(command, bench.store))
            time.sleep(offset_s)
        ended = [run.wait() for run in started]
        found = [f"{command[0]} ends with exit code {run.code}: {run.last_line}"
                 for command, run in zip(commands, ended, strict=True) if run.code != 0 and _refused(run)]
        return found or (bench.unsound() if any(run.code == 0 for run in ended) else ["no run ends well"])

    pairs = ((bench.retrain(KILLED), bench.retrain(NEXT)), (bench.retrain(KILLED), bench.compare()))
    for offset_s in OFFSETS_S:
        for commands in pairs:
            if bench.is_over():
                return
            yield timed(f"{commands[0][0]} and {commands[1][0]}, {offset_s:g} s apart",
                        partial(problems, commands, offset_s))


def two_hosts(bench: Bench) -> Iterator[Try]:
    """Retrains of two hosts, by name, on one store: one halts, and the other is refused; one is killed, and it runs"""
    def halted() -> list[str]:
        bench.promoted()
        first = bench.launcher.start(bench.retrain(KILLED), bench.store, "INSERT INTO metrics", stop, host="one")
        if not first.wait_until_stopped():
            return [f"run A ended before it was halted: {first.printed()[-200:]}"]
        second = bench.launcher.start(bench.retrain(NEXT), bench.store, host="two").wait()
        with closing(sqlite3.connect(f"{(bench.store / 'mlflow.db').as_uri()}?mode=ro", uri=True)) as database:
            n = database.execute("SELECT count(*) FROM runs WHERE status = 'KILLED'").fetchone()[0]
        first.go_on()
        found = [f"{n} runs of the living process were ended"] if n else []
        return found + _refused(second, first.pid, " on one") + plain_failure(first.wait(), "run A") + bench.after(NEXT)

    def killed() -> list[str]:
        bench.promoted()
        found: list[str] = []
        with looking(bench, found):
            bench.launcher.start(bench.retrain(KILLED), bench.store, "INSERT INTO metrics", kill, host="one").wait()
            second = bench.launcher.start(bench.retrain(NEXT), bench.store, host="two").wait()
        if not re.search(r"ended as KILLED: its process \d+ on one is dead", second.printed):
            found.append("the second does not say that it ended the run of host one")
        return found + plain_failure(second, "run B") + bench.unsound()

    probe = bench.launcher.start(["--version"], bench.store, host="one").wait()
    if "Operation not permitted" in probe.printed:
        yield Try("", ("not tried: it takes the right to name a host",), 0.0)
        return
    for what, problems in (("halted while it logs", halted), ("killed while it logs", killed)):
        if not bench.is_over():
            yield timed(what, problems)


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


def _refused(ended: Ended, holder: int | None = None, where: str = "") -> list[str]:
    """A retrain that finds another one at work ends with one line that names its process."""
    named = "process " if holder is None else f"process {holder}{where} ("
    if ended.code != 2 or "must have one writer at a time" not in ended.printed or named not in ended.printed:
        return [f"run B ends with exit code {ended.code}: {ended.last_line}"]
    return plain_failure(ended, "run B")
