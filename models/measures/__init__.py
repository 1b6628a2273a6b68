"""Measures of lifetime models: ranking, log errors, and how both change as a request ages."""

from sojourn.models.measures.errors import bias_log10, mae_log10
from sojourn.models.measures.ranking import average_precision, f1, recall_at_precision
from sojourn.models.measures.reprediction import choose_threshold, label_of, score_model

__all__ = ["average_precision", "bias_log10", "choose_threshold", "f1", "label_of", "mae_log10",
           "recall_at_precision", "score_model"]  # fmt: skip
