"""What migrations that free hosts were worth: a row a policy and rectifier, and the migrations of one replay each."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from sojourn.simulator.experiments import knows_the_future
from sojourn.simulator.measures import Column
from sojourn.simulator.page.comparison_data import ComparisonData
from sojourn.simulator.page.headline import count
from sojourn.simulator.page.table import header_cell, text_cell, value_cell

MAX_LISTS = 6
"""Replays whose migrations are listed: the first that can be deployed, then the others."""
MAX_MIGRATIONS = 300
"""Listed of one replay: the first."""
_HOUR_S = 3_600
_SUMMARY: Mapping[str, Column] = {
    "migrations_a_day": Column("migrations", "begun a day", "", 1),
    "n_dropped": Column("dropped", "of all seeds", "lower", 0),
    "n_freed_host": Column("freed their host", "migrations, all seeds", "higher", 0),
    "n_freed_none": Column("did not", "migrations, all seeds", "lower", 0),
    "expected_each_h": Column("expected", "host-hours each", "higher", 1),
    "freed_each_h": Column("freed within the day", "host-hours each", "higher", 1),
    "freed_h_per_migration": Column("freed in the whole replay", "host-hours each", "higher", 1),
}
_LIST: Mapping[str, Column] = {
    "n_together": Column("together", "migrations", digits=0),
    "remaining_h": Column("stays", "h, predicted", digits=1),
    "chance_pct": Column("chance", "%", digits=0),
    "chance_without_pct": Column("without", "%", digits=0),
    "likely_h": Column("likely empty", "after h", digits=1),
    "expected_h": Column("expected", "host-hours", digits=1),
    "begun_min": Column("began", "after min", digits=0),
    "empty_h": Column("was empty", "after h", digits=1),
    "freed_h": Column("freed", "host-hours", digits=1),
}
_TEXTS = {"planned": "planned", "request_id": "request", "from_host": "frees host", "to_host": "goes to"}
WORDS = (
    "Live migrations that a rectifier planned after the warm-up; those of all seeds together. Freed their host: it was "
    "empty at some time before the day was over. Expected: host-hours that the source gains within a day, less what "
    "the targets lose, by the predictions; freed within the day: what these were in the end, all other placements as "
    "they were. Freed in the whole replay: host-hours in use without the rectifier less those with it, with all that "
    "later placements make of it."
)
LIST_WORDS = (
    "Migrations of the first seed, the first planned first. Chance: that the host is empty a day later, together with "
    "the other migrations that leave it, and without them. Likely empty: when they are done and it is first as likely "
    "empty as not. Chances, expected hours and those freed are of them together. –: not within the day, or dropped: "
    "its target was empty, closed or full when its turn came."
)


def migration_sections(data: ComparisonData) -> str:
    """The table of all replays with a rectifier, and lists; "" where there is none."""
    rows = migration_rows(data)
    if len(rows) == 0:
        return ""
    table = _table({"label": "label"}, _SUMMARY, rows.to_dict("records"))
    lists = "".join(_list(label, data.migrations[label]) for label in _listed(data))
    words = f"<p>{html.escape(LIST_WORDS)}</p>" if lists else ""
    return f'<div class="wide">{table}</div>{words}{lists}'


def migration_rows(data: ComparisonData) -> pd.DataFrame:
    """One row a label with a rectifier, of the main workload and load: means a day and a migration, and sums of all
    seeds; those that can be deployed first."""
    if "migrations_a_day" not in data.cells:
        return pd.DataFrame()
    main = data.at_main_load()
    is_main = ((data.cells["workload"] == main["workload"].iloc[0]) & (data.cells["load"] == main["load"].iloc[0])
               & data.cells["migrations_a_day"].notna())
    whole = main.set_index("label")
    rows = []
    for label, own in data.cells[is_main].groupby("label", sort=False):
        n_begun = float(own["n_freed_host"].sum() + own["n_freed_none"].sum())
        each = {f"{name}_each_h": float(own[f"moved_{name}_h"].sum()) / n_begun if n_begun else math.nan
                for name in ("expected", "freed")}
        rows.append({"label": label, "predictor": whole.loc[label, "predictor"],
                     "migrations_a_day": float(own["migrations_a_day"].mean()),
                     **{name: float(own[name].sum()) for name in ("n_dropped", "n_freed_host", "n_freed_none")}, **each,
                     "freed_h_per_migration": whole.loc[label].get("freed_h_per_migration", math.nan)})
    return pd.DataFrame(rows).sort_values("predictor", key=lambda names: names.map(knows_the_future), kind="stable")


def _listed(data: ComparisonData) -> list[str]:
    labels = [label for label in migration_rows(data)["label"] if len(data.migrations.get(label, ()))]
    return labels[:MAX_LISTS]


def _list(label: str, migrations: pd.DataFrame) -> str:
    shown = migrations[:MAX_MIGRATIONS]
    more = "" if len(shown) == len(migrations) else f", the first {MAX_MIGRATIONS} of them"
    records = [_shown(row) for row in shown.to_dict("records")]
    title = html.escape(f"{label}: {count(len(migrations), 'migration')}{more}")
    return f'<details><summary>{title}</summary><div class="wide">{_table(_TEXTS, _LIST, records)}</div></details>'


def _shown(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row of `Result.migrations` in the units of the list."""
    day, second = divmod(int(row["planned_s"]), 86_400)
    return {
        "planned": f"day {day}, {second // _HOUR_S:02}:{second // 60 % 60:02}",
        **{name: str(row[name]) for name in ("request_id", "from_host", "to_host")},
        "n_together": row["n_together"], "remaining_h": row["remaining_s"] / _HOUR_S,
        "chance_pct": 100 * row["chance"], "chance_without_pct": 100 * row["chance_without"],
        "likely_h": row["likely_s"] / _HOUR_S, "expected_h": row["expected_h"],
        "begun_min": (row["begun_s"] - row["planned_s"]) / 60, "empty_h": (row["empty_s"] - row["planned_s"]) / _HOUR_S,
        "freed_h": row["freed_h"],
    }  # fmt: skip


def _table(texts: Mapping[str, str], numbers: Mapping[str, Column], records: list[dict[Any, Any]]) -> str:
    head = "".join([*(header_cell(Column(title), True) for title in texts.values()),
                    *(header_cell(column, False) for column in numbers.values())])
    body = "".join("<tr>" + "".join([*(text_cell(str(row[name])) for name in texts),
                                     *(value_cell(float(row[name]), column) for name, column in numbers.items())])
                   + "</tr>" for row in records)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
