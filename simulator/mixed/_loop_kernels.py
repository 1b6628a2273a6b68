"""The event loop of services and batch requests on an elastic pool, compiled. Slow twin:
tests/naive_ctcl.py."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.cluster import NEVER
from sojourn.simulator.jit import inner, kept_kernel
from sojourn.simulator.loop import next_slot, schedule
from sojourn.simulator.mixed._rule_kernels import evict, host_for, is_overloaded, is_room, scale_out
from sojourn.simulator.mixed.state import (
    BOOTING,
    CAPACITY,
    CHOSEN,
    ENDED,
    LARGEST_EXCESS,
    MACHINE,
    MEMBERS,
    MOST_IN_USE,
    MOST_READY,
    N_ABOVE,
    N_IN_USE,
    N_OVERLOADED,
    N_PENDING,
    N_READY,
    NONE,
    ORDER,
    PENDING,
    RANDOM,
    RANKS,
    READY,
    ROWS,
    RUNNING,
    SIZES,
    SLOT_OF,
    TOO_LARGE,
    TYPE_OF,
    USED,
    MixedRules,
    MixedWorld,
)


@inner
def tick(world: MixedWorld, rules: MixedRules, now: int) -> None:
    """A new interval begins: some services leave, and the use and need of the others change."""
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
def scan(world: MixedWorld, rules: MixedRules, queue: np.ndarray, n: int, begin: int, now: int) -> int:
    """Place what fits from `begin` on; the queue's new length. `n_scanned`: how many of its first
    were refused."""
    counts = world.counts
    n_left = begin
    fail_cpu, fail_mem = NEVER, NEVER
    n_services = len(world.services)
    for k in range(begin, n):
        request = queue[k]
        if request < n_services and world.services[request].last <= counts[0].interval:
            unbind(world, request)
            world.requests[request].status = ENDED  # it left before it was placed
            continue
        if counts[0].n_placed > 0 and counts[0].clock + rules.decision > now + rules.cycle:
            counts[0].is_cut = 1
            counts[0].n_scanned = n_left
            for j in range(k, n):
                queue[n_left] = queue[j]
                n_left += 1
            return n_left
        is_first = request < n_services or world.batch[request - n_services].n_evicted == 0
        is_plain = is_first and world.requests[request].not_on < 0
        if is_plain and world.demand[request, 0] >= fail_cpu and world.demand[request, 1] >= fail_mem:
            queue[n_left] = request
            n_left += 1
            continue
        recorded = world.requests[request].own_machine if rules.is_by_trace else -1
        host = recorded if recorded >= 0 and is_first else host_for(world, rules, request, now)
        if host >= 0:
            place(world, rules, host, request)
            continue
        if rules.most_at_once == 0 and world.requests[request].not_on >= 0:
            # a pool that cannot grow: in later cycles the request may return to its host
            world.requests[request].not_on = -1
            counts[0].is_freed = 1
        if is_plain and world.demand[request, 0] <= fail_cpu and world.demand[request, 1] <= fail_mem:
            fail_cpu, fail_mem = world.demand[request, 0], world.demand[request, 1]
        queue[n_left] = request
        n_left += 1
    counts[0].n_scanned = n_left
    return n_left


@inner
def next_time(world: MixedWorld, rules: MixedRules, now: int, is_growing: bool) -> int:
    counts = world.counts
    time = (counts[0].interval + 1) * rules.interval
    batch = next_slot(world)
    if batch >= 0:
        time = min(time, world.slots[batch].time)
    if counts[0].next_batch < len(world.batch):
        time = min(time, world.batch[counts[0].next_batch].arrival)
    time = min(time, counts[0].next_ready, counts[0].next_release)
    if counts[0].is_cut or is_growing or counts[0].is_freed or not counts[0].is_checked:
        time = min(time, now + rules.cycle)
    return max((time + rules.cycle - 1) // rules.cycle * rules.cycle, now + rules.cycle)


@inner
def pass_events(world: MixedWorld, rules: MixedRules, time: int) -> None:
    """Peaks and ends of batch requests up to and including `time`."""
    batch = next_slot(world)
    while batch >= 0 and world.slots[batch].time <= time:
        pass_time(world, world.slots[batch].time)
        batch_event(world, rules, batch)
        batch = next_slot(world)
    pass_time(world, time)


@kept_kernel
def run_mixed(world: MixedWorld, rules: MixedRules) -> None:
    """Run all events up to the horizon."""
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
        begin = 0 if counts[0].is_freed else counts[0].n_refused  # no new room: the refused do not fit now either
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


@inner
def place(world: MixedWorld, rules: MixedRules, host: int, request: int) -> None:
    counts = world.counts
    n = len(world.services)
    counts[0].clock += rules.decision
    counts[0].n_placed += 1
    unbind(world, request)
    world.requests[request].status = RUNNING
    world.requests[request].not_on = -1
    if request < n:
        link(world, host, request)
        world.hosts[host].n_services += 1
        interval = counts[0].interval
        for d in range(2):
            world.services[request].counted[d] = world.need[request, interval, d]
            world.services[request].using[d] = world.service_use[request, interval, d]
            world.hosts[host].reserved[d] += world.services[request].reserved[d]
            world.hosts[host].need[d] += world.services[request].counted[d]
        change_use(world, rules, host, world.services[request].using[0], world.services[request].using[1])
        return
    batch = request - n
    link(world, host, request)
    world.hosts[host].n_batch += 1
    begin = counts[0].clock + rules.start
    world.batch[batch].started = begin
    world.batch[batch].level = 0
    if world.batch[batch].n_evicted > 0:
        world.batch[batch].cost += begin - world.batch[batch].evicted_at
    for d in range(2):
        world.hosts[host].batch_demand[d] += world.demand[request, d]
        world.batch[batch].seen[d] = max(world.batch[batch].seen[d], world.batch[batch].used[d])
    change_use(world, rules, host, world.batch[batch].used[0], world.batch[batch].used[1])
    schedule(world, batch, begin + min(world.batch[batch].peak_at, world.batch[batch].duration))


@inner
def leave(world: MixedWorld, rules: MixedRules, batch: int, now: int) -> None:
    """Free the room of a batch request."""
    request = batch + len(world.services)
    host = world.requests[request].host
    world.hosts[host].n_batch -= 1
    for d in range(2):
        world.hosts[host].batch_demand[d] -= world.demand[request, d]
    use = world.batch[batch].peak if world.batch[batch].level else world.batch[batch].used
    change_use(world, rules, host, -use[0], -use[1])
    unlink(world, rules, request, now)


@inner
def batch_event(world: MixedWorld, rules: MixedRules, batch: int) -> None:
    """The use of a batch request rises to its peak, or it ends."""
    now = world.slots[batch].time
    schedule(world, batch, NEVER)
    request = batch + len(world.services)
    end = world.batch[batch].started + world.batch[batch].duration
    if now < end and not world.batch[batch].level:
        world.batch[batch].level = 1
        world.counts[0].is_freed = 1
        for d in range(2):
            world.batch[batch].seen[d] = max(world.batch[batch].seen[d], world.batch[batch].peak[d])
        change_use(world, rules, world.requests[request].host, world.batch[batch].peak[0] - world.batch[batch].used[0],
                   world.batch[batch].peak[1] - world.batch[batch].used[1])
        schedule(world, batch, end)
        return
    leave(world, rules, batch, now)
    world.requests[request].status = ENDED
    world.batch[batch].ended = now


@inner
def fits_a_type(world: MixedWorld, rules: MixedRules, request: int) -> bool:
    """Whether some type has room for a request's demand and, if empty, is not overloaded by the
    highest use of a batch request so far: else it would be evicted from every machine again and
    again."""
    n = len(world.services)
    for kind in range(len(world.capacities)):
        limit = world.capacities[kind] if request < n else world.limits[kind]
        if world.demand[request, 0] > limit[0] or world.demand[request, 1] > limit[1]:
            continue
        if request < n or not is_overloaded(world.batch[request - n].seen, world.capacities[kind], world.weights,
                                            rules.threshold):
            return True
    return False


@inner
def enqueue(world: MixedWorld, rules: MixedRules, request: int) -> None:
    if not fits_a_type(world, rules, request):
        world.requests[request].status = TOO_LARGE
        return
    world.requests[request].status = PENDING
    if request < len(world.services):
        world.service_queue[world.counts[0].n_services_pending] = request
        world.counts[0].n_services_pending += 1
    else:
        world.queue[world.counts[0].n_pending] = request
        world.counts[0].n_pending += 1


@inner
def relieve(world: MixedWorld, rules: MixedRules, host: int, now: int) -> None:
    """Evict batch requests from a host until it is not overloaded."""
    n = len(world.services)
    k = 0
    request = world.hosts[host].first_batch
    while request >= 0:
        batch = request - n
        use = world.batch[batch].peak if world.batch[batch].level else world.batch[batch].used
        rank = float(now - world.batch[batch].started)
        if rules.order == LARGEST_EXCESS:
            rank = 0.0
            for d in range(2):
                if world.hosts[host].capacity[d] > 0:
                    over = max(use[d] - world.demand[request, d], 0)
                    rank -= world.weights[d] * over / world.hosts[host].capacity[d]
        elif rules.order == RANDOM:
            rank = float(world.batch[batch].drawn_rank)
        world.scratch[MEMBERS, k] = request
        world.scores[RANKS, k] = rank
        for d in range(2):
            world.member_use[k, d] = use[d]
        k += 1
        request = world.requests[request].after
    for d in range(2):
        world.two[d] = world.hosts[host].used[d]
    n_chosen = evict(world.member_use, world.scores[RANKS], k, world.two, world.hosts[host].capacity, world.weights,
                     rules.threshold, world.scratch[CHOSEN])
    for j in range(n_chosen):
        request = world.scratch[MEMBERS, world.scratch[CHOSEN, j]]
        batch = request - n
        schedule(world, batch, NEVER)
        leave(world, rules, batch, now)
        world.counts[0].clock += rules.eviction
        world.counts[0].n_evictions += 1
        world.batch[batch].n_evicted += 1
        world.batch[batch].evicted_at = now
        world.batch[batch].cost += max(now - world.batch[batch].started, 0)
        world.requests[request].not_on = world.hosts[host].serial
        if rules.is_raised:
            for d in range(2):
                world.demand[request, d] = world.batch[batch].seen[d]
        enqueue(world, rules, request)


@inner
def order_machine(world: MixedWorld, rules: MixedRules, kind: int, now: int) -> int:
    """The slot of a new machine, or -1 if none is left."""
    for host in range(len(world.hosts)):
        if world.hosts[host].state != NONE:
            continue
        counts = world.counts
        counts[0].n_slots = max(counts[0].n_slots, host + 1)
        world.hosts[host].state, world.hosts[host].kind, world.hosts[host].serial = BOOTING, kind, counts[0].n_serials
        counts[0].n_serials += 1
        world.hosts[host].ready = now + world.lags[counts[0].n_lags % len(world.lags)]
        counts[0].n_lags += 1
        counts[0].next_ready = min(counts[0].next_ready, world.hosts[host].ready)
        for d in range(2):
            world.hosts[host].capacity[d], world.hosts[host].limit[d] = world.capacities[kind, d], world.limits[kind, d]
            world.hosts[host].bound[d] = 0
        return host
    world.counts[0].n_short_of_slots += 1
    return -1


@inner
def open_machine(world: MixedWorld, host: int, now: int) -> None:
    world.hosts[host].state = READY
    world.counts[0].n_ready += 1
    world.n_of_type[world.hosts[host].kind] += 1
    world.counts[0].is_freed = 1
    world.hosts[host].idle_since = now
    for d in range(2):
        world.totals[2 + d] += world.hosts[host].capacity[d]


@inner
def open_ready(world: MixedWorld, rules: MixedRules, now: int) -> None:
    """Machines that have booted take the requests bound to them."""
    counts = world.counts
    if counts[0].next_ready > now:
        return
    counts[0].next_ready = NEVER
    for host in range(world.counts[0].n_slots):
        if world.hosts[host].state != BOOTING:
            continue
        if world.hosts[host].ready > now:
            counts[0].next_ready = min(counts[0].next_ready, world.hosts[host].ready)
            continue
        open_machine(world, host, now)
        counts[0].next_release = min(counts[0].next_release, now + rules.idle_release)
        counts[0].n_services_pending = take_bound(world, rules, host, world.service_queue,
                                                  counts[0].n_services_pending, now)
        counts[0].n_pending = take_bound(world, rules, host, world.queue, counts[0].n_pending, now)


@inner
def take_bound(world: MixedWorld, rules: MixedRules, host: int, queue: np.ndarray, n: int, now: int) -> int:
    """Place the requests that are bound to the host, if they fit; the queue's new length."""
    n_left = 0
    for k in range(n):
        request = queue[k]
        if world.requests[request].bound == host:
            if is_room(world, rules, host, request, now):
                place(world, rules, host, request)
                continue
            unbind(world, request)
        queue[n_left] = request
        n_left += 1
    return n_left


@inner
def release_idle(world: MixedWorld, rules: MixedRules, now: int) -> None:
    counts = world.counts
    if counts[0].next_release > now:
        return
    counts[0].next_release = NEVER
    for host in range(world.counts[0].n_slots):
        if world.hosts[host].state != READY or world.hosts[host].n_services + world.hosts[host].n_batch > 0:
            continue
        at = world.hosts[host].idle_since + rules.idle_release
        if at > now:
            counts[0].next_release = min(counts[0].next_release, at)
            continue
        world.hosts[host].state = NONE
        counts[0].is_freed = 1  # a slot
        counts[0].n_ready -= 1
        world.n_of_type[world.hosts[host].kind] -= 1
        for d in range(2):
            world.totals[2 + d] -= world.hosts[host].capacity[d]


@inner
def bind_to_ordered(world: MixedWorld, request: int, is_service: bool) -> bool:
    """Bind the request to the first booting machine with room; False if there is none."""
    for host in range(world.counts[0].n_slots):
        if world.hosts[host].state != BOOTING:
            continue
        limit = world.hosts[host].capacity if is_service else world.hosts[host].limit
        if (world.hosts[host].bound[0] + world.demand[request, 0] <= limit[0]
                and world.hosts[host].bound[1] + world.demand[request, 1] <= limit[1]):
            bind(world, request, host)
            return True
    return False


@inner
def grow(world: MixedWorld, rules: MixedRules, queue: np.ndarray, n: int, is_service: bool, most: int, now: int) -> int:
    """Order machines for the unbound among the first n of the queue; how many."""
    n_left = 0
    capacities = world.capacities if is_service else world.limits
    for k in range(n):
        request = queue[k]
        if world.requests[request].bound >= 0 or bind_to_ordered(world, request, is_service):
            continue
        world.scratch[ROWS, n_left] = request
        size = 0.0
        for d in range(2):
            if capacities[0, d] > 0:
                size += world.weights[d] * world.demand[request, d] / capacities[0, d]
        world.scores[SIZES, n_left] = size
        n_left += 1
    if n_left == 0 or most == 0:
        return 0
    largest_first(world, n_left)
    n_new = scale_out(world.demand, world.scratch[ORDER], n_left, capacities, world.prices, world.weights,
                      min(most, n_left), world.scratch[MACHINE], world.scratch[TYPE_OF], world.two)
    n_ordered = 0
    for k in range(n_new):
        world.scratch[SLOT_OF, k] = order_machine(world, rules, world.scratch[TYPE_OF, k], now)
        n_ordered += int(world.scratch[SLOT_OF, k] >= 0)
    for k in range(n_left):
        if world.scratch[MACHINE, k] >= 0 and world.scratch[SLOT_OF, world.scratch[MACHINE, k]] >= 0:
            bind(world, world.scratch[ORDER, k], world.scratch[SLOT_OF, world.scratch[MACHINE, k]])
    return n_ordered


@inner
def largest_first(world: MixedWorld, n: int) -> None:
    """Sort `rows[:n]` into `order` by falling `sizes`, stable: a merge sort from the bottom up,
    with `machine` as scratch for positions."""
    for k in range(n):
        world.scratch[ORDER, k] = k
    width = 1
    while width < n:
        low = 0
        while low < n:
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for k in range(low, high):
                is_left = i < middle
                if is_left and j < high:
                    left, right = world.scratch[ORDER, i], world.scratch[ORDER, j]
                    is_left = world.scores[SIZES, left] >= world.scores[SIZES, right]
                if is_left:
                    world.scratch[MACHINE, k] = world.scratch[ORDER, i]
                    i += 1
                else:
                    world.scratch[MACHINE, k] = world.scratch[ORDER, j]
                    j += 1
            low += 2 * width
        for k in range(n):
            world.scratch[ORDER, k] = world.scratch[MACHINE, k]
        width *= 2
    for k in range(n):
        world.scratch[ORDER, k] = world.scratch[ROWS, world.scratch[ORDER, k]]


@inner
def pass_time(world: MixedWorld, to: int) -> None:
    counts = world.counts[0]
    elapsed = to - counts.now
    if elapsed <= 0:
        return
    row = world.series[counts.interval]
    for d in range(2):
        row[USED + d] += world.totals[d] * elapsed
        row[CAPACITY + d] += world.totals[2 + d] * elapsed
    for kind in range(len(world.n_of_type)):
        world.type_ms[kind] += world.n_of_type[kind] * elapsed
    row[N_READY] += counts.n_ready * elapsed
    row[N_IN_USE] += counts.n_in_use * elapsed
    row[N_OVERLOADED] += counts.n_overloaded * elapsed
    row[N_ABOVE] += counts.n_above * elapsed
    row[N_PENDING] += (counts.n_pending + counts.n_services_pending) * elapsed
    row[MOST_READY] = max(row[MOST_READY], counts.n_ready)
    row[MOST_IN_USE] = max(row[MOST_IN_USE], counts.n_in_use)
    world.counts[0].now = to


@inner
def change_use(world: MixedWorld, rules: MixedRules, host: int, cpu: int, mem: int) -> None:
    """Change the use of a host; use above its capacity does not count in the totals."""
    used, capacity = world.hosts[host].used, world.hosts[host].capacity
    is_above = False
    for d in range(2):
        world.totals[d] -= min(used[d], capacity[d])
        used[d] += cpu if d == 0 else mem
        world.totals[d] += min(used[d], capacity[d])
        is_above |= used[d] > capacity[d]
    is_over = is_overloaded(used, capacity, world.weights, rules.threshold)
    world.counts[0].n_overloaded += int(is_over) - world.hosts[host].is_over
    world.counts[0].n_above += int(is_above) - world.hosts[host].is_above
    world.hosts[host].is_over, world.hosts[host].is_above = int(is_over), int(is_above)
    if is_over:
        world.counts[0].is_checked = 0


@inner
def set_first(world: MixedWorld, host: int, request: int, is_service: bool) -> None:
    if is_service:
        world.hosts[host].first_service = request
    else:
        world.hosts[host].first_batch = request


@inner
def link(world: MixedWorld, host: int, request: int) -> None:
    is_service = request < len(world.services)
    old = world.hosts[host].first_service if is_service else world.hosts[host].first_batch
    world.requests[request].after, world.requests[request].before = old, -1
    if old >= 0:
        world.requests[old].before = request
    set_first(world, host, request, is_service)
    world.requests[request].host = host
    if world.hosts[host].n_services + world.hosts[host].n_batch == 0:
        world.counts[0].n_in_use += 1


@inner
def unlink(world: MixedWorld, rules: MixedRules, request: int, now: int) -> None:
    host = world.requests[request].host
    after, before = world.requests[request].after, world.requests[request].before
    if before >= 0:
        world.requests[before].after = after
    else:
        set_first(world, host, after, request < len(world.services))
    if after >= 0:
        world.requests[after].before = before
    world.requests[request].host = -1
    world.counts[0].is_freed = 1
    if world.hosts[host].n_services + world.hosts[host].n_batch == 0:
        world.counts[0].n_in_use -= 1
        world.hosts[host].idle_since = now
        if rules.most_at_once > 0:
            world.counts[0].next_release = min(world.counts[0].next_release, now + rules.idle_release)


@inner
def bind(world: MixedWorld, request: int, host: int) -> None:
    world.requests[request].bound = host
    for d in range(2):
        world.hosts[host].bound[d] += world.demand[request, d]


@inner
def unbind(world: MixedWorld, request: int) -> None:
    host = world.requests[request].bound
    if host >= 0:
        for d in range(2):
            world.hosts[host].bound[d] -= world.demand[request, d]
        world.requests[request].bound = -1
