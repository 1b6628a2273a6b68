"""Pictures of a run and of a request's lifetime curve, by matplotlib, for MLflow, files, README."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from sojourn.models.lifetime import LIFETIME_MODELS
from sojourn.models.measures import AGES_S, UPTIME_SHARES, time_label
from sojourn.serving.curves import LifetimeCurve
from sojourn.simulator.page import draw_gains

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PALETTE = ("#8c8c8c", "#d98c3f", "#7b6bb0", "#3b6fb5", "#1b7f79", "#c2a21c", "#76a03a", "#b5483a", "#c765a5",
            "#7a5236", "#2b2b2b")  # fmt: skip
COLOURS: Mapping[str, str] = dict(zip(LIFETIME_MODELS, _PALETTE, strict=False))
"""By family; later families have matplotlib's colours."""
_STYLES: Mapping[str, Mapping[str, Any]] = {"hazard": {"linewidth": 3.0}, "mixture": {"linestyle": "--"}}
"""Line styles by family: a mixture that is all hazard lies on the hazard's line; both must show."""
_GAIN = "#1b7f79"
TICKS_S = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3_600: "1 h", 21_600: "6 h", 86_400: "1 d",
           604_800: "7 d", 2_592_000: "30 d", 15_552_000: "180 d", 94_608_000: "3 y"}  # fmt: skip
FINE_TICKS_S = {1: "1 s", 2: "2 s", 5: "5 s", 10: "10 s", 30: "30 s", 60: "1 min", 120: "2 min", 300: "5 min",
                600: "10 min", 1_800: "30 min", 3_600: "1 h", 7_200: "2 h", 21_600: "6 h", 43_200: "12 h",
                86_400: "1 d", 172_800: "2 d", 345_600: "4 d", 604_800: "7 d", 1_209_600: "14 d", 2_592_000: "30 d",
                5_184_000: "60 d", 15_552_000: "180 d", 31_536_000: "1 y", 94_608_000: "3 y"}  # fmt: skip
"""Ticks of an axis that would have fewer than four of the others."""
_COLOUR = "#1b7f79"
_N_POINTS = 600


def accuracy_figure(scores: Mapping[str, Mapping[str, float]], threshold_s: int) -> Figure:
    """Two panels: errors at absolute ages (as in a scheduler); F1 by share of each lifetime."""
    figure, (upper, lower) = two_panels(is_stacked=True)
    draw_errors_by_age(upper, scores)
    draw_f1_by_share(lower, scores, threshold_s)
    legend_beside(figure, upper)
    return figure


def overview_figure(scores: Mapping[str, Mapping[str, float]], simulation: pd.DataFrame, title: str, *,
                    is_stacked: bool = False) -> Figure:
    """Two panels: errors at absolute ages, and gains in empty hosts over best-fit. is_stacked: one above the other."""
    figure, (first, second) = two_panels(is_stacked)
    draw_errors_by_age(first, scores)
    legend(first)
    draw_gains(second, simulation)
    figure.suptitle("\n".join(textwrap.wrap(title, 80 if is_stacked else 140)), fontsize=11, x=0.02, ha="left",
                    color="#444444")
    return figure


def search_figure(values: Sequence[float | None]) -> Figure:
    """Each finished trial's score as a share of the defaults', and the best so far."""
    from matplotlib.figure import Figure

    points = [(number, value) for number, value in enumerate(values, 1) if value is not None]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    if points:
        numbers, scores = zip(*points, strict=True)
        axes.plot(numbers, scores, "o", color=COLOURS["km"], label="trial")
        axes.step(numbers, list(accumulate(scores, min)), where="post", color=_GAIN, label="best so far")
    axes.axhline(1.0, color="#444444", linewidth=0.8, linestyle=":")
    axes.set_xlabel("trial")
    axes.set_ylabel("Brier score, share of the defaults' (lower = better)")
    axes.set_title("The search, on the validation windows", loc="left")
    legend(axes)
    plain(axes)
    return figure


def draw_errors_by_age(axes: Axes, scores: Mapping[str, Mapping[str, float]]) -> None:
    """MAE of log10 remaining at creation and at each absolute age, one line per family."""
    labels = ["creation", *(time_label(age_s) for age_s in AGES_S)]
    keys = ["creation.mae_log10_lifetime", *(f"age_{label}.mae_log10_remaining" for label in labels[1:])]
    for family, values in scores.items():
        points = [(position, values[key]) for position, key in enumerate(keys) if key in values]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=family, color=COLOURS.get(family),
                      **_STYLES.get(family, {}))
    axes.set_xticks(range(len(labels)), labels)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("age at which the scheduler asks")
    axes.set_ylabel("error, mean |log10 remaining| (lower = better)")
    axes.set_title("Error of the predicted remaining time, by age", loc="left")
    plain(axes)


def draw_f1_by_share(axes: Axes, scores: Mapping[str, Mapping[str, float]], threshold_s: int) -> None:
    """F1 of "outlives the threshold" at shares of each request's lifetime (LAVA, figure 9)."""
    name = time_label(threshold_s)
    for family, values in scores.items():
        keys = [(share, f"share_{round(100 * share):02d}.f1_long") for share in UPTIME_SHARES]
        points = [(100 * share, values[key]) for share, key in keys if key in values]
        if points:
            axes.plot(*zip(*points, strict=True), label=family, color=COLOURS.get(family),
                      **_STYLES.get(family, {}))
    axes.set_ylim(0, 1)
    axes.set_xlabel("uptime, % of the request's own lifetime")
    axes.set_ylabel(f"F1 of “outlives {name}” (higher = better)")
    axes.set_title("By share of the own lifetime (it knows the answer)", loc="left")
    plain(axes)


def two_panels(is_stacked: bool = False) -> tuple[Figure, tuple[Axes, Axes]]:
    """Two panels beside each other, or one above the other: 7 inches wide, as MLflow's pages have room for."""
    from matplotlib.figure import Figure

    # pyplot would keep each figure of a process for good
    figure = Figure(figsize=(7, 8.6) if is_stacked else (12, 4.6), layout="constrained")
    shape = (2, 1) if is_stacked else (1, 2)
    return figure, (figure.add_subplot(*shape, 1), figure.add_subplot(*shape, 2))


def legend(axes: Axes) -> None:
    """A legend, or a note that there are no errors, as in a test window without an observed end."""
    if axes.lines:
        axes.legend(frameon=False)
    else:
        axes.text(0.5, 0.5, "too few observed ends to measure", ha="center", va="center", transform=axes.transAxes,
                  color="#444444")


def legend_beside(figure: Figure, axes: Axes) -> None:
    """One legend beside the panels, where it hides no lines; or a note as in `legend`."""
    if axes.lines:
        figure.legend(*axes.get_legend_handles_labels(), frameon=False, loc="outside right center")
    else:
        legend(axes)


def plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)


def curve_figure(curve: LifetimeCurve, title: str) -> Figure:
    """Mean and median remaining time with the 10-90 % band against uptime, both axes logarithmic.

    From 1 min (1 s if the median at creation is below 10 min) to the uptime that 1 in 100 outlives.
    Times below 1 s are drawn at 1 s.
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
        ticks = {time_s: label for time_s, label in TICKS_S.items() if least <= time_s <= most}
        if len(ticks) < 4:
            ticks = {time_s: label for time_s, label in FINE_TICKS_S.items() if least <= time_s <= most}
        axis.set_ticks(list(ticks), list(ticks.values()))
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
