"""Owner history: arrivals, ends and lifetimes of each owner and category, strictly up to now.

Training replays a trace through it to build feature rows, and the live predictor updates it at each
call. It is plain Python, so both sides compute the same floats in the same order.
`HistoryDefinition` lists the combinations of columns that have a history. `HistoryRows` is the same
history as one table of numbers, for compiled code.

A bundle holds a history as plain arrays: names, owners with ended requests, categories. They are
checked before use; ValueError or KeyError if they do not fit together.
"""

from __future__ import annotations

import math
import secrets
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving.inputs.owner import (
    ALL_TOGETHER,
    OWNER_FEATURES,
    OWNER_FEATURES_APART,
    UNKNOWN_OWNER,
    Group,
    OwnerState,
    fill_owner_features,
)
from sojourn.serving.kernel import register_jitable

HISTORY_OF = "history of "
CATEGORY_FEATURES = ("ended", "mean")
"""Features of a category key, in order: log1p of the count up to the window, smoothed mean of log10 lifetimes (s)."""


@dataclass(frozen=True, slots=True)
class HistoryKey:
    """A combination of request columns with a history of kind `owner` or `category`."""

    name: str
    columns: tuple[str, ...]
    kind: str

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError(f"history key {self.name!r} must have at least one column, got none")
        if self.kind not in ("owner", "category"):
            raise ValueError(f"kind must be owner or category, got {self.kind!r}")

    @property
    def history_name(self) -> str:
        """The name of its history, `history of NAME`: a column of the request may have the key's name."""
        return f"{HISTORY_OF}{self.name}"

    def feature_names(self, is_apart: bool = False) -> tuple[str, ...]:
        """Names of this key's features, in order. is_apart: instant ends are set apart."""
        owner_parts = OWNER_FEATURES_APART if is_apart else OWNER_FEATURES
        parts = owner_parts if self.kind == "owner" else CATEGORY_FEATURES
        return tuple(f"{self.name}:{part}" for part in parts)


@dataclass(frozen=True, slots=True)
class HistoryDefinition:
    """The rules by which a row sees history; part of the bundle, equal in training and serving.

    keys: the history keys, in feature order.
    window: how many ended requests of an owner are kept.
    batch_gap_s: the largest gap between neighbouring arrivals of an owner in one batch.
    category_memory: the category mean moves by at least 1 / category_memory at each end.
    prior_strength: weight of the overall mean in a category's mean, in requests.
    n_keys_max: owners or categories per key. Beyond it the owner with the oldest last arrival, or
    the category with the oldest last end, is removed, in training too. An owner takes 800 to 900
    bytes in a full table (1 to 16 ended requests), so a table of the default size takes 120 to 136
    MB.
    instant_s: ends within so many seconds are instant. Owner features are of the other ends, and
    one feature is the share of instant ends (docs/lifetime/instant_ends.md). None = all ends together. It
    changes how the history is read, not what it stores.
    """

    keys: tuple[HistoryKey, ...]
    window: int = 16
    batch_gap_s: int = 300
    category_memory: int = 2_000
    prior_strength: float = 20.0
    n_keys_max: int = 150_000
    instant_s: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("window", 1), ("n_keys_max", 1), ("category_memory", 1), ("batch_gap_s", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**62:
                raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
        if self.instant_s is not None and (isinstance(self.instant_s, bool) or not isinstance(self.instant_s, int)
                                           or not 0 <= self.instant_s < 2**31):
            raise ValueError(f"instant_s must be None or a whole number of seconds >= 0, got {self.instant_s!r}")
        if not isinstance(self.prior_strength, int | float) or not 0.0 <= self.prior_strength < math.inf:
            raise ValueError(f"prior_strength must be finite and >= 0, got {self.prior_strength!r}")

    def feature_names(self) -> tuple[str, ...]:
        """Names of all history features, in order."""
        return tuple(name for key in self.keys for name in key.feature_names(self.instant_s is not None))

    @property
    def instant_log10(self) -> float:
        """Log10 lifetimes (s) up to this are instant ends; ALL_TOGETHER = none. A lifetime is at least 1 s."""
        return ALL_TOGETHER if self.instant_s is None else math.log10(max(self.instant_s, 1))

    def as_dict(self) -> dict[str, Any]:
        """JSON form for the bundle's schema; no `instant_s` if it is None."""
        apart = {} if self.instant_s is None else {"instant_s": self.instant_s}
        return {
            "keys": [{"name": key.name, "columns": list(key.columns), "kind": key.kind} for key in self.keys],
            "window": self.window,
            "batch_gap_s": self.batch_gap_s,
            "category_memory": self.category_memory,
            "prior_strength": self.prior_strength,
            "n_keys_max": self.n_keys_max,
            **apart,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> HistoryDefinition:
        """From `as_dict`; KeyError or TypeError for other documents."""
        fields = dict(document)
        keys = tuple(HistoryKey(str(key["name"]), tuple(map(str, key["columns"])), str(key["kind"]))
                     for key in fields.pop("keys"))
        return cls(keys, **fields)


_NAN = math.nan
_TOKEN_BITS = 63


class Receipt(NamedTuple):
    """The receipt of one admission, for `ended` and `withdraw`.

    token: random, one for each history and process; number: counts the admissions of that history.
    """

    token: int
    number: int
    keys: tuple[tuple[str, ...] | None, ...]
    arrival_s: int

    @property
    def id(self) -> str:
        """Its identity as text: 16 hex digits and a number.

        >>> Receipt(255, 7, (), 0).id
        '00000000000000ff-7'
        """
        return f"{self.token:016x}-{self.number}"


@dataclass(frozen=True, slots=True)
class HistoryCut:
    """The unchanging state of a history at one moment.

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

    Calls must be in order of time; within one second, ends come before admissions.

    >>> from sojourn.serving.inputs.history import HistoryKey
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
        self.moments = [0.0, 0.0]
        """Ended requests, and the mean of their log10 lifetimes (s)."""
        self._n_admitted = self._n_category_ends = 0
        self._changed: set[OwnerState] | None = None  # owners outside the cut that is being read
        self._is_owner = [key.kind == "owner" for key in definition.keys]
        self.tables = tuple(owners if is_owner else categories for is_owner, owners, categories
                            in zip(self._is_owner, self._owners, self._categories, strict=True))
        """For each history key its owners, or the slots of its categories, by the key's values."""
        self._n_features = len(definition.feature_names())
        self._instant_log10 = definition.instant_log10

    def __len__(self) -> int:
        return sum(map(len, self._owners)) + sum(map(len, self._categories))

    @property
    def overall(self) -> float:
        """Mean of log10 lifetimes (s) of all ended requests; NaN before the first."""
        return self.moments[1] if self.moments[0] else _NAN

    def slots(self, keys: Sequence[tuple[str, ...] | None]) -> list[int]:
        """The slot in `rows` of each key of a request; `UNKNOWN` for a missing or unknown key."""
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

        keys: for each history key its values as strings, or None if one is missing. Records nothing.
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

    def admit(self, keys: Sequence[tuple[str, ...] | None], now_s: int) -> Receipt:
        """Record an arrival at `now_s` (int seconds).

        A request that was running before is admitted at its earlier arrival; several of them in the
        order of their arrivals.
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
        return Receipt(self.token, number, tuple(keys), now_s)

    def ended(self, admission: Receipt, now_s: int, arrival_s: int | None = None) -> None:
        """Record the end of an admitted request; its lifetime runs from `arrival_s` (default: its admission)."""
        start_s = admission.arrival_s if arrival_s is None else arrival_s
        log_lifetime = math.log10(max(now_s - start_s, 1))
        definition = self.definition
        _move(self.moments, log_lifetime, definition.category_memory)
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
        """The slot and moments of a category at an end; in a full table it replaces the one with
        the oldest last end."""
        slot = categories.get(key)
        if slot is not None:
            categories.move_to_end(key)
            return slot, self.rows.of(slot)[:2]
        if len(categories) >= self.definition.n_keys_max:
            self.rows.free(categories.popitem(last=False)[1])
        slot = categories[key] = self.rows.new()
        return slot, [0.0, 0.0]

    def withdraw(self, admission: Receipt) -> None:
        """Undo an admission that was not placed: features are then as before it.

        Two effects stay: an owner that it evicted from a full table, and its owner's place in the
        order of eviction. To undo an owner's latest event takes constant time.
        """
        for idx, key in enumerate(admission.keys):
            owner = None if key is None or not self._is_owner[idx] else self._owners[idx].get(key)
            if key is not None and owner is not None and self._changed is not None:
                owner = self._thawed(idx, key, owner, self._changed)
            if key is None or owner is None or not owner.withdraw(admission.number, self.definition.batch_gap_s):
                continue
            self._write_or_free(idx, key, owner)

    def lose(self, admissions: Sequence[Receipt]) -> None:
        """Undo admissions without a reported end, as `withdraw`; each owner's batch is counted again once."""
        for idx in np.flatnonzero(self._is_owner).tolist():
            numbers: dict[tuple[str, ...], list[int]] = {}
            for admission in admissions:
                key = admission.keys[idx]
                if key is not None and key in self._owners[idx]:
                    numbers.setdefault(key, []).append(admission.number)
            for key, owner_numbers in numbers.items():
                owner = self._owners[idx][key]
                if self._changed is not None:
                    owner = self._thawed(idx, key, owner, self._changed)
                owner.lose(owner_numbers, self.definition.batch_gap_s)
                self._write_or_free(idx, key, owner)

    def _write_or_free(self, idx: int, key: tuple[str, ...], owner: OwnerState) -> None:
        """Write the arrivals to an owner's row, or remove an owner without ended and running requests."""
        if owner.n_ended == 0 and owner.running is None:
            del self._owners[idx][key]
            self.rows.free(owner.slot)
        else:
            self.rows.write_head(owner.slot, owner.head(self.definition.window))

    def forget(self, idx: int, name: tuple[str, ...] | None) -> None:
        """Remove an owner of the history key number `idx`, as a full table does; ignores unknown owners.

        Not while a cut is read.
        """
        owner = self._owners[idx].pop(name, None)  # type: ignore[arg-type]  # None is no name
        if owner is not None:
            self.rows.free(owner.slot)

    def read_as(self, definition: HistoryDefinition) -> None:
        """Read instant ends by this definition, which must be equal in all else."""
        if replace(definition, instant_s=self.definition.instant_s) != self.definition:
            raise ValueError(f"definition must differ from {self.definition!r} in instant_s at most, got "
                             f"{definition!r}")
        self.definition, self._instant_log10 = definition, definition.instant_log10
        for owners in self._owners:
            for owner in owners.values():
                self.rows.write(owner.slot, owner.row(definition.window, self._instant_log10))

    def renew_token(self) -> None:
        """A new token, since another process may continue from the same state."""
        self.token = secrets.randbits(_TOKEN_BITS)

    def cut(self) -> HistoryCut:
        """The state of now, which can be read while this one changes; `release` must follow.

        It copies references, not owners; an owner that changes meanwhile is copied first. One cut
        at a time.
        """
        self._changed = set()
        dicts: list[Any] = [owners if is_owner else categories for is_owner, owners, categories
                            in zip(self._is_owner, self._owners, self._categories, strict=True)]
        slots = [np.array([] if is_owner else list(dict.values(each)), np.int64)
                 for is_owner, each in zip(self._is_owner, dicts, strict=True)]
        return HistoryCut(
            self.definition, (self.moments[0], self.moments[1]), self._n_admitted,
            [list(dict.keys(each)) for each in dicts],  # a hundred times faster than the order of an OrderedDict
            [list(dict.values(each)) if is_owner else [] for is_owner, each in zip(self._is_owner, dicts, strict=True)],
            slots, [self.rows.values[each, :2] for each in slots], np.array(self.rows.order),
        )  # fmt: skip

    def release(self) -> None:
        """End the cut: owners change in place again."""
        self._changed = None

    def _thawed(self, idx: int, key: tuple[str, ...], owner: OwnerState, changed: set[OwnerState]) -> OwnerState:
        """The owner, or, if the cut holds it, a copy that may change."""
        if owner in changed:
            return owner
        copy = self._owners[idx][key] = owner.copy()
        changed.add(copy)
        return copy

    @classmethod
    def restored(cls, definition: HistoryDefinition, overall: tuple[float, float], n_admitted: int,
                 owners: Sequence[Mapping[tuple[str, ...], OwnerState]],
                 categories: Sequence[Mapping[tuple[str, ...], Sequence[float]]]) -> HistoryState:
        """The state from its parts, by history key, each in the order of eviction; owners get slots here."""
        state = cls(definition)
        state.moments = [*overall]
        state._n_admitted = n_admitted
        for idx, is_owner in enumerate(state._is_owner):
            if is_owner:
                state._enter_owners(idx, owners[idx])
            else:
                state._enter_categories(idx, categories[idx])
        return state

    def _enter_owners(self, idx: int, owners: Mapping[tuple[str, ...], OwnerState]) -> None:
        for position, (name, owner) in enumerate(owners.items(), -len(owners)):  # before all later admissions
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
        """The state as plain arrays (no pickle), without running requests, which a scheduler admits again.

        After that, in the order of their arrivals, every feature has the same bits.
        """
        arrays: dict[str, np.ndarray] = {"overall": np.array(self.moments)}
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
        """From arrays of `to_arrays`; ValueError or KeyError if the arrays do not fit together."""
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
    """Add a value to (count, mean); a value weighs at least 1 / memory in the mean."""
    moments[0] += 1.0
    moments[1] += (value - moments[1]) / min(moments[0], memory)


LOG_LIFETIME_MAX = 20.0
"""The largest log10 of a lifetime in seconds."""
Name = tuple[str, ...]


def ended_arrays(prefix: str, owners: Mapping[Name, OwnerState]) -> dict[str, np.ndarray]:
    """Owners with ended requests, by name, as arrays, without running requests."""
    states = list(owners.values())
    groups = [owner.batch_groups() for owner in states]
    return packed_names(prefix, owners) | {
        f"{prefix}:ended_n": np.array([owner.n_ended for owner in states], np.int64),
        f"{prefix}:last": np.array([owner.last_ended_s for owner in states], np.int64),
        f"{prefix}:group_n": np.array([len(each) for each in groups], np.int64),
        f"{prefix}:group": np.array([group for each in groups for group in each], np.int64).reshape(-1, 3),
        f"{prefix}:recent_n": np.array([len(owner.recent) // 8 for owner in states], np.int64),
        f"{prefix}:recent": np.frombuffer(b"".join(owner.recent for owner in states), np.float64),
    }


def ended_owners(prefix: str, arrays: Mapping[str, np.ndarray], names: Sequence[Name],
                 definition: HistoryDefinition) -> dict[Name, OwnerState]:
    """Owners from arrays of `ended_arrays`."""
    n = len(names)
    ended_n, last, group_n, group, recent_n = (checked_array(arrays, f"{prefix}:{part}", np.int64)
                                               for part in ("ended_n", "last", "group_n", "group", "recent_n"))
    recent = checked_array(arrays, f"{prefix}:recent", np.float64)
    if (any(array.shape != (n,) for array in (ended_n, last, group_n, recent_n)) or (ended_n < 1).any()
            or (group_n < 0).any() or group.shape != (group_n.sum(), 3)
            or (recent_n < 1).any() or (recent_n > np.minimum(ended_n, definition.window)).any()
            or recent.shape != (recent_n.sum(),) or not (np.abs(recent) <= LOG_LIFETIME_MAX).all()):
        raise ValueError(f"the arrays of history key number {prefix} must fit together")
    owners = {}
    groups = np.split(group, np.cumsum(group_n)[:-1]) if n else []
    recents = np.split(recent, np.cumsum(recent_n)[:-1]) if n else []
    for idx, name in enumerate(names):
        owner = owners[name] = OwnerState(0)
        links = [(latest_s, earliest_s, n_ended) for latest_s, earliest_s, n_ended in groups[idx].tolist()]
        check_groups(prefix, links, int(ended_n[idx]), int(last[idx]), definition.batch_gap_s)
        owner.restore(int(ended_n[idx]), int(last[idx]), links, recents[idx].tobytes(), definition.batch_gap_s)
    return owners


def check_groups(prefix: str, groups: Sequence[Group], n_ended: int, last_ended_s: int, batch_gap_s: int) -> None:
    """ValueError if these cannot be the groups of ended requests of an owner's batch."""
    after_s = -math.inf
    for latest_s, earliest_s, n in groups:
        if not after_s < earliest_s <= latest_s or n < 1 or (n == 1 and earliest_s < latest_s):
            raise ValueError(f"{prefix}:group must hold (latest, earliest, count) of groups apart, in order")
        after_s = latest_s + batch_gap_s
    if groups and (groups[-1][0] > last_ended_s or sum(n for _, _, n in groups) > n_ended):
        raise ValueError(f"{prefix}:group must hold only requests that ended, none after the last of them")


def category_moments(prefix: str, arrays: Mapping[str, np.ndarray], names: Sequence[Name]) -> dict[Name, list[float]]:
    """Count and mean of log10 lifetimes (s) of each category by name."""
    moments = checked_array(arrays, f"{prefix}:moments", np.float64)
    if moments.shape != (len(names), 2) or not np.isfinite(moments).all() or not (moments[:, 0] >= 1.0).all():
        raise ValueError(f"{prefix}:moments must be counts >= 1 and means of {len(names)} names")
    return dict(zip(names, moments.tolist(), strict=True))


def overall_of(arrays: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """Count and mean of log10 lifetimes (s) of all ended requests."""
    overall = checked_array(arrays, "overall", np.float64)
    if overall.shape != (2,) or not np.isfinite(overall).all() or overall[0] < 0.0:
        raise ValueError(f"overall must be a count and a mean, got {overall!r}")
    return float(overall[0]), float(overall[1])


def checked_array(arrays: Mapping[str, np.ndarray], name: str, dtype: type) -> np.ndarray:
    """The array of this name; ValueError if it has another type, KeyError if there is none."""
    array = arrays[name]
    if array.dtype != dtype:
        raise ValueError(f"{name} must be {np.dtype(dtype)}, got {array.dtype}")
    return array


def names_of(prefix: str, arrays: Mapping[str, np.ndarray], key: HistoryKey,
             definition: HistoryDefinition) -> list[Name]:
    """The owners or categories of a history key; ValueError for duplicates or more than the definition allows."""
    names = unpacked_names(prefix, arrays, len(key.columns))
    if len(set(names)) < len(names):
        raise ValueError(f"{prefix}:text must name each key once")
    if len(names) > definition.n_keys_max:
        raise ValueError(f"history key {key.name!r} must have at most {definition.n_keys_max} values, "
                         f"got {len(names)}")
    return names


def packed_names(prefix: str, names: Iterable[Name]) -> dict[str, np.ndarray]:
    """Names as concatenated UTF-8, and the length of each value of each name."""
    parts = [value.encode(errors="surrogatepass") for name in names for value in name]
    return {
        f"{prefix}:text": np.frombuffer(b"".join(parts), np.uint8),
        f"{prefix}:length": np.array([len(part) for part in parts], np.int64),
    }


def unpacked_names(prefix: str, arrays: Mapping[str, np.ndarray], n_columns: int) -> list[Name]:
    """Names from arrays of `packed_names`."""
    text = checked_array(arrays, f"{prefix}:text", np.uint8).tobytes()
    length = checked_array(arrays, f"{prefix}:length", np.int64)
    if (length.ndim != 1 or (length < 0).any() or (length > len(text)).any() or length.sum() != len(text)
            or len(length) % n_columns):
        raise ValueError(f"{prefix}:length must cover {prefix}:text in rows of {n_columns}")
    ends = np.cumsum(length).tolist()
    values = [text[end - size:end].decode(errors="surrogatepass")
              for end, size in zip(ends, length.tolist(), strict=True)]
    return [tuple(values[row:row + n_columns]) for row in range(0, len(values), n_columns)]


UNKNOWN = 0
"""The slot of unknown keys: an owner without arrivals, a category without ends."""
_ROW = Struct(f"={len(OWNER_FEATURES)}d")
_HEAD = Struct("=6d")
_MOMENTS = Struct("=2d")
_N_SLOTS = 64


class HistoryRows:
    """Rows by slot; the capacity doubles, and free slots are used again.

    values: float64 (n, 15); an owner's row is its `OwnerState.head` and `OwnerState.ended_part`, a category's
    begins with its count and its mean. order: by slot; the entry with the lower order is evicted first.
    """

    def __init__(self) -> None:
        self.values = np.zeros((_N_SLOTS, len(OWNER_FEATURES)))
        self.order = array("q", bytes(8 * _N_SLOTS))
        self.view = memoryview(self.values).cast("B")  # type: ignore[arg-type]
        """The bytes of `values`; another object after each growth."""
        self._free: list[int] = []
        self._n = UNKNOWN
        self.write(self.new(), UNKNOWN_OWNER)

    def new(self) -> int:
        """A free slot."""
        if self._free:
            return self._free.pop()
        if self._n == len(self.values):
            larger = np.zeros((2 * self._n, len(OWNER_FEATURES)))  # not concatenated: unused rows take no memory
            larger[:self._n] = self.values
            self.values = larger
            self.order.frombytes(bytes(8 * self._n))
            self.view = memoryview(self.values).cast("B")  # type: ignore[arg-type]
        self._n += 1
        return self._n - 1

    def free(self, slot: int) -> None:
        """Give a slot back."""
        self._free.append(slot)

    def of(self, slot: int) -> list[float]:
        """The row of a slot."""
        return list(_ROW.unpack_from(self.view, slot * _ROW.size))

    def write(self, slot: int, row: Sequence[float]) -> None:
        """Set an owner's row."""
        _ROW.pack_into(self.view, slot * _ROW.size, *row)

    def write_head(self, slot: int, head: Sequence[float]) -> None:
        """Set the first 6 numbers of an owner's row."""
        _HEAD.pack_into(self.view, slot * _ROW.size, *head)

    def write_moments(self, slot: int, moments: Sequence[float]) -> None:
        """Set a category's count and mean."""
        _MOMENTS.pack_into(self.view, slot * _ROW.size, *moments)


@register_jitable
def fill_category_features(row: Sequence[float], overall: float, prior_strength: float, window: int, values: Any,
                           at: int) -> None:
    """Write a category's features to values[at:]: log1p of its count up to the window, its mean shrunk to the overall.

    row: begins with the count and the mean of log10 lifetimes (s).
    """
    n = row[0]
    values[at] = math.log1p(min(n, window))
    values[at + 1] = (n * row[1] + prior_strength * overall) / (n + prior_strength) if n > 0.0 else overall
