"""The usage of a trace in words, tables and pictures: which requests are periodic and why, how long the periods are,
which classes there are (CTCL, figures 3 and 4; period-aware placement, figures 1, 2, 4 and 6, on our series)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.table import Table

from sojourn.features.usage import UsageGrid
from sojourn.flows.console import FittedTable
from sojourn.flows.reports.figures import legend, plain
from sojourn.flows.usage.describe_usage import WAYS, UsageDescription, period_names
from sojourn.models.periodicity import LowPass, PeriodicitySettings, WaveFits
from sojourn.serving.usage import DAY_S, N_SLOTS, WorkloadClasses

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WAYS = ("wave,\np95 and p5", "wave,\nat its means", "constant\nmean", "a week\nbefore")
_BLUE, _GREY, _GREEN = "#2a6f97", "#8c8c8c", "#1b7f79"
_NAMES = ("wave, p95 and p5", "wave, at its means", "constant mean", "a week before")
"""In the order of `WAYS`."""
_MAX_DAYS = 31
_MAX_CLASSES = 12
_N_SHOWN = 8
_COLOURS = ("#2a6f97", "#d17a22", "#1b7f79", "#8c3b5e", "#6b7f2a", "#5a4fa2", "#b0413e", "#3d3d3d")
_CLASS_GREY = "#c4c4c4"
_RESOURCES = {"cpu": "CPU, % of the reserved cores", "mem": "memory, % of the reserved memory"}
_RAW, _SMOOTH, _WAVE = "#b8b8b8", "#3b6fb5", "#b5483a"


def summary_lines(usage: UsageDescription) -> list[str]:
    """Aligned rows: amount of data, share in use, share with a period."""
    table, read = usage.table, usage.report.read
    n = len(table)
    cores = table["cpu_cores"].sum()
    periodic = table[table["is_periodic"]]
    used = float((table["mean"] * table["cpu_cores"]).sum())
    rows = [
        ("source", usage.source),
        ("series", f"{n:,}; {len(usage.report.without_series):,} requests without one, "
                   f"{len(usage.report.without_request):,} series without a request"),
        ("samples", f"{read.n_kept:,} kept, {read.n_refused:,} refused, "
                    f"{usage.n_steps * usage.step_s / DAY_S:.1f} days"),
        ("in use", f"{100 * used / cores if cores else np.nan:.1f} % of {cores:,.0f} cores; median series: mean "
                   f"{100 * table['mean'].median():.1f} %, p95 {100 * table['p95'].median():.1f} %, peak "
                   f"{100 * table['peak'].median():.1f} %"),
        ("periodic", f"{len(periodic):,} series ({100 * len(periodic) / n:.1f} %) with "
                     f"{100 * periodic['cpu_cores'].sum() / cores if cores else np.nan:.1f} % of the cores"),
    ]
    white, walk = usage.noise_shares
    rows.append(("by chance", f"{100 * white:.1f} % of series of white noise and {100 * walk:.1f} % of random walks on "
                              "these steps would be called periodic"))
    if len(periodic):
        names = period_names(periodic["period_s"]).value_counts(sort=False)
        commonest = names[names > 0].sort_values(ascending=False, kind="stable").head(3)
        rows.append(("periods", ", ".join(f"{name} {count:,}" for name, count in commonest.items())))
    width = max(len(label) for label, _ in rows)
    return [f"{label:<{width}}  {value}" for label, value in rows]


def usage_tables(usage: UsageDescription) -> list[Table]:
    """Periods with their strength and errors, reasons for none, and classes."""
    tables = [_reasons(usage.table)]
    if usage.table["is_periodic"].any():
        tables = [_periods(usage.table), _errors(usage.table), *tables]
    if len(usage.centres):
        tables.append(_classes(usage))
    return tables


def _periods(table: pd.DataFrame) -> Table:
    shown = FittedTable(
        "Periodic series by the length of their period",
        ("period", "series", "share, %", "cores", "strength", "by chance", "busy,\n% of it"),
        "Strength: share of the smoothed variance at the period, 0 to 1 (higher = more regular). By chance: the "
        "strength that noise reaches there. Strengths and busy time are medians.")
    periodic = table[table["is_periodic"]]
    for name, rows in periodic.groupby(period_names(periodic["period_s"]), observed=True):
        shown.add_row(str(name), f"{len(rows):,}", f"{100 * len(rows) / len(table):.1f}",
                      f"{rows['cpu_cores'].sum():,.0f}", _median(rows["strength"], 2),
                      _median(rows["by_chance"], 2), _median(100 * rows["duty"], 0))
    return shown


def _errors(table: pd.DataFrame) -> Table:
    """Errors of the periodic series, in-sample and next-day, and how often the wave is better, in %."""
    shown = FittedTable(
        "Errors of the periodic series",
        ("judged", "series", *_WAYS, "better\nthan the\nconstant", "better\nthan a week\nbefore"),
        "NRMSE: root mean squared error over the series' range, median (lower = better). Next day: the last 24 hours, "
        "by what was known before. Better: series in which the wave at its means is nearer than that, % (higher = the "
        "period says more).", least=(_WAYS[1], "series"))
    for label, name in (("in_sample", "in-sample"), ("next_day", "next day")):
        rows = table[table[f"{label}_is_periodic"].to_numpy(bool) & table[f"{label}_wave"].notna()]
        if rows.empty:
            continue
        shown.add_row(name, f"{len(rows):,}", *(_median(rows[f"{label}_{way}"], 3) for way in WAYS),
                      *(_better(rows[f"{label}_at_means"], rows[f"{label}_{way}"]) for way in WAYS[2:]))
    return shown


def _better(wave: pd.Series, other: pd.Series) -> str:
    is_judged = wave.notna() & other.notna()
    return f"{100 * (wave < other)[is_judged].mean():.0f}" if is_judged.any() else "-"


def _reasons(table: pd.DataFrame) -> Table:
    shown = FittedTable("Why a series is periodic or not", ("reason", "series", "share, %", "cores", "mean use, %"),
                        "Mean use: median of the series, % of the cores reserved.", wrapped=("reason",))
    groups = sorted(table.groupby("reason"), key=lambda group: -len(group[1]))
    for name, rows in groups:
        shown.add_row(str(name).removeprefix("aperiodic because "), f"{len(rows):,}",
                      f"{100 * len(rows) / len(table):.1f}", f"{rows['cpu_cores'].sum():,.0f}",
                      _median(100 * rows["mean"], 1))
    return shown


def _classes(usage: UsageDescription) -> Table:
    shown = FittedTable(
        f"Classes of series with the same day, local time {usage.timezone}",
        ("class", "series", "share,\n%", "cores", "mean\nuse, %", "busiest,\n%", "at", "quietest,\n%", "at ",
         "periodic,\n%"),
        "By the highest use of each quarter of an hour over all days, % of the cores reserved; busiest and quietest of "
        "the class's mean day. Mean use: median of its series.", least=("quietest,\n%", "at ", "share,\n%"))
    table = usage.table
    for k, centre in enumerate(usage.centres):
        rows = table[table["class_id"] == k]
        high, low = int(centre.argmax()), int(centre.argmin())
        shown.add_row(str(k), f"{len(rows):,}", f"{100 * len(rows) / len(table):.1f}",
                      f"{rows['cpu_cores'].sum():,.0f}", _median(100 * rows["mean"], 1), f"{100 * centre[high]:.1f}",
                      slot_text(high, len(centre)), f"{100 * centre[low]:.1f}", slot_text(low, len(centre)),
                      f"{100 * rows['is_periodic'].mean():.0f}" if len(rows) else "-")
    n_none = int((table["class_id"] < 0).sum())
    if n_none:
        shown.add_row("none", f"{n_none:,}", f"{100 * n_none / len(table):.1f}",
                      f"{table.loc[table['class_id'] < 0, 'cpu_cores'].sum():,.0f}", "", "", "", "", "", "")
    return shown


def slot_text(slot: int, n_slots: int) -> str:
    """Begin of a slot of the day.

    >>> slot_text(39, 96)
    '09:45'
    """
    minutes = slot * 1440 // n_slots
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _median(values: pd.Series, n_digits: int) -> str:
    middle = values.median()
    return "-" if np.isnan(middle) else f"{middle:.{n_digits}f}"


def errors_figure(usage: UsageDescription) -> Figure | None:
    """Errors of the periodic series, in-sample and on the last of two or more days (figure 6).

    None if no series is periodic.
    """
    panels = {}
    for label, title in (("in_sample", "in-sample"), ("next_day", "next day: the last 24 hours")):
        rows = usage.table[usage.table[f"{label}_is_periodic"].to_numpy(bool)]
        if rows[f"{label}_wave"].notna().any():
            panels[title] = {name: rows[f"{label}_{way}"].to_numpy() for way, name in zip(WAYS, _NAMES, strict=True)}
    return error_figure(panels, usage.source) if panels else None


def examples_figure(usage: UsageDescription) -> Figure:
    """A panel for each example: its series over the last 31 days at most, and its wave."""
    from matplotlib.figure import Figure

    grid, fits = usage.examples, usage.example_fits
    n = len(grid)
    figure = Figure(figsize=(15, 2.9 * n), layout="constrained")
    time_s = grid.time_s()
    for k, axes in enumerate(np.ravel(figure.subplots(n, 1, squeeze=False))):
        places = np.flatnonzero(~np.isnan(grid.cpu[k]))
        shown = slice(max(places[0], places[-1] + 1 - _MAX_DAYS * DAY_S // grid.step_s), places[-1] + 1)
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


def classes_figure(usage: UsageDescription) -> Figure:
    """A panel for each of the largest classes: the highest use of its members by local time of day."""
    from matplotlib.figure import Figure

    n = min(len(usage.centres), _MAX_CLASSES)
    n_columns = min(n, 4)
    n_rows = -(-n // n_columns)
    figure = Figure(figsize=(3.9 * n_columns, 2.4 * n_rows + 0.5), layout="constrained")
    hours = 24 * np.arange(usage.centres.shape[1] + 1) / usage.centres.shape[1]
    most = max(100.0, 102 * float(usage.centres[:n].max()))
    grid = np.ravel(figure.subplots(n_rows, n_columns, squeeze=False, sharex=True))
    for k, axes in enumerate(grid[:n]):
        n_series = int((usage.table["class_id"] == k).sum())
        axes.stairs(100 * usage.centres[k], hours, color=_GREEN, fill=True, alpha=0.6)
        axes.set_xlim(0, 24)
        axes.set_xticks(range(0, 25, 6))
        axes.set_ylim(0, most)
        axes.set_title(f"class {k}: {n_series:,} series", loc="left", fontsize=10)
        plain(axes)
    for axes in grid[n:]:
        axes.set_visible(False)
    left_out = len(usage.centres) - n
    figure.supxlabel(f"local hour of day ({usage.timezone})"
                     f"{f'; {left_out} smaller classes are not shown' if left_out else ''}", fontsize=10)
    figure.supylabel("highest use, % of the cores reserved", fontsize=10)
    return figure


def _span(seconds: float) -> str:
    if seconds < 36 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / DAY_S:.1f} days"


def class_figure(classes: Mapping[str, WorkloadClasses], what: str) -> Figure:
    """A panel a resource: highest use by slot of the day of each class (CTCL, figures 3 and 4).

    The eight largest classes have colours, ids, members; others are grey. what: the title's data.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8 * len(classes), 4.6), layout="constrained")
    panels = figure.subplots(1, len(classes), squeeze=False)[0]
    for axes, (resource, each) in zip(panels, classes.items(), strict=True):
        _draw(axes, each)
        axes.set_ylabel(_RESOURCES[resource])
        axes.set_title(f"{what}: {len(each)} classes of {int(each.n_members.sum())} requests", loc="left")
        plain(axes)
    return figure


def _draw(axes: Axes, classes: WorkloadClasses) -> None:
    hours = np.arange(N_SLOTS) * 24 / N_SLOTS
    order = np.argsort(-classes.n_members, kind="stable")
    for position in order[_N_SHOWN:]:
        axes.plot(hours, 100 * classes.centres[position], color=_CLASS_GREY, linewidth=0.8, zorder=1)
    for position, colour in zip(order[:_N_SHOWN], _COLOURS, strict=False):
        axes.plot(hours, 100 * classes.centres[position], color=colour, linewidth=1.6, zorder=2,
                  label=f"class {classes.ids[position]}, {classes.n_members[position]} requests")
    axes.set_xlim(0, 24)
    axes.set_ylim(bottom=0)
    axes.set_xticks(range(0, 25, 3))
    axes.set_xlabel("local hour of the day")
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.13))


def request_figure(grid: UsageGrid, fits: WaveFits, row: int, settings: PeriodicitySettings, title: str) -> Figure:
    """Figure 1: a request's raw series, the smoothed one with its waves, and the spectrum.

    settings: of the fits. Straight lines bridge missing samples.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7.5), layout="constrained")
    raw_axes, smooth_axes, spectrum = figure.subplots(3, 1)
    days, raw = np.arange(grid.cpu.shape[1]) * grid.step_s / DAY_S, grid.cpu[row].astype(np.float64)
    places = np.flatnonzero(np.isfinite(raw))
    smoothed = LowPass(settings.filter_order, settings.cutoff_s, grid.step_s).smooth(
        np.interp(np.arange(len(raw)), places, raw[places]).astype(np.float32)[None, :])
    raw_axes.plot(days, 100 * raw, color=_RAW, linewidth=0.6)
    raw_axes.set_title(f"{title}: raw", loc="left")
    smooth_axes.plot(days, 100 * smoothed.values[0], color=_SMOOTH, linewidth=0.8, label="smoothed")
    name = "pulse wave" if fits.is_periodic[row] else "aperiodic: its peak"
    smooth_axes.plot(days, 100 * fits.waves(row).at(grid.time_s() + grid.step_s / 2), color=_WAVE, linewidth=1.0,
                     label=name)
    smooth_axes.set_title(f"smoothed, period below {settings.cutoff_s / 3600:g} h removed, and its model", loc="left")
    legend(smooth_axes)
    magnitude = 100 * np.abs(np.fft.rfft(smoothed.detrended[0]))
    per_day = np.fft.rfftfreq(len(raw), grid.step_s / DAY_S)
    is_shown = (per_day > 0) & (per_day <= min(12.0, per_day[-1]))
    spectrum.plot(per_day[is_shown], magnitude[is_shown], color=_SMOOTH, linewidth=0.8)
    longest = 1.0 / (settings.longest_share * len(raw) * grid.step_s / DAY_S)
    spectrum.axvspan(0.0, longest, color="#eeeeee", label=f"longer than {settings.longest_share:g} of the window")
    if fits.is_periodic[row]:
        n_per_day = DAY_S / fits.period_s[row]
        label = (f"period {fits.period_s[row] / 3600:.1f} h, strength {100 * fits.strength[row]:.0f} % of variance, "
                 f"{100 * fits.magnitude[row]:.0f} % by magnitude")
        spectrum.axvline(n_per_day, color=_WAVE, linestyle=":", label=label)
    spectrum.set_xlabel("frequency, 1/day")
    spectrum.set_ylabel("FFT magnitude")
    spectrum.set_title("spectrum of the smoothed series without its trend", loc="left")
    legend(spectrum)
    for axes in (raw_axes, smooth_axes):
        axes.set_xlabel("day")
        axes.set_ylabel("use, % of cores")
    for axes in (raw_axes, smooth_axes, spectrum):
        plain(axes)
    return figure


def period_figure(fits: WaveFits, title: str) -> Figure:
    """Figure 2: histograms of strength in both scales, and of the period's length; NP = no period."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    panels = figure.subplot_mosaic([["left", "right"], ["lengths", "lengths"]])
    left, right, lengths = panels["left"], panels["right"], panels["lengths"]
    for axes, scores, name in ((left, fits.strength, "share of variance"), (right, fits.magnitude, "FFT magnitude")):
        counts, edges = np.histogram(100 * scores, bins=20, range=(0.0, 100.0))
        axes.bar(edges[:-1], 100 * counts / len(fits), width=5.0, align="edge", color=_SMOOTH, edgecolor="white")
        axes.set_xlabel(f"strength by {name}, % (higher = more periodic)")
        axes.set_ylabel("requests, %")
    left.set_title(f"{title}: strength", loc="left")
    hours = fits.period_s[fits.is_periodic] / 3600
    edges_h = (0.0, 2.0, 4.0, 6.0, 8.0, 11.0, 13.0, 18.0, 23.0, 25.0, 48.0, 96.0, 160.0, 176.0, np.inf)
    names = ["NP", *(f"{low:g}-{high:g} h" for low, high in pairwise(edges_h[:-1])),
             f"> {edges_h[-2]:g} h"]
    counts = np.concatenate([[len(fits) - len(hours)], np.histogram(hours, edges_h)[0]])
    colours = [_RAW] + [_WAVE if name in ("23-25 h", "160-176 h", "11-13 h") else _SMOOTH for name in names[1:]]
    lengths.bar(range(len(names)), 100 * counts / len(fits), color=colours)
    lengths.set_xticks(range(len(names)), names, rotation=35, ha="right", fontsize=8)
    lengths.set_ylabel("requests, %")
    lengths.set_title("length of the period (red: half a day, a day, a week)", loc="left")
    for axes in (left, right, lengths):
        plain(axes)
    return figure


def error_figure(panels: Mapping[str, Mapping[str, np.ndarray]], title: str) -> Figure:
    """Figure 6: shares of requests up to each NRMSE; a panel for each title, a line for each model.

    panels: title (in-sample or next-day) -> name of the model -> NRMSE (n,), NaN = not judged.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(panels), 4.2), layout="constrained")
    colours = (_WAVE, "#d98c3f", "#2b2b2b", _SMOOTH, "#7b6bb0")
    for axes, (name, errors) in zip(np.atleast_1d(figure.subplots(1, len(panels), sharey=True)), panels.items(),
                                    strict=True):
        for (model, error), colour in zip(errors.items(), colours, strict=False):
            known = np.sort(error[np.isfinite(error)])
            if len(known):
                shares = 100 * np.arange(1, len(known) + 1) / len(known)
                axes.step(known, shares, where="post", color=colour, linewidth=1.4,
                          label=f"{model}: {100 * np.mean(known < 0.3):.0f} % below 0.3, median {np.median(known):.3f}")
        axes.axvline(0.3, color="#444444", linewidth=0.8, linestyle=":")
        axes.set_xlim(0.0, 0.6)
        axes.set_ylim(0.0, 100.0)
        axes.set_xlabel("NRMSE (lower = better)")
        axes.set_ylabel("requests, %")
        axes.set_title(name, loc="left", fontsize=10)
        axes.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(0.0, -0.16))
        plain(axes)
    figure.suptitle(title, fontsize=11, x=0.02, ha="left", color="#444444")
    return figure
