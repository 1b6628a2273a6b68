"""A run that is kept is sent as it would have been logged, once, and promoted by the champion of then."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from made_bundles import Made, make
from sojourn.flows.retrain import unsent
from sojourn.flows.retrain.gate import Gate
from sojourn.flows.retrain.judge import candidate_folder
from sojourn.flows.retrain.promote import Judged, promote
from sojourn.flows.retrain.unsent import Logged, keep_unsent, send_unsent
from sojourn.flows.settings.tracking_uri import TrackingUri
from sojourn.flows.store.lock import PROCESS_TAG, is_locked
from sojourn.flows.tracking.logged_model import log_bundle
from sojourn.flows.tracking.registry import CHALLENGER, CHAMPION
from sojourn.flows.tracking.tracker import DataWindow, Tracker
from sojourn.flows.versions.promotion import BundleBytes, read_sha256, repair_store

NAME = "made"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture()
def store(new_store: Callable[[Path], Path], tmp_path: Path, empty_database: Path,
          monkeypatch: pytest.MonkeyPatch) -> Path:
    made_now = unsent._local

    def local(folder: Path) -> Tracker:
        if not (folder / "mlflow.db").exists():  # making one takes seconds
            folder.mkdir(parents=True)
            shutil.copy(empty_database, folder / "mlflow.db")
        return made_now(folder)

    monkeypatch.setattr(unsent, "_local", local)
    return new_store(tmp_path / "store")


@pytest.fixture()
def tracker(store: Path) -> Tracker:
    return Tracker(TrackingUri.of_file(store / "mlflow.db"), store / "artifacts")


def _log(made: Made, kind: str, champion: int | None) -> Callable[[Tracker, str], Logged]:
    def log(to: Tracker, run: str) -> Logged:
        to.log_data(run, [DataWindow("t", "abc", "train", "local", '{"uri": "t"}')])
        with to.run("km", {"family": "km"}, run) as child:
            to.log_by_step(child, {1: {"m": 1.0}, 2: {"m": 2.0}})
        to.log(run, {"p": 1}, {"ages.ibs": 0.25})
        source = log_bundle(to, run, made.folders[kind], made.encoder, made.request(0))
        sha256 = BundleBytes.read(made.folders[kind]).sha256
        return Logged(Judged(NAME, run, source, sha256, champion, (Gate("any", True, "fine"),)), "card\n",
                      {"trace": "made"})

    return log


def test_what_is_kept_is_logged_and_promoted_once(made: Made, store: Path, tracker: Tracker) -> None:
    run = tracker.start("retrain", {"model": NAME})
    with tracker.run("km", {"family": "km"}, run):
        pass  # logged before the tracking store went away, and not whole
    folder = keep_unsent(store, run, "retrain", _log(made, "hazard", None))
    assert (folder / "order.json").is_file() and tracker.models() == []
    lines: list[str] = []
    done = send_unsent(store, tracker, lines.append)
    assert [(each.version, each.alias) for each in done] == [(1, CHAMPION)]
    assert lines == ["sent a run that was kept: made version 1 is champion"]
    assert read_sha256(store / "bundles" / NAME) == BundleBytes.read(made.folders["hazard"]).sha256
    client = MlflowClient(tracker.uri.plain)
    found = client.get_run(run)
    assert (found.info.status, found.data.params, found.data.metrics) == ("FINISHED", {"p": "1"}, {"ages.ibs": 0.25})
    assert found.inputs is not None and [each.dataset.name for each in found.inputs.dataset_inputs] == ["t"]
    (child,) = tracker.children(run)
    assert (child.name, child.status, child.tags["family"]) == ("km", "FINISHED", "km")
    assert [(each.step, each.value) for each in client.get_metric_history(child.run_id, "m")] == [(1, 1.0), (2, 2.0)]
    model = (tracker.fetch(NAME, 1, store / "looked") / "MLmodel").read_text()
    assert run in model
    assert not folder.exists() and send_unsent(store, tracker, lines.append) == []


def test_a_copy_that_was_cut_off_is_made_again(made: Made, store: Path, tracker: Tracker,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    run = tracker.start("retrain", {"model": NAME})
    keep_unsent(store, run, "retrain", _log(made, "hazard", None))
    lines: list[str] = []

    def away(*_: object) -> None:
        raise OSError("it went away again")

    with monkeypatch.context() as patched:
        patched.setattr(promote, "fn", away)
        assert send_unsent(store, tracker, lines.append) == []
    assert lines == [f"the run in {store / 'unsent' / run} is kept still: it went away again"]
    assert [each.version for each in send_unsent(store, tracker, lines.append)] == [1]
    assert len(tracker.children(run)) == 1


def test_another_champion_of_meanwhile_is_not_replaced(made: Made, store: Path, tracker: Tracker) -> None:
    for kind in ("hazard", "once"):
        keep_unsent(store, tracker.start(kind, {}), kind, _log(made, kind, None))
    repair_store(store, tracker)  # what was kept is no leftover
    done = send_unsent(store, tracker, lambda _: None)
    assert [each.alias for each in done] == [CHAMPION, CHALLENGER]
    assert done[1].gates[-1].name == "the same champion"


def test_what_was_not_kept_whole_goes_and_what_is_damaged_stays(made: Made, store: Path, tracker: Tracker) -> None:
    half = store / "unsent" / "half"
    half.mkdir(parents=True)
    folder = keep_unsent(store, "0" * 32, "gone", _log(made, "hazard", None))  # a run that the store does not know
    lines: list[str] = []
    assert send_unsent(store, tracker, lines.append) == []
    assert len(lines) == 1 and "is kept still" in lines[0] and folder.is_dir()
    assert f"must know run {'0' * 32}" in lines[0] and f"or drop the run: delete the folder {folder}" in lines[0]
    assert not half.exists()


def test_what_another_process_sends_is_left_to_it(made: Made, store: Path, tracker: Tracker) -> None:
    folder = keep_unsent(store, tracker.start("retrain", {}), "retrain", _log(made, "hazard", None))
    lines: list[str] = []
    with (folder / "order.json").open("r+") as other:
        assert not is_locked(other.fileno())
        assert send_unsent(store, tracker, lines.append) == []
    assert lines == [f"the run in {folder} is being sent by another process"]
    assert len(send_unsent(store, tracker, lines.append)) == 1


def test_a_kept_run_of_a_dead_process_is_sent_without_a_word_of_its_end(made: Made, store: Path,
                                                                        tracker: Tracker) -> None:
    """The next command repairs the store first: the run's process is dead, its candidate stays."""
    champion = tracker.start("first", {})
    keep_unsent(store, champion, "first", _log(made, "once", None))
    send_unsent(store, tracker, lambda _: None)
    dead = {PROCESS_TAG: "0" * 32, "sojourn.pid": "1"}
    run, cut_off = tracker.start("retrain", dead), tracker.start("cut off", dead)
    for each in (run, cut_off):
        shutil.copytree(made.folders["hazard"], candidate_folder(store, NAME, each))
    keep_unsent(store, run, "retrain", _log(made, "hazard", None))  # judged against no champion: a challenger
    lines: list[str] = []
    repair_store(store, tracker, tell=lines.append)
    assert [line for line in lines if "KILLED" in line] == [f"run {cut_off} ended as KILLED: its process 1 is dead"]
    assert not candidate_folder(store, NAME, cut_off).exists()
    assert [each.alias for each in send_unsent(store, tracker, lines.append)] == [CHALLENGER]
    repair_store(store, tracker, tell=lines.append)
    assert candidate_folder(store, NAME, run).is_dir()
