"""Policies that stand in tables of the docs alone. Whoever imports this may name them as those of `POLICIES`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from sojourn.simulator import Policy
from sojourn.simulator.policies import add_policies
from studies.policies.classify_departure import CLASSIFY_DEPARTURE
from studies.policies.hybrid import HYBRID
from studies.policies.move_to_front import MOVE_TO_FRONT
from studies.policies.one_rule_changed import (
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
    LAVA_95,
    LAVA_ANY_CLASS,
    LAVA_FROM_OPENING,
    LAVA_NO_CLASS_DOWN,
    LAVA_NO_CLASS_UP,
    LAVA_SOFT,
    LAVA_SOFT_EXPECTED,
    LAVA_SOFT_JOINT,
    NILAS_60S,
    NILAS_LAST,
    NILAS_ONE_SHOT,
    NILAS_SECOND,
    NILAS_UNBUCKETED,
)

__all__ = ["MIN_USAGE", "STUDY_POLICIES", "VARIANTS"]

MIN_USAGE: Mapping[str, Policy] = MappingProxyType({
    policy.name: policy for policy in (CLASSIFY_DEPARTURE, HYBRID, MOVE_TO_FRONT)})
"""Algorithms of MinUsageTime bin packing, by name."""

VARIANTS: Mapping[str, Policy] = MappingProxyType({policy.name: policy for policy in (
    DAPP_DAILY, DAPP_EVENTS, DAPP_EXACT, DAPP_FIGURE_9, DAPP_MAX, DAPP_OPENS, DAPP_SHORT, DAPP_SYMMETRIC, DAPP_TIMER,
    DAPP_UNGROUPED, DAPP_UNGROUPED_EVENTS, DAPP_WEIGHTED, LAVA_95, LAVA_ANY_CLASS, LAVA_FROM_OPENING,
    LAVA_NO_CLASS_DOWN, LAVA_NO_CLASS_UP, LAVA_SOFT, LAVA_SOFT_EXPECTED, LAVA_SOFT_JOINT, NILAS_60S, NILAS_LAST,
    NILAS_ONE_SHOT, NILAS_SECOND, NILAS_UNBUCKETED)})
"""Policies with one rule changed, to see what it is worth, by name."""

STUDY_POLICIES: Mapping[str, Policy] = MappingProxyType({**MIN_USAGE, **VARIANTS})
"""Both."""

add_policies(STUDY_POLICIES.values(), hashlib.sha256(
    b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))).hexdigest())
