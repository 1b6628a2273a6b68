"""What was done about alarms: a record in the store, so that no alarm is acted upon twice, whoever is killed when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sojourn.flows.store.lock import held_alone
from sojourn.publishing import whole_file

MONITOR = "monitor"
"""Folder of the store; a folder a model in it."""
REPORT, RECORD, LOCK = "report.html", "alarms.json", "monitor.lock"
FORMAT_VERSION = 1
BEGUN, DONE, FAILED = "begun", "done", "failed"
N_TRIES_MAX = 2
"""An action that was cut off is tried so often in all."""
ALARM, FOLLOW_UP, AGE = "alarm", "follow-up", "age"
"""Why something was done: an alarm, some days after one, or because the model was old."""


@dataclass(frozen=True, slots=True)
class ActedAlarm:
    """One alarm that was acted upon, or another retraining. day: of the alarm, or on which it was due; action: in
    words; state: begun, done or failed.

    n_before: alarms of earlier days that the same check found. reason: alarm, follow-up or age.
    """

    day: int
    action: str
    state: str
    n_tries: int
    note: str = ""
    n_before: int = 0
    reason: str = ALARM


def monitor_folder(store: Path, name: str) -> Path:
    """Where a model's report and record lie."""
    return store / MONITOR / name


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; BlockingIOError naming the process of another check of the model that is under way."""
    def refused(holder: str) -> Exception:
        return BlockingIOError(f"one check of {folder.name} must be under way at a time, got another one by {holder}")

    with held_alone(folder / LOCK, refused):
        yield


def read_record(folder: Path) -> list[ActedAlarm]:
    """What was done so far, the earliest first; ValueError where the file is another's or damaged."""
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
                           str(one["note"]), int(one.get("n_before", 0)), str(one.get("reason", ALARM)))
                for one in document["alarms"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{RECORD} in {str(folder)!r} must be a record of alarms, got {error}") from error


def write_record(folder: Path, acted: list[ActedAlarm]) -> None:
    """Replace the record whole."""
    with whole_file(folder / RECORD) as temporary:
        temporary.write_text(json.dumps({"format_version": FORMAT_VERSION, "alarms": [asdict(one) for one in acted]},
                                        indent=1) + "\n")


def to_act_on(day: int, acted: list[ActedAlarm], refractory_days: int, now_day: int) -> ActedAlarm | None:
    """The record of an alarm that is to be acted upon now; None where it is old, or was acted upon.

    An alarm within `refractory_days` of one that was acted upon is the same drift, whose cure takes time to show. One
    that was cut off is taken up again, once.

    >>> to_act_on(100, [], 14, 101), to_act_on(100, [ActedAlarm(95, "retrain", DONE, 1)], 14, 101)
    (ActedAlarm(day=100, action='', state='begun', n_tries=1, note='', n_before=0, reason='alarm'), None)
    """
    if now_day - day > refractory_days:
        return None
    near = [one for one in acted if one.reason == ALARM and abs(one.day - day) <= refractory_days]
    return _again(near[-1]) if near else ActedAlarm(day, "", BEGUN, 1)


def to_follow_up(acted: list[ActedAlarm], follow_up_days: tuple[int, ...], refractory_days: int,
                 now_day: int) -> ActedAlarm | None:
    """The record of a further retraining that is due now; None where there is none.

    It is due so many days after the last alarm that was acted upon: on the alarm's day little was known of what
    changed. Of several the latest counts. One that is more than `refractory_days` late is left out.

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
    """The record of a retraining that is due because the model in force is old; None where it is not.

    Its age counts from `trained_day`, the end of its data, or from the last retraining that was begun, if that is
    later: what a gate kept out is not tried again at each check.

    >>> to_renew([], 56, 40, 95), to_renew([], 56, 40, 96).day
    (None, 96)
    """
    if acted and acted[-1].reason == AGE and acted[-1].state == BEGUN:
        return _again(acted[-1])
    last_day = max([trained_day, *(one.day for one in acted)])
    return ActedAlarm(now_day, "", BEGUN, 1, reason=AGE) if now_day - last_day >= max_age_days else None


def _again(last: ActedAlarm) -> ActedAlarm | None:
    """One that was cut off is taken up again, once."""
    if last.state != BEGUN or last.n_tries >= N_TRIES_MAX:
        return None
    return replace(last, n_tries=last.n_tries + 1, note="")
