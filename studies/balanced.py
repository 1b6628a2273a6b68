"""What the costs of evictions bring under Karpenter's rule `Balanced`, on an elastic pool whose requests start over.

    python -m studies balanced [--trace PATH --reader NAME] [--predictor NAME ...] [--n-seeds N]

For k = 1, 2, 3 (Karpenter has 2): costs by uptime alone, and by uptime over predicted remaining time, as `sojourn serve
costs` writes them without and with a bundle. Each is held against the uniform cost, and against the cost by uptime, on
the same requests; a pair is of one seed and one k. Beside them, the rules without a score: hosts that are empty, and
any host whose requests fit elsewhere. The 6 h of the costs were chosen on openb."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from sojourn.flows.compare.cells import source_of, workload_of
from sojourn.flows.compare.comparison import learn
from sojourn.flows.compare.tables import log_sections
from sojourn.flows.console import console, stage
from sojourn.flows.placement.predictors import parse_predictor
from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.reports.section import Section
from sojourn.flows.versions.promotion import open_store
from sojourn.simulator import LifetimeSource, Workload
from sojourn.simulator.pool import Consolidation, ElasticPool, simulate_pool
from studies.elastic import RECHECK_S, host_types
from studies.settings import OF_REPLAYS, StudySettings, run_study

KS = (1.0, 2.0, 3.0)
BASES = ("uniform", "uptime")
QUIET = Consolidation("timer", utilisation_max=2.0, is_reset_by_events=True, recheck_s=RECHECK_S, moving="restart")
"""Karpenter's consolidateAfter: any host on which nothing has come or gone for 10 min."""
_GROUP = ["workload", "rule", "k", "cost"]
_MEASURES = ("host_h", "n_moves", "lost_core_h")
_LEGEND = ("Difference to the named cost of the same k and seed, %, negative = less (better), with the paired 95 % "
           "interval. Lost: core-hours that evicted requests had run for; host-hours hold their repetition. Costs: by "
           "uptime alone, or by uptime over what remains by a predictor.")


def balanced_rows(workload: Workload, sources: Mapping[str, LifetimeSource]) -> Iterator[dict[str, Any]]:
    """One row per rule, k and cost. sources: predictor -> lifetimes, for the predicted cost."""
    ways: list[tuple[str, float, str, Consolidation, LifetimeSource | None]] = [
        ("empty", np.nan, "-", Consolidation("empty", moving="restart"), None), ("any", np.nan, "-", QUIET, None)]
    for k in KS:
        rule = replace(QUIET, mode="balanced", k=k)
        ways += [("balanced", k, "uniform", rule, None), ("balanced", k, "uptime", replace(rule, cost="uptime"), None)]
        ways += [("balanced", k, name, replace(rule, cost="predicted"), source) for name, source in sources.items()]
    types = host_types(workload)
    for rule_name, k, cost, rules, source in ways:
        result = simulate_pool(workload, ElasticPool(types, consolidation=rules), "best-fit", source)
        yield {"rule": rule_name, "k": k, "cost": cost, "host_h": result.host_h, "n_moves": result.n_moves,
               "lost_core_h": result.lost_core_h, "n_drained": result.n_drained, "n_rejected": result.n_rejected}


def balanced_summary(replays: pd.DataFrame, base: str = "uniform") -> pd.DataFrame:
    """Means over seeds; for each measure the difference to the base cost of the same k and seed, %, and its half paired
    95 % interval.

    >>> two = pd.DataFrame({"workload": "w", "rule": "balanced", "k": 2.0, "cost": ["uniform", "uptime"] * 2,
    ...     "seed": [0, 0, 1, 1], "host_h": [100.0, 90.0, 100.0, 80.0], "n_moves": [10, 5, 10, 5],
    ...     "lost_core_h": [0.0, 0.0, 0.0, 0.0]})
    >>> balanced_summary(two)["host_h_pct"].round(9).tolist()
    [0.0, -15.0]
    """
    table = replays.copy()
    pair = ["workload", "k", "seed"]
    of_base = table[table["cost"] == base].set_index(pair)
    at = pd.MultiIndex.from_frame(table[pair])
    for name in _MEASURES:
        amount = of_base[name].reindex(at).to_numpy(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            table[f"{name}_pct"] = np.where(amount > 0, 100 * (table[name].to_numpy() / amount - 1), np.nan)
    groups = table.groupby(_GROUP, sort=False, dropna=False)
    summary = groups[[name for name in table.select_dtypes("number") if name not in ("k", "seed")]].mean()
    for name in _MEASURES:
        summary[f"{name}_half_pct"] = groups[f"{name}_pct"].apply(
            lambda own: float(t_half_width(own.to_numpy()[:, None])[0]))
    summary.insert(0, "n_seeds", groups.size())
    return summary


def _section(summary: pd.DataFrame, base: str, description: str) -> Section:
    titles = ("rule", "cost", "host-h", "host-h %", "evicted", "evicted %", "lost", "lost %")
    caption = (f"{description}; {int(summary['n_seeds'].max())} seeds; at most {summary['n_rejected'].max():g} "
               "requests rejected.")
    return Section(f"Karpenter's Balanced, requests start over; against {base} costs", caption, titles,
                   tuple(_shown(row, base) for row in summary.to_dict("records")), 2, _LEGEND)


def _shown(row: Mapping[Any, Any], base: str) -> tuple[str, ...]:
    cells = [row["rule"] if np.isnan(row["k"]) else f"k={row['k']:g}", row["cost"]]
    for name in _MEASURES:
        mean, half = row[f"{name}_pct"], row[f"{name}_half_pct"]
        is_none = np.isnan(mean) or row["cost"] == base
        interval = "" if np.isnan(half) else f" ±{half:.1f}"
        cells += [f"{row[name]:,.0f}", "-" if is_none else f"{mean:+.1f}{interval}"]
    return tuple(cells)


def run_balanced(config: StudySettings) -> int:
    """Print and log a table for each workload; returns how many predictors could not be learnt."""
    specs = list(dict.fromkeys(cell.workload for cell in config.cells()))
    predictors = [parse_predictor(text) for text in config.predictors]
    with stage("open the store"):
        tracker = open_store(config)
    failed: dict[str, str] = {}
    with stage("learn"):
        for trace in dict.fromkeys(spec.trace for spec in specs):
            failed |= learn((trace, [one for one in predictors if one.is_learnt]), config.n_workers)
    for name, reason in failed.items():
        console.print(f"[red]✗[/] {name or 'the trace'}: {reason}", soft_wrap=True)
    usable = [one for one in predictors if one.learnt_name not in failed]
    rows: list[dict[str, Any]] = []
    with stage("replay") as report:
        for done, spec in enumerate(specs):
            report(done, len(specs))
            sources = {one.name: source_of(spec, one) for one in usable}
            rows += [{"workload": spec.name, "seed": spec.seed, **row}
                     for row in balanced_rows(workload_of(spec), sources)]
    replays = pd.DataFrame(rows)
    summaries = {base: balanced_summary(replays, base) for base in BASES}
    descriptions = {spec.name: workload_of(spec).description for spec in reversed(specs)}
    sections = [_section(own.reset_index(), base, descriptions[str(workload)]) for base, summary in summaries.items()
                for workload, own in summary.groupby(level=0, sort=False)]
    for section in sections:
        console.print()
        console.print(section)
    with stage("log"):
        log_sections(tracker, config.preset, config.model_dump(mode="json"), specs[0].trace, sections,
                     {"replays": replays} | {f"against_{base}": own.reset_index() for base, own in summaries.items()},
                     {})
    return len(failed)


def main() -> None:
    run_study("balanced", run_balanced, (*OF_REPLAYS, "predictors", "starts", "test_share"),
              policies=("best-fit",), predictors=("oracle", "noise:1", "hazard", "km"))
