"""What was done about alarms: a record in the store, so that no alarm is acted upon twice, whoever is killed when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True, slots=True)
class ActedAlarm:
    """One alarm that was acted upon. day: of the alarm; action: in words; state: begun, done or failed.

    n_before: alarms of earlier days that the same check found.
    """

    day: int
    action: str
    state: str
    n_tries: int
    note: str = ""
    n_before: int = 0


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
                           str(one["note"]), int(one.get("n_before", 0))) for one in document["alarms"]]
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
    (ActedAlarm(day=100, action='', state='begun', n_tries=1, note='', n_before=0), None)
    """
    if now_day - day > refractory_days:
        return None
    near = [one for one in acted if abs(one.day - day) <= refractory_days]
    if not near:
        return ActedAlarm(day, "", BEGUN, 1)
    last = near[-1]
    if last.state == BEGUN and last.n_tries < N_TRIES_MAX:
        return ActedAlarm(last.day, last.action, BEGUN, last.n_tries + 1, n_before=last.n_before)
    return None
