"""DAPP: requests go to hosts of their lifetime class or a longer one, by tags that are renewed once a day (DVLA,
Alibaba, OSDI'26, sections 4.3 and 5).

A long request on a host of short ones keeps that host in use for its sake alone: a debt. So a host has a class, its
tag, and a host of a shorter class than the request's has an affinity below 1. Rules and what is kept: `dapp_rules`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sojourn.simulator.cluster import NEVER, Cluster, Request
from sojourn.simulator.jit import inner
from sojourn.simulator.policies.dapp_groups import pass_day
from sojourn.simulator.policies.dapp_rules import SHORT_BOUNDS_S, DappRules, DappState, GroupRules, dapp_state
from sojourn.simulator.policies.packing import PACKING
from sojourn.simulator.policies.policy import Hooks, Policy, kernel


@kernel
def class_of_remaining(bounds_s: np.ndarray, remaining_s: int) -> int:
    """Class from 1 of a remaining time: 1 and the number of bounds that it exceeds, as the paper's classifiers ask
    (section 4.1). So a bound itself belongs to the shorter class.

    bounds_s: int64 (K - 1,), upper bounds of all classes but the last.

    >>> bounds_s = np.array(DappRules().bounds_s)
    >>> [class_of_remaining(bounds_s, hours * 3600) for hours in (0, 1, 24, 168, 720, 8760, 8761)]
    [1, 1, 2, 3, 4, 5, 6]
    """
    found = 1
    while found <= len(bounds_s) and remaining_s > bounds_s[found - 1]:
        found += 1
    return found


@kernel
def changes_at(bounds_s: np.ndarray, request: Request, now: int) -> int:
    """When the request's class is next to be found anew: at the next breakpoint of its curve, when its prediction is
    outlived, or in the first second at which its remaining time no longer exceeds its class's lower bound."""
    found = request.exit_s
    for k in range(len(request.uptimes_s)):
        if request.uptimes_s[k] > request.age_s:
            found = min(found, now + request.uptimes_s[k] - request.age_s)
            break
    own = class_of_remaining(bounds_s, request.exit_s - now)
    if own > 1:
        found = min(found, request.exit_s - bounds_s[own - 2])
    return max(found, now + 1)


@kernel
def tag_of(state: DappState, host: int) -> int:
    """The host's class by the known classes of its requests; 0 where it has none.

    By the weighted rule it is the class of the group that is nearest to the mean by cores, of two the longer.
    """
    highest, cores, weighted = 0, 0, 0
    for c in range(1, state.cores.shape[1] + 1):
        if state.n_of[host, c - 1] > 0:
            highest = c
        cores += state.cores[host, c - 1]
        weighted += c * state.cores[host, c - 1]
    if highest == 0 or state.pool[0].is_weighted == 0:
        return highest
    nearest, least = 0, 0
    for c in range(1, state.cores.shape[1] + 1):
        gap = abs(weighted - c * cores)
        if state.is_member[c - 1] == 1 and (nearest == 0 or gap <= least):
            nearest, least = c, gap
    return nearest


@inner
def count(state: DappState, host: int, row: int, sign: int) -> None:
    """Add a request to its host's and the pool's cores of its known class, or take it away (-1)."""
    c = state.class_of[row] - 1
    state.n_of[host, c] += sign
    state.cores[host, c] += sign * state.cores_of[row]
    state.pool_cores[c] += sign * state.cores_of[row]


@inner
def has_from(state: DappState, host: int, lowest: int) -> bool:
    """Whether the host has a request of this class or a longer one."""
    for c in range(lowest - 1, state.n_of.shape[1]):
        if state.n_of[host, c] > 0:
            return True
    return False


@kernel
def placed(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """The request's class is known; the tag of a host that was empty is its class. If it comes from a host that it was
    the last long request of, that host's tag is found anew."""
    state, row = cluster.state, request.row
    rules, pool = state.rules[0], state.pool[0]
    source = state.left_host[row]
    is_long_moved = state.left_s[row] == now and source != host and state.class_of[row] >= rules.long_class
    if is_long_moved and rules.is_on_events == 1 and not has_from(state, source, rules.long_class):
        state.tag[source] = tag_of(state, source)
    is_first = not has_from(state, host, 1)
    state.class_of[row] = class_of_remaining(state.bounds_s, request.exit_s - now)
    state.cores_of[row] = max(request.need[state.idx_cpu[0]], 1)  # a request without cores weighs a thousandth of one
    count(state, host, row, 1)
    if state.deadline_s[host] == NEVER:
        pool.n_in_use += 1
        if pool.n_in_use == 1:
            if pool.next_midnight_s <= now:  # it has been a midnight of the empty pool, which no host waited for
                state.tag[:] = 0
            pool.next_midnight_s = (now // rules.day_s + 1) * rules.day_s
        state.deadline_s[host] = pool.next_midnight_s
    if now == 0 and request.age_s > 0:  # the pool runs already: it is tagged once all that runs is in place
        pool.is_weighted = max(pool.is_weighted, rules.is_switched)
        state.deadline_s[host] = min(state.deadline_s[host], 1)
    if rules.is_exact == 1:
        state.deadline_s[host] = min(state.deadline_s[host], changes_at(state.bounds_s, request, now))
    if rules.is_exact == 1 or (is_first and rules.is_on_events == 1):
        state.tag[host] = tag_of(state, host)


@kernel
def departed(cluster: Cluster, host: int, row: int, now: int) -> None:
    """The request counts no more; without requests the host has no class."""
    state = cluster.state
    count(state, host, row, -1)
    state.left_host[row], state.left_s[row] = host, now
    if state.rules[0].is_exact == 1 or (state.rules[0].is_on_events == 1 and not has_from(state, host, 1)):
        state.tag[host] = tag_of(state, host)


@kernel
def emptied(cluster: Cluster, host: int, now: int) -> None:
    """The host waits for no midnight any more."""
    state = cluster.state
    if state.deadline_s[host] != NEVER:
        state.pool[0].n_in_use -= 1
        state.deadline_s[host] = NEVER


@kernel
def resident(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """The class of a request that runs is found anew."""
    state = cluster.state
    count(state, host, request.row, -1)
    state.class_of[request.row] = class_of_remaining(state.bounds_s, request.exit_s - now)
    count(state, host, request.row, 1)
    state.change_s[host] = min(state.change_s[host], changes_at(state.bounds_s, request, now))


@kernel
def at_deadline(cluster: Cluster, host: int, now: int) -> None:
    """After all residents have been asked: the host's tag; with the last host of a midnight, the pool's day."""
    state = cluster.state
    rules, pool = state.rules[0], state.pool[0]
    if rules.is_daily == 1 or rules.is_exact == 1:
        state.tag[host] = tag_of(state, host)
    state.deadline_s[host] = pool.next_midnight_s
    if now == pool.next_midnight_s:
        state.deadline_s[host] = now + rules.day_s
        pool.n_seen += 1
        if pool.n_seen == pool.n_in_use:
            _end_day(state, now)
    if rules.is_exact == 1:
        state.deadline_s[host] = min(state.deadline_s[host], state.change_s[host])
    state.change_s[host] = NEVER


@inner
def _end_day(state: DappState, now: int) -> None:
    """The group may change, and every host's tag with it."""
    rules, pool = state.rules[0], state.pool[0]
    pool.n_seen = 0
    pool.next_midnight_s = now + rules.day_s
    if pass_day(state) and rules.is_switched == 1:
        pool.is_weighted = 1
    if rules.is_daily == 1 or rules.is_exact == 1:
        for host in range(len(state.tag)):
            state.tag[host] = tag_of(state, host)


@kernel
def debt_cost(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """1 minus the affinity of request and host: 0 on a host of the request's class; more the shorter the host's class
    is, and by the symmetric rule the longer it is; on an empty host 2, or 0.85.

    The affinity of a host that is d classes short is 0.8 (1 - d / K), for a long request 0.2 (1 - d / K); that of one
    that is d classes long is 1, or 1 - d / K by the symmetric rule.

    >>> state = dapp_state(DappRules(), 3, 1)
    >>> state.tag[:] = 2, 4, 0
    >>> three = Cluster(np.full((3, 1), 8), np.full((3, 1), 4), np.array([1, 1, 0]), np.zeros(3, int), state=state)
    >>> [debt_cost(three, host, Request(0, np.array([2]), 30 * 3600), 0) for host in (0, 1, 2)]
    [0.333333333, 0.0, 2.0]
    """
    state = cluster.state
    rules = state.rules[0]
    if cluster.n_running[host] == 0:
        return rules.empty_cost
    own, n_classes = class_of_remaining(state.bounds_s, request.exit_s - now), len(state.bounds_s) + 1
    gap, affinity = own - state.tag[host], 1.0
    if gap > 0:
        omega = rules.omega_long if own >= rules.long_class else rules.omega
        affinity = omega * (1.0 - gap / n_classes)
    elif rules.is_symmetric == 1:
        affinity = 1.0 + gap / n_classes
    return np.rint(1e9 * (1.0 - affinity)) / 1e9


def _state(rules: DappRules, n_hosts: int, n_requests: int) -> Any:
    return dapp_state(rules, n_hosts, n_requests)


def dapp_policy(name: str, rules: DappRules, about: str = "") -> Policy:
    """A reading of DAPP as a policy.

    >>> dapp_policy("mine", DappRules(tag_rule="max")).predictions
    'current'
    """
    names = ("none", *(f"class {c}" for c in range(1, len(rules.bounds_s) + 2)))
    hooks = Hooks(partial(_state, rules), placed, departed, emptied, at_deadline, "tag", names, resident)
    return Policy(name, (debt_cost, *PACKING), predictions="current", hooks=hooks, about=about)


_SHORT = DappRules(bounds_s=SHORT_BOUNDS_S, long_class=5)
DAPP = dapp_policy("dapp", DappRules(), "long requests keep off hosts of short ones, by tags renewed daily (DVLA)")
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
