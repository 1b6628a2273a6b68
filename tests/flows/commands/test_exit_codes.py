"""What commands end with: a challenger, a missing trace, a port in use, Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from made_bundles import make
from made_program import OF_PIPELINE, run_without
from sojourn.flows.cli import app
from sojourn.flows.commands.options import ALARM, CHALLENGER, INTERRUPTED, REFUSED
from sojourn.flows.tracking.databases import ready_database


@pytest.mark.parametrize(("alias", "code"), [("champion", 0), ("challenger", CHALLENGER), ("", CHALLENGER)])
@pytest.mark.parametrize("command", ["train", "usage train"])
def test_a_version_that_is_not_champion_ends_with_3(alias: str, code: int, command: str, tmp_path: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    done = SimpleNamespace(promotion=SimpleNamespace(alias=alias))
    place = "usage.train_usage.train_usage" if " " in command else "retrain.job.retrain"
    monkeypatch.setattr(f"sojourn.flows.{place}", lambda settings: done)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    arguments = [*command.split(), "--store", str(tmp_path),
                 *(["made", "--usage-reader", "synthetic"] if " " in command else [])]
    assert CliRunner().invoke(app, arguments).exit_code == code


@pytest.mark.parametrize(("is_open", "code"), [(True, ALARM), (False, 0)])
def test_an_alarm_that_nobody_answered_ends_with_4(is_open: bool, code: int, tmp_path: Path,
                                                   new_store: Callable[[Path], Path],
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.flows.monitor.job.monitor", lambda settings: SimpleNamespace(is_open=is_open))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    store = new_store(tmp_path / "store")
    words = ["model", "monitor", "sojourn-lifetime", "--log", str(tmp_path), "--store", str(store)]
    assert CliRunner().invoke(app, words).exit_code == code


@pytest.mark.parametrize("command", ["train --reader swf", "lab evaluate", "gain", "lab admit", "trace describe",
                                     "check", "trace convert", "usage describe"])
def test_a_trace_that_is_not_there_is_named(command: str, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    done = CliRunner().invoke(app, [*command.split(), gone])
    assert (done.exit_code, done.stderr) == (REFUSED, f"error: trace must be a file or folder, got {gone!r}\n")


@pytest.mark.parametrize("database", [None, "runs.db"])
@pytest.mark.parametrize("command", ["model list", "model show m", "store status", "model monitor m --log log",
                                     "store clean", "store ui",
                                     "model rollback m --to 1 --why w", "model promote m 1 --why w",
                                     "model pull models:/m@champion out"])
def test_a_command_that_reads_makes_no_store(command: str, database: str | None, tmp_path: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    monkeypatch.setattr("os.execve", lambda *_: pytest.fail("the server must not be started"))
    (tmp_path / "mine").mkdir()  # a folder that is no store stays as it is
    if database is not None:
        monkeypatch.setenv("SOJOURN_TRACKING_URI", f"sqlite:///{tmp_path / database}")
    for store in ("mine", "gone"):
        done = CliRunner().invoke(app, [*command.split(), "--store", store])
        assert done.exit_code == REFUSED
        assert done.stderr.startswith(f"error: no store at {tmp_path / (database or store)}")
        assert done.stderr.count("\n") == 1
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["mine"]


def test_pages_on_a_port_in_use_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready_database(tmp_path / "mlflow.db", tmp_path / "artifacts")
    monkeypatch.setattr("os.execve", lambda *_: pytest.fail("the server must not be started"))
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        done = CliRunner().invoke(app, ["store", "ui", "--store", str(tmp_path), "--port", str(port)])
    assert done.exit_code == REFUSED
    assert f"error: port must be one that is free, got {port} (" in done.stderr


@pytest.mark.parametrize(("command", "stopped", "words"), [
    ("train", "retrain.job.retrain", "the champion is as it was; what was read of the trace is kept"),
    ("lab evaluate", "study.study.study", "what was read of the trace is kept in the store, and the next run takes it"),
    ("lab search", "study.search.search", "finished trials are in the store, and the same command goes on from there"),
    ("gain", "compare.comparison.run_comparison", "finished cells are in the store, and the same command goes on"),
])
def test_ctrl_c_says_what_is_kept(command: str, stopped: str, words: str, tmp_path: Path,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"sojourn.flows.{stopped}", stop)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    done = CliRunner().invoke(app, [*command.split(), "--store", str(tmp_path)])
    assert done.exit_code == INTERRUPTED
    assert done.stderr.startswith(f"\ninterrupted: {words}")


def test_a_variable_that_nothing_reads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = str(make(tmp_path).folders["hazard"])
    for name in ("SOJOURN_SERVICE_HOST", "SOJOURN_EXTENDER_PORT_8888_TCP_ADDR", "SOJOURN_SQL_URL_2", "SOJOURN_PRESET",
                 "SOJOURN_QUANTILES", "sojourn_load"):
        monkeypatch.setenv(name, "x")
    assert CliRunner().invoke(app, ["model", "predict", bundle, "{}"]).exit_code == 0
    monkeypatch.setenv("SOJOURN_TRACKING_URL", "http://me:secret@host")
    done = CliRunner().invoke(app, ["model", "predict", bundle, "{}"])
    assert done.exit_code == REFUSED
    assert done.stderr == ("error: a variable SOJOURN_... must be a setting (such as SOJOURN_TRACKING_URI), got "
                           "SOJOURN_TRACKING_URL\n")


def test_variables_of_other_jobs_pass_where_only_pull_is_installed(tmp_path: Path,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = str(make(tmp_path).folders["hazard"])
    for name in ("SOJOURN_STORE", "SOJOURN_LOAD", "SOJOURN_QUANTILES"):
        monkeypatch.setenv(name, "x")
    assert run_without(OF_PIPELINE, "model", "predict", bundle, "{}")[0] == 0
