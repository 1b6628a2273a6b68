"""Runs of admission: each day with each draw of slacks, all rules on the same jobs, in parallel processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from sojourn.flows.placement.submitted_jobs import SubmittedJobs
from sojourn.flows.workers.cells import local_workers, run_grouped
from sojourn.simulator.admission import (
    AdmissionJobs,
    PowerProfile,
    accepted_load_s,
    admit,
    competitive_bound,
    deadlines_of,
    drawn_slacks,
    energy_kwh,
    ratio_of,
)

BACKFILL = " backfill"
"""At the end of the label of an entry with backfilling."""
Row = dict[str, float | int | str | bool]
BOUNDED = "greedy best-fit"
"""The rule that theorem 1 is about."""
WORTH_PROCESSES = 20_000_000
"""So many decisions take longer than processes take to begin."""
SIGMA_SHARE = 2.5
"""The sigma of the logarithm is the slack divided by this by default, the middle of the paper's range."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A way to admit."""

    acceptance: str
    allocation: str
    is_backfilling: bool = False

    @property
    def label(self) -> str:
        """As in tables."""
        return f"{self.acceptance} {self.allocation}{BACKFILL if self.is_backfilling else ''}"


@dataclass(frozen=True, slots=True)
class Setting:
    """What all entries of a run share. sigma: None = slack / SIGMA_SHARE. n_cores: None = as many as the day's load
    fills. power: instead of n_cores; its time 0 is the start of each day."""

    slack: float
    sigma: float | None = None
    n_cores: int | None = None
    mean: str = "geometric"
    power: PowerProfile | None = None
    idle_w: float = 60.0
    busy_w: float = 100.0
    marks: tuple[tuple[str, float], ...] = ()
    """Further columns of its rows."""

    @property
    def log_sigma(self) -> float:
        """Of the logarithm of slacks."""
        return self.slack / SIGMA_SHARE if self.sigma is None else self.sigma


@dataclass(frozen=True, slots=True)
class Task:
    """The draws of one day under one setting."""

    trace: str
    day: int
    jobs: SubmittedJobs
    setting: Setting
    n_draws: int

    @property
    def n_decisions(self) -> int:
        """Jobs x draws."""
        return len(self.jobs) * self.n_draws


def jobs_with_deadlines(jobs: SubmittedJobs, setting: Setting, seed: int, day: int, draw: int) -> AdmissionJobs:
    """The day's jobs with the draw's deadlines. Settings that differ in slack and sigma alone scale the same draw."""
    deadline = deadlines_of(jobs.submission_s, jobs.processing_s, _slacks(len(jobs), setting, seed, day, draw))
    return AdmissionJobs(jobs.submission_s, jobs.processing_s, jobs.cores, deadline, tuple(map(str, jobs.names)))


def setting_deadlines(jobs: AdmissionJobs, length_s: np.ndarray, setting: Setting, seed: int, day: int,
                      draw: int) -> AdmissionJobs:
    """The jobs with the same slacks taken of other lengths, float64 (n,)."""
    whole = np.ceil(length_s).astype(np.int64)
    deadline = deadlines_of(jobs.submission_s, whole, _slacks(len(jobs), setting, seed, day, draw))
    return AdmissionJobs(jobs.submission_s, jobs.processing_s, jobs.cores, deadline, jobs.names)


def _slacks(n: int, setting: Setting, seed: int, day: int, draw: int) -> np.ndarray:
    rng = np.random.default_rng([seed, day, draw])
    return drawn_slacks(n, setting.slack, setting.log_sigma, rng, mean=setting.mean)


def run_task(numbered: tuple[int, Task], entries: Sequence[Entry], seed: int) -> list[Row]:
    """A row per draw and entry. ratio: lower = better; used_pct, accepted_load_pct, accepted_jobs_pct: higher = better;
    kwh_per_core_h: of accepted work, lower = better; bound: theorem 1, NaN where it says nothing."""
    task = numbered[1]
    return [row for draw in range(task.n_draws) for row in _draw_rows(task, draw, entries, seed)]


def _draw_rows(task: Task, draw: int, entries: Sequence[Entry], seed: int) -> list[Row]:
    setting = task.setting
    jobs = jobs_with_deadlines(task.jobs, setting, seed, task.day, draw)
    power = setting.power
    n_cores = power.most_cores if power else setting.n_cores or task.jobs.filled_cores()
    first, last = int(jobs.submission_s.min()), int(jobs.deadline_s.max())
    on_s = power.core_seconds(first, last) if power else n_cores * jobs.frame_s
    limit_s = min(jobs.load_s, on_s)
    least_slack = float(((jobs.deadline_s - jobs.submission_s) / jobs.processing_s - 1).min())
    is_bounded = int(jobs.cores.max()) == 1 and 0 < least_slack <= 1 and power is None
    rows: list[Row] = []
    for entry in entries:
        started = time.perf_counter()
        decisions = admit(jobs, n_cores, entry.allocation, acceptance=entry.acceptance, slack=setting.slack,
                          is_backfilling=entry.is_backfilling, power=power, with_cores=False)
        took_s = time.perf_counter() - started
        load_s = accepted_load_s(jobs, decisions)
        energy = energy_kwh(load_s, on_s, idle_w=setting.idle_w, busy_w=setting.busy_w)
        rows.append({
            "trace": task.trace, "day": task.day, "draw": draw, "slack": setting.slack,
            "sigma": setting.log_sigma, "n_cores": n_cores,
            "label": entry.label, "acceptance": entry.acceptance, "allocation": entry.allocation,
            "is_backfilling": entry.is_backfilling, "n_jobs": len(jobs), "ratio": ratio_of(limit_s, load_s),
            "limit_core_h": limit_s / 3_600, "accepted_core_h": load_s / 3_600,
            "accepted_load_pct": 100 * load_s / jobs.load_s,
            "accepted_jobs_pct": 100 * float(decisions.is_accepted.mean()), "used_pct": 100 * load_s / max(on_s, 1),
            "kwh_per_core_h": energy / (load_s / 3_600) if load_s else float("nan"),
            "bound": competitive_bound(n_cores, least_slack) if is_bounded and entry.label == BOUNDED else float("nan"),
            "took_s": took_s, **dict(setting.marks)})
    return rows


def run_tasks(tasks: Sequence[Task], entries: Sequence[Entry], seed: int, n_workers: int,
              progress: Callable[[int, int], None]) -> pd.DataFrame:
    """A row per task, draw and entry, in their order; the same whatever n_workers is, but for `took_s`.

    n_workers: processes, at most; for little work this one. progress: called with how many tasks are done, of all.
    """
    progress(0, len(tasks))
    if sum(task.n_decisions for task in tasks) * len(entries) < WORTH_PROCESSES:
        n_workers = 1
    found: dict[int, list[Row]] = {}
    work = partial(run_task, entries=tuple(entries), seed=seed)
    groups = [list(enumerate(tasks))[k::n_workers] for k in range(n_workers)]
    for done, ((number, _), rows) in enumerate(run_grouped(groups, work, local_workers(n_workers)), 1):
        if isinstance(rows, Exception):
            raise rows
        found[number] = rows
        progress(done, len(tasks))
    return pd.DataFrame([row for number in range(len(tasks)) for row in found[number]])
