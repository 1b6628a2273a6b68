"""What an elastic pool costs: placement policies x ways of consolidation x predictors, each against best-fit with the
timer that autoscalers use today.

    python -m studies elastic [--trace PATH --reader NAME] [--policy NAME ...] [--predictor NAME ...] [--n-seeds N]

Pairs are of one seed: all of them replay the same requests. Host-hours that are saved are a share of the baseline's
with the same way of moving requests, live or by a restart."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from sojourn.flows.compare.cells import source_of, workload_of
from sojourn.flows.compare.comparison import learn
from sojourn.flows.compare.tables import log_sections
from sojourn.flows.console import console, stage
from sojourn.flows.placement.predictors import PredictorSpec, parse_predictor
from sojourn.flows.placement.workloads import WorkloadSpec, t_half_width
from sojourn.flows.reports.section import Section
from sojourn.flows.versions.promotion import open_store
from sojourn.simulator import KNOWN_POLICIES, LifetimeSource, Workload
from sojourn.simulator.measures import signed_text
from sojourn.simulator.pool import Consolidation, ElasticPool, MachineType, PoolResult, simulate_pool
from studies.settings import OF_REPLAYS, StudySettings, run_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASELINE = ("best-fit", "timer", "-")
"""Policy, consolidation and predictor against which all are held."""
WIDE = 0.85
"""Below this share in use a host is looked at by regret where requests migrate live."""
_TIMERS: Mapping[str, Consolidation] = MappingProxyType({
    "timer": Consolidation("timer"),
    "timer-wide": Consolidation("timer", utilisation_max=WIDE),
    "quiet": Consolidation("timer", utilisation_max=2.0, is_reset_by_events=True),
})
MOVE_COST_S = 600
"""Seconds of a host that a live move counts for in regret; the logged table shows what is saved by this account too."""
RECHECK_S = 300
"""After how long a host that was kept is looked at again, in all ways alike."""
_BY_MOVING: tuple[tuple[Literal["live", "restart"], Mapping[str, Consolidation]], ...] = (
    ("live", {**_TIMERS, "empty": Consolidation("empty"),
              "regret": Consolidation("regret", utilisation_max=WIDE, move_cost_s=MOVE_COST_S, trust=0.25)}),
    ("restart", {**_TIMERS, "regret": Consolidation("regret", after_s=60, trust=0.4)}),
)
WAYS: Mapping[str, Mapping[str, Consolidation]] = MappingProxyType({
    moving: MappingProxyType({
        name: replace(rules, moving=moving, recheck_s=RECHECK_S) for name, rules in ways.items()})
    for moving, ways in _BY_MOVING
})
"""By way of moving. `timer`: the cluster autoscaler's defaults. `timer-wide`: the same below `WIDE`, to see what regret
adds to a wider choice of hosts. `quiet`: Karpenter's consolidateAfter, any host on which nothing has come or gone for
so long. Constants of `regret` were chosen on the synthetic trace and on openb, with noise:1; its rule for live moves on
the synthetic trace and on surf."""
_GROUP = ["workload", "moving", "policy", "consolidation", "predictor"]
_PAIR = ["workload", "moving", "seed"]
_LEGEND = ("Saved: host-hours below those of best-fit with the timer, % (higher = better), with the paired 95 % "
           "interval; level = it holds 0. Over bound: host-hours above those that demand would fill without a gap, % "
           "(lower = better). Moves: migrations or restarts; lost: core-hours of work to be done again; wait: 95th "
           "percentile from arrival to begin, s (all lower = better). Predictor -: none is asked.")
_COLOURS = {"empty": "#8c8c8c", "timer": "#d98c3f", "timer-wide": "#c2a21c", "quiet": "#7b6bb0", "regret": "#1b7f79"}
_MARKERS = "osD^vP*X<>"


def run_elastic(config: StudySettings) -> int:
    """Print and log a table for each workload and way of moving; returns how many predictors could not be learnt."""
    specs = list(dict.fromkeys(cell.workload for cell in config.cells()))
    predictors = [parse_predictor(text) for text in config.predictors]
    with stage("open the store"):
        tracker = open_store(config)
    failed: dict[str, str] = {}
    learnt = [one for one in predictors if one.is_learnt]
    if learnt:
        with stage("learn"):
            for trace in dict.fromkeys(spec.trace for spec in specs):
                failed |= learn((trace, learnt), config.n_workers)
    for name, reason in failed.items():
        console.print(f"[red]✗[/] {name or 'the trace'}: {reason}", soft_wrap=True)
    if "" in failed:
        return len(learnt)
    usable = [one for one in predictors if one.learnt_name not in failed]
    rows: list[dict[str, Any]] = []
    with stage("replay") as report:
        for done, spec in enumerate(specs):
            report(done, len(specs))
            rows += [{"workload": spec.name, "load": spec.load, "seed": spec.seed, **row}
                     for row in _replays(spec, config.policies, usable)]
    replays = pd.DataFrame(rows)
    summary = elastic_summary(replays)
    descriptions = {spec.name: workload_of(spec).description for spec in reversed(specs)}
    sections = [_section(own.droplevel([0, 1]).reset_index(), str(moving), descriptions[str(workload)])
                for (workload, moving), own in summary.groupby(level=[0, 1], sort=False)]
    for section in sections:
        console.print()
        console.print(section)
    with stage("log"):
        log_sections(tracker, config.preset, config.model_dump(mode="json"), specs[0].trace, sections,
                     {"elastic": summary.reset_index(), "replays": replays},
                     {"elastic": elastic_figure(summary.reset_index())})
    return len(failed)


def _replays(spec: WorkloadSpec, policies: tuple[str, ...],
             predictors: list[PredictorSpec]) -> Iterator[dict[str, Any]]:
    workload = workload_of(spec)
    sources = {one.name: source_of(spec, one) for one in predictors}
    yield from pool_rows(workload, dict.fromkeys(("best-fit", *policies)), sources)


def pool_rows(workload: Workload, policies: Mapping[str, Any] | tuple[str, ...],
              sources: Mapping[str, LifetimeSource]) -> Iterator[dict[str, Any]]:
    """One row per way of moving, policy, consolidation and predictor; what asks for no prediction has predictor `-`."""
    types = host_types(workload)
    for moving, ways in WAYS.items():
        for way, rules in ways.items():
            pool = ElasticPool(types, consolidation=rules)
            for policy in policies:
                is_asked = way == "regret" or KNOWN_POLICIES[policy].predictions != "none"
                for name, source in sources.items() if is_asked else [("-", None)]:
                    result = simulate_pool(workload, pool, policy, source)
                    yield {"moving": moving, "policy": policy, "consolidation": way, "predictor": name,
                           **_figures(result)}


def host_types(workload: Workload) -> tuple[MachineType, ...]:
    """The distinct shapes of a workload's hosts; an hour costs 1 of the largest, and less by share of the cores."""
    shapes = workload.hosts[list(workload.resources)].drop_duplicates(ignore_index=True)
    largest = float(shapes["cpu_cores"].max())
    return tuple(MachineType(f"type {k}", {name: float(row[name]) for name in workload.resources},
                             float(row["cpu_cores"]) / largest)
                 for k, row in enumerate(shapes.to_dict("records")))


def _figures(result: PoolResult) -> dict[str, float]:
    return {"host_h": result.host_h, "price": result.price, "bound_host_h": max(result.bound_host_h.values()),
            "n_moves": result.n_moves, "lost_core_h": result.lost_core_h, "wait_p50_s": result.wait_p50_s,
            "wait_p95_s": result.wait_p95_s, "mean_wait_s": result.mean_wait_s,
            "utilisation_pct": max(result.utilisation_pct.values()), "most_hosts": result.most_hosts,
            "n_opened": result.n_opened, "n_drained": result.n_drained, "n_rejected": result.n_rejected}


def elastic_summary(replays: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds; `saved_pct`: host-hours below those of `BASELINE` of the same seed and way of moving, %,
    positive = fewer, with its paired 95 % t-interval. `saved_net_pct`: the same with `MOVE_COST_S` added per move.

    >>> two = pd.DataFrame({"workload": "w", "moving": "live", "seed": [0, 0, 1, 1], "consolidation": "timer",
    ...     "policy": ["best-fit", "nilas"] * 2, "predictor": ["-", "oracle"] * 2,
    ...     "host_h": [100.0, 90.0, 100.0, 80.0], "n_moves": [0, 30, 0, 60]})
    >>> elastic_summary(two)[["saved_pct", "saved_net_pct"]].round(9).to_numpy().tolist()
    [[0.0, 0.0], [15.0, 7.5]]
    """
    keys = list(zip(replays["policy"], replays["consolidation"], replays["predictor"], strict=True))
    is_base, pairs = [key == BASELINE for key in keys], pd.MultiIndex.from_frame(replays[_PAIR])
    table = replays.copy()
    for name, amount in (("saved", replays["host_h"]),
                         ("saved_net", replays["host_h"] + replays["n_moves"] * MOVE_COST_S / 3600)):
        base = pd.Series(amount[is_base].to_numpy(), pairs[is_base])
        table[f"{name}_pct"] = 100 * (1 - amount.to_numpy() / base.reindex(pairs).to_numpy(np.float64))
    groups = table.groupby(_GROUP, sort=False)
    numbers = [str(name) for name in table.select_dtypes("number") if name not in ("load", "seed")]
    summary = groups[numbers].mean()
    for name in ("saved", "saved_net"):
        mean = summary[f"{name}_pct"]
        half = groups[f"{name}_pct"].apply(lambda own: float(t_half_width(own.to_numpy()[:, None])[0]))
        summary[f"{name}_low_pct"], summary[f"{name}_high_pct"] = mean - half, mean + half
    summary.insert(0, "n_seeds", groups.size())
    return summary


def _section(summary: pd.DataFrame, moving: str, description: str) -> Section:
    way = "requests migrate live" if moving == "live" else "requests start over"
    titles = ("policy", "consolidation", "predictor", "host-hours", "saved %", "95 % interval", "verdict",
              "over bound %", "price", "moves", "lost core-h", "wait p95 s")
    ordered = summary.sort_values("host_h", kind="stable")
    n_rejected = float(summary["n_rejected"].max())
    caption = f"{description}; {int(summary['n_seeds'].max())} seeds; at most {n_rejected:g} requests rejected."
    return Section(f"Elastic pool, {way}", caption, titles, tuple(_shown(row) for row in ordered.to_dict("records")),
                   3, _LEGEND)


def _shown(row: Mapping[Hashable, Any]) -> tuple[str, ...]:
    is_base = (row["policy"], row["consolidation"], row["predictor"]) == BASELINE
    low, high = row["saved_low_pct"], row["saved_high_pct"]
    interval = "-" if is_base or np.isnan(low) else f"{signed_text(low)} {signed_text(high)}"
    verdict = "baseline" if is_base else "-" if np.isnan(low) else "better" if low > 0 else "worse" if high < 0 else (
        "level")
    return (row["policy"], row["consolidation"], row["predictor"], f"{row['host_h']:,.1f}",
            "-" if is_base else signed_text(row["saved_pct"]), interval, verdict,
            f"{100 * (row['host_h'] / row['bound_host_h'] - 1):.1f}", f"{row['price']:,.1f}", f"{row['n_moves']:,.0f}",
            f"{row['lost_core_h']:,.0f}", f"{row['wait_p95_s']:,.0f}")


def elastic_figure(summary: pd.DataFrame) -> Figure:
    """One panel per way of moving: colour = consolidation, marker = policy; filled = its predictor can be deployed.

    summary: as `elastic_summary`, its index as columns. Bars are the paired 95 % intervals.
    """
    from matplotlib.figure import Figure

    movings = list(dict.fromkeys(summary["moving"]))
    figure = Figure(figsize=(6.4 * len(movings), 4.6), layout="constrained")
    marker = dict(zip(dict.fromkeys(summary["policy"]), _MARKERS * 4, strict=False))
    for axes, moving in zip(np.atleast_1d(figure.subplots(1, len(movings))), movings, strict=True):
        own = summary[summary["moving"] == moving]
        for row in own.to_dict("records"):
            colour, is_known = _COLOURS[row["consolidation"]], row["predictor"].startswith(("oracle", "noise"))
            half = row["saved_high_pct"] - row["saved_pct"]
            axes.errorbar(row["n_moves"], row["saved_pct"], yerr=None if np.isnan(half) else half, color=colour,
                          marker=marker[row["policy"]], markerfacecolor="white" if is_known else colour, lw=0.8,
                          markersize=6)
        axes.axhline(0.0, color="#444444", lw=0.8)
        axes.set_xscale("symlog", linthresh=10)
        least, most = float(own["n_moves"].min()), float(own["n_moves"].max())
        axes.set_xlim(-2.0 if least < 10 else least / 2, max(2 * most, 10.0))
        axes.set_xlabel("moves (lower = better)")
        axes.set_ylabel("host-hours saved against best-fit with the timer, %\n(higher = better)")
        axes.set_title("requests migrate live" if moving == "live" else "requests start over", fontsize=11, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    axes = figure.axes[-1]
    for name, colour in _COLOURS.items():
        if not (summary["consolidation"] == name).any():
            continue
        axes.plot([], [], color=colour, marker="s", ls="", label=name)
    for policy, shape in marker.items():
        axes.plot([], [], color="#444444", marker=shape, ls="", markerfacecolor="white", label=policy)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    return figure


def main() -> None:
    run_study("elastic", run_elastic, (*OF_REPLAYS, "predictors", "starts", "test_share"),
              policies=("first-fit", "best-fit", "worst-fit", "waste-min", "la-binary", "nilas", "lava", "joint-fit"),
              predictors=("oracle", "noise:1", "hazard", "km"))
