"""Calibration of a study's families by age and by week, as tables: on the terminal and on a trace's page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from sojourn.flows.reports.section import markdown_rows
from sojourn.models.measures import AGES_S, N_ENDS_MIN, PERCENTS, WEEKLY_AGES_S, age_prefix, time_label

Found = Mapping[str, Any]
TITLE = "Calibration by age"
CALIBRATION_WORDS = (
    "PIT dev.: largest gap to a uniform distribution at the deciles, of what remains at that age, among the requests "
    "that outlived it (lower = better).",
    "By 10, 50, 90 %: share of the requests that end by the predicted quantile, in %, censored ones by Kaplan-Meier; "
    "right where it is 10, 50, 90. In brackets: 95 % interval over owners (over requests where there are too few "
    "owners); of online rows, the chosen family's.",
    "Online: the same curves recalibrated online, as a predictor may do that learns from its own ends.",
    f"Ends: observed after that age. ~ marks a row of fewer than {N_ENDS_MIN}. By week, a cell with fewer is left out.",
)
_TITLES = ("family", "age", "ends", "PIT dev.", *(f"by {percent} %" for percent in PERCENTS))
_AGES = {age_prefix(age_s): time_label(age_s) if age_s else "creation" for age_s in (0, *AGES_S)}


def calibration_rows(found: Found) -> list[list[str]]:
    """A row a family and age: family, age, ends, then each figure with its interval; the best on validation first. Then
    the same recalibrated online, where the study has that, with the intervals of the chosen family.

    None of a study that is older than these measures, none of an age that no request outlived.
    """
    rows = []
    for family in sorted(found["scores"], key=lambda name: found["validation"][name]):
        name = f"{family} *" if family == found["chosen"] else family
        rows += _rows_of(name, found["scores"][family], found["intervals"].get(family, {}))
        online_intervals = found.get("online_intervals", {}) if family == found["chosen"] else {}
        rows += _rows_of(f"{family}, online", found.get("online", {}).get(family, {}), online_intervals)
    return rows


def _rows_of(family: str, scores: Mapping[str, float],
             intervals: Mapping[str, Sequence[float | None]]) -> list[list[str]]:
    """A row an age that some request outlived."""
    rows = []
    for prefix, age in _AGES.items():
        if f"{prefix}.n_ends" not in scores:
            continue
        n_ends = scores[f"{prefix}.n_ends"]
        mark = " ~" if n_ends < N_ENDS_MIN else ""
        name = f"{prefix}.pit_deviation"
        cells = [_cell(scores.get(name), intervals.get(name), 1.0, 3, mark)]
        for percent in PERCENTS:
            name = f"{prefix}.coverage_{percent}"
            cells.append(_cell(scores.get(name), intervals.get(name), 100.0, 1, mark))
        rows.append([family, age, f"{n_ends:,.0f}", *cells])
    return rows


def _cell(value: float | None, ends: Sequence[float | None] | None, scale: float, digits: int, mark: str) -> str:
    if value is None or math.isnan(value):  # nobody was followed that far
        return "-"
    low, high = ends or (None, None)
    wide = digits if scale == 1.0 else 0  # of %, whole ones: the line must fit into 120 columns
    interval = "" if low is None or high is None else f" [{scale * low:.{wide}f} {scale * high:.{wide}f}]"
    return f"{scale * value:.{digits}f}{mark}{interval}"


def calibration_table(found: Found) -> Table | None:
    """For the terminal; None of a study that is older than these measures."""
    rows = calibration_rows(found)
    if not rows:
        return None
    table = Table(title=TITLE, title_justify="left", caption="\n".join(CALIBRATION_WORDS), caption_justify="left")
    for title in _TITLES:
        table.add_column(title, justify="left" if title in ("family", "age") else "right", no_wrap=True)
    for at, row in enumerate(rows):
        is_last = at + 1 == len(rows) or rows[at + 1][0] != row[0]
        table.add_row(*(text.replace("[", r"\[") for text in row), end_section=is_last)
    return table


def calibration_markdown(found: Found) -> list[str]:
    """The same on a page, and the chosen family's calibration by week of arrival; nothing of an older study."""
    rows = calibration_rows(found)
    if not rows:
        return []
    lines = [f"### {TITLE}", "", *markdown_rows(_TITLES, rows, n_text=2), ""]
    of_weeks = {found["chosen"]: found["weeks"].get(found["chosen"], {}),
                f"{found['chosen']}, recalibrated online,": found.get("online_weeks", {})}
    titles = ["week", *(f"{title} at {_AGES[age_prefix(age_s)]}" for age_s in WEEKLY_AGES_S for title in _TITLES[2:])]
    for name, weeks in of_weeks.items():
        if own := week_rows({"week": of_weeks[found["chosen"]].get("week", ()), **weeks}):
            lines += [f"### Calibration of {name} by week of arrival", "", *markdown_rows(titles, own), ""]
    return lines


def week_rows(weeks: Mapping[str, Sequence[float | None]]) -> list[list[str]]:
    """A row a week after training, from 1: ends, PIT deviation and coverage (%) at creation, and the same at 1 h."""
    prefixes = [age_prefix(age_s) for age_s in WEEKLY_AGES_S]
    if f"{prefixes[0]}.n_ends" not in weeks:
        return []
    rows = []
    for at, week in enumerate(weeks["week"]):
        row = [f"{(week or 0.0) + 1.0:.0f}"]
        for prefix in prefixes:
            values = {name: column[at] for name, column in weeks.items() if name.startswith(f"{prefix}.")}
            row += [f"{values.get(f'{prefix}.n_ends') or 0.0:,.0f}",
                    _cell(values.get(f"{prefix}.pit_deviation"), None, 1.0, 3, ""),
                    *(_cell(values.get(f"{prefix}.coverage_{percent}"), None, 100.0, 1, "") for percent in PERCENTS)]
        rows.append(row)
    return rows
