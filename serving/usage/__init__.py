"""Use of requests over the day: pulse waves, workload classes, and samples of running requests.

A usage section is a folder of data; `UsagePredictor` answers from it. `DayClock` gives the local
time of day.

May import: `bundle` and what lies below it.
"""

from sojourn.serving.inputs import DAY_S
from sojourn.serving.usage.observed_use import (
    BY_HOURS,
    CLASSES,
    N_ENDS,
    N_HOURS,
    N_REQUESTS_MAX,
    N_SLOTS,
    OWN_AFTER_S,
    SEEN_S,
    SLOT_S,
    SURPLUS_RULES,
    DayClock,
    WorkloadClasses,
    nearest_centre,
    observed_s,
)
from sojourn.serving.usage.usage_predictor import (
    LiveUsage,
    UsageAnswer,
    UsagePredictor,
    answer_of,
    serve_section,
)
from sojourn.serving.usage.usage_section import (
    OBSERVED_S,
    USAGE_FILES,
    WAVE_COLUMNS,
    PulseWave,
    UsageSection,
    UsageWaves,
    check_usage_files,
    load_usage,
    usage_files,
)

__all__ = [
    "BY_HOURS", "CLASSES", "DAY_S", "N_ENDS", "N_HOURS", "N_REQUESTS_MAX", "N_SLOTS", "OBSERVED_S", "OWN_AFTER_S",
    "SEEN_S", "SLOT_S", "SURPLUS_RULES", "USAGE_FILES", "WAVE_COLUMNS", "DayClock", "LiveUsage", "PulseWave",
    "UsageAnswer", "UsagePredictor", "UsageSection", "UsageWaves", "WorkloadClasses", "answer_of",
    "check_usage_files", "load_usage", "nearest_centre", "observed_s", "serve_section", "usage_files",
]  # fmt: skip
