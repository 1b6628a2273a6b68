"""Pictures of the detector table and of the simulated year."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sojourn.models.drift import MONITOR_DETECTOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {"never": "#999999", "timer": "#d95f02", "monitor": "#1b6ca8"}


def table_figure(table: Mapping[str, Any], path: Path) -> None:
    """False alarms a year on autocorrelated years without drift against the share of steps found within 7 days."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 5.0), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    titles = ("no drift, independent days", "no drift, AR(0.95) and cycles")
    pairs = (("none", "step"), ("none, autocorrelated", "step, autocorrelated"))
    for axes, title, (none, step) in zip((left, right), titles, pairs, strict=True):
        points: list[tuple[str, float, float]] = []
        for name, row in table["default"].items():
            x, y = row[none]["alarms_per_year"], 100.0 * row[step]["share_within_7_days"]
            axes.plot(x, y, "o", color=_COLOURS["monitor"] if name == MONITOR_DETECTOR else "#555555")
            points.append((name, x, y))
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("false alarms a year (0 to 1 is linear)")
        axes.set_xscale("symlog", linthresh=1.0)
        axes.set_xlim(-0.1, 40.0)
        axes.set_xticks([0.0, 0.5, 1.0, 3.0, 10.0, 30.0], ["0", "0.5", "1", "3", "10", "30"])
        axes.set_ylim(-8.0, 108.0)
        axes.grid(alpha=0.3)
        _label(axes, points)
    left.set_ylabel("steps (lifetimes x 2 or x 1/2) found within 7 days, %")
    figure.savefig(path, dpi=110)


def _label(axes: Axes, points: Sequence[tuple[str, float, float]]) -> None:
    """Each point's name beside it, moved where it would lie on a name or a point; a line leads to it then."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    at = {name: axes.transData.transform((x, y)) for name, x, y in points}
    left, bottom = axes.transAxes.transform((0.0, 0.0))
    right, top = axes.transAxes.transform((1.0, 1.0))
    taken = [(x - 5.0, y - 5.0, x + 5.0, y + 5.0) for x, y in at.values()]
    for name, x, y in sorted(points, key=lambda point: (-point[1], -point[2])):
        own_x, own_y = at[name]
        width = 6.2 * len(name)
        for dx, dy in sorted(((dx, 13.0 * step) for dx in (9.0, 40.0, 110.0) for step in range(-9, 10)),
                             key=lambda move: abs(move[1]) + 0.3 * move[0]):
            box = (own_x + dx, own_y + dy - 6.5, own_x + dx + width, own_y + dy + 6.5)
            is_inside = left < box[0] and box[2] < right and bottom < box[1] and box[3] < top
            if is_inside and not any(box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
                                     for other in taken):
                break
        taken.append(box)
        points_a_pixel = 72.0 / figure.dpi
        axes.annotate(name, (x, y), textcoords="offset points", xytext=(dx * points_a_pixel, dy * points_a_pixel),
                      fontsize=8, va="center",
                      arrowprops=None if (dx, dy) == (9.0, 0.0) else {"arrowstyle": "-", "color": "#999999", "lw": 0.6,
                                                         "shrinkA": 0.0, "shrinkB": 2.0})


def year_figure(years: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Brier score above perfect knowledge by week, mean over seeds, and each seed's alarms."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 8.0), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, height_ratios=(3, 1))
    for column, kind in enumerate(("control", "drifts")):
        own = [year for year in years if year["kind"] == kind]
        above, below = panels[0, column], panels[1, column]
        for rule, colour in _COLOURS.items():
            brier, least = (np.array([year["rules"][each]["weeks"]["brier"] for year in own])
                            for each in (rule, "perfect"))
            mean = (brier - least).mean(axis=0)
            above.plot(np.arange(len(mean)) + 0.5, 1_000.0 * mean, color=colour, label=rule)
        for row, year in enumerate(own):
            for rule in ("timer", "monitor"):
                days = np.array(year["rules"][rule]["trained"])
                below.plot(days / 7.0, np.full(len(days), row) + (0.2 if rule == "timer" else -0.1), "|", markersize=5,
                           color=_COLOURS[rule])
            alarms = np.array(year["rules"]["monitor"]["alarms"])
            below.plot(alarms / 7.0, np.full(len(alarms), row) - 0.1, "o", markersize=4, color=_COLOURS["monitor"])
            for name, begin in year["begins"].items():
                below.plot([begin / 7.0] * 2, [row - 0.4, row + 0.4], color="#c00000", linewidth=1.0)
                if row == 0:
                    above.axvline(begin / 7.0, color="#c00000", linewidth=0.8, linestyle=":")
                    above.annotate(name, (begin / 7.0, 1.0), xycoords=("data", "axes fraction"), fontsize=8,
                                   xytext=(2, -10), textcoords="offset points", color="#c00000")
        above.set_title({"control": "no drift", "drifts": "four drifts"}[kind], fontsize=10)
        below.set_xlabel("week of the year")
        below.set_yticks(range(len(own)), [f"seed {year['seed']}" for year in own])
        above.grid(alpha=0.3)
    top = max(axes.get_ylim()[1] for axes in panels[0])
    for axes in panels[0]:
        axes.set_ylim(0.0, top)
    panels[0, 0].set_ylabel("integrated Brier score above perfect knowledge, thousandths")
    panels[0, 0].legend()
    panels[1, 0].set_ylabel("o alarm, | retrained")
    figure.savefig(path, dpi=110)
