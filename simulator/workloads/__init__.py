"""What is replayed: a trace made into requests and hosts, by seeded and named recipes.

May import: `cluster`, `jit`, and `features.trace`.
"""

from sojourn.simulator.workloads.amounts import UNITS_PER, Demand, shares, whole_amounts
from sojourn.simulator.workloads.completion import true_totals
from sojourn.simulator.workloads.constraints import NO_CONSTRAINTS, Constraints
from sojourn.simulator.workloads.long_lived import LongLived, long_lived, owner_numbers
from sojourn.simulator.workloads.recipes import WORKLOADS, build_workload
from sojourn.simulator.workloads.workload import Workload, fits_somewhere

__all__ = [
    "NO_CONSTRAINTS", "UNITS_PER", "WORKLOADS", "Constraints", "Demand", "LongLived", "Workload", "build_workload",
    "fits_somewhere", "long_lived", "owner_numbers", "shares", "true_totals",
    "whole_amounts",
]  # fmt: skip
