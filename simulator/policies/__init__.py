"""The placement policies by name, and the parts of a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from sojourn.simulator.policies.baselines import BEST_FIT, FIRST_FIT, FIRST_IN_USE, RANDOM, WASTE_MIN, WORST_FIT
from sojourn.simulator.policies.dapp import DAPP, DappRules, GroupRules, dapp_policy
from sojourn.simulator.policies.fgd import FGD, OPEN_FGD
from sojourn.simulator.policies.joint import ALIGNED_FIT, JOINT_EXACT, JOINT_FIT
from sojourn.simulator.policies.la import LA, LA_BINARY
from sojourn.simulator.policies.lava import LAVA, UPPER_S
from sojourn.simulator.policies.nilas import NILAS, NILAS_EXPECTED
from sojourn.simulator.policies.policy import (
    PACKING,
    Filter,
    Hooks,
    HostScores,
    PerResource,
    Policy,
    ResourceScorer,
    Scorer,
    free_share_left,
    is_outdated,
    opens_host,
    updated_first,
)

POLICIES: Mapping[str, Policy] = MappingProxyType({
    "aligned-fit": ALIGNED_FIT,
    "best-fit": BEST_FIT,
    "dapp": DAPP,
    "fgd": FGD,
    "first-fit": FIRST_FIT,
    "first-in-use": FIRST_IN_USE,
    "joint-exact": JOINT_EXACT,
    "joint-fit": JOINT_FIT,
    "la": LA,
    "la-binary": LA_BINARY,
    "lava": LAVA,
    "nilas": NILAS,
    "nilas-expected": NILAS_EXPECTED,
    "open-fgd": OPEN_FGD,
    "random": RANDOM,
    "waste-min": WASTE_MIN,
    "worst-fit": WORST_FIT,
})
"""Every policy by the name that configs, tables and figures use."""

_known = dict(POLICIES)
_codes: dict[str, str] = {}
KNOWN_POLICIES: Mapping[str, Policy] = MappingProxyType(_known)
"""What names stand for: POLICIES, and those that `add_policies` added."""


def add_policies(policies: Iterable[Policy], code: str) -> None:
    """Let their names stand for these policies, too, wherever policies are named; in this process alone.

    code: changes if they do; results that are kept of them have it in their key. ValueError for a name that has
    another policy.

    >>> add_policies([Policy("nilas")], "")
    Traceback (most recent call last):
    ValueError: name of a policy must be new, got 'nilas'
    """
    for policy in policies:
        if _known.get(policy.name, policy) != policy:
            raise ValueError(f"name of a policy must be new, got {policy.name!r}")
        _known[policy.name], _codes[policy.name] = policy, code


def added_code(name: str) -> str:
    """The code that a policy was added with; "" for those of POLICIES.

    >>> added_code("nilas")
    ''
    """
    return _codes.get(name, "")


__all__ = [
    "KNOWN_POLICIES", "PACKING", "POLICIES", "UPPER_S", "DappRules", "Filter", "GroupRules", "Hooks", "HostScores",
    "PerResource", "Policy", "ResourceScorer", "Scorer", "add_policies", "added_code", "dapp_policy",
    "free_share_left", "is_outdated", "opens_host", "updated_first",
]  # fmt: skip
