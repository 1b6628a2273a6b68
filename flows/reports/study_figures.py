"""Pictures of a study: accuracy by week after training, and whether predicted shares are what happens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.flows.reports.figures import COLOURS, legend_beside, plain, two_panels
from sojourn.models.measures import label_of

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
        (left, "f1", f"F1 of “outlives {label_of(found['threshold_s'])}” (higher = better)"),
        (right, "mae", "error, mean |log10 lifetime| (lower = better)"),
    ):
        for family, weeks in found["weeks"].items():
            points = [(week + 1, value) for week, n, value in zip(weeks["week"], weeks["n"], weeks[key], strict=True)
                      if value is not None and n >= _N_WEEK_MIN]
            _line(axes, family, points, found["chosen"])
        axes.set_xlabel("week after training, by arrival")
        axes.set_ylabel(title)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        plain(axes)
    legend_beside(figure, right)
    left.set_title("Accuracy as the model grows old", loc="left")
    return figure


def calibration_figure(found: Mapping[str, Any]) -> Figure:
    """Observed against predicted share that outlives the threshold, and the distribution of PIT values."""
    figure, (left, right) = two_panels()
    for family, points in found["calibration"].items():
        _line(left, family, _pairs(points["predicted"], points["observed"]), found["chosen"], marker="o")
        _line(right, family, _pairs(points["pit"], points["pit_share"]), found["chosen"])
    for axes in (left, right):
        axes.plot((0, 1), (0, 1), color="#444444", linewidth=0.8, linestyle=":", label="a right model")
        plain(axes)
    legend_beside(figure, right)
    name = label_of(found["threshold_s"])
    left.set_xlabel(f"predicted share that outlives {name}, by tenth of requests")
    left.set_ylabel("observed share (Kaplan-Meier)")
    left.set_title("Are predicted shares what happens?", loc="left")
    right.set_xlabel("predicted probability of having ended by the end (PIT)")
    right.set_ylabel("share of requests up to there")
    right.set_title("The whole distribution: above the line = ends come earlier", loc="left")
    return figure


def _pairs(x: list[float | None], y: list[float | None]) -> list[tuple[float, float]]:
    return [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]


def _line(axes: Axes, family: str, points: list[tuple[float, float]], chosen: str, marker: str = "") -> None:
    if points:
        axes.plot(*zip(*points, strict=True), label=family, color=COLOURS.get(family), marker=marker,
                  linewidth=2.6 if family == chosen else 1.4)
