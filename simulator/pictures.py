"""Figures of a comparison: empty hosts over time, and the gain of each policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from sojourn.simulator.compare import BASELINE, Comparison

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Okabe and Ito's palette, legible to the colour-blind."""
BOUND_COLOUR = "#888888"
DAY_S = 86_400
_HIGHER = "higher is better"


def empty_hosts_figure(comparison: Comparison) -> go.Figure:
    """Empty hosts over time for each cell, and the bound; warm-up included.

    >>> import sojourn.simulator as sim, pandas as pd
    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [40], "cpu_cores": [4.0],
    ...                       "mem_gib": [8.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 100), cpu_cores=8, mem_gib=32, n_hosts=2)
    >>> len(empty_hosts_figure(sim.compare(workload, [])).data)
    2
    """
    figure = go.Figure()
    for label, days, percent, colour, is_bound in _lines(comparison):
        style = {"color": colour, "width": 1.6, "dash": "dot" if is_bound else "solid"}
        figure.add_scatter(x=days, y=percent, name=label, mode="lines", line=style)
    if comparison.warmup_s > 0:
        figure.add_vrect(x0=0, x1=comparison.warmup_s / DAY_S, fillcolor="#dddddd", opacity=0.4, line_width=0,
                         annotation_text="warm-up", annotation_position="bottom left")
    figure.update_layout(
        title={"text": "Empty hosts over time", "subtitle": {"text": comparison.description}},
        xaxis_title="time since the trace's start (days)", yaxis_title=f"empty hosts (%), {_HIGHER}",
        template="plotly_white", legend={"orientation": "h", "y": -0.2}, hovermode="x unified",
    )
    return figure


def gain_figure(comparison: Comparison) -> go.Figure:
    """Gain of each cell over best-fit in percentage points of empty hosts, and the bound's.

    >>> import sojourn.simulator as sim, pandas as pd
    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [40], "cpu_cores": [4.0],
    ...                       "mem_gib": [8.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 100), cpu_cores=8, mem_gib=32, n_hosts=2)
    >>> gain_figure(sim.compare(workload, [("first-fit", "", None)])).data[0].y
    ('bound', 'first-fit')
    """
    labels, gains, colours = _bars(comparison)
    figure = go.Figure(go.Bar(x=gains, y=labels, orientation="h", marker_color=colours,
                              text=[f"{gain:+.2f}" for gain in gains], textposition="outside", cliponaxis=False))
    figure.update_layout(
        title={"text": "Gain over best-fit", "subtitle": {"text": comparison.description}},
        xaxis_title=f"empty hosts above best-fit's (percentage points), {_HIGHER}", template="plotly_white",
    )
    return figure


def write_png(comparison: Comparison, path: str | Path) -> Path:
    """Both figures as one static picture, drawn by matplotlib (of the pipeline extra); no browser needed."""
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
    for axes in (over_time, gain):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(comparison.description, fontsize="medium")
    target = Path(path)
    figure.savefig(target)
    return target


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
