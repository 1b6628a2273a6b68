"""Comparisons as tables: on the terminal, and as sections of `docs/results.md`, generated from logged runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from rich.table import Table

from sojourn.flows.report import policies_table

FoundComparison = Mapping[str, Any]
"""A comparison as logged: `flows.comparison_log.as_document`."""
_WORDS = ("Empty hosts: time-weighted mean after the warm-up, % (higher = better). Gain: over best-fit on the same "
          "workload, percentage points, with the paired 95 % t-interval over seeds. Gap closed: the gain as a share of "
          "best-fit's distance to the bound. Packing density: cores allocated on hosts in use, % (higher = better). "
          "Rejected: % of requests (lower = better; gains are comparable only where few are).")
_TITLES = ("policy", "predictor", "empty hosts %", "gain pp", "95 % interval", "gap closed %", "packing density %",
           "rejected %")


@dataclass(frozen=True, slots=True)
class Section:
    """One table of an evaluation, ready to be printed: the first n_text columns are words.

    caption: what was replayed, and what the columns say.
    """

    title: str
    caption: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_text: int

    def table(self) -> Table:
        """On the terminal."""
        table = Table(title=self.title, title_justify="left", caption_justify="left", caption=self.caption)
        for k, title in enumerate(name.replace(" ", "\n") for name in self.titles):
            table.add_column(title, justify="left" if k < self.n_text else "right", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        return table


def comparison_tables(summary: pd.DataFrame, description: Mapping[tuple[str, float], str]) -> list[Table]:
    """One table a workload and load. description: of each."""
    tables = []
    for (workload, load), text in description.items():
        rows = summary[(summary["workload"] == workload) & (summary["load"] == load)]
        n_seeds = int(rows["n_seeds"].max())
        seeds = f"{n_seeds} seeds" if n_seeds > 1 else "one seed"
        tables.append(policies_table(rows, f"{text}; load {load:g}, {seeds}"))
    return tables


def comparison_markdown(found: FoundComparison) -> list[str]:
    """A comparison's section of the page."""
    name = f", {found['name']}" if found["name"] else ""
    lines = [f"## Placement on {found['trace']}{name}", "",
             f"{found['about']}Data {found['data_hash'][:12]}, version {found['code_version']}."
             f"{' ' + _WORDS if found['workloads'] else ''}", ""]
    for part in found["workloads"]:
        n_seeds = max(row["n_seeds"] for row in part["rows"])
        lines += [f"{part['description']}; load {part['load']:g}, seeds: {n_seeds}.", "",
                  *markdown_rows(_TITLES, [_cells(row) for row in part["rows"]], n_text=2), ""]
    for section in found.get("sections", ()):
        lines += [f"**{section['title']}.** {section['caption']}", "",
                  *markdown_rows(section["titles"], section["rows"], section["n_text"]), ""]
    return lines


def markdown_rows(titles: Sequence[str], rows: Sequence[Sequence[str]], n_text: int = 1) -> list[str]:
    """A table; after its first `n_text` columns the others are set flush right."""
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * n_text + "---:|" * (len(titles) - n_text),
            *("| " + " | ".join(row) + " |" for row in rows)]


def _cells(row: Mapping[str, Any]) -> list[str]:
    low, high = row["gain_low_pp"], row["gain_high_pp"]
    interval = "-" if low is None or row["policy"] == "best-fit" else f"{low:+.2f} to {high:+.2f}"
    return [row["policy"], row["predictor"], *(
        "-" if row[name] is None else f"{row[name]:{form}}" for name, form in (
            ("empty_hosts_pct", ".2f"), ("gain_pp", "+.2f"))), interval, *(
        "-" if row[name] is None else f"{row[name]:{form}}" for name, form in (
            ("gap_closed_pct", ".0f"), ("packing_density_pct", ".1f"), ("rejected_pct", ".3f")))]
