"""The curves of everything that runs, packed: a scheduler's repredictions of many requests in one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from sojourn.serving.checks import Moment, clock_second
from sojourn.serving.curves import (
    IS_COMPILED,
    KERNELS,
    KIND_OF_CODE,
    CurveArrays,
    checked_seconds,
    checked_share,
    next_change_at,
    quantile_at,
    survival_at,
)
from sojourn.serving.errors import shown
from sojourn.serving.lifetime import Lifetime
from sojourn.serving.pool._curve_models import CurveModels, smallest_requests

Slots: TypeAlias = Sequence[int] | np.ndarray
Seconds: TypeAlias = Sequence[float] | np.ndarray


def remaining_of(vms: Sequence[Lifetime], uptimes_s: Seconds) -> np.ndarray:
    """Mean remaining time in whole seconds, float64 (n,), of n requests, at one uptime each; asked once, not packed.

    >>> from sojourn.serving.curves.curve import OnceCurve
    >>> vm = Lifetime(OnceCurve.from_score(2.0, 1.0, (-0.1, 0.0, 0.1)), np.empty(0), 0, (), "v1", None)
    >>> remaining_of([vm, vm], [0.0, 40.0]).tolist()
    [100.0, 60.0]
    """
    if len(vms) != len(uptimes_s):
        raise ValueError(f"uptimes_s must have {len(vms)} elements, got {len(uptimes_s)}")
    return np.array([vm.remaining(uptime_s) for vm, uptime_s in zip(vms, uptimes_s, strict=True)], np.float64)


class CurvePool:
    """Lifetime curves in packed arrays, each in a numbered slot; of any kind and model version side by side.

    The answers are those of the curves one by one, to the bit. ValueError where a slot holds no curve, and where an
    uptime is not finite and >= 0. Equal curves are not shared: they are rare. With J intervals a hazard curve takes
    32 (J + 1) + 8 bytes, with K thresholds a point curve 16 (K + 1) + 8; next to wider ones, as they. `capacity`, the
    number of slots, doubles when it is exceeded. For one thread at a time.

    >>> from sojourn.serving.curves.curve import HazardCurve
    >>> curve = HazardCurve.from_hazards((0.0, 10.0, 100.0), (0.5, 1.0), 1000.0, (0.0, 10.0, 100.0))
    >>> pool = CurvePool()
    >>> slots = [pool.add(Lifetime(curve, np.empty(0), arrival_s, (), "v1", None)) for arrival_s in (0, 45)]
    >>> pool.remaining(slots, [0.0, 55.0]).tolist(), pool.remaining_all(100)[slots].tolist()
    ([266.0, 642.0], [1000.0, 642.0])
    """

    _is_loaded: ClassVar[bool] = False

    def __init__(self, capacity: int = 16, *, is_compiled: bool = IS_COMPILED) -> None:
        if not isinstance(capacity, int | np.integer) or capacity < 1:
            raise ValueError(f"capacity must be a whole number >= 1, got {capacity!r}")
        self._is_compiled = is_compiled and IS_COMPILED
        self._models = CurveModels(self._is_compiled)
        self._model = np.full(capacity, -1, np.int32)
        self._arrival_s = np.zeros(capacity)
        self._numbers = np.empty((capacity, 0))
        self._free: list[int] = []
        self._n_opened = 0
        if self._is_compiled and not CurvePool._is_loaded:
            CurvePool._is_loaded = True
            _load_kernels()

    def __len__(self) -> int:
        """Number of curves."""
        return self._n_opened - len(self._free)

    @property
    def arrays(self) -> CurveArrays:
        """The packed curves, for `remaining_at` in compiled code; to be asked for again after an `add`."""
        models = self._models
        return CurveArrays(self._model, self._numbers, models.kind, models.bounds, models.n_bounds, models.changes,
                           models.residuals, models.n_residuals)

    def add(self, vm: Lifetime) -> int:
        """Pack a request's curve; the slot, which is its own until it is removed and then goes to another."""
        model = self._models.enter(vm.curve)
        numbers = self._models.packed(model, vm.curve)
        slot = self._free.pop() if self._free else self._n_opened
        self._n_opened = max(self._n_opened, slot + 1)
        self._make_room(len(numbers) + 1)  # one to spare: the kernel loads three numbers wherever an answer stands
        self._numbers[slot, : len(numbers)] = numbers
        self._arrival_s[slot] = vm.arrival_s
        self._model[slot] = model
        return slot

    def remove(self, slot: int) -> None:
        """Free a slot."""
        known = int(self._known([slot])[0])
        self._models.leave(int(self._model[known]))
        self._model[known] = -1
        self._free.append(known)

    def remaining(self, slots: Slots, uptimes_s: Seconds) -> np.ndarray:
        """E[Tr | Tu] in whole seconds, float64 (n,), of the curves in n slots, at one uptime each."""
        if self._is_compiled:
            chosen, asked_s = _whole_numbers(slots), _numbers(uptimes_s, len(slots))
            answers: np.ndarray = KERNELS.remaining_rows(self.arrays, chosen, asked_s)
            if len(answers) == len(chosen):
                return answers
        return _remaining_rows(self.arrays, *self._checked(slots, uptimes_s))

    def remaining_all(self, now_s: Moment) -> np.ndarray:
        """E[Tr | Tu] in whole seconds of every curve at `now_s`, by slot, float64 (capacity,); NaN where it is free.

        A request that arrives later, since the clock was ahead when it was admitted, is asked at uptime 0.
        """
        slots = np.flatnonzero(self._model >= 0)
        uptimes_s = np.maximum(clock_second(now_s, "now_s") - self._arrival_s[slots], 0.0)
        answers = np.full(len(self._model), math.nan)
        answers[slots] = self.remaining(slots, uptimes_s)
        return answers

    def quantile(self, q: float, slots: Slots, uptimes_s: Seconds) -> np.ndarray:
        """The remaining times that a share `q` does not exceed, whole seconds, float64 (n,)."""
        known, asked_s = self._checked(slots, uptimes_s)
        return self._ask("quantile_rows", quantile_at, known, np.full(len(known), checked_share(q)), asked_s)

    def survival(self, horizon_s: float, slots: Slots, uptimes_s: Seconds) -> np.ndarray:
        """Probabilities of still running `horizon_s` seconds after the uptimes, in [0, 1], float64 (n,)."""
        known, asked_s = self._checked(slots, uptimes_s)
        spans_s = np.full(len(known), checked_seconds(horizon_s, "horizon_s"))
        return self._ask("survival_rows", survival_at, known, spans_s, asked_s)

    def next_change(self, slots: Slots, uptimes_s: Seconds) -> np.ndarray:
        """The next uptimes at which held exits should be asked again, s, float64 (n,); infinity if never."""
        known, asked_s = self._checked(slots, uptimes_s)
        return self._ask("next_change_rows", next_change_at, known, asked_s)

    def _ask(self, kernel: str, answer: Callable[..., float], *columns: np.ndarray) -> np.ndarray:
        curves = self.arrays
        if self._is_compiled:
            answers: np.ndarray = getattr(KERNELS, kernel)(curves, *columns)
            return answers
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return np.array([answer(curves, *row) for row in rows], np.float64)

    def _checked(self, slots: Slots, uptimes_s: Seconds) -> tuple[np.ndarray, np.ndarray]:
        seconds = _numbers(uptimes_s, len(slots))
        is_good = (seconds >= 0.0) & (seconds < math.inf)
        if not is_good.all():
            raise ValueError(f"uptimes_s must be finite and >= 0, got {seconds[~is_good][0]}")
        return self._known(slots), seconds

    def _known(self, slots: Slots) -> np.ndarray:
        known = _whole_numbers(slots)
        is_bad = (known < 0) | (known >= self._n_opened)
        if not is_bad.any():
            is_bad = self._model[known] < 0
        if is_bad.any():
            raise ValueError(f"slots must hold a curve, got {known[is_bad][0]}")
        return known

    def _make_room(self, width: int) -> None:
        capacity, widest = self._numbers.shape
        if self._n_opened <= capacity and width <= widest:
            return
        more = capacity if self._n_opened > capacity else 0
        numbers = np.empty((capacity + more, max(width, widest)))
        numbers[:capacity, :widest] = self._numbers
        self._numbers = numbers
        self._model = np.append(self._model, np.full(more, -1, np.int32))
        self._arrival_s = np.append(self._arrival_s, np.zeros(more))


def _load_kernels() -> None:
    """Load compiled code when the first pool is made, not when it is first asked."""
    pool = CurvePool()
    slots, uptimes_s = [pool.add(vm) for vm in smallest_requests()], [0.0, 0.0]
    pool.remaining(slots, uptimes_s)
    pool.quantile(0.5, slots, uptimes_s)
    pool.survival(0.0, slots, uptimes_s)
    pool.next_change(slots, uptimes_s)


def _whole_numbers(slots: Slots) -> np.ndarray:
    numbers = np.asarray(slots)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and numbers.size):
        raise ValueError(f"slots must be whole numbers in one dimension, got {slots!r}")
    return np.ascontiguousarray(numbers, np.int64)


def _numbers(uptimes_s: Seconds, n: int) -> np.ndarray:
    given = np.asarray(uptimes_s)
    if (given.dtype.kind not in "iuf" and given.size) or (
            not isinstance(uptimes_s, np.ndarray) and not {bool, np.bool_}.isdisjoint(map(type, uptimes_s))):
        raise ValueError(f"uptimes_s must be numbers, got {shown(uptimes_s)}")
    numbers = np.ascontiguousarray(given, np.float64)
    if numbers.shape != (n,):
        raise ValueError(f"uptimes_s must have {n} elements, got shape {numbers.shape}")
    return numbers


def _remaining_rows(curves: CurveArrays, slots: np.ndarray, uptimes_s: np.ndarray) -> np.ndarray:
    """`remaining_at` without numba: arrays but for the libm calls, as numpy's own differ in the last bit."""
    answers = np.empty(len(slots))
    model_of = curves.model[slots]
    for model in np.flatnonzero(np.bincount(model_of)):
        rows = np.flatnonzero(model_of == model)
        kind = KIND_OF_CODE[int(curves.kind[model])]
        answers[rows] = kind.remaining_rows(curves.bounds[model], curves.numbers, slots[rows], uptimes_s[rows])
    return answers
