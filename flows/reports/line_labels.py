"""Labels written on lines, each in its line's colour: no legend to look up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_N_PLACES = 41
_LINE_HEIGHT = 0.055
"""Of a label, as a share of a panel of about 3 inches."""
_APART = 0.16
"""Labels keep so far from each other, as a share of the panel, as long as there is room."""


def label_lines(axes: Axes, lines: Mapping[str, Sequence[tuple[float, float]]], colours: Mapping[str, str]) -> None:
    """Write each name on its line where the others are far away. lines: by name, points (x, y) with x rising.

    Limits of the axes must stand. A line without points has no label.
    """
    drawn = {name: np.array(points) for name, points in lines.items() if len(points)}
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    places = np.linspace(left + 0.08 * (right - left), right - 0.08 * (right - left), _N_PLACES)
    heights = {name: np.interp(places, points[:, 0], points[:, 1], np.nan, np.nan) for name, points in drawn.items()}
    taken: list[tuple[float, float]] = []
    for name, points in drawn.items():
        own = heights[name]
        others = np.array([each for other, each in heights.items() if other != name]).reshape(-1, _N_PLACES)
        gaps = np.abs(others - own) / (top - bottom)
        room = np.where(np.isnan(gaps), 1.0, gaps).min(axis=0, initial=1.0)
        for x, y in taken:
            away = np.hypot((places - x) / (right - left), (own - y) / (top - bottom))
            room = np.where(away < _APART, room - 1.0, room)
        room = np.where(np.isnan(own), -np.inf, room)
        at = int(room.argmax())
        x, y = (places[at], own[at]) if np.isfinite(room[at]) else points[-1]
        taken.append((x, y))
        axes.text(x, y, name, color=colours.get(name, "#444444"), fontsize=8.5, fontweight="bold", ha="center",
                  va="center", clip_on=True, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75,
                                                   "pad": 0.6})


def label_ends(axes: Axes, lines: Mapping[str, Sequence[tuple[float, float]]], colours: Mapping[str, str]) -> None:
    """Write each name to the right of its line's last point, moved up or down where two would overlap.

    Limits of the axes must stand, with room at the right. A line without points has no label.
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
