"""The share that outlasts, under censoring and late entry: Kaplan-Meier, prepared for new row weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class KaplanMeier:
    """Rows sorted by value once, so that new row weights cost O(n). A value may be a time or anything it rises with.

    values: float64 (k,), distinct, rising. first: int64 (k,), where each begins in order. order: int64 (n,).
    is_event: float64 (n,), in that order. by_entry: int64 (n,), rows by entry; n_entered: int64 (k,), how many of
    them entered before each value.
    """

    values: np.ndarray
    first: np.ndarray
    order: np.ndarray
    is_event: np.ndarray
    by_entry: np.ndarray
    n_entered: np.ndarray

    @classmethod
    def of(cls, value: np.ndarray, is_event: np.ndarray, entry: np.ndarray) -> KaplanMeier:
        """Sort at least one row. value: float (n,), of its end or censoring. is_event: bool (n,), False = censored.

        entry: float (n,), below `value`: the row is at risk above it. At equal values events come first.
        """
        if len(value) == 0 or not (entry < value).all():
            raise ValueError(f"entry must be below value in each of at least one row, got {len(value)} rows, "
                             f"{int((entry >= value).sum())} of them not")
        order = np.argsort(value, kind="stable")
        values, first = np.unique(value[order], return_index=True)
        by_entry = np.argsort(entry, kind="stable")
        n_entered = np.searchsorted(entry[by_entry], values, side="left")
        return cls(values, first, order, is_event[order].astype(np.float64), by_entry, n_entered)

    def survival(self, weight: np.ndarray | None = None) -> np.ndarray:
        """S after each distinct value, float64 (k,), each row counted `weight` (n,) times (>= 0; None = once).

        >>> rows = KaplanMeier.of(np.array([1.0, 2.0, 3.0]), np.array([True, False, True]), np.zeros(3))
        >>> rows.survival(np.array([2.0, 1.0, 1.0])).tolist()
        [0.5, 0.5, 0.0]
        """
        row = np.ones(len(self.order)) if weight is None else weight
        in_order = row[self.order]
        left = np.cumsum(np.append(0.0, np.add.reduceat(in_order, self.first)))[:-1]
        n_events = np.add.reduceat(in_order * self.is_event, self.first)
        n_at_risk = np.append(0.0, np.cumsum(row[self.by_entry]))[self.n_entered] - left
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(n_events > 0.0, 1.0 - n_events / n_at_risk, 1.0)
        return np.cumprod(np.clip(factor, 0.0, 1.0))

    def survival_at(self, points: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        """S(point) = share above the point, float64 (m,); NaN beyond the last row where some outlast it."""
        survival = self.survival(weight)
        n_steps = np.searchsorted(self.values, points, side="right")
        found = np.where(n_steps < 1, 1.0, survival[np.maximum(n_steps - 1, 0)])
        return np.where((points > self._last(weight)) & (found > 0.0), np.nan, found)

    def _last(self, weight: np.ndarray | None) -> float:
        """The last value of a row that counts, minus infinity where none does."""
        if weight is None:
            return float(self.values[-1])
        counted = np.flatnonzero(weight[self.order] > 0.0)
        if len(counted) == 0:
            return -np.inf
        return float(self.values[np.searchsorted(self.first, counted[-1], side="right") - 1])
