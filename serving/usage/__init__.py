"""What a request uses over the day: pulse waves, and the local time of day they and profiles are folded by.

May import: `bundle` and what lies below it.
"""

from sojourn.serving.usage.day_clock import DAY_S, DayClock
from sojourn.serving.usage.pulse_wave import PulseWave
from sojourn.serving.usage.usage_waves import UsageWaves
from sojourn.serving.usage.workload_classes import (
    N_ENDS,
    N_HOURS,
    N_SLOTS,
    OWN_AFTER_S,
    SEEN_S,
    WorkloadClasses,
    nearest_centre,
)

__all__ = [
    "DAY_S", "N_ENDS", "N_HOURS", "N_SLOTS", "OWN_AFTER_S", "SEEN_S", "DayClock", "PulseWave", "UsageWaves",
    "WorkloadClasses", "nearest_centre",
]  # fmt: skip
