"""Figures 8 to 15 of COSPiS, from our own runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sojourn.flows.reports.figures import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
