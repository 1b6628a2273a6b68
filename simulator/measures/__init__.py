"""Measures of a finished replay: stranded resources, real use, placement debt, maps of hosts.

May import: `engine` and what lies below it.
"""

from sojourn.simulator.measures.columns import COLUMNS
from sojourn.simulator.measures.debt import Debt, debt
from sojourn.simulator.measures.hosts import HostMap, host_map
from sojourn.simulator.measures.measure import Column, Measure, gap_closed_pct
from sojourn.simulator.measures.registry import MEASURES
from sojourn.simulator.measures.stranding import Stranding, stranding
from sojourn.simulator.measures.usage import VIOLATION_SERIES, UsageMetrics, usage_metrics, usage_series

__all__ = [
    "COLUMNS", "MEASURES", "VIOLATION_SERIES", "Column", "Debt", "HostMap", "Measure", "Stranding", "UsageMetrics",
    "debt", "gap_closed_pct", "host_map", "stranding", "usage_metrics", "usage_series",
]  # fmt: skip
