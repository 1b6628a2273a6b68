"""A section of results: a table on the terminal, in Markdown, and on an HTML page by itself.
Sections of plans: a schedule as a picture, planners side by side, today's migrations and reasons.
"""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.console import Console, ConsoleOptions
from rich.markup import escape
from rich.table import Table

from sojourn.flows.console import FittedTable, console
from sojourn.flows.placement.snapshot import Snapshot
from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.reports.figures import plain
from sojourn.simulator.measures import signed_text
from sojourn.simulator.planning import Executed, Instance, Runs, Schedule, executed, usage_profile
from sojourn.simulator.rectification import MigrationGroup, worth

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_GREEN, _GREY, _RED = "#1b7f79", "#8c8c8c", "#b5483a"
_MAX_NAMES = 40
_MAX_TIMES = 1_500
LEGEND = ("Reduction: of the observed peak below that of the requested starts in the same run, %, higher = better. "
          "Under: observed above the planned peak, over: below it, % of the planned peak, lower = better. Late: time "
          "of jobs behind their deadlines, seconds a run, lower = better. Against: reduction less that of {against} in "
          "the same run, points, with its 95 % interval over runs. Gap: of the planned peak to its bound, 0 = proved.")
_SHOWN = (("status", "status", ""), ("planned peak", "planned_peak", ".1f"),
          ("observed peak", "observed_peak", ".1f"), ("reduction %", "reduction_pct", ".1f"),
          ("under %", "under_pct", ".1f"), ("over %", "over_pct", ".1f"), ("late s", "late_s", ".1f"),
          ("gap %", "gap_pct", ".1f"), ("seconds", "seconds", ".2f"))
COLUMNS = ("request_id", "from_host", "to_host", "frees_host", "n_together", "predicted_remaining_h", "chance_pct",
           "chance_without_pct", "likely_after_h", "gain_h")


@dataclass(frozen=True, slots=True)
class Section:
    """One table of an evaluation, ready for rich's `print`: the first n_text columns are words.

    caption: the data, in words. legend: the meaning of the columns.
    """

    title: str
    caption: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_text: int
    legend: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        yield self.table()

    def table(self) -> Table:
        """For a terminal: if it is narrow, names and intervals take several lines, then columns at the right are left
        out, all but the names and one figure."""
        words = self.titles[:self.n_text]
        spaced = [title for title, *cells in zip(self.titles, *self.rows, strict=True) if any(" " in c for c in cells)]
        lines = {title: title.replace(" ", "\n") for title in self.titles}
        table = FittedTable(self.title, list(lines.values()), f"{self.caption} {self.legend}".strip(),
                            n_text=self.n_text, wrapped=[lines[title] for title in (*words, *spaced)])
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table


def markdown_rows(titles: Sequence[str], rows: Sequence[Sequence[str]], n_text: int = 1) -> list[str]:
    """A table; the columns after the first `n_text` are flush right."""
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * n_text + "---:|" * (len(titles) - n_text),
            *("| " + " | ".join(row) + " |" for row in rows)]


def section_page(title: str, about: str, sections: Sequence[Section], pictures: Mapping[str, bytes]) -> str:
    """The page. pictures: PNG by file name. It has the style of a comparison's page, and no script.

    >>> page = section_page("A & B", "", [Section("T", "c", ("rule", "n"), (("<i>", "1"),), 1)], {"a.png": b"x"})
    >>> "A &amp; B" in page, "<td>1</td>" in page, "&lt;i&gt;" in page, "data:image/png;base64,eA==" in page
    (True, True, True, True)
    """
    css = resources.files("sojourn.simulator.page").joinpath("page.css").read_text("utf-8")
    parts = [f"<section><h2>{html.escape(section.title)}</h2><p>{html.escape(section.caption)}</p>{_table(section)}"
             f'<p class="quiet">{html.escape(section.legend)}</p></section>' for section in sections]
    shown = "".join(f'<section><h2>{html.escape(name.removesuffix(".png").replace("-", " "))}</h2>'
                    f'<img style="max-width:100%" alt="{html.escape(name)}" src="data:image/png;base64,'
                    f'{base64.b64encode(content).decode()}"></section>' for name, content in pictures.items())
    return (f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n<title>{html.escape(title)}</title>\n'
            f"<style>\n{css}</style>\n</head>\n<body>\n<header><h1>{html.escape(title)}</h1><p>{html.escape(about)}</p>"
            f"</header>\n<main>\n{''.join(parts)}{shown}\n</main>\n</body>\n</html>\n")


def pngs(figures: Mapping[str, Figure]) -> dict[str, bytes]:
    """Pictures as PNG by file name."""
    contents = {}
    for name, figure in figures.items():
        with io.BytesIO() as stream:
            figure.savefig(stream, dpi=110, format="png")
            contents[f"{name}.png"] = stream.getvalue()
    return contents


def _table(section: Section) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        marks = [' class="text"' if k < section.n_text else "" for k in range(len(cells))]
        return "<tr>" + "".join(f"<{tag}{mark}>{html.escape(cell)}</{tag}>"
                                for mark, cell in zip(marks, cells, strict=True)) + "</tr>"

    body = "".join(row(cells, "td") for cells in section.rows)
    return f'<div class="wide"><table><thead>{row(section.titles, "th")}</thead><tbody>{body}</tbody></table></div>'


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


def plan_row(schedule: Schedule, observed: Executed, against: Executed) -> dict[str, Any]:
    """One planner's figures: means over runs; `against_pp` with half of its 95 % t-interval over runs."""
    difference = observed.reduction_pct - against.reduction_pct
    return {
        "planner": schedule.planner, "status": schedule.status, "planned_peak": float(schedule.peak[0]),
        "observed_peak": float(observed.peak[:, 0].mean()), "reduction_pct": float(observed.reduction_pct.mean()),
        "against_pp": float(difference.mean()), "against_half_pp": float(t_half_width(difference[:, None])[0]),
        "under_pct": float(observed.under_pct.mean()), "over_pct": float(observed.over_pct.mean()),
        "late_s": float(observed.late_s.mean()), "late_pct": float(observed.late_pct.mean()),
        "gap_pct": schedule.gap_pct, "alpha": np.nan if schedule.alpha is None else schedule.alpha,
        "seconds": schedule.seconds, "reason": schedule.reason}


def plan_section(rows: pd.DataFrame, title: str, against: str, caption: str) -> Section:
    """Rows of `plan_row` as a table."""
    names, paired = [name for name, _, _ in _SHOWN], 1 + [name for name, _, _ in _SHOWN].index("reduction %")
    titles = ("planner", *names[:paired], f"against {against}", *names[paired:])
    cells = []
    for row in rows.to_dict("records"):
        figures = [format(row[column], form) for _, column, form in _SHOWN]
        cells.append((str(row["planner"]), *figures[:paired], _paired(row), *figures[paired:]))
    return Section(title, caption, titles, tuple(cells), 2, LEGEND.format(against=against))


def jobs_section(table: pd.DataFrame, planner: str) -> Section:
    """The schedule, a row per job; columns: see `flows.plan.schedule_table`. Times: h:mm:ss."""
    columns = [name for name in table.columns if name.endswith("_s")]
    cells = tuple((str(row["name"]), *(_clock(row[name]) for name in columns)) for row in table.to_dict("records"))
    titles = ("job", *(name.removesuffix("_s").replace("_", " ") for name in columns))
    return Section(f"Schedule by {planner}", "Times from the day's begin, h:mm:ss.", titles, cells, 1)


def _clock(seconds: float) -> str:
    """
    >>> _clock(3_725.0), _clock(-60)
    ('1:02:05', '-0:01:00')
    """
    whole = round(abs(seconds))
    return f"{'-' if seconds < 0 else ''}{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _paired(row: Mapping[Any, Any]) -> str:
    half = row["against_half_pp"]
    if not np.isfinite(half) or (half == 0 and row["against_pp"] == 0):
        return "-"
    low, difference, high = (signed_text(row["against_pp"] + side * half, 1) for side in (-1, 0, 1))
    return f"{difference} [{low}, {high}]"


def migrations_table(pool: Snapshot, groups: Sequence[MigrationGroup]) -> pd.DataFrame:
    """One row per migration in their order, with COLUMNS. frees_host is empty once all `n_together`
    have left and its other requests have ended. The chances (% a day from now), the time when it is
    likely empty and the gain are of all of them together."""
    rows, left_s = [], pool.view.remaining_s()
    for group, gain in zip(groups, worth(pool.view, groups, pool.ended), strict=True):
        source = pool.host_ids[group.source]
        rows += [(pool.request_ids[position], source, pool.host_ids[target], source, len(group),
                  left_s[position] / 3_600, 100 * gain.chance, 100 * gain.chance_without, gain.likely_s / 3_600,
                  gain.gain_h)
                 for position, target in zip(group.requests, group.targets, strict=True)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def print_migrations(table: pd.DataFrame, minutes: int, n_at_once: int) -> None:
    """Print the list. minutes: how long a migration takes. n_at_once: how many go at a time."""
    shown = FittedTable(
        "Migrations that free hosts, in this order",
        ("request", "from", "to", "predicted\nto stay, h", "frees\nwith", "sure %", "without\nthem %",
         "likely empty\nafter, h", "gain\nhost-h"),
        "Sure: chance that the host is empty a day from now, with all its migrations and without them. Likely empty "
        "after: when they are done and it is first as likely empty as not; a migration takes "
        f"{minutes} minutes, {n_at_once} at a time, in this order. Gain: host-hours expected within a day, less what "
        "the targets lose, if nothing new is placed on these hosts; of all migrations from that host together.",
        n_text=3, least=("without\nthem %", "frees\nwith", "likely empty\nafter, h"), wrapped=("request", "from", "to"))
    for row in table.to_dict("records"):
        after = row["likely_after_h"]
        shown.add_row(*(escape(str(row[name])) for name in ("request_id", "from_host", "to_host")),
                      f"{row['predicted_remaining_h']:,.1f}", str(row["n_together"]), f"{row['chance_pct']:.0f}",
                      f"{row['chance_without_pct']:.0f}", "-" if math.isnan(after) else f"{after:.1f}",
                      signed_text(row["gain_h"], 1))
    console.print(shown)


def nothing_words(pool: Snapshot, budget: int) -> str:
    """The reason why there are no migrations."""
    n = len(pool.request_ids)
    if budget == 0:
        return "no migrations: the budget is 0"
    if n == 0:
        return "no migrations: nothing runs"
    if len(pool.host_ids) == 1:
        return "no migrations: one host has no other to migrate to"
    n_fixed = int(pool.view.is_fixed.sum())
    if n_fixed == n:
        return f"no migrations: none of the {n} requests can be migrated"
    return f"no migrations: none of the {n - n_fixed} requests that can be migrated would free a host, or has a target"
