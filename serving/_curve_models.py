"""What the curves of one model share, a row per model in use: after a reload, curves of several live side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.serving.curve import HazardCurve, LifetimeCurve, OnceCurve, PointCurve
from sojourn.serving.curve_arrays import HAZARD, ONCE, POINT
from sojourn.serving.curve_builder import _kernels


@dataclass(slots=True)
class _Model:
    """One row. steps: the interval or step of a curve in which each of `changes` lies."""

    key: tuple[int, Sequence[float], Sequence[float]]
    kind: int
    bounds: np.ndarray
    changes: np.ndarray
    steps: np.ndarray
    residuals: np.ndarray
    n_curves: int = 0


class CurveModels:
    """Arrays of what curves share, as in `CurveArrays`; rows without curves are used again."""

    def __init__(self, is_compiled: bool) -> None:
        self._is_compiled = is_compiled
        self._rows: list[_Model] = []
        self._row_of: dict[tuple[int, Sequence[float], Sequence[float]], int] = {}
        self._latest: tuple[Sequence[float], Sequence[float], int] = ((), (), -1)
        self._stack()

    def enter(self, curve: LifetimeCurve) -> int:
        """The row of a curve's model, one curve more in it; TypeError for a curve of another kind."""
        kind, first, second = _shared(curve)
        latest_first, latest_second, row = self._latest
        if row < 0 or first is not latest_first or second is not latest_second or self._rows[row].kind != kind:
            row = self._find(kind, first, second)
            self._latest = (first, second, row)
        self._rows[row].n_curves += 1
        return row

    def leave(self, row: int) -> None:
        """One curve less in a row."""
        self._rows[row].n_curves -= 1

    def held_totals(self, row: int, curve: LifetimeCurve) -> np.ndarray:
        """Predicted total lifetimes of a curve of the row's model, s, each held from one of its `changes` to the next.

        None is outlived before the next one; the last doubles when it is.
        """
        changes_s, steps = self._rows[row].changes, self._rows[row].steps
        if isinstance(curve, HazardCurve):
            left_s = _hazard_seconds(curve, changes_s, steps)
        elif isinstance(curve, PointCurve):
            left_s = point_seconds(curve, self._is_compiled)[steps]
        else:
            left_s = np.array(list(map(curve.remaining, changes_s.tolist())))
        totals_s = changes_s + np.maximum(left_s, 1.0)
        np.maximum(totals_s[:-1], changes_s[1:], out=totals_s[:-1])
        return totals_s

    def steps(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Of the model in a row, what a hazard curve's edges are, float64 (J + 1,), and the interval of each change."""
        return self._rows[row].bounds, self._rows[row].steps

    def _find(self, kind: int, first: Sequence[float], second: Sequence[float]) -> int:
        key = (kind, tuple(first), tuple(second))
        row = self._row_of.get(key)
        if row is None:
            made = _model(key)
            row = next((idx for idx, model in enumerate(self._rows) if model.n_curves == 0), len(self._rows))
            if row < len(self._rows):
                del self._row_of[self._rows[row].key]
                self._rows[row] = made
            else:
                self._rows.append(made)
            self._row_of[key] = row
            self._stack()
        return row

    def _stack(self) -> None:
        rows = self._rows
        self.kind = np.array([model.kind for model in rows], np.int64)
        self.n_bounds = np.array([len(model.bounds) for model in rows], np.int64)
        self.n_residuals = np.array([len(model.residuals) for model in rows], np.int64)
        self.n_changes = np.array([len(model.changes) for model in rows], np.int64)
        self.bounds = _padded([model.bounds for model in rows])
        self.changes = _padded([model.changes for model in rows])
        self.residuals = _padded([model.residuals for model in rows])


def _hazard_seconds(curve: HazardCurve, uptimes_s: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """`remaining` of a curve at uptimes that lie in these intervals; float64 (n,)."""
    n = len(curve.edges)
    rates, _, after, gaps = curve.numbers[:4 * n].reshape(4, n)[:, steps]
    exponents = (uptimes_s - np.array(curve.bounds)[steps + 1]) * rates
    return np.rint(after + np.fromiter(map(math.expm1, exponents.tolist()), np.float64, len(steps)) * gaps)


def point_seconds(curve: PointCurve, is_compiled: bool) -> np.ndarray:
    """Mean remaining in whole s at each step of a point curve, float64 (K + 1,)."""
    if is_compiled:
        seconds: np.ndarray = _kernels.point_seconds(curve.scores, curve.smearing)
        return seconds
    return np.array(curve.all_seconds())


def flat_steps(curve: HazardCurve) -> np.ndarray:
    """Upper edge, rate, gap and after of each interval in turn, float64 (4 (J + 1),)."""
    n = len(curve.edges)
    steps = np.empty((n, 4))
    steps[:, 0] = curve.bounds[1:]
    steps[:, 1], _, steps[:, 3], steps[:, 2] = curve.numbers[:4 * n].reshape(4, n)
    return steps.ravel()


def _shared(curve: LifetimeCurve) -> tuple[int, Sequence[float], Sequence[float]]:
    if isinstance(curve, HazardCurve):
        return HAZARD, curve.edges, curve.grid
    if isinstance(curve, PointCurve):
        return POINT, curve.thresholds, curve.residuals
    if isinstance(curve, OnceCurve):
        return ONCE, curve.residuals, curve.residuals
    raise TypeError(f"curve must be a HazardCurve, PointCurve or OnceCurve, got {type(curve).__name__}")


def _model(key: tuple[int, Sequence[float], Sequence[float]]) -> _Model:
    kind, first, second = key
    if kind == ONCE:
        return _Model(key, kind, np.empty(0), np.zeros(1), np.zeros(1, np.int64), np.array(first))
    bounds = np.array(first)
    if kind == HAZARD:
        changes = np.unique(np.append(0.0, second))
        steps = np.searchsorted(bounds, changes, side="right") - 1
        return _Model(key, kind, bounds, changes, steps, np.empty(0))
    changes = np.unique(np.append(0.0, np.floor(bounds[bounds >= 0.0]) + 1.0))
    steps = np.searchsorted(bounds, changes, side="left")
    return _Model(key, kind, bounds, changes, steps, np.array(second))


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of different lengths as one matrix; infinity after the end of each."""
    padded = np.full((len(rows), 1 + max(map(len, rows), default=0)), math.inf)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded
