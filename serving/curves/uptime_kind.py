"""Scores that are log10 of the remaining time at an uptime: curves of steps over the uptime.

`OnceKind`: scores that are log10 of the total lifetime; one total, held until it is outlived, then doubled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sojourn.serving.curves.curve import Axis, OnceCurve, PointCurve
from sojourn.serving.curves.curve_arrays import AT_SCORE, AT_SECONDS, AT_TOTAL, N_STEP, ONCE, POINT
from sojourn.serving.curves.curve_kind import CCode, CNumber, Made, ModelNumbers, Shared, place_totals
from sojourn.serving.curves.formulas import once_remaining
from sojourn.serving.errors import BundleError
from sojourn.serving.forest import LARGEST, AgeFeatures, Forest

N_STEPS_MAX = 4_096
"""Thresholds on the uptime; LightGBM's default bins give 254 at most. Each handle carries a score for every step."""


class UptimeKind:
    """See `CurveKind`. The varying feature is the uptime in seconds."""

    name = "uptime"
    code = POINT
    curve_type = PointCurve
    score_unit = "log10 seconds"
    effect_unit = "log10 s"
    is_varying = True
    has_age_features = False
    has_lookup = False
    has_hazards = False

    def varying_names(self, names: Sequence[str], age_features: AgeFeatures) -> list[str]:
        return ["uptime_s"]

    def check(self, model: ModelNumbers) -> None:
        check_residuals(model)

    def check_forest(self, forest: Forest) -> None:
        steps = forest.splits_on(forest.n_features - 1)
        if len(steps) > N_STEPS_MAX or (np.abs(steps) > LARGEST).any():
            raise BundleError(f"model.onnx: uptime steps must be at most {N_STEPS_MAX}, within {LARGEST:g} s, "
                              f"got {len(steps)}")

    def grid(self, model: ModelNumbers, forest: Forest) -> np.ndarray:
        """One uptime per step: its upper threshold, which the forest sends to the left; infinity for the last."""
        return np.append(forest.splits_on(forest.n_features - 1), np.inf)

    def spread(self, model: ModelNumbers, lifetime_s: np.ndarray) -> np.ndarray:
        return np.floor(lifetime_s / 2.0)

    def forest_rows(self, age_features: AgeFeatures, features: np.ndarray, varying: np.ndarray) -> np.ndarray:
        return np.column_stack([features, varying])

    def made(self, model: ModelNumbers, grid: np.ndarray) -> Made:
        axis = Axis(tuple(grid[:-1].tolist()), model.residuals, model.smearing)

        def of_scores(scores: Any) -> PointCurve:
            return scores if type(scores) is PointCurve else PointCurve(axis, scores)

        return Made(axis, len(grid), of_scores, lambda scores, features: of_scores(scores))

    def shared_of(self, curve: PointCurve) -> tuple[Sequence[float], Sequence[float]]:
        return curve.axis.first, curve.axis.second

    def shared(self, first: Sequence[float], second: Sequence[float]) -> Shared:
        bounds = np.array(first)
        changes = np.unique(np.append(0.0, np.floor(bounds[bounds >= 0.0]) + 1.0))
        return Shared(bounds, changes, np.searchsorted(bounds, changes, side="left"), np.array(second))

    def held_seconds(self, curve: PointCurve, shared: Shared, kernels: Any) -> np.ndarray:
        return _seconds(curve, kernels)[shared.steps]

    def place(self, kernels: Any, places: Any, host: int, row: int, start_s: float, model: int, curve: PointCurve,
              shared: Shared, now_s: float) -> None:
        place_totals(self, kernels, places, host, row, start_s, model, curve, shared, now_s)

    def packed(self, curve: PointCurve, kernels: Any) -> np.ndarray:
        numbers = np.empty((len(curve.scores), N_STEP))
        numbers[:, AT_SECONDS], numbers[:, AT_SCORE] = _seconds(curve, kernels), curve.scores
        return numbers.ravel()

    def logged(self, n_grid: int) -> np.ndarray:
        return np.arange(n_grid)

    def remaining_rows(self, bounds: np.ndarray, numbers: np.ndarray, slots: np.ndarray,
                       uptimes_s: np.ndarray) -> np.ndarray:
        return numbers[slots, N_STEP * np.searchsorted(bounds, uptimes_s, side="left") + AT_SECONDS]

    def c_code(self) -> CCode:
        from sojourn.serving.curves import _c_curves

        return CCode("The log10 of the remaining seconds, a step function of the uptime.", "log10 remaining seconds",
                     "steps of the uptime", ", then the uptime in seconds", *_c_curves.UPTIME_CODE)

    def c_numbers(self, model: ModelNumbers, grid: np.ndarray) -> Mapping[str, CNumber]:
        return {**residual_numbers(model), "THRESHOLDS": grid[:-1].tolist()}


def _seconds(curve: PointCurve, kernels: Any) -> np.ndarray:
    if kernels is not None:
        seconds: np.ndarray = kernels.point_seconds(curve.scores, curve.smearing)
        return seconds
    return np.array(curve.all_seconds())


def check_residuals(model: ModelNumbers) -> None:
    """BundleError if the model has no quantiles of a point model's errors."""
    if len(model.residuals) < 2 or (np.diff(model.residuals) < 0.0).any():
        raise BundleError("schema.json: residuals must be a rising grid of at least 2 quantiles")


def residual_numbers(model: ModelNumbers) -> Mapping[str, CNumber]:
    """The numbers that the C of a point model reads."""
    return {"SMEARING": model.smearing, "N_RESIDUALS": len(model.residuals), "RESIDUALS": model.residuals}


class OnceKind:
    """See `CurveKind`. Nothing varies with the age."""

    name = "once"
    code = ONCE
    curve_type = OnceCurve
    score_unit = "log10 seconds"
    effect_unit = "log10 s"
    is_varying = False
    has_age_features = False
    has_lookup = False
    has_hazards = False

    def varying_names(self, names: Sequence[str], age_features: AgeFeatures) -> list[str]:
        return []

    def check(self, model: ModelNumbers) -> None:
        check_residuals(model)

    def check_forest(self, forest: Forest) -> None:
        """Any forest will do."""

    def grid(self, model: ModelNumbers, forest: Forest) -> np.ndarray:
        return np.array([0.0])

    def spread(self, model: ModelNumbers, lifetime_s: np.ndarray) -> np.ndarray:
        return np.zeros(len(lifetime_s))

    def forest_rows(self, age_features: AgeFeatures, features: np.ndarray, varying: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(features)

    def made(self, model: ModelNumbers, grid: np.ndarray) -> Made:
        smearing, residuals = model.smearing, model.residuals

        def of_scores(scores: Any) -> OnceCurve:
            return OnceCurve.from_score(np.frombuffer(scores).item(0), smearing, residuals)

        return Made(Axis((), residuals), 1, of_scores, lambda scores, features: of_scores(scores))

    def shared_of(self, curve: OnceCurve) -> tuple[Sequence[float], Sequence[float]]:
        return curve.residuals, curve.residuals

    def shared(self, first: Sequence[float], second: Sequence[float]) -> Shared:
        return Shared(np.empty(0), np.zeros(1), np.zeros(1, np.int64), np.array(first))

    def held_seconds(self, curve: OnceCurve, shared: Shared, kernels: Any) -> np.ndarray:
        return np.array(list(map(curve.remaining, shared.changes.tolist())))

    def place(self, kernels: Any, places: Any, host: int, row: int, start_s: float, model: int, curve: OnceCurve,
              shared: Shared, now_s: float) -> None:
        place_totals(self, kernels, places, host, row, start_s, model, curve, shared, now_s)

    def packed(self, curve: OnceCurve, kernels: Any) -> np.ndarray:
        return np.array([curve.total_s, curve.score])

    def logged(self, n_grid: int) -> np.ndarray:
        return np.arange(n_grid)

    def remaining_rows(self, bounds: np.ndarray, numbers: np.ndarray, slots: np.ndarray,
                       uptimes_s: np.ndarray) -> np.ndarray:
        return np.rint(list(map(once_remaining, numbers[slots, AT_TOTAL].tolist(), uptimes_s.tolist())))

    def c_code(self) -> CCode:
        from sojourn.serving.curves import _c_curves

        return CCode("One total lifetime, held until it is outlived, then doubled.", "log10 total seconds",
                     "one score in all", "", *_c_curves.ONCE_CODE)

    def c_numbers(self, model: ModelNumbers, grid: np.ndarray) -> Mapping[str, CNumber]:
        return residual_numbers(model)
