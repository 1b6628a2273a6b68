"""Measures of a finished replay: stranded resources, real use, placement debt, maps of hosts.

May import: `engine` and what lies below it.
"""

from sojourn.simulator.measures.columns import COLUMNS
from sojourn.simulator.measures.debt import Debt, debt
from sojourn.simulator.measures.hosts import HostMap, host_map
from sojourn.simulator.measures.measure import (
    MISSING,
    Column,
    Measure,
    gap_closed_pct,
    interval_text,
    number_text,
    signed_text,
)
from sojourn.simulator.measures.registry import MEASURES
from sojourn.simulator.measures.stranding import Stranding, stranding
from sojourn.simulator.measures.usage import VIOLATION_SERIES, UsageMetrics, usage_metrics, usage_series

__all__ = [
    "COLUMNS", "MEASURES", "MISSING", "VIOLATION_SERIES", "Column", "Debt", "HostMap", "Measure", "Stranding",
    "UsageMetrics", "debt", "gap_closed_pct", "host_map", "interval_text", "number_text", "signed_text", "stranding",
    "usage_metrics", "usage_series",
]  # fmt: skip
