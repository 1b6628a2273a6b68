"""Pictures of a study's calibration: at one horizon and as a whole, at four ages, and by week of arrival."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.flows.reports.figures import COLOURS, legend_beside, plain, two_panels
from sojourn.flows.reports.line_labels import label_ends, label_lines
from sojourn.flows.reports.study_figures import draw_line
from sojourn.models.measures import AGES_S, N_ENDS_MIN, PERCENTS, WEEKLY_AGES_S, age_prefix, time_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Found = Mapping[str, Any]
_RIGHT: Mapping[str, Any] = {"color": "#444444", "linewidth": 0.8, "linestyle": ":"}
_NEAR = 0.1
"""A panel shows at least this much around what is right, so that a good model's lines look flat."""
_ROOM = 1.35
"""Width of a panel by week, as a multiple of its weeks: names stand at the right of their lines."""
_N_MARKED = 15
"""Lines of fewer points than this have markers."""


def calibration_figure(found: Found) -> Figure:
    """Observed against predicted share that outlives the threshold, and the distribution of PIT values at creation."""
    figure, (left, right) = two_panels()
    for family, points in found["calibration"].items():
        draw_line(left, family, _pairs(points["predicted"], points["observed"]), found["chosen"], marker="o")
        draw_line(right, family, _pairs(points["pit"], points["creation.pit_share"]), found["chosen"])
    for axes in (left, right):
        axes.plot((0, 1), (0, 1), label="a right model", **_RIGHT)
        plain(axes)
    legend_beside(figure, right)
    name = time_label(found["threshold_s"])
    left.set_xlabel(f"predicted share that outlives {name}, by tenth of requests")
    left.set_ylabel("observed share (Kaplan-Meier)")
    left.set_title("Are predicted shares what happens?", loc="left")
    right.set_xlabel("predicted probability of having ended by the end (PIT)")
    right.set_ylabel("share of requests up to there")
    right.set_title("The whole distribution: above the line = ends come earlier", loc="left")
    return figure


def age_figure(found: Found) -> Figure:
    """A panel an age: how far the share that ends by each predicted quantile is from the quantile, a line a family.

    Families with fewer than N_ENDS_MIN observed ends at an age are not drawn there. The panels share their scale. The
    chosen family is also drawn as recalibrated online.
    """
    from matplotlib.figure import Figure

    lines: dict[int, dict[str, list[tuple[float, float]]]] = {}
    for age_s in (0, *AGES_S):
        prefix = age_prefix(age_s)
        lines[age_s] = {
            family: [(point, share - point) for point, share in _pairs(points["pit"], points[f"{prefix}.pit_share"])]
            for family, points in found["calibration"].items()
            if found["scores"][family].get(f"{prefix}.n_ends", 0.0) >= N_ENDS_MIN and f"{prefix}.pit_share" in points}
        own = found["calibration"][found["chosen"]]
        if found["chosen"] in lines[age_s] and f"online.{prefix}.pit_share" in own:
            lines[age_s][f"{found['chosen']}, online"] = [
                (point, share - point) for point, share in _pairs(own["pit"], own[f"online.{prefix}.pit_share"])]
    widest = max((abs(gap) for own in lines.values() for points in own.values() for _, gap in points), default=0.0)
    figure = Figure(figsize=(12, 8), layout="constrained")
    for place, (age_s, own) in enumerate(lines.items(), 1):
        axes = figure.add_subplot(2, 2, place)
        axes.set_xlim(0, 1)
        axes.set_ylim(-1.08 * max(widest, _NEAR), 1.08 * max(widest, _NEAR))
        axes.axhline(0.0, **_RIGHT)
        _draw(axes, own, found["chosen"], label_lines)
        n_ends = found["scores"][found["chosen"]].get(f"{age_prefix(age_s)}.n_ends", 0.0)
        name = f"at {time_label(age_s)}" if age_s else "at creation"
        axes.set_title(f"{name}: {n_ends:,.0f} ends", loc="left")
        axes.set_xlabel("predicted quantile")
        axes.set_ylabel("share that ended by it, minus it")
    figure.suptitle(f"{found['trace']}: coverage of predicted quantiles by age. 0 = right; above = ends come earlier "
                    "than predicted, below = later", fontsize=11, x=0.02, ha="left", color="#444444")
    return figure


def coverage_weeks_figure(found: Found) -> Figure:
    """Coverage of the 10, 50 and 90 % quantiles by week of arrival, at creation (above) and at 1 h, a line a family."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(13, 7.5), layout="constrained")
    n_weeks = max((len(weeks["week"]) for weeks in found["weeks"].values()), default=1)
    for column, percent in enumerate(PERCENTS):
        lines = {age_s: _by_week(found, f"{age_prefix(age_s)}.coverage_{percent}") for age_s in WEEKLY_AGES_S}
        values = [value for own in lines.values() for points in own.values() for _, value in points]
        low, high = min([*values, percent / 100 - _NEAR]), max([*values, percent / 100 + _NEAR])
        for row, age_s in enumerate(WEEKLY_AGES_S):
            axes = figure.add_subplot(len(WEEKLY_AGES_S), len(PERCENTS), row * len(PERCENTS) + column + 1)
            axes.set_xlim(1 - 0.04 * n_weeks, n_weeks * _ROOM)
            axes.set_ylim(max(low - 0.03, -0.02), min(high + 0.03, 1.02))
            axes.axhline(percent / 100, **_RIGHT)
            _draw(axes, lines[age_s], found["chosen"], label_ends)
            axes.set_xticks(range(1, n_weeks + 1, 1 + n_weeks // 8))
            axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            axes.set_title(f"{percent} % quantile {f'at {time_label(age_s)}' if age_s else 'at creation'}", loc="left")
            if row + 1 == len(WEEKLY_AGES_S):
                axes.set_xlabel("week after training, by arrival")
            if column == 0:
                axes.set_ylabel("ended by the quantile")
    figure.suptitle(f"{found['trace']}: coverage by week, weeks of at least {N_ENDS_MIN} ends. Dotted: a right model",
                    fontsize=11, x=0.02, ha="left", color="#444444")
    return figure


def _by_week(found: Found, name: str) -> dict[str, list[tuple[float, float]]]:
    return {family: [(week + 1, value) for week, value in _pairs(weeks["week"], weeks[name])]
            for family, weeks in found["weeks"].items() if name in weeks}


def _draw(axes: Axes, lines: Mapping[str, list[tuple[float, float]]], chosen: str,
          label: Callable[[Axes, Mapping[str, Sequence[tuple[float, float]]], Mapping[str, str]], None]) -> None:
    """Lines with their names at them, or that there are too few ends. One below the chosen one is not drawn."""
    hidden = [name for name, points in lines.items() if name != chosen and points == lines.get(chosen)]
    lines = {name: points for name, points in lines.items() if name not in hidden}
    for family, points in lines.items():
        draw_line(axes, family, points, chosen, marker="o" if len(points) < _N_MARKED else "")
    label(axes, lines, {name: COLOURS[own] for name in lines if (own := name.partition(", ")[0]) in COLOURS})
    if not any(lines.values()):
        axes.text(0.5, 0.75, f"fewer than {N_ENDS_MIN} ends", ha="center", transform=axes.transAxes, color="#444444")
    plain(axes)


def _pairs(x: Sequence[float | None], y: Sequence[float | None]) -> list[tuple[float, float]]:
    return [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]
