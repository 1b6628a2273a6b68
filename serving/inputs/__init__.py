"""What a model reads of a request: its encoded columns, and the history of its owner and categories up to now.

Training and serving share it, so that a row means the same in both. May import: `checks`, `errors`, `jitable`.
"""

from sojourn.serving.inputs.clock_zero import clock_zero_s, counts_unix_s
from sojourn.serving.inputs.encoder import CLOCK_FEATURES, FIRST_MONDAY_S, UNIX_PHASE_S, WEEK_S, Encoder, Parsed
from sojourn.serving.inputs.history import Admission, HistoryCut, HistoryState
from sojourn.serving.inputs.history_arrays import checked_array
from sojourn.serving.inputs.history_definition import CATEGORY_FEATURES, HISTORY_OF, HistoryDefinition, HistoryKey
from sojourn.serving.inputs.history_rows import UNKNOWN, HistoryRows, fill_category_features
from sojourn.serving.inputs.history_terms import HistoryTerms
from sojourn.serving.inputs.limit import LIMIT, LIMIT_MAX_S, LIMIT_MIN_S, fill_limit_features, has_limit
from sojourn.serving.inputs.lookup import ROW, Lookup, key_code
from sojourn.serving.inputs.owner import LONGER_LOG10, OWNER_FEATURES, fill_owner_features
from sojourn.serving.inputs.whole_arrays import whole_arrays, whole_history, yielding

__all__ = [
    "CATEGORY_FEATURES", "CLOCK_FEATURES", "FIRST_MONDAY_S", "HISTORY_OF", "LIMIT", "LIMIT_MAX_S", "LIMIT_MIN_S",
    "LONGER_LOG10", "OWNER_FEATURES", "ROW", "UNIX_PHASE_S", "UNKNOWN", "WEEK_S", "Admission", "Encoder",
    "HistoryCut", "HistoryDefinition", "HistoryKey", "HistoryRows", "HistoryState", "HistoryTerms", "Lookup",
    "Parsed", "checked_array", "clock_zero_s", "counts_unix_s", "fill_category_features", "fill_limit_features",
    "fill_owner_features", "has_limit", "key_code", "whole_arrays", "whole_history", "yielding",
]  # fmt: skip
