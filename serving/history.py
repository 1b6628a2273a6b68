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
"""Features of an owner key, in order: counts as log1p, times as log10 seconds, shares in [0, 1].

`arrived` and `ended` count up to the definition's window: a count that grows for ever tells a model which owner it
is and how late it is, and no later row lies where it learnt.
"""
CATEGORY_FEATURES = ("ended", "mean")
"""Features of a category key, in order: log1p of the count up to the window, smoothed mean of log10 lifetimes (s)."""
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
    n_keys_max: owners kept per key; beyond it the one whose last arrival is oldest is forgotten.
    """

    keys: tuple[HistoryKey, ...]
    window: int = 16
    batch_gap_s: int = 300
    category_memory: int = 2_000
    prior_strength: float = 20.0
    n_keys_max: int = 1_000_000

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


class _Owner:
    """One owner's state. `running` maps an admission's number to its arrival, in order of admission.

    A batch is a chain of arrivals no further apart than the gap; only the latest one is kept. `batch_ended` holds
    the arrivals of its ended requests, so that it can be counted again when an admission is withdrawn.
    """

    __slots__ = ("batch", "batch_ended", "batch_start_s", "ended_part", "last_arrival_s", "last_ended_s", "n_ended",
                 "recent", "running", "running_sum_s")  # fmt: skip

    def __init__(self, window: int) -> None:
        self.n_ended = 0
        self.last_arrival_s: int | None = None
        self.last_ended_s: int | None = None  # the latest arrival among those that have ended
        self.batch = 0
        self.batch_start_s = 0
        self.batch_ended: list[int] = []
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
        n_arrived = min(self.n_ended + n_running, self.recent.maxlen or 0)
        return [math.log1p(n_arrived), math.log1p(n_running), oldest, mean, since, math.log1p(batch),
                *self.ended_part]  # fmt: skip

    def arrive(self, number: int, now_s: int, batch_gap_s: int) -> None:
        last_s = self.last_arrival_s
        self.running[number] = now_s
        self.running_sum_s += now_s
        if last_s is None or now_s - last_s > batch_gap_s:
            self.last_arrival_s = self.batch_start_s = now_s
            self.batch = 1
            self.batch_ended.clear()
        elif now_s >= last_s:
            self.last_arrival_s = now_s
            self.batch += 1
        else:  # it was running already
            self.recount(batch_gap_s)

    def end(self, number: int, log_lifetime: float) -> None:
        arrival_s = self.running.pop(number)
        self.running_sum_s -= arrival_s
        if self.last_ended_s is None or arrival_s > self.last_ended_s:
            self.last_ended_s = arrival_s
        if arrival_s >= self.batch_start_s:
            self.batch_ended.append(arrival_s)
        self.n_ended += 1
        self.recent.append(log_lifetime)
        self.refresh_ended()

    def recount(self, batch_gap_s: int) -> None:
        """Find the latest arrival and its batch again, from those running and those ended."""
        times = sorted([*self.running.values(), *self.batch_ended])
        if not times or (self.last_ended_s is not None and self.last_ended_s > times[-1]):
            # Of an earlier batch: too long ago to be continued, so its size does not matter.
            self.last_arrival_s, self.batch = self.last_ended_s, 0
            self.batch_start_s = 0 if self.last_ended_s is None else self.last_ended_s
            return
        self.last_arrival_s = self.batch_start_s = times[-1]
        self.batch = 1
        for time_s in reversed(times[:-1]):
            if self.batch_start_s - time_s > batch_gap_s:
                break
            self.batch_start_s = time_s
            self.batch += 1

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
        self.ended_part = (math.log1p(n), mean, math.sqrt(squares / n), last, mean_2, longest,
                           above[0] / n, above[1] / n, above[2] / n)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Admission:
    """The receipt of one admission: what `ended` and `withdraw` need to find it again."""

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
        prior, window = self.definition.prior_strength, self.definition.window
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
                    row += (math.log1p(min(seen[0], window)), (seen[0] * seen[1] + prior * overall) / (seen[0] + prior))
        return row

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
            owner = owners.pop(key, None)
            if owner is None:
                owner = _Owner(definition.window)
                if len(owners) >= definition.n_keys_max:
                    del owners[next(iter(owners))]
            owners[key] = owner  # last in the dict = latest arrival
            owner.arrive(number, now_s, definition.batch_gap_s)
        return Admission(number, tuple(keys), now_s)

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
                owner.end(admission.number, log_lifetime)
            else:
                _move(self._categories[idx].setdefault(key, [0.0, 0.0]), log_lifetime, memory)

    def withdraw(self, admission: Admission) -> None:
        """Undo an admission that was not placed: features are then as if it had never been.

        Two things stay: an owner that it pushed out of a full table, and its own owner's place in line there.
        """
        for idx, key in enumerate(admission.keys):
            owner = None if key is None or not self._is_owner[idx] else self._owners[idx].get(key)
            if key is None or owner is None or admission.number not in owner.running:
                continue
            owner.running_sum_s -= owner.running.pop(admission.number)
            owner.recount(self.definition.batch_gap_s)
            if owner.n_ended == 0 and not owner.running:
                del self._owners[idx][key]

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
                arrays[f"{idx}:batch_n"] = np.array([len(o.batch_ended) for o in owners], np.int64)
                arrays[f"{idx}:batch"] = np.array([time_s for o in owners for time_s in o.batch_ended], np.int64)
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
        overall = _array(arrays, "overall", np.float64)
        if overall.shape != (2,) or not np.isfinite(overall).all() or overall[0] < 0.0:
            raise ValueError(f"overall must be a count and a mean, got {overall!r}")
        state._overall = [float(value) for value in overall]
        for idx, key in enumerate(definition.keys):
            names = _unpacked(f"{idx}", arrays, len(key.columns))
            if key.kind == "category":
                moments = _array(arrays, f"{idx}:moments", np.float64)
                if (moments.shape != (len(names), 2) or not np.isfinite(moments).all()
                        or not (moments[:, 0] >= 1.0).all()):
                    raise ValueError(f"{idx}:moments must be counts >= 1 and means of {len(names)} names")
                state._categories[idx] = dict(zip(names, moments.tolist(), strict=True))
            else:
                owners = _owners(f"{idx}", arrays, len(names), definition)
                if len(names) > definition.n_keys_max:
                    raise ValueError(f"history key {key.name!r} must have at most {definition.n_keys_max} owners")
                state._owners[idx] = dict(zip(names, owners, strict=True))
        return state


def _owners(prefix: str, arrays: Mapping[str, np.ndarray], n: int, definition: HistoryDefinition) -> list[_Owner]:
    ended_n, last, batch_n, batch, recent_n = (_array(arrays, f"{prefix}:{part}", np.int64)
                                               for part in ("ended_n", "last", "batch_n", "batch", "recent_n"))
    recent = _array(arrays, f"{prefix}:recent", np.float64)
    if (any(array.shape != (n,) for array in (ended_n, last, batch_n, recent_n)) or (ended_n < 1).any()
            or (batch_n < 0).any() or (batch_n > ended_n).any() or batch.shape != (batch_n.sum(),)
            or (recent_n < 1).any() or (recent_n > np.minimum(ended_n, definition.window)).any()
            or recent.shape != (recent_n.sum(),) or not (np.abs(recent) <= 20.0).all()):
        raise ValueError(f"the arrays of history key number {prefix} must fit together")
    owners = []
    batches = np.split(batch, np.cumsum(batch_n)[:-1]) if n else []
    recents = np.split(recent, np.cumsum(recent_n)[:-1]) if n else []
    for idx in range(n):
        owner = _Owner(definition.window)
        owner.n_ended = int(ended_n[idx])
        owner.last_ended_s = int(last[idx])
        owner.batch_ended = batches[idx].tolist()
        owner.recent.extend(recents[idx].tolist())
        owner.recount(definition.batch_gap_s)
        owner.refresh_ended()
        owners.append(owner)
    return owners


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
