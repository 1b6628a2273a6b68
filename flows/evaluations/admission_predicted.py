"""Admission when processing times are only predicted: quantiles of a lifetime model beside the user's estimate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from sojourn.flows.evaluations.admission_runs import Setting, jobs_with_deadlines, setting_deadlines
from sojourn.flows.evaluations.admission_tables import paired_summary, verdict
from sojourn.flows.placement.submitted_jobs import DAY_S, SubmittedJobs
from sojourn.flows.reports.section import Section
from sojourn.simulator.admission import admit_predicted, ratio_of

TRUE, ESTIMATE, NO_ESTIMATE = "true time", "user estimate", "one day for each"
BASES = ("run time", "estimate")
"""What a deadline's slack is a share of."""
Plans = Mapping[str, np.ndarray]
"""By label, what is taken for the processing time of each job, float64 (n,)."""
_MEANS = ("accepted_jobs_pct", "accepted_load_pct", "on_time_pct", "late_load_pct", "late_jobs_pct")
LEGEND = ("On time: core-hours of accepted jobs that ended by their deadline, % of the submitted (higher = better). "
          "Diff.: of that to the user's estimate, percentage points, with the paired 95 % t-interval over days of the "
          "means over draws. Lost: core-hours of accepted jobs that were late, % of the submitted; late: % of the "
          "accepted jobs (both lower = better). Capped: by the user's estimate. Deadline of: whether the slack is a "
          "share of the run time, as in the paper, or of the user's estimate.")


def plans_of(jobs: SubmittedJobs, quantiles: np.ndarray, shares: Sequence[float], name: str, *,
             is_estimated: bool = True) -> Plans:
    """The user's estimate (a day where there is none), the truth, and the quantiles (n_shares, n) of the model: as they
    are, and capped by the estimate, at which most schedulers end a job.

    is_estimated: whether some job of the trace has an estimate; without any, a day for each is no user's estimate, and
    nothing is capped by it."""
    estimate = np.maximum(np.where(np.isnan(jobs.estimate_s), float(DAY_S), jobs.estimate_s), 1.0)
    labels = [f"{name} p{100 * share:g}" for share in shares]
    plans = {ESTIMATE if is_estimated else NO_ESTIMATE: estimate, TRUE: jobs.processing_s.astype(np.float64),
             **dict(zip(labels, quantiles, strict=True))}
    if not is_estimated:
        return plans
    return {**plans, **{f"{label} capped": np.minimum(row, estimate)
                        for label, row in zip(labels, quantiles, strict=True)}}


def predicted_runs(days: Mapping[int, SubmittedJobs], plans: Mapping[int, Plans], settings: Sequence[Setting],
                   n_draws: int, seed: int, allocation: str, progress: Callable[[int, int], None]) -> pd.DataFrame:
    """A row per setting, basis of deadlines, day, draw and plan; `label` says which plan."""
    bases = BASES if all(ESTIMATE in own for own in plans.values()) else BASES[:1]
    rows, n_done, n_all = [], 0, len(days) * len(settings) * len(bases)
    for setting in settings:
        for basis in bases:
            for day, submitted in days.items():
                rows += _day_rows(submitted, plans[day], setting, basis, day, n_draws, seed, allocation)
                n_done += 1
                progress(n_done, n_all)
    return pd.DataFrame(rows)


def _day_rows(submitted: SubmittedJobs, plans: Plans, setting: Setting, basis: str, day: int, n_draws: int, seed: int,
              allocation: str) -> list[dict[str, float | int | str]]:
    n_cores = setting.n_cores or submitted.filled_cores()
    rows: list[dict[str, float | int | str]] = []
    for draw in range(n_draws):
        jobs = jobs_with_deadlines(submitted, setting, seed, day, draw)
        if basis == "estimate":
            jobs = setting_deadlines(jobs, plans[ESTIMATE], setting, seed, day, draw)
        load = jobs.processing_s * jobs.cores
        limit_s = min(jobs.load_s, n_cores * jobs.frame_s)
        for label, planned in plans.items():
            run = admit_predicted(jobs, planned, n_cores, allocation)
            accepted = int(load[run.is_accepted].sum())
            late = int(load[run.is_late].sum())
            n_accepted = int(run.is_accepted.sum())
            rows.append({
                "slack": setting.slack, "basis": basis, "day": day, "draw": draw, "label": label, "n_jobs": len(jobs),
                "n_cores": n_cores, "accepted_jobs_pct": 100 * n_accepted / len(jobs),
                "accepted_load_pct": 100 * accepted / jobs.load_s, "on_time_pct": 100 * (accepted - late) / jobs.load_s,
                "late_load_pct": 100 * late / jobs.load_s,
                "late_jobs_pct": 100 * int(run.is_late.sum()) / max(n_accepted, 1),
                "ratio": ratio_of(limit_s, accepted - late)})
    return rows


def predicted_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over days by slack, basis and plan; `gain_pp`: load on time above that of the baseline, percentage points,
    with `low` and `high`, the paired 95 % t-interval over days. The baseline is the user's estimate; without any in the
    trace, a day for each job."""
    within = ("slack", "basis")
    days = runs.groupby([*within, "label", "day"], sort=False)[list(_MEANS)].mean().reset_index()
    return paired_summary(days, within, ("day",), _baseline(runs["label"]), "on_time_pct", "gain_pp", _MEANS)


def _baseline(labels: pd.Series) -> str:
    return ESTIMATE if (labels == ESTIMATE).any() else NO_ESTIMATE


def predicted_section(summary: pd.DataFrame, caption: str) -> Section:
    """The summary as a table."""
    rows, baseline = [], _baseline(summary["label"])
    for row in summary.to_dict("records"):
        has_interval = row["label"] != baseline and not np.isnan(row["low"])
        rows.append((f"{row['slack']:g}", row["basis"], row["label"], f"{row['on_time_pct']:.1f}",
                     "-" if row["label"] == baseline else f"{row['gain_pp']:+.1f}",
                     f"{row['low']:+.1f} {row['high']:+.1f}" if has_interval else "-",
                     "baseline" if row["label"] == baseline else verdict(-row["high"], -row["low"]),
                     f"{row['accepted_load_pct']:.1f}", f"{row['late_load_pct']:.1f}", f"{row['late_jobs_pct']:.1f}"))
    titles = ("slack", "deadline of", "planned by", "on time %", "diff. pp", "interval", "verdict", "accepted %",
              "lost %", "late %")
    return Section("Admission by predicted processing times", caption, titles, tuple(rows), 3, LEGEND)
