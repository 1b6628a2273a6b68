"""Schedules: cron expressions that are none or never fire, and a real one whose run is killed half-way."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import yaml
from typer.testing import CliRunner

from scheduled_runs import own_environment, version_1, wait_for
from sojourn.flows.cli import app
from sojourn.flows.schedule.deployment import JOBS, deployment_file, next_times, settings_document
from sojourn.flows.schedule.run import _FLOWS, _carry_out, run_on_schedule, scheduled_retrain
from sojourn.flows.settings.other_jobs import MonitorConfig, TrainUsageConfig
from sojourn.flows.settings.retrain import RetrainConfig, load_config
from sojourn.flows.workers.prefect import prefect_server
from sojourn.serving import Predictor


@pytest.mark.parametrize(("cron", "timezone", "message"), [
    ("x", "UTC", "cron must have five fields .*, got 'x'"), ("61 * * * *", "UTC", "cron must have five fields"),
    ("0 0 31 2 *", "UTC", r"cron must fire at some time, got '0 0 31 2 \*'"),
    ("* * * * * *", "UTC", "cron must have five fields"), ("@daily", "UTC", "cron must have five fields"),
    ("0 3 * * 1", "Mars", "timezone must be an IANA name, got 'Mars'"), ("0 3 * * 1", "../x", "timezone must be"),
])  # fmt: skip
def test_what_never_fires_is_refused(cron: str, timezone: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        next_times(cron, timezone)


def test_times_are_those_of_the_time_zone() -> None:
    times = next_times("0 3 * * 1", "Europe/Berlin")
    assert [(time.hour, time.weekday()) for time in times] == [(3, 0)] * 3
    assert times[0].utcoffset() is not None


def test_nothing_is_made_for_a_trace_that_is_missing(tmp_path: Path) -> None:
    settings = RetrainConfig(store=tmp_path / "store", trace=tmp_path / "none.swf", reader="swf")
    with pytest.raises(FileNotFoundError, match="trace must be a file or folder"):
        run_on_schedule(settings, "0 3 * * 1")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("wrong", [("--cron", "0 0 31 2 *"), ("--cron", "0 3 * * 1", "--trace", "none.swf")])
def test_a_schedule_that_is_refused_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                   wrong: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    found = CliRunner().invoke(app, ["model", "schedule", *wrong])
    monkeypatch.setenv("PREFECT_HOME", "")  # the command has set it
    assert found.exit_code == 2, found.output
    assert list(tmp_path.iterdir()) == []


def test_parameters_make_the_same_settings_and_hold_no_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = RetrainConfig(store=Path("s"), trace=Path("t"), reader="swf", load=0.7, families=("km",),
                             tracking_uri="http://me:secret@host:1")
    document = json.loads(json.dumps(settings_document(settings)))
    assert "secret" not in str(document)
    again = RetrainConfig(**document)
    assert (again.store, again.trace) == (tmp_path / "s", tmp_path / "t")
    assert again.model_copy(update={"store": settings.store, "trace": settings.trace,
                                    "tracking_uri": settings.tracking_uri}) == settings
    watched = settings_document(MonitorConfig(model_name="m", log=Path("l"), store=tmp_path))
    assert watched == {"store": str(tmp_path), "model_name": "m", "log": str(tmp_path / "l")}
    usage = settings_document(TrainUsageConfig(usage_trace=Path("u"), store=tmp_path, n_classes=5))
    assert usage == {"store": str(tmp_path), "usage_trace": str(tmp_path / "u"), "n_classes": 5}


def test_deployments_of_a_work_pool_are_those_of_the_file_at_the_root() -> None:
    document = yaml.safe_load((Path(__file__).parents[3] / "prefect.yaml").read_text())
    found = {each["name"]: each for each in document["deployments"]}
    assert found.keys() == JOBS.keys() == _FLOWS.keys()
    for name, kind in JOBS.items():
        own = found[name]
        settings = kind(**own["parameters"]["settings"])
        printed = yaml.safe_load(deployment_file(settings, own["schedules"][0]["cron"]))["deployments"][0]
        assert own.keys() - {"description"} == printed.keys()
        for key in ("entrypoint", "concurrency_limit", "work_pool", "schedules"):
            assert own[key] == printed[key]
        module, _, function = own["entrypoint"].rpartition(".")
        assert callable(getattr(importlib.import_module(module), function))
        next_times(own["schedules"][0]["cron"], "UTC")


def test_a_printed_deployment_holds_the_settings_and_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOJOURN_TRACKING_URI", "http://me:s3cret@host:1")
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    (tmp_path / "run.toml").write_text(SETTINGS)
    found = CliRunner().invoke(app, ["model", "schedule", "--cron", "0 3 * * 1", "--config", "run.toml", "--print"])
    assert found.exit_code == 0 and "s3cret" not in found.output
    settings = yaml.safe_load(found.output)["deployments"][0]["parameters"]["settings"]
    assert settings == {"store": str(tmp_path / ".sojourn"), "n_requests": 2000, "simulate": False, "n_draws": 0,
                        "n_threads": 1, "model_name": "m"}
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]
    never = CliRunner().invoke(app, ["model", "schedule", "--cron", "0 0 31 2 *", "--print"])
    assert never.exit_code == 2


def test_the_server_would_refuse_unknown_settings_and_addresses() -> None:
    from jsonschema import ValidationError, validate

    schema = scheduled_retrain.parameters.properties["settings"]
    validate({"store": "/s", "load": 0.5, "since": "90d"}, schema)
    for wrong in ({"lode": 0.5}, {"load": "much"}, {"load": 0}, {"tracking_uri": "http://me:secret@host"}):
        with pytest.raises(ValidationError):
            validate(wrong, schema)


@pytest.mark.parametrize(("tags", "paused"), [(["own"], [UUID(int=7)]), (["another"], [])])
def test_a_schedule_that_another_one_replaced_is_not_paused(monkeypatch: pytest.MonkeyPatch, tags: list[str],
                                                            paused: list[UUID]) -> None:
    found: list[UUID] = []
    ended: list[tuple[str, str]] = []

    class Client:
        async def __aenter__(self) -> Client:
            return self

        async def __aexit__(self, *error: object) -> None:
            pass

        async def read_deployment(self, deployment_id: UUID) -> SimpleNamespace:
            return SimpleNamespace(tags=tags)

        async def pause_deployment(self, deployment_id: UUID) -> None:
            found.append(deployment_id)

        async def read_flow_runs(self, **filters: object) -> list[SimpleNamespace]:
            return [SimpleNamespace(id=store, parameters={"settings": {"store": store}}) for store in ("s", "another")]

        async def set_flow_run_state(self, run_id: str, state: Any, force: bool) -> None:
            ended.append((run_id, state.message))

    class Runner:
        def __init__(self, **settings: object) -> None:
            assert settings["pause_on_shutdown"] is False

        async def aadd_deployment(self, deployment: object) -> UUID:
            return UUID(int=7)

        async def start(self) -> None:
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)

    monkeypatch.setattr("prefect.runner.Runner", Runner)
    monkeypatch.setattr("prefect.client.orchestration.get_client", Client)
    made: Any = None
    assert asyncio.run(_carry_out(made, "own", "s")) == 1
    assert found == paused
    assert ended == [("s", "its schedule was killed"), ("s", "its schedule was stopped")]


def test_what_was_stopped_with_its_schedule_ends_in_mlflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Prefect kills the process of a run, which leaves it RUNNING: opening the store ends it."""
    opened: list[Any] = []
    told: list[str] = []

    stopped = iter((0, 1, 1))

    async def carry_out(*given: object) -> int:
        return next(stopped)

    def away(settings: object) -> None:
        raise OSError("the tracking store must answer")

    monkeypatch.setattr("sojourn.flows.schedule.run._carry_out", carry_out)
    monkeypatch.setattr("sojourn.flows.schedule.run.prefect_server", lambda *given, **more: nullcontext("http://made"))
    monkeypatch.setattr("sojourn.flows.schedule.run.open_store", opened.append)
    config = load_config(store=tmp_path)
    for _ in range(2):
        run_on_schedule(config, "0 3 * * 1", tell=told.append)
    assert opened == [config] and told[-1] == "stopped"
    monkeypatch.setattr("sojourn.flows.schedule.run.open_store", away)
    run_on_schedule(config, "0 3 * * 1", tell=told.append)
    assert told[-2:] == ["not ended yet, the next run does it: the tracking store must answer", "stopped"]


SERVER = prefect_server.__module__.encode()
"""The program of Prefect's temporary server, in the command of its process."""
SETTINGS = "n_requests = 2000\nsimulate = false\nn_draws = 0\nn_threads = 1\nmodel_name = \"m\"\n"


@contextmanager
def scheduled(folder: Path) -> Iterator[subprocess.Popen[str]]:
    environment = own_environment(PREFECT_HOME=str(folder / "prefect"))
    with (folder / "out.txt").open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", "from sojourn.flows.entry import main; main()", "model", "schedule", "--cron",
             "* * * * *", "--config", str(folder / "run.toml"), "--store", str(folder / "store")],
            env=environment, stdout=out, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_of(process: subprocess.Popen[str]) -> int | None:
    """The process of the run that is under way."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == process.pid and SERVER not in (entry / "cmdline").read_bytes():
                return int(entry.name)
    return None


@pytest.mark.slow
def test_a_scheduled_run_executes_and_the_one_after_a_killed_one_finishes(new_store: Callable[[Path], Path],
                                                                          tmp_path: Path) -> None:
    from mlflow import MlflowClient

    store = new_store(tmp_path / "store")
    (tmp_path / "run.toml").write_text(SETTINGS)
    client = MlflowClient(f"sqlite:///{store / 'mlflow.db'}")

    def runs(status: str) -> list[str]:
        names = [found.experiment_id for found in client.search_experiments()]
        found = client.search_runs(names, f"attributes.status = '{status}'")
        return [run.info.run_id for run in found if "mlflow.parentRunId" not in run.data.tags]

    champion = store / "bundles" / "m"
    before = version_1(store, tmp_path)
    with scheduled(tmp_path) as process:
        wait_for(lambda: run_of(process), 180)
        settings = load_config(tmp_path / "run.toml", store=store)
        with pytest.raises(ValueError, match=rf"must have one schedule in a store, .*process {process.pid} "):
            run_on_schedule(settings, "* * * * *")
        wait_for(lambda: runs("RUNNING"), 180)  # it is half-way
        os.kill(int(str(wait_for(lambda: run_of(process), 60))), signal.SIGKILL)  # the run, not a helper that has ended
        wait_for(lambda: Predictor.load(champion).version == before and runs("KILLED"), 240)  # by the next run
        wait_for(lambda: Predictor.load(champion).version == before and runs("FINISHED"), 240)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    with closing(sqlite3.connect(tmp_path / "prefect" / "prefect.db")) as database:
        assert database.execute("SELECT paused FROM deployment").fetchall() == [(1,)]
    text = (tmp_path / "out.txt").read_text()
    assert "stopped" in text and "Traceback" not in text
