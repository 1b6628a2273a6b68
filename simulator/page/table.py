"""Replays and their means as HTML tables, sortable by a click on a header."""

from __future__ import annotations

import html
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from sojourn.simulator.experiments import MORE_REJECTED, is_rejecting_more
from sojourn.simulator.measures import COLUMNS, Column

_TEXTS = {"policy": Column("policy"), "predictor": Column("predictor"), "workload": Column("workload")}
_SETTINGS = {"load": Column("load", "% at the peak", "", 0), "seed": Column("seed", digits=0)}
_TEXT = ' class="text"'


def html_table(rows: pd.DataFrame) -> str:
    """The rows as they come; workload, load and predictor only where they differ, metrics only where they are known.

    Where a row rejects more than best-fit, its policy's cell says so. Where `gain_low_pp` and `gain_high_pp` are known
    the gain has its interval, bold if that excludes 0.

    >>> html_table(pd.DataFrame({"policy": ["<b>"], "rejected_pct": [0.5]})).split("<tbody>")[1]
    '<tr><td class="text" data-value="&lt;b&gt;">&lt;b&gt;</td><td data-value="0.5">0.50</td></tr></tbody></table>'
    """
    columns = {name: column for name, column in {**_TEXTS, **_SETTINGS, **COLUMNS}.items() if _is_shown(rows, name)}
    head = "".join(header_cell(column, name in _TEXTS) for name, column in columns.items())
    is_more = is_rejecting_more(rows).tolist()
    body = "".join(f"<tr>{''.join(_cell(row, name, column, more) for name, column in columns.items())}</tr>"
                   for row, more in zip(rows.to_dict("records"), is_more, strict=True))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _is_shown(rows: pd.DataFrame, name: str) -> bool:
    if name not in rows:
        return False
    if name in ("workload", "load"):
        return bool(len(set(rows[name])) > 1)
    if name == "predictor":
        return bool((rows[name] != "").any())
    return name not in COLUMNS or bool(rows[name].notna().any())


def header_cell(column: Column, is_text: bool) -> str:
    """A header that sorts its table by a click."""
    words = [column.unit, f"{column.better} is better" if column.better else ""]
    below = "".join(f"<small>{html.escape(word)}</small>" for word in words if word)
    first = "ascending" if is_text or column.better == "lower" else "descending"
    return (f'<th{_TEXT * is_text} scope="col" aria-sort="none" data-first="{first}">'
            f'<button type="button">{html.escape(column.title)}{below}</button></th>')


def _cell(row: Mapping[Hashable, Any], name: str, column: Column, is_more: bool) -> str:
    value = row[name]
    if name in _TEXTS:
        return text_cell(str(value), MORE_REJECTED if is_more and name == "policy" else "")
    ends = [float(row.get(end, math.nan)) for end in ("gain_low_pp", "gain_high_pp")] if name == "gain_pp" else ()
    return value_cell(float(value) * (100 if name == "load" else 1), column, ends)


def text_cell(value: str, warning: str = "") -> str:
    """A cell with a text, and a warning below it."""
    text = html.escape(value)
    below = f'<small class="warning">{html.escape(warning)}</small>' if warning else ""
    return f'<td{_TEXT} data-value="{text}">{text}{below}</td>'


def value_cell(number: float, column: Column, ends: Sequence[float] = ()) -> str:
    """A cell with a number as its column shows it, or "–"; ends: of its interval."""
    if not math.isfinite(number):
        return '<td data-value="">–</td>'
    text = f"{number:{column.sign},.{column.digits}f}"
    return f'<td data-value="{number:.6g}">{_with_interval(text, ends) if ends else text}</td>'


def _with_interval(text: str, ends: Sequence[float]) -> str:
    low, high = ends
    if not (math.isfinite(low) and math.isfinite(high)) or low == high:
        return text
    is_sure = low > 0 or high < 0
    return f"{f'<b>{text}</b>' if is_sure else text} <small>[{low:+.2f}, {high:+.2f}]</small>"
