"""`sojourn lab admit`: ways to admit jobs compared on days of a trace; printed, drawn, written and logged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sojourn.features.readers import read_trace
from sojourn.features.trace import Trace
from sojourn.flows.admission.predicted import (
    ESTIMATES,
    bundle_predictor,
    fitted_predictor,
    plans_of,
    predicted_runs,
    predicted_section,
    predicted_summary,
    told_runs,
    told_section,
    told_summary,
)
from sojourn.flows.admission.runs import (
    BACKFILL,
    DAY_S,
    SubmittedJobs,
    Task,
    admission_section,
    busiest_days,
    jobs_by_day,
    run_tasks,
    submitted_jobs,
    summary_of,
)
from sojourn.flows.admission.settings import AdmitConfig
from sojourn.flows.compare.tables import log_sections
from sojourn.flows.console import console, stage, tell_doubts
from sojourn.flows.placement.workloads import TraceSpec
from sojourn.flows.reports.section import Section, pngs, section_page
from sojourn.flows.retrain.ingest import content_hash, input_hash
from sojourn.flows.versions.promotion import open_store
from sojourn.publishing import publish_files, whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


ABOUT = "Jobs with deadlines that are accepted on a power budget"
MARK = "admission.csv"
"""The file by which a folder of this command is known."""
WRITTEN = frozenset({MARK, "summary.csv", "ratios.png", "predicted.png"})
"""All files that this command writes; a folder with another one is not replaced."""


def run_admit(config: AdmitConfig) -> None:
    """Compare the rules on the busiest days. A folder with files of others is refused before anything is read."""
    if config.out is not None:
        check_out(config.out)
    settings, entries = config.settings(), config.entries()
    with stage("read"):
        days = days_of(config)
    chosen = busiest_days(days, config.n_days)
    name = config.source.name
    tasks = [Task(name, day, days[day], setting, config.n_draws) for setting in settings for day in chosen]
    with stage("admit") as report:
        runs = run_tasks(tasks, entries, config.seed, config.n_workers, report)
    summary = summary_of(runs)
    section = admission_section(summary, "Admission", caption_of(config, days, chosen, runs))
    figures = {"ratios": ratios_figure(summary, f"{name}: {len(chosen)} days, {config.n_draws} draws each")}
    finish(config, "admit", [section], {"admission": runs, "summary": summary}, figures)


def run_predicted(config: AdmitConfig) -> None:
    """Quantiles of a lifetime model beside the user's estimate, on the busiest of the later days; or, for `estimate`,
    that estimate with and without ends that are told, on the same days."""
    if config.out is not None:
        check_out(config.out)
    name, predict = config.source.name, config.predict or ""
    with stage("read"):
        trace = _trace_of(config)
        jobs = _long_enough(config, submitted_jobs(trace))
        days = jobs_by_day(jobs, config.core_limit, shortest_s=config.shortest_s)
    from_day = int(jobs.submission_s[int(len(jobs) * config.past_share)]) // DAY_S + 1
    chosen = busiest_days({day: own for day, own in days.items() if day >= from_day}, config.n_days)
    if not chosen:
        raise ValueError(f"{name} must have jobs after day {from_day}, for predictors learn from the days before, got "
                         "none")
    is_estimated = bool(np.isfinite(jobs.estimate_s).any())
    which = f"{name}: the {len(chosen)} days with the most jobs from day {from_day} on, greedy {config.allocations[0]}"
    if predict == ESTIMATES:
        _finish_told(config, {day: days[day] for day in chosen}, which, is_estimated=is_estimated)
        return
    with stage("learn"):
        from_s = trace.begin_s + chosen[0] * DAY_S
        folder = predict.removeprefix("bundle:")
        predictor = (bundle_predictor(trace, folder, from_s, content_hash(config.source)) if folder != predict
                     else fitted_predictor(trace, predict, from_s, seed=config.seed))
    plans = {}
    with stage("predict") as report:
        for done, day in enumerate(chosen):
            report(done, len(chosen))
            found = predictor.quantiles(days[day].row, trace.begin_s + day * DAY_S, config.quantiles)
            plans[day] = plans_of(days[day], found, config.quantiles, "bundle" if folder != predict else predict,
                                  is_estimated=is_estimated)
    with stage("admit") as report:
        runs = predicted_runs({day: days[day] for day in chosen}, plans, config.settings(), config.n_draws, config.seed,
                              config.allocations[0], report)
    summary = predicted_summary(runs)
    caption = (f"{which}, {runs['n_jobs'].mean():,.0f} jobs and {runs['n_cores'].mean():,.0f} cores a day; "
               f"learnt from all before day {chosen[0]}; {config.n_draws} draws of slacks."
               f"{'' if is_estimated else ' No job of the trace has an estimate: the baseline takes each for a day.'}")
    section = predicted_section(summary, caption)
    finish(config, "admit predicted", [section], {"admission": runs, "summary": summary},
            {"predicted": predicted_figure(summary, name)})


def _finish_told(config: AdmitConfig, days: dict[int, SubmittedJobs], which: str, *, is_estimated: bool) -> None:
    if not is_estimated:
        raise ValueError(f"predict must be a family or bundle:FOLDER for {config.source.name}, whose jobs have no "
                         f"estimates, got {config.predict!r}")
    with stage("admit") as report:
        runs = told_runs(days, config.settings(), config.n_draws, config.seed, config.allocations[0], report)
    summary = told_summary(runs)
    caption = (f"{which}, {runs['n_jobs'].mean():,.0f} jobs and {runs['n_cores'].mean():,.0f} cores a day; "
               f"{config.n_draws} draws of slacks.")
    finish(config, "admit told", [told_section(summary, caption)], {"admission": runs, "summary": summary}, {})


def finish(config: AdmitConfig, name: str, sections: list[Section], tables: dict[str, pd.DataFrame],
           figures: dict[str, Figure], written: frozenset[str] = WRITTEN) -> None:
    """Print, write and log. written: all files that the folder may hold."""
    for section in sections:
        console.print()
        console.print(section)
    drawn = pngs(figures) if config.out is not None or config.page is not None else {}
    if config.out is not None:
        publish_files(config.out, {**{f"{stem}.csv": _csv(table) for stem, table in tables.items()}, **drawn}, MARK,
                      others=written)
        console.print(f"written  {config.out}", soft_wrap=True)
    if config.page is not None:
        with whole_file(config.page) as temporary:
            temporary.write_text(section_page(f"Admission on {config.source.name}", f"{ABOUT}.", sections, drawn))
        console.print(f"written  {config.page}", soft_wrap=True)
    with stage("log"):
        log_sections(open_store(config), name, config.model_dump(mode="json"), spec_of(config), sections, tables,
                     figures, about=ABOUT)


def check_out(out: Path, written: frozenset[str] = WRITTEN) -> None:
    """Refuse a folder with files that this command does not write."""
    if not out.exists():
        return
    found = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    if not out.is_dir() or (found and MARK not in found):
        raise ValueError(f"out must be new, empty or a folder with {MARK}, got something else in {str(out)!r}")
    odd = [name for name in found if name not in written]
    if odd:
        raise ValueError(f"out must hold nothing but files of this command, for it is replaced whole, got {odd[0]!r} "
                         f"in {str(out)!r}")


def _trace_of(config: AdmitConfig) -> Trace:
    assert config.trace is not None  # the settings refuse it
    trace, report = read_trace(config.reader, config.trace, **config.reading)
    tell_doubts(report.lines())
    return trace


def _long_enough(config: AdmitConfig, jobs: SubmittedJobs) -> SubmittedJobs:
    return jobs.take(jobs.processing_s >= config.shortest_s)


def submitted_of(config: AdmitConfig) -> SubmittedJobs:
    """The jobs of the configured trace, those that are too short left out."""
    return _long_enough(config, submitted_jobs(_trace_of(config)))


def days_of(config: AdmitConfig) -> dict[int, SubmittedJobs]:
    """The days of the configured trace. ValueError where no job is left."""
    jobs = submitted_of(config)
    days = jobs_by_day(jobs, config.core_limit, shortest_s=config.shortest_s)
    if not days:
        limit = f" on at most {config.core_limit} cores" if config.core_limit else ""
        raise ValueError(f"{config.source.name} must hold jobs of {config.shortest_s} s to a day{limit} whose end was "
                         f"observed, got none among {len(jobs):,} jobs of {config.shortest_s} s or more")
    return days


def caption_of(config: AdmitConfig, days: dict[int, SubmittedJobs], chosen: list[int], runs: pd.DataFrame) -> str:
    """What was replayed."""
    n_jobs = [len(days[day]) for day in chosen]
    widest = max(int(days[day].cores.max()) for day in chosen)
    profile = ("cores by the power profile" if config.power else
               f"{config.cores:,} cores" if config.cores else "as many cores as each day's load fills")
    sigma = "slack / 2.5" if config.sigma is None else f"{config.sigma:g}"
    return (f"{config.source.name}: the {len(chosen)} of {len(days)} days with the most jobs, {np.mean(n_jobs):,.0f} "
            f"jobs a day on 1 to {widest:,} cores; {profile} ({runs['n_cores'].mean():,.0f} on the mean); "
            f"{config.n_draws} draws of lognormal slacks, {config.mean} mean, sigma of the logarithm {sigma}; "
            f"{runs['took_s'].sum():.1f} s of admission.")


def spec_of(config: AdmitConfig) -> TraceSpec:
    """The trace, for the run's log."""
    return TraceSpec(config.source, input_hash(config.source), config.store, 0.0, 0.0)


def _csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()


_COLOURS = {"greedy balanced": "#8c8c8c", "greedy best-fit": "#1b7f79", "greedy min-idle": "#7b6bb0"}
_PLANS = ("#d98c3f", "#8c8c8c", "#a6d3cf", "#5fb0a9", "#1b7f79", "#0c4d49", "#7b6bb0", "#b3476b")
_OTHERS = ("#c2a21c", "#b3476b", "#4878a8")


def colour_of(label: str, labels: Sequence[str]) -> str:
    """The same rule has the same colour in all pictures."""
    plain = label.removesuffix(BACKFILL)
    others = [each for each in dict.fromkeys(one.removesuffix(BACKFILL) for one in labels)
              if each not in _COLOURS]
    return _COLOURS[plain] if plain in _COLOURS else _OTHERS[others.index(plain) % len(_OTHERS)]


def ratios_figure(summary: pd.DataFrame, title: str) -> Figure:
    """Ratio of each rule by slack, with the paired interval of its difference to the first."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 3.8), layout="constrained")
    axes = figure.add_subplot()
    labels = list(dict.fromkeys(summary["label"]))
    slacks = list(dict.fromkeys(summary["slack"]))
    width = 0.8 / len(labels)
    for k, label in enumerate(labels):
        own = summary[summary["label"] == label].set_index("slack").reindex(slacks)
        half = (own["high"] - own["difference"]).fillna(0.0) if k else None
        axes.bar(np.arange(len(slacks)) + (k - (len(labels) - 1) / 2) * width, own["ratio"] - 1.0, width * 0.92,
                 bottom=1.0, color=colour_of(label, labels), label=label, yerr=half, ecolor="#333333",
                 hatch="//" if label.endswith(BACKFILL) else None, edgecolor="white",
                 error_kw={"lw": 0.8, "capsize": 2})
    axes.set_xticks(np.arange(len(slacks)), [f"{slack:g}" for slack in slacks])
    axes.set_xlabel("slack")
    axes.set_ylabel("performance ratio (lower = better)")
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def predicted_figure(summary: pd.DataFrame, title: str) -> Figure:
    """Load on time against load lost by late jobs, a point a plan; a panel a slack and basis of deadlines."""
    parts = list(summary.groupby(["slack", "basis"], sort=False))
    figure, every = panels(len(parts), 4.2, 3.6)
    labels = list(dict.fromkeys(summary["label"]))
    for axes, ((slack, basis), own) in zip(every, parts, strict=True):
        for row in own.to_dict("records"):
            is_capped = row["label"].endswith(" capped")
            place = labels.index(row["label"].removesuffix(" capped"))
            axes.plot(row["late_load_pct"], row["on_time_pct"], "^" if is_capped else "o", color=_PLANS[place % 8],
                      label=row["label"], markersize=6)
        axes.set_xlabel("core-hours of late jobs, % of the submitted\n(lower = better)")
        axes.set_ylabel("core-hours on time, % (higher = better)")
        axes.set_title(f"{title}\nslack {slack:g} of the {basis}", fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, lw=0.5)
    figure.legend(*every[-1].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    return figure


def panels(n: int, width: float = 5.0, height: float = 3.5) -> tuple[Figure, list[Axes]]:
    """A figure with n panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, n)))
