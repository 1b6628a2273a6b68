"""Rollbacks: alias, folder and record move together; what is refused changes nothing; what is cut off is finished."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from made_bundles import Made
from made_store import copied, promoted, tracker_of
from sojourn.flows.retrain.judge import load_rivals
from sojourn.flows.tracking.pull import ModelUri, find_version
from sojourn.flows.tracking.tracker import CHALLENGER, CHAMPION, LEFT_TAG, Tracker
from sojourn.flows.versions import promotion as promotion_journal
from sojourn.flows.versions.promotion import BundleBytes, read_sha256, repair_store
from sojourn.flows.versions.version_list import (
    VersionLine,
    comparison_words,
    lost_aliases,
    predecessor,
    roll_back,
    shown_lines,
    version_lines,
    version_rows,
)
from sojourn.serving import BundleError

NAME = "made"


@pytest.fixture(scope="module")
def kept(made: Made, new_store: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = new_store(tmp_path_factory.mktemp("kept") / "store")
    tracker = tracker_of(store)
    promoted(made, store, tracker, "hazard")
    promoted(made, store, tracker, "once", data="bbb")
    return store


@pytest.fixture()
def store(kept: Path, tmp_path: Path) -> Path:
    return copied(kept, tmp_path / "store")


@pytest.fixture()
def two(tracker: Tracker) -> Tracker:
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


def test_a_version_that_was_succeeded_is_not_at_fault_and_a_rollback_goes_back_to_it(store: Path, two: Tracker) -> None:
    for to in (1, 2):
        done = roll_back(two, store, NAME, to, "its turn", is_succession=True)
        assert MlflowClient(two.uri.plain).get_run(done.run_id).info.run_name == f"promote {NAME} to {to}"
    assert LEFT_TAG not in {**two.version_tags(NAME, 1), **two.version_tags(NAME, 2)}
    assert predecessor(two, store, NAME) == 1
    roll_back(two, store, NAME, predecessor(two, store, NAME), "worse on Monday")
    with pytest.raises(ValueError, match="no version of made before the champion, 1, passed"):
        predecessor(two, store, NAME)
    shown = shown_lines(two, NAME, 2)
    assert shown[0].split() == ["version", "2", "of", NAME] and "rolled back: worse on Monday" in "\n".join(shown)
    assert shown_lines(two, NAME, None)[0].endswith(f"1 of {NAME} champion")
    with pytest.raises(ValueError, match="version must be one of 1, 2, got 3"):
        shown_lines(two, NAME, 3)


def test_bytes_that_were_rolled_back_do_not_become_champion_again(made: Made, store: Path, two: Tracker) -> None:
    roll_back(two, store, NAME, 1, "bad days")
    again = promoted(made, store, two, "once")
    assert (again.alias, two.version_of(NAME, CHAMPION)) == (CHALLENGER, 1)
    gate = again.gates[-1]
    assert (gate.name, gate.is_passed) == ("not rolled back", False)
    assert gate.finding == "version 2 holds the same bytes and was rolled back: bad days"


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
    """Stands for SIGKILL: nothing after it is done, no lock is kept."""


STEPS = ("whole_file", "create_run", "set_model_version_tag", "delete_registered_model_alias",
         "set_registered_model_alias", "whole_file again", "publish_files", "set_terminated", "_remove")
KILLS = [(step, is_after) for step in STEPS for is_after in (False, True)
         if not (step.startswith("whole_file") and is_after)]


def _fails_at(tracker: Tracker, patched: pytest.MonkeyPatch, step: str, error: BaseException, *,
              is_after: bool = False) -> None:
    """From now on a step of a rollback raises instead of its work, or after it."""
    name, _, again = step.partition(" ")
    left = [2 if again else 1]
    owner = promotion_journal if hasattr(promotion_journal, name) else tracker._client._client
    real = getattr(owner, name)

    def step_or_error(*args: object, **kwargs: object) -> object:
        left[0] -= 1
        if left[0] <= 0 and not is_after:
            raise error
        done = real(*args, **kwargs)
        if left[0] <= 0:
            raise error
        return done

    patched.setattr(owner, name, step_or_error)


def _decided(made: Made, store: Path, tracker: Tracker, why: str) -> None:
    """Version 1 is champion by a person's decision, version 2 is not taken again, and it is recorded once."""
    assert tracker.aliases(NAME) == {CHAMPION: 1}
    assert read_sha256(store / "bundles" / NAME) == BundleBytes.read(made.folders["hazard"]).sha256
    assert (tracker.version_tags(NAME, 2).get(LEFT_TAG), tracker.version_tags(NAME, 1).get(LEFT_TAG)) == (why, None)
    assert not list((store / "promotions").glob("*"))
    found = [run for run in tracker.run_records() if run.tags.get("kind") == "rollback"]
    assert [(run.status, run.tags["from"], run.tags["to"], run.tags["why"]) for run in found] == [
        ("FINISHED", "2", "1", why)]


@pytest.mark.slow
@pytest.mark.parametrize(("step", "is_after"), KILLS)
@pytest.mark.parametrize("is_repaired", [False, True])
def test_a_rollback_that_is_killed_at_any_step_is_finished_by_itself_again(
        made: Made, store: Path, two: Tracker, step: str, is_after: bool, is_repaired: bool) -> None:
    two.set_alias(NAME, CHALLENGER, 1)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(Killed):
        _fails_at(two, patched, step, Killed(), is_after=is_after)
        roll_back(two, store, NAME, 1, "x")
    if is_repaired and step != "whole_file":  # nothing was decided before that one
        repair_store(store, two, [NAME])
        _decided(made, store, two, "x")
    done = roll_back(two, store, NAME, 1, "x")
    assert (done.before, done.version) == (2, 1)
    _decided(made, store, two, "x")
    assert promoted(made, store, two, "once").alias == CHALLENGER  # the bytes of version 2
    assert two.version_of(NAME, CHAMPION) == 1


def test_a_rollback_on_a_full_disk_says_so_each_time_and_is_finished_with_room(made: Made, store: Path,
                                                                              two: Tracker) -> None:
    with pytest.MonkeyPatch.context() as patched:
        _fails_at(two, patched, "publish_files", OSError(errno.ENOSPC, "no space left"))
        for _ in range(2):
            with pytest.raises(OSError, match="no space left"):
                roll_back(two, store, NAME, 1, "x")
        lines: list[str] = []
        repair_store(store, two, (), lines.append)
        assert "the rollback in " in lines[0] and " was cut off and cannot be finished now: " in lines[0]
    repair_store(store, two, (), lines.append)
    assert lines[-1] == "finished the rollback of made to version 1, which was cut off"
    _decided(made, store, two, "x")


def test_of_two_decisions_the_later_one_counts(made: Made, store: Path, two: Tracker) -> None:
    promoted(made, store, two, "uptime")
    with pytest.MonkeyPatch.context() as patched, pytest.raises(Killed):
        _fails_at(two, patched, "publish_files", Killed())
        roll_back(two, store, NAME, 1, "first")
    (store / "promotions" / f"rollback-{NAME}.json").write_text("{")  # and it cannot be finished
    assert roll_back(two, store, NAME, 2, "second").before == 1
    repair_store(store, two, [NAME], lambda line: pytest.fail(line))
    assert two.version_of(NAME, CHAMPION) == 2
    assert {number: two.version_tags(NAME, number).get(LEFT_TAG) for number in (1, 2, 3)} == {
        1: "second", 2: None, 3: "first"}


def test_an_alias_that_was_moved_after_a_cut_off_rollback_stays(store: Path, two: Tracker) -> None:
    with pytest.MonkeyPatch.context() as patched, pytest.raises(Killed):
        _fails_at(two, patched, "publish_files", Killed())
        roll_back(two, store, NAME, 1, "x")
    two.set_alias(NAME, CHAMPION, 2)
    repair_store(store, two, [NAME], lambda line: None)
    assert two.version_of(NAME, CHAMPION) == 2


def test_a_version_that_failed_gates_is_refused_unless_it_is_meant(store: Path, two: Tracker) -> None:
    for gate, found in (("accuracy", "FAILED: 0.31 against 0.25"), ("placement", "FAILED: no gain"),
                        ("size", "passed: 1 MB")):
        two.tag_version(NAME, 1, f"gate.{gate}", found)
    two.set_alias(NAME, CHALLENGER, 1)
    refused = r"got 1, which failed accuracy \(0\.31 against 0\.25\); placement \(no gain\); --despite-gates makes"
    with pytest.raises(ValueError, match=refused):
        roll_back(two, store, NAME, 1, "x")
    assert two.aliases(NAME) == {CHAMPION: 2, CHALLENGER: 1}
    done = roll_back(two, store, NAME, 1, "x", is_despite_gates=True)
    assert done.despite == ("accuracy", "placement")
    assert next(two.finished("kind", "rollback")).tags["despite_gates"] == "accuracy, placement"
    assert roll_back(two, store, NAME, 1, "x").run_id == done.run_id  # done already: the same call says the same
    assert two.aliases(NAME) == {CHAMPION: 1}


def test_one_version_never_carries_two_aliases(store: Path, two: Tracker) -> None:
    two.set_alias(NAME, CHALLENGER, 1)
    two.set_alias(NAME, CHAMPION, 1)
    assert two.aliases(NAME) == {CHAMPION: 1}
    two.set_alias(NAME, CHALLENGER, 1)
    assert two.aliases(NAME) == {CHAMPION: 1}
    MlflowClient(two.uri.plain).set_registered_model_alias(NAME, CHALLENGER, "1")  # in MLflow's page
    lines: list[str] = []
    repair_store(store, two, [NAME], lines.append)
    assert two.aliases(NAME) == {CHAMPION: 1}
    assert lines[0] == "version 1 of made is champion, so it is challenger no more"


def test_an_alias_that_points_nowhere_is_named_and_can_be_moved(made: Made, store: Path, two: Tracker) -> None:
    with closing(sqlite3.connect(store / "mlflow.db")) as database, database:
        database.execute("UPDATE registered_model_aliases SET version = 7 WHERE alias = 'champion'")
    assert lost_aliases(two, NAME) == {"champion": 7}
    assert [line.aliases for line in version_lines(two, NAME)] == [(), ()]
    with pytest.raises(ValueError, match=r"the alias champion of made must .*, got 7, which"):
        find_version(two, ModelUri(NAME, "champion", None))
    features: Any = None  # it ends before it reads any
    with pytest.raises(ValueError, match=r"the alias champion of made must .*, got 7, which"):
        load_rivals(store, NAME, two, features)
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


def test_the_list_has_the_coverage_of_the_90_percent_quantile(store: Path, two: Tracker) -> None:
    run = next(record.run_id for record in two.version_records(NAME) if record.version == 1)
    two.log(run, None, {"made-1/creation.coverage_90_at_2pct": 0.8942, "made-1/age_1h.coverage_90_at_2pct": 0.5638,
                        "made-1/age_1h.coverage_90_at_2pct.low": 0.4})
    titles, rows = version_rows(version_lines(two, NAME))
    assert titles[5:] == ("Brier ages", "90 % covers", "90 % covers, 1 h")
    assert [row[6:] for row in rows] == [("-", "-"), ("0.8942", "0.5638")]
    shown = "\n".join(shown_lines(two, NAME, 1))
    assert "90 % covers       0.8942" in shown and "90 % covers, 1 h  0.5638" in shown


def _line(version: int, aliases: tuple[str, ...], judged_on: str, data_hash: str) -> VersionLine:
    return VersionLine(version, aliases, datetime(2026, 1, version, tzinfo=UTC), "made", "before 9 s", data_hash,
                       "0.1.0", judged_on, None, (), "", "", {})


def test_what_differs_and_whether_two_versions_can_be_compared_stands_first() -> None:
    first, same, other = (_line(1, (CHAMPION,), "made-1", "aaaaaaaa"), _line(2, (), "made-1", "aaaaaaaa"),
                          _line(3, (), "made-2", "bbbbbbbb"))
    assert comparison_words([same, first]) == (
        "Version 2 against 1 (champion): comparable, judged on the same requests. Data, window and code are the same.")
    assert comparison_words([other, same, first]) == (
        "Version 3 against 1 (champion): not comparable, judged on other requests: only paired differences "
        "(against_...) and gates compare them. Differs: data made bbbbbb against made aaaaaa.")
    newest = replace(other, aliases=(CHAMPION,))
    assert comparison_words([newest, same]).startswith("Version 3 against 2: not comparable")
    assert comparison_words([other, same]).startswith("Version 3 against 2: not comparable")  # there is no champion
    assert comparison_words([first]) == comparison_words([]) == ""
