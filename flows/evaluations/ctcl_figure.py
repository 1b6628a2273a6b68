"""Figures 5 to 7 of the CTCL paper in one picture: CPU, memory and cluster size over the days."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from sojourn.serving.usage import DAY_S
from sojourn.simulator.page import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANELS = (("cpu_pct", "CPU utilisation (%)"), ("mem_pct", "memory utilisation (%)"), ("n_machines", "machines"))
_PER_HOUR = 4


def figure_5_to_7(series: pd.DataFrame, algorithms: Sequence[str], title: str) -> Figure:
    """One line for each algorithm in each panel, means over an hour. series: `MixedResult.series` with `algorithm`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 8), layout="constrained")
    panels = figure.subplots(3, 1, sharex=True)
    for k, name in enumerate(algorithms):
        own = series[series["algorithm"] == name].reset_index(drop=True)
        hourly = own.drop(columns="algorithm").groupby(own.index // _PER_HOUR).mean()
        for axes, (column, _) in zip(panels, _PANELS, strict=True):
            axes.plot(hourly["time_s"] / DAY_S, hourly[column], label=name, color=COLOURS[k % len(COLOURS)],
                      linewidth=1.2)
    for axes, (_, label) in zip(panels, _PANELS, strict=True):
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0)
    panels[-1].set_xlabel("time (days)")
    panels[0].legend(frameon=False, fontsize="small", ncols=len(algorithms), loc="upper left",
                     bbox_to_anchor=(0, 1.22))
    figure.suptitle(title, fontsize=9, x=0.02, ha="left", color="#444444")
    return figure
