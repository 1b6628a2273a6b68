"""Runs one study by its name, with its own options: `python -m studies NAME [options]`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

STUDIES: Mapping[str, str] = MappingProxyType({
    "ab-pool": "studies.ab_pool",
    "ablations": "studies.compare",
    "admission": "studies.admission",
    "against-baselines": "studies.against_baselines",
    "balanced": "studies.balanced",
    "cadence": "studies.cadence",
    "compare": "studies.compare",
    "ctcl-table": "studies.ctcl",
    "drift": "studies.drift.__main__",
    "dvla": "studies.compare",
    "dvla-tables": "studies.dvla_tables",
    "elastic": "studies.elastic",
    "freed-hours": "studies.freed_hours",
    "greedy-share": "studies.greedy_share",
    "held-exits": "studies.held_exits",
    "host-exits": "studies.host_exits",
    "inflation": "studies.inflation",
    "kueue-boost": "studies.kueue_boost",
    "lars": "studies.lars",
    "launches": "studies.launches",
    "lava-readings": "studies.compare",
    "lifetime-period": "studies.lifetime_period",
    "monitor-replay": "studies.monitor_replay",
    "own-policy": "studies.own_policy",
    "period-a": "studies.periods",
    "period-b": "studies.periods",
    "period-c": "studies.periods",
    "period-d": "studies.periods",
    "periodicity-chance": "studies.periodicity_chance",
    "periodicity-errors": "studies.periodicity_errors",
    "planning": "studies.planning",
    "queues": "studies.queues",
    "refresh-bound": "studies.refresh_bound",
    "real-slurm": "studies.real_slurm",
    "recalibration-ways": "studies.recalibration_ways",
    "regrouping": "studies.regrouping",
    "reserve-price": "studies.reserve_price",
    "results": "studies.results",
    "rivals": "studies.rivals",
    "shared-plan": "studies.shared_plan",
    "small-windows": "studies.small_windows",
    "survival-boost": "studies.survival_boost",
    "waste-min": "studies.waste_min",
    "workload-classes": "studies.workload_classes",
})
"""The module of each study; its `main` reads the options from `sys.argv`."""


def main() -> None:
    """Run the named study, or list all."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in STUDIES:
        sys.exit(f"NAME must be one of {', '.join(STUDIES)}, got {name!r}")
    sys.argv = [f"python -m studies {name}", *sys.argv[2:]]
    import_module(STUDIES[name]).main()


if __name__ == "__main__":
    main()
