"""Host-hours that an elastic pool saves, against the moves that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_COLOURS = {"empty": "#8c8c8c", "timer": "#d98c3f", "timer-wide": "#c2a21c", "quiet": "#7b6bb0", "regret": "#1b7f79"}
_MARKERS = "osD^vP*X<>"


def elastic_figure(summary: pd.DataFrame) -> Figure:
    """One panel per way of moving: colour = consolidation, marker = policy; filled = its predictor can be deployed.

    summary: as `elastic_summary`, its index as columns. Bars are the paired 95 % intervals.
    """
    from matplotlib.figure import Figure

    movings = list(dict.fromkeys(summary["moving"]))
    figure = Figure(figsize=(6.4 * len(movings), 4.6), layout="constrained")
    marker = dict(zip(dict.fromkeys(summary["policy"]), _MARKERS * 4, strict=False))
    for axes, moving in zip(np.atleast_1d(figure.subplots(1, len(movings))), movings, strict=True):
        own = summary[summary["moving"] == moving]
        for row in own.to_dict("records"):
            colour, is_known = _COLOURS[row["consolidation"]], row["predictor"].startswith(("oracle", "noise"))
            half = row["saved_high_pct"] - row["saved_pct"]
            axes.errorbar(row["n_moves"], row["saved_pct"], yerr=None if np.isnan(half) else half, color=colour,
                          marker=marker[row["policy"]], markerfacecolor="white" if is_known else colour, lw=0.8,
                          markersize=6)
        axes.axhline(0.0, color="#444444", lw=0.8)
        axes.set_xscale("symlog", linthresh=10)
        least, most = float(own["n_moves"].min()), float(own["n_moves"].max())
        axes.set_xlim(-2.0 if least < 10 else least / 2, max(2 * most, 10.0))
        axes.set_xlabel("moves (lower = better)")
        axes.set_ylabel("host-hours saved against best-fit with the timer, %\n(higher = better)")
        axes.set_title("requests migrate live" if moving == "live" else "requests start over", fontsize=11, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    axes = figure.axes[-1]
    for name, colour in _COLOURS.items():
        if not (summary["consolidation"] == name).any():
            continue
        axes.plot([], [], color=colour, marker="s", ls="", label=name)
    for policy, shape in marker.items():
        axes.plot([], [], color="#444444", marker=shape, ls="", markerfacecolor="white", label=policy)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    return figure
