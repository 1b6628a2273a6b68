"""One call for a day of jobs: the state that the settings need, and what it decides."""

from __future__ import annotations

from sojourn.simulator.admission.core_ends import CoreEnds
from sojourn.simulator.admission.decisions import Decisions
from sojourn.simulator.admission.free_intervals import FreeIntervals
from sojourn.simulator.admission.jobs import AdmissionJobs
from sojourn.simulator.admission.power_profile import PowerProfile


def cores_for(n_cores: int, allocation: str, *, acceptance: str = "greedy", slack: float | None = None,
              is_backfilling: bool = False, power: PowerProfile | None = None) -> CoreEnds | FreeIntervals:
    """Idle cores with these rules; `offer` of what is returned decides on jobs.

    Threshold acceptance counts loads at the ends of cores, and sequential jobs leave no holes there: with backfilling
    or a power profile it is refused with ValueError.

    >>> import numpy as np
    >>> jobs = AdmissionJobs(np.array([0, 0]), np.array([10, 10]), np.array([1, 1]), np.array([15, 25]))
    >>> cores_for(1, "balanced").offer(jobs).start_s.tolist()
    [0, 10]
    """
    if not is_backfilling and power is None:
        return CoreEnds(n_cores, allocation, acceptance, slack)
    if acceptance != "greedy":
        raise ValueError("policy must be greedy with backfilling or a power profile, got "
                         f"{acceptance!r}")
    return FreeIntervals(n_cores, allocation, is_backfilling=is_backfilling, power=power)


def admit(jobs: AdmissionJobs, n_cores: int, allocation: str, *, acceptance: str = "greedy",
          slack: float | None = None, is_backfilling: bool = False, power: PowerProfile | None = None,
          with_cores: bool = True) -> Decisions:
    """Decisions about all jobs, from idle cores; the settings are those of `cores_for`.

    >>> import numpy as np
    >>> jobs = AdmissionJobs(np.array([0, 0]), np.array([10, 10]), np.array([1, 1]), np.array([15, 15]))
    >>> admit(jobs, 1, "best-fit").n_by_reason()
    {'accepted': 1, 'no room before its deadline': 1}
    """
    cores = cores_for(n_cores, allocation, acceptance=acceptance, slack=slack, is_backfilling=is_backfilling,
                      power=power)
    return cores.offer(jobs, with_cores=with_cores)
