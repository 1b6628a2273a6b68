"""The placement policies by name, and what is needed to write one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sojourn.simulator.policies.best_fit import BEST_FIT
from sojourn.simulator.policies.first_fit import FIRST_FIT
from sojourn.simulator.policies.la_binary import LA_BINARY
from sojourn.simulator.policies.nilas import NILAS
from sojourn.simulator.policies.packing import PACKING
from sojourn.simulator.policies.policy import Filter, PerResource, Policy, ResourceScorer, Scorer

POLICIES: Mapping[str, Policy] = MappingProxyType({
    "best-fit": BEST_FIT,
    "first-fit": FIRST_FIT,
    "la-binary": LA_BINARY,
    "nilas": NILAS,
})
"""Every policy by the name that configs, tables and figures use."""

__all__ = ["PACKING", "POLICIES", "Filter", "PerResource", "Policy", "ResourceScorer", "Scorer"]
