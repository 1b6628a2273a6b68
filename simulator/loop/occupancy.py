"""Room given and taken back, with the totals and the ranking that hang on it; and states of all hosts, sampled."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.jit import inlined, inner
from sojourn.simulator.loop.ranking import key_of, move
from sojourn.simulator.loop.state import ALLOCATED, DRAINED, EMPTY_HOSTS, N_TOGETHER, Timeline, World


@inlined
def occupy(world: World, request: int, host: int, sign: int) -> None:
    """Take a request's need off a host's free room (sign 1) or give it back (-1)."""
    cluster, level = world.cluster, world.level
    is_ranked = len(world.order.key) > 0
    old_key = key_of(cluster, world.order, host) if is_ranked else 0
    n_resources = world.need.shape[1]
    was_empty = cluster.n_running[host] == 0
    cluster.n_running[host] += sign
    is_empty = cluster.n_running[host] == 0
    for d in range(n_resources):
        amount = sign * world.need[request, d]
        cluster.free[host, d] -= amount
        level[ALLOCATED + d] += amount
    if was_empty != is_empty:
        if cluster.closed[host] < DRAINED:  # a host that nothing may use is not counted as empty
            level[EMPTY_HOSTS] -= sign
        for d in range(n_resources):
            level[ALLOCATED + n_resources + d] += sign * cluster.capacity[host, d]
    if is_ranked:
        move(world.order, old_key, key_of(cluster, world.order, host))


@inner
def pass_time(world: World, timeline: Timeline, now: int) -> None:
    """Let the levels last until `now`, reading the marks before it."""
    level, total, counts = world.level, world.total, world.counts[0]
    time, mark = counts.time_s, counts.mark
    while mark < len(timeline.mark_s) and timeline.mark_s[mark] < now:
        for q in range(len(level)):
            total[q] += level[q] * (timeline.mark_s[mark] - time)
            timeline.integral[mark, q] = total[q]
        time = timeline.mark_s[mark]
        timeline.counts[mark] = counts
        if timeline.sample[mark] >= 0:
            _take_sample(world, timeline, timeline.sample[mark], timeline.mark_s[mark])
        mark += 1
    for q in range(len(level)):
        total[q] += level[q] * (now - time)
    counts.time_s, counts.mark = now, mark


@inner
def _take_sample(world: World, timeline: Timeline, k: int, now: int) -> None:
    cluster, settings = world.cluster, world.settings[0]
    for host in range(len(cluster.n_running)):
        timeline.n_running[k, host] = cluster.n_running[host]
        for d in range(cluster.free.shape[1]):
            timeline.free[k, host, d] = cluster.free[host, d]
        row = world.hosts[host].first
        while row >= 0:
            own = world.requests[row]
            timeline.last_end_s[k, host] = max(timeline.last_end_s[k, host], own.ends_s)
            if own.ends_s - now > settings.long_s:
                timeline.n_long[k, host] += 1
                timeline.long_cpu[k, host] += world.need[row, settings.cpu]
            if own.owner >= 0:
                timeline.of_owner[own.owner] += 1
            row = own.next
        if len(timeline.of_owner) > 0:
            _count_exposed(world, timeline, k, host)


@inner
def _count_exposed(world: World, timeline: Timeline, k: int, host: int) -> None:
    row = world.hosts[host].first
    while row >= 0:
        owner = world.requests[row].owner
        if owner >= 0:
            timeline.n_owned[k, host] += 1
            timeline.n_exposed[k, host] += timeline.of_owner[owner] > N_TOGETHER
        row = world.requests[row].next
    row = world.hosts[host].first
    while row >= 0:
        if world.requests[row].owner >= 0:
            timeline.of_owner[world.requests[row].owner] = 0
        row = world.requests[row].next


@inner
def sample_state(world: World, timeline: Timeline, state: np.ndarray, now: int) -> None:
    """Read a policy's own state of each host at the samples before `now`, which are not yet taken."""
    mark = world.counts[0].mark
    while mark < len(timeline.mark_s) and timeline.mark_s[mark] < now:
        if timeline.sample[mark] >= 0:
            for host in range(len(state)):
                timeline.state[timeline.sample[mark], host] = state[host]
        mark += 1
