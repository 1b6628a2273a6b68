"""Pictures of a trace's usage: strengths, periods and errors; single series with their waves; the days of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sojourn.flows.reports.figures import plain
from sojourn.flows.stages.describe_usage import PERIODS, UsageDescription, period_names
from sojourn.serving.usage import DAY_S

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _GREY, _GREEN = "#2a6f97", "#d17a22", "#8c8c8c", "#1b7f79"
_MAX_DAYS = 14
_MAX_CLASSES = 12


def periodicity_figure(found: UsageDescription) -> Figure:
    """Three panels: strength of all series, lengths of the periods, and the errors of the wave and its baselines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    table = found.table
    bins = np.linspace(0, 1, 41)
    is_periodic = table["is_periodic"].to_numpy()
    left.hist([table["strength"][is_periodic], table["strength"][~is_periodic]], bins=bins, stacked=True,
              color=[_BLUE, _GREY], label=[f"periodic, {is_periodic.sum():,}", f"not, {(~is_periodic).sum():,}"])
    left.set_xlabel("strength of the period, 0 to 1 (higher = more regular)")
    left.set_ylabel("series")
    left.set_xlim(0, 1)
    left.set_title("How regular", loc="left")
    left.legend(frameon=False)
    names = [name for _, name in PERIODS]
    counts = period_names(table["period_s"][is_periodic]).value_counts(sort=False).reindex(names, fill_value=0)
    middle.barh(names[::-1], counts.to_numpy()[::-1], color=_BLUE)
    middle.set_xlabel("periodic series")
    middle.set_title("Length of the period", loc="left")
    _draw_errors(right, found)
    for axes in (left, middle, right):
        plain(axes)
    return figure


def _draw_errors(axes: Axes, found: UsageDescription) -> None:
    rows = found.table[found.table["is_periodic"]]
    title = "Errors of the periodic series, in-sample"
    for name, label, colour in (("wave", "the wave, p95 and p5", _BLUE), ("shape", "the wave, at its means", _GREEN),
                                ("mean", "a constant mean", _GREY),
                                ("week", "the week before", _ORANGE)):
        errors = np.sort(rows[f"nrmse_{name}"].dropna().to_numpy())
        if len(errors):
            share = 100 * np.arange(1, len(errors) + 1) / len(errors)
            axes.step(errors, share, where="post", color=colour, label=label)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 102)
    axes.set_xlabel("NRMSE: error over the series' range (lower = better)")
    axes.set_ylabel("share of series with at most that, %")
    axes.set_title(title, loc="left")
    if axes.lines:
        axes.legend(frameon=False, loc="lower right")
    else:
        axes.text(0.5, 0.5, "no periodic series", ha="center", va="center", transform=axes.transAxes, color="#444444")


def examples_figure(found: UsageDescription) -> Figure:
    """A panel for each example: its series over the last two weeks at most, and its wave."""
    from matplotlib.figure import Figure

    grid, fits = found.examples, found.fits
    n = len(grid)
    figure = Figure(figsize=(15, 2.9 * n), layout="constrained")
    time_s = grid.time_s()
    for k, axes in enumerate(np.ravel(figure.subplots(n, 1, squeeze=False))):
        seen = np.flatnonzero(~np.isnan(grid.cpu[k]))
        shown = slice(max(seen[0], seen[-1] + 1 - _MAX_DAYS * DAY_S // grid.step_s), seen[-1] + 1)
        days = time_s[shown] / DAY_S
        axes.plot(days, 100 * grid.cpu[k, shown], color=_GREY, linewidth=0.7, label="use")
        axes.plot(days, 100 * fits.waves(k).at(time_s[shown]), color=_BLUE, linewidth=1.4, label="wave")
        axes.set_xlim(days[0], days[-1])
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
