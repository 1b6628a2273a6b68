"""The habits of owners inside a predictor: nodes by key, what runs, and the curves that they change.

They begin with the counts of the bundle, go on with each admission and end, and are saved in
snapshots. All tables are bounded: of each level the nodes with the latest arrivals are kept. The
formulas are those of training (`serving.curves.habit_kernels`), compiled if numba is installed.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving import checks as document_fields
from sojourn.serving.bundle import HabitSection, Schema
from sojourn.serving.curves import KERNELS, N_HAZARD, HazardCurve, LimitCurve
from sojourn.serving.curves import habit_kernels as formulas
from sojourn.serving.curves.habit_kernels import (
    N_NODES_MAX,
    BlendRules,
    HabitRules,
    interval_end,
    joined_code,
    new_blend,
    new_habits,
    new_open,
)
from sojourn.serving.errors import BundleError
from sojourn.serving.inputs import LIMIT, Parsed, checked_array, has_limit, key_code

N_FIRST = 1_024
"""Room for so many requests and nodes at the start; it doubles when it is full."""
_LOOPS: Any = formulas if KERNELS is None else KERNELS
N_CODES_KEPT = 4_096
"""So many requests' codes are kept, since a key's code takes some microseconds."""


class Given(NamedTuple):
    """What the habits gave a request: cumulative hazards, float32 (J + K,), the model's weights, float32 (B,), and
    its limit, s. model: the model's hazards of whole intervals, float32 (J + K,); codes: of its keys at each level;
    both are needed to follow it."""

    known: np.ndarray
    weights: np.ndarray
    limit_s: float
    model: np.ndarray | None = None
    codes: Sequence[int] = ()


class LiveHabits:
    """Habits and weights of one version; for one thread at a time. BundleError if its section is malformed.

    will_answer: its loops are loaded now, so that the first request does not wait for them; on a new machine that
    compiles them for 10 s. False for those who only read what it holds.
    """

    def __init__(self, schema: Schema, section: HabitSection, *, will_answer: bool = True) -> None:
        try:
            self._set(schema, section.fields)
            self._load_nodes(section.arrays)
            if will_answer:
                self._load_loops()
        except BundleError:
            raise
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise BundleError(f"schema.json: habits must be complete, got {type(error).__name__}: {error}") from error

    def _set(self, schema: Schema, fields: Mapping[str, Any]) -> None:
        rules = HabitRules(*document_fields.numbers(fields["rules"], "rules", len(HabitRules._fields)))
        blend_rules = BlendRules(*document_fields.numbers(fields["blend"], "blend", len(BlendRules._fields)))
        if not all(0.0 < value < math.inf for value in (*rules, *blend_rules)) or min(*rules[:3], *blend_rules[:2]) < 1:
            raise ValueError("rules and blend must be finite and above 0, and memories at least 1")
        self.is_blended = fields["is_blended"] is True
        names = document_fields.texts(fields["keys"], "keys", document_fields.N_KEYS_MAX)
        at = {key.name: idx for idx, key in enumerate(schema.encoder.history.keys)}
        self.owners = [at[name] for name in names]
        self.limit_place = schema.encoder.numbers.index(LIMIT) if LIMIT in schema.encoder.numbers else -1
        self.has_limit_level = fields["has_limit_level"] is True and self.limit_place >= 0 and bool(names)
        n_plain = max(len(names) - 1, min(len(names), 1))
        self._n_levels = n_plain + self.has_limit_level + (len(names) > 1)
        numbers = schema.numbers
        edges, shares, offsets = (np.array(values, np.float64)
                                  for values in (numbers.edges, numbers.shares, numbers.offsets))
        self._has_axis, self._tail_s = len(shares) > 0, numbers.tail_s
        buckets = np.array(document_fields.numbers(fields["buckets"], "buckets", len(offsets)), np.int64)
        if len(buckets) != len(offsets) or (buckets < 0).any() or (buckets >= len(offsets)).any():
            raise ValueError(f"buckets must be {len(offsets)} whole numbers, each of an interval")
        self.habits = new_habits(edges, shares, 1.0 / (1.0 + np.exp(-offsets)), rules, N_FIRST)
        self.ones = new_open(N_FIRST, self._n_levels)
        self.blend = new_blend(blend_rules, buckets, max(len(names) - 1, 0) - 1, N_FIRST, N_FIRST)
        self._set_parts()
        self._codes = lru_cache(N_CODES_KEPT)(self.codes)
        self._weights = np.zeros((N_FIRST, self.blend.sums.shape[1]), np.float32)
        self._nodes: list[OrderedDict[int, int]] = [OrderedDict() for _ in range(self._n_levels)]
        self._n_nodes = 1
        self._place_of: dict[int, int] = {}
        self._free: list[int] = []
        self._n_places = self._serial = 0
        self._waits = False

    @classmethod
    def empty(cls, schema: Schema) -> LiveHabits:
        """Habits of all requests together, without counts."""
        n = len(schema.numbers.offsets)
        fields = {"rules": list(HabitRules()), "blend": list(BlendRules()), "is_blended": True, "keys": [],
                  "has_limit_level": False, "buckets": [0] * n}
        return cls(schema, HabitSection(fields, {"codes": np.empty((0, 2), np.int64), "counts": np.zeros(4 * n),
                                                 "sums": np.zeros(2)}))

    def _load_loops(self) -> None:
        """Load compiled code now, not at the first request: each call once, on tables of its own."""
        habits, blend, n = self.habits, self.blend, len(self.habits.base)
        own = habits._replace(counts=np.zeros((1, n, 4)), born=np.zeros(1, np.int64))
        ones = new_open(1, self._n_levels)
        mixed = blend._replace(sums=np.zeros((1, *blend.sums.shape[1:])), model=np.zeros((1, n), np.float32),
                               known=np.zeros((1, n), np.float32), is_weighed=np.zeros(1, np.bool_))
        parts = (own, ones, mixed) if KERNELS is None else (*own, *ones, *mixed)
        known, model = np.zeros(n, np.float32), np.zeros(n, np.float32)
        weights, nodes = np.zeros(self._weights.shape[1], np.float32), np.full(self._n_levels, -1, np.int64)
        numbers = np.ones((N_HAZARD + self._has_axis) * (n + 1))
        curve = math.nan, self._tail_s
        _LOOPS.follow_by_habits(*parts, 0, 1, 0.0, math.nan, nodes, known, model, True, 0.0)
        _LOOPS.answer_by_habits(*parts, 1.0, nodes, numbers, *curve, True, known, weights, model, numbers.copy())
        _LOOPS.fill_blended(own, mixed, numbers, *curve, known, weights, model, numbers.copy())
        _LOOPS.end_by_habits(*parts, 0, 1.0, 0.0, 1.0)

    def __len__(self) -> int:
        return len(self._place_of)

    @property
    def oldest(self) -> int:
        """The number of the open request that was followed first."""
        return next(iter(self._place_of))

    def meaning(self) -> list[np.ndarray]:
        """The numbers by which counts are read; those of another version or snapshot go on only if these are equal."""
        flags = [*self.owners, self.has_limit_level, self.is_blended]
        return [self.habits.edges, self.habits.shares, self.habits.rules, self.blend.rules,
                self.blend.buckets.astype(np.float64), np.array(flags, np.float64)]

    def continues(self, other: LiveHabits) -> bool:
        """Whether the counts of another version have the same meaning here."""
        return all(map(np.array_equal, self.meaning(), other.meaning()))

    def codes(self, keys: tuple[tuple[str, ...] | None, ...], limit_s: float) -> tuple[int, ...]:
        """The code of a request's key at each level, -1 = none. keys: its history keys."""
        code, is_known, codes = 0, True, []
        owners = [keys[idx] for idx in self.owners]
        for key in owners[:-1] if len(owners) > 1 else owners:
            is_known = is_known and key is not None
            code = joined_code(code, key_code(key)) if key is not None else 0
            codes.append(code if is_known else -1)
        if self.has_limit_level:
            codes.append(joined_code(code, int(limit_s) if has_limit(limit_s) else 0) if is_known else -1)
        if len(owners) > 1:
            shape = owners[-1]
            codes.append(joined_code(code, key_code(shape)) if is_known and shape is not None else -1)
        return tuple(codes)

    def answer(self, curve: HazardCurve, parsed: Parsed, now_s: int) -> tuple[HazardCurve, Given]:
        """The model's curve with the habits of now, and what they gave."""
        limit_s = parsed.numbers[self.limit_place] if self.limit_place >= 0 else math.nan
        codes = self._codes(parsed.keys, limit_s if limit_s == limit_s else 0.0)
        nodes = np.array([nodes_of.get(code, -1) for nodes_of, code in zip(self._nodes, codes, strict=True)], np.int64)
        n_intervals = len(self.habits.base)
        known, model = np.empty(n_intervals, np.float32), np.empty(n_intervals, np.float32)
        weights, numbers = np.empty(self._weights.shape[1], np.float32), _room(curve)
        given = Given(known, weights, limit_s if self._has_axis else math.nan, model, codes)
        _LOOPS.answer_by_habits(*self._parts, float(now_s), nodes, curve.numbers, given.limit_s, self._tail_s,
                                self.is_blended, known, weights, model, numbers)
        return curve.like(numbers), given

    def blended(self, curve: HazardCurve, given: Given) -> HazardCurve:
        """A curve of the model with what the habits gave."""
        model, numbers = np.empty(len(self.habits.base), np.float32), _room(curve)
        _LOOPS.fill_blended(self.habits, self.blend, curve.numbers, given.limit_s, self._tail_s, given.known,
                            given.weights, model, numbers)
        return curve.like(numbers)

    def follow(self, number: int, given: Given, start_s: int, now_s: int) -> None:
        """Follow an admitted request. given: by `answer`."""
        self._serial += 1
        place = self._new_place(number)
        nodes = np.array([self._node(level, code) for level, code in enumerate(given.codes)], np.int64)
        self._weights[place] = given.weights
        self._make_room()
        seen_s = -1.0 if self._waits else float(max(now_s - start_s, 0))
        _LOOPS.follow_by_habits(*self._parts, place, self._serial, float(start_s), given.limit_s, nodes, given.known,
                                given.model, self.is_blended, seen_s)

    def given(self, number: int) -> Given | None:
        """What the habits gave an open request at its admission; None if it is not followed."""
        place = self._place_of.get(number)
        if place is None:
            return None
        return Given(self.blend.known[place].copy(), self._weights[place].copy(), float(self.ones.limit_s[place]))

    def ended(self, number: int, end_s: int, began_s: int) -> None:
        """Count the end of a request; ignored if it is not followed. began_s: when it began to run.

        Once a request waited after its admission, later ones count only when they end: until then
        nobody knows what runs.
        """
        place = self._place_of.pop(number, None)
        if place is None:
            return
        self._make_room()
        is_timed = _LOOPS.end_by_habits(*self._parts, place, float(end_s), float(began_s),
                                        float(max(end_s - began_s, 1)))
        self._waits = self._waits or not is_timed
        self._free.append(place)

    def forget(self, number: int) -> None:
        """Follow a request no longer, without an end."""
        place = self._place_of.pop(number, None)
        if place is not None:
            self.ones.serial[place] = -1
            self.blend.is_weighed[place] = False
            self._free.append(place)

    def to_arrays(self, n_most: int = N_NODES_MAX) -> dict[str, np.ndarray]:
        """Nodes and counts as copies, of each level those with the latest arrivals, and the requests that run."""
        codes = [(level, code, node) for level, nodes in enumerate(self._nodes)
                 for code, node in list(nodes.items())[-n_most:]]
        kept = np.array([0, *(node for _, _, node in codes)], np.int64)
        row_of = np.full(len(self.habits.counts), -1, np.int64)
        row_of[kept] = np.arange(len(kept))
        numbers = np.fromiter(self._place_of, np.int64, len(self._place_of))
        places = np.fromiter(self._place_of.values(), np.int64, len(self._place_of))
        ones, nodes = self.ones, self.ones.nodes[places]
        is_own = (nodes >= 0) & (ones.serial[places][:, None] >= self.habits.born[nodes])
        state = np.column_stack([numbers, ones.serial[places], ones.interval[places],
                                 np.where(is_own, row_of[nodes], -1)])
        return {
            "meaning": np.concatenate([np.append(part, math.nan) for part in self.meaning()]),
            "codes": np.array([(level, code) for level, code, _ in codes], np.int64).reshape(-1, 2),
            "counts": self.habits.counts[kept].ravel(),
            "sums": self.blend.sums[kept].ravel(),
            "running": state.ravel(),
            "running:times": np.column_stack([ones.start_s[places], ones.limit_s[places]]),
            "running:model": self.blend.model[places].astype(np.float64).ravel(),
            "running:known": self.blend.known[places].astype(np.float64).ravel(),
            "running:weights": self._weights[places].astype(np.float64).ravel(),
            "waits": np.array([self._waits], np.uint8),
        }  # fmt: skip

    def nodes(self) -> tuple[Mapping[int, int], ...]:
        """Of each level, code -> node, the latest arrival last."""
        return tuple(self._nodes)

    def counted(self) -> tuple[np.ndarray, np.ndarray]:
        """Counts of the nodes, float64 (S, J + K, 4), and sums of their losses, float64 (S, B, 2)."""
        return self.habits.counts[:self._n_nodes], self.blend.sums[:self._n_nodes]

    def restore(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Continue from `to_arrays` of a snapshot; False if their meaning is another. ValueError if malformed."""
        meaning = checked_array(arrays, "meaning", np.float64)
        if not np.array_equal(meaning, np.concatenate([np.append(part, math.nan) for part in self.meaning()]),
                              equal_nan=True):
            return False
        self._load_nodes(arrays)
        self._waits = bool(checked_array(arrays, "waits", np.uint8).all())
        times = checked_array(arrays, "running:times", np.float64)
        n, n_intervals = len(times), len(self.habits.base)
        state = checked_array(arrays, "running", np.int64).reshape(n, 3 + self._n_levels)
        rows = {name: checked_array(arrays, f"running:{name}", np.float64).reshape(n, width) for name, width in
                (("model", n_intervals), ("known", n_intervals), ("weights", self._weights.shape[1]))}
        if times.shape != (n, 2):
            raise ValueError(f"times of running requests must be two each, got shape {times.shape}")
        if ((state[:, :2] < 0).any() or (state[:, 2:] < -1).any() or (state[:, 2] > n_intervals).any()
                or (state[:, 3:] >= self._n_nodes).any() or not np.isfinite(times[:, 0]).all()
                or not all((np.isfinite(part) & (part >= 0.0)).all() for part in rows.values())):
            raise ValueError("habits of running requests must be within their bounds")
        self._serial = int(state[:, 1].max(initial=0))
        for idx, (number, serial, interval, *nodes) in enumerate(state.tolist()):
            place = self._new_place(number)
            ones = self.ones
            ones.start_s[place], ones.limit_s[place] = times[idx]
            ones.serial[place], ones.interval[place] = serial, interval
            ones.nodes[place] = nodes
            self.blend.model[place], self.blend.known[place] = rows["model"][idx], rows["known"][idx]
            self._weights[place], self.blend.is_weighed[place] = rows["weights"][idx], self.is_blended
            if interval != formulas.UNTIMED:
                upper_s = interval_end(interval, times[idx, 1], self.habits)[0]
                if upper_s < math.inf:
                    self._make_room()
                    formulas.push_due(self.ones, times[idx, 0] + upper_s, place, serial)
        return True

    def _load_nodes(self, arrays: Mapping[str, np.ndarray]) -> None:
        codes = checked_array(arrays, "codes", np.int64)
        counts, sums = checked_array(arrays, "counts", np.float64), checked_array(arrays, "sums", np.float64)
        n = len(codes) + 1
        n_intervals, n_buckets = len(self.habits.base), self.blend.sums.shape[1]
        if codes.shape != (n - 1, 2) or counts.shape != (n * 4 * n_intervals,) or sums.shape != (n * 2 * n_buckets,):
            raise ValueError(f"habits of {n} nodes must have {4 * n_intervals} counts and {2 * n_buckets} sums each, "
                             f"got {counts.shape} and {sums.shape}")
        is_count = np.isfinite(counts) & (counts >= 0.0)
        if (codes < 0).any() or (codes[:, 0] >= self._n_levels).any() or not is_count.all():
            raise ValueError("habits must have codes of levels and counts that are finite and >= 0")
        if not np.isfinite(sums).all() or (sums.reshape(n, n_buckets, 2)[:, :, 0] < 0.0).any():
            raise ValueError("habits must have sums that are finite, those of squares >= 0")
        for nodes in self._nodes:
            nodes.clear()
        self._n_nodes = n
        while len(self.habits.counts) < n:
            self._grow_nodes()
        self.habits.counts[:n], self.blend.sums[:n] = counts.reshape(n, -1, 4), sums.reshape(n, -1, 2)
        self.habits.born[:] = -1
        for row, (level, code) in enumerate(codes.tolist(), 1):
            self._nodes[level][code] = row
        if sum(map(len, self._nodes)) != n - 1 or max(map(len, self._nodes), default=0) > N_NODES_MAX:
            raise ValueError(f"habits must have each code once, and at most {N_NODES_MAX} of a level")

    @property
    def _parts(self) -> tuple[Any, ...]:
        """The first arguments of compiled loops: all arrays, or all tuples without numba."""
        return self._plain if KERNELS is None else self._arrays

    def _set_parts(self, **changed: Any) -> None:
        """Replace `habits`, `ones` or `blend`, and collect the first arguments of the loops."""
        for name, part in changed.items():
            setattr(self, name, part)
        self._plain = (self.habits, self.ones, self.blend)
        self._arrays = (*self.habits, *self.ones, *self.blend)

    def _node(self, level: int, code: int) -> int:
        """The node of a key of an admitted request; a new one begins without counts."""
        if code < 0:
            return -1
        nodes = self._nodes[level]
        node = nodes.get(code)
        if node is not None:
            nodes.move_to_end(code)
            return node
        if len(nodes) < N_NODES_MAX:
            node, self._n_nodes = self._n_nodes, self._n_nodes + 1
            if node >= len(self.habits.counts):
                self._grow_nodes()
        else:
            node = nodes.popitem(last=False)[1]
            self.habits.counts[node] = 0.0
            self.blend.sums[node] = 0.0
        self.habits.born[node] = self._serial
        nodes[code] = node
        return node

    def _grow_nodes(self) -> None:
        habits, blend = self.habits, self.blend
        self._set_parts(habits=habits._replace(counts=_doubled(habits.counts, 0.0), born=_doubled(habits.born, -1)),
                        blend=blend._replace(sums=_doubled(blend.sums, 0.0)))

    def _new_place(self, number: int) -> int:
        if self._free:
            place = self._free.pop()
        else:
            place, self._n_places = self._n_places, self._n_places + 1
            if place >= len(self.ones.start_s):
                ones, blend = self.ones, self.blend
                ones = ones._replace(start_s=_doubled(ones.start_s, 0.0), limit_s=_doubled(ones.limit_s, 0.0),
                                     interval=_doubled(ones.interval, 0), serial=_doubled(ones.serial, -1),
                                     nodes=_doubled(ones.nodes, -1))
                blend = blend._replace(model=_doubled(blend.model, 0.0), known=_doubled(blend.known, 0.0),
                                       is_weighed=_doubled(blend.is_weighed, 0))
                self._set_parts(ones=ones, blend=blend)
                self._weights = _doubled(self._weights, 0.0)
        self._place_of[number] = place
        return place

    def _make_room(self) -> None:
        """Room for one more edge: those of ended requests are removed, else the heap is doubled."""
        ones = self.ones
        n = int(ones.size[0])
        if n < len(ones.due_s):
            return
        is_open = ones.serial[ones.due_place] == ones.due_serial
        order = np.flatnonzero(is_open)[np.argsort(ones.due_s[is_open], kind="stable")]  # a sorted array is a heap
        parts = [array[order] for array in (ones.due_s, ones.due_place, ones.due_serial)]
        size = 2 * n if 2 * len(order) > n else n
        due_s, due_place, due_serial = (np.concatenate([part, np.zeros(size - len(part), part.dtype)])
                                        for part in parts)
        ones.size[0] = len(order)
        self._set_parts(ones=ones._replace(due_s=due_s, due_place=due_place, due_serial=due_serial))


def _doubled(values: np.ndarray, fill: float) -> np.ndarray:
    """The array with as many more rows, of `fill`."""
    return np.concatenate([values, np.full_like(values, fill)])


def _room(curve: HazardCurve) -> np.ndarray:
    """Room for the numbers of a curve on the edges of another."""
    return np.empty((N_HAZARD + isinstance(curve, LimitCurve)) * len(curve.edges))
