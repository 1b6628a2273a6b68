"""Workloads: seeded and named recipes turn a trace into requests and hosts to replay.

May import: `cluster`, `jit`, and `features.trace`.
"""

from sojourn.simulator.workloads.recipes import WORKLOADS, build_workload
from sojourn.simulator.workloads.workload import (
    NO_CONSTRAINTS,
    UNITS_PER,
    Constraints,
    Demand,
    LongLived,
    Workload,
    fits_somewhere,
    long_lived,
    owner_numbers,
    shares,
    true_totals,
    whole_amounts,
)

__all__ = [
    "NO_CONSTRAINTS", "UNITS_PER", "WORKLOADS", "Constraints", "Demand", "LongLived", "Workload", "build_workload",
    "fits_somewhere", "long_lived", "owner_numbers", "shares", "true_totals",
    "whole_amounts",
]  # fmt: skip
