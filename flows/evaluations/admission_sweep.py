"""The paper's experiments on one trace: ratios over cores, slacks, sigmas and limits of width; its findings judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

import pandas as pd

from sojourn.flows.evaluations.admission_runs import SIGMA_SHARE, Entry, Setting, Task, run_tasks
from sojourn.flows.placement.submitted_jobs import SubmittedJobs, busiest_days, jobs_by_day

Progress = Callable[[int, int], None]
_Tasks = dict[tuple[int, tuple[Entry, ...]], list[Task]]
"""By limit and the rules that are compared on them."""
LIMITS = (1, 30, 120, 5_000)
"""Jobs on more cores are left out."""
SHARES = (0.5, 1.0, 1.6)
"""Of the cores that a day's load would fill: scarce, as many, and plenty."""
FIGURE_SHARES = (0.25, 0.5, 0.75, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0)
SLACKS = (0.01, 0.1, 0.5, 0.9)
FIGURE_SLACKS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SIGMA_SHARES = (3.0, 2.8, 2.6, 2.4, 2.2, 2.0)
"""The slack divided by these is the sigma of the logarithm (table 1 of the paper)."""
BEST_FIT, BALANCED, MIN_IDLE = (Entry("greedy", name) for name in ("best-fit", "balanced", "min-idle"))
THRESHOLD = Entry("threshold", "best-fit")
_FILLED = tuple(Entry("greedy", name, True) for name in ("best-fit", "balanced", "min-idle"))
_WIDE = (BEST_FIT, BALANCED, MIN_IDLE, *_FILLED)
ENTRIES: Mapping[int, tuple[Entry, ...]] = MappingProxyType({
    1: (BEST_FIT, BALANCED, THRESHOLD), 30: _WIDE, 120: _WIDE, 5_000: (BEST_FIT, BALANCED, MIN_IDLE)})
"""Backfilling up to 30 and 120 cores, as in figure 8."""
WIDE_DRAWS = 3
"""Draws for jobs on several cores, at most: a draw changes little there, and backfilling takes long."""


def sweep_days(jobs: SubmittedJobs, trace: str, n_days: int, n_draws: int, seed: int, n_workers: int,
               progress: Progress) -> pd.DataFrame:
    """Rows of all rules on the days with the most jobs, by `limit`, `share` and slack; empty without such jobs.

    A limit under which the jobs are those of the limit before is left out.
    """
    tasks: _Tasks = {(limit, ENTRIES[limit]): [] for limit in LIMITS}
    for limit, days in _distinct(jobs):
        for day in busiest_days(days, n_days):
            own = days[day]
            for slack in SLACKS:
                for share in SHARES:
                    setting = Setting(slack, slack / _sigma_share(slack), own.filled_cores(share),
                                      marks=(("limit", limit), ("share", share)))
                    tasks[limit, ENTRIES[limit]].append(Task(trace, day, own, setting, _n_draws(limit, n_draws)))
    return _run(tasks, seed, n_workers, progress)


def sweep_figures(jobs: SubmittedJobs, trace: str, n_draws: int, seed: int, n_workers: int,
                  progress: Progress) -> pd.DataFrame:
    """Rows of the day with the most jobs, over the grids of the paper's figures; of limit 1 also of the days with the
    most load and with a middle number of jobs. `part`: which grid."""
    tasks: _Tasks = {}
    for limit, days in _distinct(jobs):
        most, n = busiest_days(days, 1)[0], _n_draws(limit, n_draws)
        whole, pair = tasks.setdefault((limit, ENTRIES[limit]), []), (BEST_FIT, BALANCED)
        for slack in FIGURE_SLACKS:  # maps of wide jobs show two rules only
            own = whole if limit == 1 or slack == 0.5 else tasks.setdefault((limit, pair), [])
            own += _over_cores(trace, most, days[most], limit, slack, SIGMA_SHARE, 0, n)
        if limit > 1:
            continue
        by_size = sorted(days, key=lambda day: (len(days[day]), day))
        most_load = max(days, key=lambda day: (days[day].load_s, -day))
        for part, day in ((1, most_load), (2, by_size[3 * len(by_size) // 4])):
            whole += _over_cores(trace, day, days[day], limit, 0.5, SIGMA_SHARE, part, n)
        whole += _over_cores(trace, most, days[most], limit, 0.01, 2.0, 0, n)
        for sigma_share in SIGMA_SHARES:
            whole += _over_cores(trace, most, days[most], limit, 0.8, sigma_share, 3, n)
    return _run(tasks, seed, n_workers, progress)


def _n_draws(limit: int, n_draws: int) -> int:
    return n_draws if limit == 1 else min(n_draws, WIDE_DRAWS)


def _over_cores(trace: str, day: int, jobs: SubmittedJobs, limit: int, slack: float, sigma_share: float, part: int,
                n_draws: int) -> Iterator[Task]:
    seen: set[int] = set()
    for share in FIGURE_SHARES:
        n_cores = jobs.filled_cores(share)
        if n_cores not in seen:  # no more than the widest job's
            marks = (("limit", limit), ("share", share), ("part", part), ("sigma_share", sigma_share))
            yield Task(trace, day, jobs, Setting(slack, slack / sigma_share, n_cores, marks=marks), n_draws)
        seen.add(n_cores)


def _distinct(jobs: SubmittedJobs) -> Iterator[tuple[int, dict[int, SubmittedJobs]]]:
    n_before = 0
    for limit in LIMITS:
        days = jobs_by_day(jobs, limit)
        n = sum(map(len, days.values()))
        if n > n_before:
            yield limit, days
        n_before = n


def _sigma_share(slack: float) -> float:
    """As in figure 5a, the least slack has the least sigma share."""
    return 2.0 if slack == 0.01 else SIGMA_SHARE


def _shown(progress: Progress, before: int, n_all: int, done: int, _: int) -> None:
    progress(before + done, n_all)


def _run(tasks: _Tasks, seed: int, n_workers: int, progress: Progress) -> pd.DataFrame:
    n_done, n_all, parts = 0, sum(map(len, tasks.values())), []
    for (_, entries), own in tasks.items():
        if own:
            parts.append(run_tasks(own, entries, seed, n_workers, partial(_shown, progress, n_done, n_all)))
            n_done += len(own)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
