"""Admission of jobs with deadlines on the cores that a power budget allows. An accepted job is guaranteed.

After "AI-Job Scheduling on Systems with Renewable Power Sources". May import: `jit`.
"""

from sojourn.simulator.admission.admission import Admission, Answer, OfferedJob, Planned
from sojourn.simulator.admission.admit import (
    ALLOCATIONS,
    REASONS,
    CoreEnds,
    Decisions,
    FreeIntervals,
    PredictedRun,
    admit,
    admit_predicted,
    cores_for,
)
from sojourn.simulator.admission.jobs import AdmissionJobs, PowerProfile, deadlines_of, drawn_slacks, read_power_profile
from sojourn.simulator.admission.measures import (
    accepted_load_s,
    competitive_bound,
    energy_kwh,
    load_limit_s,
    performance_ratio,
    ratio_of,
)

__all__ = [
    "ALLOCATIONS", "REASONS", "Admission", "AdmissionJobs", "Answer", "CoreEnds", "Decisions",
    "FreeIntervals", "OfferedJob", "Planned", "PowerProfile", "PredictedRun", "accepted_load_s",
    "admit", "admit_predicted", "competitive_bound", "cores_for", "deadlines_of", "drawn_slacks", "energy_kwh",
    "load_limit_s", "performance_ratio", "ratio_of", "read_power_profile",
]  # fmt: skip
