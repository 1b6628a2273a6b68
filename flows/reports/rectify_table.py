"""Today's migrations as a table, with the reason of each; and why there are none."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from rich.markup import escape
from rich.table import Table

from sojourn.flows.placement.snapshot import Snapshot
from sojourn.flows.progress import console
from sojourn.simulator.rectification import MigrationGroup, worth

COLUMNS = ("request_id", "from_host", "to_host", "frees_host", "n_together", "predicted_remaining_h", "chance_pct",
           "chance_without_pct", "likely_after_h", "gain_h")


def migrations_table(pool: Snapshot, groups: Sequence[MigrationGroup]) -> pd.DataFrame:
    """One row a migration, the first to go first; COLUMNS. frees_host: is empty once all `n_together` have left and
    the rest has ended; the chances, % a day from now, when it is likely empty and the gain are of them together.
    """
    rows, left_s = [], pool.view.remaining_s()
    for group, own in zip(groups, worth(pool.view, groups, pool.ended), strict=True):
        source = pool.host_ids[group.source]
        rows += [(pool.request_ids[position], source, pool.host_ids[target], source, len(group),
                  left_s[position] / 3_600, 100 * own.chance, 100 * own.chance_without, own.likely_s / 3_600,
                  own.gain_h)
                 for position, target in zip(group.requests, group.targets, strict=True)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def print_migrations(table: pd.DataFrame, minutes: int, n_at_once: int) -> None:
    """Print the list. minutes: how long a migration takes. n_at_once: how many go at a time."""
    shown = Table(title="Migrations that free hosts, in this order", title_justify="left", caption_justify="left",
                  caption="Sure: chance that the host is empty a day from now, with all its migrations and without "
                          "them. Likely empty after: when they are done and it is first as likely empty as not; a "
                          f"migration takes {minutes} minutes, {n_at_once} at a time, in this order. Gain: host-hours "
                          "expected within a day, less what the targets lose, if nothing new is placed on these hosts; "
                          "of all migrations from that host together.")
    for title in ("request", "from", "to"):
        shown.add_column(title, no_wrap=True)
    for title in ("predicted\nto stay, h", "frees\nwith", "sure %", "without\nthem %", "likely empty\nafter, h",
                  "gain\nhost-h"):
        shown.add_column(title, justify="right", no_wrap=True)
    for row in table.to_dict("records"):
        after = row["likely_after_h"]
        shown.add_row(*(escape(str(row[name])) for name in ("request_id", "from_host", "to_host")),
                      f"{row['predicted_remaining_h']:,.1f}", str(row["n_together"]), f"{row['chance_pct']:.0f}",
                      f"{row['chance_without_pct']:.0f}", "-" if math.isnan(after) else f"{after:.1f}",
                      f"{row['gain_h']:+.1f}")
    console.print(shown)


def nothing_words(pool: Snapshot, budget: int) -> str:
    """Why there is nothing to migrate."""
    n = len(pool.request_ids)
    if budget == 0:
        return "no migrations: the budget is 0"
    if n == 0:
        return "no migrations: nothing runs"
    if len(pool.host_ids) == 1:
        return "no migrations: one host has no other to migrate to"
    n_fixed = int(pool.view.is_fixed.sum())
    if n_fixed == n:
        return f"no migrations: none of the {n} requests can be migrated"
    return f"no migrations: none of the {n - n_fixed} requests that can be migrated would free a host, or has a target"
