"""What it is worth: replay a trace under a policy, with any source of lifetime predictions.

The engine asks for predictions through LifetimeSource and imports no model.
"""

from sojourn.features.trace import Trace
from sojourn.simulator.compare import Comparison, compare
from sojourn.simulator.completion import true_totals
from sojourn.simulator.constraints import Constraints
from sojourn.simulator.engine import Result, Samples, simulate
from sojourn.simulator.flawed import LongAsShort, NoisyOracle
from sojourn.simulator.lifetimes import Curves, Held, LifetimeSource, OneShot, Oracle, one_step
from sojourn.simulator.metrics import Metrics
from sojourn.simulator.policies import POLICIES, VARIANTS, Hooks, Policy
from sojourn.simulator.upkeep import Defragmentation, Drain, Failure, Maintenance, Migration
from sojourn.simulator.workload import Workload
from sojourn.simulator.workloads import WORKLOADS, build_workload

__all__ = [
    "POLICIES",
    "VARIANTS",
    "WORKLOADS",
    "Comparison",
    "Constraints",
    "Curves",
    "Defragmentation",
    "Drain",
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
    "Policy",
    "Result",
    "Samples",
    "Trace",
    "Workload",
    "build_workload",
    "compare",
    "one_step",
    "simulate",
    "true_totals",
]
