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

__all__ = [
    "COLOCATION_POLICIES", "UNITS", "Colocation", "ColocationPolicy", "Violations", "host_loads", "place", "violations",
]  # fmt: skip
