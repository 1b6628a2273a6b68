"""Pictures of periodicity, in matplotlib: figures 1, 2, 4 and 6 of the period-aware placement paper on our series."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.flows.reports.figures import legend, plain
from sojourn.models.periodicity import LowPass, PeriodicitySettings, WaveErrors, WaveFits
from sojourn.serving.usage import DAY_S

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RAW, _SMOOTH, _WAVE, _SUM = "#b8b8b8", "#3b6fb5", "#b5483a", "#1b7f79"


def request_figure(grid: UsageGrid, fits: WaveFits, row: int, settings: PeriodicitySettings, title: str) -> Figure:
    """Figure 1: a request's raw series, the smoothed one with its waves, and the spectrum with the period found.

    settings: those of the fits. Missing samples are bridged by straight lines.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7.5), layout="constrained")
    raw_axes, smooth_axes, spectrum = figure.subplots(3, 1)
    days, raw = _days(grid), grid.cpu[row].astype(np.float64)
    places = np.flatnonzero(np.isfinite(raw))
    smoothed = LowPass(settings.filter_order, settings.cutoff_s, grid.step_s).smooth(
        np.interp(np.arange(len(raw)), places, raw[places]).astype(np.float32)[None, :])
    raw_axes.plot(days, 100 * raw, color=_RAW, linewidth=0.6)
    raw_axes.set_title(f"{title}: raw", loc="left")
    smooth_axes.plot(days, 100 * smoothed.values[0], color=_SMOOTH, linewidth=0.8, label="smoothed")
    _draw_waves(smooth_axes, grid, fits, row)
    smooth_axes.set_title(f"smoothed, period below {settings.cutoff_s / 3600:g} h removed, and its model", loc="left")
    legend(smooth_axes)
    magnitude = 100 * np.abs(np.fft.rfft(smoothed.detrended[0]))
    per_day = np.fft.rfftfreq(len(raw), grid.step_s / DAY_S)
    is_shown = (per_day > 0) & (per_day <= min(12.0, per_day[-1]))
    spectrum.plot(per_day[is_shown], magnitude[is_shown], color=_SMOOTH, linewidth=0.8)
    longest = 1.0 / (settings.longest_share * len(raw) * grid.step_s / DAY_S)
    spectrum.axvspan(0.0, longest, color="#eeeeee", label=f"longer than {settings.longest_share:g} of the window")
    if fits.is_periodic[row]:
        found = DAY_S / fits.period_s[row]
        label = (f"period {fits.period_s[row] / 3600:.1f} h, strength {100 * fits.strength[row]:.0f} % of variance, "
                 f"{100 * fits.magnitude[row]:.0f} % by magnitude")
        spectrum.axvline(found, color=_WAVE, linestyle=":", label=label)
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
    """Figure 2: histograms of strength in both scales, and of the period's length; NP = no period was found."""
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


def host_figure(grid: UsageGrid, fits: WaveFits, rows: tuple[int, int], title: str) -> Figure:
    """Figure 4: two requests with their waves, and both on one host, in cores, with the sum of the waves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7.5), layout="constrained")
    *upper, host = figure.subplots(3, 1, sharex=True)
    days, middles_s = _days(grid), grid.time_s() + grid.step_s / 2
    for axes, row, name in zip(upper, rows, "ab", strict=True):
        axes.plot(days, 100 * grid.cpu[row], color=_RAW, linewidth=0.6, label="raw")
        _draw_waves(axes, grid, fits, row)
        axes.set_ylabel("use, % of cores")
        axes.set_title(f"({name}) request {grid.request_ids[row]} of {title}", loc="left")
    used = np.sum([grid.cpu[row].astype(np.float64) * grid.cpu_cores[row] for row in rows], axis=0)
    waves = np.sum([fits.waves(row).at(middles_s) * grid.cpu_cores[row] for row in rows], axis=0)
    host.plot(days, used, color=_RAW, linewidth=0.6, label="both, raw")
    host.plot(days, waves, color=_SUM, linewidth=1.0, label="sum of the waves")
    above = 100 * float(np.mean((used > waves)[np.isfinite(used)]))
    host.set_title(f"(c) both on one host: use is above the sum of the waves {above:.1f} % of the time", loc="left")
    host.set_xlabel("day")
    host.set_ylabel("cores used")
    for axes in (*upper, host):
        axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderpad=0.0)
        plain(axes)
    return figure


def error_figure(panels: Mapping[str, Mapping[str, np.ndarray]], title: str) -> Figure:
    """Figure 6: shares of requests with at most a given NRMSE; a panel for each title, a line for each name.

    panels: title (says in-sample or next-day) -> name of the model -> NRMSE, float64 (n,), NaN = not judged.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(panels), 4.2), layout="constrained")
    colours = (_WAVE, "#d98c3f", "#2b2b2b", _SMOOTH, "#7b6bb0")
    for axes, (name, errors) in zip(np.atleast_1d(figure.subplots(1, len(panels), sharey=True)), panels.items(),
                                    strict=True):
        for (model, error), colour in zip(errors.items(), colours, strict=False):
            kept = np.sort(error[np.isfinite(error)])
            if len(kept):
                shares = 100 * np.arange(1, len(kept) + 1) / len(kept)
                axes.step(kept, shares, where="post", color=colour, linewidth=1.4,
                          label=f"{model}: {100 * np.mean(kept < 0.3):.0f} % below 0.3, median {np.median(kept):.3f}")
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


def error_lines(wave: WaveErrors, name: str) -> dict[str, np.ndarray]:
    """The lines of one panel of `error_figure`: of the requests with a period, as in the paper.

    >>> ones = np.ones(2)
    >>> lines = error_lines(WaveErrors("next-day", np.array([True, False]), ones, ones, ones), "pulse wave")
    >>> [(line, len(errors)) for line, errors in lines.items()]
    [('pulse wave', 1), ('constant mean', 1), ("last week's repeat", 1)]
    """
    kept = wave.is_periodic
    return {name: wave.wave[kept], "constant mean": wave.constant[kept], "last week's repeat": wave.last_week[kept]}


def _days(grid: UsageGrid) -> np.ndarray:
    return np.arange(grid.cpu.shape[1]) * grid.step_s / DAY_S


def _draw_waves(axes: Axes, grid: UsageGrid, fits: WaveFits, row: int) -> None:
    name = "pulse wave" if fits.is_periodic[row] else "aperiodic: its peak"
    axes.plot(_days(grid), 100 * fits.waves(row).at(grid.time_s() + grid.step_s / 2), color=_WAVE, linewidth=1.0,
              label=name)
