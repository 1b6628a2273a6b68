"""What the curves of one model share, a row per model in use: after a reload, curves of several live side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.serving.curves import (
    KERNELS,
    CurveKind,
    HazardCurve,
    LifetimeCurve,
    PointCurve,
    Shared,
    held_totals,
    kind_of,
)
from sojourn.serving.lifetime import Lifetime


def smallest_requests() -> list[Lifetime]:
    """Requests whose curves take all compiled code of a pool, or of hosts, when they are entered and asked."""
    curves = (HazardCurve.from_hazards((0.0, 1.0), (0.5,), 1.0, (0.0, 1.0)),
              PointCurve.from_scores((1.0,), (0.0, 0.0), 1.0, (-0.1, 0.1)))
    return [Lifetime(curve, np.empty(0), 0, (), "", None) for curve in curves]


@dataclass(slots=True)
class _Model:
    """One row."""

    key: tuple[int, Sequence[float], Sequence[float]]
    kind: CurveKind
    shared: Shared
    n_curves: int = 0


class CurveModels:
    """Arrays of what curves share, as in `CurveArrays`; rows without curves are used again."""

    def __init__(self, is_compiled: bool) -> None:
        self._kernels = KERNELS if is_compiled else None
        self._rows: list[_Model] = []
        self._row_of: dict[tuple[int, Sequence[float], Sequence[float]], int] = {}
        self._latest: tuple[Sequence[float], Sequence[float], int] = ((), (), -1)
        self._stack()

    def enter(self, curve: LifetimeCurve) -> int:
        """The row of a curve's model, one curve more in it; TypeError for a curve of another kind."""
        kind = kind_of(curve)
        first, second = kind.shared_of(curve)
        latest_first, latest_second, row = self._latest
        if row < 0 or first is not latest_first or second is not latest_second or self._rows[row].kind is not kind:
            row = self._find(kind, first, second)
            self._latest = (first, second, row)
        self._rows[row].n_curves += 1
        return row

    def leave(self, row: int) -> None:
        """One curve less in a row."""
        self._rows[row].n_curves -= 1

    def packed(self, row: int, curve: LifetimeCurve) -> np.ndarray:
        """The numbers of a curve of the row's model in the order of `CurveArrays.numbers`."""
        return self._rows[row].kind.packed(curve, self._kernels)

    def held_totals(self, row: int, curve: LifetimeCurve) -> np.ndarray:
        """Predicted total lifetimes of a curve of the row's model, s: see `curve_kind.held_totals`."""
        return held_totals(self._rows[row].kind, curve, self._rows[row].shared, self._kernels)

    def place(self, row: int, curve: LifetimeCurve, hosts: Any, host: int, idx: int, start_s: float,
              now_s: float) -> None:
        """Note a request with a curve of the row's model on a host, in the row `idx` of `hosts`; compiled only."""
        known = self._rows[row]
        known.kind.place(self._kernels, hosts, host, idx, start_s, row, curve, known.shared, now_s)

    def _find(self, kind: CurveKind, first: Sequence[float], second: Sequence[float]) -> int:
        key = (kind.code, tuple(first), tuple(second))
        row = self._row_of.get(key)
        if row is None:
            made = _Model(key, kind, kind.shared(first, second))
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
        shared = [model.shared for model in self._rows]
        self.kind = np.array([model.kind.code for model in self._rows], np.int64)
        self.n_bounds = np.array([len(one.bounds) for one in shared], np.int64)
        self.n_residuals = np.array([len(one.residuals) for one in shared], np.int64)
        self.n_changes = np.array([len(one.changes) for one in shared], np.int64)
        self.bounds = _padded([one.bounds for one in shared])
        self.changes = _padded([one.changes for one in shared])
        self.residuals = _padded([one.residuals for one in shared])


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of different lengths as one matrix; infinity after the end of each."""
    padded = np.full((len(rows), 1 + max(map(len, rows), default=0)), math.inf)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded
