"""The placement policies by name, and the parts of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sojourn.simulator.policies.baselines import BEST_FIT, FIRST_FIT, RANDOM, WASTE_MIN, WORST_FIT
from sojourn.simulator.policies.classify_departure import CLASSIFY_DEPARTURE
from sojourn.simulator.policies.dapp import (
    DAPP,
    DAPP_DAILY,
    DAPP_EVENTS,
    DAPP_EXACT,
    DAPP_FIGURE_9,
    DAPP_MAX,
    DAPP_OPENS,
    DAPP_SHORT,
    DAPP_SYMMETRIC,
    DAPP_TIMER,
    DAPP_UNGROUPED,
    DAPP_UNGROUPED_EVENTS,
    DAPP_WEIGHTED,
    DappRules,
    GroupRules,
    dapp_policy,
)
from sojourn.simulator.policies.hybrid import HYBRID
from sojourn.simulator.policies.joint import ALIGNED_FIT, JOINT_EXACT, JOINT_FIT
from sojourn.simulator.policies.la import LA, LA_BINARY
from sojourn.simulator.policies.lava import (
    LAVA,
    LAVA_95,
    LAVA_ANY_CLASS,
    LAVA_FROM_OPENING,
    LAVA_NO_CLASS_DOWN,
    LAVA_NO_CLASS_UP,
    LAVA_SOFT,
    LAVA_SOFT_EXPECTED,
    LAVA_SOFT_JOINT,
    UPPER_S,
)
from sojourn.simulator.policies.move_to_front import MOVE_TO_FRONT
from sojourn.simulator.policies.nilas import (
    NILAS,
    NILAS_60S,
    NILAS_EXPECTED,
    NILAS_LAST,
    NILAS_ONE_SHOT,
    NILAS_SECOND,
    NILAS_UNBUCKETED,
)
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
    opens_host,
)

POLICIES: Mapping[str, Policy] = MappingProxyType({
    "aligned-fit": ALIGNED_FIT,
    "best-fit": BEST_FIT,
    "classify-departure": CLASSIFY_DEPARTURE,
    "dapp": DAPP,
    "first-fit": FIRST_FIT,
    "hybrid": HYBRID,
    "joint-exact": JOINT_EXACT,
    "joint-fit": JOINT_FIT,
    "la": LA,
    "la-binary": LA_BINARY,
    "lava": LAVA,
    "move-to-front": MOVE_TO_FRONT,
    "nilas": NILAS,
    "nilas-expected": NILAS_EXPECTED,
    "random": RANDOM,
    "waste-min": WASTE_MIN,
    "worst-fit": WORST_FIT,
})
"""Every policy by the name that configs, tables and figures use."""

VARIANTS: Mapping[str, Policy] = MappingProxyType({
    "dapp-daily": DAPP_DAILY,
    "dapp-events": DAPP_EVENTS,
    "dapp-exact": DAPP_EXACT,
    "dapp-figure-9": DAPP_FIGURE_9,
    "dapp-max": DAPP_MAX,
    "dapp-opens": DAPP_OPENS,
    "dapp-short": DAPP_SHORT,
    "dapp-symmetric": DAPP_SYMMETRIC,
    "dapp-timer": DAPP_TIMER,
    "dapp-ungrouped": DAPP_UNGROUPED,
    "dapp-ungrouped-events": DAPP_UNGROUPED_EVENTS,
    "dapp-weighted": DAPP_WEIGHTED,
    "lava-95": LAVA_95,
    "lava-any-class": LAVA_ANY_CLASS,
    "lava-from-opening": LAVA_FROM_OPENING,
    "lava-no-class-down": LAVA_NO_CLASS_DOWN,
    "lava-no-class-up": LAVA_NO_CLASS_UP,
    "lava-soft": LAVA_SOFT,
    "lava-soft-expected": LAVA_SOFT_EXPECTED,
    "lava-soft-joint": LAVA_SOFT_JOINT,
    "nilas-60s": NILAS_60S,
    "nilas-last": NILAS_LAST,
    "nilas-one-shot": NILAS_ONE_SHOT,
    "nilas-second": NILAS_SECOND,
    "nilas-unbucketed": NILAS_UNBUCKETED,
})
"""Policies with one rule changed, to measure its effect; they have names, but are not in POLICIES."""

KNOWN_POLICIES: Mapping[str, Policy] = MappingProxyType({**POLICIES, **VARIANTS})
"""POLICIES and VARIANTS."""

__all__ = [
    "KNOWN_POLICIES", "PACKING", "POLICIES", "UPPER_S", "VARIANTS", "DappRules", "Filter", "GroupRules", "Hooks",
    "HostScores", "PerResource", "Policy", "ResourceScorer", "Scorer", "dapp_policy", "free_share_left", "opens_host",
]  # fmt: skip
