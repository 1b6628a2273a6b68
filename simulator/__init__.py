"""Replays of a trace under a policy, with any source of lifetime predictions, and their metrics.

The engine gets predictions from a LifetimeSource and imports no model.
"""

from sojourn.features.trace import Trace
from sojourn.simulator.cluster import NEVER, Cluster, Request
from sojourn.simulator.engine import (
    Defragmentation,
    Drain,
    Explanation,
    Failure,
    Maintenance,
    Metrics,
    Migration,
    Result,
    Samples,
    explain,
    simulate,
)
from sojourn.simulator.experiments import Comparison, compare
from sojourn.simulator.jit import kernel
from sojourn.simulator.measures import Stranding, UsageMetrics, host_map, stranding, usage_metrics
from sojourn.simulator.policies import (
    KNOWN_POLICIES,
    PACKING,
    POLICIES,
    DappRules,
    GroupRules,
    Hooks,
    PerResource,
    Policy,
    dapp_policy,
)
from sojourn.simulator.predictions import (
    Curves,
    Held,
    LifetimeSource,
    LongAsShort,
    NoisyOracle,
    OneShot,
    Oracle,
    one_step,
)
from sojourn.simulator.rectification import Rectify
from sojourn.simulator.workloads import WORKLOADS, Constraints, Workload, build_workload, true_totals

__all__ = [
    "KNOWN_POLICIES", "NEVER", "PACKING", "POLICIES", "WORKLOADS", "Cluster", "Comparison",
    "Constraints", "Curves", "DappRules", "Defragmentation", "Drain", "Explanation", "Failure", "GroupRules",
    "Held", "Hooks", "LifetimeSource", "LongAsShort", "Maintenance", "Metrics", "Migration", "NoisyOracle",
    "OneShot", "Oracle", "PerResource", "Policy", "Rectify", "Request", "Result", "Samples", "Stranding", "Trace",
    "UsageMetrics", "Workload", "build_workload", "compare", "dapp_policy", "explain", "host_map", "kernel",
    "one_step", "simulate", "stranding", "true_totals", "usage_metrics",
]  # fmt: skip
