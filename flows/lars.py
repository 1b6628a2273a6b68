"""What the order of migrations is worth: defragmentation, and maintenance in waves (LAVA, section 4.4 and table 2).

Replays with the same threshold, batches and slots differ in the order alone. Of the migrations planned, those whose
request ends, or whose host is open again, before its turn are spared; the share that is carried out is what an order
is judged by, since it also changes, by where requests went, what later batches find.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from sojourn.flows.comparison_log import log_sections
from sojourn.flows.comparison_report import Section
from sojourn.flows.intervals import t_half_width
from sojourn.flows.progress import console, stage
from sojourn.flows.replay import workload_of
from sojourn.simulator import Defragmentation, Maintenance, Migration, Oracle, Workload, simulate
from sojourn.simulator.engine import named_policy
from sojourn.simulator.policies.updated_first import updated_first

if TYPE_CHECKING:
    from sojourn.flows.compare_config import CompareConfig

ORDERS: tuple[tuple[Literal["trace", "longest-first", "shortest-first", "random"], bool], ...] = (
    ("trace", True), ("longest-first", True), ("longest-first", False), ("shortest-first", True),
    ("random", True))
"""Order, and whether it is one across the hosts of a batch; the first is what the others are held against."""
N_WAVES = 10
"""Waves of maintenance, evenly over the time after the warm-up, each of that share of the hosts."""


def run_lars(config: CompareConfig) -> int:
    """Print and log both tables; returns 0."""
    cells = {cell.workload: cell for cell in config.cells()}
    rows: list[dict[str, Any]] = []
    with stage("replay") as report:
        for done, spec in enumerate(cells):
            report(done, len(cells))
            workload = workload_of(spec)
            rows += [{"workload": spec.name, "load": spec.load, "seed": spec.seed, **row}
                     for policy in config.policies for row in orders(workload, policy)]
    replays = pd.DataFrame(rows)
    summary = lars_summary(replays)
    description = workload_of(next(iter(cells))).description
    sections = [_section(summary[summary["kind"] == kind], f"{title}: order of migrations", description)
                for kind, title in (("defragmentation", "Defragmentation"),
                                    ("maintenance", f"Maintenance in {N_WAVES} waves"))
                if (summary["kind"] == kind).any()]
    for section in sections:
        console.print()
        console.print(section.table())
    with stage("log"):
        log_sections(config, next(iter(cells)).trace, sections, {"lars": summary, "replays": replays})
    return 0


def orders(workload: Workload, policy: str) -> Iterator[dict[str, Any]]:
    """One row per kind of upkeep and order: migrations planned and carried out, by perfect lifetimes.

    Defragmentation begins below the median of the empty hosts that the policy has without it.
    """
    oracle = Oracle(workload)
    series = simulate(workload, policy, oracle).series
    threshold = float(series.loc[series["time_s"] >= workload.warmup_s, "empty_hosts_pct"].median())
    every_s = max((workload.trace.horizon_s - workload.warmup_s) // N_WAVES, 1)
    waves = Maintenance(workload.warmup_s, every_s, 1 / N_WAVES)
    chain = named_policy(policy)
    runs: list[tuple[str, Any, Any]] = []
    if threshold > 0:
        runs.append(("defragmentation", chain, Defragmentation(threshold)))
    runs += [("maintenance", chain, waves), ("maintenance", updated_first(chain), waves)]
    for kind, chosen, upkeep in runs:
        for order, is_across in ORDERS:
            migration = Migration(order, is_across)
            metrics = simulate(workload, chosen, oracle, upkeep=(upkeep,), migration=migration).metrics
            yield {"kind": kind, "policy": chosen.name, "order": order,
                   "scope": "batch" if is_across else "host",
                   "n_planned": metrics.n_planned_migrations, "n_migrations": metrics.n_migrations,
                   "performed_pct": 100 * metrics.n_migrations / max(metrics.n_planned_migrations, 1),
                   "migrated_gib": metrics.migrated_gib, "empty_hosts_pct": metrics.empty_hosts_pct,
                   "rejected_pct": metrics.rejected_pct}  # fmt: skip


def lars_summary(replays: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds; `fewer_pct`: by how much the share carried out is below that of the trace's order of the same
    seed, %, positive = fewer, with its 95 % t-interval.

    >>> two = pd.DataFrame({"workload": "w", "load": 0.8, "seed": [0, 0, 1, 1], "kind": "d", "policy": "p",
    ...     "order": ["trace", "longest-first"] * 2, "scope": "batch", "n_planned": 100, "n_migrations": 90,
    ...     "performed_pct": [90.0, 81.0, 80.0, 76.0], "migrated_gib": 1.0, "empty_hosts_pct": 9.0,
    ...     "rejected_pct": 0.0})
    >>> lars_summary(two)["fewer_pct"].round(2).tolist()
    [0.0, 7.5]
    """
    group = ["workload", "load", "kind", "policy", "order", "scope"]
    pair = ["workload", "load", "seed", "kind", "policy"]
    base = replays[replays["order"] == "trace"].set_index(pair)["performed_pct"]
    own = replays.set_index(pair)["performed_pct"]
    table = replays.assign(fewer_pct=100 * (1 - own.to_numpy() / base.reindex(own.index).to_numpy()))
    groups = table.groupby(group, sort=False)
    numbers = [str(name) for name in table.select_dtypes("number") if name not in ("load", "seed")]
    summary = groups[numbers].mean()
    half = groups["fewer_pct"].apply(lambda values: float(t_half_width(np.asarray(values)[:, None])[0]))
    summary["fewer_low_pct"], summary["fewer_high_pct"] = summary["fewer_pct"] - half, summary["fewer_pct"] + half
    summary.insert(0, "n_seeds", groups.size())
    return summary.reset_index()


def _section(summary: pd.DataFrame, title: str, description: str) -> Section:
    caption = (f"{description}; {int(summary['n_seeds'].max())} seeds, perfect lifetimes. Fewer: carried out of those "
               "planned, against the trace's order, % (higher = better), with the paired 95 % interval. "
               "Scope: one order across the hosts of a batch or wave, or host by host.")
    titles = ("policy", "order", "scope", "planned", "carried out", "fewer %", "95 % interval", "moved GiB",
              "empty hosts %", "rejected %")
    rows = []
    for row in summary.to_dict("records"):
        is_told = row["order"] != "trace" and not np.isnan(row["fewer_pct"])
        rows.append((row["policy"], row["order"], row["scope"], f"{row['n_planned']:,.0f}",
                     f"{row['n_migrations']:,.0f}", f"{row['fewer_pct']:+.1f}" if is_told else "-",
                     f"{row['fewer_low_pct']:+.1f} {row['fewer_high_pct']:+.1f}" if is_told else "-",
                     f"{row['migrated_gib']:,.0f}", f"{row['empty_hosts_pct']:.2f}", f"{row['rejected_pct']:.2f}"))
    return Section(title, caption, titles, tuple(rows), 3)
