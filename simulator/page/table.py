"""HTML tables of replays and migrations, sortable by a click on a header; explained placements."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from sojourn.simulator.cluster import HOUR_S
from sojourn.simulator.experiments import MORE_REJECTED, is_rejecting_more, knows_the_future
from sojourn.simulator.measures import COLUMNS, Column, interval_text, number_text
from sojourn.simulator.page.comparison_data import ComparisonData
from sojourn.simulator.page.headline import count

_TEXTS = {"policy": Column("policy"), "predictor": Column("predictor"), "workload": Column("workload")}
_SETTINGS = {"load": Column("load", "% at the peak", "", 0), "seed": Column("seed", digits=0)}
MOST_COLUMNS = 8
"""Of a table at first; the others come by a switch."""
_FIRST = ("gain_pp", "over_rival_pp", "empty_hosts_pct", "gap_closed_pct", "rejected_pct", "violation_rate_pct",
          "packing_density_pct", "bound_empty_hosts_pct", "n_seeds")
"""Figures that come first, the most important one in front."""
_GAINS = ("gain", "over_rival")
"""Figures with an interval, without their unit."""


def html_table(rows: pd.DataFrame) -> str:
    """The rows in their order; workload, load, predictor if they differ; metrics if they are known.

    The policy's cell has a warning if the row rejects more than best-fit. If `gain_low_pp` and
    `gain_high_pp` are known, the gain has its interval, bold if that excludes 0; so has the gain over
    the rival. Columns beyond MOST_COLUMNS have the class `further`.

    >>> html_table(pd.DataFrame({"policy": ["<b>"], "rejected_pct": [0.5]})).split("<tbody>")[1]
    '<tr><td class="text" data-value="&lt;b&gt;">&lt;b&gt;</td><td data-value="0.5">0.50</td></tr></tbody></table>'
    """
    columns = {name: column for name, column in {**_TEXTS, **_SETTINGS, **COLUMNS}.items() if _is_shown(rows, name)}
    order = sorted(columns, key=lambda name: (name in COLUMNS, _FIRST.index(name) if name in _FIRST else len(_FIRST)))
    further = frozenset(order[MOST_COLUMNS:])
    head = "".join(header_cell(column, name in _TEXTS, name in further) for name, column in columns.items())
    is_more = is_rejecting_more(rows).tolist()
    body = "".join(
        f"<tr>{''.join(_cell(row, name, column, more, name in further) for name, column in columns.items())}</tr>"
        for row, more in zip(rows.to_dict("records"), is_more, strict=True))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def boxed(table: str, name: str) -> str:
    """A table in a box that scrolls, with a switch for its further columns if it has some. name: of the switch.

    >>> boxed("<table></table>", "summary")
    '<div class="wide"><table></table></div>'
    """
    n_columns = table.count("<th ")
    switch = "" if 'further"' not in table else (
        f'<input class="switch" type="checkbox" id="all-{name}"><label class="switch" for="all-{name}">all {n_columns} '
        f"columns</label>")
    return f'{switch}<div class="wide">{table}</div>'


def _class(is_text: bool, is_further: bool) -> str:
    names = [name for name, is_there in (("text", is_text), ("further", is_further)) if is_there]
    return f' class="{" ".join(names)}"' if names else ""


def _is_shown(rows: pd.DataFrame, name: str) -> bool:
    if name not in rows:
        return False
    if name in ("workload", "load"):
        return bool(len(set(rows[name])) > 1)
    if name == "predictor":
        return bool((rows[name] != "").any())
    return name not in COLUMNS or bool(rows[name].notna().any())


def header_cell(column: Column, is_text: bool, is_further: bool = False) -> str:
    """A header that sorts its table by a click."""
    words = [column.unit, f"{column.better} is better" if column.better else ""]
    below = "".join(f"<small>{html.escape(word)}</small>" for word in words if word)
    first = "ascending" if is_text or column.better == "lower" else "descending"
    return (f'<th{_class(is_text, is_further)} scope="col" aria-sort="none" data-first="{first}">'
            f'<button type="button">{html.escape(column.title)}{below}</button></th>')


def _cell(row: Mapping[Hashable, Any], name: str, column: Column, is_more: bool, is_further: bool) -> str:
    value = row[name]
    if name in _TEXTS:
        return text_cell(str(value), MORE_REJECTED if is_more and name == "policy" else "", is_further)
    stem = name.removesuffix("_pp")
    ends = [float(row.get(f"{stem}_{end}_pp", math.nan)) for end in ("low", "high")] if stem in _GAINS else ()
    return value_cell(float(value) * (100 if name == "load" else 1), column, ends, is_further)


def text_cell(value: str, warning: str = "", is_further: bool = False) -> str:
    """A cell with a text, and a warning below it."""
    text = html.escape(value)
    below = f'<small class="warning">{html.escape(warning)}</small>' if warning else ""
    return f'<td{_class(True, is_further)} data-value="{text}">{text}{below}</td>'


def value_cell(number: float, column: Column, ends: Sequence[float] = (), is_further: bool = False) -> str:
    """A cell with a number in its column's format, or "–"; ends: of its interval."""
    text, cell_class = number_text(number, column.digits, column.sign), _class(False, is_further)
    if not math.isfinite(number):
        return f'<td{cell_class} data-value="">{text}</td>'
    return f'<td{cell_class} data-value="{number + 0.0:.6g}">{_with_interval(text, ends) if ends else text}</td>'


def _with_interval(text: str, ends: Sequence[float]) -> str:
    low, high = ends
    if not (math.isfinite(low) and math.isfinite(high)) or low == high:
        return text
    is_sure = low > 0 or high < 0
    return f"{f'<b>{text}</b>' if is_sure else text} <small>[{interval_text(low, high, between=', ')}]</small>"


MAX_LISTS = 6
"""Replays whose migrations are listed: the first that can be deployed, then the others."""
MAX_MIGRATIONS = 300
"""Listed of one replay: the first."""
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

_LIST_FURTHER = frozenset(("remaining_h", "chance_without_pct", "likely_h", "begun_min", "empty_h"))
"""Columns of a list beyond MOST_COLUMNS."""
_MIGRATION_TEXTS = {"planned": "planned", "request_id": "request", "from_host": "frees host", "to_host": "goes to"}

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
    """The table of all replays with a rectifier, and lists of migrations; "" if there are none."""
    rows = migration_rows(data)
    if len(rows) == 0:
        return ""
    table = _table({"label": "label"}, _SUMMARY, rows.to_dict("records"))
    lists = "".join(_list(label, data.migrations[label], f"list-{k}") for k, label in enumerate(_listed(data)))
    words = f"<p>{html.escape(LIST_WORDS)}</p>" if lists else ""
    return f"{boxed(table, 'migrations')}{words}{lists}"


def migration_rows(data: ComparisonData) -> pd.DataFrame:
    """One row per label with a rectifier, of the main workload and load: means per day and per
    migration, and sums over the seeds; deployable ones first."""
    if "migrations_a_day" not in data.cells:
        return pd.DataFrame()
    main = data.at_main_load()
    is_main = ((data.cells["workload"] == main["workload"].iloc[0]) & (data.cells["load"] == main["load"].iloc[0])
               & data.cells["migrations_a_day"].notna())
    whole = main.set_index("label")
    rows = []
    for label, part in data.cells[is_main].groupby("label", sort=False):
        n_begun = float(part["n_freed_host"].sum() + part["n_freed_none"].sum())
        each = {f"{name}_each_h": float(part[f"moved_{name}_h"].sum()) / n_begun if n_begun else math.nan
                for name in ("expected", "freed")}
        rows.append({"label": label, "predictor": whole.loc[label, "predictor"],
                     "migrations_a_day": float(part["migrations_a_day"].mean()),
                     **{name: float(part[name].sum()) for name in ("n_dropped", "n_freed_host", "n_freed_none")},
                     **each, "freed_h_per_migration": whole.loc[label].get("freed_h_per_migration", math.nan)})
    return pd.DataFrame(rows).sort_values("predictor", key=lambda names: names.map(knows_the_future), kind="stable")


def _listed(data: ComparisonData) -> list[str]:
    labels = [label for label in migration_rows(data)["label"] if len(data.migrations.get(label, ()))]
    return labels[:MAX_LISTS]


def _list(label: str, migrations: pd.DataFrame, name: str) -> str:
    shown = migrations[:MAX_MIGRATIONS]
    more = "" if len(shown) == len(migrations) else f", the first {MAX_MIGRATIONS} of them"
    records = [_shown(row) for row in shown.to_dict("records")]
    title = html.escape(f"{label}: {count(len(migrations), 'migration')}{more}")
    shown_table = _table(_MIGRATION_TEXTS, _LIST, records)
    return f"<details><summary>{title}</summary>{boxed(shown_table, name)}</details>"


def _shown(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row of `Result.migrations` in the units of the list."""
    day, second = divmod(int(row["planned_s"]), 86_400)
    return {
        "planned": f"day {day}, {second // HOUR_S:02}:{second // 60 % 60:02}",
        **{name: str(row[name]) for name in ("request_id", "from_host", "to_host")},
        "n_together": row["n_together"], "remaining_h": row["remaining_s"] / HOUR_S,
        "chance_pct": 100 * row["chance"], "chance_without_pct": 100 * row["chance_without"],
        "likely_h": row["likely_s"] / HOUR_S, "expected_h": row["expected_h"],
        "begun_min": (row["begun_s"] - row["planned_s"]) / 60, "empty_h": (row["empty_s"] - row["planned_s"]) / HOUR_S,
        "freed_h": row["freed_h"],
    }  # fmt: skip


def _table(texts: Mapping[str, str], numbers: Mapping[str, Column], records: list[dict[Any, Any]]) -> str:
    further = _LIST_FURTHER & numbers.keys()
    head = "".join([*(header_cell(Column(title), True) for title in texts.values()),
                    *(header_cell(column, False, name in further) for name, column in numbers.items())])
    body = "".join("<tr>" + "".join([
        *(text_cell(str(row[name])) for name in texts),
        *(value_cell(float(row[name]), column, (), name in further) for name, column in numbers.items())])
        + "</tr>" for row in records)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


MAX_HOSTS = 100
"""Hosts shown of one placement; the others are counted."""


def shown_decision(decision: Mapping[str, Any]) -> dict[str, Any]:
    """A decision of ComparisonData for the page, its hosts in the policy's order.

    hosts: the first 100 that are not excluded, and the chosen one in any case, as (rank from 1,
        host id, scores); a score that is not finite is None and comes last. n_hosts: all that are
        not excluded. excluded: (reason, number of hosts), the most frequent first.

    >>> shown = shown_decision({
    ...     "policy": "nilas", "predictor": "oracle", "request": {"cpu_cores": 4.0}, "time_s": 90_061, "chosen": "b",
    ...     "columns": [{"name": "overhang", "meaning": "bucket"}],
    ...     "hosts": [["a", "", 3.0], ["b", "", 0.0], ["c", "cpu_cores", float("nan")]]})
    >>> shown["hosts"], shown["excluded"], shown["n_hosts"], shown["time"]
    ([[1, 'b', [0.0]], [2, 'a', [3.0]]], [['cpu_cores', 1]], 2, '1 d 01:01:01')
    """
    columns = [[str(column["name"]), str(column["meaning"])] for column in decision["columns"]]
    candidates: list[tuple[str, list[float]]] = []
    excluded: Counter[str] = Counter()
    for host_id, reason, *scores in decision["hosts"]:
        if reason:
            excluded[str(reason)] += 1
        elif len(scores) != len(columns):
            raise ValueError(f"hosts must have {len(columns)} scores, got {len(scores)} for host {host_id!r}")
        else:
            candidates.append((str(host_id), [float(score) for score in scores]))
    # Equal scores keep the hosts' own order: the lowest index wins.
    candidates.sort(key=lambda host: [score if math.isfinite(score) else math.inf for score in host[1]])
    chosen = None if decision["chosen"] is None else str(decision["chosen"])
    policy, predictor = str(decision["policy"]), str(decision["predictor"])
    return {
        "label": f"{policy} ({predictor})" if predictor else policy,
        "time": clock(int(decision["time_s"])),
        "request": [[str(name), str(value)] for name, value in decision["request"].items()],
        "chosen": chosen,
        "columns": columns,
        "excluded": [[reason, n] for reason, n in sorted(excluded.items(), key=lambda item: (-item[1], item[0]))],
        "n_hosts": len(candidates),
        "hosts": [[rank, host_id, [score if math.isfinite(score) else None for score in scores]]
                  for rank, (host_id, scores) in enumerate(candidates, 1) if rank <= MAX_HOSTS or host_id == chosen],
    }


def clock(time_s: int) -> str:
    """Days and the time of day since the start.

    >>> clock(59), clock(172_800)
    ('0 d 00:00:59', '2 d 00:00:00')
    """
    days, second = divmod(time_s, 86_400)
    return f"{days} d {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
