"""The event loop of services and batch requests on an elastic pool, compiled. Slow twin: tests/naive_ctcl.py."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.cluster import NEVER
from sojourn.simulator.elastic.ctcl_host_kernels import change_use, pass_time, unbind, unlink
from sojourn.simulator.elastic.ctcl_machine_kernels import grow, open_ready, release_idle
from sojourn.simulator.elastic.ctcl_request_kernels import batch_event, enqueue, place, relieve
from sojourn.simulator.elastic.ctcl_room_kernels import host_for
from sojourn.simulator.elastic.ctcl_state import ENDED, RUNNING, Rules, World
from sojourn.simulator.jit import inner, kept_kernel


@inner
def tick(world: World, rules: Rules, now: int) -> None:
    """A new interval begins: services leave, use and need of the others change."""
    interval = now // rules.interval
    world.counts[0].interval = interval
    world.counts[0].is_freed = 1
    for service in range(len(world.services)):
        if world.requests[service].status != RUNNING:
            continue
        host = world.requests[service].host
        if world.services[service].last <= interval:
            world.hosts[host].n_services -= 1
            for d in range(2):
                world.hosts[host].reserved[d] -= world.services[service].reserved[d]
                world.hosts[host].need[d] -= world.services[service].counted[d]
            change_use(world, rules, host, -world.services[service].using[0], -world.services[service].using[1])
            unlink(world, rules, service, now)
            world.requests[service].status = ENDED
            continue
        for d in range(2):
            world.hosts[host].need[d] += world.need[service, interval, d] - world.services[service].counted[d]
            world.services[service].counted[d] = world.need[service, interval, d]
        change_use(world, rules, host, world.service_use[service, interval, 0] - world.services[service].using[0],
                   world.service_use[service, interval, 1] - world.services[service].using[1])
        for d in range(2):
            world.services[service].using[d] = world.service_use[service, interval, d]


@inner
def scan(world: World, rules: Rules, queue: np.ndarray, n: int, begin: int, now: int) -> int:
    """Length of the queue after placing what fits from `begin` on; `n_scanned`: how many of its first were refused."""
    counts = world.counts
    kept = begin
    fail_cpu, fail_mem = NEVER, NEVER
    n_services = len(world.services)
    for k in range(begin, n):
        request = queue[k]
        if request < n_services and world.services[request].last <= counts[0].interval:
            unbind(world, request)
            world.requests[request].status = ENDED  # it has left before it got a place
            continue
        if counts[0].n_placed > 0 and counts[0].clock + rules.decision > now + rules.cycle:
            counts[0].is_cut = 1
            counts[0].n_scanned = kept
            for j in range(k, n):
                queue[kept] = queue[j]
                kept += 1
            return kept
        is_first = request < n_services or world.batch[request - n_services].n_evicted == 0
        is_plain = is_first and world.requests[request].not_on < 0
        if is_plain and world.demand[request, 0] >= fail_cpu and world.demand[request, 1] >= fail_mem:
            queue[kept] = request
            kept += 1
            continue
        own = world.requests[request].own_machine if rules.is_by_trace else -1
        host = own if own >= 0 and is_first else host_for(world, rules, request, now)
        if host >= 0:
            place(world, rules, host, request)
            continue
        if rules.most_at_once == 0 and world.requests[request].not_on >= 0:
            # a pool that cannot grow: in later cycles the request may return to where it was
            world.requests[request].not_on = -1
            counts[0].is_freed = 1
        if is_plain and world.demand[request, 0] <= fail_cpu and world.demand[request, 1] <= fail_mem:
            fail_cpu, fail_mem = world.demand[request, 0], world.demand[request, 1]
        queue[kept] = request
        kept += 1
    counts[0].n_scanned = kept
    return kept


@inner
def next_time(world: World, rules: Rules, now: int, is_growing: bool) -> int:
    counts = world.counts
    time = (counts[0].interval + 1) * rules.interval
    if counts[0].heap_size > 0:
        time = min(time, world.batch[world.batch[0].heap].event)
    if counts[0].next_batch < len(world.batch):
        time = min(time, world.batch[counts[0].next_batch].arrival)
    time = min(time, counts[0].next_ready, counts[0].next_release)
    if counts[0].is_cut or is_growing or counts[0].is_freed or not counts[0].is_checked:
        time = min(time, now + rules.cycle)
    return max((time + rules.cycle - 1) // rules.cycle * rules.cycle, now + rules.cycle)


@inner
def pass_events(world: World, rules: Rules, time: int) -> None:
    """Peaks and ends of batch requests up to and including `time`."""
    while world.counts[0].heap_size > 0 and world.batch[world.batch[0].heap].event <= time:
        batch = world.batch[0].heap
        pass_time(world, world.batch[batch].event)
        batch_event(world, rules, batch)
    pass_time(world, time)


@kept_kernel
def replay(world: World, rules: Rules) -> None:
    """Everything until the horizon."""
    counts = world.counts
    n_services, n_batch = len(world.services), len(world.batch)
    counts[0].interval, counts[0].is_checked = -1, 1
    time = 0
    while time < rules.horizon:
        pass_events(world, rules, time)
        counts[0].clock, counts[0].n_placed = time, 0
        if time // rules.interval > counts[0].interval:
            tick(world, rules, time)
            while counts[0].next_service < n_services and (
                    world.services[world.service_order[counts[0].next_service]].first <= counts[0].interval):
                service = world.service_order[counts[0].next_service]
                counts[0].next_service += 1
                for d in range(2):
                    if rules.by_need:
                        world.demand[service, d] = world.need[service, counts[0].interval, d]
                if world.services[service].last > counts[0].interval:
                    enqueue(world, rules, service)
                else:
                    world.requests[service].status = ENDED
        if not counts[0].is_checked:
            counts[0].is_checked = 1
            for host in range(world.counts[0].n_slots):
                if world.hosts[host].is_over and world.hosts[host].n_batch > 0:
                    relieve(world, rules, host, time)
        open_ready(world, rules, time)
        while counts[0].next_batch < n_batch and world.batch[counts[0].next_batch].arrival <= time:
            enqueue(world, rules, n_services + counts[0].next_batch)
            counts[0].next_batch += 1
        counts[0].is_cut = 0
        counts[0].n_services_pending = scan(world, rules, world.service_queue, counts[0].n_services_pending, 0, time)
        n_services_scanned = counts[0].n_scanned
        begin = 0 if counts[0].is_freed else counts[0].n_refused  # nothing is freed: what did not fit does not fit now
        counts[0].is_freed = 0
        counts[0].n_pending = scan(world, rules, world.queue, counts[0].n_pending, begin, time)
        counts[0].n_refused = counts[0].n_scanned
        is_growing = False
        if rules.most_at_once > 0:
            n_new = grow(world, rules, world.service_queue, n_services_scanned, True, rules.most_at_once, time)
            n_new += grow(world, rules, world.queue, counts[0].n_scanned, False, rules.most_at_once - n_new, time)
            is_growing = n_new > 0
        release_idle(world, rules, time)
        time = next_time(world, rules, time, is_growing)
    pass_events(world, rules, rules.horizon)
