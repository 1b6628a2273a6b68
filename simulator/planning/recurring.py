"""Recurring jobs out of a log: the same owner's same program comes again, and its past runs are its history."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.simulator.planning.execution import Runs
from sojourn.simulator.planning.job import Instance, Job

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class RecurringDay:
    """instance: what is known before the day begins. runs: one, of what the same jobs really took.
    rows: int64 (n,), positions in the log."""

    instance: Instance
    runs: Runs
    rows: np.ndarray


def recurring_key(log: pd.DataFrame, columns: tuple[str, ...]) -> np.ndarray:
    """A whole number for each request: equal where all columns are, int64 (n,)."""
    return np.asarray(log.groupby(list(columns), sort=False, observed=True, dropna=False).ngroup(), np.int64)


def recurring_day(log: pd.DataFrame, key: np.ndarray, begin_s: int, *, step_s: int = 60, flexibility_s: int = 3_600,
                  least_runs: int = 5, most_runs: int = 50, max_jobs: int = 400) -> RecurringDay | None:
    """The requests that are submitted in the day from `begin_s` on and have a history; None where there are none.

    log: one row a request, with submit_s, arrival_s, departure_s, cpu_cores and requested_s (NaN where none was given).
    key: int64 (n,), of `recurring_key`. A history is the runs of the same key that had ended by `begin_s`, the latest
    `most_runs` of them, at least `least_runs`: nothing of the day or after it is read. The deadline is the submission,
    the flexibility and the requested time, or the longest past run where none was requested; past runs above the
    requested time could not be repeated and are left out. Where more than `max_jobs` qualify, those with the most work
    in their histories are planned.
    """
    submit_s, arrival_s = log["submit_s"].to_numpy(np.int64), log["arrival_s"].to_numpy(np.int64)
    departure_s = log["departure_s"].to_numpy(np.float64)
    requested_s, cores = log["requested_s"].to_numpy(np.float64), log["cpu_cores"].to_numpy(np.float64)
    took = departure_s - arrival_s
    of_day = np.flatnonzero((submit_s >= begin_s) & (submit_s < begin_s + DAY_S) & (took > 0))
    is_past = (departure_s <= begin_s) & (took > 0)
    past = np.flatnonzero(is_past & np.isin(key, key[of_day]))
    past = past[np.lexsort((departure_s[past], key[past]))]
    first, last = (np.searchsorted(key[past], key[of_day], side) for side in ("left", "right"))
    jobs, rows, work = [], [], []
    for row, low, high in zip(of_day.tolist(), first.tolist(), last.tolist(), strict=True):
        own = past[low:high][-most_runs:]
        if np.isfinite(requested_s[row]):
            own = own[took[own] <= requested_s[row]]
        if len(own) < least_runs:
            continue
        durations = np.maximum(np.ceil(took[own] / step_s), 1).astype(np.int64)
        limit_s = requested_s[row] if np.isfinite(requested_s[row]) else float(took[own].max())
        start = int(submit_s[row] - begin_s) // step_s
        flexibility = flexibility_s // step_s
        jobs.append(Job(f"{row}", start, flexibility,
                        start + flexibility + max(int(np.ceil(limit_s / step_s)), int(durations.min())), durations,
                        cores[own]))
        rows.append(row)
        work.append(float((durations * cores[own]).mean()))
    if not jobs:
        return None
    kept = np.sort(np.argsort(-np.array(work), kind="stable")[:max_jobs])
    chosen = np.array(rows, np.int64)[kept]
    real = np.maximum(np.ceil(took[chosen] / step_s), 1).astype(np.int64)
    return RecurringDay(Instance(tuple(jobs[k] for k in kept.tolist()), float(step_s)),
                        Runs(real[None], cores[chosen][None, :, None]), chosen)
