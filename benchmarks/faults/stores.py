"""Rows of a store's upkeep: a sweep that is killed or has no room, a clock that is set back, PostgreSQL restarted."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.faults.injection import disk_full, kill
from benchmarks.faults.sweeps import swept_over
from benchmarks.faults.tries import KILLED, NEXT, Bench, Try, timed

_MONTH_S = 30 * 86_400
_STATEMENTS = ("INSERT INTO runs", "INSERT INTO metrics", "INSERT INTO model_versions", "registered_model_aliases")
"""Of a retrain in PostgreSQL: the server is killed before the first of each."""


def _command(bench: Bench) -> list[str]:
    return ["sweep", "--yes", "--keep-runs", "1", "--keep-caches", "0", "--store", str(bench.store)]


def killed_sweep(bench: Bench) -> Iterator[Try]:
    """kill -9 in a sweep that removes two versions of three and all caches"""
    yield from swept_over(bench, bench.promoted, _command(bench), kill)


def full_disk_sweep(bench: Bench) -> Iterator[Try]:
    """ENOSPC before a change of a file in a sweep"""
    yield from swept_over(bench, bench.promoted, _command(bench), disk_full)


def clock_back(bench: Bench) -> Iterator[Try]:
    """The clock is set back by 30 days: all files of the store are of the future"""
    def problems() -> list[str]:
        bench.promoted()
        for path in (bench.store, *bench.store.rglob("*")):
            os.utime(path, (time.time() + _MONTH_S, time.time() + _MONTH_S))
        return bench.after(KILLED, is_promoting=True) + bench.after(NEXT)

    yield timed("30 days", problems)


def restarted_postgres(bench: Bench) -> Iterator[Try]:
    """PostgreSQL is killed before a statement of a retrain, and is back 3 s later"""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    from made_postgres import PostgresServer, postgres_folder, postgres_server

    if postgres_folder() is None:
        return

    def problems(server: PostgresServer, number: int) -> list[str]:
        bench.empty()
        os.environ["SOJOURN_TRACKING_URI"] = server.new_database(f"mlflow{number}")
        try:
            bench.launcher.run(bench.retrain(NEXT), bench.store)
            log = bench.folder / "events.txt"
            log.unlink(missing_ok=True)
            run = bench.launcher.start(bench.retrain(KILLED), bench.store, log=log)
            while _STATEMENTS[number] not in (log.read_text() if log.exists() else "") and not run.ends_within(0.02):
                pass
            server.stop(is_killed=True)
            time.sleep(3.0)
            server.start()
            ended = run.wait()
            found = [] if ended.code == 0 else [f"the run ends with exit code {ended.code}: {ended.last_line}"]
            return found + bench.asked(partial(_registered, bench.store))  # the server itself is left, as it should be
        finally:
            del os.environ["SOJOURN_TRACKING_URI"]

    with postgres_server() as server:
        for number, statement in enumerate(_STATEMENTS):
            if bench.is_over():
                return
            yield timed(f"at {statement}", partial(problems, server, number))


def _registered(store: Path) -> list[str]:
    """What does not hold after the run: two versions, the later one champion and served, and no run under way."""
    from benchmarks.faults.soundness import NAME, served_problems

    from sojourn.flows.config import TraceSettings
    from sojourn.flows.outside.tracking import CHAMPION
    from sojourn.flows.versions.bundle_bytes import BundleBytes, read_sha256
    from sojourn.flows.versions.reading import read_store

    tracker = read_store(TraceSettings(store=store))
    found = served_problems(store / "bundles" / NAME)
    if (versions := tracker.versions(NAME)) != [1, 2]:
        return [*found, f"the versions are {versions}"]
    if (champion := tracker.version_of(NAME, CHAMPION)) != 2:
        found.append(f"the champion is {champion}")
    held = BundleBytes.read(tracker.fetch(NAME, 2, store.parent / "looked" / str(time.monotonic_ns())))
    if held.sha256 != read_sha256(store / "bundles" / NAME):
        found.append("the folder that is served is not the champion")
    return found + [f"run {run} is RUNNING" for run in tracker.running()]
