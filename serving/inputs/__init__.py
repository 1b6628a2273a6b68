"""The inputs of a model: encoded columns of a request, the history of its owner and categories up
to now, and the columns of a pod. Training and serving share them, so a row means the same in both.
May import: `checks`, `errors`, `kernel`."""

from sojourn.serving.inputs.encoder import (
    CLOCK_FEATURES,
    DAY_S,
    FIRST_MONDAY_S,
    HOUR_S,
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
    HistoryCut,
    HistoryDefinition,
    HistoryKey,
    HistoryRows,
    HistoryState,
    Receipt,
    checked_array,
    fill_category_features,
)
from sojourn.serving.inputs.owner import LONGER_LOG10, OWNER_FEATURES, fill_owner_features
from sojourn.serving.inputs.pods import (
    FIRST_POD_S,
    NONE,
    POD_NAMES,
    POD_SIZES,
    controller,
    field,
    finished_unix_s,
    gpu_share,
    is_finished,
    is_part_of_node,
    kueue_workload,
    listed_items,
    main_image,
    mapping,
    node_name,
    pod_gpus,
    pod_resource,
    pod_time_s,
    pod_uid,
    quantity,
    sequence,
    short_text,
    shown_field,
    started_unix_s,
    unix_s,
)
from sojourn.serving.inputs.whole_arrays import whole_arrays, whole_history, yielding

__all__ = [
    "CATEGORY_FEATURES", "CLOCK_FEATURES", "DAY_S", "FIRST_MONDAY_S", "FIRST_POD_S", "HISTORY_OF", "HOUR_S",
    "LIMIT", "LIMIT_MAX_S", "LIMIT_MIN_S", "LONGER_LOG10", "NONE", "OWNER_FEATURES", "POD_NAMES", "POD_SIZES",
    "ROW", "UNIX_PHASE_S", "UNKNOWN", "WEEK_S", "Encoder", "HistoryCut", "HistoryDefinition",
    "HistoryKey", "HistoryRows", "HistoryState", "HistoryTerms", "Lookup", "Parsed", "Receipt", "checked_array",
    "clock_zero_s", "controller", "counts_unix_s", "field", "fill_category_features", "fill_limit_features",
    "fill_owner_features", "finished_unix_s", "gpu_share", "has_limit", "is_finished", "is_part_of_node",
    "key_code", "kueue_workload", "listed_items", "main_image", "mapping", "node_name", "pod_gpus", "pod_resource",
    "pod_time_s", "pod_uid", "quantity", "sequence", "short_text", "shown_field", "started_unix_s", "unix_s",
    "whole_arrays", "whole_history", "yielding",
]  # fmt: skip
