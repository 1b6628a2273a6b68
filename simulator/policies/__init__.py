"""The placement policies by name, and what is needed to write one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sojourn.simulator.policies.best_fit import BEST_FIT
from sojourn.simulator.policies.first_fit import FIRST_FIT
from sojourn.simulator.policies.joint_fit import JOINT_FIT
from sojourn.simulator.policies.la import LA
from sojourn.simulator.policies.la_binary import LA_BINARY
from sojourn.simulator.policies.nilas import NILAS
from sojourn.simulator.policies.nilas_expected import NILAS_EXPECTED
from sojourn.simulator.policies.packing import PACKING
from sojourn.simulator.policies.policy import Filter, PerResource, Policy, ResourceScorer, Scorer
from sojourn.simulator.policies.random_fit import RANDOM
from sojourn.simulator.policies.worst_fit import WORST_FIT

POLICIES: Mapping[str, Policy] = MappingProxyType({
    "best-fit": BEST_FIT,
    "first-fit": FIRST_FIT,
    "joint-fit": JOINT_FIT,
    "la": LA,
    "la-binary": LA_BINARY,
    "nilas": NILAS,
    "nilas-expected": NILAS_EXPECTED,
    "random": RANDOM,
    "worst-fit": WORST_FIT,
})
"""Every policy by the name that configs, tables and figures use."""

__all__ = ["PACKING", "POLICIES", "Filter", "PerResource", "Policy", "ResourceScorer", "Scorer"]
