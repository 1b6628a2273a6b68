"""The preset `ab-pool`: estimates of an A/B in one pool and of a pre/post analysis, beside the true effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from sojourn.flows.compare.cells import workload_of
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.compare.tables import log_sections
from sojourn.flows.console import console, stage
from sojourn.flows.evaluations.ab_estimates import ab_summary, run_ab_pool
from sojourn.flows.evaluations.pre_post import pre_post, pre_post_figure
from sojourn.flows.placement.workloads import WorkloadSpec
from sojourn.flows.reports.section import Section
from sojourn.flows.versions.promotion import open_store
from sojourn.simulator import Oracle, Workload, simulate
from sojourn.simulator.engine import named_policy
from sojourn.simulator.policies.wrappers import switched

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLES = ("policy", "method", "estimate pp", "truth pp", "error pp", "95 % interval", "spread of one",
           "half width reported", "interval holds truth %")
_LEGEND = ("Estimate and truth: empty hosts over best-fit's, percentage points. Error: estimate minus truth, mean with "
           "95 % interval. Spread of one: standard deviation of the error of a single experiment. Half width reported: "
           "of the 95 % interval that such an experiment reports. Interval holds truth: share of the experiments; 95 "
           "is right.")


def run_ab_preset(config: CompareConfig) -> int:
    """Print and log one table for each load; returns 0."""
    for policy in config.policies:
        switched(named_policy(policy), 0)  # refuses one that can't be launched before anything runs
    with stage("open the store"):
        tracker = open_store(config)
    by_load: dict[float, dict[int, WorkloadSpec]] = {}
    for cell in config.cells():
        by_load.setdefault(cell.workload.load, {})[cell.workload.seed] = cell.workload
    parts: list[pd.DataFrame] = []
    sections: list[Section] = []
    figures: dict[str, Figure] = {}
    for load, specs in by_load.items():
        parts.append(_trials(specs, config.policies).assign(load=load))
        first = workload_of(next(iter(specs.values())))
        sections.append(_section(parts[-1], f"{first.description}; load {load:g}", len(specs)))
        console.print()
        console.print(sections[-1], crop=False)
        figures |= {f"pre-post-{policy}-load-{load:g}": _launch(first, policy) for policy in config.policies}
    with stage("log"):
        trace = next(iter(by_load[config.loads[0]].values())).trace
        log_sections(tracker, config.preset, config.model_dump(mode="json"), trace, sections,
                     {"trials": pd.concat(parts, ignore_index=True)}, figures)
    return 0


def _trials(specs: Mapping[int, WorkloadSpec], policies: Sequence[str]) -> pd.DataFrame:
    """As `run_ab_pool`, with the `policy`. specs: one workload by seed."""
    parts: list[pd.DataFrame] = []
    for policy in policies:
        with stage(f"A/B of {policy}") as report:
            found = run_ab_pool(lambda seed: workload_of(specs[seed]), policy, Oracle, list(specs), report)
        parts.append(found.assign(policy=policy))
    return pd.concat(parts, ignore_index=True)


def _section(trials: pd.DataFrame, description: str, n_seeds: int) -> Section:
    caption = f"{description}; {n_seeds} seeds, perfect lifetimes."
    rows = []
    for policy, own in trials.groupby("policy", sort=False):
        for method, row in ab_summary(own).iterrows():
            rows.append((str(policy), str(method), f"{row['effect_pp']:+.2f}", f"{row['true_pp']:+.2f}",
                         f"{row['error_pp']:+.2f}", f"{row['error_low_pp']:+.2f} {row['error_high_pp']:+.2f}",
                         f"{row['error_sd_pp']:.2f}", f"{row['half_width_pp']:.2f}", f"{row['covered_pct']:.0f}"))
    return Section("A/B in one pool, and pre/post", caption, _TITLES, tuple(rows), 2, _LEGEND)


def _launch(workload: Workload, policy: str) -> Figure:
    """The pre/post analysis of one launch, with what would have been without it."""
    from_s = (workload.warmup_s + workload.trace.horizon_s) // 2
    source = Oracle(workload)
    series = simulate(workload, switched(named_policy(policy), from_s), source).series
    found = pre_post(series, from_s, warmup_s=workload.warmup_s)
    plain = simulate(workload).series.set_index("time_s")
    truth = plain.loc[found.time_s, "empty_hosts_pct"].to_numpy()
    return pre_post_figure(found, f"{policy} from the middle on; {workload.description}", truth)
