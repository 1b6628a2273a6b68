"""The monitor's job: join logged decisions with outcomes, detect drift, report, act on an alarm.

A record in the store has each alarm's action, so that even a killed check causes no second one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sojourn import __version__
from sojourn.flows.console import console, stage
from sojourn.flows.monitor.followed import Followed, Lag, Outcome, follow, lag_of, traced_outcomes
from sojourn.flows.monitor.weeks import (
    Alarm,
    Clock,
    DriftCheck,
    Week,
    check_drift,
    clock_text,
    loss_text,
    monitor_page,
    verdict,
    weeks_of,
)
from sojourn.flows.settings.other_jobs import MonitorConfig
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.store import load_settings
from sojourn.flows.store.lock import held_alone
from sojourn.flows.tracking.tracker import LEFT_TAG, SYSTEM, Tracker
from sojourn.flows.versions.promotion import BUNDLE_TAG
from sojourn.flows.workers.flow import store_flow
from sojourn.models.drift import DAY_S
from sojourn.publishing import whole_file
from sojourn.serving.decisions import DecisionLog, read_log

MONITOR = "monitor"
"""Folder of the store, with a folder per model."""
REPORT, RECORD, LOCK = "report.html", "alarms.json", "monitor.lock"
FORMAT_VERSION = 1
BEGUN, DONE, FAILED = "begun", "done", "failed"
N_TRIES_MAX = 2
"""The most tries of an interrupted action."""
ALARM, FOLLOW_UP, AGE, LAG = "alarm", "follow-up", "age", "lag"
"""Reasons of an action: an alarm, some days after one, an old model, or one that counts of the latest ends beat."""
N_VERSION_DIGITS = 12
EVENT = "sojourn.monitor.alarm"
_REASONS = {FOLLOW_UP: "This check starts a retrain some days after an alarm, when more is known of what changed.",
            AGE: "This check starts a retrain because the data of the model in force ended long ago.",
            LAG: "This check starts a retrain because the model lags behind the latest ends."}
_THRESHOLD_S = 3_600
"""The threshold of "long-lived" if no version has one."""


@dataclass(frozen=True, slots=True)
class ActedAlarm:
    """One action on an alarm, or another retraining. day: of the alarm, or the due day; action: in
    words; state: begun, done or failed.

    n_before: alarms of earlier days in the same check. reason: alarm, follow-up, age or lag.
    version: that lags, since a lag has one action a version.
    """

    day: int
    action: str
    state: str
    n_tries: int
    note: str = ""
    n_before: int = 0
    reason: str = ALARM
    version: str = ""


def monitor_folder(store: Path, name: str) -> Path:
    """The folder of a model's report and record."""
    return store / MONITOR / name


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; BlockingIOError names the process of another running check."""
    with held_alone(folder / LOCK, lambda holder: BlockingIOError(
            f"one check of {folder.name} must be under way at a time, got another one by {holder}")):
        yield


def read_record(folder: Path) -> list[ActedAlarm]:
    """The actions so far, the earliest first; ValueError if the file is another's or damaged."""
    try:
        document: Any = json.loads((folder / RECORD).read_bytes())
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise ValueError(f"{RECORD} in {str(folder)!r} must be a record of alarms, got {error}") from error
    try:
        if document["format_version"] != FORMAT_VERSION:
            raise ValueError(f"format_version {document['format_version']!r}")
        return [ActedAlarm(int(one["day"]), str(one["action"]), str(one["state"]), int(one["n_tries"]),
                           str(one["note"]), int(one.get("n_before", 0)), str(one.get("reason", ALARM)),
                           str(one.get("version", "")))
                for one in document["alarms"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{RECORD} in {str(folder)!r} must be a record of alarms, got {error}") from error


def write_record(folder: Path, acted: list[ActedAlarm]) -> None:
    """Replace the record whole."""
    with whole_file(folder / RECORD) as temporary:
        temporary.write_text(json.dumps({"format_version": FORMAT_VERSION, "alarms": [asdict(one) for one in acted]},
                                        indent=1) + "\n")


def to_act_on(day: int, acted: list[ActedAlarm], refractory_days: int, now_day: int) -> ActedAlarm | None:
    """The record of an action on an alarm due now; None if the alarm is old, or had its action.

    An alarm within `refractory_days` of one with an action is the same drift, as a retraining takes
    time to show. An interrupted action is repeated once.

    >>> to_act_on(100, [], 14, 101), to_act_on(100, [ActedAlarm(95, "retrain", DONE, 1)], 14, 101)
    (ActedAlarm(day=100, action='', state='begun', n_tries=1, note='', n_before=0, reason='alarm', version=''), None)
    """
    if now_day - day > refractory_days:
        return None
    near = [one for one in acted if one.reason == ALARM and abs(one.day - day) <= refractory_days]
    return _again(near[-1]) if near else ActedAlarm(day, "", BEGUN, 1)


def to_follow_up(acted: list[ActedAlarm], follow_up_days: tuple[int, ...], refractory_days: int,
                 now_day: int) -> ActedAlarm | None:
    """The record of a further retraining that is due now; None if there is none.

    It is due some days after the last alarm with an action, since little was known of the change on
    the alarm's day. Of several the latest counts, up to `refractory_days` late.

    >>> done = [ActedAlarm(100, "retrain", DONE, 1)]
    >>> to_follow_up(done, (7, 28), 14, 106), to_follow_up(done, (7, 28), 14, 109).day
    (None, 107)
    """
    alarms = [one.day for one in acted if one.reason == ALARM]
    due = [alarms[-1] + after for after in follow_up_days if alarms and now_day - alarms[-1] - after >= 0]
    if not due or now_day - max(due) > refractory_days:
        return None
    tried = [one for one in acted if one.reason == FOLLOW_UP and one.day == max(due)]
    return _again(tried[-1]) if tried else ActedAlarm(max(due), "", BEGUN, 1, reason=FOLLOW_UP)


def to_renew(acted: list[ActedAlarm], max_age_days: int, trained_day: int, now_day: int) -> ActedAlarm | None:
    """The record of a retraining that is due because the served model is old; None if it is not.

    Its age counts from `trained_day`, the end of its data, or from the begin of the last
    retraining, if that is later: after a failed gate not every check retrains.

    >>> to_renew([], 56, 40, 95), to_renew([], 56, 40, 96).day
    (None, 96)
    """
    if acted and acted[-1].reason == AGE and acted[-1].state == BEGUN:
        return _again(acted[-1])
    last_day = max([trained_day, *(one.day for one in acted)])
    return ActedAlarm(now_day, "", BEGUN, 1, reason=AGE) if now_day - last_day >= max_age_days else None


def to_catch_up(acted: list[ActedAlarm], version: str, refractory_days: int, now_day: int) -> ActedAlarm | None:
    """The record of a retraining that is due because a version lags; None if it had its action, or another one began
    within the refractory time.

    >>> done = [ActedAlarm(100, "retrain", DONE, 1, reason=LAG, version="1a2b")]
    >>> to_catch_up(done, "1a2b", 14, 200), to_catch_up(done, "3c4d", 14, 110), to_catch_up(done, "3c4d", 14, 115).day
    (None, None, 115)
    """
    of_version = [one for one in acted if one.reason == LAG and one.version == version]
    if of_version:
        return _again(of_version[-1])
    if acted and now_day - acted[-1].day < refractory_days:
        return None
    return ActedAlarm(now_day, "", BEGUN, 1, reason=LAG, version=version)


def _again(last: ActedAlarm) -> ActedAlarm | None:
    """A second try of an interrupted action; None after that."""
    if last.state != BEGUN or last.n_tries >= N_TRIES_MAX:
        return None
    return replace(last, n_tries=last.n_tries + 1, note="")


@dataclass(frozen=True, slots=True)
class Monitored:
    """The result of a check. as_of_s: its time; action: on an alarm, "" = none.

    is_open: the last alarm is fresh, and its alias still points at the version that answered then.
    """

    as_of_s: int
    weeks: tuple[Week, ...]
    check: DriftCheck | None
    counts: Mapping[str, int]
    report: Path
    run_id: str
    action: str
    is_open: bool


@store_flow("monitor")
def monitor(config: MonitorConfig, tracker: Tracker) -> Monitored:
    """Check a model's logged decisions as known at one time; report, and act on a fresh alarm."""
    versions = _versions(tracker, config)
    folder = monitor_folder(config.store, config.model_name)
    with alone(folder):
        with stage("read and join"):
            log, as_of_s = _log(config)
            followed = follow(log, versions, as_of_s, _outcomes(config, as_of_s))
            _check_joined(config, log, followed)
        with stage("measure"):
            check = check_drift(followed, as_of_s, config.detector)
            weeks = weeks_of(followed, None if check is None else check.exits, as_of_s, _threshold_s(config, followed),
                             config.seed)
            lag = lag_of(followed, as_of_s, config.seed)
        acted = read_record(folder)
        clock = clock_text(followed.models[-1].is_dated)
        last = check.alarms[-1] if check is not None and check.alarms else None
        answer = "" if last is None else _answer(tracker, config, log, last)
        due = _due(config, None if answer else check, acted, as_of_s, _trained_day(followed), lag)
        is_fresh = last is not None and as_of_s // DAY_S - last.day <= config.refractory_days
        advice = _advice(config, due, acted, answer, is_fresh, clock)
        tags = {"kind": "monitor", "model": config.model_name, "code_version": __version__, "as_of_s": str(as_of_s),
                "alarm": "none" if check is None or not check.alarms else str(check.alarms[-1].day)}
        with tracker.run(f"monitor {config.model_name} {as_of_s}", tags) as run:
            with stage("report"):
                lines = [*verdict(check, weeks, advice, clock), *([] if lag is None else [lag.text()])]
                page = _page(config, weeks, check, followed, as_of_s, lines, due, clock)
                _log_check(tracker, run, config, weeks, check, followed, page, lag)
                with whole_file(folder / REPORT) as temporary:
                    temporary.write_text(page)
            action = ""
            if due is not None:
                with stage(f"act: {due.reason}"):
                    action = _act(config, folder, acted, due, _alarm_of(check, due))
                tracker.tag(run, "action", action)
                answer = "" if last is None else _answer(tracker, config, log, last)
    for line in [*lines, *loss_text(followed.losses, clock)]:
        console.print(line, soft_wrap=True)
    if action and due is not None:
        console.print(f"action  {due.reason}: {action}")
    console.print(f"report  {folder / REPORT}", soft_wrap=True)
    return Monitored(as_of_s, tuple(weeks), check, followed.counts, folder / REPORT, run, action,
                     is_fresh and not answer)


def _versions(tracker: Tracker, config: MonitorConfig) -> frozenset[str]:
    """A model's bundles; ValueError if there is none, or its alias points nowhere."""
    aliases = tracker.aliases(config.model_name)
    if aliases is None:
        known = ", ".join(tracker.models()) or "none yet"
        raise ValueError(f"the registered model must be one of {known}, got {config.model_name!r}")
    numbers = {record.version: record.tags.get(BUNDLE_TAG, "") for record in
               tracker.version_records(config.model_name)}
    if aliases.get(config.alias) not in numbers:
        known = ", ".join(sorted(aliases)) or "none"
        raise ValueError(f"alias must point to a version of {config.model_name} (its aliases: {known}), "
                         f"got {config.alias!r}")
    return frozenset(sha256[:N_VERSION_DIGITS] for sha256 in numbers.values() if sha256)


def _log(config: MonitorConfig) -> tuple[DecisionLog, int]:
    """The log as known at the time of the check, and that time."""
    if not config.log.is_dir():
        raise FileNotFoundError(f"log must be a folder that a predictor logs to, got {str(config.log)!r}")
    log = read_log(config.log) if config.as_of_s is None else read_log(config.log, config.as_of_s)
    if not any(map(len, log.decisions)) and not log.n_unnamed:
        why = f"{log.n_later} records, all of after second {config.as_of_s}" if log.n_later else "none"
        raise ValueError(f"log must hold decisions, got {why} in {str(config.log)!r}")
    latest = max((one.clock_s for one in log.sessions), default=0.0)
    return log, int(latest) if config.as_of_s is None else config.as_of_s


def _outcomes(config: MonitorConfig, as_of_s: int) -> dict[str, Outcome] | None:
    if config.trace is None:
        return None
    from sojourn.features.readers import read_trace

    trace, _ = read_trace(config.reader, config.trace, **config.reading)
    return traced_outcomes(trace, as_of_s)


def _check_joined(config: MonitorConfig, log: DecisionLog, followed: Followed) -> None:
    counts = followed.counts
    if counts["foreign"] == counts["decisions"]:
        versions = ", ".join(block.model.version for block in log.decisions) or "versions without a model"
        raise ValueError(f"log must be of {config.model_name}, got decisions of {versions} alone")
    if config.trace is not None and counts["unnamed"] and not counts["followed"]:
        raise ValueError("decisions must name a request_id to be joined with outcomes of a file, got "
                         f"{counts['unnamed']} without one: give it to Predictor.admit, or give no outcomes")
    if len(followed) == 0:
        numbers = ", ".join(f"{name} {number}" for name, number in counts.items() if number)
        raise ValueError(f"log must hold decisions that can be followed, got {numbers}")


def _threshold_s(config: MonitorConfig, followed: Followed) -> int:
    if config.long_lived_s is not None:
        return config.long_lived_s
    return int(followed.models[-1].training.get("threshold_s", _THRESHOLD_S))


def _trained_day(followed: Followed) -> int:
    """The last day of the data of the version that answered last, or else the log's first day."""
    return int(followed.models[-1].training.get("to_s", followed.watch_s.min()) // DAY_S)


def _due(config: MonitorConfig, check: DriftCheck | None, acted: list[ActedAlarm], as_of_s: int,
         trained_day: int, lag: Lag | None = None) -> ActedAlarm | None:
    """The record of the action that is due now: on an alarm, or, if retraining is configured, some
    days after one, because the model lags or because it is old."""
    now_day = as_of_s // DAY_S
    if check is not None and check.alarms:
        due = to_act_on(check.alarms[-1].day, acted, config.refractory_days, now_day)
        if due is not None:
            return replace(due, n_before=sum(alarm.day < due.day for alarm in check.alarms))
    if config.retrain_deployment is None and config.retrain_config is None:
        return None
    due = to_follow_up(acted, config.follow_up_days, config.refractory_days, now_day)
    if due is None and lag is not None and lag.is_lagging:
        due = to_catch_up(acted, lag.version, config.refractory_days, now_day)
    if due is None and config.max_age_days:
        due = to_renew(acted, config.max_age_days, trained_day, now_day)
    return due


def _alarm_of(check: DriftCheck | None, due: ActedAlarm) -> Alarm | None:
    if check is None or not check.alarms or due.reason != ALARM:
        return None
    return min(check.alarms, key=lambda alarm: abs(alarm.day - due.day))


def _answer(tracker: Tracker, config: MonitorConfig, log: DecisionLog, alarm: Alarm) -> str:
    """The replacement of the version at an alarm, in words; "" if the alias still points at it."""
    until_s = (alarm.day + 1) * DAY_S
    versions = {record.version: record for record in tracker.version_records(config.model_name)}
    version_of = {record.tags.get(BUNDLE_TAG, "")[:N_VERSION_DIGITS]: number
                  for number, record in sorted(versions.items())}
    decided = [(int(block.now_s[block.now_s < until_s].max()), block.model.version) for block in log.decisions
               if block.model.version in version_of and (block.now_s < until_s).any()]
    now = versions.get((tracker.aliases(config.model_name) or {}).get(config.alias, -1))
    if now is None or not decided:
        return ""
    before = max(decided)[1]
    if now.tags.get(BUNDLE_TAG, "")[:N_VERSION_DIGITS] == before:
        return ""
    if now.version < version_of[before]:
        why = versions[version_of[before]].tags.get(LEFT_TAG, "")
        return f"version {version_of[before]} was rolled back to version {now.version}{f' ({why})' if why else ''}"
    registered = datetime.fromtimestamp(now.created_ms / 1_000, UTC)
    return f"version {now.version}, registered {registered:%Y-%m-%d %H:%M} UTC, has become {config.alias}"


def _advice(config: MonitorConfig, due: ActedAlarm | None, acted: Sequence[ActedAlarm], answer: str, is_fresh: bool,
            clock: Clock) -> str:
    if due is not None and due.reason != ALARM:
        return f"nothing about this alarm. {_REASONS[due.reason]}"
    if answer:
        return f"nothing more: {answer} since this alarm. Its own weeks will tell."
    by_hand = ("retrain on data that holds the days since then (sojourn train) and look at the gates, or go back to "
               f"an earlier version (sojourn model rollback {config.model_name}).")
    if due is None:
        last = (f" The last action, about {clock(acted[-1].day * DAY_S)}: {acted[-1].action} ({acted[-1].state})."
                if acted else "")
        if not is_fresh:
            return (f"nothing more: this alarm is older than the refractory time of {config.refractory_days} days, and "
                    f"no newer one followed.{last}")
        return f"the version that answered then still answers: {by_hand}{last}"
    if config.retrain_deployment or config.retrain_config:
        return "this check starts a retrain; look at its gates."
    return by_hand


def _page(config: MonitorConfig, weeks: Sequence[Week], check: DriftCheck | None, followed: Followed, as_of_s: int,
          lines: Sequence[str], due: ActedAlarm | None, clock: Clock) -> str:
    versions = ", ".join(f"{model.version} ({model.family})" for model in followed.models)
    about = (f"As known at {clock(as_of_s)}, second {as_of_s} of the predictor's clock. Versions that decided: "
             f"{versions}.")
    if due is not None and due.reason != ALARM:
        about = f"{_REASONS[due.reason]} {about}"
    return monitor_page(config.model_name, about, lines, weeks, check, followed.counts,
                        clock, followed.losses)


def _log_check(tracker: Tracker, run: str, config: MonitorConfig, weeks: Sequence[Week], check: DriftCheck | None,
               followed: Followed, page: str, lag: Lag | None) -> None:
    tracker.log(run, config.resolved(), {f"count.{name}": value for name, value in followed.counts.items()}
                | ({} if lag is None else {"lag.served": lag.served, "lag.online": lag.online, "lag.error": lag.error})
                | {"alarms": 0 if check is None else len(check.alarms),
                   "detector": 0.0 if check is None else float(check.scores[-1])})
    tracker.log_by_step(run, {week.number: {f"week.{name}": value for name, value in
                                            {**week.scores, "n": week.n, "n_ended": week.n_ended,
                                             "is_judged": float(not week.wait)}.items()} for week in weeks})
    tracker.log_text(run, page, "monitor.html")
    tracker.log_text(run, json.dumps([{"week": week.number, "from_s": week.from_s, "n": week.n, "wait": week.wait,
                                       "scores": dict(week.scores)} for week in weeks], indent=1),
                     f"{SYSTEM}/weeks.json")


def _act(config: MonitorConfig, folder: Path, acted: list[ActedAlarm], due: ActedAlarm, alarm: Alarm | None) -> str:
    """Send an alarm to Prefect, and retrain if configured. The record is written before and after.

    A check that is killed in between leaves `begun`: the next one tries once more. The ids of event
    and flow run are made of model and alarm, so Prefect has neither twice.
    """
    action = ("retrain by deployment " + config.retrain_deployment if config.retrain_deployment else
              "retrain within the check" if config.retrain_config else "event only")
    due = replace(due, action=action)
    before = [one for one in acted if (one.reason, one.day) != (due.reason, due.day)]
    write_record(folder, [*before, due])
    state, note = DONE, ""
    try:
        if alarm is not None:
            _emit(config, alarm, due)
        if config.retrain_deployment is not None:
            from prefect import deployments

            run_deployment: Any = deployments.run_deployment
            made = run_deployment(config.retrain_deployment, timeout=0, as_subflow=False,
                                  _sync=True,  # where an event loop runs, as in a notebook, it would give a coroutine
                                  idempotency_key=f"sojourn.monitor.{due.reason}.{config.model_name}.{due.day}")
            note = f"flow run {made.id}"
        elif config.retrain_config is not None:
            from sojourn.flows.retrain.job import retrain

            settings = load_settings(RetrainConfig, config.retrain_config, store=config.store,
                                     tracking_uri=config.tracking_uri)
            note = f"{retrain(settings)}"[:200]
    except Exception as error:
        state, note = FAILED, f"{type(error).__name__}: {error}"[:200]
        raise
    finally:
        if state != BEGUN:
            write_record(folder, [*before, replace(due, state=state, note=note)])
    return action


def _emit(config: MonitorConfig, alarm: Alarm, due: ActedAlarm) -> None:
    from prefect.events import emit_event

    emit_event(event=EVENT, resource={"prefect.resource.id": f"sojourn.model.{config.model_name}"},
               id=uuid.uuid5(uuid.NAMESPACE_URL, f"{EVENT}/{config.model_name}/{due.day}"),
               payload={"day": alarm.day, "since_day": alarm.since_day,
                        "since_low_day": alarm.since_low_day, "since_high_day": alarm.since_high_day,
                        "n_before": due.n_before, "where": alarm.where,
                        "observed": alarm.observed, "expected": alarm.expected, "z": alarm.z})
