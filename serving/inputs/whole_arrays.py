"""A whole live history as plain arrays; a predictor that starts from them continues with the same bits.

Running requests are included. Arrays are checked before use: ValueError or KeyError if they do not
fit together."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sojourn.serving.checks import LATEST_S
from sojourn.serving.inputs.history import (
    LOG_LIFETIME_MAX,
    HistoryCut,
    HistoryDefinition,
    HistoryState,
    Name,
    category_moments,
    check_groups,
    checked_array,
    names_of,
    overall_of,
    packed_names,
)
from sojourn.serving.inputs.owner import Group, OwnerState, RunningRequests, Undo

_NEVER_S = -2**63
"""The value of a missing time."""
_N_AT_ONCE = 256
_OWNER = ("n_ended", "last_arrival_s", "last_ended_s", "batch", "batch_start_s", "n_recent", "n_running", "n_groups")
"""Columns of an owner's row; n_running is -1 if its `running` is None."""
_UNDO = ("owner", "number", "last_arrival_s", "batch", "batch_start_s", "n_groups")
"""Columns of an undo state; n_groups is -1 if its groups are those of the owner."""


def whole_arrays(cut: HistoryCut) -> dict[str, np.ndarray]:
    """The history at a cut. Takes no lock; other threads may run every 256 owners."""
    arrays: dict[str, np.ndarray] = {"overall": np.array(cut.overall)}
    for idx, key in enumerate(cut.definition.keys):
        if key.kind == "owner":
            slots = np.fromiter((owner.slot for owner in cut.owners[idx]), np.int64, len(cut.owners[idx]))
            by_order = np.argsort(cut.order[slots], kind="stable").tolist()
            arrays |= _owner_arrays(f"{idx}", [cut.owners[idx][place] for place in by_order])
        else:
            by_order = np.argsort(cut.order[cut.slots[idx]], kind="stable").tolist()
            arrays[f"{idx}:moments"] = cut.moments[idx][by_order]
        arrays |= packed_names(f"{idx}", [cut.names[idx][place] for place in by_order])
    return arrays


def whole_history(definition: HistoryDefinition, n_admitted: int, arrays: Mapping[str, np.ndarray]) -> HistoryState:
    """The state from arrays of `whole_arrays`. n_admitted: number of admissions so far."""
    owners: list[dict[Name, OwnerState]] = []
    categories: list[dict[Name, list[float]]] = []
    for idx, key in enumerate(definition.keys):
        names = names_of(f"{idx}", arrays, key, definition)
        is_owner = key.kind == "owner"
        owners.append(_owners(f"{idx}", arrays, names, definition, n_admitted) if is_owner else {})
        categories.append({} if is_owner else category_moments(f"{idx}", arrays, names))
    return HistoryState.restored(definition, overall_of(arrays), n_admitted, owners, categories)


def yielding(elements: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """The elements with their indices; other threads may run in between."""
    for idx, element in enumerate(elements):
        if idx % _N_AT_ONCE == 0:
            time.sleep(0)
        yield idx, element


def _owner_arrays(prefix: str, owners: Sequence[OwnerState]) -> dict[str, np.ndarray]:
    rows, arrivals, groups, undos, undo_groups = (array("q") for _ in range(5))
    recent = bytearray()
    for idx, owner in yielding(owners):
        running = owner.running
        rows.extend((
            owner.n_ended, _NEVER_S if owner.last_arrival_s is None else owner.last_arrival_s,
            _NEVER_S if owner.last_ended_s is None else owner.last_ended_s, owner.batch, owner.batch_start_s,
            len(owner.recent) // 8, -1 if running is None else len(running.arrivals),
            0 if running is None else len(running.ended)))  # fmt: skip
        recent += owner.recent
        if running is None:
            continue
        for pair in running.arrivals.items():
            arrivals.extend(pair)
        for group in running.ended:
            groups.extend(group)
        if running.undo is not None:
            number, last_s, batch, start_s, before = running.undo
            is_own = before is running.ended
            undos.extend((idx, number, _NEVER_S if last_s is None else last_s, batch, start_s,
                          -1 if is_own else len(before)))
            for group in () if is_own else before:
                undo_groups.extend(group)
    return {
        f"{prefix}:owner": _table(rows, len(_OWNER)), f"{prefix}:arrival": _table(arrivals, 2),
        f"{prefix}:group": _table(groups, 3), f"{prefix}:undo": _table(undos, len(_UNDO)),
        f"{prefix}:undo_group": _table(undo_groups, 3), f"{prefix}:recent": np.frombuffer(bytes(recent), np.float64),
    }  # fmt: skip


def _table(numbers: array[int], width: int) -> np.ndarray:
    return np.array(numbers, np.int64).reshape(-1, width)


def _owners(prefix: str, arrays: Mapping[str, np.ndarray], names: Sequence[Name], definition: HistoryDefinition,
            n_admitted: int) -> dict[Name, OwnerState]:
    rows, arrivals, groups, undos, undo_groups = (
        _checked_table(arrays, f"{prefix}:{part}", width)
        for part, width in (("owner", len(_OWNER)), ("arrival", 2), ("group", 3), ("undo", len(_UNDO)),
                            ("undo_group", 3)))
    recent = checked_array(arrays, f"{prefix}:recent", np.float64)
    _check_owners(prefix, rows, len(names), definition.window)
    _check_undos(prefix, undos, rows)
    n_recent, n_running, n_groups = rows[:, 5], np.maximum(rows[:, 6], 0), rows[:, 7]
    if ((len(arrivals), len(groups), recent.shape) != (n_running.sum(), n_groups.sum(), (n_recent.sum(),))
            or (n_running > len(arrivals)).any() or (n_groups > len(groups)).any()  # no sum overflowed
            or (undos[:, 5] > len(undo_groups)).any() or len(undo_groups) != np.maximum(undos[:, 5], 0).sum()
            or not (np.abs(recent) <= LOG_LIFETIME_MAX).all() or _is_no_time(arrivals[:, 1]).any()
            or (arrivals[:, 0] < 0).any() or (arrivals[:, 0] >= n_admitted).any()):
        raise ValueError(f"the arrays of history key number {prefix} must fit together")
    before = {int(row[0]): row for row in undos.tolist()}
    next_arrivals, next_groups, next_undo_groups = (iter(table.tolist()) for table in (arrivals, groups, undo_groups))
    bytes_of, at = recent.tobytes(), 0
    owners: dict[Name, OwnerState] = {}
    for idx, row in yielding(rows.tolist()):
        owner = owners[names[idx]] = OwnerState(0)
        owner.n_ended, last_arrival_s, last_ended_s, owner.batch, owner.batch_start_s = row[:5]
        owner.last_arrival_s = last_arrival_s
        owner.last_ended_s = None if last_ended_s == _NEVER_S else last_ended_s
        owner.recent = bytes_of[at:at + 8 * row[5]]
        at += 8 * row[5]
        if row[6] < 0:
            continue
        arrivals_of = dict(next(next_arrivals) for _ in range(row[6]))
        if len(arrivals_of) != row[6]:
            raise ValueError(f"{prefix}:arrival must name each admission of an owner once")
        groups_of = _next_groups(prefix, next_groups, row[7], owner, definition.batch_gap_s)
        owner.running = RunningRequests(groups_of)
        undo: Undo | None = None
        if idx in before:
            _, number, last_s, batch, start_s, n = before[idx]
            if number not in arrivals_of:
                raise ValueError(f"{prefix}:undo must be of requests that run, got number {number}")
            undo = (number, None if last_s == _NEVER_S else last_s, batch, start_s,
                    groups_of if n < 0 else _next_groups(prefix, next_undo_groups, n, owner, definition.batch_gap_s))
        owner.running.restore(arrivals_of, undo)
    return owners


def _next_groups(prefix: str, groups: Iterator[Any], n: int, owner: OwnerState, batch_gap_s: int) -> list[Group]:
    """The next n groups, checked against their owner."""
    batch_groups: list[Group] = [tuple(next(groups)) for _ in range(n)]
    check_groups(prefix, batch_groups, owner.n_ended, _NEVER_S if owner.last_ended_s is None else owner.last_ended_s,
                 batch_gap_s)
    return batch_groups


def _check_owners(prefix: str, rows: np.ndarray, n: int, window: int) -> None:
    n_ended, last_arrival_s, last_ended_s, batch, start_s, n_recent, n_running, n_groups = rows.T
    most = np.minimum(n_ended, window)
    is_bad = ((n_ended < 0) | (batch < 0) | (n_recent > most) | (n_recent < np.minimum(most, 1)) | (n_running < -1)
              | (n_groups < 0) | ((n_running < 0) & (n_groups > 0)) | ((n_running == 0) & (n_groups < 2))
              | ((n_ended == 0) & (n_running < 1)) | ((n_ended == 0) != (last_ended_s == _NEVER_S))
              | (batch >= LATEST_S) | (n_ended >= LATEST_S))  # fmt: skip
    for times_s in (last_arrival_s, np.where(n_ended == 0, 0, last_ended_s), start_s):
        is_bad |= _is_no_time(times_s)
    if len(rows) != n or is_bad.any():
        raise ValueError(f"{prefix}:owner must be rows of {', '.join(_OWNER)} that fit together, one for each name")


def _check_undos(prefix: str, undos: np.ndarray, rows: np.ndarray) -> None:
    owner, _, last_s, batch, start_s, n_groups = undos.T
    is_bad = ((owner < 0) | (owner >= len(rows)) | (batch < 0) | (batch >= LATEST_S) | (n_groups < -1)
              | (np.diff(owner, prepend=-1) < 1))  # fmt: skip
    for times_s in (np.where(last_s == _NEVER_S, 0, last_s), start_s):
        is_bad |= _is_no_time(times_s)
    if is_bad.any() or (rows[owner, 6] < 1).any():
        raise ValueError(f"{prefix}:undo must be rows of {', '.join(_UNDO)}, one for an owner, in their order")


def _is_no_time(times_s: np.ndarray) -> np.ndarray:
    """True where a value is no whole second that a predictor accepts."""
    return (times_s <= -LATEST_S) | (times_s >= LATEST_S)


def _checked_table(arrays: Mapping[str, np.ndarray], name: str, width: int) -> np.ndarray:
    table = checked_array(arrays, name, np.int64)
    if table.ndim != 2 or table.shape[1] != width:
        raise ValueError(f"{name} must have {width} columns, got shape {table.shape}")
    return table
