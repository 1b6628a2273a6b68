"""Requests that are placed once and then use what their series say: orders, bounds and the optimum.

May import: `engine` and what lies below it.
"""

from sojourn.simulator.colocation.colocation import UNITS, Colocation
from sojourn.simulator.colocation.optimum import Optimum, optimum
from sojourn.simulator.colocation.registry import COLOCATION_POLICIES, ColocationPolicy, place
from sojourn.simulator.colocation.violations import Violations, host_loads, violations

__all__ = [
    "COLOCATION_POLICIES", "UNITS", "Colocation", "ColocationPolicy", "Optimum", "Violations", "host_loads", "optimum",
    "place", "violations",
]  # fmt: skip
