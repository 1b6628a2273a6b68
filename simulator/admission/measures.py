"""How good a schedule is: accepted load against what could be, energy, and the bounds of theory."""

from __future__ import annotations

from sojourn.simulator.admission.admit import Decisions
from sojourn.simulator.admission.jobs import AdmissionJobs

DELAYED = 0.3095
"""What delayed execution adds to the competitive ratio at most (lemma 2)."""


def accepted_load_s(jobs: AdmissionJobs, decisions: Decisions) -> int:
    """Core-seconds of the accepted jobs. Higher = better."""
    return int((jobs.processing_s * jobs.cores)[decisions.is_accepted].sum())


def load_limit_s(jobs: AdmissionJobs, n_cores: int) -> int:
    """Core-seconds that no schedule exceeds: the lesser of all submitted load and n_cores x frame (section 5). The
    frame is from the first submission to the last deadline, in which every accepted job lies."""
    return min(jobs.load_s, n_cores * jobs.frame_s)


def performance_ratio(jobs: AdmissionJobs, decisions: Decisions, n_cores: int) -> float:
    """The load limit over the accepted load: 1 is the best, lower = better. 1 without jobs, inf if none is accepted.

    >>> import numpy as np
    >>> from sojourn.simulator.admission import CoreEnds
    >>> jobs = AdmissionJobs(np.array([0, 0]), np.array([10, 10]), np.array([1, 1]), np.array([15, 15]))
    >>> performance_ratio(jobs, CoreEnds(1, "best-fit").offer(jobs), 1)
    1.5
    """
    return ratio_of(load_limit_s(jobs, n_cores), accepted_load_s(jobs, decisions))


def ratio_of(limit_s: int, accepted_s: int) -> float:
    """limit / accepted; 1 where both are 0, inf where only the second is."""
    return 1.0 if limit_s == 0 else limit_s / accepted_s if accepted_s else float("inf")


def energy_kwh(busy_s: int, on_s: int, *, idle_w: float = 60.0, busy_w: float = 100.0) -> float:
    """Energy of cores that are on for on_s core-seconds and busy for busy_s of them, by the linear model (section 1.1;
    SPEC power results are nearly linear in load, with much power when idle).

    idle_w, busy_w: watts of a core. The defaults are no measurement: an idle core takes 60 % of a busy one, as on
    servers of the paper's time.

    >>> round(energy_kwh(3_600, 7_200, idle_w=50, busy_w=100), 3)
    0.15
    """
    if not 0 <= idle_w <= busy_w or busy_w <= 0:
        raise ValueError(f"idle_w must be at least 0 and at most busy_w, got {idle_w!r} and {busy_w!r}")
    if not 0 <= busy_s <= on_s:
        raise ValueError(f"busy_s must be at least 0 and at most on_s, got {busy_s!r} and {on_s!r}")
    return (idle_w * on_s + (busy_w - idle_w) * busy_s) / 3.6e6


def competitive_bound(n_cores: int, slack: float) -> float:
    """Theorem 1: what the optimum's load is at most of that of greedy best-fit, for sequential jobs of at least this
    slack (0 < slack <= 1). It bounds the optimum, not the load limit.

    >>> round(competitive_bound(10, 0.5), 4)
    3.4095
    """
    if n_cores < 1:
        raise ValueError(f"n_cores must be at least 1, got {n_cores!r}")
    if not 0.0 < slack <= 1.0:
        raise ValueError(f"slack must be above 0 and at most 1, got {slack!r}")
    return 1.0 + 1.0 / n_cores + 1.0 / slack + DELAYED
