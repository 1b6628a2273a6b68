"""The extender's log of placements and ends (`--log-to`) as a table of pods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers._pod_lives import drawn_s
from sojourn.features.readers._pod_table import TIMES, PodTable
from sojourn.serving.decisions import LOSS_WORDS, DecisionBlock, DecisionLog, LoggedModel, read_log
from sojourn.serving.inputs import FIRST_POD_S, POD_SIZES, clock_zero_s

_NAMES = "decisions-*.log"
_NUMBERS = (*POD_SIZES, "requested_s")
_NO_HANDLE = "", 0.0


def is_placement_log(path: Path) -> bool:
    """Whether a folder holds files of a decision log."""
    return path.is_dir() and next(path.glob(_NAMES), None) is not None


def placement_table(folder: Path, seed: int, ledger: ReadLedger) -> PodTable:
    """The pods in the log of an extender, with their owners and sizes.

    A pod that is reported again after a restart is one request. If a pod ran when a process of the
    extender stopped, and the next process does not know it, its end is drawn between the two. A pod
    is refused if its end may be in lost records. Each process recorded its clock's 0; for logs of an
    older extender it is the versions'. ValueError if theirs differ, or no placement has sizes.
    """
    log = read_log(folder)
    if not log.decisions:
        raise ValueError(f"{folder}: must hold at least one placement, got none in {log.n_files:,} files")
    owners = [name for name in log.decisions[0].model.owner_keys if "+" not in name]
    for block in log.decisions:
        _check(folder, block.model, owners)
    sessions = _sessions(log)
    placed: dict[str, _Placed] = {}
    handles: dict[tuple[int, int], tuple[str, float]] = {}
    for block in log.decisions:
        _take(block, sessions, owners, placed, handles)
    for token, number, _ in log.withdrawals.tolist():
        placed.pop(handles.get((token, number), _NO_HANDLE)[0], None)
    for token, number, end_s, _ in log.ends.tolist():
        name, zero_s = handles.get((token, number), _NO_HANDLE)
        one = placed.get(name)
        if one is not None:
            one.ended_s = min(one.ended_s, float(end_s) + zero_s)
    n_rows = sum(map(len, log.decisions)) + len(log.ends) + len(log.withdrawals)
    ledger.read(n_rows)
    rows, placements = [], []
    for name, one in sorted(placed.items(), key=lambda item: (item[1].arrival_s, item[0])):
        session = sessions[one.session]
        by_s = session.next_s
        if not math.isinf(one.ended_s):
            end_s = max(one.ended_s, one.arrival_s)
            rows.append((one.arrival_s, end_s, end_s, end_s, end_s, math.nan))
        elif session.is_lossy:
            ledger.refuse("end may be among lost records", folder.name, np.zeros(1, np.int64), [name])
            continue
        elif math.isinf(by_s):
            last_s = max(session.last_s, one.arrival_s)
            rows.append((one.arrival_s, math.nan, math.nan, math.nan, last_s, math.nan))
        else:
            after_s = max(session.last_s, one.arrival_s)
            end_s = drawn_s(name, after_s, max(by_s, after_s), seed)
            rows.append((one.arrival_s, end_s, after_s, max(by_s, after_s), end_s, math.nan))
        placements.append((name, one))
    _tell(log, sessions, rows, ledger)
    columns = np.array(rows, np.float64).reshape(-1, len(TIMES)).T
    sizes = [name for name in _NUMBERS if name in log.decisions[0].model.features]
    requests = pd.DataFrame({
        "file": folder.name, "line": np.zeros(len(placements), np.int64),
        "request_id": pd.Series([name for name, _ in placements], dtype="str"),
        **dict(zip(TIMES, columns, strict=True)),
        **{name: np.array([one.numbers[name] for _, one in placements], np.float64) for name in sizes},
        **{name: pd.Series([one.owners[idx] for _, one in placements], dtype="str") for idx, name in enumerate(owners)},
    })
    for name in POD_SIZES:
        if name in sizes:
            requests[name] = requests[name].fillna(0.0)
    first_s, last_s = min(each.first_s for each in sessions), max(each.last_s for each in sessions)
    return PodTable(requests, first_s, last_s, tuple(owners))


@dataclass(slots=True)
class _Session:
    """One process of an extender, Unix seconds. next_s: first placement of the next process; infinite = none."""

    zero_s: float
    first_s: float = math.inf
    last_s: float = -math.inf
    next_s: float = math.inf
    is_lossy: bool = False


@dataclass(slots=True)
class _Placed:
    """A pod at its first placement. session: index of the last process that knew it."""

    arrival_s: float
    owners: tuple[str, ...]
    numbers: dict[str, float]
    session: int
    ended_s: float = math.inf


def _check(folder: Path, model: LoggedModel, owners: list[str]) -> None:
    missing = [name for name in ("cpu_cores", "mem_gib") if name not in model.features]
    if missing:
        raise ValueError(f"{folder}: version {model.version} must read {', '.join(missing)} for a trace, got the "
                         f"features {', '.join(model.features)[:200]}")
    if [name for name in model.owner_keys if "+" not in name] != owners:
        raise ValueError(f"{folder}: all versions must have the owners {', '.join(owners)}, got "
                         f"{', '.join(model.owner_keys)} in {model.version}")


def _sessions(log: DecisionLog) -> list[_Session]:
    """The sessions in the order of `log.sessions`; zero_s: the recorded 0 of their clock, else that of the versions."""
    without = [idx for idx, session in enumerate(log.sessions) if session.epoch_s is None]
    zeros = {clock_zero_s(block.model.phase_s) for block in log.decisions if np.isin(block.session, without).any()}
    if len(zeros) > 1:
        raise ValueError(f"the log's versions must be on one clock, got those that begin at {sorted(zeros)} (unix "
                         "seconds): log each version to a folder of its own")
    old_s = zeros.pop() if zeros else 0
    epochs_s = [float(old_s if session.epoch_s is None else session.epoch_s) for session in log.sessions]
    sessions = [_Session(zero_s, last_s=session.clock_s + zero_s, is_lossy=bool(session.losses))
                for session, zero_s in zip(log.sessions, epochs_s, strict=True)]
    for block in log.decisions:
        for place in np.unique(block.session).tolist():
            first_s = float(block.now_s[block.session == place].min()) + sessions[place].zero_s
            sessions[place].first_s = min(sessions[place].first_s, first_s)
    begins = sorted(each.first_s for each in sessions)
    for each in sessions:
        each.next_s = min((when for when in begins if when > each.first_s), default=math.inf)
    return sessions


def _take(block: DecisionBlock, sessions: list[_Session], owners: list[str], placed: dict[str, _Placed],
          handles: dict[tuple[int, int], tuple[str, float]]) -> None:
    keys = [block.model.owner_keys.index(name) for name in owners]
    at = {name: block.model.features.index(name) for name in _NUMBERS if name in block.model.features}
    for row in range(len(block)):
        handle = int(block.token[row]), int(block.number[row])
        name = block.request_id[row] or f"{handle[0]:x}-{handle[1]}"
        place = int(block.session[row])
        zero_s = sessions[place].zero_s
        handles[handle] = name, zero_s
        former = placed.get(name)
        if former is not None and sessions[former.session].first_s <= sessions[place].first_s:
            former.session = place
            continue
        arrival_s, learnt_s = float(block.arrival_s[row]) + zero_s, float(block.now_s[row]) + zero_s
        if arrival_s < FIRST_POD_S <= learnt_s:  # logged by an older extender
            arrival_s = learnt_s
        placed[name] = _Placed(
            arrival_s,
            tuple(block.owner[row][key] or "missing" for key in keys),
            {name: float(block.features[row, idx]) for name, idx in at.items()},
            place if former is None else former.session)


def _tell(log: DecisionLog, sessions: list[_Session], rows: Sequence[tuple[float, ...]], ledger: ReadLedger) -> None:
    ledger.note(f"read the log of {len(sessions):,} processes in {log.n_files:,} files: "
                f"{sum(map(len, log.decisions)):,} placements, {len(log.ends):,} ends")
    n_drawn = sum(row[3] > row[2] for row in rows)
    if n_drawn:
        ledger.note(f"{n_drawn:,} ends lie between two processes of the extender and are drawn uniformly between them")
    for what in LOSS_WORDS:
        n_lost = sum(loss.n for session in log.sessions for loss in session.losses if loss.what == what)
        if n_lost:
            ledger.note(f"check: {n_lost:,} {LOSS_WORDS[what]} in the log")
    ledger.note("the log holds owners and sizes of pods, not their other names: a model of it has no categories")
