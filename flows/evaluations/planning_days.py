"""Planners on the synthetic days of COSPiS, section 5.4: one row for each day and planner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pandas as pd

from sojourn.flows.console import Report
from sojourn.flows.evaluations.planner_rows import planner_rows
from sojourn.flows.placement.workloads import t_half_width
from sojourn.simulator.planning import (
    PLANNERS,
    Instance,
    Job,
    Limits,
    PlanSettings,
    Reading,
    drawn_runs,
    synthetic_day,
)

SIZES = (10, 20, 30, 40, 50, 60)
BASELINE = "det-p50"
READINGS: tuple[Reading, ...] = get_args(Reading)


def day_rows(day: Instance, held_out: Sequence[Job], names: Sequence[str], settings: PlanSettings,
             key: Sequence[int]) -> list[dict[str, Any]]:
    """One row of `plan_row` for each planner, all executed on the same 50 runs. key: seeds those runs."""
    runs = drawn_runs(held_out, np.random.default_rng([*key, 1]))
    return planner_rows(day, runs, {name: (name, day) for name in names}, settings, BASELINE)


def synthetic_rows(reading: Reading, n_seeds: int, report: Report, *, tightness: float | None = None,
                   names: Sequence[str] = tuple(PLANNERS), limit_s: float = 10.0) -> pd.DataFrame:
    """Rows of all sizes x seeds x planners, with `n` and `seed`."""
    rows = []
    days = [(n, seed) for n in SIZES for seed in range(n_seeds)]
    for done, (n, seed) in enumerate(days):
        report(done, len(days))
        day, held_out = synthetic_day(n, np.random.default_rng([n, seed]), reading=reading, tightness=tightness)
        settings = PlanSettings(limits=Limits(limit_s=limit_s, seed=seed))
        rows += [{"n": n, "seed": seed, **row} for row in day_rows(day, held_out, names, settings, (n, seed))]
    return pd.DataFrame(rows)


def tight_rows(n_seeds: int, report: Report, *, limit_s: float = 10.0) -> pd.DataFrame:
    """Rows of tight days x planners, with `seed`."""
    rows = []
    for seed in range(n_seeds):
        report(seed, n_seeds)
        day, held_out = tight_day(seed)
        settings = PlanSettings(limits=Limits(limit_s=limit_s, seed=seed))
        rows += [{"seed": seed, **row} for row in day_rows(day, held_out, tuple(PLANNERS), settings, (30, seed))]
    return pd.DataFrame(rows)


def grid_rows(n_samples: Sequence[int], alphas: Sequence[float], n_seeds: int, report: Report) -> pd.DataFrame:
    """COSPiS by K and alpha on tight days of 30 jobs (section 5.3.1), with `n_samples`, `alpha` and `seed`."""
    rows = []
    cells = [(k, alpha, seed) for k in n_samples for alpha in alphas for seed in range(n_seeds)]
    for done, (k, alpha, seed) in enumerate(cells):
        report(done, len(cells))
        day, held_out = tight_day(seed)
        settings = PlanSettings(k, alpha, limits=Limits(limit_s=5.0, seed=seed))
        rows += [{"n_samples": k, "asked_alpha": alpha, "seed": seed, **row}
                 for row in day_rows(day, held_out, ("none", "cospis"), settings, (30, seed))
                 if row["planner"] == "cospis"]
    return pd.DataFrame(rows)


def tight_day(seed: int, n: int = 30) -> tuple[Instance, tuple[Job, ...]]:
    """A day whose deadlines bind, for alpha: half of the slack that flexibility leaves is taken away, and then the time
    by which the longest past run exceeds the 80th percentile.

    Requested starts lie closer than in the paper, 15 s a job, so that jobs must move. On some of these days no schedule
    keeps the deadlines of all past runs.
    """
    day, held_out = synthetic_day(n, np.random.default_rng([n, seed]), tightness=0.5, makespan=15 * n)
    cut = [job.deadline - int(job.durations.max() - np.quantile(job.durations, 0.8, method="inverted_cdf"))
           for job in day.jobs]
    jobs = tuple(replace(job, deadline=deadline) for job, deadline in zip(day.jobs, cut, strict=True))
    return Instance(jobs), tuple(replace(job, deadline=deadline)
                                 for job, deadline in zip(held_out, cut, strict=True))


def summary(rows: pd.DataFrame, pair: Sequence[str], baseline: str = BASELINE) -> pd.DataFrame:
    """One row a planner: means over days, and the reduction less the baseline's of the same day with half of its 95 %
    t-interval over days. pair: columns that name a day.

    >>> two = pd.DataFrame({"day": [0, 0, 1, 1], "planner": ["det-p50", "cospis"] * 2, "status": "optimal",
    ...     "reduction_pct": [10.0, 16.0, 12.0, 20.0], "under_pct": 0.0, "over_pct": 0.0, "late_s": 0.0,
    ...     "seconds": [0.1, 0.2, 0.3, 0.9], "gap_pct": 0.0})
    >>> summary(two, ["day"])[["reduction_pct", "against_pp", "most_seconds"]].round(2).values.tolist()
    [[11.0, 0.0, 0.3], [18.0, 7.0, 0.9]]
    """
    wide = rows.pivot_table(index=list(pair), columns="planner", values="reduction_pct", sort=False)
    found = []
    for name in wide.columns:
        own = rows[rows["planner"] == name]
        difference = (wide[name] - wide[baseline]).dropna().to_numpy(np.float64)
        found.append({
            "planner": name, "n_days": len(own), "reduction_pct": own["reduction_pct"].mean(),
            "against_pp": difference.mean(), "against_half_pp": float(t_half_width(difference[:, None])[0]),
            "under_pct": own["under_pct"].mean(), "over_pct": own["over_pct"].mean(), "late_s": own["late_s"].mean(),
            "optimal_pct": 100.0 * (own["status"] == "optimal").mean(), "gap_pct": own["gap_pct"].mean(),
            "seconds": own["seconds"].mean(), "most_seconds": own["seconds"].max()})
    return pd.DataFrame(found)


def means_of_grid(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """A table K x alpha of each of the four metrics (figure 11)."""
    for column in ("reduction_pct", "late_s", "under_pct", "over_pct"):
        yield column, rows.pivot_table(index="n_samples", columns="asked_alpha", values=column)
