"""`repeat-last`: the owner's last ended lifetime again; a baseline that learns nothing of the request."""

from __future__ import annotations

from typing import Self

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, OnceTable
from sojourn.models.lifetime.contract import FitSettings
from sojourn.models.lifetime.family import Family
from sojourn.models.lifetime.gbdt import once_rows, spread


class RepeatModel:
    """A known lifetime told again, once for all; an outlived one doubles. `idx_`: the features told, finest first.

    Where no told feature is known, the weighted mean of log10 lifetimes stands. The distribution is the spread of
    residuals on the validation window, whose median shifts every answer alike: the order of requests is that of
    what was told, their level is set right.
    """

    name = "repeat-last"
    idx_: tuple[int, ...]
    default_: float
    smearing_: float
    residuals_: np.ndarray
    clipped_share_: float
    validation_table_: CurveTable

    def told(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Positions of the last ended lifetime of each owner key, finest first; not those of an owner's shape.

        Raises ValueError where no owner's history is among the features.
        """
        idx = tuple(at for at, name in enumerate(names) if name.endswith(":last") and "+" not in name)
        if not idx:
            raise ValueError("repeat-last needs an owner's last lifetime, a feature OWNER:last; the trace has none, "
                             f"got {len(names)} other features")
        return idx[::-1]

    def log_seconds(self, told: np.ndarray) -> np.ndarray:
        """Log10 seconds (n,) of a told feature (n,)."""
        return told

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        self.idx_ = self.told(settings.names)
        self._average(train)
        checked, _ = once_rows(valid)
        self.smearing_, self.residuals_ = spread(self._scores(checked.features), checked)
        self.validation_table_ = self.curve_table(valid)
        return self._average(past)

    def _average(self, past: Examples) -> Self:
        rows, self.clipped_share_ = once_rows(past)
        self.default_ = float(np.average(rows.label, weights=rows.weight))
        return self

    def _scores(self, features: np.ndarray) -> np.ndarray:
        scores = np.full(len(features), np.nan)
        for idx in self.idx_:
            scores = np.where(np.isnan(scores), self.log_seconds(features[:, idx]), scores)
        return np.where(np.isnan(scores), self.default_, scores)

    def curve_table(self, rows: Examples) -> OnceTable:
        return OnceTable(self._scores(rows.features), self.smearing_, self.residuals_)

    def export(self) -> None:
        return None

    def gains(self) -> None:
        return None


REPEAT_LAST = Family(RepeatModel, "the owner's last ended lifetime (finest owner known, not by shape)",
                     "through its residuals", complexity=1, is_baseline=True)
