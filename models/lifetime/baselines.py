"""`km`: a Kaplan-Meier curve per owner key, with back-off to coarser keys (LAVA's first lookup table).

`repeat-last`: the owner's last ended lifetime again; a baseline that reads nothing of the request.

`requested-time`: the requested time, which batch schedulers use as their estimate.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, HazardTable, OnceTable
from sojourn.models.lifetime.contract import Exported, ExportedLookup, Family, FitSettings
from sojourn.models.lifetime.gbdt import once_rows, spread
from sojourn.models.lifetime.intervals import Axis, interval_hazards, limit_place_of
from sojourn.models.measures import KaplanMeier
from sojourn.serving.curves import HALF_S
from sojourn.serving.forest import Forest
from sojourn.serving.inputs import LIMIT_MAX_S, LIMIT_MIN_S, Lookup

N_EVENTS_MIN = 30
"""A key with fewer observed ends than this backs off to the next coarser key."""


class KaplanMeierModel:
    """Product-limit curves on the hazard model's intervals; delayed entry respected.

    Keys back off from the finest history key to the coarsest, then to all examples together.
    """

    name = "km"
    clipped_share_ = math.nan
    axis_: Axis
    hazards_: np.ndarray
    lookup_: Lookup
    n_features_: int
    validation_axis_: Axis
    validation_hazards_: np.ndarray
    validation_table_: CurveTable

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        limit_place = limit_place_of(train, settings)
        self._fit(train, settings, limit_place)
        self.validation_axis_, self.validation_hazards_ = self.axis_, self.hazards(valid)
        self.validation_table_ = self.axis_.table(self.validation_hazards_, valid)
        return self._fit(past, settings, limit_place)

    def _fit(self, past: Examples, settings: FitSettings, limit_place: int) -> Self:
        axis = self.axis_ = Axis.fit(past, limit_place)
        curves = [_hazards(past, axis)]
        rows: list[dict[int, int]] = []
        for codes in (past.keys[idx] for idx in settings.idx_backoff):
            row_of: dict[int, int] = {}
            order = np.argsort(codes, kind="stable")
            first = np.flatnonzero(np.diff(codes[order], prepend=-2))
            n_events = np.add.reduceat(past.is_event[order], first, dtype=np.int64)
            for group in np.flatnonzero((n_events >= N_EVENTS_MIN) & (codes[order[first]] >= 0)).tolist():
                idx_rows = order[first[group]:first[group + 1] if group + 1 < len(first) else None]
                row_of[int(codes[idx_rows[0]])] = len(curves)
                curves.append(_hazards(past.take(np.asarray(idx_rows)), axis))
            rows.append(row_of)
        self.hazards_ = np.array(curves)
        self.lookup_ = Lookup(settings.idx_backoff, tuple(rows))
        self.n_features_ = past.features.shape[1]
        return self

    def hazards(self, rows: Examples) -> np.ndarray:
        """Cumulative hazard of each interval, float64 (n, J)."""
        rows_hazards: np.ndarray = self.hazards_[self.lookup_.rows_of(rows.keys, len(rows))]
        return rows_hazards

    def curve_table(self, rows: Examples) -> HazardTable:
        return self.axis_.table(self.hazards(rows), rows)

    def export(self) -> Exported:
        """The table, with an unused forest of one leaf: no text and no scores, since there is no learner."""
        weights = (0.0,) * len(self.axis_.intervals.offsets)
        return Exported(self.axis_.kind, Forest.without_splits(self.n_features_ + 1), self.axis_.fields(),
                        lookup=ExportedLookup(self.lookup_, self.hazards_, weights))

    def gains(self) -> None:
        return None


KM = Family(KaplanMeierModel, "Kaplan-Meier curve per owner key, backing off to coarser keys below 30 observed ends",
            "whole distribution", place=3, trained="always", is_baseline=True)


def _hazards(rows: Examples, axis: Axis) -> np.ndarray:
    """Cumulative hazard of each interval from the product-limit estimate; pooled where no request is at risk.

    With limit axis there are two estimates: of the age, with a request censored at half of its
    limit; and of the share of the limit, among requests that reach half of it.
    """
    intervals = axis.intervals
    if axis.limit_place < 0:
        return _between(rows.lifetime_s, rows.is_event, rows.entry_s, intervals.edges, intervals.offsets)
    limit_s, n_ages = axis.limit_s(rows), axis.n_ages
    is_limited = (limit_s >= LIMIT_MIN_S) & (limit_s <= LIMIT_MAX_S)
    switch_s = np.where(is_limited, intervals.shares[0] * limit_s - HALF_S, np.inf)
    is_aged = rows.entry_s < switch_s
    by_age = _between(np.minimum(rows.lifetime_s, switch_s)[is_aged],
                      (rows.is_event & (rows.lifetime_s <= switch_s))[is_aged], rows.entry_s[is_aged], intervals.edges,
                      intervals.offsets[:n_ages])
    is_late = is_limited & (rows.lifetime_s > switch_s)
    with_half = rows.take(is_late)
    shares = (with_half.lifetime_s + HALF_S) / limit_s[is_late]
    entries = np.maximum((with_half.entry_s + HALF_S) / limit_s[is_late], intervals.shares[0])
    by_share = _between(shares, with_half.is_event, entries, intervals.shares, intervals.offsets[n_ages:])
    return np.concatenate([by_age, by_share])


def _between(value: np.ndarray, is_event: np.ndarray, entry: np.ndarray, edges: np.ndarray,
             offsets: np.ndarray) -> np.ndarray:
    """Cumulative hazard between edges (J + 1,), float64 (J,); pooled, from log-odds (J,), without rows at risk.

    scikit-survival's estimator gives the same numbers, but with entry times its time is quadratic in the rows.
    """
    if not (entry < value).any():
        return np.log1p(np.exp(offsets))
    estimate = KaplanMeier.of(value, is_event, entry)
    survival = estimate.survival()
    position = np.searchsorted(estimate.values, edges, side="right") - 1
    at_edges = np.where(position < 0, 1.0, survival[np.maximum(position, 0)])
    return interval_hazards(at_edges, edges, offsets, float(estimate.values[-1]))


class RepeatModel:
    """Predicts the total lifetime by a feature; an outlived one doubles.

    `idx_`: the features, finest first. If all these features are missing, the answer is the weighted mean of log10
    lifetimes. The distribution is that of residuals on the validation window; their median corrects the level of all
    answers, and the order of requests is that of the feature.
    """

    name = "repeat-last"
    idx_: tuple[int, ...]
    default_: float
    smearing_: float
    residuals_: np.ndarray
    clipped_share_: float
    validation_table_: CurveTable

    def columns(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Positions of the last ended lifetime of each owner key, finest first; not those of an owner's shape.

        Raises ValueError if the features have no owner history.
        """
        idx = tuple(at for at, name in enumerate(names) if name.endswith(":last") and "+" not in name)
        if not idx:
            raise ValueError("repeat-last needs an owner's last lifetime, a feature OWNER:last; the trace has none, "
                             f"got {len(names)} other features")
        return idx[::-1]

    def log_seconds(self, values: np.ndarray) -> np.ndarray:
        """Log10 seconds (n,) of a feature (n,)."""
        return values

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        self.idx_ = self.columns(settings.names)
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
                     "through its residuals", place=1, is_baseline=True)

FEATURE = "requested_s"


class RequestedModel(RepeatModel):
    """Predicts the requested time; a request without one has the mean log lifetime.

    Users request more than they need; the median residual corrects their common factor.
    """

    name = "requested-time"

    def columns(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """The position of `requested_s`. Raises ValueError if the trace has no requested time."""
        if FEATURE not in names:
            raise ValueError(f"requested-time needs the feature {FEATURE}; the trace has no requested time, "
                             f"got {len(names)} other features")
        return (names.index(FEATURE),)

    def log_seconds(self, values: np.ndarray) -> np.ndarray:
        return np.log10(np.maximum(values, 1.0))


REQUESTED_TIME = Family(RequestedModel, "the time the user asked for (`requested_s`)",
                        "through its residuals", place=1, is_baseline=True)
