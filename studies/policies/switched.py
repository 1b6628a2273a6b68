"""Best fit until a time, another policy from then on, as in a launch on a whole pool."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from sojourn.simulator import PACKING, Cluster, PerResource, Policy, Request, kernel
from sojourn.simulator.policies import Scorer


@functools.cache
def switched(policy: Policy, from_s: int) -> Policy:
    """The policy with scorers that count only from `from_s` on; before that it is best fit.

    It predicts and calls hooks from the start. The scorers hold the time, so the loop is compiled
    again in each process. ValueError for a policy that does not end in PACKING, has a filter, or
    has a scorer per resource before PACKING.

    >>> from sojourn.simulator.policies.nilas import NILAS
    >>> switched(NILAS, 3600).name
    'nilas from 3600 s'
    """
    scorers = policy.scorers[:-len(PACKING)]
    is_scored = all(not isinstance(scorer, PerResource) for scorer in scorers)
    if policy.scorers[-len(PACKING):] != PACKING or policy.filter is not None or not is_scored:
        raise ValueError("policy must be scorers of whole hosts, then PACKING, and no filter, to be switched on, got "
                         f"{policy.name!r}")
    waiting = tuple(_waiting(scorer, from_s) for scorer in scorers)
    return replace(policy, name=f"{policy.name} from {from_s} s", scorers=(*waiting, *PACKING))


def _waiting(scorer: Any, from_s: int) -> Scorer:
    @kernel
    def waiting(cluster: Cluster, host: int, request: Request, now: int) -> float:
        if now < from_s:
            return 0.0
        return scorer(cluster, host, request, now)

    return waiting
