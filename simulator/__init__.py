"""What it is worth: replay a trace under a policy, with any source of lifetime predictions.

The engine asks for predictions through LifetimeSource and imports no model.
"""

from sojourn.features.trace import Trace
from sojourn.simulator.compare import Comparison, compare
from sojourn.simulator.completion import true_totals
from sojourn.simulator.engine import Result, simulate
from sojourn.simulator.flawed import LongAsShort, NoisyOracle
from sojourn.simulator.lifetimes import Curves, Held, LifetimeSource, Oracle, one_step
from sojourn.simulator.metrics import Metrics
from sojourn.simulator.one_shot import OneShot
from sojourn.simulator.policies import POLICIES, Policy
from sojourn.simulator.workload import Workload
from sojourn.simulator.workloads import WORKLOADS, build_workload

__all__ = [
    "POLICIES",
    "WORKLOADS",
    "Comparison",
    "Curves",
    "Held",
    "LifetimeSource",
    "LongAsShort",
    "Metrics",
    "NoisyOracle",
    "OneShot",
    "Oracle",
    "Policy",
    "Result",
    "Trace",
    "Workload",
    "build_workload",
    "compare",
    "one_step",
    "simulate",
    "true_totals",
]
