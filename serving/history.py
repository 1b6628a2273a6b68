"""Owner history: what a scheduler has seen of each owner and category, strictly up to now.

One piece of code for both sides: training replays a trace through it to build feature rows, and the live
predictor keeps it up to date. Plain Python on purpose: the same floats in the same order on both sides.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.serving.history_rows import UNKNOWN, HistoryRows, fill_category_features
from sojourn.serving.owner import OWNER_FEATURES, UNKNOWN_OWNER, OwnerState, fill_owner_features
from sojourn.serving.running import Group

CATEGORY_FEATURES = ("ended", "mean")
"""Features of a category key, in order: log1p of the count up to the window, smoothed mean of log10 lifetimes (s)."""
_NAN = math.nan
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class HistoryKey:
    """A combination of request columns that history is kept for, and how: `owner` or `category`."""

    name: str
    columns: tuple[str, ...]
    kind: str

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError(f"history key {self.name!r} must have at least one column, got none")
        if self.kind not in ("owner", "category"):
            raise ValueError(f"kind must be owner or category, got {self.kind!r}")

    def feature_names(self) -> tuple[str, ...]:
        """Names of this key's features, in the order in which they are written."""
        parts = OWNER_FEATURES if self.kind == "owner" else CATEGORY_FEATURES
        return tuple(f"{self.name}:{part}" for part in parts)


@dataclass(frozen=True, slots=True)
class HistoryDefinition:
    """All that decides what history a row sees; part of the bundle, equal in training and serving.

    keys: the history keys, in feature order.
    window: how many ended requests of an owner are remembered.
    batch_gap_s: arrivals of an owner no further apart than this belong to one batch.
    category_memory: the category mean moves by at least 1 / category_memory at each end.
    prior_strength: how many requests the overall mean counts for in a category's mean.
    n_keys_max: owners or categories kept per key. Beyond it the owner whose last arrival is oldest is forgotten, or
        the category of which the last end is oldest, in training too. An owner takes 800 to 900 bytes in a full table
        (1 to 16 ended requests), so one of the default size takes 120 to 136 MB.
    """

    keys: tuple[HistoryKey, ...]
    window: int = 16
    batch_gap_s: int = 300
    category_memory: int = 2_000
    prior_strength: float = 20.0
    n_keys_max: int = 150_000

    def __post_init__(self) -> None:
        for name, least in (("window", 1), ("n_keys_max", 1), ("category_memory", 1), ("batch_gap_s", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**62:
                raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
        if not isinstance(self.prior_strength, int | float) or not 0.0 <= self.prior_strength < math.inf:
            raise ValueError(f"prior_strength must be finite and >= 0, got {self.prior_strength!r}")

    def feature_names(self) -> tuple[str, ...]:
        """Names of all history features, in order."""
        return tuple(name for key in self.keys for name in key.feature_names())

    def as_dict(self) -> dict[str, Any]:
        """JSON form, as the bundle's schema holds it."""
        return {
            "keys": [{"name": key.name, "columns": list(key.columns), "kind": key.kind} for key in self.keys],
            "window": self.window,
            "batch_gap_s": self.batch_gap_s,
            "category_memory": self.category_memory,
            "prior_strength": self.prior_strength,
            "n_keys_max": self.n_keys_max,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> HistoryDefinition:
        """The definition that `as_dict` wrote; KeyError or TypeError where it is not one."""
        fields = dict(document)
        keys = tuple(HistoryKey(str(key["name"]), tuple(map(str, key["columns"])), str(key["kind"]))
                     for key in fields.pop("keys"))
        return cls(keys, **fields)


@dataclass(frozen=True, slots=True)
class Admission:
    """The receipt of one admission: what `ended` and `withdraw` need to find it again.

    history: the number of the history that it was admitted to, in this process.
    """

    history: int
    number: int
    keys: tuple[tuple[str, ...] | None, ...]
    arrival_s: int


class HistoryState:
    """Counts, recent lifetimes and running requests of every owner and category.

    Callers keep time order: within one second ends first, then admissions in call order.

    >>> definition = HistoryDefinition((HistoryKey("user", ("user",), "owner"),))
    >>> state = HistoryState(definition)
    >>> receipt = state.admit((("ann",),), now_s=0)
    >>> state.ended(receipt, now_s=100)
    >>> dict(zip(OWNER_FEATURES, state.features((("ann",),), now_s=100)))["last"]
    2.0
    """

    def __init__(self, definition: HistoryDefinition) -> None:
        self.definition = definition
        self.number = next(_NUMBERS)
        self.rows = HistoryRows()
        self._owners: list[OrderedDict[tuple[str, ...], OwnerState]] = [OrderedDict() for _ in definition.keys]
        self._categories: list[OrderedDict[tuple[str, ...], int]] = [OrderedDict() for _ in definition.keys]  # slots
        self._overall = [0.0, 0.0]  # ended, mean of log10 lifetimes
        self._n_admitted = 0
        self._is_owner = [key.kind == "owner" for key in definition.keys]
        self._n_features = len(definition.feature_names())

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
                owners.move_to_end(key)  # last = latest arrival
            owner.arrive(number, now_s, definition.batch_gap_s)
            self.rows.write_head(owner.slot, owner.head(definition.window))
        return Admission(self.number, number, tuple(keys), now_s)

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
                if owner is not None and owner.end(admission.number, log_lifetime, definition.window,
                                                   definition.batch_gap_s):
                    self.rows.write(owner.slot, owner.head(definition.window) + owner.ended_part())
            else:
                slot, moments = self._category(self._categories[idx], key)
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
            if key is None or owner is None or not owner.withdraw(admission.number, self.definition.batch_gap_s):
                continue
            if owner.n_ended == 0 and owner.running is None:
                del self._owners[idx][key]
                self.rows.free(owner.slot)
            else:
                self.rows.write_head(owner.slot, owner.head(self.definition.window))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The state as plain arrays (no pickle), without running requests: a scheduler admits those again.

        Once it has, in the order of their arrivals, every feature is what it was, to the bit.
        """
        arrays: dict[str, np.ndarray] = {"overall": np.array(self._overall)}
        for idx, is_owner in enumerate(self._is_owner):
            if is_owner:
                kept = {k: o for k, o in self._owners[idx].items() if o.n_ended}
                owners = list(kept.values())
                arrays |= _packed(f"{idx}", kept)
                arrays[f"{idx}:ended_n"] = np.array([o.n_ended for o in owners], np.int64)
                arrays[f"{idx}:last"] = np.array([o.last_ended_s for o in owners], np.int64)
                groups = [o.batch_groups() for o in owners]
                arrays[f"{idx}:group_n"] = np.array([len(each) for each in groups], np.int64)
                arrays[f"{idx}:group"] = np.array([group for each in groups for group in each], np.int64).reshape(-1, 3)
                arrays[f"{idx}:recent_n"] = np.array([len(o.recent) // 8 for o in owners], np.int64)
                arrays[f"{idx}:recent"] = np.frombuffer(b"".join(o.recent for o in owners), np.float64)
            else:
                arrays |= _packed(f"{idx}", self._categories[idx])
                slots = np.array(list(self._categories[idx].values()), np.int64)
                arrays[f"{idx}:moments"] = self.rows.values[slots, :2]
        return arrays

    @classmethod
    def from_arrays(cls, definition: HistoryDefinition, arrays: Mapping[str, np.ndarray]) -> HistoryState:
        """The state that `to_arrays` gave; ValueError or KeyError where the arrays do not fit together."""
        state = cls(definition)
        overall = _array(arrays, "overall", np.float64)
        if overall.shape != (2,) or not np.isfinite(overall).all() or overall[0] < 0.0:
            raise ValueError(f"overall must be a count and a mean, got {overall!r}")
        state._overall = [float(value) for value in overall]
        for idx, key in enumerate(definition.keys):
            names = _unpacked(f"{idx}", arrays, len(key.columns))
            if len(names) > definition.n_keys_max:
                raise ValueError(f"history key {key.name!r} must have at most {definition.n_keys_max} values, "
                                 f"got {len(names)}")
            if key.kind == "category":
                moments = _array(arrays, f"{idx}:moments", np.float64)
                if (moments.shape != (len(names), 2) or not np.isfinite(moments).all()
                        or not (moments[:, 0] >= 1.0).all()):
                    raise ValueError(f"{idx}:moments must be counts >= 1 and means of {len(names)} names")
                for name, pair in zip(names, moments.tolist(), strict=True):
                    slot = state._categories[idx][name] = state.rows.new()
                    state.rows.write_moments(slot, pair)
            else:
                owners = _owners(f"{idx}", arrays, len(names), definition, state.rows)
                state._owners[idx] = OrderedDict(zip(names, owners, strict=True))
        return state


def _owners(prefix: str, arrays: Mapping[str, np.ndarray], n: int, definition: HistoryDefinition,
            rows: HistoryRows) -> list[OwnerState]:
    ended_n, last, group_n, group, recent_n = (_array(arrays, f"{prefix}:{part}", np.int64)
                                               for part in ("ended_n", "last", "group_n", "group", "recent_n"))
    recent = _array(arrays, f"{prefix}:recent", np.float64)
    if (any(array.shape != (n,) for array in (ended_n, last, group_n, recent_n)) or (ended_n < 1).any()
            or (group_n < 0).any() or group.shape != (group_n.sum(), 3)
            or (recent_n < 1).any() or (recent_n > np.minimum(ended_n, definition.window)).any()
            or recent.shape != (recent_n.sum(),) or not (np.abs(recent) <= 20.0).all()):
        raise ValueError(f"the arrays of history key number {prefix} must fit together")
    owners = []
    groups = np.split(group, np.cumsum(group_n)[:-1]) if n else []
    recents = np.split(recent, np.cumsum(recent_n)[:-1]) if n else []
    for idx in range(n):
        owner = OwnerState(rows.new())
        links = [(latest_s, earliest_s, n_ended) for latest_s, earliest_s, n_ended in groups[idx].tolist()]
        _check_groups(prefix, links, int(ended_n[idx]), int(last[idx]), definition.batch_gap_s)
        owner.restore(int(ended_n[idx]), int(last[idx]), links, recents[idx].tobytes(), definition.batch_gap_s)
        rows.write(owner.slot, owner.head(definition.window) + owner.ended_part())
        owners.append(owner)
    return owners


def _check_groups(prefix: str, groups: list[Group], n_ended: int, last_ended_s: int, batch_gap_s: int) -> None:
    after_s = -math.inf
    for latest_s, earliest_s, n in groups:
        if not after_s < earliest_s <= latest_s or n < 1 or (n == 1 and earliest_s < latest_s):
            raise ValueError(f"{prefix}:group must hold (latest, earliest, count) of groups apart, in order")
        after_s = latest_s + batch_gap_s
    if groups and (groups[-1][0] > last_ended_s or sum(n for _, _, n in groups) > n_ended):
        raise ValueError(f"{prefix}:group must hold only requests that ended, none after the last of them")


def _array(arrays: Mapping[str, np.ndarray], name: str, dtype: type) -> np.ndarray:
    array = arrays[name]
    if array.dtype != dtype:
        raise ValueError(f"{name} must be {np.dtype(dtype)}, got {array.dtype}")
    return array


def _move(moments: list[float], value: float, memory: int) -> None:
    """Count one more value into (count, mean); the mean forgets with a memory of `memory` values."""
    moments[0] += 1.0
    moments[1] += (value - moments[1]) / min(moments[0], memory)


def _packed(prefix: str, names: Iterable[tuple[str, ...]]) -> dict[str, np.ndarray]:
    parts = [value.encode(errors="surrogatepass") for name in names for value in name]
    return {
        f"{prefix}:text": np.frombuffer(b"".join(parts), np.uint8),
        f"{prefix}:length": np.array([len(part) for part in parts], np.int64),
    }


def _unpacked(prefix: str, arrays: Mapping[str, np.ndarray], n_columns: int) -> list[tuple[str, ...]]:
    text = _array(arrays, f"{prefix}:text", np.uint8).tobytes()
    length = _array(arrays, f"{prefix}:length", np.int64)
    if (length.ndim != 1 or (length < 0).any() or (length > len(text)).any() or length.sum() != len(text)
            or len(length) % n_columns):
        raise ValueError(f"{prefix}:length must cover {prefix}:text in rows of {n_columns}")
    ends = np.cumsum(length).tolist()
    values = [text[end - size:end].decode(errors="surrogatepass")
              for end, size in zip(ends, length.tolist(), strict=True)]
    names = [tuple(values[row:row + n_columns]) for row in range(0, len(values), n_columns)]
    if len(set(names)) < len(names):
        raise ValueError(f"{prefix}:text must name each key once")
    return names
