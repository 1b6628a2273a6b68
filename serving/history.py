"""Owner history: what a scheduler has seen of each owner and category, strictly up to now.

One piece of code for both sides: training replays a trace through it to build feature rows, and the live
predictor keeps it up to date. Plain Python on purpose: the same floats in the same order on both sides.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

OWNER_FEATURES = (
    "arrived", "running", "oldest_age", "mean_age", "since_last", "batch",
    "ended", "mean", "spread", "last", "mean_2", "longest", "share_1h", "share_1d", "share_7d",
)  # fmt: skip
"""Features of an owner key, in order: counts as log1p, times as log10 seconds, shares in [0, 1]."""
CATEGORY_FEATURES = ("ended", "mean")
"""Features of a category key, in order: log1p of the count, smoothed mean of log10 lifetimes (s)."""
_SHARES_LOG10 = tuple(math.log10(seconds) for seconds in (3_600.0, 86_400.0, 604_800.0))
_NAN = math.nan
_NOTHING_ENDED = (0.0, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN)


@dataclass(frozen=True, slots=True)
class HistoryKey:
    """A combination of request columns that history is kept for, and how: `owner` or `category`."""

    name: str
    columns: tuple[str, ...]
    kind: str

    def __post_init__(self) -> None:
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
    n_keys_max: owners kept per key; beyond it the one whose last arrival is oldest is forgotten.
    """

    keys: tuple[HistoryKey, ...]
    window: int = 16
    batch_gap_s: int = 300
    category_memory: int = 2_000
    prior_strength: float = 20.0
    n_keys_max: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("window", "n_keys_max", "category_memory"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be >= 1, got {getattr(self, name)!r}")

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


class _Owner:
    """One owner's state. `running` maps an admission's number to its arrival, in order of admission."""

    __slots__ = ("batch", "ended_part", "last_arrival_s", "last_number", "n_arrived", "n_ended", "recent",
                 "running", "running_sum_s")  # fmt: skip

    def __init__(self, window: int) -> None:
        self.n_arrived = 0
        self.n_ended = 0
        self.last_arrival_s: int | None = None
        self.last_number = -1
        self.batch = 0
        self.running: dict[int, int] = {}
        self.running_sum_s = 0
        self.recent: deque[float] = deque(maxlen=window)
        self.ended_part: tuple[float, ...] = _NOTHING_ENDED

    def features(self, now_s: int, batch_gap_s: int) -> list[float]:
        n_running = len(self.running)
        if n_running:
            oldest_s = next(iter(self.running.values()))
            oldest = math.log10(max(now_s - oldest_s, 1))
            mean = math.log10(max(now_s - self.running_sum_s / n_running, 1.0))
        else:
            oldest = mean = _NAN
        if self.last_arrival_s is None:
            since, batch = _NAN, 0
        else:
            gap_s = now_s - self.last_arrival_s
            since = math.log10(max(gap_s, 1))
            batch = self.batch if gap_s <= batch_gap_s else 0
        return [math.log1p(self.n_arrived), math.log1p(n_running), oldest, mean, since, math.log1p(batch),
                *self.ended_part]  # fmt: skip

    def refresh_ended(self) -> None:
        recent = self.recent
        n = len(recent)
        total = 0.0
        for value in recent:
            total += value
        mean = total / n
        squares = 0.0
        longest = -1.0
        above = [0, 0, 0]
        for value in recent:
            squares += (value - mean) * (value - mean)
            if value > longest:
                longest = value
            for idx, bound in enumerate(_SHARES_LOG10):
                if value >= bound:
                    above[idx] += 1
        last = recent[-1]
        mean_2 = last if n == 1 else (last + recent[-2]) / 2.0
        self.ended_part = (math.log1p(self.n_ended), mean, math.sqrt(squares / n), last, mean_2, longest,
                           above[0] / n, above[1] / n, above[2] / n)  # fmt: skip


@dataclass(slots=True)
class Admission:
    """The receipt of one admission: what `ended` and `withdraw` need to find it again."""

    number: int
    keys: tuple[tuple[str, ...] | None, ...]
    arrival_s: int
    undo: tuple[tuple[int | None, int, int] | None, ...]


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
        self._owners: list[dict[tuple[str, ...], _Owner]] = [{} for _ in definition.keys]
        self._categories: list[dict[tuple[str, ...], list[float]]] = [{} for _ in definition.keys]
        self._overall = [0.0, 0.0]  # ended, mean of log10 lifetimes
        self._n_admitted = 0
        self._is_owner = [key.kind == "owner" for key in definition.keys]
        self._unknown_owner = [math.log1p(0), math.log1p(0), _NAN, _NAN, _NAN, math.log1p(0), *_NOTHING_ENDED]

    def __len__(self) -> int:
        return sum(map(len, self._owners)) + sum(map(len, self._categories))

    def is_known(self, idx: int, key: tuple[str, ...] | None) -> bool:
        """True if the key's value has been seen and not forgotten; `idx` counts the definition's keys."""
        return key is not None and key in (self._owners[idx] if self._is_owner[idx] else self._categories[idx])

    def features(self, keys: Sequence[tuple[str, ...] | None], now_s: int) -> list[float]:
        """The history features of a request that arrives now, in the definition's order.

        keys: for each history key its values as strings, or None where one is missing. Records nothing.
        """
        row: list[float] = []
        batch_gap_s = self.definition.batch_gap_s
        prior = self.definition.prior_strength
        overall = self._overall[1] if self._overall[0] else _NAN
        for idx, key in enumerate(keys):
            if self._is_owner[idx]:
                owner = None if key is None else self._owners[idx].get(key)
                row += self._unknown_owner if owner is None else owner.features(now_s, batch_gap_s)
            else:
                seen = None if key is None else self._categories[idx].get(key)
                if seen is None:
                    row += (0.0, overall)
                else:
                    row += (math.log1p(seen[0]), (seen[0] * seen[1] + prior * overall) / (seen[0] + prior))
        return row

    def admit(self, keys: Sequence[tuple[str, ...] | None], now_s: int) -> Admission:
        """Record an arrival at `now_s` (int seconds; earlier for a request that was running already)."""
        number = self._n_admitted
        self._n_admitted += 1
        definition = self.definition
        undo: list[tuple[int | None, int, int] | None] = []
        for idx, key in enumerate(keys):
            if key is None or not self._is_owner[idx]:
                undo.append(None)
                continue
            owners = self._owners[idx]
            owner = owners.pop(key, None)
            if owner is None:
                owner = _Owner(definition.window)
                if len(owners) >= definition.n_keys_max:
                    del owners[next(iter(owners))]
            owners[key] = owner  # last in the dict = latest arrival
            undo.append((owner.last_arrival_s, owner.last_number, owner.batch))
            last = owner.last_arrival_s
            owner.batch = owner.batch + 1 if last is not None and now_s - last <= definition.batch_gap_s else 1
            owner.n_arrived += 1
            owner.last_arrival_s = now_s if last is None else max(last, now_s)
            owner.last_number = number
            owner.running[number] = now_s
            owner.running_sum_s += now_s
        return Admission(number, tuple(keys), now_s, tuple(undo))

    def ended(self, admission: Admission, now_s: int, arrival_s: int | None = None) -> None:
        """Record the end of an admitted request; its lifetime runs from `arrival_s` (default: its admission)."""
        start_s = admission.arrival_s if arrival_s is None else arrival_s
        log_lifetime = math.log10(max(now_s - start_s, 1))
        overall = self._overall
        memory = self.definition.category_memory
        _move(overall, log_lifetime, memory)
        for idx, key in enumerate(admission.keys):
            if key is None:
                continue
            if self._is_owner[idx]:
                owner = self._owners[idx].get(key)
                if owner is None or admission.number not in owner.running:
                    continue  # forgotten since: the size bound came first
                owner.running_sum_s -= owner.running.pop(admission.number)
                owner.n_ended += 1
                owner.recent.append(log_lifetime)
                owner.refresh_ended()
            else:
                _move(self._categories[idx].setdefault(key, [0.0, 0.0]), log_lifetime, memory)

    def withdraw(self, admission: Admission) -> None:
        """Undo an admission that was not placed. (A forgotten owner that it pushed out stays forgotten.)"""
        for idx, key in enumerate(admission.keys):
            undo = admission.undo[idx]
            owner = None if key is None or undo is None else self._owners[idx].get(key)
            if key is None or undo is None or owner is None or admission.number not in owner.running:
                continue
            owner.running_sum_s -= owner.running.pop(admission.number)
            owner.n_arrived -= 1
            if owner.last_number == admission.number:
                owner.last_arrival_s, owner.last_number, owner.batch = undo
            if owner.n_arrived == 0 and owner.n_ended == 0 and not owner.running:
                del self._owners[idx][key]

    def is_running(self, admission: Admission) -> bool:
        """True while an owner key still counts the admission as running."""
        for idx, key in enumerate(admission.keys):
            if key is not None and self._is_owner[idx]:
                owner = self._owners[idx].get(key)
                if owner is not None and admission.number in owner.running:
                    return True
        return False

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The state as plain arrays (no pickle), without running requests: a scheduler admits those again."""
        arrays: dict[str, np.ndarray] = {"overall": np.array(self._overall)}
        for idx, key in enumerate(self.definition.keys):
            if self._is_owner[idx]:
                kept = {k: o for k, o in self._owners[idx].items() if o.n_arrived > len(o.running)}
                owners = list(kept.values())
                arrays |= _packed(f"{idx}", kept)
                arrays[f"{idx}:counts"] = np.array(
                    [(o.n_arrived - len(o.running), o.n_ended) for o in owners], np.int64).reshape(-1, 2)
                arrays[f"{idx}:last"] = np.array(
                    [-(2**62) if o.last_arrival_s is None else o.last_arrival_s for o in owners], np.int64)
                arrays[f"{idx}:batch"] = np.array([o.batch for o in owners], np.int64)
                arrays[f"{idx}:recent_n"] = np.array([len(o.recent) for o in owners], np.int64)
                arrays[f"{idx}:recent"] = np.array([value for o in owners for value in o.recent], np.float64)
            else:
                arrays |= _packed(f"{idx}", self._categories[idx])
                arrays[f"{idx}:moments"] = np.array(list(self._categories[idx].values()), np.float64).reshape(-1, 2)
        return arrays

    @classmethod
    def from_arrays(cls, definition: HistoryDefinition, arrays: Mapping[str, np.ndarray]) -> HistoryState:
        """The state that `to_arrays` gave; ValueError or KeyError where the arrays do not fit together."""
        state = cls(definition)
        overall = np.asarray(arrays["overall"], np.float64)
        if overall.shape != (2,) or not np.isfinite(overall).all():
            raise ValueError(f"overall must be two finite numbers, got {overall!r}")
        state._overall = [float(value) for value in overall]
        for idx, key in enumerate(definition.keys):
            names = _unpacked(f"{idx}", arrays, len(key.columns))
            if key.kind == "category":
                moments = np.asarray(arrays[f"{idx}:moments"], np.float64)
                if moments.shape != (len(names), 2) or not np.isfinite(moments).all():
                    raise ValueError(f"{idx}:moments must be finite of shape ({len(names)}, 2), got {moments.shape}")
                state._categories[idx] = dict(zip(names, moments.tolist(), strict=True))
                continue
            counts, last, batch, recent_n = (np.asarray(arrays[f"{idx}:{part}"], np.int64)
                                             for part in ("counts", "last", "batch", "recent_n"))
            recent = np.asarray(arrays[f"{idx}:recent"], np.float64)
            if (counts.shape != (len(names), 2) or not len(last) == len(batch) == len(recent_n) == len(names)
                    or (counts < 0).any() or (recent_n < 0).any() or (recent_n > definition.window).any()
                    or recent_n.sum() != len(recent) or not np.isfinite(recent).all()):
                raise ValueError(f"the arrays of history key {key.name!r} do not fit together")
            position = 0
            for row, name in enumerate(names):
                owner = _Owner(definition.window)
                owner.n_arrived, owner.n_ended = int(counts[row, 0]), int(counts[row, 1])
                owner.last_arrival_s = None if last[row] == -(2**62) else int(last[row])
                owner.batch = int(batch[row])
                n = int(recent_n[row])
                owner.recent.extend(recent[position:position + n].tolist())
                position += n
                if n:
                    owner.refresh_ended()
                state._owners[idx][name] = owner
        return state


def _move(moments: list[float], value: float, memory: int) -> None:
    """Count one more value into (count, mean); the mean forgets with a memory of `memory` values."""
    moments[0] += 1.0
    moments[1] += (value - moments[1]) / min(moments[0], memory)


def _packed(prefix: str, names: Iterable[tuple[str, ...]]) -> dict[str, np.ndarray]:
    parts = [value.encode() for name in names for value in name]
    return {
        f"{prefix}:text": np.frombuffer(b"".join(parts), np.uint8),
        f"{prefix}:length": np.array([len(part) for part in parts], np.int64),
    }


def _unpacked(prefix: str, arrays: Mapping[str, np.ndarray], n_columns: int) -> list[tuple[str, ...]]:
    text = np.asarray(arrays[f"{prefix}:text"], np.uint8).tobytes()
    length = np.asarray(arrays[f"{prefix}:length"], np.int64)
    if (length < 0).any() or length.sum() != len(text) or len(length) % n_columns:
        raise ValueError(f"{prefix}:length must cover {prefix}:text in rows of {n_columns}")
    ends = np.cumsum(length).tolist()
    values = [text[end - size:end].decode() for end, size in zip(ends, length.tolist(), strict=True)]
    return [tuple(values[row:row + n_columns]) for row in range(0, len(values), n_columns)]
