"""Pictures of admission: bars of ratios, curves over cores, heat maps of differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sojourn.flows.evaluations.admission_runs import BACKFILL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

_COLOURS = {"greedy balanced": "#8c8c8c", "greedy best-fit": "#1b7f79", "greedy min-idle": "#7b6bb0",
            "threshold best-fit": "#d98c3f"}
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


def curves(axes: Axes, table: pd.DataFrame, value: str, words: str) -> None:
    """A line per rule over the number of cores. table: `label`, `n_cores`, the value, and optionally `least`, `most`
    of it over draws, drawn as bars."""
    labels = list(dict.fromkeys(table["label"]))
    for label in labels:
        own = table[table["label"] == label].sort_values("n_cores")
        spread = None
        if "least" in own:
            spread = np.maximum([own[value] - own["least"], own["most"] - own[value]], 0.0)
        axes.errorbar(own["n_cores"], own[value], yerr=spread, color=colour_of(label, labels), label=label, lw=1.4,
                      marker="o", markersize=2.5, ls="--" if label.endswith(BACKFILL) else "-", capsize=2,
                      elinewidth=0.8)
    axes.set_xlabel("cores")
    axes.set_ylabel(words)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, lw=0.5)


def heat_map(axes: Axes, table: pd.DataFrame, row: str, words: str, limit: float) -> QuadMesh:
    """Differences of ratios over cores and `row`, interpolated; blue = the first rule is better, white = 0.

    table: `n_cores`, `row`, `difference`, on a full grid.
    """
    grid = table.pivot_table(index=row, columns="n_cores", values="difference")
    shown = axes.pcolormesh(grid.columns.to_numpy(float), grid.index.to_numpy(float), grid.to_numpy(), cmap="RdBu",
                            vmin=-limit, vmax=limit, shading="gouraud")
    axes.set_xlabel("cores")
    axes.set_ylabel(words)
    return shown


def panels(n: int, width: float = 5.0, height: float = 3.5) -> tuple[Figure, list[Axes]]:
    """A figure with n panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, n)))
