"""The measures of a replay, in the order of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sojourn.simulator.measures.debt import DEBT
from sojourn.simulator.measures.hosts import MIGRATIONS
from sojourn.simulator.measures.measure import Measure
from sojourn.simulator.measures.stranding import STRANDING
from sojourn.simulator.measures.usage import USAGE

MEASURES: Mapping[str, Measure] = MappingProxyType({
    "stranding": STRANDING,
    "usage": USAGE,
    "debt": DEBT,
    "migrations": MIGRATIONS,
})
"""The measures of every replay of a comparison, besides the engine's metrics; a new one goes last."""
