"""Interval hazards by row of a lookup table, and how much the forest's own count beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.serving.errors import BundleError
from sojourn.serving.jitable import register_jitable

HAZARD_MAX = 1_000.0
"""No interval has a larger cumulative hazard: nobody outlives one of 1,000 in doubles."""


@register_jitable
def table_row(value: float, n_rows: int) -> int:
    """The row that a feature names; 0, that of all requests, where it names none.

    >>> [table_row(value, 3) for value in (2.0, 3.0, -1.0, float("nan"))]
    [2, 0, 0, 0]
    """
    if 0.0 <= value < n_rows:
        return int(value)
    return 0


@register_jitable
def mixed_hazard(hazard: float, weight: float, known: float) -> float:
    """An interval's hazard, weight of it from the forest and the rest from the table; at 0 and 1 one of them exactly.

    >>> mixed_hazard(0.2, 0.0, 0.7), mixed_hazard(0.2, 1.0, 0.7), mixed_hazard(0.2, 0.5, 0.4)
    (0.7, 0.2, 0.30000000000000004)
    """
    return weight * hazard + (1.0 - weight) * known


@dataclass(frozen=True, slots=True, eq=False)
class LookupTable:
    """hazards: float64 (R, J), cumulative hazard of each interval, row 0 of all requests. weights: (J,), in [0, 1], of
    the forest's own hazard; the rest is the table's. place: of the row among the encoder's features.
    """

    hazards: np.ndarray
    weights: tuple[float, ...]
    place: int

    @classmethod
    def of(cls, hazards: np.ndarray, n_rows: int, weights: tuple[float, ...], place: int) -> LookupTable:
        """From hazards row by row, float64 (R x J,), J as many as the weights; BundleError for others, and for what is
        no hazard or weight."""
        n = n_rows * len(weights)
        if hazards.dtype != np.float64 or hazards.shape != (n,):
            raise BundleError(f"history.npz: lookup:hazards must be {n} doubles, {len(weights)} for each of {n_rows} "
                              f"rows, got {hazards.dtype} of shape {hazards.shape}")
        if not ((hazards >= 0.0) & (hazards <= HAZARD_MAX)).all():
            raise BundleError(f"history.npz: lookup:hazards must be within 0 and {HAZARD_MAX:g}, got others")
        if not weights or not all(0.0 <= weight <= 1.0 for weight in weights):
            raise BundleError("schema.json: lookup's weights must be within 0 and 1, one for each interval")
        return cls(hazards.reshape(n_rows, len(weights)), weights, place)

    def row(self, features: Sequence[float]) -> np.ndarray:
        """The hazards that an encoded request reads, float64 (J,)."""
        own: np.ndarray = self.hazards[table_row(features[self.place], len(self.hazards))]
        return own

    def mixed(self, hazards: np.ndarray, features: np.ndarray) -> np.ndarray:
        """The hazards of n requests, float64 (n, J), from the forest's own and encoded features (n, n_features)."""
        asked = features[:, self.place]
        rows = np.where((asked >= 0.0) & (asked < len(self.hazards)), asked, 0.0).astype(np.int64)
        weights = np.array(self.weights)
        mixed: np.ndarray = weights * hazards + (1.0 - weights) * self.hazards[rows]
        return mixed
