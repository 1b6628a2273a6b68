"""Measures of lifetime models: ranking, concordance, Brier score, calibration, log errors, and their noise by owner."""

from sojourn.models.measures.assessment import (
    Assessment,
    assess,
    by_week,
    card_measures,
    of_owners,
    score_model,
    weeks_after,
)
from sojourn.models.measures.bootstrap import OwnerDraws, coarsest_owner, drawn_owners, interval, standard_error
from sojourn.models.measures.brier import brier_score, integrated_brier_score
from sojourn.models.measures.brier_over_ages import BrierOverAges, integrated_at_age, parts_by_age
from sojourn.models.measures.calibration import CalibrationPoints, Pit, calibration_points
from sojourn.models.measures.calibration_by_age import (
    N_ENDS_MIN,
    PERCENTS,
    WEEKLY_AGES_S,
    CalibrationByAge,
    age_prefix,
)
from sojourn.models.measures.censoring import censoring_curve, outliving_weights
from sojourn.models.measures.class_scores import N_EACH_MIN, class_scores, has_each, shown_thresholds
from sojourn.models.measures.concordance import Concordance, harrell_c, uno_c
from sojourn.models.measures.coverage import BoundedRows, Coverage
from sojourn.models.measures.errors import bias_log10, mae_log10
from sojourn.models.measures.kaplan_meier import KaplanMeier
from sojourn.models.measures.measure import Measure
from sojourn.models.measures.ranking import Ranking, average_precision, f1, recall_at_precision
from sojourn.models.measures.registry import MEASURES
from sojourn.models.measures.reliance import Reliance, reliances
from sojourn.models.measures.thresholds import AGES_S, CLASS_THRESHOLDS_S, UPTIME_SHARES, choose_threshold, time_label

__all__ = [
    "AGES_S", "CLASS_THRESHOLDS_S", "MEASURES", "N_EACH_MIN", "N_ENDS_MIN", "PERCENTS", "UPTIME_SHARES",
    "WEEKLY_AGES_S", "Assessment", "BoundedRows", "BrierOverAges", "CalibrationByAge", "CalibrationPoints",
    "Concordance", "Coverage", "KaplanMeier", "Measure", "OwnerDraws", "Pit", "Ranking", "Reliance", "age_prefix",
    "assess", "average_precision", "bias_log10", "brier_score", "by_week", "calibration_points", "card_measures",
    "censoring_curve", "choose_threshold", "class_scores", "coarsest_owner", "drawn_owners", "f1", "harrell_c",
    "has_each", "integrated_at_age", "integrated_brier_score", "interval", "mae_log10", "of_owners",
    "outliving_weights", "parts_by_age", "recall_at_precision", "reliances", "score_model", "shown_thresholds",
    "standard_error", "time_label", "uno_c", "weeks_after",
]  # fmt: skip
