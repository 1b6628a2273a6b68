"""`mlp`: a small neural network (scikit-learn) on uptime-augmented rows, LAVA's neural comparison.

`Scaling` prepares features for linear models and networks: no missing values, no long tails, one scale.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sojourn.features.creation import UPTIME_SHARES, augment_uptime
from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, PointTable
from sojourn.models.lifetime.contract import Family, FitSettings
from sojourn.models.lifetime.gbdt import Rows, spread, uptime_rows

SKEW_MIN = 2.0
"""A feature without negative values and with a larger skewness is transformed to log(1 + x)."""
LIMIT = 5.0
"""Bound of standardised values, which bounds the effect of values outside the training range."""
_LARGEST = 1e100
"""Bound of feature values, so that the sum of squares does not overflow."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Imputation and standardisation, as fitted on training rows.

    median: float64 (F,), replaces missing values; 0 if all are missing. is_log: bool (F,).
    mean, spread: float64 (F,), after the logarithm; a constant feature has spread 1.
    """

    median: np.ndarray
    is_log: np.ndarray
    mean: np.ndarray
    spread: np.ndarray

    @classmethod
    def fit(cls, features: np.ndarray) -> Scaling:
        """Fit on features (n, F), n >= 1, NaN = missing.

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


HIDDEN = (64, 32)
N_EPOCHS_MAX = 20
N_PATIENT = 3
"""Training stops after so many epochs without a better validation error."""
GRID_S = np.append(0.0, np.rint(np.geomspace(10.0, 2_419_200.0, 32)))
"""Uptimes of the network's answers: 0 and 32 log-spaced ones from 10 s to 28 days."""


class NetworkModel:
    """Log10 of the remaining lifetime by features and log(1 + uptime), weighted for censoring.

    Rows as in `gbdt-uptime` (with the same flaw: shares of the lifetime reveal the label), at most 60,000. The curve
    steps at the geometric middles of the grid's uptimes. Epochs are chosen on the validation window.
    """

    name = "mlp"
    scaling_: Scaling
    network_: Any
    n_epochs_: int
    smearing_: float
    residuals_: np.ndarray
    clipped_share_: float
    validation_table_: CurveTable

    def __init__(self, n_rows_max: int = 60_000, n_epochs_max: int = N_EPOCHS_MAX) -> None:
        self.n_rows_max, self.n_epochs_max = n_rows_max, n_epochs_max

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        checked, _ = self._rows(valid, settings.seed)
        self._learn(self._rows(train, settings.seed)[0], checked, self.n_epochs_max, settings.seed)
        self.smearing_, self.residuals_ = spread(self._scores(checked.features), checked)
        self.validation_table_ = self.curve_table(valid)
        rows, self.clipped_share_ = self._rows(past, settings.seed)
        self._learn(rows, None, self.n_epochs_, settings.seed)
        return self

    def _rows(self, examples: Examples, seed: int) -> tuple[Rows, float]:
        return uptime_rows(examples, augment_uptime, len(UPTIME_SHARES), seed, self.n_rows_max)

    def _learn(self, rows: Rows, valid_rows: Rows | None, n_epochs: int, seed: int) -> None:
        from sklearn.neural_network import MLPRegressor

        self.scaling_ = Scaling.fit(_with_log(rows.features))
        features = self.scaling_.transform(_with_log(rows.features))
        batch_size: Any = min(512, len(features))  # Any, since the stub takes its type from the default, a text
        network = MLPRegressor(hidden_layer_sizes=HIDDEN, batch_size=batch_size, learning_rate_init=3e-3,
                               random_state=seed)
        weight = np.ones(len(features)) if rows.weight is None else rows.weight / rows.weight.mean()
        best, self.network_, self.n_epochs_ = np.inf, network, n_epochs
        for epoch in range(1, n_epochs + 1):
            network.partial_fit(features, rows.label, sample_weight=weight)
            if valid_rows is None:
                continue
            error = network.predict(self.scaling_.transform(_with_log(valid_rows.features))) - valid_rows.label
            loss = float(np.average(error**2, weights=valid_rows.weight))
            if loss < best:
                best, self.network_, self.n_epochs_ = loss, copy.deepcopy(network), epoch
            elif epoch - self.n_epochs_ >= N_PATIENT:
                break

    def _scores(self, features: np.ndarray) -> np.ndarray:
        return np.asarray(self.network_.predict(self.scaling_.transform(_with_log(features))))

    def curve_table(self, rows: Examples) -> PointTable:
        inner = np.sqrt(np.maximum(GRID_S[:-1], 1.0) * GRID_S[1:])
        scores = [self._scores(np.column_stack([rows.features, np.full(len(rows), uptime_s)])) for uptime_s in GRID_S]
        return PointTable(np.floor(inner) + 0.5, np.stack(scores, axis=1), self.smearing_, self.residuals_)

    def export(self) -> None:
        return None

    def gains(self) -> None:
        return None


MLP = Family(NetworkModel, "network of 64 and 32 units on rows augmented as LAVA does; at most 60,000 augmented rows",
             "through its residuals", place=6)


def _with_log(features: np.ndarray) -> np.ndarray:
    return np.column_stack([features[:, :-1], np.log1p(features[:, -1])])
