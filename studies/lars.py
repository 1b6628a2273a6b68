"""What the order of migrations is worth: in fixed batches, in defragmentation, in waves of maintenance (LAVA, section
4.4 and table 2).

    python -m studies lars [--trace PATH --reader NAME] [--policy NAME ...] [--load L ...] [--n-seeds N]

Fixed batches, as in the paper's own evaluation, are the same for every order: the migrations carried out are compared.
In the replays each order also changes, by where requests went, what later batches find, and so what is planned; their
counts and the shares carried out stand side by side."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd

from sojourn.flows.compare.cells import workload_of
from sojourn.flows.compare.tables import log_sections
from sojourn.flows.console import console, stage
from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.reports.section import Section
from sojourn.flows.versions.promotion import open_store
from sojourn.simulator import (
    Defragmentation,
    LifetimeSource,
    Maintenance,
    Migration,
    Oracle,
    Result,
    Workload,
    simulate,
)
from sojourn.simulator.engine import named_policy
from sojourn.simulator.policies import updated_first
from studies.ab_trial import batches, expected_exits, n_carried_out
from studies.settings import OF_REPLAYS, StudySettings, run_study

ORDERS: tuple[tuple[Literal["trace", "longest-first", "shortest-first", "random"], bool], ...] = (
    ("trace", True), ("longest-first", True), ("shortest-first", True), ("random", True), ("trace", False),
    ("longest-first", False))
"""Order, and whether it is one across the hosts of a batch; the trace's order of the same scope is what each is held
against."""
N_WAVES = 10
"""Waves of maintenance, evenly over the time after the warm-up, each of that share of the hosts."""
_LEGEND = ("Fewer: migrations carried out, against the trace's order of the same scope, % (higher = better), with the "
           "paired 95 % interval. Scope: one order across the hosts of a batch or wave, or one for each host. Share: "
           "migrations carried out of those planned, %.")


def run_lars(config: StudySettings) -> int:
    """Print and log a table for each load and kind of upkeep; returns 0."""
    cells = {cell.workload: cell for cell in config.cells()}
    rows: list[dict[str, Any]] = []
    with stage("open the store"):
        tracker = open_store(config)
    with stage("replay") as report:
        for done, spec in enumerate(cells):
            report(done, len(cells))
            workload = workload_of(spec)
            rows += [{"workload": spec.name, "load": spec.load, "seed": spec.seed, **row}
                     for policy in config.policies for row in orders(workload, policy)]
    replays = pd.DataFrame(rows)
    summary = lars_summary(replays)
    first = {spec.load: spec for spec in reversed(cells)}
    sections = [_section(own, f"{title}: order of migrations", f"{workload_of(spec).description}; load {load:g}")
                for load, spec in sorted(first.items())
                for kind, title in (("fixed batches", "Fixed batches"), ("defragmentation", "Defragmentation"),
                                    ("maintenance", f"Maintenance in {N_WAVES} waves"))
                if len(own := summary[(summary["kind"] == kind) & (summary["load"] == load)])]
    for section in sections:
        console.print()
        console.print(section)
    with stage("log"):
        log_sections(tracker, config.preset, config.model_dump(mode="json"), next(iter(cells)).trace, sections,
                     {"lars": summary, "replays": replays})
    return 0


def orders(workload: Workload, policy: str) -> Iterator[dict[str, Any]]:
    """One row per kind of upkeep and order: migrations planned and carried out, by perfect lifetimes.

    Fixed batches are taken from a replay without migrations. Defragmentation begins below the median of the empty hosts
    that the policy has without it.
    """
    oracle = Oracle(workload)
    still = simulate(workload, policy, oracle)
    yield from fixed_batches(workload, still, oracle)
    is_counted = still.series["time_s"] >= workload.warmup_s
    threshold = float(still.series.loc[is_counted, "empty_hosts_pct"].median())
    every_s = max((workload.trace.horizon_s - workload.warmup_s) // (N_WAVES + 1), 1)
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
            yield {**_row(kind, chosen.name, migration, metrics.n_planned_migrations, metrics.n_migrations),
                   "migrated_gib": metrics.migrated_gib, "empty_hosts_pct": metrics.empty_hosts_pct,
                   "rejected_pct": metrics.rejected_pct}  # fmt: skip


def fixed_batches(workload: Workload, still: Result, source: LifetimeSource) -> Iterator[dict[str, Any]]:
    """One row per order: of all batches together, migrations planned and carried out.

    still: a replay of the workload without migrations.
    """
    migrations = [Migration(order, is_across) for order, is_across in ORDERS]
    n_planned, n_begun = 0, np.zeros(len(migrations), np.int64)
    for batch in batches(workload, still):
        ends_s, expected_s = workload.departure_s[batch.rows], expected_exits(workload, source, batch)
        n_planned += len(batch.rows)
        n_begun += [n_carried_out(batch, ends_s, expected_s, migration) for migration in migrations]
    for migration, n in zip(migrations, n_begun.tolist(), strict=True):
        yield _row("fixed batches", still.policy, migration, n_planned, n)


def _row(kind: str, policy: str, migration: Migration, n_planned: int, n_migrations: int) -> dict[str, Any]:
    return {"kind": kind, "policy": policy, "order": migration.order,
            "scope": "batch" if migration.is_across else "host", "n_planned": n_planned, "n_migrations": n_migrations,
            "performed_pct": 100 * n_migrations / n_planned if n_planned else np.nan}


def lars_summary(replays: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds; `fewer_pct`: by how much the migrations carried out are below those in the trace's order of the
    same seed and scope, %, positive = fewer, with its 95 % t-interval.

    >>> two = pd.DataFrame({"workload": "w", "load": 0.8, "seed": [0, 0, 1, 1], "kind": "d", "policy": "p",
    ...     "order": ["trace", "longest-first"] * 2, "scope": "batch", "n_planned": 100,
    ...     "n_migrations": [90, 81, 80, 76], "performed_pct": [90.0, 81.0, 80.0, 76.0]})
    >>> lars_summary(two)["fewer_pct"].round(2).tolist()
    [0.0, 7.5]
    """
    group = ["workload", "load", "kind", "policy", "order", "scope"]
    pair = ["workload", "load", "seed", "kind", "policy", "scope"]
    base = replays[replays["order"] == "trace"].set_index(pair)["n_migrations"]
    own = replays.set_index(pair)["n_migrations"]
    paired = base.reindex(own.index).to_numpy(np.float64)
    fewer = np.divide(100 * (paired - own.to_numpy()), paired, out=np.full(len(own), np.nan), where=paired > 0)
    table = replays.assign(fewer_pct=fewer)
    groups = table.groupby(group, sort=False)
    numbers = [str(name) for name in table.select_dtypes("number") if name not in ("load", "seed")]
    summary = groups[numbers].mean()
    half = groups["fewer_pct"].apply(_half_width)
    summary["fewer_low_pct"], summary["fewer_high_pct"] = summary["fewer_pct"] - half, summary["fewer_pct"] + half
    summary.insert(0, "n_seeds", groups.size())
    return summary.reset_index()


def _half_width(values: pd.Series) -> float:
    return float(t_half_width(values.dropna().to_numpy()[:, None])[0])


def _section(summary: pd.DataFrame, title: str, description: str) -> Section:
    caption = f"{description}; {int(summary['n_seeds'].max())} seeds, perfect lifetimes."
    titles = ("policy", "order", "scope", "planned", "carried out", "fewer %", "95 % interval", "share %", "moved GiB",
              "empty hosts %", "rejected %")
    return Section(title, caption, titles, tuple(_shown(row) for row in summary.to_dict("records")), 3,
                   _LEGEND)


def _shown(row: Mapping[Hashable, Any]) -> tuple[str, ...]:
    def number(name: str, form: str) -> str:
        return "-" if np.isnan(row[name]) else format(row[name], form)

    is_base = row["order"] == "trace"
    interval = f"{number('fewer_low_pct', '+.1f')} {number('fewer_high_pct', '+.1f')}"
    return (row["policy"], row["order"], row["scope"], number("n_planned", ",.0f"), number("n_migrations", ",.0f"),
            "-" if is_base else number("fewer_pct", "+.1f"), "-" if is_base else interval,
            number("performed_pct", ".1f"), number("migrated_gib", ",.0f"), number("empty_hosts_pct", ".2f"),
            number("rejected_pct", ".2f"))


def main() -> None:
    run_study("lars", run_lars, OF_REPLAYS, policies=("best-fit", "nilas"), predictors=("oracle",))
