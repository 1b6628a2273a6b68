"""From raw scores to lifetime curves: formulas, curves, and the kinds of score.

The C of each kind is here too, next to its formulas. May import: `forest` and what lies below it.
"""

from sojourn.serving.curves.curve import (
    IS_COMPILED,
    KERNELS,
    N_RESIDUALS,
    Axis,
    HazardCurve,
    LifetimeCurve,
    LimitCurve,
    PointCurve,
    curve_steps,
    recalibrated,
)
from sojourn.serving.curves.curve_arrays import (
    N_BLOCK,
    CurveArrays,
    Hosts,
    hazard_quantile,
    hazard_survival,
    next_change_at,
    point_survival,
    quantile_at,
    remaining_at,
    survival_at,
)
from sojourn.serving.curves.curve_kind import Curve, CurveKind, ModelNumbers, Shared, held_totals
from sojourn.serving.curves.curve_kinds import KIND_OF_CODE, KINDS, kind_of
from sojourn.serving.curves.formulas import (
    AGE_STARTS_S,
    BAND_STARTS,
    CLASS_BOUNDS_S,
    HALF_S,
    LONGEST_S,
    N_AGES,
    N_BANDS,
    N_HAZARD,
    LookupTable,
    fill_hazard,
    fill_limit_axis,
    fill_recalibrated,
    hazard_at,
    hazard_remaining,
    interval_hazard,
    lifetime_class,
    mean_seconds,
    once_quantile,
    once_remaining,
    once_survival,
    residual_quantile,
    score_seconds,
)
from sojourn.serving.curves.plain_curves import checked_seconds, checked_share
from sojourn.serving.curves.uptime_kind import N_STEPS_MAX

__all__ = [
    "AGE_STARTS_S", "BAND_STARTS", "CLASS_BOUNDS_S", "HALF_S", "IS_COMPILED", "KERNELS", "KINDS", "KIND_OF_CODE",
    "LONGEST_S", "N_AGES", "N_BANDS", "N_BLOCK", "N_HAZARD", "N_RESIDUALS", "N_STEPS_MAX", "Axis", "Curve",
    "CurveArrays", "CurveKind", "HazardCurve", "Hosts", "LifetimeCurve", "LimitCurve", "LookupTable", "ModelNumbers",
    "PointCurve", "Shared", "checked_seconds", "checked_share", "curve_steps", "fill_hazard", "fill_limit_axis",
    "fill_recalibrated", "hazard_at", "hazard_quantile", "hazard_remaining", "hazard_survival", "held_totals",
    "interval_hazard", "kind_of", "lifetime_class", "mean_seconds", "next_change_at", "once_quantile",
    "once_remaining", "once_survival", "point_survival", "quantile_at", "recalibrated", "remaining_at",
    "residual_quantile", "score_seconds", "survival_at",
]  # fmt: skip
