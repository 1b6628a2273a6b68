"""A check says what was known at its time, refuses what it cannot judge, and acts on an alarm once."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from made_bundles import rewrite
from sojourn.features import Trace
from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.synthetic import synthesize
from sojourn.flows.monitor.followed import follow, traced_outcomes
from sojourn.flows.monitor.job import (
    AGE,
    ALARM,
    BEGUN,
    DONE,
    FAILED,
    FOLLOW_UP,
    ActedAlarm,
    monitor_folder,
    read_record,
    to_act_on,
    to_follow_up,
    to_renew,
    write_record,
)
from sojourn.flows.monitor.weeks import (
    Alarm,
    DriftCheck,
    Week,
    check_drift,
    clock_text,
    drift_alarms,
    loss_text,
    verdict,
    weeks_of,
)
from sojourn.flows.retrain.train import windows
from sojourn.flows.settings.other_jobs import MonitorConfig
from sojourn.flows.tracking.tracker import LEFT_TAG
from sojourn.flows.versions.promotion import BUNDLE_TAG
from sojourn.models import LIFETIME_MODELS, FitSettings, write_bundle
from sojourn.models.bundle_writer import training_reference
from sojourn.models.drift import DailyExits, WatchedRequests, daily_exits
from sojourn.serving import Predictor
from sojourn.serving.decisions import LOSS_WORDS, read_log
from sojourn.serving.decisions.log_rows import ENDS, MARK, frames_of, log_files
from sojourn.serving.inputs import HistoryState

NAME = "sojourn-lifetime"
DAY_S = 86_400
N_REQUESTS = 6_000


@dataclass(frozen=True)
class Logged:
    """A trace whose later part was decided and logged. factor of lifetimes after `drift_s` in `drifted`."""

    trace: Trace
    bundle: Path
    log: Path
    drifted: Path
    from_s: int
    drift_s: int


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Logged:
    root = tmp_path_factory.mktemp("logged")
    trace = synthesize(N_REQUESTS, seed=3)
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder, HistoryState(encoder.history))
    split = windows(rows, 0.7, 0.15)
    from_s, past = split.test_from_s, split.past
    drift_s = from_s + (trace.horizon_s - from_s) // 2
    settings = FitSettings(backoff_keys(encoder), 1, 0, {"num_leaves": 15, "learning_rate": 0.3}, rows.names)
    exported = LIFETIME_MODELS["hazard"]().fit(split.train, split.valid, past, settings).export()
    assert exported is not None
    about = {"training": {"to_s": from_s, "threshold_s": 3_600},
             "reference": training_reference(past, encoder.feature_names())}
    bundle = write_bundle(root / "bundle", "hazard", exported, encoder, HistoryState(encoder.history), about)
    for name, factor in (("log", 1.0), ("drifted", 0.1)):
        _replay(trace, bundle, root / name, from_s, drift_s, factor)
    return Logged(trace, bundle, root / "log", root / "drifted", from_s, drift_s)


def _replay(trace: Trace, bundle: Path, folder: Path, from_s: int, drift_s: int, factor: float) -> None:
    predictor = Predictor.load(bundle)
    predictor.log_to(folder)
    columns = list(predictor.encoder.columns())
    start_s, lifetime_s = trace.start_s(), trace.lifetime_s().astype(np.float64)
    lifetime_s[start_s >= drift_s] = np.maximum(lifetime_s[start_s >= drift_s] * factor, 1.0)
    end_s = start_s + lifetime_s.astype(np.int64)
    taken = np.flatnonzero(trace.is_start_known() & (start_s >= from_s))
    events = sorted([(int(end_s[idx]), 0, int(idx)) for idx in taken if trace.is_event()[idx] or factor < 1.0]
                    + [(int(start_s[idx]), 1, int(idx)) for idx in taken])
    running: dict[int, Any] = {}
    table = trace.requests[columns].astype(object).to_numpy()
    ids = trace.requests["request_id"].astype(str).tolist()
    for time_s, is_arrival, idx in events:
        if time_s >= trace.horizon_s:
            break
        if is_arrival:
            running[idx] = predictor.admit(dict(zip(columns, table[idx], strict=True)), time_s, request_id=ids[idx])
        elif idx in running:
            predictor.ended(running.pop(idx), time_s)
    predictor.stop_logging()


def versions_of(logged: Logged) -> frozenset[str]:
    return frozenset([Predictor.load(logged.bundle).version])


def figures_at(logged: Logged, folder: Path, as_of_s: int) -> str:
    followed = follow(read_log(folder, as_of_s), versions_of(logged), as_of_s)
    check = check_drift(followed, as_of_s, "cusum-bands")
    assert check is not None
    weeks = weeks_of(followed, check.exits, as_of_s, 3_600)
    return repr([(week.number, week.n, week.n_ended, week.wait, sorted(week.scores.items()), week.moved)
                 for week in weeks]) + repr(check.alarms) + repr(check.scores.tolist())


def test_a_check_knows_nothing_of_what_came_after_its_time(logged: Logged, tmp_path: Path) -> None:
    as_of_s = (logged.from_s + (logged.trace.horizon_s - logged.from_s) * 2 // 3) // DAY_S * DAY_S + 7
    short = tmp_path / "short"
    cut = Trace(logged.trace.requests.assign(
        departure_s=logged.trace.requests["departure_s"].where(logged.trace.requests["departure_s"] <= as_of_s))
        .loc[logged.trace.start_s() <= as_of_s].reset_index(drop=True), as_of_s, logged.trace.roles)
    _replay(cut, logged.bundle, short, logged.from_s, logged.drift_s, 1.0)  # a log that ends at the check's time
    assert figures_at(logged, logged.log, as_of_s) == figures_at(logged, short, as_of_s)
    assert figures_at(logged, logged.log, as_of_s) != figures_at(logged, logged.log, as_of_s + 2 * DAY_S)


def test_outcomes_of_a_file_give_what_the_logs_own_ends_give(logged: Logged) -> None:
    as_of_s = logged.trace.horizon_s - 1
    log, versions = read_log(logged.log, as_of_s), versions_of(logged)
    own = follow(log, versions, as_of_s)
    given = follow(log, versions, as_of_s, traced_outcomes(logged.trace, as_of_s))
    assert own.is_event.tolist() == given.is_event.tolist()
    assert own.end_s[own.is_event].tolist() == given.end_s[given.is_event].tolist()
    assert own.counts["ended"] == given.counts["ended"] > 1_000


def test_outcomes_are_joined_by_id_and_what_is_not_is_counted(logged: Logged) -> None:
    as_of_s = logged.trace.horizon_s - 1
    log, versions = read_log(logged.log, as_of_s), versions_of(logged)
    outcomes = traced_outcomes(logged.trace, as_of_s)
    (block,) = log.decisions
    first, second = block.request_id[:2]
    early = outcomes[first].__class__(0, int(block.arrival_s[0]) - 1, True)
    del outcomes[second]
    third = block.request_id[2]
    outcomes[third] = replace(outcomes[third], end_s=int(block.now_s[2]) + 1, is_event=True)
    found = follow(log, versions, as_of_s, {**outcomes, first: early})
    assert (found.counts["impossible"], found.counts["unmatched"], found.counts["contradicted"]) == (1, 1, 1)
    assert found.counts["followed"] == found.counts["decisions"] - 2
    other = follow(log, frozenset(["0" * 12]), as_of_s, outcomes)
    assert other.counts["foreign"] == other.counts["decisions"] and len(other) == 0


def test_two_different_ends_of_one_handle_are_not_believed(logged: Logged) -> None:
    as_of_s = logged.trace.horizon_s - 1
    log, versions = read_log(logged.log, as_of_s), versions_of(logged)
    again = log.ends[:2].copy()
    again[0, 2] += 5
    found = follow(replace(log, ends=np.concatenate([log.ends, again])), versions, as_of_s)
    assert found.counts["conflicting"] == 1
    assert found.counts["ended"] == len(log.ends) - 1


def test_what_ran_when_a_process_died_is_followed_up_to_its_last_word(logged: Logged, tmp_path: Path) -> None:
    predictor = Predictor.load(logged.bundle)
    predictor.log_to(tmp_path)
    predictor.admit({}, logged.from_s + 10)
    predictor.admit({}, logged.from_s + 60)
    predictor.stop_logging()
    later = Predictor.load(logged.bundle)
    later.log_to(tmp_path)
    later.admit({}, logged.from_s + 9_000)
    later.stop_logging()
    found = follow(read_log(tmp_path), versions_of(logged), logged.from_s + 9_000)
    assert sorted(found.end_s.tolist()) == [logged.from_s + second for second in (60, 60, 9_000)]
    assert not found.is_event.any()


def _damaged(folder: Path) -> None:
    """One byte of the second file's first ends is wrong."""
    path = log_files(folder)[1]
    content = path.read_bytes()
    frames = list(frames_of(content))
    place = [frame.kind for frame in frames].index(ENDS)
    at = sum(len(frame.packed()) for frame in frames[:place]) + 20
    assert list(frames_of(content[:at - 20])) and content[at - 20:at - 16] == MARK
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])


def _hole(folder: Path) -> None:
    log_files(folder)[1].unlink()


def _cut(folder: Path) -> None:
    path = log_files(folder)[1]
    path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.parametrize(("harm", "what", "n_known"), [(_damaged, "stretches", 5), (_hole, "files", 4),
                                                       (_cut, "stretches", 5)])
def test_what_ran_when_records_were_lost_is_followed_up_to_the_loss_only(
        logged: Logged, tmp_path: Path, harm: Callable[[Path], None], what: str, n_known: int) -> None:
    predictor = Predictor.load(logged.bundle)
    predictor.log_to(tmp_path, file_mib=1e-6, flush_s=60.0)  # a file a flush
    vms = [predictor.admit({}, logged.from_s + 10), predictor.admit({}, logged.from_s + 20)]
    predictor.ended(vms[0], logged.from_s + 30)
    predictor.flush_decisions()
    vms.append(predictor.admit({}, logged.from_s + 100))
    predictor.ended(vms[2], logged.from_s + 5_000)  # these end's records are lost
    predictor.flush_decisions()
    vms.append(predictor.admit({}, logged.from_s + 8_000))
    vms.append(predictor.admit({}, logged.from_s + 8_500))
    predictor.ended(vms[1], logged.from_s + 8_600)
    predictor.ended(vms[3], logged.from_s + 8_700)
    predictor.stop_logging()
    whole = follow(read_log(tmp_path), versions_of(logged), logged.from_s + 9_000)
    assert whole.losses == () and whole.counts["ended"] == 4
    harm(tmp_path)
    found = follow(read_log(tmp_path), versions_of(logged), logged.from_s + 9_000)
    ends = dict(zip((found.arrival_s - logged.from_s).tolist(),
                    zip((found.end_s - logged.from_s).tolist(), found.is_event.tolist(), strict=True), strict=True))
    assert {10: (30, True), 20: (30, False), 8_000: (8_700, True), 8_500: (8_700, False)}.items() <= ends.items()
    assert len(ends) == n_known and ends.get(100, (100, False)) == (100, False)
    (loss,) = found.losses
    assert (loss.from_s, loss.heard_s, loss.n, loss.what) == (logged.from_s + 30, logged.from_s + 8_000, 1, what)
    assert f"The log is not whole: {LOSS_WORDS[what]}: 1 from day" in loss_text(found.losses, clock_text(False))[0]
    week, = weeks_of(found, None, logged.from_s + 9_000, 3_600)
    assert week.is_partly_lost and not weeks_of(whole, None, logged.from_s + 9_000, 3_600)[0].is_partly_lost


def test_a_restart_from_a_snapshot_goes_on_following(logged: Logged, tmp_path: Path) -> None:
    predictor = Predictor.load(logged.bundle)
    predictor.log_to(tmp_path / "log")
    predictor.admit({}, logged.from_s + 10)
    predictor.snapshot(tmp_path / "history")
    predictor.stop_logging()
    later = Predictor.load(logged.bundle, history=tmp_path / "history")
    later.log_to(tmp_path / "log")
    later.admit({}, logged.from_s + 9_000)
    later.stop_logging()
    found = follow(read_log(tmp_path / "log"), versions_of(logged), logged.from_s + 9_000)
    assert found.end_s.tolist() == [logged.from_s + 9_000] * 2


def test_a_request_that_is_decided_again_counts_once(logged: Logged, tmp_path: Path) -> None:
    for second in (10, 500):
        predictor = Predictor.load(logged.bundle)
        predictor.log_to(tmp_path)
        vm = predictor.admit({}, logged.from_s + second, arrival_s=logged.from_s + 10, request_id="a")
        if second == 500:
            predictor.ended(vm, logged.from_s + 700)
        predictor.stop_logging()
    found = follow(read_log(tmp_path), versions_of(logged), logged.from_s + 900)
    assert (len(found), found.counts["repeated"]) == (1, 1)
    assert (found.end_s.tolist(), found.is_event.tolist()) == ([logged.from_s + 700], [True])


def test_ends_of_requests_that_waited_need_outcomes(logged: Logged, tmp_path: Path) -> None:
    predictor = Predictor.load(logged.bundle)
    predictor.log_to(tmp_path)
    vm = predictor.admit({}, logged.from_s + 10)
    predictor.ended(vm, logged.from_s + 700, arrival_s=logged.from_s + 500)
    predictor.stop_logging()
    with pytest.raises(ValueError, match="outcomes must be given for requests that wait"):
        follow(read_log(tmp_path), versions_of(logged), logged.from_s + 900)


def test_a_drift_raises_an_alarm_that_says_when_it_began(logged: Logged) -> None:
    as_of_s = logged.trace.horizon_s - 1
    calm, moved = (check_drift(follow(read_log(folder, as_of_s), versions_of(logged), as_of_s), as_of_s, "cusum-bands")
                   for folder in (logged.log, logged.drifted))
    assert calm is not None and moved is not None
    late = [alarm for alarm in moved.alarms if alarm.day >= logged.drift_s // DAY_S]
    assert late and late[0].day - logged.drift_s // DAY_S <= 7
    assert late[0].ratio > 1.2
    assert abs(late[0].since_day - logged.drift_s / DAY_S) <= 1.0
    assert late[0].since_low_day <= late[0].since_day <= late[0].since_high_day <= late[0].day
    assert len([alarm for alarm in calm.alarms if alarm.day >= logged.drift_s // DAY_S]) < len(late) + 1


def test_no_input_of_a_log_without_drift_has_moved(logged: Logged) -> None:
    as_of_s = logged.trace.horizon_s - 1
    weeks = weeks_of(follow(read_log(logged.log, as_of_s), versions_of(logged), as_of_s), None, as_of_s, 3_600)
    first, last = weeks[0], weeks[-1]
    assert first.n >= 500 and not [name for name, _ in first.moved if ":" in name]  # nothing before to compare with
    assert last.moved and [name for name, index in last.moved if index >= 0.25] == []


@pytest.mark.parametrize("detector", ["level", "change", "level-or-change", "timer"])
def test_each_alarm_says_the_day_of_the_change_whichever_detector_raised_it(detector: str) -> None:
    rng = np.random.default_rng(1)
    begin_s = np.sort(rng.integers(0, 60 * DAY_S, 6_000))
    end_s = begin_s + np.ceil(rng.exponential(np.where(begin_s < 49 * DAY_S, 7_200.0, 3_000.0))).astype(int)
    ages_s = np.array([0.0, 30.0 * DAY_S])
    rows = WatchedRequests(begin_s, begin_s, end_s, np.ones(6_000, bool), np.arange(6_000), ages_s,
                           np.tile(ages_s / 7_200.0, (6_000, 1)))
    exits = daily_exits(rows, 0, 59)
    late = [alarm for alarm in drift_alarms(exits, detector, (), ())[1] if alarm.day >= 50]
    assert late and all(abs(alarm.since_day - 49) <= 1 for alarm in late)
    assert all(alarm.since_low_day <= 49 <= alarm.since_high_day for alarm in late)


def test_no_alarm_is_said_by_how_near_one_is() -> None:
    exits = DailyExits(0, np.ones((2, 1)), np.ones((2, 1)), np.ones((2, 1)), np.ones(2))

    def told(*scores: float) -> str:
        return verdict(DriftCheck(exits, np.array(scores), ()), [], "", clock_text(False))[0]

    assert told(0.1, 0.3).endswith("exits are as expected. What to do: nothing.")
    assert "stands at 94% of one" in told(0.1, 0.94) and "moving towards an alarm" in told(0.1, 0.94)
    assert "nothing" not in told(0.94, 0.2)


def test_weeks_whose_exits_are_far_off_are_named_and_alarms_are_counted() -> None:
    exits = DailyExits(0, np.ones((2, 1)), np.ones((2, 1)), np.ones((2, 1)), np.ones(2))
    alarms = tuple(Alarm(day, 9, 8, 10, "at all ages", 20.0, 10.0, 3.0) for day in (12, 16))
    week = Week(3, 0, 10, 9, "", 0, {"exits_z": -4.2}, ())
    lines = " ".join(verdict(DriftCheck(exits, np.array([0.1, 1.1]), alarms), [week], "retrain.", clock_text(False)))
    assert "Alarm, the last of 2; the first was noticed after day 13" in lines
    assert "began about day 9, 00:00 (between day 8, 00:00 and day 10, 00:00)" in lines
    assert "3 (z -4.2)" in lines


@dataclass(frozen=True)
class Stored:
    """A store with the bundle registered as champion."""

    config: Callable[..., MonitorConfig]
    folder: Path


@pytest.fixture(scope="module")
def stored(logged: Logged, new_store: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory,
           prefect_server: None) -> Stored:
    from sojourn.flows.settings.trace import TraceSettings
    from sojourn.flows.tracking.tracker import CHAMPION
    from sojourn.flows.versions.promotion import BundleBytes, open_store

    store = new_store(tmp_path_factory.mktemp("monitored"))
    tracker = open_store(TraceSettings.model_validate({"store": store}))
    with tracker.run("made", {}) as run:
        source = tracker.log_folder(run, logged.bundle)
    version = tracker.register(NAME, source, run, "", {BUNDLE_TAG: BundleBytes.read(logged.bundle).sha256})
    tracker.set_alias(NAME, CHAMPION, version)
    return Stored(lambda **changes: MonitorConfig(**{"store": store, "model_name": NAME, "log": logged.log, **changes}),
                  store)


@pytest.mark.slow
def test_a_check_reports_to_mlflow_and_in_one_page(stored: Stored, logged: Logged) -> None:
    from sojourn.flows.monitor.job import monitor
    from sojourn.flows.versions.promotion import read_store

    found = monitor(stored.config())
    page = found.report.read_text()
    assert "What to do" in page and "<script" not in page and "http" not in page.replace("http-equiv", "")
    assert any(not week.wait for week in found.weeks)
    metrics = read_store(stored.config()).run_metrics(found.run_id)
    assert metrics["count.followed"] == found.counts["followed"]
    assert metrics["week.ibs"] > 0.0


@pytest.mark.parametrize(("change", "rule"), [
    ({"alias": "gone"}, "alias must point to a version of sojourn-lifetime"),
    ({"model_name": "no-such"}, "the registered model must be one of sojourn-lifetime, got 'no-such'"),
    ({"log": Path("no-such-folder")}, "log must be a folder that a predictor logs to, got 'no-such-folder'"),
    ({"as_of_s": 5}, "log must hold decisions, got .* records, all of after second 5"),
])  # fmt: skip
@pytest.mark.slow
def test_what_cannot_be_checked_is_refused_by_name(stored: Stored, change: dict[str, Any], rule: str) -> None:
    from sojourn.flows.monitor.job import monitor

    with pytest.raises((ValueError, FileNotFoundError), match=rule):
        monitor(stored.config(**change))


@pytest.mark.slow
def test_an_empty_folder_and_a_log_of_another_model_are_refused(stored: Stored, logged: Logged,
                                                                tmp_path: Path) -> None:
    from sojourn.flows.monitor.job import monitor

    with pytest.raises(ValueError, match="log must hold decisions, got none"):
        monitor(stored.config(log=tmp_path))
    other = tmp_path / "other"
    schema = json.loads((logged.bundle / "schema.json").read_bytes())
    shutil.copytree(logged.bundle, other)
    rewrite(other, "schema.json", json.dumps({**schema, "code_version": "other"}).encode())
    predictor = Predictor.load(other)
    predictor.log_to(tmp_path / "log")
    predictor.admit({}, logged.from_s + 10)
    predictor.stop_logging()
    with pytest.raises(ValueError, match=r"log must .*, got decisions of"):
        monitor(stored.config(log=tmp_path / "log"))


@pytest.mark.slow
def test_outcomes_need_decisions_with_ids(stored: Stored, logged: Logged, tmp_path: Path) -> None:
    from sojourn.flows.monitor.job import monitor

    predictor = Predictor.load(logged.bundle)
    predictor.log_to(tmp_path / "log")
    predictor.admit({}, logged.from_s + 10)
    predictor.stop_logging()
    table = pd.DataFrame({"request_id": ["a"], "arrival_s": [0], "departure_s": [5], "cpu_cores": [1.0],
                          "mem_gib": [1.0]})
    Trace(table, 10).save(tmp_path / "outcomes")
    with pytest.raises(ValueError, match="decisions must name a request_id to be joined with outcomes"):
        monitor(stored.config(log=tmp_path / "log", trace=tmp_path / "outcomes", reader="parquet"))


@pytest.mark.slow
def test_an_alarm_is_acted_upon_once(stored: Stored, logged: Logged, monkeypatch: pytest.MonkeyPatch,
                                     tmp_path: Path) -> None:
    from sojourn.flows.monitor import job

    runs: list[Any] = []
    monkeypatch.setattr(job, "load_settings", lambda *given, **changes: changes)
    monkeypatch.setattr("sojourn.flows.retrain.job.retrain", lambda settings: runs.append(settings))
    changes = {"log": logged.drifted, "retrain_config": tmp_path / "made.toml", "refractory_days": 40,
               "detector": "cusum-bands"}  # the log ends within a week of the drift
    first = job.monitor(stored.config(**changes))
    assert first.action == "retrain within the check" and len(runs) == 1
    assert [one.state for one in read_record(monitor_folder(stored.folder, NAME))] == [DONE]
    again = job.monitor(stored.config(**changes))
    assert again.action == "" and len(runs) == 1
    assert first.is_open and again.is_open  # the retrain made no champion
    assert "still answers: retrain on data" in again.report.read_text()

    def fails(settings: object) -> None:
        raise ValueError("no trace")

    write_record(monitor_folder(stored.folder, NAME), [])
    monkeypatch.setattr("sojourn.flows.retrain.job.retrain", fails)
    with pytest.raises(ValueError, match="no trace"):
        job.monitor(stored.config(**changes))
    assert [one.state for one in read_record(monitor_folder(stored.folder, NAME))] == [FAILED]


def test_an_alarm_names_what_answered_it_or_what_to_do(logged: Logged) -> None:
    """Version 2 answered. Versions 1 and 3 are older and newer bytes of the same model."""
    from sojourn.flows.monitor import job
    from sojourn.flows.tracking.tracker import VersionRecord

    own = Predictor.load(logged.bundle).version
    records = [VersionRecord(1, 0, "a", {BUNDLE_TAG: "1" * 64}),
               VersionRecord(2, 60_000, "b", {BUNDLE_TAG: own + "0" * 52, LEFT_TAG: "too early"}),
               VersionRecord(3, 120_000, "c", {BUNDLE_TAG: "3" * 64})]
    config = MonitorConfig(model_name=NAME, log=logged.drifted)
    alarm = Alarm(logged.drift_s // DAY_S + 1, 95, 94, 96, "at all ages", 20.0, 10.0, 3.0)
    log = read_log(logged.drifted)

    def answer(champion: int) -> str:
        tracker: Any = SimpleNamespace(version_records=lambda name: records,
                                       aliases=lambda name: {"champion": champion})
        return job._answer(tracker, config, log, alarm)

    assert answer(2) == ""
    assert answer(1) == "version 2 was rolled back to version 1 (too early)"
    assert answer(3) == "version 3, registered 1970-01-01 00:02 UTC, has become champion"
    clock = clock_text(True)
    done = [ActedAlarm(2, "event only", DONE, 1)]
    assert job._advice(config, None, done, answer(3), True, clock).startswith("nothing more: version 3, registered")
    told = job._advice(config, None, done, "", True, clock)
    assert "still answers: retrain on data" in told and "sojourn model rollback sojourn-lifetime" in told
    assert told.endswith("The last action, about 1970-01-03 00:00 UTC: event only (done).")
    assert "older than the refractory time of 14 days" in job._advice(config, None, [], "", False, clock)
    assert "sojourn train" in job._advice(config, ActedAlarm(2, "", BEGUN, 1), [], "", True, clock)


def test_times_are_dates_if_the_bundle_has_them(logged: Logged) -> None:
    as_of_s = int(max(one.clock_s for one in read_log(logged.log).sessions))
    followed = follow(read_log(logged.log), versions_of(logged), as_of_s)
    model = followed.models[-1]
    dated = replace(model, training={**model.training, "start_unix_s": 1_704_067_200})
    assert (model.is_dated, dated.is_dated, replace(dated, phase_s=0).is_dated) == (False, True, False)
    assert clock_text(dated.is_dated)(1_704_070_800) == "2024-01-01 01:00 UTC"


@pytest.mark.slow
def test_follow_ups_and_old_models_are_retrained_once_where_it_is_said_how(
        stored: Stored, logged: Logged, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sojourn.flows.monitor import job

    runs: list[Any] = []
    monkeypatch.setattr(job, "load_settings", lambda *given, **changes: changes)
    monkeypatch.setattr("sojourn.flows.retrain.job.retrain", lambda settings: runs.append(settings))
    folder = monitor_folder(stored.folder, NAME)
    now_day = (logged.trace.horizon_s - 1) // DAY_S
    how = {"retrain_config": tmp_path / "made.toml", "detector": "level"}
    write_record(folder, [ActedAlarm(now_day - 9, "retrain within the check", DONE, 1)])
    assert job.monitor(stored.config(detector="level")).action == "" and not runs
    assert job.monitor(stored.config(**how)).action == "retrain within the check" and len(runs) == 1
    assert [(one.day, one.reason, one.state) for one in read_record(folder)] == [
        (now_day - 9, ALARM, DONE), (now_day - 2, FOLLOW_UP, DONE)]
    assert job.monitor(stored.config(**how)).action == "" and len(runs) == 1
    write_record(folder, [])
    assert job.monitor(stored.config(**how, max_age_days=2)).action and len(runs) == 2
    assert job.monitor(stored.config(**how, max_age_days=2)).action == "" and len(runs) == 2
    assert job.monitor(stored.config(**how, max_age_days=0)).action == ""
    assert [(one.day, one.reason) for one in read_record(folder)] == [(now_day, AGE)]
    write_record(folder, [])


@pytest.mark.slow
def test_a_deployment_is_run_once_however_often_the_check_is_cut_off(stored: Stored, logged: Logged) -> None:
    from prefect import flow
    from prefect.client.orchestration import get_client

    from sojourn.flows.monitor.job import monitor

    @flow(name="made-retrain")
    def made() -> None: ...

    deployed: Any = made
    deployed.to_deployment("weekly", _sync=True).apply()  # a real server keeps it; no worker takes its runs
    folder = monitor_folder(stored.folder, NAME)
    write_record(folder, [])
    config = stored.config(log=logged.drifted, detector="cusum-bands", refractory_days=40,
                           retrain_deployment="made-retrain/weekly")
    assert monitor(config).action == "retrain by deployment made-retrain/weekly"
    (done,) = read_record(folder)
    assert done.state == DONE and done.note.startswith("flow run ")
    write_record(folder, [replace(done, state=BEGUN, note="")])  # as a kill after the run was made leaves it

    async def in_a_notebook() -> str:
        return monitor(config).action

    assert asyncio.run(in_a_notebook()) == "retrain by deployment made-retrain/weekly"
    (again,) = read_record(folder)
    assert (again.n_tries, again.note) == (2, done.note)
    with get_client(sync_client=True) as client:
        assert len([run for run in client.read_flow_runs() if run.idempotency_key and NAME in run.idempotency_key]) == 1
    write_record(folder, [])


def test_a_further_retraining_that_was_cut_off_is_taken_up_once() -> None:
    alarm = ActedAlarm(100, "retrain", DONE, 1)
    begun = ActedAlarm(107, "retrain", BEGUN, 1, reason=FOLLOW_UP)
    again = to_follow_up([alarm, begun], (7, 28), 14, 110)
    assert again is not None and again == ActedAlarm(107, "retrain", BEGUN, 2, reason=FOLLOW_UP)
    assert to_follow_up([alarm, again], (7, 28), 14, 110) is None
    assert to_follow_up([alarm], (7, 28), 14, 122) is None  # more than 14 days late
    old = ActedAlarm(160, "retrain", BEGUN, 1, reason=AGE)
    assert to_renew([alarm, old], 56, 100, 161) == ActedAlarm(160, "retrain", BEGUN, 2, reason=AGE)
    assert to_act_on(108, [begun], 14, 109) == ActedAlarm(108, "", BEGUN, 1)  # follow-ups hide no alarm


def test_a_record_that_is_damaged_is_refused_by_name(tmp_path: Path) -> None:
    write_record(tmp_path, [ActedAlarm(3, "event only", DONE, 1)])
    assert read_record(tmp_path) == [ActedAlarm(3, "event only", DONE, 1)]
    (tmp_path / "alarms.json").write_text("[]")
    with pytest.raises(ValueError, match=r"alarms.json in .* must be a record of alarms"):
        read_record(tmp_path)


KILLED = """
import os, signal, sys
from pathlib import Path
import sojourn.flows.monitor.job as job
from sojourn.flows.monitor.job import read_record, to_act_on
from sojourn.flows.monitor.weeks import Alarm
import sojourn.flows.retrain.job as retraining
folder = Path(sys.argv[1])
alarm = Alarm(100, 95, 94, 96, "at all ages", 20.0, 10.0, 3.0)
config = job.MonitorConfig(store=folder, model_name="m", log=folder, retrain_config=folder / "made.toml")

def told(name):
    with (folder / name).open("a") as file:
        file.write("x")

def act(n_left):
    def counted(module, name):
        real = getattr(module, name)
        def call(*given, **named):
            nonlocal n_left
            n_left -= 1
            if n_left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **named)
        setattr(module, name, call)
    job._emit = lambda *given: told("events")
    job.load_settings = lambda *given, **named: None
    retraining.retrain = lambda settings: told("retrains")
    for module, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink"), (job, "_emit"), (retraining, "retrain")):
        counted(module, name)
    due = to_act_on(100, read_record(folder), 14, 101)
    if due is not None:
        job._act(config, folder, read_record(folder), due, alarm)

for place in range(1, 30):
    for name in ("alarms.json", "events", "retrains"):
        (folder / name).unlink(missing_ok=True)
    child = os.fork()
    if not child:
        act(place)
        os._exit(0)
    is_killed = os.waitpid(child, 0)[1] == signal.SIGKILL
    for _ in range(2):  # the next two checks
        act(10**9)
    record = read_record(folder)
    assert [(one.day, one.state) for one in record] == [(100, "done")], record
    assert (folder / "retrains").read_text() in ("x", "xx"), place
    print(place, is_killed, (folder / "retrains").read_text())
"""


@pytest.mark.slow
def test_an_action_that_is_killed_at_any_write_is_done_by_the_next_check(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.endswith("x")]
    killed = [each for each in lines if each[1] == "True"]
    assert len(killed) >= 10 and lines[-1][1:] == ["False", "x"]
    assert sum(each[2] == "xx" for each in killed) < len(killed) / 2  # twice only where it was cut off after its start
