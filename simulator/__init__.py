"""What it is worth: replay a trace under a policy, with any source of lifetime predictions.

The engine asks for predictions through LifetimeSource and imports no model.
"""

from sojourn.features.trace import Trace
from sojourn.simulator.cluster import NEVER, Cluster, Request
from sojourn.simulator.engine.explanation import Explanation, explain
from sojourn.simulator.engine.metrics import Metrics
from sojourn.simulator.engine.simulate import Result, Samples, simulate
from sojourn.simulator.engine.upkeep import Defragmentation, Drain, Failure, Maintenance, Migration
from sojourn.simulator.experiments.comparison import Comparison, compare
from sojourn.simulator.jit import kernel
from sojourn.simulator.measures.host_map import host_map
from sojourn.simulator.measures.stranding import Stranding, stranding
from sojourn.simulator.measures.usage import UsageMetrics, usage_metrics
from sojourn.simulator.policies import (
    KNOWN_POLICIES,
    PACKING,
    POLICIES,
    VARIANTS,
    Hooks,
    PerResource,
    Policy,
)
from sojourn.simulator.predictions.flawed import LongAsShort, NoisyOracle
from sojourn.simulator.predictions.one_shot import OneShot
from sojourn.simulator.predictions.sources import Curves, Held, LifetimeSource, Oracle, one_step
from sojourn.simulator.workloads.completion import true_totals
from sojourn.simulator.workloads.constraints import Constraints
from sojourn.simulator.workloads.recipes import WORKLOADS, build_workload
from sojourn.simulator.workloads.workload import Workload

__all__ = [
    "KNOWN_POLICIES",
    "NEVER",
    "PACKING",
    "POLICIES",
    "VARIANTS",
    "WORKLOADS",
    "Cluster",
    "Comparison",
    "Constraints",
    "Curves",
    "Defragmentation",
    "Drain",
    "Explanation",
    "Failure",
    "Held",
    "Hooks",
    "LifetimeSource",
    "LongAsShort",
    "Maintenance",
    "Metrics",
    "Migration",
    "NoisyOracle",
    "OneShot",
    "Oracle",
    "PerResource",
    "Policy",
    "Request",
    "Result",
    "Samples",
    "Stranding",
    "Trace",
    "UsageMetrics",
    "Workload",
    "build_workload",
    "compare",
    "explain",
    "host_map",
    "kernel",
    "one_step",
    "simulate",
    "stranding",
    "true_totals",
    "usage_metrics",
]
