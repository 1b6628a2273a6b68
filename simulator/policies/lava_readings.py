"""Other readings of LAVA, where the paper leaves room (section 4.3); none of them is the one that `lava` takes.

- `lava-from-opening`: "the total lifetime of a host does not exceed 1.1 x its original lifetime class". So the deadline
  counts from the host's opening, and recycling does not begin it again. When it passes, the class rises, and the next
  deadline is 1.1 x that class's upper bound from the opening, or from now where that is over. A class that falls begins
  it again, as in `lava`: what is left is to go within the shorter time.
- `lava-95`: a host recycles with more than 95 % in use instead of 90 %.
- `lava-soft`: of the preference by class only "recycling hosts of a higher class first" stands above NILAS. Open hosts
  of the class, other hosts in use and empty ones are left to NILAS and to packing. `lava-soft-expected` and
  `lava-soft-joint` have the score of nilas-expected and of joint-fit in the place of NILAS's.

`lava-any-class`, in lava.py, is one more: "at least one lifetime class lower", no matter how many.
"""

from __future__ import annotations

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.policies.joint_fit import joint_cost
from sojourn.simulator.policies.lava import (
    DEADLINE_S,
    FULL_PCT,
    HIGHEST_CLASS,
    LAVA,
    RECYCLING,
    SAMPLED,
    at_deadline,
    class_preference,
    departed,
    emptied,
    enter_host,
    lava_state,
    name_residuals,
)
from sojourn.simulator.policies.nilas import temporal_cost
from sojourn.simulator.policies.nilas_expected import expected_cost
from sojourn.simulator.policies.packing import PACKING
from sojourn.simulator.policies.policy import Hooks, Policy, kernel

OTHER_FULL_PCT = 95


@kernel
def placed_until_95(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """As `lava.placed`, but full is more than 95 %."""
    enter_host(cluster, host, request, now, OTHER_FULL_PCT, True)


@kernel
def placed_from_opening(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """As `lava.placed`, but a host that recycles keeps its deadline."""
    enter_host(cluster, host, request, now, FULL_PCT, False)


@kernel
def at_deadline_from_opening(cluster: Cluster, host: int, now: int) -> None:
    """The class rises by one, all requests are residuals, and the deadline is that of the class from the opening; from
    now where that is over."""
    state = cluster.state
    state.mode[host] = RECYCLING
    state.lifetime_class[host] = min(state.lifetime_class[host] + 1, HIGHEST_CLASS)
    span_s = DEADLINE_S[state.lifetime_class[host] - 1]
    from_opening_s = state.opened_s[host] + span_s
    state.deadline_s[host] = from_opening_s if from_opening_s > now else now + span_s
    name_residuals(state, host)


@kernel
def recycling_preference(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """0 to 2 on a recycling host of a higher class, the nearest first; 3 on every other host, in use or empty."""
    return min(class_preference(cluster, host, request, now), 3.0)


LAVA_95 = Policy("lava-95", LAVA.scorers, predictions="current",
                 hooks=Hooks(lava_state, placed_until_95, departed, emptied, at_deadline, *SAMPLED),
                 about="lava: a host is full at 95 % instead of 90 %")
LAVA_FROM_OPENING = Policy(
    "lava-from-opening", LAVA.scorers, predictions="current",
    hooks=Hooks(lava_state, placed_from_opening, departed, emptied, at_deadline_from_opening, *SAMPLED),
    about="lava: the deadline counts from the opening; recycling does not begin it again")
LAVA_SOFT = Policy("lava-soft", (recycling_preference, temporal_cost, *PACKING), predictions="current",
                   hooks=LAVA.hooks, about="lava: only recycling hosts of a higher class come before NILAS's score")
LAVA_SOFT_EXPECTED = Policy("lava-soft-expected", (recycling_preference, expected_cost, *PACKING),
                            predictions="current", hooks=LAVA.hooks, about="lava-soft with nilas-expected's score")
LAVA_SOFT_JOINT = Policy("lava-soft-joint", (recycling_preference, joint_cost, *PACKING), predictions="current",
                         hooks=LAVA.hooks, about="lava-soft with joint-fit's score")
