"""A table on terminals of many widths: no figure and no name is cut."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from sojourn.flows.console import FittedTable
from sojourn.flows.reports.section import Section

SECTION = Section("Placement by usage", "2,000 requests.",
                  ("policy:model", "rate %", "95 % interval", "severity ratio"),
                  (("period-aware-per-request:wave-of-day", "0.78", "0.66 0.91", "203.708"),
                   ("random", "53.12", "52.27 55.01", "1.000")), 1, "Lower = better.")


def printed(width: int, section: Section = SECTION) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width).print(section)
    return stream.getvalue().splitlines()


def cells_of(lines: list[str]) -> list[list[str]]:
    return [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in lines if line.startswith("│")]


@pytest.mark.parametrize("width", [40, 60, 70, 80, 120])
def test_no_figure_and_no_name_is_cut(width: int) -> None:
    lines = printed(width)
    assert max(map(len, lines)) <= width
    text = " ".join(lines)
    assert "…" not in text
    cells = cells_of(lines)
    shown = len(cells[0])
    words = {word for row in SECTION.rows for cell in row[1:shown] for word in cell.split()}
    assert words <= {part for row in cells for cell in row for part in cell.split()}
    assert "".join(row[0] for row in cells).startswith("period-aware-per-request:wave-of-day")
    words_below = " ".join(text.split()).partition(f"Not shown at {width} characters a line: ")[2]
    assert words_below == ("" if shown == len(SECTION.titles) else f"{', '.join(SECTION.titles[shown:])}.")


def test_words_of_names_are_not_broken() -> None:
    label = "nilas-expected + value:5,pinned=0.2"
    titles = ("policy", "predictor", *(f"figure {k}" for k in range(12)))
    section = Section("Narrow", "", titles, ((label, "noise:1", *["1,234.5"] * 12),), 2)
    lines = printed(80, section)
    cells = {cell.strip() for line in lines for cell in re.split("[│┃]", line)[1:3]}
    assert {"value:5,pinned=0.2", "predictor", "noise:1"} <= cells
    assert max(map(len, lines)) <= 80
    assert "figure 11." in " ".join(" ".join(lines).split())


def test_marks_of_rich_in_a_name_are_printed_as_they_are() -> None:
    assert cells_of(printed(80, Section("T", "", ("a", "b"), (("[red]x[/red]", "1"),), 1))) == [["[red]x[/red]", "1"]]


@pytest.mark.parametrize("width", range(50, 100, 7))
def test_a_short_name_beside_a_long_one_is_not_broken(width: int) -> None:
    titles = ("order", "run times", "wait h", "p95 h", "longest d", "slow- down", "saved h", "95 %", "later %")
    rows = (("wfp3, saf, bound 12 h *", "perfect", *["25.10"] * 5, "+0.68 +1.57", "9"),
            ("sjf, bound 6 h", "last two", *["136.3"] * 5, "-10.11 +10.22", "-"))
    lines = printed(width, Section("Waiting", "", titles, rows, 2))
    assert {"perfect", "last"} <= {word for row in cells_of(lines) for word in row[1].split()}
    assert max(map(len, lines)) <= width


def test_a_wide_terminal_has_one_line_a_row() -> None:
    assert sum(line.startswith("│") for line in printed(120)) == len(SECTION.rows)
    assert sum(line.startswith("│") for line in printed(80)) == len(SECTION.rows)
    assert max(map(len, printed(60))) <= 60


@pytest.mark.parametrize("width", [60, 80, 100])
def test_least_columns_go_first_and_are_named(width: int) -> None:
    titles = ("policy", "hosts\n%", "gain\npp", "gap\nclosed %", "events/s")
    table = FittedTable("T", titles, "Words.", least=("events/s", "gain\npp"))
    for _ in range(2):
        table.add_row("x" * 30, "1" * 12, "2" * 12, "3" * 12, "4" * 12)
    stream = io.StringIO()
    Console(file=stream, width=width).print(table)
    lines = stream.getvalue().splitlines()
    gone = {100: [], 80: ["events/s"], 60: ["events/s", "gain pp"]}[width]
    text = " ".join(" ".join(lines).split())
    assert len(cells_of(lines)[0]) == 5 - len(gone)
    assert len(cells_of(lines)) == 2
    assert ("Words. Not shown at" in text) == bool(gone)
    assert all(title in text.partition("Not shown at")[2] for title in gone)
    assert len(table.columns) == 5, "the table itself keeps all columns"
