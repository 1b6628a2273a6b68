"""A second run with nothing new: when a finished one stands, and what makes it no longer stand."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from made_bundles import Made, make
from sojourn.flows import be_quiet
from sojourn.flows.retrain import job as finished_module
from sojourn.flows.retrain import verdict
from sojourn.flows.retrain.ingest import Ingested
from sojourn.flows.retrain.job import TABLES, _keep, finished_run, run_key, run_tags
from sojourn.flows.retrain.judge import candidate_folder
from sojourn.flows.retrain.promote import Judged, promote
from sojourn.flows.retrain.verdict import Gate, kept_answer
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.store.lock import model_lock
from sojourn.flows.tracking.logged_model import log_bundle
from sojourn.flows.tracking.tracker import CHALLENGER, CHAMPION, Tracker
from sojourn.flows.versions.promotion import BUNDLE_TAG, BundleBytes
from sojourn.flows.versions.version_list import roll_back

INGESTED = Ingested(Path(), "synthetic", "0" * 64, "")
NAME = "sojourn-lifetime"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture()
def config(new_store: Callable[[Path], Path], tmp_path: Path) -> RetrainConfig:
    return RetrainConfig(store=new_store(tmp_path / "store"))


@pytest.fixture()
def tracker(config: RetrainConfig) -> Tracker:
    return Tracker(config.mlflow_uri, config.store / "artifacts")


def finish(made: Made, config: RetrainConfig, tracker: Tracker, kind: str, *, is_passed: bool = True) -> str:
    """A finished run of the configuration whose candidate is a made bundle."""
    champion = tracker.version_of(NAME, CHAMPION)
    run = tracker.start(kind, run_tags(config, INGESTED, champion))
    folder = Path(shutil.copytree(made.folders[kind], candidate_folder(config.store, NAME, run)))
    sha256 = BundleBytes.read(folder).sha256
    tracker.tag(run, BUNDLE_TAG, sha256)
    tracker.log_text(run, "a table\n", TABLES)
    source = log_bundle(tracker, run, folder, made.encoder, made.request(0))
    judged = Judged(NAME, run, source, sha256, champion, (Gate("size", is_passed, "2: small"),))
    promote.fn(tracker, config.store, judged, "card\n", {})
    return run


def test_a_champion_stands(made: Made, config: RetrainConfig, tracker: Tracker) -> None:
    assert finished_run(config, tracker, INGESTED) is None
    run = finish(made, config, tracker, "hazard")
    found = finished_run(config, tracker, INGESTED)
    assert found is not None
    assert (found.run_id, found.left, found.tables) == (run, "", "a table\n")
    assert (found.promotion.version, found.promotion.alias, found.promotion.is_unchanged) == (1, CHAMPION, True)
    assert found.promotion.gates == (Gate("size", True, "2: small"),)


def test_other_data_code_or_settings_are_another_run(made: Made, config: RetrainConfig, tracker: Tracker,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    finish(made, config, tracker, "hazard")
    for other in (config.model_copy(update={"load": 0.7}), config.model_copy(update={"since": "9d"}),
                  config.model_copy(update={"model_name": "m"})):
        assert finished_run(other, tracker, INGESTED) is None
    assert finished_run(config, tracker, replace(INGESTED, data_hash="1" * 64)) is None
    for same in ({"n_threads": 7}, {"again": True}, {"allow_shrunk": True}):
        assert run_key(config.model_copy(update=same), INGESTED) == run_key(config, INGESTED)
    monkeypatch.setattr(finished_module, "source_hash", lambda *rooms: "edited")
    assert finished_run(config, tracker, INGESTED) is None


def test_a_challenger_stands_while_the_champion_is_the_one_it_was_judged_against(
        made: Made, config: RetrainConfig, tracker: Tracker) -> None:
    other = config.model_copy(update={"load": 0.7})
    finish(made, other, tracker, "hazard")
    finish(made, config, tracker, "once", is_passed=False)
    found = finished_run(config, tracker, INGESTED)
    assert found is not None
    assert (found.promotion.version, found.promotion.alias) == (2, CHALLENGER)
    assert [gate.is_passed for gate in found.promotion.gates] == [False]
    tracker.set_alias(NAME, CHAMPION, 2)
    tracker.set_alias(NAME, CHALLENGER, 1)
    assert finished_run(other, tracker, INGESTED) is None  # version 1 was judged against none


def test_a_version_that_was_rolled_back_stays_so(made: Made, config: RetrainConfig, tracker: Tracker) -> None:
    finish(made, config.model_copy(update={"load": 0.7}), tracker, "hazard")
    finish(made, config, tracker, "once")
    roll_back(tracker, config.store, NAME, 1, "bad days")
    found = finished_run(config, tracker, INGESTED)
    assert found is not None
    assert (found.promotion.version, found.promotion.alias, found.left) == (2, "", "bad days")
    assert tracker.version_of(NAME, CHAMPION) == 1


def test_what_is_not_whole_does_not_stand(made: Made, config: RetrainConfig, tracker: Tracker) -> None:
    run = finish(made, config, tracker, "hazard")
    artifacts = config.store / "artifacts" / run / "artifacts"
    for file in (artifacts / "bundle" / "schema.json", artifacts / TABLES,
                 config.store / "bundles" / NAME / "schema.json"):
        whole = file.read_bytes()
        file.unlink()
        assert finished_run(config, tracker, INGESTED) is None
        file.write_bytes(whole)
        assert finished_run(config, tracker, INGESTED) is not None


def test_a_run_that_did_not_finish_does_not_stand(made: Made, config: RetrainConfig, tracker: Tracker) -> None:
    run = finish(made, config, tracker, "hazard")
    for status in ("FAILED", "KILLED"):
        tracker.end(run, status)
        assert finished_run(config, tracker, INGESTED) is None


@pytest.fixture()
def kept(made: Made, new_store: Callable[[Path], Path], tmp_path: Path,
         monkeypatch: pytest.MonkeyPatch) -> tuple[RetrainConfig, Tracker]:
    """Settings with a trace file, whose finished run's answer is kept."""
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        monkeypatch.delenv(name)
    be_quiet()
    monkeypatch.chdir(tmp_path)
    trace = tmp_path / "jobs.swf"
    trace.write_text("1 0 0 60 1\n")
    config = RetrainConfig(store=new_store(tmp_path / "store"), trace=trace, reader="swf", model_name=NAME)
    tracker = Tracker(config.mlflow_uri, config.store / "artifacts")
    finish(made, config, tracker, "hazard")
    _keep(config, tracker, INGESTED, finished_run(config, tracker, INGESTED))
    return config, tracker


def test_the_kept_answer_is_the_one_of_the_finished_run(kept: tuple[RetrainConfig, Tracker],
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    config, tracker = kept
    finished = finished_run(config, tracker, INGESTED)
    answer = kept_answer(config)
    assert answer is not None and finished is not None
    assert (answer.promotion, answer.is_champion, answer.tables) == (finished.promotion, True, "a table\n")
    printed = capsys.readouterr().out
    assert printed.startswith("a table\n") and f"{NAME} version 1 stays champion\n" in printed


def test_the_kept_answer_of_a_challenger_says_so(made: Made, kept: tuple[RetrainConfig, Tracker]) -> None:
    config, tracker = kept
    other = config.model_copy(update={"load": 0.7})
    finish(made, other, tracker, "once", is_passed=False)
    assert kept_answer(other) is None
    _keep(other, tracker, INGESTED, finished_run(other, tracker, INGESTED))
    answer = kept_answer(other)
    assert answer is not None and (answer.is_champion, answer.promotion.version) == (False, 2)
    assert kept_answer(config) is None  # one is kept for each model


def _rewrite(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"a table", b"a tablE") + b" ")


def _only(store: Path, pattern: str) -> Path:
    return next(path for path in sorted(store.rglob(pattern)) if path.is_file())


CHANGES: dict[str, Callable[[RetrainConfig, Tracker, pytest.MonkeyPatch], object]] = {
    "trace": lambda config, tracker, patch: _rewrite(config.trace or Path()),
    "column map beside it": lambda config, tracker, patch: Path(f"{config.trace}.toml").write_text("a = 1\n"),
    "code": lambda config, tracker, patch: patch.setattr(verdict, "source_hash", lambda *rooms: "edited"),
    "database": lambda config, tracker, patch: tracker.start("other", {}),
    "database's journal": lambda config, tracker, patch: (config.store / "mlflow.db-wal").write_bytes(b"1"),
    "bundle": lambda config, tracker, patch: _rewrite(_only(config.store / "bundles", "schema.json")),
    "bundle gone": lambda config, tracker, patch: shutil.rmtree(config.store / "bundles"),
    "artifact": lambda config, tracker, patch: _rewrite(_only(config.store / "artifacts", "schema.json")),
    "tables": lambda config, tracker, patch: _only(config.store / "artifacts", TABLES).unlink(),
    "order": lambda config, tracker, patch: (config.store / "promotions" / "a.json").write_text("{}"),
    "answer": lambda config, tracker, patch: _rewrite(_only(config.store / "answers", "*.json")),
    "no answer": lambda config, tracker, patch: _only(config.store / "answers", "*.json").write_text("[]"),
    "server": lambda config, tracker, patch: patch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api"),
    "server's file": lambda config, tracker, patch: Path("prefect.toml").write_text("[api]\n"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_the_kept_answer_does_not_stand_if_anything_differs(change: str, kept: tuple[RetrainConfig, Tracker],
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    config, tracker = kept
    assert kept_answer(config) is not None
    CHANGES[change](config, tracker, monkeypatch)
    assert kept_answer(config) is None


def test_the_kept_answer_does_not_stand_for_other_settings_or_another_place(kept: tuple[RetrainConfig, Tracker],
                                                                            tmp_path: Path) -> None:
    config, _ = kept
    for other in ({"load": 0.7}, {"again": True}, {"n_threads": 7}, {"tracking_uri": TrackingUri("http://127.0.0.1:1")},
                  {"artifacts": (tmp_path / "b").as_uri()}, {"model_name": "m"}):
        assert kept_answer(config.model_copy(update=other)) is None
    copy = config.model_copy(update={"store": Path(shutil.copytree(config.store, tmp_path / "copy"))})
    assert kept_answer(copy) is None  # its database names the artifacts of the original
    with model_lock(config.store, NAME), pytest.raises(BlockingIOError, match="must have one writer at a time"):
        kept_answer(config)
