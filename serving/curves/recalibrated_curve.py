"""A hazard curve recalibrated: its hazards times factors, by the age and by the hazard outlived since that age began.

A model whose hazards are right on the whole may still be too sure of itself: of requests that outlived much of what it
predicted, fewer end than predicted, and of the others more. So a factor belongs to a bucket of the age and to a band of
the cumulative hazard outlived within it (the Cox-Snell residual, restarted at each bucket). Factors are not negative,
so a curve stays one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sojourn.serving.curves.compiled import KERNELS
from sojourn.serving.curves.curve import HazardCurve, LimitCurve
from sojourn.serving.curves.formulas import AFTER, N_HAZARD, hazard_numbers
from sojourn.serving.curves.recalibrated_hazards import fill_recalibrated


def recalibrated(curve: HazardCurve, factors: np.ndarray) -> HazardCurve:
    """The curve with recalibrated hazards; the tail beyond the last edge stays. factors: float64 (N_AGES, N_BANDS).

    >>> curve = HazardCurve.from_hazards((0.0, 10.0, 700.0), (0.5, 1.0), 1000.0, (0.0, 10.0, 700.0))
    >>> twice = recalibrated(curve, np.full((4, 7), 2.0))
    >>> curve.survival(10.0, 0.0) ** 2 == twice.survival(10.0, 0.0), curve.quantile(0.9, 800.0)
    (True, 2303.0)
    >>> twice.quantile(0.9, 800.0)
    2303.0
    """
    n = len(curve.edges)
    has_own = isinstance(curve, LimitCurve)
    own = curve.numbers[N_HAZARD * n:(N_HAZARD + 1) * n] if has_own else _array_of(curve.edges)
    if KERNELS is not None:
        numbers = KERNELS.recalibrated_numbers(curve.numbers, own, factors, has_own)
    else:
        hazards: list[float] = [0.0] * (n - 1)
        fill_recalibrated(curve.edges, curve.numbers[:n].tolist(), factors.tolist(), hazards)
        numbers = hazard_numbers(hazards, curve.edges, float(curve.numbers[(AFTER + 1) * n - 1]))
        numbers = np.concatenate([numbers, own]) if has_own else numbers
    steps: list[Any] = [None] * (n + 1)
    if isinstance(curve, LimitCurve):
        return LimitCurve(curve.edges, curve.bounds, curve.grid, numbers, steps, curve.axis)
    return HazardCurve(curve.edges, curve.bounds, curve.grid, numbers, steps)


def curve_steps(curve: HazardCurve) -> np.ndarray:
    """Edges (s) and hazard rates (per s) of a curve, float64 (2, J + 1)."""
    n = len(curve.edges)
    own = curve.numbers[N_HAZARD * n:(N_HAZARD + 1) * n] if isinstance(curve, LimitCurve) else _array_of(curve.edges)
    return np.array((own, curve.numbers[:n]))


_last: tuple[Sequence[float], np.ndarray] = ((), np.empty(0))
"""The edges that were asked for last, which all curves of a model share, and the same as an array. A cache by value
would hash all of them for every request."""


def _array_of(edges: Sequence[float]) -> np.ndarray:
    global _last
    shared, array = _last  # one read: another thread may write it
    if shared is not edges:
        array = np.array(edges)
        _last = edges, array
    return array
