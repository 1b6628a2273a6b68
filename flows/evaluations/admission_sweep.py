"""The paper's experiments on one trace: ratios over cores, slacks, sigmas and limits of width; its findings judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

import pandas as pd

from sojourn.flows.evaluations.admission_runs import SIGMA_SHARE, Entry, Setting, Task, run_tasks
from sojourn.flows.placement.submitted_jobs import SubmittedJobs, busiest_days, jobs_by_day

Progress = Callable[[int, int], None]
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
ENTRIES: Mapping[int, tuple[Entry, ...]] = MappingProxyType({
    limit: (BEST_FIT, BALANCED, THRESHOLD) if limit == 1 else (BEST_FIT, BALANCED, MIN_IDLE, *_FILLED)
    for limit in LIMITS})


def sweep_days(jobs: SubmittedJobs, trace: str, n_days: int, n_draws: int, seed: int, n_workers: int,
               progress: Progress) -> pd.DataFrame:
    """Rows of all rules on the days with the most jobs, by `limit`, `share` and slack; empty without such jobs.

    A limit under which the jobs are those of the limit before is left out.
    """
    tasks: dict[int, list[Task]] = {limit: [] for limit in LIMITS}
    for limit, days in _distinct(jobs):
        for day in busiest_days(days, n_days):
            own = days[day]
            tasks[limit] += [Task(trace, day, own, Setting(slack, slack / _sigma_share(slack), own.filled_cores(share),
                                                           marks=(("limit", limit), ("share", share))), n_draws)
                             for slack in SLACKS for share in SHARES]
    return _run(tasks, seed, n_workers, progress)


def sweep_figures(jobs: SubmittedJobs, trace: str, n_draws: int, seed: int, n_workers: int,
                  progress: Progress) -> pd.DataFrame:
    """Rows of the day with the most jobs, over the grids of the paper's figures; of limit 1 also of the days with the
    most load and with a middle number of jobs. `part`: which grid."""
    tasks: dict[int, list[Task]] = {limit: [] for limit in LIMITS}
    for limit, days in _distinct(jobs):
        most = busiest_days(days, 1)[0]
        shown = [most]
        if limit == 1:
            by_size = sorted(days, key=lambda day: (len(days[day]), day))
            shown += [max(days, key=lambda day: (days[day].load_s, -day)), by_size[3 * len(by_size) // 4]]
        for place, day in enumerate(shown):
            for slack in (FIGURE_SLACKS if place == 0 else (0.5,)):
                tasks[limit] += _over_cores(trace, day, days[day], limit, slack, SIGMA_SHARE, place, n_draws)
        if limit == 1:
            tasks[limit] += _over_cores(trace, most, days[most], limit, 0.01, 2.0, 0, n_draws)
            for sigma_share in SIGMA_SHARES:
                tasks[limit] += _over_cores(trace, most, days[most], limit, 0.8, sigma_share, 3, n_draws)
    return _run(tasks, seed, n_workers, progress)


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


def _run(tasks: Mapping[int, list[Task]], seed: int, n_workers: int, progress: Progress) -> pd.DataFrame:
    n_done, n_all, parts = 0, sum(map(len, tasks.values())), []
    for limit, own in tasks.items():
        if own:
            before = n_done
            parts.append(run_tasks(own, ENTRIES[limit], seed, n_workers, partial(_shown, progress, before, n_all)))
            n_done += len(own)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
