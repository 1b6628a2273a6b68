"""Scores that are log-odds of the hazard in each interval of the age: curves of constant hazards, in closed form.

`LimitKind` has two axes: intervals of the age, then of the share of the request's limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sojourn.serving.curves.curve import Axis, HazardCurve, LimitCurve
from sojourn.serving.curves.curve_arrays import AT_AFTER, AT_CUMULATIVE, AT_GAP, AT_RATE, HAZARD, LIMITED, N_INTERVAL
from sojourn.serving.curves.curve_kind import CCode, CNumber, Made, ModelNumbers, Shared, place_totals
from sojourn.serving.curves.formulas import (
    AFTER,
    GAPS,
    HALF_S,
    LEAST_HAZARD,
    N_HAZARD,
    RATES,
    WIDTH_MIN_S,
    fill_limit_axis,
    hazard_numbers,
    interval_hazard,
    mixed_hazard,
)
from sojourn.serving.errors import BundleError
from sojourn.serving.forest import AgeFeatures, Forest
from sojourn.serving.inputs import LIMIT_MAX_S, LIMIT_MIN_S

_WIDTH_MIN_S = 1e-3
"""The shortest interval, so that no rate overflows."""


class HazardKind:
    """See `CurveKind`. The varying feature is the number of the interval."""

    name = "hazard"
    code = HAZARD
    curve_type: type[HazardCurve] = HazardCurve
    score_unit = "log-odds of the hazard over the pooled one"
    effect_unit = "log-odds of ending"
    is_varying = True
    has_age_features = True
    has_lookup = True
    has_hazards = True

    def varying_names(self, names: Sequence[str], age_features: AgeFeatures) -> list[str]:
        return [*age_features.names(names), "interval"]

    def check(self, model: ModelNumbers) -> None:
        self._check_axis(model, len(model.edges) - 1)

    def _check_axis(self, model: ModelNumbers, n_intervals: int) -> None:
        edges, grid = np.array(model.edges), np.array(model.grid)
        if (len(edges) < 2 or edges[0] != 0.0 or (np.diff(edges) < _WIDTH_MIN_S).any()
                or len(model.offsets) != n_intervals or (np.diff(grid) <= 0.0).any()):
            raise BundleError(f"schema.json: edges must rise from 0 by {_WIDTH_MIN_S:g} or more, with one offset "
                              f"per interval, and grid must rise")
        if len(model.age_features) and len(model.age_features.ages_s) != len(model.offsets):
            raise BundleError(f"schema.json: age_features must name one age per interval ({len(model.offsets)}), "
                              f"got {len(model.age_features.ages_s)}")

    def check_forest(self, forest: Forest) -> None:
        """Any forest will do."""

    def grid(self, model: ModelNumbers, forest: Forest) -> np.ndarray:
        return np.arange(len(model.offsets), dtype=np.float64)

    def spread(self, model: ModelNumbers, lifetime_s: np.ndarray) -> np.ndarray:
        return (np.arange(len(lifetime_s)) % len(model.offsets)).astype(np.float64)

    def forest_rows(self, age_features: AgeFeatures, features: np.ndarray, varying: np.ndarray) -> np.ndarray:
        return age_features.rows(features, varying.astype(np.int64))

    def made(self, model: ModelNumbers, grid: np.ndarray) -> Made:
        edges, sampled, tail_s = model.edges, model.grid, model.tail_s
        axis = Axis(edges, sampled)
        lookup = model.lookup

        def of_numbers(numbers: Any) -> HazardCurve:
            """From 4 (J + 1) numbers of `fill_hazard`; the extension gives the curve itself."""
            return numbers if type(numbers) is HazardCurve else HazardCurve(axis, numbers)

        def of_scores(scores: np.ndarray, features: Sequence[float]) -> HazardCurve:
            hazards = [interval_hazard(score, offset)
                       for score, offset in zip(scores.tolist(), model.offsets, strict=True)]
            if lookup is not None:
                tabled = lookup.row(features).tolist()
                hazards = [mixed_hazard(*each) for each in zip(hazards, lookup.weights, tabled, strict=True)]
            return of_numbers(hazard_numbers(hazards, edges, tail_s))

        return Made(axis, N_HAZARD * len(edges), of_numbers, of_scores)

    def shared_of(self, curve: HazardCurve) -> tuple[Sequence[float], Sequence[float]]:
        return curve.axis.first, curve.axis.second

    def shared(self, first: Sequence[float], second: Sequence[float]) -> Shared:
        bounds = np.array(first)
        changes = np.unique(np.append(0.0, second))
        return Shared(bounds, changes, np.searchsorted(bounds, changes, side="right") - 1, np.empty(0))

    def held_seconds(self, curve: HazardCurve, shared: Shared, kernels: Any) -> np.ndarray:
        steps = shared.steps
        numbers = _rows_of(curve)[:, steps]
        exponents = (shared.changes - np.array(curve.bounds)[steps + 1]) * numbers[RATES]
        growth = np.fromiter(map(math.expm1, exponents.tolist()), np.float64, len(steps))
        return np.rint(numbers[AFTER] + growth * numbers[GAPS])

    def place(self, kernels: Any, places: Any, host: int, row: int, start_s: float, model: int, curve: HazardCurve,
              shared: Shared, now_s: float) -> None:
        kernels.place_hazard(places, host, row, start_s, model, curve.numbers, shared.bounds, shared.steps, now_s)

    def packed(self, curve: HazardCurve, kernels: Any) -> np.ndarray:
        return _rows_of(curve).take(_PACKED, axis=0).T.ravel()

    def logged(self, n_grid: int) -> np.ndarray:
        return np.arange(n_grid)

    def remaining_rows(self, bounds: np.ndarray, numbers: np.ndarray, slots: np.ndarray,
                       uptimes_s: np.ndarray) -> np.ndarray:
        idx = np.searchsorted(bounds, uptimes_s, side="right") - 1
        start = N_INTERVAL * idx
        exponents = (uptimes_s - bounds[idx + 1]) * numbers[slots, start + AT_RATE]
        growth = np.fromiter(map(math.expm1, exponents.tolist()), np.float64, len(slots))
        return np.rint(numbers[slots, start + AT_AFTER] + growth * numbers[slots, start + AT_GAP])

    def c_code(self) -> CCode:
        from sojourn.serving.curves import _c_curves

        return CCode("A constant hazard rate in each interval of the uptime; answers in closed form.",
                     "log-odds of the interval's hazard over the pooled one", "intervals of the uptime",
                     ", then the interval, from 0", *_c_curves.HAZARD_CODE)

    def c_numbers(self, model: ModelNumbers, grid: np.ndarray) -> Mapping[str, CNumber]:
        numbers: dict[str, CNumber] = {"LEAST_HAZARD": LEAST_HAZARD, "TAIL_S": model.tail_s, "EDGES": model.edges,
                                       "OFFSETS": model.offsets, "N_GRID": len(model.grid), "GRID": model.grid}
        if model.lookup is not None:
            numbers |= {"N_LOOKUP_ROWS": len(model.lookup.hazards), "LOOKUP_WEIGHTS": model.lookup.weights,
                        "LOOKUP_HAZARDS": model.lookup.hazards.ravel().tolist()}
        return numbers


_PACKED = np.argsort([AT_RATE, AT_CUMULATIVE, AT_AFTER, AT_GAP])
"""Rows of a curve's numbers (RATES, CUMULATIVE, AFTER, GAPS) in the order of an interval's numbers in a pool."""


def _rows_of(curve: HazardCurve) -> np.ndarray:
    n = len(curve.edges)
    return curve.numbers[:N_HAZARD * n].reshape(N_HAZARD, n)


_SHARE_STEP_MIN = 1e-4
"""The least distance of shares, so that no interval is shorter than some milliseconds."""


class LimitKind(HazardKind):
    """See `CurveKind`. The varying feature is the number of the interval: of the age, then of the
    share of the limit."""

    name = "hazard-limit"
    code = LIMITED
    curve_type = LimitCurve

    def check(self, model: ModelNumbers) -> None:
        n_shares = len(model.shares) - 1
        if n_shares < 1 or model.shares[0] <= 0.0 or (np.diff(model.shares) < _SHARE_STEP_MIN).any():
            raise BundleError(f"schema.json: shares must be two or more, rising from above 0 by {_SHARE_STEP_MIN:g} or "
                              f"more, got {len(model.shares)}")
        if model.limit_place < 0:
            raise BundleError("schema.json: numbers must have the limit that shares are of, got none")
        self._check_axis(model, len(model.edges) - 1 + n_shares)

    def made(self, model: ModelNumbers, grid: np.ndarray) -> Made:
        edges, shares, sampled, tail_s = model.edges, model.shares, model.grid, model.tail_s
        axis, n = Axis((*edges, *shares), sampled), len(model.offsets) + 1
        lookup, place = model.lookup, model.limit_place

        def of_numbers(numbers: Any) -> LimitCurve:
            """From 4 (J + K + 1) numbers of `fill_hazard`, then the request's edges."""
            return numbers if type(numbers) is LimitCurve else LimitCurve(axis, numbers)

        def of_scores(scores: np.ndarray, features: Sequence[float]) -> LimitCurve:
            hazards = [interval_hazard(score, offset)
                       for score, offset in zip(scores.tolist(), model.offsets, strict=True)]
            if lookup is not None:
                tabled = lookup.row(features).tolist()
                hazards = [mixed_hazard(*each) for each in zip(hazards, lookup.weights, tabled, strict=True)]
            own_edges, own_hazards = [0.0] * n, [0.0] * (n - 1)
            fill_limit_axis(hazards, edges, shares, features[place], tail_s, own_edges, own_hazards)
            return of_numbers(np.concatenate([hazard_numbers(own_hazards, own_edges, tail_s), own_edges]))

        return Made(axis, (N_HAZARD + 1) * n, of_numbers, of_scores)

    def shared_of(self, curve: LimitCurve) -> tuple[Sequence[float], Sequence[float]]:  # type: ignore[override]
        return curve.axis.first, curve.axis.second

    def shared(self, first: Sequence[float], second: Sequence[float]) -> Shared:
        changes = np.unique(np.append(0.0, second))
        return Shared(np.array(first), changes, np.zeros(len(changes), np.int64), np.empty(0))

    def held_seconds(self, curve: LimitCurve, shared: Shared, kernels: Any) -> np.ndarray:  # type: ignore[override]
        return np.array(list(map(curve.remaining, shared.changes.tolist())))

    def place(self, kernels: Any, places: Any, host: int, row: int, start_s: float, model: int,
              curve: LimitCurve, shared: Shared, now_s: float) -> None:  # type: ignore[override]
        place_totals(self, kernels, places, host, row, start_s, model, curve, shared, now_s)

    def packed(self, curve: LimitCurve, kernels: Any) -> np.ndarray:  # type: ignore[override]
        """The request's edges, then the numbers interval by interval."""
        return np.concatenate([curve.edges, _rows_of(curve).take(_PACKED, axis=0).T.ravel()])

    def remaining_rows(self, bounds: np.ndarray, numbers: np.ndarray, slots: np.ndarray,
                       uptimes_s: np.ndarray) -> np.ndarray:
        n = int(np.isfinite(bounds).sum()) - 1  # the axis has one more, and infinity follows
        edges = numbers[slots, :n]
        idx = (edges <= uptimes_s[:, None]).sum(axis=1) - 1
        uppers_s = np.column_stack([edges, np.full(len(slots), math.inf)])[np.arange(len(slots)), idx + 1]
        start = n + N_INTERVAL * idx
        exponents = (uptimes_s - uppers_s) * numbers[slots, start + AT_RATE]
        growth = np.fromiter(map(math.expm1, exponents.tolist()), np.float64, len(slots))
        return np.rint(numbers[slots, start + AT_AFTER] + growth * numbers[slots, start + AT_GAP])

    def c_code(self) -> CCode:
        from sojourn.serving.curves import _c_curves

        return CCode("A constant hazard rate in each interval of the uptime, and from half of the request's limit on "
                     "in each interval of the share of the limit; answers in closed form.",
                     "log-odds of the interval's hazard over the pooled one",
                     "intervals, of the uptime and of the share of the limit", ", then the interval, from 0",
                     *_c_curves.LIMIT_CODE)

    def c_numbers(self, model: ModelNumbers, grid: np.ndarray) -> Mapping[str, CNumber]:
        return {**super().c_numbers(model, grid), "SHARES": model.shares, "N_AGES": len(model.edges) - 1,
                "LIMIT_PLACE": model.limit_place, "LIMIT_MIN_S": LIMIT_MIN_S, "LIMIT_MAX_S": LIMIT_MAX_S,
                "HALF_S": HALF_S, "WIDTH_MIN_S": WIDTH_MIN_S}

    def logged(self, n_grid: int) -> np.ndarray:
        """The rates, then the upper edges."""
        return np.concatenate([np.arange(n_grid), N_HAZARD * (n_grid + 1) + 1 + np.arange(n_grid)])
