"""Scores that are log10 of the total lifetime, asked once: one total, held until it is outlived, then doubled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sojourn.serving.curves.curve import OnceCurve
from sojourn.serving.curves.curve_arrays import AT_TOTAL, ONCE
from sojourn.serving.curves.curve_kind import CCode, CNumber, FirstWay, Made, Shared, place_totals
from sojourn.serving.curves.formulas import once_remaining
from sojourn.serving.curves.model_numbers import ModelNumbers
from sojourn.serving.curves.uptime_kind import check_residuals, residual_numbers, step_way
from sojourn.serving.forest import AgeFeatures, Forest, MaskWalk


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

    def made(self, model: ModelNumbers, grid: np.ndarray, kernels: Any) -> Made:
        smearing, residuals = model.smearing, model.residuals

        def of_scores(scores: np.ndarray) -> OnceCurve:
            return OnceCurve.from_score(scores.item(0), smearing, residuals)

        return Made(of_scores, lambda scores, features: of_scores(scores))

    def first_way(self, model: ModelNumbers, walk: MaskWalk) -> FirstWay:
        return step_way(walk)._replace(finish=_left_of)

    def shared_of(self, curve: OnceCurve) -> tuple[Sequence[float], Sequence[float]]:
        return curve.residuals, curve.residuals

    def shared(self, first: Sequence[float], second: Sequence[float]) -> Shared:
        return Shared(np.empty(0), np.zeros(1), np.zeros(1, np.int64), np.array(first))

    def held_seconds(self, curve: OnceCurve, shared: Shared, kernels: Any) -> np.ndarray:
        return np.array(list(map(curve.remaining, shared.changes.tolist())))

    def place(self, kernels: Any, hosts: Any, host: int, row: int, start_s: float, model: int, curve: OnceCurve,
              shared: Shared, now_s: float) -> None:
        place_totals(self, kernels, hosts, host, row, start_s, model, curve, shared, now_s)

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


def _left_of(totals_s: list[float], uptimes_s: Sequence[float]) -> list[float]:
    return [float(round(once_remaining(max(total_s, 1.0), uptime_s)))
            for total_s, uptime_s in zip(totals_s, uptimes_s, strict=True)]
