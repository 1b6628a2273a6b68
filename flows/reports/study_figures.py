"""The picture of a study's accuracy by week after training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.flows.reports.figures import COLOURS, legend_beside, plain, two_panels
from sojourn.models.measures import time_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_N_WEEK_MIN = 50
"""A week with fewer requests is not drawn."""


def weeks_figure(found: Mapping[str, Any]) -> Figure:
    """F1 of "outlives the threshold" and error of the lifetime, by week after training (LAVA, figure 10)."""
    from matplotlib.ticker import MaxNLocator

    figure, (left, right) = two_panels()
    for axes, key, title in (
        (left, "f1", f"F1 of “outlives {time_label(found['threshold_s'])}” (higher = better)"),
        (right, "mae", "error, mean |log10 lifetime| (lower = better)"),
    ):
        for family, weeks in found["weeks"].items():
            points = [(week + 1, value) for week, n, value in zip(weeks["week"], weeks["n"], weeks[key], strict=True)
                      if value is not None and n >= _N_WEEK_MIN]
            draw_line(axes, family, points, found["chosen"])
        axes.set_xlabel("week after training, by arrival")
        axes.set_ylabel(title)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        plain(axes)
    legend_beside(figure, right)
    left.set_title("Accuracy as the model grows old", loc="left")
    return figure


def draw_line(axes: Axes, family: str, points: list[tuple[float, float]], chosen: str, marker: str = "") -> None:
    """A family's line in its colour, the chosen one's wider, "FAMILY, online" dashed; nothing without points."""
    if points:
        name, _, how = family.partition(", ")
        axes.plot(*zip(*points, strict=True), label=family, color=COLOURS.get(name), marker=marker,
                  linewidth=2.6 if family == chosen else 1.4, linestyle="--" if how else "-")
