"""Owner history: what a scheduler has seen of each owner and category, strictly up to now.

One piece of code for both sides: training replays a trace through it to build feature rows, and the live
predictor keeps it up to date. Plain Python on purpose: the same floats in the same order on both sides.
"""

from __future__ import annotations

import math
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving.inputs.history_arrays import (
    category_moments,
    ended_arrays,
    ended_owners,
    names_of,
    overall_of,
    packed_names,
)
from sojourn.serving.inputs.history_definition import CATEGORY_FEATURES, HistoryDefinition
from sojourn.serving.inputs.history_rows import UNKNOWN, HistoryRows, fill_category_features
from sojourn.serving.inputs.owner import OWNER_FEATURES, UNKNOWN_OWNER, OwnerState, fill_owner_features

_NAN = math.nan
_TOKEN_BITS = 63


class Admission(NamedTuple):
    """The receipt of one admission: what `ended` and `withdraw` need to find it again.

    token: random, of the history and the process that it was admitted in; number: of the admissions of that history.
    """

    token: int
    number: int
    keys: tuple[tuple[str, ...] | None, ...]
    arrival_s: int

    @property
    def id(self) -> str:
        """Its identity as text: 16 hex digits and a number.

        >>> Admission(255, 7, (), 0).id
        '00000000000000ff-7'
        """
        return f"{self.token:016x}-{self.number}"


@dataclass(frozen=True, slots=True)
class HistoryCut:
    """A history as it stood at one moment; nothing in it changes any more.

    owners, names: by history key, the owners or category names in any order; slots: int64, of the categories.
    moments: float64 (n, 2), the categories' counts and means. order: int64 by slot, see `HistoryRows.order`.
    """

    definition: HistoryDefinition
    overall: tuple[float, float]
    n_admitted: int
    names: list[list[tuple[str, ...]]]
    owners: list[list[OwnerState]]
    slots: list[np.ndarray]
    moments: list[np.ndarray]
    order: np.ndarray


class HistoryState:
    """Counts, recent lifetimes and running requests of every owner and category.

    Callers keep time order: within one second ends first, then admissions in call order.

    >>> from sojourn.serving.inputs.history_definition import HistoryKey
    >>> definition = HistoryDefinition((HistoryKey("user", ("user",), "owner"),))
    >>> state = HistoryState(definition)
    >>> receipt = state.admit((("ann",),), now_s=0)
    >>> state.ended(receipt, now_s=100)
    >>> dict(zip(OWNER_FEATURES, state.features((("ann",),), now_s=100)))["last"]
    2.0
    """

    def __init__(self, definition: HistoryDefinition) -> None:
        self.definition = definition
        self.renew_token()
        self.rows = HistoryRows()
        self._owners: list[OrderedDict[tuple[str, ...], OwnerState]] = [OrderedDict() for _ in definition.keys]
        self._categories: list[OrderedDict[tuple[str, ...], int]] = [OrderedDict() for _ in definition.keys]  # slots
        self._overall = [0.0, 0.0]  # ended, mean of log10 lifetimes
        self._n_admitted = self._n_category_ends = 0
        self._changed: set[OwnerState] | None = None  # owners that are no part of the cut that is being read
        self._is_owner = [key.kind == "owner" for key in definition.keys]
        self._n_features = len(definition.feature_names())
        self._instant_log10 = definition.instant_log10

    def __len__(self) -> int:
        return sum(map(len, self._owners)) + sum(map(len, self._categories))

    @property
    def overall(self) -> float:
        """Mean of log10 lifetimes (s) of all that ended; NaN before the first."""
        return self._overall[1] if self._overall[0] else _NAN

    def slots(self, keys: Sequence[tuple[str, ...] | None]) -> list[int]:
        """Where in `rows` each key of a request stands; `UNKNOWN` for one that is missing or not known."""
        slots = []
        for idx, key in enumerate(keys):
            if self._is_owner[idx]:
                owner = self._owners[idx].get(key)  # type: ignore[arg-type]  # None is no key
                slots.append(UNKNOWN if owner is None else owner.slot)
            else:
                slots.append(self._categories[idx].get(key, UNKNOWN))  # type: ignore[arg-type]
        return slots

    def features(self, keys: Sequence[tuple[str, ...] | None], now_s: int) -> list[float]:
        """The history features of a request that arrives now, in the definition's order.

        keys: for each history key its values as strings, or None where one is missing. Records nothing.
        """
        definition, rows, at = self.definition, self.rows, 0
        values = [0.0] * self._n_features
        overall = self.overall
        for is_owner, slot in zip(self._is_owner, self.slots(keys), strict=True):
            row = rows.of(slot)
            if is_owner:
                fill_owner_features(row, now_s, definition.batch_gap_s, values, at)
                at += len(OWNER_FEATURES)
            else:
                fill_category_features(row, overall, definition.prior_strength, definition.window, values, at)
                at += len(CATEGORY_FEATURES)
        return values

    def admit(self, keys: Sequence[tuple[str, ...] | None], now_s: int) -> Admission:
        """Record an arrival at `now_s` (int seconds).

        A request that was running already is admitted at its own, earlier arrival; several of them in the order
        of their arrivals.
        """
        number = self._n_admitted
        self._n_admitted += 1
        definition = self.definition
        for idx, key in enumerate(keys):
            if key is None or not self._is_owner[idx]:
                continue
            owners = self._owners[idx]
            owner = owners.get(key)
            if owner is None:
                if len(owners) >= definition.n_keys_max:
                    self.rows.free(owners.popitem(last=False)[1].slot)
                owner = owners[key] = OwnerState(self.rows.new())
                self.rows.write(owner.slot, UNKNOWN_OWNER)
            else:
                if self._changed is not None:
                    owner = self._thawed(idx, key, owner, self._changed)
                owners.move_to_end(key)  # last = latest arrival
            self.rows.order[owner.slot] = number
            owner.arrive(number, now_s, definition.batch_gap_s)
            self.rows.write_head(owner.slot, owner.head(definition.window))
        return Admission(self.token, number, tuple(keys), now_s)

    def ended(self, admission: Admission, now_s: int, arrival_s: int | None = None) -> None:
        """Record the end of an admitted request; its lifetime runs from `arrival_s` (default: its admission)."""
        start_s = admission.arrival_s if arrival_s is None else arrival_s
        log_lifetime = math.log10(max(now_s - start_s, 1))
        definition = self.definition
        _move(self._overall, log_lifetime, definition.category_memory)
        for idx, key in enumerate(admission.keys):
            if key is None:
                continue
            if self._is_owner[idx]:
                owner = self._owners[idx].get(key)
                if owner is not None and self._changed is not None:
                    owner = self._thawed(idx, key, owner, self._changed)
                if owner is not None and owner.end(admission.number, log_lifetime, definition.window,
                                                   definition.batch_gap_s):
                    self.rows.write(owner.slot, owner.head(definition.window) + owner.ended_part(self._instant_log10))
            else:
                slot, moments = self._category(self._categories[idx], key)
                self.rows.order[slot] = self._n_category_ends
                self._n_category_ends += 1
                _move(moments, log_lifetime, definition.category_memory)
                self.rows.write_moments(slot, moments)

    def _category(self, categories: OrderedDict[tuple[str, ...], int], key: tuple[str, ...]) -> tuple[int, list[float]]:
        """The slot and moments of a category of which one ends; the least recently ended one makes room."""
        slot = categories.get(key)
        if slot is not None:
            categories.move_to_end(key)
            return slot, self.rows.of(slot)[:2]
        if len(categories) >= self.definition.n_keys_max:
            self.rows.free(categories.popitem(last=False)[1])
        slot = categories[key] = self.rows.new()
        return slot, [0.0, 0.0]

    def withdraw(self, admission: Admission) -> None:
        """Undo an admission that was not placed: features are then as if it had never been.

        Two things stay: an owner that it pushed out of a full table, and its own owner's place in line there. Undoing
        an owner's latest admission, before anything else happens to the owner, takes the same time whatever runs.
        """
        for idx, key in enumerate(admission.keys):
            owner = None if key is None or not self._is_owner[idx] else self._owners[idx].get(key)
            if key is not None and owner is not None and self._changed is not None:
                owner = self._thawed(idx, key, owner, self._changed)
            if key is None or owner is None or not owner.withdraw(admission.number, self.definition.batch_gap_s):
                continue
            self._write_or_free(idx, key, owner)

    def lose(self, admissions: Sequence[Admission]) -> None:
        """Undo admissions whose ends nobody told, as `withdraw`; each owner's batch is counted again once."""
        for idx in np.flatnonzero(self._is_owner).tolist():
            numbers: dict[tuple[str, ...], list[int]] = {}
            for admission in admissions:
                key = admission.keys[idx]
                if key is not None and key in self._owners[idx]:
                    numbers.setdefault(key, []).append(admission.number)
            for key, own in numbers.items():
                owner = self._owners[idx][key]
                if self._changed is not None:
                    owner = self._thawed(idx, key, owner, self._changed)
                owner.lose(own, self.definition.batch_gap_s)
                self._write_or_free(idx, key, owner)

    def _write_or_free(self, idx: int, key: tuple[str, ...], owner: OwnerState) -> None:
        """Write what an owner's row says of arrivals; forget one of whom nothing ended and nothing runs."""
        if owner.n_ended == 0 and owner.running is None:
            del self._owners[idx][key]
            self.rows.free(owner.slot)
        else:
            self.rows.write_head(owner.slot, owner.head(self.definition.window))

    def forget(self, idx: int, name: tuple[str, ...] | None) -> None:
        """Forget an owner of the history key number `idx`, as a full table does; an unknown one is nothing to forget.

        Not while a cut is read.
        """
        owner = self._owners[idx].pop(name, None)  # type: ignore[arg-type]  # None is no name
        if owner is not None:
            self.rows.free(owner.slot)

    def read_as(self, definition: HistoryDefinition) -> None:
        """Read instant ends as this definition does; all else of it must be as it is."""
        if replace(definition, instant_s=self.definition.instant_s) != self.definition:
            raise ValueError(f"definition must differ from {self.definition!r} in instant_s at most, got "
                             f"{definition!r}")
        self.definition, self._instant_log10 = definition, definition.instant_log10
        for owners in self._owners:
            for owner in owners.values():
                self.rows.write(owner.slot, owner.row(definition.window, self._instant_log10))

    def renew_token(self) -> None:
        """Tell the admissions from now on from those of another process that goes on from the same state."""
        self.token = secrets.randbits(_TOKEN_BITS)

    def cut(self) -> HistoryCut:
        """The state as it is now, to be read while this one goes on; `release` must follow.

        An owner that changes meanwhile is copied first. Taking the cut copies references, not owners. One at a time.
        """
        self._changed = set()
        dicts: list[Any] = [owners if is_owner else categories for is_owner, owners, categories
                            in zip(self._is_owner, self._owners, self._categories, strict=True)]
        slots = [np.array([] if is_owner else list(dict.values(each)), np.int64)
                 for is_owner, each in zip(self._is_owner, dicts, strict=True)]
        return HistoryCut(
            self.definition, (self._overall[0], self._overall[1]), self._n_admitted,
            [list(dict.keys(each)) for each in dicts],  # in a hundredth of the time of an OrderedDict's own order
            [list(dict.values(each)) if is_owner else [] for is_owner, each in zip(self._is_owner, dicts, strict=True)],
            slots, [self.rows.values[each, :2] for each in slots], np.array(self.rows.order),
        )  # fmt: skip

    def release(self) -> None:
        """The cut has been read: owners change in place again."""
        self._changed = None

    def _thawed(self, idx: int, key: tuple[str, ...], owner: OwnerState, changed: set[OwnerState]) -> OwnerState:
        """The owner, or in its place a copy that may change: the one that stands in the cut may not."""
        if owner in changed:
            return owner
        copy = self._owners[idx][key] = owner.copy()
        changed.add(copy)
        return copy

    @classmethod
    def restored(cls, definition: HistoryDefinition, overall: tuple[float, float], n_admitted: int,
                 owners: Sequence[Mapping[tuple[str, ...], OwnerState]],
                 categories: Sequence[Mapping[tuple[str, ...], Sequence[float]]]) -> HistoryState:
        """The state of these parts, by history key, each in the order of eviction; the owners get slots here."""
        state = cls(definition)
        state._overall = [*overall]
        state._n_admitted = n_admitted
        for idx, is_owner in enumerate(state._is_owner):
            if is_owner:
                state._enter_owners(idx, owners[idx])
            else:
                state._enter_categories(idx, categories[idx])
        return state

    def _enter_owners(self, idx: int, owners: Mapping[tuple[str, ...], OwnerState]) -> None:
        for position, (name, owner) in enumerate(owners.items(), -len(owners)):  # before all that will be admitted
            self._owners[idx][name] = owner
            owner.slot = self.rows.new()
            self.rows.order[owner.slot] = position
            self.rows.write(owner.slot, owner.row(self.definition.window, self._instant_log10))

    def _enter_categories(self, idx: int, categories: Mapping[tuple[str, ...], Sequence[float]]) -> None:
        for name, moments in categories.items():
            slot = self._categories[idx][name] = self.rows.new()
            self.rows.order[slot] = self._n_category_ends
            self._n_category_ends += 1
            self.rows.write_moments(slot, moments)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The state as plain arrays (no pickle), without running requests: a scheduler admits those again.

        Once it has, in the order of their arrivals, every feature is what it was, to the bit.
        """
        arrays: dict[str, np.ndarray] = {"overall": np.array(self._overall)}
        for idx, is_owner in enumerate(self._is_owner):
            if is_owner:
                arrays |= ended_arrays(f"{idx}", {k: o for k, o in self._owners[idx].items() if o.n_ended})
            else:
                slots = np.array(list(self._categories[idx].values()), np.int64)
                arrays |= packed_names(f"{idx}", self._categories[idx])
                arrays[f"{idx}:moments"] = self.rows.values[slots, :2]
        return arrays

    @classmethod
    def from_arrays(cls, definition: HistoryDefinition, arrays: Mapping[str, np.ndarray]) -> HistoryState:
        """The state that `to_arrays` gave; ValueError or KeyError where the arrays do not fit together."""
        overall = overall_of(arrays)
        owners: list[dict[tuple[str, ...], OwnerState]] = []
        categories: list[dict[tuple[str, ...], list[float]]] = []
        for idx, key in enumerate(definition.keys):
            names = names_of(f"{idx}", arrays, key, definition)
            is_owner = key.kind == "owner"
            owners.append(ended_owners(f"{idx}", arrays, names, definition) if is_owner else {})
            categories.append({} if is_owner else category_moments(f"{idx}", arrays, names))
        return cls.restored(definition, overall, 0, owners, categories)


def _move(moments: list[float], value: float, memory: int) -> None:
    """Count one more value into (count, mean); the mean forgets with a memory of `memory` values."""
    moments[0] += 1.0
    moments[1] += (value - moments[1]) / min(moments[0], memory)
