"""Comparisons as tables: on the terminal, and as the sections "Placement" of a trace's results page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from rich.table import Table

from sojourn.flows.report import policies_table
from sojourn.simulator.experiments.caveats import caveats

FoundComparison = Mapping[str, Any]
"""A comparison as logged: `flows.comparison_log.as_document`."""
PLACED_WORDS = (
    "Empty hosts: time-weighted mean after the warm-up, % (higher = better).",
    "Gain: empty hosts over best-fit on the same workload, percentage points, with the paired 95 % t-interval over "
    "seeds (higher = better).",
    "Gap closed: the gain as a share of best-fit's distance to the bound, % (higher = better).",
    "Packing density: cores allocated on hosts in use, % (higher = better).",
    "Rejected: % of requests (lower = better). Compare gains only where few requests are rejected.",
)
MEASURE_WORDS = (
    "Bound: no policy that places every request has more empty hosts than this, %.",
    "Stranded: free CPU or memory, % of all, once the hosts are filled with more requests of the same mix until none "
    "fits (lower = better). At misfit: when a request fits nowhere for the first time.",
    "Decision: microseconds of the replay's loop per request, on the machine that it ran on (lower = better).",
)
USAGE_WORDS = (
    "CPU used: % of all hosts' cores, where the trace has usage.",
    "Violation: a host's requests use more cores than it has. Rate: % of the hosts' time; severity: % of the "
    "core-seconds used (lower = better).",
)
_Columns = tuple[tuple[str, str, str], ...]
"""Title, name in a summary, format."""
_PLACED: _Columns = (
    ("gap closed %", "gap_closed_pct", ".0f"), ("packing density %", "packing_density_pct", ".1f"),
    ("rejected %", "rejected_pct", ".3f"),
)  # fmt: skip
_MEASURES: _Columns = (
    ("bound %", "bound_empty_hosts_pct", ".2f"),
    ("stranded CPU %", "stranded_cpu_cores_pct", ".2f"),
    ("stranded CPU at misfit %", "stranded_cpu_cores_at_misfit_pct", ".2f"),
    ("stranded memory %", "stranded_mem_gib_pct", ".2f"),
    ("stranded memory at misfit %", "stranded_mem_gib_at_misfit_pct", ".2f"),
    ("decision us", "decision_us", ".1f"),
)
_USAGE: _Columns = (
    ("CPU used %", "used_cpu_pct", ".2f"), ("violation rate %", "violation_rate_pct", ".3f"),
    ("violation severity %", "violation_severity_pct", ".3f"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Section:
    """One table of an evaluation, ready to be printed: the first n_text columns are words.

    caption: what was replayed. legend: what the columns mean.
    """

    title: str
    caption: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_text: int
    legend: str = ""

    def table(self) -> Table:
        """On the terminal."""
        caption = f"{self.caption} {self.legend}".strip()
        table = Table(title=self.title, title_justify="left", caption_justify="left", caption=caption)
        for k, title in enumerate(name.replace(" ", "\n") for name in self.titles):
            table.add_column(title, justify="left" if k < self.n_text else "right", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        return table


def comparison_tables(summary: pd.DataFrame, description: Mapping[tuple[str, float], str]) -> list[Table]:
    """Two tables a workload and load: gains, and further measures. description: of each."""
    tables = []
    for (workload, load), text in description.items():
        rows = summary[(summary["workload"] == workload) & (summary["load"] == load)]
        n_seeds = int(rows["n_seeds"].max())
        seeds = f"{n_seeds} seeds" if n_seeds > 1 else "one seed"
        plain = rows.drop(columns=[name for _, name, _ in _MEASURES], errors="ignore")
        tables += [policies_table(plain, f"{text}; load {load:g}, {seeds}"),
                   _measures(rows.to_dict("records")).table()]
    return tables


def comparison_markdown(found: FoundComparison) -> list[str]:
    """A section of a trace's page. What a grid's columns mean stands once, on the index; an evaluation's own here."""
    lines = [f"## {comparison_title(found)}", "",
             f"{found['about']}Data {found['data_hash'][:12]}, version {found['code_version']}.", ""]
    for part in found["workloads"]:
        n_seeds = max(row["n_seeds"] for row in part["rows"])
        lines += [f"{part['description']}; load {part['load']:g}, seeds: {n_seeds}.", "",
                  *_markdown_table(part["rows"]), "", *_paragraph(caveats(pd.DataFrame(part["rows"])))]
    sections = found.get("sections", ())
    for legend in dict.fromkeys(section.get("legend", "") for section in sections):
        lines += _paragraph([legend] if legend else [])
    for section in sections:
        lines += [f"### {section['title']}", "", section["caption"], "",
                  *markdown_rows(section["titles"], section["rows"], section["n_text"]), ""]
    return lines


def comparison_title(found: FoundComparison) -> str:
    """The section's heading."""
    return f"Placement on {found['trace']}{', ' * bool(found['name'])}{found['name']}"


def _paragraph(sentences: Sequence[str]) -> list[str]:
    return [" ".join(sentences), ""] if sentences else []


def markdown_rows(titles: Sequence[str], rows: Sequence[Sequence[str]], n_text: int = 1) -> list[str]:
    """A table; after its first `n_text` columns the others are set flush right."""
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * n_text + "---:|" * (len(titles) - n_text),
            *("| " + " | ".join(row) + " |" for row in rows)]


def _markdown_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    columns = (*_PLACED, *_MEASURES, *(_USAGE if _has_usage(rows) else ()))
    titles = ("policy", "predictor", "empty hosts %", "gain pp", "95 % interval", *(title for title, _, _ in columns))
    return markdown_rows(titles, [(
        row["policy"], row["predictor"], _text(row, "empty_hosts_pct", ".2f"), _text(row, "gain_pp", "+.2f"),
        gain_interval(row), *(_text(row, name, form) for _, name, form in columns)) for row in rows], n_text=2)


def _measures(rows: Sequence[Mapping[Any, Any]]) -> Section:
    has_usage = _has_usage(rows)
    columns = (*_MEASURES, *(_USAGE if has_usage else ()))
    return Section("Further measures", " ".join((*MEASURE_WORDS, *(USAGE_WORDS if has_usage else ()))),
                   ("policy", "predictor", *(title for title, _, _ in columns)),
                   tuple((row["policy"], row["predictor"], *(_text(row, name, form) for _, name, form in columns))
                         for row in rows), 2)


def _has_usage(rows: Sequence[Mapping[Any, Any]]) -> bool:
    return any(_text(row, name, "") != "-" for row in rows for _, name, _ in _USAGE)


def gain_interval(row: Mapping[str, Any]) -> str:
    """The gain's 95 % interval; "-" where there is none."""
    low, high = row["gain_low_pp"], row["gain_high_pp"]
    return "-" if low is None or row["policy"] == "best-fit" else f"{low:+.2f} to {high:+.2f}"


def _text(row: Mapping[Any, Any], name: str, form: str) -> str:
    """A figure; "-" where it is not known, as in comparisons that were logged before there was such a figure."""
    value = row.get(name)
    return "-" if value is None or math.isnan(value) else f"{value:{form}}"
