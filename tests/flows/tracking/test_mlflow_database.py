"""MLflow's database is there whole or not at all: killed, beside another, on a full disk, old, newer, broken."""

from __future__ import annotations

import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from made_store import another_process
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.store.lock import store_lock
from sojourn.flows.tracking import databases as mlflow_database
from sojourn.flows.tracking.databases import check_database, ready_database, ready_trials, tables_of
from sojourn.flows.tracking.tracker import Tracker

KILLED_WITHIN = """
import os, signal
from pathlib import Path
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sojourn.flows.tracking.databases import {make}

@event.listens_for(Engine, "before_cursor_execute")
def each(connection, cursor, statement, *rest):
    if {part!r} in statement:
        os.kill(os.getpid(), signal.SIGKILL)

{make}({arguments})
"""


def _left(store: Path) -> list[str]:
    return sorted(path.name for path in store.iterdir() if path.name not in ("store.lock", "use.lock"))


def _killed_within(part: str, make: str, arguments: str) -> None:
    code = KILLED_WITHIN.format(part=part, make=make, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.slow
def test_a_kill_within_the_first_migration_costs_the_next_run_nothing(tmp_path: Path) -> None:
    _killed_within("_alembic_tmp_", "ready_database",
                   f"Path({str(tmp_path / 'mlflow.db')!r}), Path({str(tmp_path / 'artifacts')!r})")
    assert not (tmp_path / "mlflow.db").exists()
    tracker = Tracker(TrackingUri.of_file(tmp_path / "mlflow.db"), tmp_path / "artifacts")
    tracker.end(tracker.start("run", {}))


def test_a_kill_while_optuna_makes_its_tables_costs_nothing(tmp_path: Path) -> None:
    _killed_within("CREATE TABLE trials", "ready_trials", f"Path({str(tmp_path)!r})")
    assert not (tmp_path / "optuna.db").exists()
    assert "alembic_version" in tables_of(ready_trials(tmp_path))


def test_two_that_begin_at_once_make_it_once(tmp_path: Path, empty_database: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    both = threading.Barrier(2)
    is_current = mlflow_database._is_current

    def looked(file: Path) -> bool:
        found = is_current(file)
        if not made and not found and threading.current_thread().name.startswith("pool"):
            threading.current_thread().name = "met"
            both.wait(60)  # neither has found a database
        return found

    def make(file: Path, artifacts: Path) -> None:
        made.append(shutil.copy(empty_database, file))

    monkeypatch.setattr(mlflow_database, "_is_current", looked)
    monkeypatch.setattr(mlflow_database, "_make", make)
    with ThreadPoolExecutor(2, "pool") as pool:
        for done in [pool.submit(ready_database, tmp_path / "mlflow.db", tmp_path) for _ in range(2)]:
            done.result()
    assert len(made) == 1
    assert _left(tmp_path) == ["mlflow.db"]


def _limit() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file may not grow past this: a write fails, as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))


@pytest.mark.slow
def test_a_full_disk_leaves_nothing_half_made(tmp_path: Path) -> None:
    code = ("from pathlib import Path; from sojourn.flows.tracking.databases import ready_database; "
            f"ready_database(Path({str(tmp_path / 'mlflow.db')!r}), Path({str(tmp_path)!r}))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
                          preexec_fn=_limit)
    assert done.returncode == 1
    assert f"OSError: {tmp_path / 'mlflow.db'} must be made before it is opened, got " in done.stderr
    assert _left(tmp_path) == []


def test_an_empty_file_is_no_database_yet(tmp_path: Path, empty_database: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mlflow.db"
    file.touch()  # as SQLite leaves it when it is killed before its first statement
    monkeypatch.setattr(mlflow_database, "_make", lambda made, artifacts: shutil.copy(empty_database, made))
    ready_database(file, tmp_path)
    assert "experiments" in tables_of(file)


@pytest.mark.parametrize(("damage", "message"), [
    ("CREATE TABLE _alembic_tmp_runs (x)", "must be a whole MLflow database, got one whose making or upgrade was cut"),
    ("DELETE FROM alembic_version", "must be a whole MLflow database, got one whose making or upgrade was cut off"),
    ("UPDATE alembic_version SET version_num = 'f00d'", "got f00d: a newer MLflow wrote it"),
])
def test_what_is_not_whole_is_named_and_left_alone(new_store: Callable[[Path], Path], tmp_path: Path, damage: str,
                                                   message: str) -> None:
    file = new_store(tmp_path) / "mlflow.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute(damage)
        database.commit()
    before = file.read_bytes()
    with pytest.raises(OSError, match=message):
        ready_database(file, tmp_path)
    assert file.read_bytes() == before
    assert _left(tmp_path) == ["mlflow.db"]


def test_what_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_bytes(b"not a database" * 1_000)
    with pytest.raises(OSError, match=r"mlflow\.db must be an SQLite database, got file is not a database"):
        ready_database(tmp_path / "mlflow.db", tmp_path)


@pytest.fixture(scope="module")
def old_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one run, of the schema of some versions ago."""
    from alembic import command
    from mlflow.store.db.utils import _get_alembic_config, create_sqlalchemy_engine_with_retry
    from mlflow.store.tracking.dbmodels.initial_models import Base

    file = tmp_path_factory.mktemp("old") / "mlflow.db"
    engine = create_sqlalchemy_engine_with_retry(f"sqlite:///{file}")  # type: ignore[no-untyped-call]
    Base.metadata.create_all(engine)
    config = _get_alembic_config(str(engine.url))  # type: ignore[no-untyped-call]
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, mlflow_database._known_revisions()[3])
    engine.dispose()
    with closing(sqlite3.connect(file)) as database:
        database.execute("INSERT INTO experiments (experiment_id, name, lifecycle_stage) VALUES (7, 'kept', 'active')")
        database.commit()
    return file


@pytest.mark.slow
def test_an_older_schema_is_upgraded_on_a_copy(old_database: Path, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mlflow.db"
    shutil.copy(old_database, file)
    before = file.read_bytes()

    def fail(made: Path) -> None:
        migrate(made)
        raise RuntimeError("no space left")

    migrate = mlflow_database._migrate
    with monkeypatch.context() as patched:
        patched.setattr(mlflow_database, "_migrate", fail)
        with pytest.raises(OSError, match=r"must be upgraded from schema .* to .*, got no space left"):
            ready_database(file, tmp_path)
    assert file.read_bytes() == before
    assert _left(tmp_path) == ["mlflow.db"]
    with another_process(tmp_path), \
            pytest.raises(OSError, match="must be upgraded while no other process uses the store, got one that does"):
        ready_database(file, tmp_path)
    ready_database(file, tmp_path)
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT name FROM experiments WHERE experiment_id = 7").fetchall() == [("kept",)]
    old = mlflow_database._known_revisions()[3]
    assert _left(tmp_path) == ["mlflow.db", f"mlflow.db.{old}"]
    assert (tmp_path / f"mlflow.db.{old}").read_bytes() == before
    Tracker(TrackingUri.of_file(file), tmp_path / "artifacts")


def test_who_reads_waits_for_who_makes(tmp_path: Path, empty_database: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no store at .*none: `sojourn train`, .* makes one"):
        check_database(tmp_path / "none" / "mlflow.db")
    assert not (tmp_path / "none").exists()
    with ThreadPoolExecutor(1) as pool:
        with store_lock(tmp_path):
            found = pool.submit(check_database, tmp_path / "mlflow.db")
            shutil.copy(empty_database, tmp_path / "copied")
            (tmp_path / "copied").rename(tmp_path / "mlflow.db")  # whole at once, as `ready_database` does it
        found.result(60)  # it raises nothing
