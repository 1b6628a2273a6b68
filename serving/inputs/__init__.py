"""What a model reads of a request: its encoded columns, and the history of its owner and categories up to now.

Training and serving share it, so that a row means the same in both. May import: `checks`, `errors`, `jitable`.
"""

from sojourn.serving.inputs.encoder import (
    CLOCK_FEATURES,
    FIRST_MONDAY_S,
    LIMIT,
    LIMIT_MAX_S,
    LIMIT_MIN_S,
    ROW,
    UNIX_PHASE_S,
    WEEK_S,
    Encoder,
    HistoryTerms,
    Lookup,
    Parsed,
    clock_zero_s,
    counts_unix_s,
    fill_limit_features,
    has_limit,
    key_code,
)
from sojourn.serving.inputs.history import (
    CATEGORY_FEATURES,
    HISTORY_OF,
    UNKNOWN,
    Admission,
    HistoryCut,
    HistoryDefinition,
    HistoryKey,
    HistoryRows,
    HistoryState,
    checked_array,
    fill_category_features,
)
from sojourn.serving.inputs.owner import LONGER_LOG10, OWNER_FEATURES, fill_owner_features
from sojourn.serving.inputs.whole_arrays import whole_arrays, whole_history, yielding

__all__ = [
    "CATEGORY_FEATURES", "CLOCK_FEATURES", "FIRST_MONDAY_S", "HISTORY_OF", "LIMIT", "LIMIT_MAX_S", "LIMIT_MIN_S",
    "LONGER_LOG10", "OWNER_FEATURES", "ROW", "UNIX_PHASE_S", "UNKNOWN", "WEEK_S", "Admission", "Encoder",
    "HistoryCut", "HistoryDefinition", "HistoryKey", "HistoryRows", "HistoryState", "HistoryTerms", "Lookup",
    "Parsed", "checked_array", "clock_zero_s", "counts_unix_s", "fill_category_features", "fill_limit_features",
    "fill_owner_features", "has_limit", "key_code", "whole_arrays", "whole_history", "yielding",
]  # fmt: skip
