"""One figure of a trace: lifetimes, arrivals and amounts in use."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from sojourn.features.describe import LONG_S, demand_steps, describe
from sojourn.features.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_BARS = 1500
_BLUE, _ORANGE, _GREY = "#2a6f97", "#d17a22", "#6b7280"
_COLOURS = (_BLUE, _ORANGE, _GREY, "#3f8f5b", "#8e5aa8", "#b03a48", "#8c6d31")
"""Colours of the resources in order, repeated if there are more."""


def trace_figure(trace: Trace) -> Figure:
    """A matplotlib figure: lifetimes with their core-hours, arrivals, and amounts in use over time.

    Left, over a log time axis: the share of requests with at least this observed lifetime, and their share of all
    core-hours. Middle: arrivals from 0 on, per hour (per several hours if the trace is longer than 62 days). Right:
    means over the same hours of the amounts in use, in % of the hosts for each resource, or in cores without hosts.
    Censored requests count as in `TraceSummary`.

    >>> from sojourn.features.synthetic import synthesize
    >>> [axes.get_xlabel() for axes in trace_figure(synthesize(500)).axes]
    ['lifetime', 'days since the start', 'days since the start']
    """
    if not len(trace):
        raise ValueError("trace must hold at least one request, got none")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _draw_lifetimes(left, trace)
    _draw_arrivals(middle, trace)
    _draw_use(right, trace)
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    return figure


def _draw_lifetimes(axes: Axes, trace: Trace) -> None:
    lifetime_s = np.maximum(trace.lifetime_s(), 1)
    core_s = trace.requests["cpu_cores"].to_numpy() * lifetime_s
    order = np.argsort(lifetime_s)
    # For each lifetime: requests and core-seconds at or above it.
    at_s, first = np.unique(lifetime_s[order], return_index=True)
    core_s_from = core_s[order][::-1].cumsum()[::-1]
    alive = 100 * (1 - first / len(order))
    axes.step(at_s, alive, where="pre", color=_BLUE, label="requests")
    share = 100 * core_s_from[first] / max(core_s_from[0], 1.0)
    axes.step(at_s, share, where="pre", color=_ORANGE, label="their core-hours")
    axes.axvline(LONG_S, color=_GREY, linewidth=1, linestyle=":")
    axes.set_xscale("log")
    ticks = [(1, "1 s"), (60, "1 min"), (3600, "1 h"), (86_400, "1 d"), (2_592_000, "30 d")]
    axes.set_xticks([time_s for time_s, _ in ticks], [label for _, label in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(1, max(int(at_s[-1]) * 1.5, 10))
    axes.set_ylim(0, 102)
    axes.set_xlabel("lifetime")
    axes.set_ylabel("share that lives at least so long, %")
    axes.set_title("Lifetimes", loc="left")
    axes.legend(frameon=False, loc="lower left")


def _edges_s(trace: Trace) -> tuple[np.ndarray, str]:
    """Edges of whole hours since the begin that cover the trace, at most 1,500 bars, and the bars' length as text."""
    n_hours = max(1, int(np.ceil(trace.span_s / 3600 / _MAX_BARS)))
    edge_s = np.arange(0, trace.span_s + n_hours * 3600, n_hours * 3600)
    return edge_s, "hour" if n_hours == 1 else f"{n_hours} hours"


def _draw_arrivals(axes: Axes, trace: Trace) -> None:
    since_s = trace.start_s() - trace.begin_s
    known_s = since_s[trace.is_start_known() & (since_s >= 0)]
    edge_s, bar = _edges_s(trace)
    counts, _ = np.histogram(known_s, edge_s)
    axes.stairs(counts, edge_s / 86_400, color=_BLUE, fill=True)
    axes.set_xlim(0, trace.span_s / 86_400)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("days since the start")
    axes.set_ylabel(f"arrivals per {bar}")
    axes.set_title("Arrivals", loc="left")


def _draw_use(axes: Axes, trace: Trace) -> None:
    edge_s, bar = _edges_s(trace)
    edge_s = np.minimum(edge_s, trace.span_s)
    edge_s = edge_s[np.append(True, np.diff(edge_s) > 0)]
    summary = describe(trace)
    for name, color in zip(summary.capacity or ("cpu_cores",), cycle(_COLOURS), strict=False):
        time_s, amount = demand_steps(trace, name)
        time_s = time_s - trace.begin_s
        # The amount is constant between changes, so its integral is linear between them and interp
        # is exact.
        integral = np.append(0.0, (amount[:-1] * np.diff(time_s)).cumsum())
        mean = np.diff(np.interp(edge_s, time_s, integral)) / np.diff(edge_s)
        is_binding = name == summary.binding
        scale = 100 / summary.capacity[name] if summary.capacity else 1.0
        label = f"{name}{' (binding)' if is_binding else ''}, peak {scale * summary.peak[name]:,.1f}"
        axes.stairs(scale * mean, edge_s / 86_400, baseline=None, color=color, linewidth=1.6 if is_binding else 1.0,
                    label=label + (" %" if summary.capacity else ""))
    axes.set_xlim(0, trace.span_s / 86_400)
    # Up to 100 % if the curves are then visible.
    is_full = any(summary.peak[name] > total / 2 for name, total in summary.capacity.items())
    axes.set_ylim(0, max(100.0, axes.get_ylim()[1]) if is_full else None)
    axes.set_xlabel("days since the start")
    unit = "% of the hosts" if summary.capacity else "cores"
    axes.set_ylabel(f"in use, mean per {bar}, {unit}")
    axes.set_title("In use", loc="left")
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0, fontsize="small")
