"""Policies with one rule changed or removed, to see what it is worth, and readings that a paper leaves open.

NILAS: hosts' exits recomputed once a minute, as in the paper (section 5.1); first predictions only;
no buckets; the extension after the opening of a host, or after all of packing.

LAVA: its paper's text (section 4.3) allows other readings than `lava`:

- `lava-from-opening`: "the total lifetime of a host does not exceed 1.1 x its original lifetime
  class". So the deadline counts from the host's opening, and recycling does not restart it. When it
  passes, the class rises, and the next deadline is 1.1 x that class's upper bound from the opening,
  or from now if that is over. A class that falls restarts it, as in `lava`: the rest is to leave
  within the shorter time.
- `lava-95`: a host recycles with more than 95 % in use instead of 90 %.
- `lava-soft`: only "recycling hosts of a higher class first" comes before NILAS; NILAS and packing
  order all other hosts. `lava-soft-expected` and `lava-soft-joint` replace NILAS's score by that of
  nilas-expected and of joint-fit.
- `lava-any-class`: "at least one lifetime class lower", no matter how many.

DAPP: what its own ablation removes, and what the paper's text leaves open. All take classes for traces of a few weeks.
"""

from __future__ import annotations

from dataclasses import replace

from sojourn.simulator import PACKING, Cluster, DappRules, GroupRules, Hooks, Policy, Request, dapp_policy, kernel
from sojourn.simulator.policies.joint import joint_cost
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
    leave_host,
    name_residuals,
    pass_deadline,
    placed,
)
from sojourn.simulator.policies.nilas import NILAS, expected_cost, temporal_cost


@kernel
def extension(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """Seconds by which the request outstays the host, not in buckets."""
    host_exit = now if cluster.n_running[host] == 0 else max(cluster.exit_s[host], now)
    return float(max(request.exit_s - host_exit, 0))


NILAS_60S = Policy("nilas-60s", NILAS.scorers, predictions="current", refresh_s=60, are_empty_hosts_alike=True,
                   about="nilas: a host's exit is predicted again after 60 s at most, as in the paper")
NILAS_ONE_SHOT = Policy("nilas-one-shot", NILAS.scorers, predictions="initial", are_empty_hosts_alike=True,
                        about="nilas: by each request's first prediction")
NILAS_UNBUCKETED = Policy("nilas-unbucketed", (extension, *PACKING), predictions="current",
                          are_empty_hosts_alike=True,
                          about="nilas: seconds instead of buckets")
NILAS_SECOND = Policy("nilas-second", (PACKING[0], temporal_cost, *PACKING[1:]), predictions="current",
                      about="nilas: hosts in use come before empty ones, then by extension")
NILAS_LAST = Policy("nilas-last", (*PACKING, temporal_cost), predictions="current",
                    about="nilas: extension breaks the ties of best fit")


@kernel
def departed_without_falling(cluster: Cluster, host: int, row: int, now: int) -> None:
    """As LAVA's `departed`, but class and deadline stay."""
    leave_host(cluster, host, row, now, 0, False)


@kernel
def at_deadline_without_rising(cluster: Cluster, host: int, now: int) -> None:
    """As LAVA's `at_deadline`, but the class stays; its deadline restarts."""
    pass_deadline(cluster, host, now, 0)


@kernel
def any_class_preference(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """As `class_preference`, but recycling hosts of all higher classes are alike."""
    preference = class_preference(cluster, host, request, now)
    return 0.0 if preference < 3.0 else preference


LAVA_ANY_CLASS = Policy("lava-any-class", (any_class_preference, temporal_cost, *PACKING), predictions="current",
                        hooks=LAVA.hooks, about="lava: recycling hosts of all higher classes are alike")
LAVA_NO_CLASS_DOWN = Policy("lava-no-class-down", (class_preference, temporal_cost, *PACKING), predictions="current",
                            hooks=Hooks(lava_state, placed, departed_without_falling, emptied, at_deadline, *SAMPLED),
                            about="lava: the class of a host never falls")
LAVA_NO_CLASS_UP = Policy("lava-no-class-up", (class_preference, temporal_cost, *PACKING), predictions="current",
                          hooks=Hooks(lava_state, placed, departed, emptied, at_deadline_without_rising, *SAMPLED),
                          about="lava: the class of a host never rises")

OTHER_FULL_PCT = 95


@kernel
def placed_until_95(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """As LAVA's `placed`, but a host is full above 95 %."""
    enter_host(cluster, host, request, now, OTHER_FULL_PCT, True)


@kernel
def placed_from_opening(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """As LAVA's `placed`, but a host that recycles keeps its deadline."""
    enter_host(cluster, host, request, now, FULL_PCT, False)


@kernel
def at_deadline_from_opening(cluster: Cluster, host: int, now: int) -> None:
    """The class rises by one, all requests are residuals, and the deadline is that of the class
    from the opening, or from now if that is over."""
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

_SHORT = DappRules(bounds_s=(600, 3_600, 21_600, 86_400, 259_200), long_class=5)
"""Upper bounds of 10 min, 1, 6, 24 and 72 h."""
DAPP_SHORT = dapp_policy("dapp-short", _SHORT, "dapp: classes of 10 min to 72 h, for traces of a few weeks")
DAPP_WEIGHTED = dapp_policy("dapp-weighted", replace(_SHORT, tag_rule="weighted"),
                            "dapp-short: a host's class is always the mean by cores")
DAPP_MAX = dapp_policy("dapp-max", replace(_SHORT, tag_rule="max"),
                       "dapp-short: a host's class is always the longest on it")
DAPP_SYMMETRIC = dapp_policy("dapp-symmetric", replace(_SHORT, base="symmetric"),
                             "dapp-short: hosts of a longer class are penalised, too")
DAPP_EXACT = dapp_policy("dapp-exact", replace(_SHORT, tags="exact"),
                         "dapp-short: tags are right at every decision")
DAPP_DAILY = dapp_policy("dapp-daily", replace(_SHORT, tags="daily"), "dapp-short: tags change at midnight only")
DAPP_EVENTS = dapp_policy("dapp-events", replace(_SHORT, tags="events"),
                          "dapp-short: tags are not renewed at midnight")
DAPP_UNGROUPED = dapp_policy("dapp-ungrouped", replace(_SHORT, tag_rule="weighted", groups=GroupRules("off")),
                             "dapp-weighted: without groups")
DAPP_UNGROUPED_EVENTS = dapp_policy(
    "dapp-ungrouped-events", replace(_SHORT, tag_rule="weighted", tags="events", groups=GroupRules("off")),
    "dapp-ungrouped: tags are not renewed at midnight")
DAPP_TIMER = dapp_policy("dapp-timer", replace(_SHORT, tag_rule="weighted", groups=GroupRules("timer", timer_days=1,
                         window_days=1, warmup_days=1)), "dapp-weighted: a new group every day")
DAPP_FIGURE_9 = dapp_policy("dapp-figure-9", replace(_SHORT, groups=GroupRules(window_days=14)),
                            "dapp-short: an observation takes 14 days, as the paper's figure 9 tells")
DAPP_OPENS = dapp_policy("dapp-opens", replace(_SHORT, empty="scored"),
                         "dapp-short: a long request opens a host rather than join much shorter ones")
