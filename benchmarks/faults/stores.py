"""Rows of a store's upkeep: a cleaning that is killed or has no room, a clock set back, PostgreSQL restarted."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.faults.injection import disk_full, kill, stop
from benchmarks.faults.looks import looking
from benchmarks.faults.lost_servers import registered
from benchmarks.faults.sweeps import swept_over
from benchmarks.faults.tries import KILLED, NEXT, Bench, Try, timed

_MONTH_S = 30 * 86_400
_STATEMENTS = ("INSERT INTO runs", "INSERT INTO metrics", "INSERT INTO model_versions", "registered_model_aliases")
"""Of a retrain in PostgreSQL: the server is killed before the first of each."""


def cleaning(bench: Bench) -> list[str]:
    """The command that removes what only this store's champion does not need."""
    return ["clean", "--yes", "--keep-runs", "1", "--keep-caches", "0", "--store", str(bench.store)]


def killed_cleaning(bench: Bench) -> Iterator[Try]:
    """kill -9 in a cleaning that removes two versions of three and all caches"""
    yield from swept_over(bench, bench.promoted, cleaning(bench), kill)


def full_disk_cleaning(bench: Bench) -> Iterator[Try]:
    """ENOSPC before a change of a file in a cleaning"""
    yield from swept_over(bench, bench.promoted, cleaning(bench), disk_full)


def clock_back(bench: Bench) -> Iterator[Try]:
    """The clock is set back by 30 days: all files of the store are of the future"""
    def problems() -> list[str]:
        bench.promoted()
        for path in (bench.store, *bench.store.rglob("*")):
            os.utime(path, (time.time() + _MONTH_S, time.time() + _MONTH_S))
        found: list[str] = []
        with looking(bench, found):
            after = bench.after(KILLED, is_promoting=True) + bench.after(NEXT)
        return found + after

    yield timed("30 days", problems)


def restarted_postgres(bench: Bench) -> Iterator[Try]:
    """PostgreSQL is killed before a statement of a retrain, and is back 3 s later"""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    from made_postgres import PostgresServer, postgres_folder, postgres_server

    if postgres_folder() is None:
        return

    def problems(server: PostgresServer, number: int) -> list[str]:
        def away() -> None:
            server.stop(is_killed=True)
            time.sleep(3.0)
            server.start()

        return _interrupted(bench, server.new_database(f"mlflow{number}"), _STATEMENTS[number], away)

    with postgres_server() as server:
        for number, statement in enumerate(_STATEMENTS):
            if bench.is_over():
                return
            yield timed(f"at {statement}", partial(problems, server, number))


def cut_connections(bench: Bench) -> Iterator[Try]:
    """PostgreSQL ends all connections of a retrain before one of its statements"""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    from made_postgres import PostgresServer, postgres_folder, postgres_server

    if postgres_folder() is None:
        return

    def problems(server: PostgresServer, number: int) -> list[str]:
        uri = server.new_database(f"cut{number}")

        def cut() -> None:
            import psycopg

            with psycopg.connect(uri, autocommit=True) as connection:
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                   "WHERE datname = current_database() AND pid <> pg_backend_pid()")

        return _interrupted(bench, uri, _STATEMENTS[number], cut)

    with postgres_server() as server:
        for number, statement in enumerate(_STATEMENTS):
            if bench.is_over():
                return
            yield timed(f"at {statement}", partial(problems, server, number))


def _interrupted(bench: Bench, uri: str, statement: str, what: Callable[[], object]) -> list[str]:
    """A first run, and one that halts before the first such statement until `what` has happened."""
    bench.empty()
    os.environ["SOJOURN_TRACKING_URI"] = uri
    found: list[str] = []
    try:
        bench.launcher.run(bench.retrain(NEXT), bench.store)
        with looking(bench, found):
            run = bench.launcher.start(bench.retrain(KILLED), bench.store, statement, stop)
            if not run.wait_until_stopped():
                return [*found, f"the run ended before the statement: {run.printed()[-200:]}"]
            what()
            run.go_on()
            ended = run.wait()
        if ended.code != 0:
            found.append(f"the run ends with exit code {ended.code}: {ended.last_line}")
        return found + bench.asked(partial(registered, bench.store))  # the server itself is left, as it should be
    finally:
        del os.environ["SOJOURN_TRACKING_URI"]
