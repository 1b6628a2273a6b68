"""Comparisons as tables, on the terminal and as the sections "Placement" of a trace's results page.
A bundle's label is as many last parts of its folder as identify it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import pandas as pd
from rich.table import Table

from sojourn.flows.console import FittedTable
from sojourn.flows.reports.section import markdown_rows
from sojourn.simulator.experiments import caveats, is_rejecting_more
from sojourn.simulator.measures import COLUMNS, Column, interval_text, number_text, signed_text

ComparisonDocument = Mapping[str, Any]
"""A comparison as logged: `flows.compare.tables.as_document`."""
_Columns = tuple[tuple[str, str, Column], ...]
"""Title, name in a summary, how it is shown."""
_STRANDED = {"CPU": "stranded_cpu_cores_pct", "memory": "stranded_mem_gib_pct"}
_BUNDLE = "bundle:"


def _words(table: str) -> tuple[str, ...]:
    return tuple(column.words for column in COLUMNS.values() if column.table == table and column.words)


PLACED_WORDS = (
    "Empty hosts: time-weighted mean after the warm-up, % (higher = better).",
    "Gain: empty hosts over best-fit on the same workload, percentage points, with the paired 95 % t-interval over "
    "seeds (higher = better).",
    *_words("gains"),
)
MEASURE_WORDS = _words("further")
USAGE_WORDS = _words("where known")
DEBT_WORDS = _words("debt")


def _columns(table: str) -> _Columns:
    return tuple((column.text_title(name), name, column)
                 for name, column in COLUMNS.items() if column.table == table)


_PLACED, _MEASURES, _WHERE_KNOWN = _columns("gains"), _columns("further"), _columns("where known")
_DEBT = _columns("debt")


def comparison_tables(summary: pd.DataFrame, description: Mapping[tuple[str, float], str]) -> list[Table]:
    """A table per workload and load. description: of each."""
    tables: list[Table] = []
    for (workload, load), text in description.items():
        rows = summary[(summary["workload"] == workload) & (summary["load"] == load)]
        n_seeds = int(rows["n_seeds"].max())
        seeds = f"{n_seeds} seeds" if n_seeds > 1 else "one seed"
        plain = rows.drop(columns=[name for _, name, _ in _MEASURES], errors="ignore")
        tables.append(policies_table(plain, f"{text}; load {load:g}, {seeds}"))
    return tables


def comparison_markdown(comparison: ComparisonDocument) -> list[str]:
    """A section of a trace's page. The index explains grids' columns, a legend an evaluation's."""
    lines = [f"## {comparison_title(comparison)}", "",
             f"{comparison['about']}Data {comparison['data_hash'][:12]}, version {comparison['code_version']}.", ""]
    for part in comparison["workloads"]:
        n_seeds = max(row["n_seeds"] for row in part["rows"])
        lines += [f"{part['description']}; load {part['load']:g}, seeds: {n_seeds}.", "",
                  *_markdown_table(part["rows"]), "", *_debt_table(part["rows"]),
                  *_paragraph(caveats(pd.DataFrame(part["rows"])))]
    sections = comparison.get("sections", ())
    for legend in dict.fromkeys(section.get("legend", "") for section in sections):
        lines += _paragraph([legend] if legend else [])
    for section in sections:
        lines += [f"### {section['title']}", "", section["caption"], "",
                  *markdown_rows(section["titles"], section["rows"], section["n_text"]), ""]
    return lines


def comparison_title(comparison: ComparisonDocument) -> str:
    """The section's heading."""
    return f"Placement on {comparison['trace']}{', ' * bool(comparison['name'])}{comparison['name']}"


def _paragraph(sentences: Sequence[str]) -> list[str]:
    return [" ".join(sentences), ""] if sentences else []


def _markdown_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    columns = (*_PLACED, *_MEASURES, *_known(_WHERE_KNOWN, rows))
    titles = ("policy", "predictor", "empty hosts %", "gain pp", "95 % interval", *(title for title, _, _ in columns))
    return markdown_rows(titles, [(
        row["policy"], row["predictor"], *(_text(row, name, COLUMNS[name]) for name in ("empty_hosts_pct", "gain_pp")),
        gain_interval(row), *(_text(row, name, column) for _, name, column in columns)) for row in rows], n_text=2)


def _debt_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Placement debt as a separate table: beside the gains a line would be too wide."""
    known = _known(_DEBT, rows)
    if not known:
        return []
    titles = ("policy", "predictor", *(title for title, _, _ in known))
    cells = [(row["policy"], row["predictor"], *(_text(row, name, column) for _, name, column in known))
             for row in rows]
    return ["Placement debt:", "", *markdown_rows(titles, cells, 2), ""]


def _known(columns: _Columns, rows: Sequence[Mapping[Any, Any]]) -> _Columns:
    return tuple(column for column in columns if any(_text(row, column[1], column[2]) != "-" for row in rows))


def gain_interval(row: Mapping[str, Any]) -> str:
    """The gain's 95 % interval; "-" if there is none."""
    low, high = row["gain_low_pp"], row["gain_high_pp"]
    return "-" if low is None or row["policy"] == "best-fit" else interval_text(low, high)


def _text(row: Mapping[Any, Any], name: str, column: Column) -> str:
    """A figure; "-" if it is not known, as in comparisons logged by an older version."""
    value = row.get(name)
    return column.text(math.nan if value is None else value)


def policies_table(simulation: pd.DataFrame, description: str) -> Table:
    """Policies x predictors with their gains in empty hosts, and caveats below."""
    has_interval = "gain_low_pp" in simulation and simulation["gain_low_pp"].notna().any()
    stranded = {f"stranded\n{title} %": column for title, column in _STRANDED.items() if column in simulation}
    of_interval = ("95 %\ninterval",) if has_interval else ()
    over = ("over\nrival",) if "rival" in simulation else ()
    rival = f"Over rival: the gain over {simulation['rival'].iloc[0]}, which needs no lifetimes. " if over else ""
    titles = ("policy", "predictor", "empty\nhosts %", "gain\npp", *of_interval, *over, "gap\nclosed %",
              "packing\ndensity %", *stranded, "rejected", "events/s")
    caption = (f"{description}. Empty hosts: time-weighted mean after warm-up (higher = better).\n"
               f"Gain: over best-fit, percentage points{', with 95 % interval' if has_interval else ''}. "
               f"{rival}Gap closed: the mean gain as a share of best-fit's mean distance to the bound."
               f"{''.join(chr(10) + words for words in caveats(simulation))}")
    table = FittedTable("Placement", titles, caption, n_text=2, wrapped=titles[:2],
                        least=("events/s", *stranded, "packing\ndensity %", "gap\nclosed %", "rejected"))
    for row, more_rejected in zip(simulation.to_dict("records"), is_rejecting_more(simulation), strict=True):
        interval = interval_text(row["gain_low_pp"], row["gain_high_pp"], between=" ") if has_interval else ""
        table.add_row(row["policy"], row["predictor"], f"{row['empty_hosts_pct']:.2f}", signed_text(row["gain_pp"]),
                      *([interval] if has_interval else []),
                      *([signed_text(row["over_rival_pp"])] if over else []), _number(row["gap_closed_pct"], 0),
                      f"{row['packing_density_pct']:.1f}", *(_number(row[column]) for column in stranded.values()),
                      f"{row['n_rejected']:,.0f}{' (more)' * more_rejected}",
                      f"{row['events_per_s']:,.0f}")
    return table


def _number(value: float, digits: int = 1) -> str:
    return number_text(value, digits, missing="-", thousands="")


def short_labels(predictors: Iterable[str]) -> dict[str, str]:
    """Label by predictor, for bundles: `bundle:` and the folder's shortest unique end.

    >>> short_labels(["km", "bundle:/data/a/lifetime", "one-shot:bundle:/data/a/lifetime", "bundle:/data/b/lifetime"])
    {'bundle:/data/a/lifetime': 'bundle:a/lifetime', 'one-shot:bundle:/data/a/lifetime': 'one-shot:bundle:a/lifetime', \
'bundle:/data/b/lifetime': 'bundle:b/lifetime'}
    """
    named = {text: text.partition(_BUNDLE)[::2] for text in predictors if _BUNDLE in text}
    folders = dict.fromkeys(folder for _, folder in named.values())
    ends = {folder: _ends(folder) for folder in folders}
    short = {folder: next((end for end in ends[folder] if sum(end in ends[other] for other in folders) == 1), folder)
             for folder in folders}
    return {text: f"{before}{_BUNDLE}{short[folder]}" for text, (before, folder) in named.items()}


def shortened(summary: pd.DataFrame) -> pd.DataFrame:
    """A comparison's summary with short labels in `predictor` and `label`."""
    short = short_labels(dict.fromkeys(summary["predictor"]))
    labels = [label.replace(predictor, short.get(predictor, predictor)) if predictor else label
              for label, predictor in zip(summary["label"], summary["predictor"], strict=True)]
    return summary.assign(predictor=summary["predictor"].replace(short), label=labels)


def folder_lines(summary: pd.DataFrame) -> list[str]:
    """One line per shortened label with its folder."""
    short = short_labels(dict.fromkeys(summary["predictor"]))
    pairs = {label.partition(_BUNDLE)[2]: text.partition(_BUNDLE)[2] for text, label in short.items()}
    return [f"{_BUNDLE}{end} is the folder {folder}" for end, folder in pairs.items() if end != folder]


def _ends(folder: str) -> list[str]:
    """The folder's last part, its last two and so on."""
    parts = PurePath(folder).parts
    return [str(PurePath(*parts[-n:])) for n in range(1, len(parts) + 1)]
