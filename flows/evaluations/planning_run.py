"""The evaluations of planning, by name: tables on the terminal, CSV and pictures in a folder, and a run in MLflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.table import Table

from sojourn import __version__
from sojourn.features.readers import read_trace
from sojourn.flows.console import console, stage
from sojourn.flows.evaluations.planning_days import (
    BASELINE,
    READINGS,
    grid_rows,
    means_of_grid,
    summary,
    synthetic_rows,
    tight_rows,
)
from sojourn.flows.evaluations.planning_figures import differences_figure, grid_figure, planners_figure, sizes_figure
from sojourn.flows.evaluations.planning_recurring import recurring_days, recurring_rows
from sojourn.flows.evaluations.planning_short import short_rows
from sojourn.flows.settings.store import StoreSettings, load_settings
from sojourn.flows.versions.promotion import open_store
from sojourn.publishing import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    if name not in EVALUATIONS:
        raise ValueError(f"name must be one of {', '.join(EVALUATIONS)}, got {name!r}")
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
