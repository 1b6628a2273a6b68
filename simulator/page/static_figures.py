"""Figures of a comparison as static pictures by matplotlib (pipeline extra), without a browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sojourn.simulator.cluster import DAY_S
from sojourn.simulator.experiments import BASELINE, Comparison
from sojourn.simulator.page.comparison_data import ComparisonData
from sojourn.simulator.page.figures import (
    BOUND_COLOUR,
    CLASS_COLOURS,
    CLASS_NAMES,
    COLOURS,
    EMPTY_COLOUR,
    colours_of,
    line_styles,
    sweeps,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HIGHER = "higher is better"
_LINE_STYLES = ("-", "--", ":", "-.", (0, (8, 3)))


def write_png(comparison: Comparison, path: str | Path) -> Path:
    """Empty hosts over time, and the gain of each policy over best-fit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5), dpi=110, layout="constrained")
    over_time, gain = figure.subplots(1, 2, width_ratios=(3, 2))
    for label, days, percent, colour, is_bound in _lines(comparison, n_points=125):
        over_time.plot(days, percent, label=label, color=colour, linewidth=1.2, linestyle=":" if is_bound else "-")
    over_time.set(xlabel="time since the trace's start (days)", ylabel=f"empty hosts (%), {_HIGHER}",
                  title="Empty hosts over time")
    over_time.legend(frameon=False, fontsize="small", ncols=2)
    if comparison.warmup_s > 0:
        over_time.axvspan(0, comparison.warmup_s / DAY_S, color="#dddddd", alpha=0.4, linewidth=0)
        over_time.text(0, 0.01, " warm-up", transform=over_time.get_xaxis_transform(), fontsize="small")
    over_time.margins(x=0)
    labels, gains, colours = _bars(comparison)
    bars = gain.barh(labels, gains, color=colours)
    gain.bar_label(bars, fmt="%+.2f", padding=3)
    gain.margins(x=0.2)
    gain.axvline(0, color="black", linewidth=0.8)
    gain.set(xlabel=f"empty hosts above best-fit's (pp), {_HIGHER}", title="Gain over best-fit")
    _plain(over_time, gain)
    figure.suptitle(comparison.description, fontsize="medium")
    target = Path(path)
    figure.savefig(target)
    return target


def write_heat_map_png(data: ComparisonData, path: str | Path, labels: Sequence[str]) -> Path:
    """Hosts x time by lifetime class, one panel per label, the most often empty host on top."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    unknown = [label for label in labels if label not in data.host_maps]
    if unknown or not labels:
        raise ValueError(f"labels must be among {', '.join(data.host_maps)}, got {unknown or labels!r}")
    colours = (EMPTY_COLOUR, *CLASS_COLOURS)
    figure = Figure(figsize=(6 * len(labels), 4.5), dpi=110, layout="constrained")
    for axes, label in zip(figure.subplots(1, len(labels), squeeze=False)[0], labels, strict=True):
        host_map = data.host_maps[label]
        states = host_map.lifetime_class[:, host_map.by_use()]
        axes.pcolormesh(host_map.time_s / DAY_S, np.arange(states.shape[1]), states.T, cmap=ListedColormap(colours),
                        vmin=-0.5, vmax=len(colours) - 0.5, shading="nearest", rasterized=True)
        axes.axvline(data.warmup_s / DAY_S, color="black", linewidth=0.8, linestyle=":")
        axes.set(xlabel="time since the trace's start (days), metrics from the dotted line on", ylabel="hosts",
                 title=label, yticks=[])
    patches = [Patch(facecolor=colour, label=name)
               for colour, name in zip(colours, ("empty", *CLASS_NAMES), strict=True)]
    figure.legend(handles=patches, frameon=False, ncols=len(patches), loc="outside lower center", fontsize="small")
    figure.suptitle(data.description, fontsize="medium")
    target = Path(path)
    figure.savefig(target)
    return target


def write_sensitivity_png(data: ComparisonData, path: str | Path) -> Path:
    """Gains over best-fit against each setting that varies, a panel each, with 95 % intervals."""
    from matplotlib.figure import Figure

    all_sweeps = sweeps(data)
    if not all_sweeps:
        raise ValueError("summary must vary recall, noise or load, got one setting of each")
    figure = Figure(figsize=(6 * len(all_sweeps), 4.5), dpi=110, layout="constrained")
    panels = figure.subplots(1, len(all_sweeps), squeeze=False, sharey=True)[0]
    for axes, sweep in zip(panels, all_sweeps, strict=True):
        styles = line_styles(sweep.policies, colours_of(data.summary["policy"], BASELINE))
        for (label, points), (colour, dash) in zip(sweep.lines.items(), styles, strict=True):
            axes.plot(points["x"], points["gain_pp"], marker="o", label=label, color=colour,
                      linestyle=_LINE_STYLES[dash])
            axes.fill_between(points["x"], points["gain_low_pp"], points["gain_high_pp"], color=colour, alpha=0.15,
                              linewidth=0)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(xlabel=sweep.axis, title=sweep.title)
        axes.legend(frameon=False, fontsize="small")
    panels[0].set_ylabel(f"empty hosts above best-fit's (pp), {_HIGHER}")
    _plain(*panels)
    figure.suptitle(data.description, fontsize="medium")
    target = Path(path)
    figure.savefig(target)
    return target


def _plain(*panels: Axes) -> None:
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)


def _lines(comparison: Comparison, n_points: int = 500) -> list[tuple[str, np.ndarray, np.ndarray, str, bool]]:
    """Label, days, per cent, colour and whether it is the bound, for each line; means of about n_points bins."""
    first: Any = next(iter(comparison.results.values())).series
    width = max(len(first) // n_points, 1)

    def mean(values: Any) -> np.ndarray:
        whole = np.asarray(values)[: len(values) // width * width]
        return np.asarray(whole.reshape(-1, width).mean(axis=1))

    days = mean(first["time_s"]) / DAY_S
    lines = [("bound", days, mean(first["bound_empty_hosts_pct"]), BOUND_COLOUR, True)]
    for k, (label, result) in enumerate(comparison.results.items()):
        percent = mean(result.series["empty_hosts_pct"])
        lines.append((label, days, percent, COLOURS[k % len(COLOURS)], False))
    return lines


def _bars(comparison: Comparison) -> tuple[list[str], list[float], list[str]]:
    """Labels, gains and colours from the bottom bar to the top one."""
    gain_pp = comparison.table["gain_pp"].to_dict()
    labels = ["bound", *reversed([label for label in comparison.results if label != BASELINE])]
    bound = comparison.bound_empty_hosts_pct - comparison.results[BASELINE].metrics.empty_hosts_pct
    gains = [bound, *(float(gain_pp[label]) for label in labels[1:])]
    colours = {label: COLOURS[k % len(COLOURS)] for k, label in enumerate(comparison.results)}
    return labels, gains, [BOUND_COLOUR, *(colours[label] for label in labels[1:])]
