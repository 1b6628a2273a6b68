"""Pictures of workload classes: their use over the local day (CTCL, figures 3 and 4), and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from sojourn.flows.reports.figures import plain
from sojourn.serving.usage import N_SLOTS, WorkloadClasses

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_N_SHOWN = 8
_COLOURS = ("#2a6f97", "#d17a22", "#1b7f79", "#8c3b5e", "#6b7f2a", "#5a4fa2", "#b0413e", "#3d3d3d")
_GREY = "#c4c4c4"
_RESOURCES = {"cpu": "CPU, % of the reserved cores", "mem": "memory, % of the reserved memory"}


def class_figure(classes: Mapping[str, WorkloadClasses], what: str) -> Figure:
    """A panel a resource: highest use by slot of the day of each class (CTCL, figures 3 and 4).

    The eight largest classes are coloured and named by their ids and members; the others are grey. what: the data, for
    the title.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8 * len(classes), 4.6), layout="constrained")
    panels = figure.subplots(1, len(classes), squeeze=False)[0]
    for axes, (resource, each) in zip(panels, classes.items(), strict=True):
        _draw(axes, each)
        axes.set_ylabel(_RESOURCES[resource])
        axes.set_title(f"{what}: {len(each)} classes of {int(each.n_members.sum())} requests", loc="left")
        plain(axes)
    return figure


def _draw(axes: Axes, classes: WorkloadClasses) -> None:
    hours = np.arange(N_SLOTS) * 24 / N_SLOTS
    order = np.argsort(-classes.n_members, kind="stable")
    for position in order[_N_SHOWN:]:
        axes.plot(hours, 100 * classes.centres[position], color=_GREY, linewidth=0.8, zorder=1)
    for position, colour in zip(order[:_N_SHOWN], _COLOURS, strict=False):
        axes.plot(hours, 100 * classes.centres[position], color=colour, linewidth=1.6, zorder=2,
                  label=f"class {classes.ids[position]}, {classes.n_members[position]} requests")
    axes.set_xlim(0, 24)
    axes.set_ylim(bottom=0)
    axes.set_xticks(range(0, 25, 3))
    axes.set_xlabel("local hour of the day")
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.13))


def newcomer_figure(rows: Mapping[str, Mapping[int, Mapping[str, tuple[float, float]]]]) -> Figure:
    """Under-served work against over-reservation of each method, a panel a data set, % both; lower left = better.

    rows: data set -> hours of history -> method -> (under-served, over-reserved), shares.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(rows), 4.2), layout="constrained")
    panels = figure.subplots(1, len(rows), squeeze=False)[0]
    for axes, (name, by_hours) in zip(panels, rows.items(), strict=True):
        methods = list(next(iter(by_hours.values())))
        for method, colour in zip(methods, _COLOURS, strict=False):
            under, over = (np.array([by_hours[hours][method][i] for hours in by_hours]) * 100 for i in (0, 1))
            axes.plot(over, under, color=colour, marker="o", markersize=4, linewidth=1, label=method)
            for hours, x, y in zip(by_hours, over, under, strict=True):
                if hours == min(by_hours):
                    axes.annotate(f"{hours} h", (x, y), textcoords="offset points", xytext=(4, 4), fontsize=8)
        axes.set_xlabel("over-reserved, % of the reservation")
        axes.set_ylabel("under-served, % of work")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_title(name, loc="left")
        axes.legend(frameon=False, fontsize=8)
        plain(axes)
    return figure
