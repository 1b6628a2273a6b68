"""The jobs of a trace as they were submitted: by day, without what is too short, too long or too wide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.features.trace import Trace

DAY_S = 86_400
SHORTEST_S = 60
"""Shorter jobs are mostly failures at the start (section 3 of the paper)."""


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
