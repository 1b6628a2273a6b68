"""Scale-out, overload, eviction, room and Least Requested Priority, compiled. Slow twin:
tests/naive_ctcl.py."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.jit import inner, kept_kernel
from sojourn.simulator.mixed.state import READY, MixedRules, MixedWorld


@inner
def filled(demand: np.ndarray, order: np.ndarray, n: int, machine: np.ndarray, capacity: np.ndarray, left: np.ndarray,
           mark: int) -> int:
    """How many of the unbound fit on one machine in this order; `left` is the room that stays free.
    mark: written into `machine` for those that fit, unless below 0."""
    for d in range(len(left)):
        left[d] = capacity[d]
    n_fitting = 0
    for k in range(n):
        row = order[k]
        if machine[k] >= 0:
            continue
        if fits(left, demand[row]):
            n_fitting += 1
            for d in range(len(left)):
                left[d] -= demand[row, d]
            if mark >= 0:
                machine[k] = mark
    return n_fitting


@kept_kernel
def scale_out(demand: np.ndarray, order: np.ndarray, n: int, capacities: np.ndarray, prices: np.ndarray,
              weights: np.ndarray, most: int, machine: np.ndarray, type_of: np.ndarray, left: np.ndarray) -> int:
    """How many machines are ordered for demand[order[:n]]. `machine` (n,) becomes the machine of
    each, -1 = none, `type_of` the type of each machine. most: machines at once. left: scratch,
    (n_resources,)."""
    for k in range(n):
        machine[k] = -1
    n_new = 0
    while n_new < most:
        best, best_score = -1, -1.0
        for kind in range(len(capacities)):
            if filled(demand, order, n, machine, capacities[kind], left, -1) == 0:
                continue
            score = requested_share(left, capacities[kind], weights)  # equation 6
            if score > best_score or (score == best_score and prices[kind] < prices[best]):
                best, best_score = kind, score
        if best < 0:
            break
        filled(demand, order, n, machine, capacities[best], left, n_new)
        type_of[n_new] = best
        n_new += 1
    return n_new


@inner
def is_overloaded(used: np.ndarray, capacity: np.ndarray, weights: np.ndarray, threshold: float) -> bool:
    """Whether the weighted use is above the threshold, or one resource is used above its capacity."""
    overall = 0.0
    for d in range(len(capacity)):
        if used[d] > capacity[d]:
            return True
        if capacity[d] > 0:
            overall += weights[d] * used[d] / capacity[d]
    return overall > threshold


@kept_kernel
def evict(used: np.ndarray, rank: np.ndarray, n: int, host_used: np.ndarray, capacity: np.ndarray, weights: np.ndarray,
          threshold: float, chosen: np.ndarray) -> int:
    """How many of the batch requests used[:n] are evicted, by rising `rank`, then by position,
    until the host is not overloaded. `chosen` becomes their positions in this order, `host_used`
    the use after them."""
    n_chosen, last = 0, -1
    while n_chosen < n and is_overloaded(host_used, capacity, weights, threshold):
        best = -1
        for k in range(n):
            if last >= 0 and (rank[k] < rank[last] or (rank[k] == rank[last] and k <= last)):
                continue  # evicted already
            if best < 0 or rank[k] < rank[best]:
                best = k
        last = best
        chosen[n_chosen] = best
        n_chosen += 1
        for d in range(len(host_used)):
            host_used[d] -= used[best, d]
    return n_chosen


@inner
def requested_share(available: np.ndarray, capacity: np.ndarray, weights: np.ndarray) -> float:
    """The weighted share of the host that is not available."""
    share = 0.0
    for d in range(len(capacity)):
        if capacity[d] > 0:
            share += weights[d] * (capacity[d] - available[d]) / capacity[d]
    return share


@inner
def fits(available: np.ndarray, need: np.ndarray) -> bool:
    for d in range(len(need)):
        if need[d] > available[d]:
            return False
    return True


@kept_kernel
def least_requested(available: np.ndarray, capacity: np.ndarray, is_open: np.ndarray, need: np.ndarray,
                    weights: np.ndarray) -> int:
    """The open host with the least requested share among those that fit, the first of equal ones; -1 = none."""
    best, least = -1, 0.0
    for host in range(len(capacity)):
        if not is_open[host] or not fits(available[host], need):
            continue
        share = requested_share(available[host], capacity[host], weights)
        if best < 0 or share < least:
            best, least = host, share
    return best


@inner
def predicted(world: MixedWorld, rules: MixedRules, service: int, until: int, d: int) -> int:
    """The predicted maximum need of a service from now until `until`. For this interval and the
    next it is the prediction; for later ones, not predicted yet, the prediction for the same time
    of the day before."""
    interval = world.counts[0].interval
    if world.ahead[service, interval, d] < 0:
        return world.services[service].reserved[d]
    most = world.need[service, interval, d]
    last = min(until // rules.interval, interval + rules.day)
    for k in range(interval + 2, last + 1):
        if k - rules.day >= 0:
            most = max(most, world.ahead[service, k - rules.day, d])
    return min(most, world.services[service].reserved[d])


@inner
def is_long_room(world: MixedWorld, rules: MixedRules, host: int, request: int, now: int) -> bool:
    """Whether a rescheduled request has room for the longest time of requests like it. Needs of
    later intervals only add to those of this one and the next, which had room."""
    until = now + world.batch[request - len(world.services)].longest
    for d in range(2):
        room = world.hosts[host].limit[d] - world.hosts[host].batch_demand[d]
        service = world.hosts[host].first_service
        while service >= 0:
            room -= predicted(world, rules, service, until, d)
            if world.demand[request, d] > room:
                return False
            service = world.requests[service].after
        world.room[d] = room
    return True


@inner
def is_room(world: MixedWorld, rules: MixedRules, host: int, request: int, now: int) -> bool:
    """Whether the host passes the filter for the request; `MixedWorld.room` becomes its available
    room."""
    n = len(world.services)
    is_service = request < n
    limit = world.hosts[host].capacity if is_service else world.hosts[host].limit
    is_again = not is_service and not rules.by_use and world.batch[request - n].n_evicted > 0
    for d in range(2):
        if is_service and not rules.by_need:
            room = limit[d] - world.hosts[host].reserved[d] - world.hosts[host].batch_demand[d]
        elif rules.by_use and not is_service:
            room = limit[d] - world.hosts[host].used[d]
        else:
            room = limit[d] - world.hosts[host].need[d] - world.hosts[host].batch_demand[d]
        if world.demand[request, d] > room:
            return False
        world.room[d] = room
    if rules.is_long and is_again:
        if (now + world.batch[request - n].longest) // rules.interval >= world.counts[0].interval + 2:
            return is_long_room(world, rules, host, request, now)  # last: it reads every service of the host
    if is_service or not rules.by_use:
        return True
    overall = 0.0
    for d in range(2):
        if world.hosts[host].capacity[d] > 0:
            used = world.hosts[host].used[d] + world.demand[request, d]
            overall += world.weights[d] * used / world.hosts[host].capacity[d]
    return overall <= rules.threshold


@inner
def host_for(world: MixedWorld, rules: MixedRules, request: int, now: int) -> int:
    best, least = -1, 0.0
    for host in range(world.counts[0].n_slots):
        if world.hosts[host].state != READY or world.hosts[host].serial == world.requests[request].not_on:
            continue
        if not is_room(world, rules, host, request, now):
            continue
        if rules.is_first_fit:
            return host
        share = requested_share(world.room, world.hosts[host].capacity, world.weights)
        if best < 0 or share < least:
            best, least = host, share
    return best
