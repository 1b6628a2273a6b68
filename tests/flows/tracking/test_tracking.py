"""Runs and how they end, the registry's aliases, and a store that does not answer."""

from __future__ import annotations

import json
import math
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from mlflow import MlflowClient

import sojourn.flows
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.tracking.client import TrackingError
from sojourn.flows.tracking.tracker import (
    CHALLENGER,
    CHAMPION,
    NAME_LIMIT,
    SHOWN_METRICS,
    STUDY,
    SYSTEM,
    Tracker,
    run_name,
)


@pytest.fixture()
def tracker(new_store: Callable[[Path], Path], tmp_path: Path) -> Tracker:
    return Tracker(TrackingUri.of_file(new_store(tmp_path) / "mlflow.db"), tmp_path / "artifacts",
                   run_tags={"made by": "a test"})


def _status(tracker: Tracker) -> dict[str, str]:
    client = MlflowClient(tracker.uri.plain)
    found = client.search_runs([tracker._experiment])
    assert all(run.data.tags["made by"] == "a test" for run in found)
    return {run.info.run_name: run.info.status for run in found}


def test_the_machine_is_sampled_while_a_run_lasts(tracker: Tracker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    with tracker.run("sampled", {}) as run, tracker.system_metrics(run):
        until = time.monotonic() + 30
        while not (found := tracker.run_metrics(run)) and time.monotonic() < until:
            time.sleep(0.05)
    assert "system/cpu_utilization_percentage" in found


@pytest.mark.parametrize(("error", "status"), [
    (None, "FINISHED"), (ValueError, "FAILED"), (KeyboardInterrupt, "KILLED"), (SystemExit, "KILLED"),
])  # fmt: skip
def test_a_run_and_its_children_end_with_their_blocks(tracker: Tracker, error: type[BaseException] | None,
                                                      status: str) -> None:
    def work() -> None:
        with tracker.run("parent", {}) as parent, tracker.run("child", {}, parent) as child:
            assert tracker.running().keys() == {parent, child}
            if error is not None:
                raise error

    if error is None:
        work()
    else:
        with pytest.raises(error):
            work()
    assert _status(tracker) == {"parent": status, "child": status}
    assert tracker.running() == {}


def test_a_block_may_give_its_run_another_end(tracker: Tracker) -> None:
    with tracker.run("run", {}) as run:
        tracker.end(run, "FAILED")
    assert _status(tracker) == {"run": "FAILED"}


def test_a_failed_statement_is_one_line_without_its_parameters(tracker: Tracker,
                                                               caplog: pytest.LogCaptureFixture) -> None:
    with tracker.run("run", {}) as run:
        with closing(sqlite3.connect(str(tracker.uri.database))) as database:
            database.execute("ALTER TABLE tags RENAME TO old_tags")
        with pytest.raises(TrackingError, match="no such table: tags") as raised:
            tracker.tag(run, "name", "value [1] of the tag")
        with closing(sqlite3.connect(str(tracker.uri.database))) as database:
            database.execute("ALTER TABLE old_tags RENAME TO tags")
    line = str(raised.value)
    assert "\n" not in line
    assert not any(words in line for words in ("SQL:", "parameters", "of the tag", "sqlalche.me", "INSERT", "SELECT"))
    assert [record for record in caplog.records if "SQL" in record.getMessage()] == []


TERMINATED = """
import sys
from pathlib import Path
from sojourn.flows.tracking.tracker import Tracker
from sojourn.flows.settings.store import TrackingUri
with Tracker(TrackingUri({uri!r}), Path({artifacts!r}), run_tags={{"made by": "a test"}}).run("run", {{}}) as run:
    print(run, flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run(tracker: Tracker, tmp_path: Path, number: signal.Signals) -> None:
    code = TERMINATED.format(uri=tracker.uri.plain, artifacts=str(tmp_path / "artifacts"))
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
    assert process.returncode == (128 + signal.SIGTERM if number == signal.SIGTERM else -signal.SIGINT)
    assert _status(tracker) == {"run": "KILLED"}


def test_every_run_is_begun_by_a_block_that_ends_it() -> None:
    folder = Path(sojourn.flows.__path__[0])
    begins = {file.name for file in folder.rglob("*.py") if re.search(r"\.start\([^)]*tags", file.read_text())}
    # a rollback's run is ended by the order that began it, however often that is cut off
    assert begins == {"tracker.py", "promotion.py"}


def test_metrics_under_several_steps_are_more_than_a_batch(tracker: Tracker) -> None:
    run = tracker.start("run", {})
    names = [f"seed/m{k}" for k in range(600)]
    tracker.log_by_step(run, {7: dict.fromkeys(names, 1.5), 3: {**dict.fromkeys(names, 2.5), "seed/m0": math.nan}})
    history = MlflowClient(tracker.uri.plain).get_metric_history
    assert [(each.step, each.value) for each in history(run, "seed/m599")] == [(3, 2.5), (7, 1.5)]
    assert [(each.step, each.value) for each in history(run, "seed/m0")] == [(7, 1.5)]


def test_no_alias_is_none_but_a_broken_store_is_not(tracker: Tracker, tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    assert tracker.version_of("none", CHAMPION) is None
    version = tracker.register("made", str(tmp_path), tracker.start("run", {}), "", {})
    tracker.set_alias("made", CHAMPION, version)
    assert tracker.version_of("made", CHAMPION) == version == 1
    assert tracker.version_of("made", CHALLENGER) is None
    database.write_bytes(b"not a database" * 1_000)
    # taken for "no champion", it would let any candidate become one
    with pytest.raises(OSError, match=r"the tracking store must answer at sqlite:///.*, got"):
        tracker.version_of("made", CHAMPION)


def test_a_stores_name_may_hold_blanks_and_marks(tmp_path: Path, new_store: Callable[[Path], Path]) -> None:
    store = new_store(tmp_path / "a b#c%41d@e:f")
    before = (store / "mlflow.db").read_bytes()
    tracker = Tracker(RetrainConfig(store=store).mlflow_uri, store / "artifacts")
    with tracker.run("study", {"kind": STUDY, "trace": "small"}) as run:
        tracker.log_text(run, '{"trace": "small"}', f"{SYSTEM}/{STUDY}.json")
    assert tracker.studies() == [{"trace": "small"}]
    assert (store / "mlflow.db").read_bytes() != before
    assert [path.name for path in tmp_path.iterdir()] == [store.name]
    version = tracker.register("made", str(store), run, "", {})
    assert tracker.versions("made") == [version]


@pytest.mark.parametrize("trace", ["synthetic", "NASA-iPSC-1993-3.1-cln.swf.gz", "openb", "x" * 60, ""])
@pytest.mark.parametrize("words", ["✓ hazard", "= gbdt-uptime", "study", "lava-readings", "w" * 60])
def test_a_run_has_a_name_that_the_list_shows_whole(trace: str, words: str) -> None:
    name = run_name(trace, date(2026, 11, 25), before=words)
    assert len(name) <= NAME_LIMIT
    assert name.endswith(" 11-25") and name.startswith(words[:NAME_LIMIT - 6])
    verdict = f"✓ {run_name(trace, date(2026, 11, 25), after='gbdt-uptime')}"
    assert len(verdict) <= NAME_LIMIT and verdict.endswith(" 11-25 gbdt-uptime")


def test_the_list_of_runs_opens_with_the_metrics_that_matter(tracker: Tracker) -> None:
    with tracker.run("a", {}) as run:
        tracker.log(run, None, dict.fromkeys(SHOWN_METRICS, 1.0))
    address = tracker.runs_page("http://127.0.0.1:5000")
    client = MlflowClient(tracker.uri.plain)
    found = client.get_run(run)
    key = f"mlflow.sharedViewState.{address.rpartition('viewStateShareKey=')[2]}"
    view = json.loads(client.get_experiment(found.info.experiment_id).tags[key])
    assert {f"metrics.`{name}`" for name in found.data.metrics} == {
        name for name in view["selectedColumns"] if name.startswith("metrics.")}
