"""Planners side by side, as in COSPiS: on synthetic days, on tight ones, on recurring jobs of a log.

    python -m studies planning synthetic|tight|grid|recurring|short-history [--trace LOG] [--n N] [--out FOLDER]

Tables on the terminal, rows (CSV) and pictures (PNG) in a folder, and a run in MLflow.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd
from rich.table import Table

from sojourn import __version__
from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.readers import read_trace
from sojourn.features.split import known_at, split_by_time
from sojourn.features.trace import Trace
from sojourn.flows.console import Report, console, stage
from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.plan import LEVELS
from sojourn.flows.reports.figures import plain
from sojourn.flows.reports.section import plan_row
from sojourn.flows.settings.store import StoreSettings, load_settings
from sojourn.flows.versions.promotion import open_store
from sojourn.models.curve_table import CurveTable
from sojourn.models.lifetime import LIFETIME_MODELS, FitSettings, LifetimeModel
from sojourn.publishing import whole_file
from sojourn.serving.inputs import Encoder
from sojourn.simulator.planning import Instance, Limits, PlanSettings, RecurringJob, Runs, drawn_runs, execute
from studies.planners import STUDIED, Reading, synthetic_day

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def planner_rows(day: Instance, runs: Runs, plans: Mapping[str, tuple[str, Instance]], settings: PlanSettings,
                 baseline: str) -> list[dict[str, Any]]:
    """One row of `plan_row` for each plan, held against `baseline`, or the first plan where that is none of them.

    day: as it is. plans: by label, a planner's name and the day as that planner sees it.
    """
    schedules = {label: STUDIED[name].plan(seen, settings) for label, (name, seen) in plans.items()}
    found = {label: execute(day, own, runs) for label, own in schedules.items()}
    against = found.get(baseline, next(iter(found.values())))
    return [plan_row(schedules[label], found[label], against) for label in plans]


SIZES = (10, 20, 30, 40, 50, 60)
BASELINE = "det-p50"
READINGS: tuple[Reading, ...] = get_args(Reading)


def day_rows(day: Instance, held_out: Sequence[RecurringJob], names: Sequence[str], settings: PlanSettings,
             key: Sequence[int]) -> list[dict[str, Any]]:
    """One row of `plan_row` for each planner, all executed on the same 50 runs. key: seeds those runs."""
    runs = drawn_runs(held_out, np.random.default_rng([*key, 1]))
    return planner_rows(day, runs, {name: (name, day) for name in names}, settings, BASELINE)


def synthetic_rows(reading: Reading, n_seeds: int, report: Report, *, tightness: float | None = None,
                   names: Sequence[str] = tuple(STUDIED), limit_s: float = 10.0) -> pd.DataFrame:
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
        rows += [{"seed": seed, **row} for row in day_rows(day, held_out, tuple(STUDIED), settings, (30, seed))]
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


def tight_day(seed: int, n: int = 30) -> tuple[Instance, tuple[RecurringJob, ...]]:
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


DAY_S = 86_400
ON_LOGS = ("none", "det-p50", "det-p100", "descent", "cospis", "cospis-even")
HISTORY_SHARE = 0.3
"""Of a log's days that are history only."""
_KEYS = ("user", "executable", "cpu_cores")
_WITHOUT_EXECUTABLE = ("user", "cpu_cores", "requested_s")


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
        jobs.append(RecurringJob(f"{row}", start, flexibility,
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


def recurring_days(trace: Trace, n_days: int, *, step_s: int = 60,
                   flexibility_s: int = 3_600) -> list[tuple[int, RecurringDay]]:
    """Days spread over the later part of a log, with at least five recurring jobs each, by number from its begin.

    A job recurs where user, executable and cores are the same; where the log has no executables, user, cores and
    requested time.
    """
    trace = trace.since_begin()
    requests = trace.requests
    columns = _KEYS if "executable" in requests else _WITHOUT_EXECUTABLE
    key = recurring_key(requests, tuple(name for name in columns if name in requests))
    last = trace.horizon_s // DAY_S - 2
    days = np.unique(np.linspace(int(HISTORY_SHARE * last), last, n_days).astype(np.int64))
    found = ((int(day), recurring_day(requests, key, int(day) * DAY_S, step_s=step_s, flexibility_s=flexibility_s))
             for day in days)
    return [(day, each) for day, each in found if each is not None and len(each.instance) >= 5]


def recurring_rows(days: Sequence[tuple[int, RecurringDay]], report: Report, *, names: Sequence[str] = ON_LOGS,
                   limit_s: float = 5.0) -> pd.DataFrame:
    """One row of `plan_row` for each day and planner, with `day` and `n`."""
    rows: list[dict[str, Any]] = []
    settings = PlanSettings(limits=Limits(limit_s=limit_s))
    for done, (day, each) in enumerate(days):
        report(done, len(days))
        found = planner_rows(each.instance, each.runs, {name: (name, each.instance) for name in names}, settings,
                             "det-p50")
        rows += [{"day": day, "n": len(each.instance), **row} for row in found]
    return pd.DataFrame(rows)


def cut_history(instance: Instance, n_runs: int) -> Instance:
    """The same day with the latest `n_runs` of each history; a deadline that these runs cannot meet is moved to their
    shortest, as a user would."""
    jobs = []
    for job in instance.jobs:
        durations = job.durations[-n_runs:]
        deadline = max(job.deadline, job.requested_start + int(durations.min()))
        jobs.append(replace(job, durations=durations, usage=job.usage[-n_runs:], deadline=deadline))
    return replace(instance, jobs=tuple(jobs))


def with_model_history(instance: Instance, table: CurveTable, least_runs: int) -> Instance:
    """The same day in which jobs with fewer than `least_runs` runs have quantiles of their predicted lifetime instead.

    table: the curve of each job, in their order. Quantiles are cut at what the deadline allows a job that starts at its
    latest; usage is that of the latest run. With `least_runs` above all histories every job is the model's.
    """
    if len(table) != len(instance):
        raise ValueError(f"table must have a curve for each of the {len(instance)} jobs, got {len(table)}")
    total_s = np.stack([table.quantile(float(level), 0.0) for level in LEVELS])
    steps = np.maximum(np.ceil(total_s / instance.step_s), 1).astype(np.int64)
    jobs = []
    for row, job in enumerate(instance.jobs):
        if len(job.durations) < least_runs:
            room = max(job.deadline - job.requested_start - job.flexibility, 1)
            job = replace(job, durations=np.minimum(steps[:, row], room),
                          usage=np.repeat(job.usage[-1:], len(LEVELS), axis=0))
        jobs.append(job)
    return replace(instance, jobs=tuple(jobs))


CUTS = (1, 2, 3, 5)
ON_SHORT_HISTORIES = "cospis-even"
FAMILY = "hazard"


def short_rows(trace: Trace, n_days: int, report: Report, *, limit_s: float = 5.0,
               flexibility_s: int = 3_600) -> pd.DataFrame:
    """One row of `plan_row` for each day and source of durations, in the column `planner`.

    `history N`: the latest N runs. `model`: 25 quantiles of the lifetime that `hazard` predicts, fitted on what had
    ended before the first of the days; its features of a day's jobs are what was known when the day began.
    """
    days = recurring_days(trace, n_days, flexibility_s=flexibility_s)
    encoder = default_encoder(trace)
    model = fitted_before(trace, encoder, trace.begin_s + days[0][0] * DAY_S)
    settings = PlanSettings(limits=Limits(limit_s=limit_s))
    rows: list[dict[str, Any]] = []
    for done, (day, each) in enumerate(days):
        report(done, len(days))
        table = day_curves(trace, encoder, model, each, trace.begin_s + day * DAY_S)
        sources: dict[str, Instance] = {f"history {n}": cut_history(each.instance, n) for n in CUTS}
        sources["history all"] = each.instance
        sources["model"] = with_model_history(each.instance, table, 1 << 30)
        plans = {name: (ON_SHORT_HISTORIES, own) for name, own in sources.items()}
        found = planner_rows(each.instance, each.runs, plans, settings, "history 1")
        rows += [{"day": day, **row, "planner": name} for name, row in zip(sources, found, strict=True)]
    return pd.DataFrame(rows)


def known_before(trace: Trace, at_s: int, later: pd.DataFrame | None = None) -> Trace:
    """What was known at `at_s`: requests that had begun to run, those that ran on without an end. later: requests of
    the time after it, as submitted, appended without an end."""
    requests = trace.requests[trace.requests["arrival_s"] < at_s].copy()
    requests["submit_s"] = np.minimum(requests["submit_s"], requests["arrival_s"])
    requests["departure_s"] = requests["departure_s"].where(requests["departure_s"] <= at_s)
    horizon_s = at_s
    if later is not None:
        requests = pd.concat([requests, later], ignore_index=True)
        horizon_s = max(at_s, int(later["arrival_s"].max())) + 1
    return Trace(requests, horizon_s, trace.roles, trace.hosts, None, trace.meta)


def fitted_before(trace: Trace, encoder: Encoder, at_s: int) -> LifetimeModel:
    """The family `FAMILY`, fitted on what was known at `at_s`."""
    rows = build_rows(known_before(trace, at_s), encoder)
    split = split_by_time(rows, test_share=0.02)
    return LIFETIME_MODELS[FAMILY]().fit(split.train, split.valid, split.past,
                                         FitSettings(backoff_keys(encoder), n_threads=2, names=rows.names))


def day_curves(trace: Trace, encoder: Encoder, model: LifetimeModel, each: RecurringDay, begin_s: int) -> CurveTable:
    """Lifetime curves of a day's jobs by what was known when it began; their requested starts are known, no end is."""
    later = trace.requests.iloc[each.rows].copy()
    later["arrival_s"] = later["submit_s"]
    later["departure_s"] = np.nan
    if "status" in later:
        later["status"] = -1  # known at the end only
    known = known_before(trace, begin_s, later)
    rows = build_rows(known, encoder)
    everything = known_at(rows, np.ones(len(rows), bool), None, is_late_entry=False)
    ids = pd.Index(known.requests["request_id"].to_numpy()[rows.idx_request])
    return model.curve_table(everything.take(ids.get_indexer(pd.Index(later["request_id"]))))


_COLOURS = {"none": "#b5483a", "greedy": "#c2a21c", "descent": "#7a5236", "milp": "#d98c3f", "cospis": "#3b6fb5",
            "cospis-even": "#7b6bb0", "soru-peak": "#c765a5"}
_DET = "#1b7f79"
_METRICS = (("reduction_pct", "peak reduction, %\n(higher = better)"),
            ("under_pct", "capacity under-estimated, %\n(lower = better)"),
            ("over_pct", "capacity over-estimated, %\n(lower = better)"),
            ("late_s", "time behind deadlines, s a run\n(lower = better)"))


def planners_figure(rows: pd.DataFrame, title: str) -> Figure:
    """The four metrics of each planner over days, as boxes (figures 8, 9 and 10). rows: of `synthetic_rows`."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(rows["planner"]))
    figure = Figure(figsize=(12, 7.6), layout="constrained")
    for axes, (column, label) in zip(np.ravel(figure.subplots(2, 2)), _METRICS, strict=True):
        _boxes(axes, [rows[rows["planner"] == name][column].to_numpy() for name in names], np.arange(len(names)),
               [_colour(name) for name in names], 0.6)
        axes.set_xticks(range(len(names)), names, rotation=35, ha="right", fontsize=8)
        axes.set_ylabel(label)
        plain(axes)
    figure.suptitle(title, fontsize=10, x=0.02, ha="left", color="#444444")
    return figure


def sizes_figure(rows: pd.DataFrame, names: Sequence[str], title: str) -> Figure:
    """Observed peak and the metrics by number of jobs (figures 12, 13, 14 and 15)."""
    from matplotlib.figure import Figure

    sizes = sorted(set(rows["n"].tolist()))
    figure = Figure(figsize=(12, 7.6), layout="constrained")
    metrics = (("observed_peak", "observed peak, cores\n(lower = better)"), *_METRICS[1:])
    for axes, (column, label) in zip(np.ravel(figure.subplots(2, 2)), metrics, strict=True):
        for k, name in enumerate(names):
            own = rows[rows["planner"] == name]
            at = np.arange(len(sizes)) + (k - (len(names) - 1) / 2) * 0.8 / len(names)
            _boxes(axes, [own[own["n"] == size][column].to_numpy() for size in sizes], at, [_colour(name)] * len(sizes),
                   0.7 / len(names))
            axes.plot([], [], color=_colour(name), lw=6, alpha=0.6, label=name)
        axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        axes.set_xlabel("jobs")
        axes.set_ylabel(label)
        plain(axes)
    figure.axes[0].legend(frameon=False, ncols=len(names), fontsize=8, loc="lower left", bbox_to_anchor=(0, 1))
    figure.suptitle(title, fontsize=10, x=0.02, ha="left", color="#444444")
    return figure


def grid_figure(tables: dict[str, pd.DataFrame], title: str) -> Figure:
    """The four metrics by K and alpha as heat maps, brighter = better (figure 11)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8.4), layout="constrained")
    labels = dict(_METRICS)
    for axes, (column, table) in zip(np.ravel(figure.subplots(2, 2)), tables.items(), strict=True):
        values = table.to_numpy(np.float64)
        image = axes.imshow(values, aspect="auto", cmap="viridis" if column == "reduction_pct" else "viridis_r",
                            origin="lower")
        middle = (values.max() + values.min()) / 2
        for (row, place), value in np.ndenumerate(values):
            is_dark = (value < middle) == (column == "reduction_pct")
            axes.text(place, row, f"{value:.1f}", ha="center", va="center", fontsize=7,
                      color="white" if is_dark else "black")
        axes.set_xticks(range(len(table.columns)), [f"{alpha:g}" for alpha in table.columns])
        axes.set_yticks(range(len(table.index)), [str(k) for k in table.index])
        axes.set_xlabel("alpha: share of samples that may break deadlines")
        axes.set_ylabel("K: samples")
        axes.set_title(labels[column].replace("\n", " "), loc="left", fontsize=10)
        figure.colorbar(image, ax=axes)
    figure.suptitle(title, fontsize=10, x=0.02, ha="left", color="#444444")
    return figure


def differences_figure(tables: dict[str, pd.DataFrame], title: str) -> Figure:
    """The reduction of each planner less the baseline's, with 95 % intervals: one panel for each table of `summary`."""
    from matplotlib.figure import Figure

    most = max(len(table) for table in tables.values())
    figure = Figure(figsize=(5.2 * len(tables), 1.4 + 0.34 * most), layout="constrained")
    for axes, (name, table) in zip(np.ravel(figure.subplots(1, len(tables), squeeze=False)), tables.items(),
                                   strict=True):
        at = np.arange(len(table))[::-1]
        axes.errorbar(table["against_pp"], at, xerr=table["against_half_pp"].fillna(0.0), ls="", marker="o",
                      color=_DET, capsize=2)
        axes.axvline(0.0, color="#444444", lw=0.8)
        axes.set_yticks(at, table["planner"].tolist(), fontsize=8)
        axes.set_xlabel("peak reduction less the baseline's, points\n(higher = better)")
        axes.set_title(name, loc="left", fontsize=10)
        plain(axes)
    figure.suptitle(title, fontsize=10, x=0.02, ha="left", color="#444444")
    return figure


def _boxes(axes: Axes, values: Sequence[np.ndarray], at: np.ndarray, colours: Sequence[str], width: float) -> None:
    filled = [k for k, own in enumerate(values) if len(own)]
    drawn = axes.boxplot([values[k] for k in filled], positions=[float(at[k]) for k in filled], widths=width,
                         patch_artist=True, manage_ticks=False, medianprops={"color": "#222222"},
                         flierprops={"markersize": 2, "markeredgecolor": "#8c8c8c"})
    for box, k in zip(drawn["boxes"], filled, strict=True):
        box.set_facecolor(colours[k])
        box.set_alpha(0.6)


def _colour(name: str) -> str:
    return _COLOURS.get(name, _DET)


@dataclass(frozen=True, slots=True)
class PlanEvaluation:
    """What is run. trace: a log, where it needs one. n: days, seeds or problems, as the evaluation says."""

    trace: Path | None
    reader: str
    n: int | None
    limit_s: float
    flexibility_s: int = 3_600
    step_s: int = 60


@dataclass(frozen=True, slots=True)
class Evaluated:
    """tables: summaries to print, by title. rows: CSV files by name. figures: PNG files by name."""

    tables: dict[str, pd.DataFrame]
    rows: dict[str, pd.DataFrame]
    figures: dict[str, Figure]


def _synthetic(task: PlanEvaluation) -> Evaluated:
    """Both readings of section 5.4: the four metrics of every planner, and by number of jobs (figures 8-10, 12-15)."""
    found = Evaluated({}, {}, {})
    n_seeds = task.n or 20
    for reading in READINGS:
        with stage(f"days, {reading}") as report:
            rows = synthetic_rows(reading, n_seeds, report, limit_s=task.limit_s)
        about = f"{rows['n'].nunique() * n_seeds} synthetic days ({reading}), 50 runs each"
        found.tables[about] = summary(rows, ["n", "seed"])
        found.rows[f"planning_{reading}"] = rows
        found.figures[f"planning_planners_{reading}"] = planners_figure(rows, about)
        found.figures[f"planning_sizes_{reading}"] = sizes_figure(rows, _IN_SIZES, about)
    return found


_IN_SIZES = ("none", "det-p50", "milp", "cospis", "cospis-even")


def _tight(task: PlanEvaluation) -> Evaluated:
    """Days on which deadlines bind."""
    with stage("tight days") as report:
        rows = tight_rows(task.n or 40, report, limit_s=task.limit_s)
    about = f"{rows['seed'].nunique()} days of 30 jobs whose deadlines bind, 50 runs each"
    return Evaluated({about: summary(rows, ["seed"])}, {"planning_tight": rows},
                     {"planning_planners_tight": planners_figure(rows, about)})


def _grid(task: PlanEvaluation) -> Evaluated:
    """K x alpha on tight days (figure 11)."""
    with stage("grid") as report:
        rows = grid_rows(range(5, 50, 5), np.arange(0.1, 0.95, 0.1).round(1).tolist(), task.n or 4, report)
    tables = dict(means_of_grid(rows))
    about = f"COSPiS by K and alpha: means over {rows['seed'].nunique()} tight days of 30 jobs, 50 runs each"
    return Evaluated({f"{about}; {name}": table.reset_index() for name, table in tables.items()},
                     {"planning_grid": rows}, {"planning_grid": grid_figure(tables, about)})


def _recurring(task: PlanEvaluation) -> Evaluated:
    """Recurring jobs of a log."""
    if task.trace is None:
        raise ValueError("trace must be given for recurring jobs, got none")
    with stage("read"):
        days = recurring_days(read_trace(task.reader, task.trace)[0], task.n or 40, step_s=task.step_s,
                              flexibility_s=task.flexibility_s)
    with stage("plan days") as report:
        rows = recurring_rows(days, report, limit_s=task.limit_s)
    name = task.trace.name.partition(".")[0]
    about = f"{name}: {len(days)} days, median {rows['n'].median():g} jobs, flexibility {task.flexibility_s} s"
    tables = {f"{about}; against {base}": summary(rows, ["day"], base) for base in (BASELINE, "none")}
    return Evaluated(tables, {f"planning_recurring_{name}": rows},
                     {f"planning_recurring_{name}": differences_figure(
                         {f"against {base}": table for base, table in zip((BASELINE, "none"), tables.values(),
                                                                          strict=True)}, about)})


def _short(task: PlanEvaluation) -> Evaluated:
    """Histories cut to a few runs, beside draws of a lifetime model."""
    if task.trace is None:
        raise ValueError("trace must be given for recurring jobs, got none")
    with stage("read"):
        trace, _ = read_trace(task.reader, task.trace)
    with stage("plan days") as report:
        rows = short_rows(trace, task.n or 20, report, limit_s=task.limit_s,
                          flexibility_s=task.flexibility_s)
    name = task.trace.name.partition(".")[0]
    about = f"{name}: histories cut to some runs, cospis-even, {rows['day'].nunique()} days"
    return Evaluated({about: summary(rows, ["day"], "history 1")}, {f"planning_short_{name}": rows}, {})


EVALUATIONS: Mapping[str, Callable[[PlanEvaluation], Evaluated]] = MappingProxyType({
    "synthetic": _synthetic, "tight": _tight, "grid": _grid, "recurring": _recurring, "short-history": _short})


def run_evaluation(name: str, task: PlanEvaluation, out: Path, store: Path) -> None:
    """Print, write into `out` and log; files are named by what they hold."""
    found = EVALUATIONS[name](task)
    for title, table in found.tables.items():
        console.print(_printed(title, table))
    for stem, rows in found.rows.items():
        with whole_file(out / f"{stem}.csv") as temporary:
            rows.to_csv(temporary, index=False)
    for stem, figure in found.figures.items():
        with whole_file(out / f"{stem}.png") as temporary:
            figure.savefig(temporary, dpi=110, format="png")
        console.print(f"written  {out / stem}.png", soft_wrap=True)
    with stage("log"):
        tracker = open_store(load_settings(StoreSettings, None, store=store))
        with tracker.run(f"plan-evaluate {name}", {"kind": "plan-evaluation", "code_version": __version__}) as run:
            tracker.log(run, {"name": name, "trace": str(task.trace or ""), "n": task.n, "limit_s": task.limit_s,
                              "flexibility_s": task.flexibility_s, "step_s": task.step_s})
            for title, table in found.tables.items():
                if "planner" in table:
                    tracker.log(run, None, {f"{row['planner']}/{key}": value for row in table.to_dict("records")
                                            for key, value in row.items() if isinstance(value, float)})
                tracker.log_text(run, table.to_csv(index=False), f"{title.partition(':')[0]}.csv")
            for stem, figure in found.figures.items():
                tracker.log_figure(run, figure, f"{stem}.png")


_LEGEND = ("Means over days; reduction of the observed peak below that of the requested starts, %, higher = better; "
           "against: less the baseline's of the same day, points, with half of its 95 % interval over days; under, "
           "over: of the planned peak, %, late: seconds a run behind deadlines, gap: to the bound, lower = better.")


def _printed(title: str, table: pd.DataFrame) -> Table:
    shown = Table(title=title, title_justify="left", caption_justify="left",
                  caption=_LEGEND if "planner" in table else "")
    for name in table.columns:
        words = f"{name:g}" if isinstance(name, float) else str(name).replace("_", "\n")
        shown.add_column(words, justify="left" if name == "planner" else "right", no_wrap=True)
    for row in table.itertuples(index=False):
        shown.add_row(*(value if isinstance(value, str) else f"{value:.2f}".removesuffix(".00") for value in row))
    return shown


def main(args: Sequence[str] | None = None) -> None:
    """Run one evaluation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=EVALUATIONS)
    parser.add_argument("--trace", type=Path, help="Log of recurring jobs, for `recurring` and `short-history`.")
    parser.add_argument("--reader", default="swf", help="How to read the log.")
    parser.add_argument("--n", type=int, help="Seeds a size, or days. Default: the evaluation's own.")
    parser.add_argument("--limit-s", type=float, default=10.0, help="Time limit of a plan, seconds.")
    parser.add_argument("--flexibility-s", type=int, default=3_600, help="Of recurring jobs, seconds.")
    parser.add_argument("--step-s", type=int, default=60, help="Of recurring jobs, seconds.")
    parser.add_argument("--out", type=Path, default=Path("plan-evaluation"), help="Folder for rows and pictures.")
    parser.add_argument("--store", type=Path, help="Folder of the store.")
    given = parser.parse_args(args)
    run_evaluation(given.name, PlanEvaluation(given.trace, given.reader, given.n, given.limit_s, given.flexibility_s,
                                              given.step_s), given.out,
                   load_settings(StoreSettings, store=given.store).store)
