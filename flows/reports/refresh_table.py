"""What predicting running requests anew brings, as a table: on the terminal and on a trace's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from sojourn.flows.reports.section import markdown_rows
from sojourn.models.measures import time_label

TITLE = "Refresh"
REFRESH_WORDS = (
    "Refresh: requests seen alive at an age, by the curve of their admission (held) and by a new one from the history "
    "as it stands then (refreshed). Brier: of what remains, integrated over log time (lower = better). +-: standard "
    "error of the difference, over owners (over requests where there are too few owners).",
    "MAE: of log10 of what remains, of observed ends (lower = better). Served: the ages at which the new curve was "
    "better by more than a standard error on the validation window.",
)
_TITLES = ("age", "requests", "Brier held", "refreshed", "+-", "MAE held", "refreshed", "served")


def refresh_rows(gains: Sequence[Mapping[str, Any]], ages_s: Sequence[int]) -> list[list[str]]:
    """A row an age. gains: `AgeGain.document()` of the test window. ages_s: those that are served."""
    return [[time_label(gain["age_s"]), f"{gain['n']:,}", *(_text(gain[name]) for name in (
        "held", "refreshed", "error", "mae_held", "mae_refreshed")), "yes" if gain["age_s"] in ages_s else "no"]
        for gain in gains]


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def refresh_table(gains: Sequence[Mapping[str, Any]], ages_s: Sequence[int], said: str) -> Table | None:
    """For the terminal; None where there is nothing to show. said: what was chosen on the validation window."""
    if not gains:
        return None
    table = Table(title=f"{TITLE}, test window", title_justify="left", caption_justify="left",
                  caption="\n".join((*REFRESH_WORDS, f"Validation: {said}")))
    for title in _TITLES:
        table.add_column(title, justify="left" if title in ("age", "served") else "right", no_wrap=True)
    for row in refresh_rows(gains, ages_s):
        table.add_row(*row)
    return table


def refresh_markdown(gains: Sequence[Mapping[str, Any]], ages_s: Sequence[int]) -> list[str]:
    """The same on a page; nothing of a study without it."""
    return [f"### {TITLE}", "", *markdown_rows(_TITLES, refresh_rows(gains, ages_s)), ""] if gains else []
