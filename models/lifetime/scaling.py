"""Features as linear models and networks read them: no missing values, no long tails, one scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SKEW_MIN = 2.0
"""A feature without negative values and with a skewness above this is read as log(1 + x)."""
LIMIT = 5.0
"""Standardised values are clipped here, so that a value never seen in training moves an answer only so far."""
_LARGEST = 1e100
"""Values beyond count as this: the sum of their squares would overflow."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Imputation and standardisation, as fitted on training rows.

    median: float64 (F,), stands for a missing value; 0 where nothing was known. is_log: bool (F,).
    mean, spread: float64 (F,), after the logarithm; a constant feature has spread 1.
    """

    median: np.ndarray
    is_log: np.ndarray
    mean: np.ndarray
    spread: np.ndarray

    @classmethod
    def fit(cls, features: np.ndarray) -> Scaling:
        """Fit on features (n, F), n >= 1, NaN = not known.

        >>> scaling = Scaling.fit(np.array([[1.0], [3.0], [np.nan]]))
        >>> scaling.transform(np.array([[2.0], [np.nan], [9e9]])).ravel().tolist()
        [0.0, 0.0, 5.0]
        """
        features = np.clip(features, -_LARGEST, _LARGEST)
        is_known = ~np.isnan(features)
        median = np.zeros(features.shape[1])
        for column in np.flatnonzero(is_known.any(axis=0)):
            median[column] = np.median(features[is_known[:, column], column])
        filled = np.where(is_known, features, median)
        mean, spread = filled.mean(axis=0), _spread(filled)
        skewness = (((filled - mean) / spread) ** 3).mean(axis=0)
        is_log = (filled.min(axis=0) >= 0.0) & (skewness > SKEW_MIN)
        filled = np.where(is_log, np.log1p(np.maximum(filled, 0.0)), filled)
        return cls(median, is_log, filled.mean(axis=0), _spread(filled))

    def transform(self, features: np.ndarray) -> np.ndarray:
        """Standardised features, float64 (n, F), within -5 and 5."""
        filled = np.where(np.isnan(features), self.median, np.clip(features, -_LARGEST, _LARGEST))
        filled = np.where(self.is_log, np.log1p(np.maximum(filled, 0.0)), filled)
        return np.clip((filled - self.mean) / self.spread, -LIMIT, LIMIT)


def _spread(features: np.ndarray) -> np.ndarray:
    spread = features.std(axis=0)
    return np.where(spread > 1e-12, spread, 1.0)
