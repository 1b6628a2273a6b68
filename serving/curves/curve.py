"""Lifetime curves: a request's whole future as numbers, from raw model scores to seconds.

All ways to a curve (one request, a table of requests, numba or plain Python) call the same scalar
functions, with sums from the left, so their bits are equal. Times are seconds; larger =
longer-lived.

A *hazard* curve has J intervals with edges e_0 = 0 < ... < e_J and a constant hazard rate in each,
and one more beyond e_J with the pooled rate, so every answer is in closed form. A *point* curve is
a step
function of the uptime: between two thresholds of the forest the raw score (log10 of seconds) is one number.

Recalibration multiplies hazards by factors. A model may be right on average and overconfident: of
requests that outlived much of their predicted hazard, fewer end than predicted, of the others more.
So a factor belongs to a bucket of the age and to a band of the cumulative hazard outlived in it
(the Cox-Snell residual, restarted at each bucket). Factors are not negative, so the result is a
valid curve.
"""

from __future__ import annotations

import importlib
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sojourn.serving.curves.formulas import (
    AFTER,
    LONG_SCORE,
    LONGEST_S,
    N_HAZARD,
    fill_recalibrated,
    hazard_numbers,
    mean_seconds,
    once_quantile,
    once_remaining,
    once_survival,
    outlived_total,
)
from sojourn.serving.curves.plain_curves import ROUND, checked_seconds, checked_share
from sojourn.serving.native import NATIVE

if TYPE_CHECKING or NATIVE is None:
    from sojourn.serving.curves.plain_curves import Axis as Axis  # others import it from here
    from sojourn.serving.curves.plain_curves import Hazard, Steps
else:
    Axis, Hazard, Steps = NATIVE.Axis, NATIVE.Hazard, NATIVE.Steps
    NATIVE.use(checked_seconds, checked_share)


class _Kernels:
    """The compiled loops of serving, by name; numba is imported at the first one, since that takes 0.3 s."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module("sojourn.serving.curves._kernels"), name)
        setattr(self, name, value)
        return value


def _has_numba() -> bool:
    try:
        return find_spec("numba") is not None
    except ImportError:  # a finder may refuse
        return False


IS_COMPILED = _has_numba()
"""True if numba is installed: pools, hosts, batches and habits then have compiled loops."""
KERNELS: Any = _Kernels() if IS_COMPILED else None
"""The compiled loops of serving if numba is installed, else None."""
N_RESIDUALS = 201
"""Size of a point model's grid of residual quantiles (log10, at 0, 1/200, ..., 1)."""


class LifetimeCurve(Protocol):
    """The prediction of one request, for every family. Times are seconds; answers are whole seconds."""

    def remaining(self, uptime_s: float) -> float:
        """E[Tr | Tu]: the mean remaining time, seconds; higher = longer-lived."""
        ...

    def quantile(self, q: float, uptime_s: float) -> float:
        """The remaining time that a share `q` of such requests does not exceed, seconds."""
        ...

    def survival(self, horizon_s: float, uptime_s: float) -> float:
        """Probability of still running `horizon_s` seconds after the uptime, in [0, 1]."""
        ...

    def next_change(self, uptime_s: float) -> float:
        """The next uptime at which a held exit should be computed again, seconds; infinity if never.

        It is never after the next change of the answer, and often before it. Point model: the whole
        second after the forest's next threshold on the uptime, even if `remaining` stays the same.
        One-shot prediction: the uptime at which its total is outlived and doubles. Hazard model,
        whose answer changes continuously: the next edge of its sampling.
        """
        ...


class HazardCurve(Hazard):
    """Piecewise constant hazard: exact closed-form answers at any uptime.

    axis: shared by all curves of a model: the edges, (J + 1,) s, from 0, and the sampling uptimes for `next_change`, s.
    numbers: float64, from `fill_hazard`, each (J + 1,), in the order of `formulas.RATES`: rates, cumulative hazards
    from 0 to each edge, means after each interval, gaps; more may follow.

    >>> curve = HazardCurve.from_hazards((0.0, 10.0, 100.0), (0.5, 1.0), 1000.0, (0.0, 10.0, 100.0))
    >>> curve.remaining(0.0), curve.survival(10.0, 0.0) == math.exp(-0.5), curve.next_change(3.0)
    (266.0, True, 10.0)
    """

    __slots__ = ()

    @classmethod
    def from_hazards(cls, edges: Sequence[float], hazards: Sequence[float], tail_s: float,
                     grid: Sequence[float]) -> HazardCurve:
        """Build from the interval hazards (J,) and the tail's mean remaining time in s."""
        return cls(Axis(tuple(edges), tuple(grid)), hazard_numbers(hazards, edges, tail_s))

    @property
    def bounds(self) -> tuple[float, ...]:
        """The edges, then infinity."""
        return (*self.edges, math.inf)

    @property
    def grid(self) -> Sequence[float]:
        """The sampling uptimes, s."""
        return self.axis.second

    def like(self, numbers: np.ndarray) -> HazardCurve:
        """A curve of other numbers on the same edges."""
        return type(self)(self.axis, numbers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HazardCurve):
            return NotImplemented
        n = N_HAZARD * len(self.edges)
        return (self.edges, self.grid) == (other.edges, other.grid) and np.array_equal(self.numbers[:n],
                                                                                       other.numbers[:n])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.axis, self.numbers.copy())


class LimitCurve(HazardCurve):
    """A hazard curve on its request's edges: of the age, then of the share of its limit (`fill_limit_axis`).

    axis: the edges of the age, then the shares of the limit, and the sampling uptimes. numbers: the request's edges
    follow those of the hazard.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self, axis: Axis, numbers: np.ndarray) -> None: ...

    elif NATIVE is None:

        def __init__(self, axis: Axis, numbers: np.ndarray) -> None:
            super().__init__(axis, numbers, True)

    else:

        def __new__(cls, axis: Axis, numbers: np.ndarray) -> LimitCurve:
            return super().__new__(cls, axis, numbers, True)


class PointCurve(Steps):
    """A forest's answer as a step function of the uptime, exact at and beside every threshold.

    axis: shared by all curves of a model: thresholds (K,) s, increasing; the quantile grid of log10 validation
    residuals; the smearing that turns 10^score into a conditional mean (validation rows). numbers: float64, (K + 1,)
    raw scores (log10 s), more may follow; the score of uptime u is numbers[number of thresholds below u], as the
    forest sends u <= threshold to the left.

    >>> curve = PointCurve.from_scores((60.0,), (2.0, 3.0), 1.5, (-0.1, 0.0, 0.1))
    >>> curve.remaining(60.0), curve.remaining(61.0), curve.next_change(0.0), curve.quantile(0.5, 0.0)
    (150.0, 1500.0, 61.0, 100.0)
    """

    __slots__ = ()

    @classmethod
    def from_scores(cls, thresholds: Sequence[float], scores: Sequence[float], smearing: float,
                    residuals: Sequence[float]) -> PointCurve:
        """Build from raw scores (K + 1,); ValueError for another number."""
        if len(scores) != len(thresholds) + 1:
            raise ValueError(f"scores must be {len(thresholds) + 1}, one more than thresholds, got {len(scores)}")
        return cls(Axis(tuple(thresholds), tuple(residuals), smearing), np.array(scores, np.float64))

    @property
    def thresholds(self) -> Sequence[float]:
        """The thresholds on the uptime, (K,) s."""
        return self.axis.first

    @property
    def residuals(self) -> Sequence[float]:
        """The quantile grid of log10 validation residuals."""
        return self.axis.second

    @property
    def smearing(self) -> float:
        """The factor from 10^score to the mean."""
        return self.axis.smearing

    @property
    def scores(self) -> np.ndarray:
        """The raw score of each step, float64 (K + 1,), log10 s."""
        return self.numbers[:len(self.thresholds) + 1]

    def all_seconds(self) -> list[float]:
        """Mean remaining in whole s at each step, (K + 1,)."""
        smearing = self.smearing  # mean_seconds inlined: a third of its time
        return [(seconds if (seconds := 10.0**score * smearing) < LONGEST_S else LONGEST_S) + ROUND - ROUND
                if score < LONG_SCORE else mean_seconds(score, smearing) + ROUND - ROUND
                for score in self.scores.tolist()]

    def raw_score(self, uptime_s: float) -> float:
        """The model's raw score at an uptime, log10 s: bit-equal to LightGBM's own."""
        return self.numbers.item(bisect_left(self.thresholds, checked_seconds(uptime_s, "uptime_s")))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PointCurve):
            return NotImplemented
        return (self.thresholds, self.smearing, self.residuals) == (
            other.thresholds, other.smearing, other.residuals) and np.array_equal(self.scores, other.scores)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.axis, self.numbers.copy())


if NATIVE is not None:
    for _curve in (HazardCurve, PointCurve):
        _curve.numbers = property(np.frombuffer)  # type: ignore[misc, assignment]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class OnceCurve:
    """A one-shot prediction: the total is held until it is outlived, then it doubles.

    total_s: mean total lifetime, s. score: raw score (log10 s). residuals: grid of log10 residuals.

    >>> curve = OnceCurve.from_score(2.0, 1.0, (-0.1, 0.0, 0.1))
    >>> curve.remaining(40.0), curve.remaining(100.0), curve.next_change(40.0)
    (60.0, 100.0, 100.0)
    """

    total_s: float
    score: float
    residuals: Sequence[float]

    @classmethod
    def from_score(cls, score: float, smearing: float, residuals: Sequence[float]) -> OnceCurve:
        """Build from one raw score; `smearing` turns 10^score into a mean (validation rows)."""
        return cls(max(1.0, float(round(mean_seconds(score, smearing)))), score, residuals)

    def remaining(self, uptime_s: float) -> float:
        return float(round(once_remaining(self.total_s, checked_seconds(uptime_s, "uptime_s"))))

    def quantile(self, q: float, uptime_s: float) -> float:
        share = checked_share(q)
        start_s = checked_seconds(uptime_s, "uptime_s")
        return float(round(once_quantile(self.score, self.residuals, self.total_s, share, start_s)))

    def survival(self, horizon_s: float, uptime_s: float) -> float:
        span_s = checked_seconds(horizon_s, "horizon_s")
        start_s = checked_seconds(uptime_s, "uptime_s")
        return once_survival(self.score, self.residuals, self.total_s, span_s, start_s)

    def next_change(self, uptime_s: float) -> float:
        return outlived_total(self.total_s, checked_seconds(uptime_s, "uptime_s"))


def recalibrated(curve: HazardCurve, factors: np.ndarray) -> HazardCurve:
    """The curve with recalibrated hazards; the tail beyond the last edge stays. factors: float64 (N_AGES, N_BANDS).

    >>> curve = HazardCurve.from_hazards((0.0, 10.0, 700.0), (0.5, 1.0), 1000.0, (0.0, 10.0, 700.0))
    >>> twice = recalibrated(curve, np.full((4, 7), 2.0))
    >>> curve.survival(10.0, 0.0) ** 2 == twice.survival(10.0, 0.0), curve.quantile(0.9, 800.0)
    (True, 2303.0)
    >>> twice.quantile(0.9, 800.0)
    2303.0
    """
    if NATIVE is not None:
        return curve.recalibrated(factors)  # type: ignore[attr-defined]
    n = len(curve.edges)
    hazards: list[float] = [0.0] * (n - 1)
    fill_recalibrated(curve.edges, curve.numbers[:n].tolist(), factors.tolist(), hazards)
    numbers = hazard_numbers(hazards, curve.edges, float(curve.numbers[(AFTER + 1) * n - 1]))
    own = curve.numbers[N_HAZARD * n:(N_HAZARD + 1) * n] if isinstance(curve, LimitCurve) else ()
    numbers = np.concatenate([numbers, own])
    return curve.like(numbers)


def curve_steps(curve: HazardCurve) -> np.ndarray:
    """Edges (s) and hazard rates (per s) of a curve, float64 (2, J + 1)."""
    n = len(curve.edges)
    edges = curve.numbers[N_HAZARD * n:(N_HAZARD + 1) * n] if isinstance(curve, LimitCurve) else _array_of(curve.edges)
    return np.array((edges, curve.numbers[:n]))


_last: tuple[Sequence[float], np.ndarray] = ((), np.empty(0))
"""The latest edges, which all curves of a model share, and their array. A cache by value would hash
them for every request."""


def _array_of(edges: Sequence[float]) -> np.ndarray:
    global _last
    shared, array = _last  # one read: another thread may write it
    if shared is not edges:
        array = np.array(edges)
        _last = edges, array
    return array
