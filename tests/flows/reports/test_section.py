"""A table on terminals of many widths: no figure and no name is cut."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from sojourn.flows.reports.section import Section

SECTION = Section("Placement by usage", "2,000 requests.",
                  ("policy:model", "rate %", "95 % interval", "severity ratio"),
                  (("period-aware-per-request:wave-of-day", "0.78", "0.66 0.91", "203.708"),
                   ("random", "53.12", "52.27 55.01", "1.000")), 1, "Lower = better.")
WORDS = {word for row in SECTION.rows for cell in row[1:] for word in cell.split()}


def printed(width: int) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width).print(SECTION, crop=False)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [30, 45, 60, 70, 80, 120])
def test_no_figure_and_no_name_is_cut(width: int) -> None:
    lines = printed(width)
    text = "\n".join(lines)
    assert "…" not in text
    cells = [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in lines if line.startswith("│")]
    assert all(word in {part for row in cells for cell in row for part in cell.split()} for word in WORDS)
    names = "".join(row[0] for row in cells)
    assert "period-aware-per-request:wave-of-day" in names


def test_words_of_names_are_not_broken() -> None:
    label = "nilas-expected + value:5,pinned=0.2"
    titles = ("policy", "predictor", *(f"figure {k}" for k in range(12)))
    section = Section("Narrow", "", titles, ((label, "noise:1", *["1,234.5"] * 12),), 2)
    lines = io.StringIO()
    Console(file=lines, width=100).print(section, crop=False)
    cells = {cell.strip() for line in lines.getvalue().splitlines() for cell in re.split("[│┃]", line)[1:3]}
    assert {"value:5,pinned=0.2", "predictor", "noise:1"} <= cells


def test_a_wide_terminal_has_one_line_a_row() -> None:
    assert sum(line.startswith("│") for line in printed(120)) == len(SECTION.rows)
    assert sum(line.startswith("│") for line in printed(80)) == len(SECTION.rows)
    assert max(map(len, printed(60))) <= 60
