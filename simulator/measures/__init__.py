"""What is computed from a finished replay: stranded resources, real use, maps of hosts.

May import: `engine` and what lies below it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from sojourn.simulator.measures.measure import Column, Measure
from sojourn.simulator.measures.stranding import STRANDING
from sojourn.simulator.measures.usage import USAGE

__all__ = ["MEASURES", "Column", "Measure"]

MEASURES: Mapping[str, Measure] = MappingProxyType({
    "stranding": STRANDING,
    "usage": USAGE,
})
"""What every replay of a comparison is measured by, besides the engine's own metrics; a new one stands last."""
