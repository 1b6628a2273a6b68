"""The picture of one request's lifetime curve: remaining time and its band against uptime."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from sojourn.serving.curves import LifetimeCurve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TICKS_S = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3_600: "1 h", 21_600: "6 h", 86_400: "1 d",
           604_800: "7 d", 2_592_000: "30 d", 15_552_000: "180 d", 94_608_000: "3 y"}  # fmt: skip
FINE_TICKS_S = {1: "1 s", 2: "2 s", 5: "5 s", 10: "10 s", 30: "30 s", 60: "1 min", 120: "2 min", 300: "5 min",
                600: "10 min", 1_800: "30 min", 3_600: "1 h", 7_200: "2 h", 21_600: "6 h", 43_200: "12 h",
                86_400: "1 d", 172_800: "2 d", 345_600: "4 d", 604_800: "7 d", 1_209_600: "14 d", 2_592_000: "30 d",
                5_184_000: "60 d", 15_552_000: "180 d", 31_536_000: "1 y", 94_608_000: "3 y"}  # fmt: skip
"""Ticks of an axis that would have fewer than four of the others."""
_COLOUR = "#1b7f79"
_N_POINTS = 600


def duration(seconds: float) -> str:
    """A time as a person says it: two or three digits and a unit.

    >>> [duration(s) for s in (0.4, 45, 600, 5_400, 93_600, 864_000)]
    ['0.4 s', '45 s', '10 min', '1.5 h', '26 h', '10 d']
    """
    for unit, size, until_s in (("s", 1.0, 120.0), ("min", 60.0, 5_400.0), ("h", 3_600.0, 172_800.0),
                                ("d", 86_400.0, np.inf)):  # fmt: skip
        if seconds < until_s:
            amount = seconds / size
            return f"{amount:.1f}".removesuffix(".0") + f" {unit}" if amount < 10.0 else f"{amount:.0f} {unit}"
    raise ValueError(f"seconds must be a finite number, got {seconds!r}")


def curve_figure(curve: LifetimeCurve, title: str) -> Figure:
    """Mean and median remaining time with the 10-90 % band against uptime, both axes logarithmic.

    From 1 min (1 s where the median at creation is below 10 min) to the uptime that 1 in 100 outlives. Times
    below 1 s are drawn at 1 s.
    """
    from matplotlib.figure import Figure

    first_s = 60.0 if curve.quantile(0.5, 0.0) >= 600.0 else 1.0
    last_s = max(curve.quantile(0.99, 0.0), 60.0 * first_s)
    uptimes_s = np.geomspace(first_s, last_s, _N_POINTS)
    low, median, high = (np.array([max(curve.quantile(q, float(uptime_s)), 1.0) for uptime_s in uptimes_s])
                         for q in (0.1, 0.5, 0.9))
    mean = np.array([max(curve.remaining(float(uptime_s)), 1.0) for uptime_s in uptimes_s])
    figure = Figure(figsize=(8.5, 5.2), layout="constrained")
    axes = figure.add_subplot()
    axes.fill_between(uptimes_s, low, high, color=_COLOUR, alpha=0.18, linewidth=0.0,
                      label="10-90 %: 8 in 10 such requests")
    axes.plot(uptimes_s, median, color=_COLOUR, linewidth=2.2, label="median")
    axes.plot(uptimes_s, mean, color="#333333", linewidth=1.4, linestyle=(0, (5, 2)), label="mean")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(first_s, last_s)
    axes.set_ylim(max(low.min() / 1.5, 1.0), max(high.max(), mean.max()) * 1.5)
    for axis, (least, most) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        kept = {time_s: label for time_s, label in TICKS_S.items() if least <= time_s <= most}
        if len(kept) < 4:
            kept = {time_s: label for time_s, label in FINE_TICKS_S.items() if least <= time_s <= most}
        axis.set_ticks(list(kept), list(kept.values()))
        axis.set_ticks([], minor=True)
    axes.set_xlabel("uptime: how long it has been running")
    axes.set_ylabel("remaining time")
    axes.set_title("\n".join(part for line in title.splitlines() for part in textwrap.wrap(line, 100)), loc="left",
                   fontsize=10)
    axes.legend(frameon=False, loc="best")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    return figure
