"""Figures of a comparison as static pictures by matplotlib (pipeline extra), without a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sojourn.simulator.experiments import BASELINE
from sojourn.simulator.measures import signed_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_N_PLACES = 41
_LINE_HEIGHT = 0.055
"""Height of a label, as a share of a panel of about 3 inches."""
_APART = 0.16
"""Distance of labels, as a share of the panel, if there is room."""


def draw_gains(axes: Axes, simulation: pd.DataFrame) -> None:
    """Gain in empty hosts over best-fit per policy and predictor."""
    rows = simulation[simulation["policy"] != BASELINE].iloc[::-1]
    labels = [policy if not predictor else f"{policy} · {predictor}"
              for policy, predictor in zip(rows["policy"], rows["predictor"], strict=True)]
    gains = rows["gain_pp"].tolist()
    axes.barh(labels, gains, color=["#1b7f79" if gain >= 0 else "#b5483a" for gain in gains])
    if "gain_low_pp" in rows and rows["gain_low_pp"].notna().all():
        half = (rows["gain_high_pp"] - rows["gain_low_pp"]) / 2.0
        axes.errorbar(gains, labels, xerr=half.tolist(), fmt="none", ecolor="#444444", elinewidth=1, capsize=3)
        ends = [gain + (width if gain >= 0 else -width) for gain, width in zip(gains, half, strict=True)]
    else:
        ends = gains
    span = max(map(abs, gains), default=1.0) or 1.0
    for position, (gain, end) in enumerate(zip(gains, ends, strict=True)):
        axes.text(end + (0.02 if gain >= 0 else -0.02) * span, position, signed_text(gain, 1), va="center",
                  ha="left" if gain >= 0 else "right", fontsize=9)
    axes.axvline(0, color="#444444", linewidth=0.8)
    axes.margins(x=0.15)
    axes.set_xlabel("empty hosts over best-fit, pp (higher = better; 95 % interval)")
    axes.set_title("Empty hosts gained over best-fit", loc="left")
    _plain(axes)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)


def gains_figure(summary: pd.DataFrame, title: str) -> Figure:
    """Gain over best-fit of each policy and predictor, pp, with 95 % intervals: rows of one workload and load."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 1.8 + 0.26 * len(summary)), layout="constrained")
    draw_gains(figure.add_subplot(), summary)
    figure.suptitle(title, fontsize=9, x=0.02, ha="left", color="#444444")
    return figure


def label_lines(axes: Axes, lines: Mapping[str, Sequence[tuple[float, float]]], colours: Mapping[str, str]) -> None:
    """Write each name on its line, far from other lines. lines: name -> points (x, y), x rising.

    Limits of the axes must be set. A line without points has no label.
    """
    drawn = {name: np.array(points) for name, points in lines.items() if len(points)}
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    places = np.linspace(left + 0.08 * (right - left), right - 0.08 * (right - left), _N_PLACES)
    heights = {name: np.interp(places, points[:, 0], points[:, 1], np.nan, np.nan) for name, points in drawn.items()}
    taken: list[tuple[float, float]] = []
    for name, points in drawn.items():
        height = heights[name]
        others = np.array([each for other, each in heights.items() if other != name]).reshape(-1, _N_PLACES)
        gaps = np.abs(others - height) / (top - bottom)
        room = np.where(np.isnan(gaps), 1.0, gaps).min(axis=0, initial=1.0)
        for x, y in taken:
            away = np.hypot((places - x) / (right - left), (height - y) / (top - bottom))
            room = np.where(away < _APART, room - 1.0, room)
        room = np.where(np.isnan(height), -np.inf, room)
        at = int(room.argmax())
        x, y = (places[at], height[at]) if np.isfinite(room[at]) else points[-1]
        taken.append((x, y))
        axes.text(x, y, name, color=colours.get(name, "#444444"), fontsize=8.5, fontweight="bold", ha="center",
                  va="center", clip_on=True, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75,
                                                   "pad": 0.6})


def label_ends(axes: Axes, lines: Mapping[str, Sequence[tuple[float, float]]], colours: Mapping[str, str]) -> None:
    """Write each name to the right of its line's last point, moved up or down if two would overlap.

    Limits of the axes must be set, with room at the right. A line without points has no label.
    """
    ends = sorted((points[-1][1], points[-1][0], name) for name, points in lines.items() if points)
    bottom, top = axes.get_ylim()
    apart = _LINE_HEIGHT * (top - bottom)
    heights = [y for y, _, _ in ends]
    for k in range(1, len(heights)):
        heights[k] = max(heights[k], heights[k - 1] + apart)
    if heights and heights[-1] > top:  # moved down again from the top
        heights[-1] = top
        for k in range(len(heights) - 2, -1, -1):
            heights[k] = min(heights[k], heights[k + 1] - apart)
    for height, (_, x, name) in zip(heights, ends, strict=True):
        axes.text(x, height, f"  {name}", va="center", fontsize=8.5, fontweight="bold",
                  color=colours.get(name, "#444444"))


def _plain(*panels: Axes) -> None:
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
