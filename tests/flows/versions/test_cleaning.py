"""Cleaning removes what nobody needs and nothing else; killed before any change of a file, the next one finishes it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient
from typer.testing import CliRunner

from made_bundles import Made
from made_growing import days_folder
from made_store import another_process, copied, tracker_of
from sojourn.features.partitions import is_in_parts, partition_count
from sojourn.flows.cli import app
from sojourn.flows.retrain.features import sampled_features
from sojourn.flows.retrain.ingest import read_into
from sojourn.flows.retrain.judge import candidate_folder
from sojourn.flows.retrain.promote import Judged, promote
from sojourn.flows.retrain.verdict import Gate, Promotion
from sojourn.flows.settings.store import RetentionSettings
from sojourn.flows.settings.trace import TraceSource
from sojourn.flows.store.caches import parts_file
from sojourn.flows.tracking.logged_model import log_bundle
from sojourn.flows.tracking.tracker import CHALLENGER, CHAMPION, CLEANED_TAG, COMPARISON, SYSTEM, Tracker
from sojourn.flows.versions import cleaning as module
from sojourn.flows.versions.cleaning import clean, plan_cleaning
from sojourn.flows.versions.promotion import BundleBytes, read_sha256
from sojourn.flows.versions.version_list import roll_back, version_lines, version_rows
from sojourn.serving import Predictor

NAME = "made"
OLD, NEW = "0" * 12, "f" * 12
def retention(keep_runs: int, keep_days: float, keep_caches: int, keep_parts_days: float) -> RetentionSettings:
    return RetentionSettings(keep_runs=keep_runs, keep_days=keep_days, keep_caches=keep_caches,
                             keep_parts_days=keep_parts_days)


ONE = retention(1, 0.0, 1, 90.0)


def _promoted(made: Made, store: Path, tracker: Tracker, kind: str, *, is_passed: bool = True) -> Promotion:
    run = tracker.start(kind, {"model": NAME})
    with tracker.run(f"family of {kind}", {}, run) as child:
        tracker.log(child, metrics={"a": 1.0})
        tracker.log_text(child, "x" * 100, "table.txt")
    folder = Path(shutil.copytree(made.folders[kind], candidate_folder(store, NAME, run)))
    source = log_bundle(tracker, run, folder, made.encoder, made.request(0))
    judged = Judged(NAME, run, source, BundleBytes.read(folder).sha256, tracker.version_of(NAME, CHAMPION),
                    (Gate("any", is_passed, "found"),))
    return promote.fn(tracker, store, judged, "card\n", {"trace": "made"})


@pytest.fixture(scope="module")
def kept(made: Made, new_store: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Versions 1 and 2 passed, 2 is champion; 3 and 4 failed, 4 is challenger."""
    store = new_store(tmp_path_factory.mktemp("kept") / "store")
    tracker = tracker_of(store)
    _promoted(made, store, tracker, "hazard")
    _promoted(made, store, tracker, "once")
    for kind in ("uptime", "hazard"):
        _promoted(made, store, tracker, kind, is_passed=False)
    assert tracker.aliases(NAME) == {CHALLENGER: 4, CHAMPION: 2}
    return store


@pytest.fixture()
def four(kept: Path, store: Path) -> Tracker:
    return tracker_of(copied(kept, store))


def _held(tracker: Tracker, store: Path) -> dict[int, bool]:
    """Of each version whether its bundle can be fetched whole."""
    found = {}
    for version in tracker.versions(NAME):
        try:
            BundleBytes.read(tracker.fetch(NAME, version, store / ".." / f"looked-{os.urandom(4).hex()}"))
            found[version] = True
        except (OSError, ValueError):
            found[version] = False
    return found


def test_versions_that_may_be_needed_stay_and_the_others_say_what_became_of_them(store: Path, four: Tracker) -> None:
    before = read_sha256(store / "bundles" / NAME)
    planned = plan_cleaning(store, four, ONE)
    assert _held(four, store) == {1: True, 2: True, 3: True, 4: True}  # a plan removes nothing
    done = clean(store, four, ONE)
    assert done.n_bytes == planned.n_bytes > 10_000
    assert _held(four, store) == {1: False, 2: True, 3: False, 4: True}
    assert read_sha256(store / "bundles" / NAME) == before
    assert len(four.children(four.run_of(NAME, 2))) == 1
    assert four.children(four.run_of(NAME, 1)) == []  # the measures of single families are gone, the version's stay
    states = {row[0]: row[3] for row in version_rows(version_lines(four, NAME))[1]}
    assert states["1"].startswith("passed; artifacts removed 20") and states["2"] == "passed"
    with pytest.raises(OSError, match="version 1 must be there, got none: `sojourn store clean` removed"):
        roll_back(four, store, NAME, 1, "x")
    assert plan_cleaning(store, four, ONE).items == ()


def test_more_runs_or_days_keep_more(store: Path, four: Tracker) -> None:
    for kept in (retention(2, 0.0, 1, 90.0), retention(1, 1.0, 1, 90.0)):
        artifacts = {each.run.tags.get("mlflow.runName") for each in plan_cleaning(store, four, kept).items if each.run}
        assert artifacts == set(), kept  # of four, two passed and two are the newest; all ended today


def test_what_is_compared_with_or_running_stays(made: Made, store: Path, four: Tracker) -> None:
    four.tag_version(NAME, 2, "best.accuracy", "1")
    running = four.start("running", {"model": NAME})
    four.log_text(running, "half", "a.txt")
    runs = []
    for number in range(3):
        with four.run(f"comparison {number}", {"kind": COMPARISON, "trace": "t", "comparison": "c"}) as run:
            four.log_text(run, '{"trace": "t", "name": "c"}', f"{SYSTEM}/{COMPARISON}.json")
        runs.append(run)
    with four.run("cut off", {"kind": COMPARISON, "trace": "t", "comparison": "c"}) as failed:
        four.end(failed, "FAILED")
    going = {each.run.run_id for each in clean(store, four, ONE).items if each.run is not None}
    assert runs[2] not in going and running not in going  # the latest that finished is read by `studies results`
    assert {runs[0], runs[1]} <= going
    assert len(four.comparisons()) == 1
    assert _held(four, store) == {1: True, 2: True, 3: False, 4: True}


def _cached(store: Path) -> None:
    for number, key in enumerate((OLD, NEW)):
        name = f"t-{key}"
        for path in (store / "features" / f"{name}-{'1' * 8}.parquet", store / "features" / f"{name}-{'1' * 8}.json",
                     store / "traces" / name / "checksums.json"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"0" * 1_000)
            os.utime(path, (number, number))
        os.utime(store / "traces" / name, (number, number))


def test_old_caches_go_unless_another_process_uses_the_store(store: Path, tracker: Tracker,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    _cached(store)
    with another_process(store):
        waiting = plan_cleaning(store, tracker, ONE)
        assert (waiting.items, waiting.waiting) == (
            (), ("caches and databases wait: another process uses the store",))
    assert clean(store, tracker, ONE).n_bytes == 3_000
    left = {str(path.relative_to(store)) for part in ("features", "traces") for path in (store / part).iterdir()}
    name = f"t-{NEW}"
    assert left == {f"features/{name}-11111111.parquet", f"features/{name}-11111111.json", f"traces/{name}"}


def test_only_what_sojourn_made_counts_and_goes(store: Path, tracker: Tracker) -> None:
    _cached(store)
    elsewhere = store.parent / "elsewhere"
    elsewhere.mkdir()
    own = [store / "traces" / name for name in ("mynote.txt", "mine.csv", f"t-{OLD}.csv", f"linked-{OLD}", "mine")]
    own += [store / "features" / "mine.parquet", store / "curves" / "a.npz", store / "cells" / "a",
            store / "traces" / f"unlisted-{OLD}" / "a.csv"]
    for path in own:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name.startswith("linked"):
            path.symlink_to(elsewhere)
        elif path.name == "mine":
            path.mkdir()
        else:
            path.write_text("mine")  # newer than all of the store's
    made = [store / "cells" / f"{'a' * 64}.npz", store / "cells" / f"{'a' * 64}.json",
            store / "curves" / f"cut-{'b' * 24}.json", store / "curves" / f"hazard-{'b' * 24}.npz",
            store / "features" / f"t-{OLD}-22222222" / "checksums.json"]
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    for part in ("cells", "curves"):
        newer = store / part / f"{'c' * 64 if part == 'cells' else 'hazard-' + 'c' * 24}.npz"
        newer.write_text("newer")
    done = clean(store, tracker, retention(1, 0.0, 0, 90.0))
    assert done.failed == ()
    assert all(path.exists() for path in own)
    left = {path for part in module.CACHES for path in (store / part).rglob("*") if path.is_file()}
    assert left == {path for path in own if path.is_file()}


def test_traces_and_features_in_parts_go_whole(store: Path, tracker: Tracker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.flows.settings.trace.PARTS_ABOVE", 300)
    monkeypatch.setattr(sys.modules[partition_count.__module__], "REQUESTS_PER_PARTITION", 100)
    made = []
    for seed in range(2):
        ingested = read_into(store, TraceSource(None, "synthetic", None, 400, seed))
        files = sampled_features(store, ingested, None, None, 200)[-1].files
        assert is_in_parts(ingested.folder) and len(files) > 1
        made.append((ingested.folder, files[0].parent))
        for folder in made[-1]:
            os.utime(folder, (seed, seed))
    planned = {each.place for each in plan_cleaning(store, tracker, ONE).items}
    assert planned == {str(folder) for folder in made[0]}
    assert clean(store, tracker, ONE).failed == ()
    assert [folder.exists() for folder in (*made[0], *made[1])] == [False, False, True, True]
    for part in ("features", "traces"):  # nothing half-removed is left
        assert len(list((store / part).iterdir())) == 1


def test_what_was_read_of_a_growing_source_stays_while_the_source_is_read(store: Path, tracker: Tracker) -> None:
    sources = [TraceSource(days_folder(store.parent / name), "parquet-days", None, 0, 0) for name in ("used", "gone")]
    files = [parts_file(store, source) for source in sources]
    for source, file in zip(sources, files, strict=True):
        read_into(store, source)
        assert file is not None
        os.utime(file, (0, 0))
    read_into(store, sources[0])  # nothing new, and still it is in use
    own = store / "parts" / "notes.parquet"
    own.write_text("mine")
    os.utime(own, (0, 0))
    assert clean(store, tracker, ONE).failed == ()
    assert set((store / "parts").iterdir()) == {files[0], own}
    assert "0 of 3 parts read, 3 kept" in read_into(store, TraceSource(
        sources[0].file, "parquet-days", 10**6, 0, 0)).report
    clean(store, tracker, retention(1, 0.0, 1, 0.0))
    assert set((store / "parts").iterdir()) == {own}


def test_what_would_not_go_is_named_and_stops_nothing(store: Path, tracker: Tracker,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    _cached(store)
    stuck = store / "traces" / f"t-{OLD}"
    removed = shutil.rmtree

    def refusing(path: Path, ignore_errors: bool = False) -> None:
        if stuck.name in str(path):
            raise PermissionError(13, "Permission denied")
        removed(path, ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", refusing)
    found = CliRunner().invoke(app, ["store", "clean", "--store", str(store), "--keep-caches", "1", "--yes"])
    assert found.exit_code == 2 and f"got {stuck}: " in found.output
    assert {path.name for path in (store / "features").iterdir()} == {
        f"t-{NEW}-11111111.parquet", f"t-{NEW}-11111111.json"}


def test_on_a_terminal_the_command_asks_and_removes_what_it_showed(store: Path, four: Tracker,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.flows.commands.store.is_terminal", lambda: True)
    wanted = ["store", "clean", "--store", str(store), "--keep-runs", "1", "--keep-caches", "0"]
    refused = CliRunner().invoke(app, wanted, input="\n")
    assert refused.exit_code == 0 and "Remove all this? [y/N]" in refused.output
    assert _held(four, store) == {1: True, 2: True, 3: True, 4: True}
    shown = plan_cleaning(store, four, retention(1, 0.0, 0, 90.0))
    _cached(store)  # after it was shown
    assert clean(store, four, retention(1, 0.0, 0, 90.0), shown=shown).n_bytes == shown.n_bytes
    assert len(list((store / "features").iterdir())) == 4
    assert _held(four, store) == {1: False, 2: True, 3: False, 4: True}
    assert "removed" in CliRunner().invoke(app, wanted, input="y\n").output
    assert list((store / "features").iterdir()) == []
    assert read_sha256(store / "bundles" / NAME) is not None


def test_the_command_lists_first_and_removes_with_yes(store: Path, four: Tracker) -> None:
    _cached(store)
    wanted = ["store", "clean", "--store", str(store), "--keep-runs", "1", "--keep-caches", "1"]
    listed = CliRunner().invoke(app, wanted)
    assert listed.exit_code == 0, listed.output
    assert "1 x artifacts of hazard" in listed.output and "to remove; nothing was" in listed.output
    assert str(store / "traces" / f"t-{OLD}") in listed.output
    assert _held(four, store)[1]
    assert "removed" in CliRunner().invoke(app, [*wanted, "--yes"]).output
    assert not _held(four, store)[1]
    assert "0.00 MB  to remove; nothing was" in CliRunner().invoke(app, wanted).output
    refused = CliRunner().invoke(app, [*wanted, "--keep-runs", "0"])
    assert refused.exit_code == 2 and "keep_runs must be valid" in refused.output
    away = CliRunner().invoke(app, ["store", "clean", "--store", str(store / "nowhere")])
    assert away.exit_code == 2 and not (store / "nowhere").exists()


@pytest.mark.slow
def test_killed_before_any_change_of_a_file_the_next_one_finishes(four: Tracker, store: Path) -> None:
    """Each try forks, so that the kill is one: before the k-th file or folder that the cleaning removes."""
    _cached(store)
    k = 0
    while True:
        k += 1
        pid = os.fork()
        if pid == 0:
            n_removed = 0

            def killed(event: str, _: object) -> None:
                nonlocal n_removed
                if event in ("os.remove", "os.rmdir"):
                    n_removed += 1
                    if n_removed == 2:  # the one before is done
                        os.kill(os.getpid(), 9)

            sys.addaudithook(killed)
            try:
                clean(store, Tracker(four.uri, store / "artifacts"), ONE)
                os._exit(0)
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, -9)
        assert Predictor.load(store / "bundles" / NAME).version
        held = _held(four, store)
        assert (held[2], held[4]) == (True, True)
        for version in (1, 3):  # never half of a bundle without a word
            assert held[version] or CLEANED_TAG in four.version_tags(NAME, version)
        if code == 0:
            break
    assert k > 10
    assert _held(four, store) == {1: False, 2: True, 3: False, 4: True}
    assert plan_cleaning(store, four, ONE).items == ()
    assert not [run for run in MlflowClient(four.uri.plain).search_runs([four._experiment])
                if run.data.tags.get(CLEANED_TAG) == "begun"]
