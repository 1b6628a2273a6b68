"""A promotion that is killed at any step, or that an operator interferes with, ends in one state that is right."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from made_bundles import Made
from made_store import another_process, as_a_new_process
from sojourn.flows.retrain.judge import candidate_folder
from sojourn.flows.retrain.promote import Judged, promote
from sojourn.flows.retrain.verdict import Gate, Promotion
from sojourn.flows.store.lock import store_id, store_lock
from sojourn.flows.tracking.client import PROBE
from sojourn.flows.tracking.logged_model import log_bundle
from sojourn.flows.tracking.tracker import CHALLENGER, CHAMPION, COMPARISON, FAMILY, RETRAIN, USAGE, Tracker
from sojourn.flows.versions import promotion as promotion_journal
from sojourn.flows.versions.promotion import BUNDLE_TAG, STORE_TAG, BundleBytes, read_sha256, repair_store
from sojourn.serving import BundleError

NAME = "made"
PASSED = (Gate("any", True, "fine"),)
FAILED = (Gate("any", False, "not fine"),)


def _judged(made: Made, store: Path, tracker: Tracker, kind: str, gates: tuple[Gate, ...] = PASSED,
            champion: int | None = None) -> Judged:
    """A run whose candidate has passed its gates."""
    run = tracker.start(kind, {})
    folder = Path(shutil.copytree(made.folders[kind], candidate_folder(store, NAME, run)))
    source = log_bundle(tracker, run, folder, made.encoder, made.request(0))
    return Judged(NAME, run, source, BundleBytes.read(folder).sha256, champion, gates, kind)


def _promote(tracker: Tracker, store: Path, judged: Judged) -> Promotion:
    return promote.fn(tracker, store, judged, "card\n", {"trace": "made"})


def _sha256(made: Made, kind: str) -> str:
    return hashlib.sha256((made.folders[kind] / "MANIFEST.json").read_bytes()).hexdigest()


def _held(tracker: Tracker, store: Path, version: int) -> str:
    """The hash of what a version holds, which is the one of its tag."""
    found = BundleBytes.read(tracker.fetch(NAME, version, store / "looked" / str(version))).sha256
    assert tracker.version_tags(NAME, version)[BUNDLE_TAG] == found
    return found


def _candidates(store: Path) -> set[str]:
    return {path.name for path in (store / "candidates" / NAME).iterdir()}


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it is done, no lock is kept."""


STEPS = ("create_registered_model", "create_model_version", "set_registered_model_alias", "update_run",
         "set_terminated", "whole_file", "whole_file again", "publish_files", "_remove")


def _killed_at(tracker: Tracker, store: Path, judged: Judged, step: str, is_after: bool, n_calls: int = 1) -> None:
    """Promote until the n-th call of a step, which is not done, or is the last thing done."""
    left = [n_calls]
    owner = promotion_journal if hasattr(promotion_journal, step) else tracker._client._client
    real = getattr(owner, step)

    def step_or_die(*args: object, **kwargs: object) -> object:
        left[0] -= 1
        if left[0] == 0 and not is_after:
            raise Killed
        done = real(*args, **kwargs)
        if left[0] == 0:
            raise Killed
        return done

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(owner, step, step_or_die)
        with pytest.raises(Killed):
            _promote(tracker, store, judged)


KILLS = [(step, is_after, is_first) for step in STEPS for is_after in (False, True) for is_first in (True, False)
         if (step, is_first) != ("create_registered_model", False) and not (step.startswith("whole_file") and is_after)]
"""Where it is killed: before or after a step, of a first promotion or of a second one."""


@pytest.mark.slow
@pytest.mark.parametrize(("step", "is_after", "is_first"), KILLS)
def test_killed_at_any_step_the_next_run_leaves_one_state(made: Made, store: Path, tracker: Tracker, step: str,
                                                          is_after: bool, is_first: bool) -> None:
    if not is_first:
        _promote(tracker, store, _judged(made, store, tracker, "hazard"))
    judged = _judged(made, store, tracker, "once", champion=None if is_first else 1)
    name, _, again = step.partition(" ")
    _killed_at(tracker, store, judged, name, is_after, 2 if again else 1)
    is_written = (name, again) != ("whole_file", "")
    pointed = tracker.version_of(NAME, CHAMPION)
    if pointed is not None:  # at no moment at anything but a whole version
        assert _held(tracker, store, pointed) in (_sha256(made, "hazard"), _sha256(made, "once"))
    lines: list[str] = []
    for _ in range(2):
        repair_store(store, tracker, [NAME], lines.append)
    champion = tracker.version_of(NAME, CHAMPION)
    if not is_written and is_first:
        assert champion is None
        return
    expected = "once" if is_written else "hazard"
    assert champion == (2 if is_written and not is_first else 1)
    assert _held(tracker, store, champion) == _sha256(made, expected) == read_sha256(store / "bundles" / NAME)
    assert tracker.versions(NAME) == list(range(1, champion + 1))  # none was registered twice
    assert list((store / "promotions").glob("*.json")) == []
    if is_written:
        assert judged.run_id not in tracker.running()
        info = MlflowClient(tracker.uri.plain).get_run(judged.run_id).info
        assert (info.status, info.run_name) == ("FINISHED", "✓ once")
    assert len(lines) <= 2


def test_a_version_that_does_not_hold_what_was_gated_is_no_champion(made: Made, store: Path, tracker: Tracker) -> None:
    _promote(tracker, store, _judged(made, store, tracker, "hazard"))
    judged = _judged(made, store, tracker, "once", champion=1)
    logged = store / "artifacts" / judged.run_id / "artifacts" / "bundle"
    shutil.rmtree(logged)
    shutil.copytree(made.folders["uptime"], logged)
    with pytest.raises(BundleError, match=r"made version 2 must hold the bundle that the gates judged \(.*\), got "):
        _promote(tracker, store, judged)
    assert tracker.aliases(NAME) == {CHAMPION: 1}
    assert read_sha256(store / "bundles" / NAME) == _sha256(made, "hazard")
    repair_store(store, tracker, [NAME], lambda line: pytest.fail(line))


def test_what_fails_its_gates_is_challenger_and_is_not_published(made: Made, store: Path, tracker: Tracker) -> None:
    promotion = _promote(tracker, store, _judged(made, store, tracker, "once", FAILED))
    assert (promotion.alias, tracker.aliases(NAME)) == (CHALLENGER, {CHALLENGER: 1})
    assert not (store / "bundles").exists()
    assert tracker.version_tags(NAME, 1)["gate.any"] == "FAILED: not fine"


def test_another_champion_since_the_gates_makes_a_challenger(made: Made, store: Path, tracker: Tracker) -> None:
    slow = _judged(made, store, tracker, "once")
    _promote(tracker, store, _judged(made, store, tracker, "hazard"))
    promotion = _promote(tracker, store, slow)
    assert promotion.alias == CHALLENGER
    found = "version 1 became champion while this run was judged against none; run again"
    assert promotion.gates[-1] == Gate("the same champion", False, found)
    card = MlflowClient(tracker.uri.plain).get_model_version(NAME, "2").description or ""
    assert card.startswith("**Challenger, not to be deployed**: 1 of 2 gates failed (the same champion).\n\n"
                           "card\n\n- **failed** the same champion: version 1")
    assert _held(tracker, store, 2) == _sha256(made, "once")
    # the same bytes are no other champion
    assert _promote(tracker, store, _judged(made, store, tracker, "hazard")).alias == CHAMPION


def test_the_folder_follows_an_alias_that_was_moved_by_hand(made: Made, store: Path, tracker: Tracker) -> None:
    for champion, kind in ((None, "hazard"), (1, "once")):
        _promote(tracker, store, _judged(made, store, tracker, kind, champion=champion))
    tracker.set_alias(NAME, CHAMPION, 1)
    lines: list[str] = []
    repair_store(store, tracker, (), lines.append)  # known from the folder
    assert read_sha256(store / "bundles" / NAME) == _sha256(made, "hazard")
    assert lines == [f"{store / 'bundles' / NAME} now holds the champion, version 1"]
    (store / "bundles" / NAME / "model.onnx").write_bytes(b"other")
    repair_store(store, tracker, (), lines.append)
    assert read_sha256(store / "bundles" / NAME) == _sha256(made, "hazard")
    shutil.rmtree(store / "bundles")
    repair_store(store, tracker, [NAME], lines.append)
    assert read_sha256(store / "bundles" / NAME) == _sha256(made, "hazard")
    assert len(lines) == 3


def test_a_champion_whose_artifacts_are_gone_is_told_and_the_folder_stays(made: Made, store: Path,
                                                                          tracker: Tracker) -> None:
    for champion, kind in ((None, "hazard"), (1, "once")):
        judged = _judged(made, store, tracker, kind, champion=champion)
        _promote(tracker, store, judged)
        if kind == "hazard":
            shutil.rmtree(store / "artifacts" / judged.run_id)
    tracker.set_alias(NAME, CHAMPION, 1)
    lines: list[str] = []
    repair_store(store, tracker, [NAME], lines.append)
    assert len(lines) == 1
    assert f"{NAME} must hold the champion, version 1, got the artifacts of version 1 must be readable at" in lines[0]
    assert read_sha256(store / "bundles" / NAME) == _sha256(made, "once")


def test_a_rollback_after_a_cut_off_promotion_is_kept(made: Made, store: Path, tracker: Tracker) -> None:
    _promote(tracker, store, _judged(made, store, tracker, "hazard"))
    judged = _judged(made, store, tracker, "once", champion=1)
    _killed_at(tracker, store, judged, "publish_files", False)
    assert tracker.version_of(NAME, CHAMPION) == 2
    tracker.set_alias(NAME, CHAMPION, 1)
    repair_store(store, tracker, [NAME], lambda line: None)
    assert tracker.version_of(NAME, CHAMPION) == 1
    assert read_sha256(store / "bundles" / NAME) == _sha256(made, "hazard")


def test_an_order_that_cannot_be_carried_out_stops_nobody(made: Made, store: Path, tracker: Tracker) -> None:
    judged = _judged(made, store, tracker, "once")
    _killed_at(tracker, store, judged, "create_model_version", False)
    shutil.rmtree(store / "artifacts" / judged.run_id)
    (store / "promotions" / "other.json").write_text("{")
    lines: list[str] = []
    repair_store(store, tracker, [NAME], lines.append)
    assert len(lines) == 2
    assert all(" was cut off and cannot be finished now: " in line for line in lines)
    assert _promote(tracker, store, _judged(made, store, tracker, "hazard")).alias == CHAMPION


DIES = """
import os, signal
from pathlib import Path
from sojourn.flows.store.lock import use_store
from sojourn.flows.tracking.tracker import Tracker
from sojourn.flows.settings.store import TrackingUri
store = Path({store!r})
tracker = Tracker(TrackingUri.of_file(store / "mlflow.db"), store / "artifacts", run_tags={tags!r})
use_store(store)
parent = tracker.start("parent", {{}})
print(parent, tracker.start("child", {{}}, parent), flush=True)
(store / "features").mkdir()
(store / "monitor" / "made").mkdir(parents=True)
(store / "artifacts" / parent / "artifacts" / "bundle").mkdir(parents=True)
for name in ("metrics.csv", "bundle/.artifact.uploading.zvt74ug_"):
    (store / "artifacts" / parent / "artifacts" / name).write_text("half")
for name in {left!r}:
    (store / name).write_text("half")
    os.utime(store / name, (1, 1))
os.kill(os.getpid(), signal.SIGKILL)
"""
LEFT = ("features/.rows.parquet.0123456789abcdef0123456789abcdef", ".overview.png.0123456789abcdef0123456789abcdef",
        ".mlflow.db.0123456789abcdef0123456789abcdef-journal",
        "monitor/made/.alarms.json.0123456789abcdef0123456789abcdef")
NOT_OURS = (".env.0123456789abcdef0123456789abcdef", ".gitignore", "features/.keep", "features/rows.parquet")


@pytest.mark.slow
def test_what_a_dead_process_left_is_ended_and_swept_and_nothing_else(store: Path, tracker: Tracker) -> None:
    tags = {STORE_TAG: store_id(store), "sojourn.pid": "1"}
    done = subprocess.run([sys.executable, "-c", DIES.format(store=str(store), left=LEFT + NOT_OURS, tags=tags)],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
    parent, child = done.stdout.split()
    no_one = tracker.start("of an older version", {})
    lines: list[str] = []
    with another_process(store):  # whose these are, perhaps
        repair_store(store, tracker, (), lambda line: pytest.fail(line))
        assert tracker.running().keys() == {parent, child, no_one}
        assert [name for name in LEFT if not (store / name).exists()] == []
    as_a_new_process(store)
    repair_store(store, tracker, (), lines.append)
    own = tracker.start("own", tags)
    fresh = store / "features" / ".new.parquet.0123456789abcdef0123456789abcdef"
    fresh.write_text("half")
    repair_store(store, tracker, (), lines.append)  # this process is at work
    assert tracker.running().keys() == {own, no_one}
    client = MlflowClient(tracker.uri.plain)
    assert [client.get_run(run).info.status for run in (parent, child)] == ["KILLED", "KILLED"]
    assert len(lines) == 2
    assert fresh.exists()
    assert [path.name for path in (store / "artifacts" / parent).rglob("*") if path.is_file()] == ["metrics.csv"]
    assert [name for name in LEFT if (store / name).exists()] == []
    assert [name for name in NOT_OURS if not (store / name).exists()] == []


def test_who_holds_a_models_lock_ends_its_dead_trainings_beside_other_processes(store: Path, tracker: Tracker) -> None:
    tags = {STORE_TAG: store_id(store), "model": NAME}
    dead = {tracker.start(kind, {**tags, "kind": kind}) for kind in (RETRAIN, FAMILY, USAGE)}
    others = {tracker.start("comparison", {STORE_TAG: tags[STORE_TAG], "kind": COMPARISON}),
              tracker.start("check", {**tags, "kind": "monitor"}),
              tracker.start("another model", {**tags, "kind": RETRAIN, "model": "other"}),
              tracker.start("another store", {**tags, "kind": RETRAIN, STORE_TAG: "0" * 32})}
    lines: list[str] = []
    with another_process(store):
        repair_store(store, tracker, [NAME], lines.append)
    assert tracker.running().keys() == others and len(lines) == len(dead)


def test_a_probe_that_a_kill_left_in_the_artifacts_goes(store: Path, tracker: Tracker) -> None:
    (store / "artifacts").mkdir(exist_ok=True)
    left, own = store / "artifacts" / f"{PROBE}{'0' * 32}", store / "artifacts" / ".mine"
    for path in (left, own):
        path.write_bytes(b"")
        os.utime(path, (0, 0))
    repair_store(store, tracker)
    assert (left.exists(), own.exists()) == (False, True)


def test_candidates_of_dead_runs_go_and_the_challengers_stays(made: Made, store: Path, tracker: Tracker) -> None:
    gone, at_work, old, kept = (_judged(made, store, tracker, kind, FAILED)
                                for kind in ("hazard", "uptime", "hazard", "once"))
    tracker.end(gone.run_id, "KILLED")
    repair_store(store, tracker, (), lambda line: None)
    assert _candidates(store) == {at_work.run_id, old.run_id, kept.run_id}
    _promote(tracker, store, old)
    assert _candidates(store) == {at_work.run_id, old.run_id, kept.run_id}
    _promote(tracker, store, kept)
    assert _candidates(store) == {at_work.run_id, kept.run_id}
    _promote(tracker, store, _judged(made, store, tracker, "hazard"))  # the champion is in `bundles`
    assert _candidates(store) == {at_work.run_id, kept.run_id}


def test_runs_of_another_store_on_a_shared_server_are_left_to_it(store: Path, tracker: Tracker, tmp_path: Path) -> None:
    run = tracker.start("elsewhere", {STORE_TAG: store_id(store)})
    (tmp_path / "own").mkdir()
    repair_store(tmp_path / "own", tracker, (), lambda line: pytest.fail(line))
    assert tracker.running().keys() == {run}
    repair_store(store, tracker, (), lambda line: None)
    assert tracker.running() == {}


def test_promotions_of_one_store_wait_for_each_other(made: Made, store: Path, tracker: Tracker,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    judged = _judged(made, store, tracker, "once")
    seen: list[bool] = []
    register = tracker._client._client.create_model_version

    def registered(*args: Any, **kwargs: Any) -> object:
        with pytest.raises(TimeoutError), store_lock(store, 0.0):
            pass
        seen.append(True)
        return register(*args, **kwargs)

    monkeypatch.setattr(tracker._client._client, "create_model_version", registered)
    _promote(tracker, store, judged)
    assert seen == [True]


def test_the_champions_bytes_again_register_nothing(made: Made, store: Path, tracker: Tracker) -> None:
    first, second = (_judged(made, store, tracker, "hazard") for _ in range(2))  # both before either is promoted
    assert not _promote(tracker, store, first).is_unchanged
    again = _promote(tracker, store, second)
    assert (again.version, again.alias, again.is_unchanged) == (1, CHAMPION, True)
    assert tracker.running() == {}
    failed = (Gate("size", False, "too large"),)  # what did not pass stands in the registry with its reasons
    worse = _promote(tracker, store, _judged(made, store, tracker, "hazard", failed, champion=1))
    assert (worse.version, worse.alias, worse.is_unchanged) == (2, CHALLENGER, False)
    assert not _promote(tracker, store, _judged(made, store, tracker, "once", champion=1)).is_unchanged
    assert _promote(tracker, store, _judged(made, store, tracker, "hazard", champion=3)).version == 4


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "", "a/b", ".hidden"])
def test_a_manifest_names_only_files_of_its_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "MANIFEST.json").write_text(json.dumps({"sha256": {name: hashlib.sha256(b"x").hexdigest()}}))
    with pytest.raises(BundleError, match="must name the sha256 of each file"):
        BundleBytes.read(folder)
