"""Measures of lifetime models: ranking, concordance, Brier score, calibration, log errors, and their noise by owner."""

from sojourn.models.measures.assessment import (
    Assessment,
    assess,
    by_week,
    calibration_with_ends,
    card_measures,
    of_owners,
    score_model,
    weeks_after,
)
from sojourn.models.measures.brier import (
    BrierOverAges,
    brier_score,
    first_within_error,
    integrated_at_age,
    integrated_brier_score,
    parts_by_age,
)
from sojourn.models.measures.calibration import (
    N_ENDS_MIN,
    PERCENTS,
    RESOLVED,
    WEEKLY_AGES_S,
    CalibrationByAge,
    CalibrationPoints,
    Pit,
    age_prefix,
    calibration_points,
    limits_of,
)
from sojourn.models.measures.censoring import KaplanMeier, censoring_curve, outliving_weights
from sojourn.models.measures.concordance import (
    Concordance,
    Ranking,
    average_precision,
    f1,
)
from sojourn.models.measures.errors import (
    N_EACH_MIN,
    BoundedRows,
    Coverage,
    class_scores,
    has_each,
    mae_log10,
    shown_thresholds,
)
from sojourn.models.measures.measure import (
    AGES_S,
    CLASS_THRESHOLDS_S,
    UPTIME_SHARES,
    Measure,
    OwnerDraws,
    choose_threshold,
    coarsest_owner,
    drawn_owners,
    interval,
    standard_error,
    time_label,
)
from sojourn.models.measures.registry import MEASURES
from sojourn.models.measures.reliance import Reliance, reliances

__all__ = [
    "AGES_S", "CLASS_THRESHOLDS_S", "MEASURES", "N_EACH_MIN", "N_ENDS_MIN", "PERCENTS", "RESOLVED", "UPTIME_SHARES",
    "WEEKLY_AGES_S", "Assessment", "BoundedRows", "BrierOverAges", "CalibrationByAge", "CalibrationPoints",
    "Concordance", "Coverage", "KaplanMeier", "Measure", "OwnerDraws", "Pit", "Ranking", "Reliance", "age_prefix",
    "assess", "average_precision", "brier_score", "by_week", "calibration_points", "calibration_with_ends",
    "card_measures", "censoring_curve", "choose_threshold", "class_scores", "coarsest_owner", "drawn_owners",
    "f1", "first_within_error", "has_each", "integrated_at_age", "integrated_brier_score", "interval", "limits_of",
    "mae_log10", "of_owners", "outliving_weights", "parts_by_age", "reliances", "score_model", "shown_thresholds",
    "standard_error", "time_label", "weeks_after",
]  # fmt: skip
