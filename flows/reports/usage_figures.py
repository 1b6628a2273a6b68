"""Pictures of a trace's usage: errors of its waves, single series with their waves, the days of its classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sojourn.flows.reports.figures import plain
from sojourn.flows.reports.periodicity_figures import error_figure
from sojourn.flows.stages.describe_usage import WAYS, UsageDescription
from sojourn.serving.usage import DAY_S

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLUE, _GREY, _GREEN = "#2a6f97", "#8c8c8c", "#1b7f79"
_NAMES = ("wave, p95 and p5", "wave, at its means", "constant mean", "a week before")
"""In the order of `WAYS`."""
_MAX_DAYS = 31
_MAX_CLASSES = 12


def errors_figure(found: UsageDescription) -> Figure | None:
    """Errors of the periodic series, in-sample and, where the trace has two days, of the last one (paper, figure 6).

    None where no series is periodic.
    """
    panels = {}
    for label, title in (("in_sample", "in-sample"), ("next_day", "next day: the last 24 hours")):
        rows = found.table[found.table[f"{label}_is_periodic"].to_numpy(bool)]
        if rows[f"{label}_wave"].notna().any():
            panels[title] = {name: rows[f"{label}_{way}"].to_numpy() for way, name in zip(WAYS, _NAMES, strict=True)}
    return error_figure(panels, found.source) if panels else None


def examples_figure(found: UsageDescription) -> Figure:
    """A panel for each example: its series over the last 31 days at most, and its wave."""
    from matplotlib.figure import Figure

    grid, fits = found.examples, found.example_fits
    n = len(grid)
    figure = Figure(figsize=(15, 2.9 * n), layout="constrained")
    time_s = grid.time_s()
    for k, axes in enumerate(np.ravel(figure.subplots(n, 1, squeeze=False))):
        seen = np.flatnonzero(~np.isnan(grid.cpu[k]))
        shown = slice(max(seen[0], seen[-1] + 1 - _MAX_DAYS * DAY_S // grid.step_s), seen[-1] + 1)
        days = time_s[shown] / DAY_S
        axes.plot(days, 100 * grid.cpu[k, shown], color=_GREY, linewidth=0.7, label="use")
        wave = fits.waves(k).at(time_s[shown] + grid.step_s / 2)
        axes.plot(days, 100 * wave, color=_BLUE, linewidth=1.4, label="wave")
        axes.set_xlim(days[0], days[-1] + grid.step_s / DAY_S)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("% of its cores")
        text = f"period {_span(float(fits.period_s[k]))}, strength {fits.strength[k]:.2f}, busy " \
               f"{100 * fits.duty[k]:.0f} % of it, NRMSE {fits.nrmse[k]:.3f} in-sample" if fits.is_periodic[k] \
            else str(fits.reason_text()[k])
        axes.set_title(f"{grid.request_ids[k]}: {text}", loc="left", fontsize=10)
        axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0, ncols=2, fontsize="small")
        plain(axes)
    axes.set_xlabel("days since the trace's start")
    return figure


def classes_figure(found: UsageDescription) -> Figure:
    """A panel for each of the largest classes: the highest use of its members by local time of day."""
    from matplotlib.figure import Figure

    n = min(len(found.centres), _MAX_CLASSES)
    n_columns = min(n, 4)
    n_rows = -(-n // n_columns)
    figure = Figure(figsize=(3.9 * n_columns, 2.4 * n_rows + 0.5), layout="constrained")
    hours = 24 * np.arange(found.centres.shape[1] + 1) / found.centres.shape[1]
    most = max(100.0, 102 * float(found.centres[:n].max()))
    grid = np.ravel(figure.subplots(n_rows, n_columns, squeeze=False, sharex=True))
    for k, axes in enumerate(grid[:n]):
        n_series = int((found.table["class_id"] == k).sum())
        axes.stairs(100 * found.centres[k], hours, color=_GREEN, fill=True, alpha=0.6)
        axes.set_xlim(0, 24)
        axes.set_xticks(range(0, 25, 6))
        axes.set_ylim(0, most)
        axes.set_title(f"class {k}: {n_series:,} series", loc="left", fontsize=10)
        plain(axes)
    for axes in grid[n:]:
        axes.set_visible(False)
    left_out = len(found.centres) - n
    figure.supxlabel(f"local hour of day ({found.timezone})"
                     f"{f'; {left_out} smaller classes are not shown' if left_out else ''}", fontsize=10)
    figure.supylabel("highest use, % of the cores reserved", fontsize=10)
    return figure


def _span(seconds: float) -> str:
    if seconds < 36 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / DAY_S:.1f} days"
