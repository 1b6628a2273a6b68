"""Runs of admission: a trace's jobs by day as they were submitted, each day with each draw of slacks
under all rules, and the table of results."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from sojourn.features.trace import Trace
from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.reports.section import Section
from sojourn.flows.workers.dask import local_workers, run_grouped
from sojourn.simulator.admission import (
    AdmissionJobs,
    Decisions,
    PowerProfile,
    accepted_load_s,
    admit,
    competitive_bound,
    deadlines_of,
    drawn_slacks,
    energy_kwh,
    ratio_of,
)
from sojourn.simulator.measures import interval_text, signed_text

DAY_S = 86_400
SHORTEST_S = 60
"""Shorter jobs are mostly failures at the start (section 3 of the paper)."""
BACKFILL = " backfill"
"""At the end of the label of an entry with backfilling."""
Row = dict[str, float | int | str | bool]
BOUNDED = "greedy best-fit"
"""The rule that theorem 1 is about."""
WORTH_PROCESSES = 20_000_000
"""So many decisions take longer than processes take to begin."""
SIGMA_SHARE = 2.5
"""The sigma of the logarithm is the slack divided by this by default, the middle of the paper's range."""
_MEANS = ("n_jobs", "n_cores", "ratio", "accepted_load_pct", "accepted_jobs_pct", "used_pct", "kwh_per_core_h", "bound",
          "took_s")
LEGEND = ("Ratio: the least of submitted load and cores x frame over the accepted load, 1 = the best (lower = better). "
          "Diff.: of the ratio to the first row, paired on days and draws, with the 95 % t-interval over days of the "
          "means over draws; level = it holds 0. Load: accepted, % of the submitted load. Used: % of cores x frame "
          "(both higher = better). kWh: per accepted core-hour by the linear model (lower = better). Theorem 1: the "
          "optimum is at most so many times the accepted load; greedy best-fit and sequential jobs only.")


@dataclass(frozen=True, slots=True)
class SubmittedJobs:
    """Jobs in order of submission; arrays of shape (n,).

    names: as in the trace. submission_s, processing_s, cores: int64. estimate_s: float64, what the user asked for, NaN
    = nothing. row: int64, of the trace's request; of a job of several tasks the first one.
    """

    names: np.ndarray
    submission_s: np.ndarray
    processing_s: np.ndarray
    cores: np.ndarray
    estimate_s: np.ndarray
    row: np.ndarray

    def __len__(self) -> int:
        return len(self.names)

    def take(self, rows: np.ndarray) -> SubmittedJobs:
        """The jobs of these indices or of this mask."""
        return SubmittedJobs(*(getattr(self, name)[rows] for name in (
            "names", "submission_s", "processing_s", "cores", "estimate_s", "row")))

    @property
    def load_s(self) -> int:
        """Core-seconds of all jobs."""
        return int((self.processing_s * self.cores).sum())

    def filled_cores(self, share: float = 1.0) -> int:
        """So many cores that the load would fill them from the first submission to the end of the last job, were each
        to run at once; times `share`, at least the widest job's."""
        span = int((self.submission_s + self.processing_s).max() - self.submission_s.min())
        return max(round(share * -(-self.load_s // span)), int(self.cores.max()))


def submitted_jobs(trace: Trace) -> SubmittedJobs:
    """Jobs whose start and end were both observed; submission counts from the trace's begin.

    Submission: the column that the trace names (`meta["submit_column"]`), else arrival. Cores: rounded up, at least 1.
    A trace whose requests are tasks of a `job` (google-2011) has one rigid job of all its tasks: a core a task,
    submitted with the first one, running as long as its longest task; a task that ran several times has them added.
    A job of which a task has not ended is left out.
    """
    requests = trace.requests
    is_whole = trace.is_start_known() & trace.is_event()
    column = str(trace.meta.get("submit_column", "arrival_s"))
    submission = requests[column].fillna(trace.begin_s).to_numpy(np.int64) - trace.begin_s
    if "queued_s" in requests:
        submission = submission - requests["queued_s"].fillna(0.0).to_numpy().astype(np.int64)
    estimate = np.full(len(trace), np.nan)
    if "requested_s" in requests:
        estimate = requests["requested_s"].to_numpy(np.float64)
    cores = np.maximum(np.ceil(requests["cpu_cores"].to_numpy(np.float64)), 1).astype(np.int64)
    table = pd.DataFrame({"name": requests["request_id"].astype(str), "submission_s": submission,
                          "processing_s": trace.lifetime_s(), "cores": cores, "estimate_s": estimate,
                          "row": np.arange(len(trace)), "is_whole": is_whole})
    if "job" in requests and "n_scheduled_before" in requests:
        table = _whole_jobs(table, requests["job"].astype(str))
    table = table[table["is_whole"] & (table["submission_s"] >= 0)].sort_values("submission_s", kind="stable")
    return SubmittedJobs(*(table[name].to_numpy() for name in (
        "name", "submission_s", "processing_s", "cores", "estimate_s", "row")))


def _whole_jobs(tasks: pd.DataFrame, job: pd.Series) -> pd.DataFrame:
    """One row a job, of tasks named JOB-INDEX-N."""
    task = tasks["name"].str.rsplit("-", n=1).str[0]
    by_task = tasks.assign(job=job.to_numpy(), task=task).groupby(["job", "task"], sort=False).agg(
        submission_s=("submission_s", "min"), processing_s=("processing_s", "sum"), row=("row", "min"),
        is_whole=("is_whole", "all")).reset_index()
    return by_task.groupby("job", sort=False).agg(
        submission_s=("submission_s", "min"), processing_s=("processing_s", "max"), cores=("task", "size"),
        row=("row", "min"), is_whole=("is_whole", "all")).reset_index().rename(columns={"job": "name"}).assign(
            estimate_s=np.nan)


def jobs_by_day(jobs: SubmittedJobs, core_limit: int | None = None, *, shortest_s: int = SHORTEST_S,
                longest_s: int = DAY_S) -> dict[int, SubmittedJobs]:
    """The jobs of each day of submission, their times from its start; jobs that are shorter or longer than the limits,
    or need more cores than core_limit, are left out. Days without jobs do not appear."""
    is_kept = (jobs.processing_s >= shortest_s) & (jobs.processing_s <= longest_s)
    if core_limit is not None:
        is_kept &= jobs.cores <= core_limit
    kept = jobs.take(is_kept)
    day = kept.submission_s // DAY_S
    found = {}
    for each in np.unique(day).tolist():
        own = kept.take(day == each)
        found[each] = SubmittedJobs(own.names, own.submission_s - each * DAY_S, own.processing_s, own.cores,
                                    own.estimate_s, own.row)
    return found


def busiest_days(days: dict[int, SubmittedJobs], n: int) -> list[int]:
    """The n days with the most jobs, in order of time; the earlier ones where that is equal.

    >>> one = SubmittedJobs(*(np.array([value]) for value in ("a", 0, 60, 1, np.nan, 0)))
    >>> two = SubmittedJobs(*(np.repeat(value, 2) for value in ("b", 0, 90, 1, np.nan, 0)))
    >>> busiest_days({3: two, 4: one, 7: two}, 2)
    [3, 7]
    """
    return sorted(sorted(days, key=lambda day: (-len(days[day]), day))[:n])


@dataclass(frozen=True, slots=True)
class Entry:
    """A way to admit. acceptance: for tables."""

    allocation: str
    is_backfilling: bool = False
    acceptance: ClassVar[str] = "greedy"

    @property
    def label(self) -> str:
        """As in tables."""
        return f"{self.acceptance} {self.allocation}{BACKFILL if self.is_backfilling else ''}"

    def decisions(self, jobs: AdmissionJobs, n_cores: int, setting: Setting) -> Decisions:
        """About all jobs, from idle cores."""
        return admit(jobs, n_cores, self.allocation, is_backfilling=self.is_backfilling, power=setting.power,
                     with_cores=False)


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
        decisions = entry.decisions(jobs, n_cores, setting)
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


def day_means(runs: pd.DataFrame, keys: tuple[str, ...] = ("slack", "label")) -> pd.DataFrame:
    """Means over the draws of each day, a row per `keys`, trace and day."""
    numbers = [name for name in (*_MEANS, "limit_core_h", "accepted_core_h") if name in runs]
    return runs.groupby([*keys, "trace", "day"], sort=False)[numbers].mean().reset_index()


def summary_of(runs: pd.DataFrame, within: tuple[str, ...] = ("slack",)) -> pd.DataFrame:
    """A row per `within` and entry: means over days; `difference` of the ratio to the entry that comes first, with
    `low` and `high`, the paired 95 % t-interval over days (NaN for one day).

    >>> runs = pd.DataFrame({"slack": 0.5, "label": ["a", "b"] * 2, "trace": "t", "day": [0, 0, 1, 1],
    ...                      "ratio": [2.0, 1.5, 2.0, 1.7]})
    >>> summary_of(runs)[["label", "ratio", "difference"]].round(3).values.tolist()
    [['a', 2.0, 0.0], ['b', 1.6, -0.4]]
    """
    days = day_means(runs, (*within, "label"))
    numbers = [name for name in _MEANS if name in days]
    return paired_summary(days, within, ("trace", "day"), str(days["label"].iloc[0]), "ratio", "difference", numbers)


def paired_summary(days: pd.DataFrame, within: Sequence[str], pair: Sequence[str], baseline: str, of: str, name: str,
                   numbers: Sequence[str]) -> pd.DataFrame:
    """A row per `within` and label: `n_days`, means of `numbers`, and `name`, the difference of `of` to the baseline's
    on the same `pair`, with `low` and `high`, the 95 % t-interval over rows of `days` (NaN for one)."""
    same = [*within, *pair]
    base = days[days["label"] == baseline].set_index(same)[of]
    days[name] = days[of].to_numpy() - base.reindex(pd.MultiIndex.from_frame(days[same])).to_numpy()
    groups = days.groupby([*within, "label"], sort=False)
    summary = groups[[*numbers, name]].mean()
    half = groups[name].apply(lambda own: float(t_half_width(own.to_numpy()[:, None])[0]))
    summary["low"], summary["high"] = summary[name] - half, summary[name] + half
    summary.insert(0, "n_days", groups.size())
    return summary.reset_index()


def admission_section(summary: pd.DataFrame, title: str, caption: str) -> Section:
    """The summary for the terminal and the results page."""
    titles = ("slack", "rule", "ratio", "diff.", "interval", "verdict", "load %", "used %", "kWh", "theorem 1")
    baseline = str(summary["label"].iloc[0])
    rows = tuple(_shown(row, baseline) for row in summary.to_dict("records"))
    return Section(title, caption, titles, rows, 2, LEGEND)


def verdict(low: float, high: float) -> str:
    """Of a difference of ratios, where lower is better.

    >>> verdict(-0.2, -0.1), verdict(-0.1, 0.1), verdict(0.1, 0.2), verdict(float("nan"), float("nan"))
    ('better', 'level', 'worse', '-')
    """
    return "-" if np.isnan(low) else "better" if high < 0 else "worse" if low > 0 else "level"


def _shown(row: Mapping[Hashable, Any], baseline: str) -> tuple[str, ...]:
    is_base = row["label"] == baseline
    has_interval = not is_base and not np.isnan(row["low"])
    return (f"{row['slack']:g}", row["label"], f"{row['ratio']:.3f}",
            "-" if is_base else signed_text(row["difference"], 3),
            interval_text(row["low"], row["high"], 3, " ") if has_interval else "-",
            "baseline" if is_base else verdict(row["low"], row["high"]), f"{row['accepted_load_pct']:.1f}",
            f"{row['used_pct']:.1f}", f"{row['kwh_per_core_h']:.3f}",
            "-" if np.isnan(row["bound"]) else f"{row['bound']:.2f}")
