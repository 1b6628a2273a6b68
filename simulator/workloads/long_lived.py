"""From which lifetime on a request of a workload counts as long, and what such requests hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.simulator.workloads.workload import Workload

THRESHOLDS_S = (2_592_000, 604_800, 86_400)
"""A month (DVLA, OSDI'26, section 2), and for shorter traces a week and a day; the last is the default."""
SHARE_MIN = 0.9
"""Of the core-hours, that long requests are to hold; in DVLA's clusters it is 93 %."""
_KINDS_OF_WORK = ("shape", "batch", "vm", "job", "job_name", "executable", "controller", "deployment", "task_name")
"""Owners that tell what runs, and not for whom."""


@dataclass(frozen=True, slots=True)
class LongLived:
    """threshold_s: a request is long from this lifetime on. core_hours_pct: what such requests hold after the warm-up,
    % of all core-hours.
    """

    threshold_s: int
    core_hours_pct: float


def long_lived(workload: Workload) -> LongLived:
    """The longest of THRESHOLDS_S from which on requests hold SHARE_MIN of the core-hours; a day where none does.

    By true lifetimes, of what is asked for between warm-up and horizon, placed or not.

    >>> import pandas as pd
    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 0], "departure_s": [700_000, 70_000],
    ...                       "cpu_cores": [4.0, 4.0], "mem_gib": [4.0, 4.0]})
    >>> found = long_lived(sim.build_workload("trace", sim.Trace(table, 800_000), cpu_cores=8, mem_gib=8, n_hosts=1))
    >>> found.threshold_s, round(found.core_hours_pct, 1)
    (604800, 90.9)
    """
    from_s, to_s = workload.warmup_s, workload.trace.horizon_s
    stay_s = np.clip(workload.departure_s, from_s, to_s) - np.clip(workload.placed_s, from_s, to_s)
    core_s = workload.need[:, workload.resources.index("cpu_cores")].astype(np.float64) * stay_s
    whole = max(float(core_s.sum()), 1.0)
    share = [float(core_s[workload.total_s >= threshold].sum()) / whole for threshold in THRESHOLDS_S]
    k = next((k for k, each in enumerate(share) if each >= SHARE_MIN), len(share) - 1)
    return LongLived(THRESHOLDS_S[k], 100.0 * share[k])


def owner_numbers(workload: Workload) -> np.ndarray:
    """Each request's owner as a number from 0, int64 (n,); -1 for none, and throughout where the trace names none.

    The owner `user` where the trace has it, else the coarsest that is not a kind of work: who would be hit by the
    failure of a host.
    """
    table, owners = workload.trace.requests, workload.trace.roles.owners
    named = [name for name in owners if name not in _KINDS_OF_WORK]
    if not named:
        return np.full(len(table), -1, np.int64)
    codes, _ = table["user" if "user" in named else named[0]].factorize()
    return np.asarray(codes, np.int64)
