"""Rollbacks: alias, folder and record move together; what is refused changes nothing; a kill leaves one champion."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from made_bundles import Made
from made_store import promoted
from sojourn.flows.outside.pull import ModelUri, find_version
from sojourn.flows.outside.tracked_names import CHALLENGER, CHAMPION
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.stage_settings import PromoteSettings
from sojourn.flows.stages.champion import load_rivals
from sojourn.flows.versions import rollback as rollback_module
from sojourn.flows.versions.bundle_bytes import BundleBytes, read_sha256
from sojourn.flows.versions.repair import repair_store
from sojourn.flows.versions.rollback import LEFT_TAG, roll_back
from sojourn.flows.versions.version_list import lost_aliases, version_lines, version_rows
from sojourn.serving.errors import BundleError

NAME = "made"


@pytest.fixture()
def two(made: Made, store: Path, tracker: Tracker) -> Tracker:
    promoted(made, store, tracker, "hazard")
    promoted(made, store, tracker, "once", data="bbb")
    assert tracker.version_of(NAME, CHAMPION) == 2
    return tracker


def test_alias_folder_and_record_move_together(made: Made, store: Path, two: Tracker) -> None:
    done = roll_back(two, store, NAME, 1, "  too slow\n in the pool ")
    assert (done.before, done.version, two.version_of(NAME, CHAMPION)) == (2, 1, 1)
    assert read_sha256(store / "bundles" / NAME) == BundleBytes.read(made.folders["hazard"]).sha256
    run = MlflowClient(two.uri.plain).get_run(done.run_id)
    assert run.info.status == "FINISHED"
    found = {tag: run.data.tags[tag] for tag in ("kind", "model", "from", "to", "why")}
    assert found == {"kind": "rollback", "model": NAME, "from": "2", "to": "1", "why": "too slow in the pool"}
    assert two.version_tags(NAME, 2)[LEFT_TAG] == "too slow in the pool"
    roll_back(two, store, NAME, 2, "it was the disk")  # forward again
    assert LEFT_TAG not in two.version_tags(NAME, 2) and two.version_tags(NAME, 1)[LEFT_TAG] == "it was the disk"


def test_bytes_that_were_rolled_back_do_not_become_champion_again(made: Made, store: Path, two: Tracker) -> None:
    roll_back(two, store, NAME, 1, "bad days")
    again = promoted(made, store, two, "once")
    assert (again.alias, two.version_of(NAME, CHAMPION)) == (CHALLENGER, 1)
    gate = again.gates[-1]
    assert (gate.name, gate.is_passed) == ("not rolled back", False)
    assert gate.found == "version 2 holds the same bytes and was rolled back: bad days"


@pytest.mark.parametrize(("to", "why", "message"), [
    (2, "x", "to must be another version than the champion of made, got 2"),
    (7, "x", "the version of made must be one of 1, 2, got 7"), (1, " \n", "why must be a reason of 1 to 500 char"),
    (1, "x" * 501, "why must be a reason of 1 to 500 characters, got 501"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(store: Path, two: Tracker, to: int, why: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        roll_back(two, store, NAME, to, why)
    with pytest.raises(ValueError, match="the registered model must be one of made, got 'other'"):
        roll_back(two, store, "other", 1, "x")
    assert two.version_of(NAME, CHAMPION) == 2


def test_a_version_whose_artifacts_are_gone_or_changed_is_refused(made: Made, store: Path, two: Tracker) -> None:
    before = read_sha256(store / "bundles" / NAME)
    folder = next(path for path in (store / "artifacts").rglob("MANIFEST.json")
                  if path.read_bytes() == (made.folders["hazard"] / "MANIFEST.json").read_bytes()).parent
    content = (folder / "schema.json").read_bytes()
    (folder / "schema.json").write_bytes(content + b" ")
    with pytest.raises(BundleError, match=r"schema\.json must have the sha256"):
        roll_back(two, store, NAME, 1, "x")
    shutil.rmtree(folder)
    with pytest.raises(OSError, match=r"artifacts of version 1 must be readable|MANIFEST\.json"):
        roll_back(two, store, NAME, 1, "x")
    assert (two.version_of(NAME, CHAMPION), read_sha256(store / "bundles" / NAME)) == (2, before)


class Killed(BaseException):
    """Stands for SIGKILL."""


def test_killed_between_alias_and_folder_the_next_command_publishes(made: Made, store: Path, two: Tracker,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(rollback_module, "publish_files", killed)
        with pytest.raises(Killed):
            roll_back(two, store, NAME, 1, "x")
    lines: list[str] = []
    repair_store(store, two, [NAME], lines.append)
    assert read_sha256(store / "bundles" / NAME) == BundleBytes.read(made.folders["hazard"]).sha256
    assert any("now holds the champion, version 1" in line for line in lines)


def test_an_alias_that_points_nowhere_is_named_and_can_be_moved(made: Made, store: Path, two: Tracker) -> None:
    with closing(sqlite3.connect(store / "mlflow.db")) as database, database:
        database.execute("UPDATE registered_model_aliases SET version = 7 WHERE alias = 'champion'")
    assert lost_aliases(two, NAME) == {"champion": 7}
    assert [line.aliases for line in version_lines(two, NAME)] == [(), ()]
    with pytest.raises(ValueError, match="the alias champion of made must point at a registered version, got 7, which"):
        find_version(two, ModelUri(NAME, "champion", None))
    features: Any = None  # it ends before it reads any
    with pytest.raises(ValueError, match="the alias champion of made must point at a registered version, got 7, which"):
        load_rivals(PromoteSettings(store, NAME), two, features)
    before = read_sha256(store / "bundles" / NAME)
    lines: list[str] = []
    repair_store(store, two, [NAME], lines.append)
    assert len(lines) == 1 and "must point at a registered version, got 7, which is gone" in lines[0]
    assert read_sha256(store / "bundles" / NAME) == before
    assert roll_back(two, store, NAME, 1, "lost").before == 7
    assert (two.version_of(NAME, CHAMPION), lost_aliases(two, NAME)) == (1, {})


def test_versions_stand_side_by_side(store: Path, two: Tracker) -> None:
    roll_back(two, store, NAME, 1, "bad days")
    latest, first = version_lines(two, NAME)
    assert (latest.version, latest.aliases, latest.is_comparable, latest.left) == (2, (), False, "bad days")
    assert (first.version, first.aliases, first.is_comparable, first.left) == (1, ("champion",), True, "")
    assert first.measures == {"Brier ages": 0.25}
    titles, rows = version_rows([latest, first])
    assert titles == ("version", "alias", "judged on", "state", "registered UTC", "Brier ages")
    assert rows[0][:4] == ("2", "-", "made bbb (not comparable)", "rolled back: bad days")
    assert rows[1][:4] == ("1", "champion", "made aaa", "passed") and rows[1][5] == "0.25"
    with pytest.raises(ValueError, match="the registered model must be one of made, got 'x'"):
        version_lines(two, "x")
