"""A schedule as a picture: when each job runs, and what all of them use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sojourn.flows.reports.figures import plain
from sojourn.simulator.planning import Instance, Runs, Schedule, executed, usage_profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GREEN, _GREY, _RED = "#1b7f79", "#8c8c8c", "#b5483a"
_MAX_NAMES = 40
_MAX_TIMES = 1_500


def plan_figure(instance: Instance, schedule: Schedule, runs: Runs, title: str) -> Figure:
    """Two panels over the same time: bars of the jobs, and usage of the first resource with its 5-95 % band over runs.

    A bar is the median duration, its thin end the 95th percentile of the runs; a tick marks the requested start, a
    small line the deadline. Below: median usage of the schedule, its band, the planned peak, and the median usage of
    the requested starts.
    """
    from matplotlib.figure import Figure

    n = len(instance)
    unit_s, unit = _time_unit(instance, schedule)
    bars_height = min(max(0.16 * n, 2.0), 9.0)
    figure = Figure(figsize=(12, bars_height + 3.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[bars_height, 2.6])
    _bars(above, instance, schedule, runs, instance.step_s / unit_s)
    _usage(below, instance, schedule, runs, instance.step_s / unit_s)
    below.set_xlabel(f"time, {unit}")
    figure.suptitle(title, fontsize=10, x=0.02, ha="left", color="#444444")
    return figure


def _time_unit(instance: Instance, schedule: Schedule) -> tuple[float, str]:
    span_s = (int(schedule.starts.max()) - int(schedule.starts.min())) * instance.step_s
    return (3600.0, "hours") if span_s > 7_200 else (1.0, "seconds")


def _bars(axes: Axes, instance: Instance, schedule: Schedule, runs: Runs, scale: float) -> None:
    rows = np.empty(len(instance))
    rows[np.argsort(schedule.starts, kind="stable")] = np.arange(len(instance))
    middle, long = np.quantile(runs.durations, (0.5, 0.95), axis=0)
    axes.barh(rows, long * scale, left=schedule.starts * scale, height=0.35, color=_GREEN, alpha=0.35,
              label="95th percentile")
    axes.barh(rows, middle * scale, left=schedule.starts * scale, height=0.8, color=_GREEN, label="median duration")
    axes.plot(instance.requested * scale, rows, ls="", marker="|", color=_GREY, label="requested start",
              markersize=min(8, 300 / len(instance) + 2))
    axes.plot(instance.deadlines * scale, rows, ls="", marker=4, color=_RED, markersize=3, label="deadline")
    axes.set_ylim(len(instance) - 0.4, -0.6)
    if len(instance) <= _MAX_NAMES:
        axes.set_yticks(rows, [job.name for job in instance.jobs], fontsize=7)
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(instance)} jobs, by start")
    axes.legend(frameon=False, ncols=4, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1))
    plain(axes)


def _usage(axes: Axes, instance: Instance, schedule: Schedule, runs: Runs, scale: float) -> None:
    real = executed(instance, schedule.starts, runs)
    manual = executed(instance, instance.requested, runs)
    first = int(min(manual.min(), real.min()))
    last = int((real + runs.durations).max())
    times = np.unique(np.linspace(first, last, _MAX_TIMES).astype(np.int64))
    used = runs.usage[:, :, 0]
    low, middle, high = np.quantile(usage_profile(real, runs.durations, used, times), (0.05, 0.5, 0.95), axis=0)
    before = np.quantile(usage_profile(manual, runs.durations, used, times), 0.5, axis=0)
    at = times * scale
    axes.step(at, before, where="post", color=_GREY, lw=0.8, label="requested starts, median")
    axes.fill_between(at, low, high, step="post", color=_GREEN, alpha=0.25, lw=0, label="schedule, 5-95 % of runs")
    axes.step(at, middle, where="post", color=_GREEN, lw=1.2, label="schedule, median")
    axes.axhline(schedule.peak[0], color=_RED, lw=0.9, ls="--", label=f"planned peak {schedule.peak[0]:g}")
    axes.set_ylim(bottom=0)
    axes.set_ylabel(instance.resources[0])
    axes.legend(frameon=False, ncols=4, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1))
    plain(axes)
