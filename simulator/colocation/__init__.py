"""Requests that are placed once and then use resources by their series: policies, violations.

May import: `engine` and what lies below it.
"""

from sojourn.simulator.colocation.colocation import (
    COLOCATION_POLICIES,
    UNITS,
    Colocation,
    ColocationPolicy,
    Violations,
    host_loads,
    place,
    violations,
)
from sojourn.simulator.colocation.optimum import Optimum, optimum

__all__ = [
    "COLOCATION_POLICIES", "UNITS", "Colocation", "ColocationPolicy", "Optimum", "Violations", "host_loads", "optimum",
    "place", "violations",
]  # fmt: skip
