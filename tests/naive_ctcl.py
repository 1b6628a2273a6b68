"""Slow twins of the kernels of an elastic pool: plain Python over lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Amounts = Sequence[int]


def weighted(used: Sequence[float], capacity: Amounts, weights: Sequence[float]) -> float:
    total = 0.0
    for weight, amount, whole in zip(weights, used, capacity, strict=True):
        if whole > 0:
            total += weight * amount / whole
    return total


def is_overloaded(used: Amounts, capacity: Amounts, weights: Sequence[float], threshold: float) -> bool:
    return any(u > c for u, c in zip(used, capacity, strict=True)) or weighted(used, capacity, weights) > threshold


def evicted(used: Sequence[Amounts], rank: Sequence[float], host_used: Amounts, capacity: Amounts,
            weights: Sequence[float], threshold: float) -> list[int]:
    left = list(host_used)
    chosen = []
    for k in sorted(range(len(used)), key=lambda k: (rank[k], k)):
        if not is_overloaded(left, capacity, weights, threshold):
            break
        chosen.append(k)
        left = [a - b for a, b in zip(left, used[k], strict=True)]
    return chosen


def scale_out(demand: Sequence[Amounts], capacities: Sequence[Amounts], prices: Sequence[float],
              weights: Sequence[float], most: int) -> tuple[list[int], list[int]]:
    """The type of each machine, and the machine of each request."""
    machine: list[int] = [-1] * len(demand)
    types: list[int] = []
    waiting = sorted(range(len(demand)), key=lambda k: -weighted(demand[k], capacities[0], weights))
    while waiting and len(types) < most:
        plans = []
        for kind, capacity in enumerate(capacities):
            left, taken = list(capacity), []
            for k in waiting:
                if all(a <= b for a, b in zip(demand[k], left, strict=True)):
                    taken.append(k)
                    left = [b - a for a, b in zip(demand[k], left, strict=True)]
            used = [c - b for c, b in zip(capacity, left, strict=True)]
            if taken:
                plans.append((-weighted(used, capacity, weights), prices[kind], kind, taken))
        if not plans:
            break
        _, _, kind, taken = min(plans)
        for k in taken:
            machine[k] = len(types)
            waiting.remove(k)
        types.append(kind)
    return types, machine


def least_requested(available: Sequence[Amounts], capacity: Sequence[Amounts], is_open: Sequence[bool], need: Amounts,
                    weights: Sequence[float]) -> int:
    ranked = [(weighted([c - a for a, c in zip(available[host], capacity[host], strict=True)], capacity[host], weights),
               host) for host in range(len(capacity))
              if is_open[host] and all(n <= a for n, a in zip(need, available[host], strict=True))]
    return min(ranked)[1] if ranked else -1


WAITING, PENDING, RUNNING, ENDED, TOO_LARGE = range(5)


class Machine:
    """One machine that was ordered, by its slot."""

    def __init__(self, slot: int, serial: int, kind: int, capacity: Amounts, limit: Amounts, ready_ms: int) -> None:
        self.slot, self.serial, self.kind, self.ready_ms = slot, serial, kind, ready_ms
        self.capacity, self.limit = list(capacity), list(limit)
        self.is_ready, self.idle_since_ms = False, 0
        self.services: list[int] = []
        self.batch: list[int] = []


class NaiveMixed:
    """Services and batch requests, one scheduling cycle after the other; every sum is made anew where it is needed."""

    def __init__(self, workload: Any, scheduler: Any, need: Any, ahead: Any, capacities: list[list[int]],
                 limits: list[list[int]], lags: list[int], drawn: list[int], n_slots: int) -> None:
        self.w, self.s = workload, scheduler
        self.need, self.ahead = need.tolist(), ahead.tolist()
        self.capacities, self.limits, self.lags, self.drawn = capacities, limits, lags, drawn
        self.n_slots = n_slots
        self.n_services, self.n_batch = len(workload.services), len(workload.batch)
        self.demand = workload.services.reserved.tolist() + workload.batch.requested.tolist()
        self.status = [WAITING] * (self.n_services + self.n_batch)
        self.machine: dict[int, Machine] = {}
        self.bound: dict[int, Machine] = {}
        self.not_on: dict[int, int] = {}
        self.machines: list[Machine] = []
        self.service_queue: list[int] = []
        self.queue: list[int] = []
        self.started, self.ended = [-1] * self.n_batch, [-1] * self.n_batch
        self.n_evicted, self.cost = [0] * self.n_batch, [0] * self.n_batch
        self.evicted_at, self.seen = [0] * self.n_batch, [[0, 0] for _ in range(self.n_batch)]
        self.n_serials = self.interval = 0
        self.most_ready = 0
        self.weights = (0.38, 0.62)
        self.is_fixed = scheduler.autoscaler is None
        if self.is_fixed:
            for slot in range(n_slots):
                machine = Machine(slot, slot, 0, capacities[0], limits[0], 0)
                machine.is_ready = True
                self.machines.append(machine)

    # -- what is used and what is available

    def use_of(self, request: int, now: int) -> list[int]:
        if request < self.n_services:
            return self.w.services.used[request, self.interval].tolist()
        b = request - self.n_services
        is_peak = self.at_peak[b]
        return (self.w.batch.peak if is_peak else self.w.batch.used)[b].tolist()

    def used(self, machine: Machine, now: int) -> list[int]:
        uses = [self.use_of(request, now) for request in machine.services + machine.batch]
        return [sum(use[d] for use in uses) for d in range(2)]

    def room(self, machine: Machine, request: int, now: int) -> list[int] | None:
        """What is available to the request by its filter; None where it does not pass."""
        is_service = request < self.n_services
        limit = machine.capacity if is_service else machine.limit
        taken = [sum(self.demand[b][d] for b in machine.batch) for d in range(2)]
        used = self.used(machine, now)
        room = []
        for d in range(2):
            if is_service and self.s.needs != "vertical":
                of_services = sum(int(self.w.services.reserved[k, d]) for k in machine.services)
                room.append(limit[d] - of_services - taken[d])
            elif self.s.is_by_use and not is_service:
                room.append(limit[d] - used[d])
            elif self.s.is_long and not is_service and self.n_evicted[request - self.n_services]:
                until = now + int(self.w.batch.longest_ms[request - self.n_services])
                room.append(limit[d] - taken[d] - sum(self.predicted(k, until, d) for k in machine.services))
            else:
                room.append(limit[d] - taken[d] - sum(self.need[k][self.interval][d] for k in machine.services))
        if any(a > b for a, b in zip(self.demand[request], room, strict=True)):
            return None
        if self.s.is_by_use and not is_service:
            after = [a + b for a, b in zip(used, self.demand[request], strict=True)]
            if weighted(after, machine.capacity, self.weights) > self.s.evictor.threshold:
                return None
        return room

    def predicted(self, service: int, until: int, d: int) -> int:
        reserved = int(self.w.services.reserved[service, d])
        if self.ahead[service][self.interval][d] < 0:
            return reserved
        interval_ms = self.w.interval_s * 1000
        day = max(86_400_000 // interval_ms, 1)
        known = [self.need[service][self.interval][d]]
        for k in range(self.interval + 2, min(until // interval_ms, self.interval + day) + 1):
            if k >= day:
                known.append(self.ahead[service][k - day][d])
        return min(max(known), reserved)

    def host_for(self, request: int, now: int) -> Machine | None:
        found = []
        for machine in sorted(self.machines, key=lambda machine: machine.slot):
            if not machine.is_ready or machine.serial == self.not_on.get(request, -1):
                continue
            room = self.room(machine, request, now)
            if room is not None:
                taken = [c - r for c, r in zip(machine.capacity, room, strict=True)]
                share = 0.0 if self.s.is_first_fit else weighted(taken, machine.capacity, self.weights)
                found.append((share, machine.slot, machine))
        return min(found)[2] if found else None

    # -- what happens

    def place(self, machine: Machine, request: int) -> None:
        self.clock += self.s.timing.decision_ms
        self.n_placed += 1
        self.bound.pop(request, None)
        self.not_on.pop(request, None)
        self.status[request] = RUNNING
        self.machine[request] = machine
        if request < self.n_services:
            machine.services.append(request)
            return
        b = request - self.n_services
        machine.batch.append(request)
        self.started[b] = self.clock + self.s.timing.start_ms
        if self.n_evicted[b]:
            self.cost[b] += self.started[b] - self.evicted_at[b]
        self.at_peak[b] = False
        self.see(b)

    def see(self, b: int) -> None:
        use = (self.w.batch.peak if self.at_peak[b] else self.w.batch.used)[b].tolist()
        self.seen[b] = [max(x, y) for x, y in zip(self.seen[b], use, strict=True)]

    def take_off(self, request: int, now: int) -> None:
        machine = self.machine.pop(request)
        (machine.services if request < self.n_services else machine.batch).remove(request)
        if not machine.services and not machine.batch:
            machine.idle_since_ms = now

    def pass_events(self, now: int) -> None:
        """Peaks and ends of runs up to `now`, in the order of their times and numbers."""
        while True:
            due = []
            for request in self.machine:
                b = request - self.n_services
                if b < 0:
                    continue
                end = self.started[b] + int(self.w.batch.duration_ms[b])
                peak = min(self.started[b] + int(self.w.batch.peak_ms[b]), end)
                due.append((end if self.at_peak[b] or peak >= end else peak, b))
            due = [each for each in due if each[0] <= now]
            if not due:
                return
            time, b = min(due)
            end = self.started[b] + int(self.w.batch.duration_ms[b])
            if time < end and not self.at_peak[b]:
                self.at_peak[b] = True
                self.see(b)
            else:
                self.take_off(b + self.n_services, time)
                self.status[b + self.n_services], self.ended[b] = ENDED, time

    def enqueue(self, request: int) -> None:
        is_service = request < self.n_services
        limits = self.capacities if is_service else self.limits
        seen = [0, 0] if is_service else self.seen[request - self.n_services]
        if not any(all(a <= b for a, b in zip(self.demand[request], limit, strict=True))
                   and not is_overloaded(seen, capacity, self.weights, self.s.evictor.threshold)
                   for limit, capacity in zip(limits, self.capacities, strict=True)):
            self.status[request] = TOO_LARGE
            return
        self.status[request] = PENDING
        (self.service_queue if is_service else self.queue).append(request)

    def relieve(self, machine: Machine, now: int) -> None:
        members = machine.batch[::-1]  # the latest first
        ranks = []
        for request in members:
            b = request - self.n_services
            rank = float(now - self.started[b])
            if self.s.evictor.order == "largest-excess":
                over = [max(u - a, 0) for u, a in zip(self.use_of(request, now), self.demand[request], strict=True)]
                rank = -weighted(over, machine.capacity, self.weights)
            elif self.s.evictor.order == "random":
                rank = float(self.drawn[b])
            ranks.append(rank)
        uses = [self.use_of(request, now) for request in members]
        for k in evicted(uses, ranks, self.used(machine, now), machine.capacity, self.weights,
                         self.s.evictor.threshold):
            request, b = members[k], members[k] - self.n_services
            self.take_off(request, now)
            self.clock += self.s.timing.eviction_ms
            self.n_evicted[b] += 1
            self.evicted_at[b] = now
            self.cost[b] += max(now - self.started[b], 0)
            self.not_on[request] = machine.serial
            if self.s.is_raised:
                self.demand[request] = list(self.seen[b])
            self.enqueue(request)

    def scan(self, queue: list[int], now: int) -> tuple[list[int], int]:
        """The queue afterwards, and how many of its first were refused."""
        left: list[int] = []
        for k, request in enumerate(queue):
            if request < self.n_services and self.w.services.last[request] <= self.interval:
                self.bound.pop(request, None)
                self.status[request] = ENDED
                continue
            if self.n_placed > 0 and self.clock + self.s.timing.decision_ms > now + self.s.timing.cycle_ms:
                return left + queue[k:], len(left)
            own = -1
            if self.s.is_by_trace and (request < self.n_services or not self.n_evicted[request - self.n_services]):
                own = int([*self.w.services.machine, *self.w.batch.machine][request])
            machine = self.machines[own] if own >= 0 else self.host_for(request, now)
            if machine is not None:
                self.place(machine, request)
                continue
            if self.is_fixed:
                self.not_on.pop(request, None)
            left.append(request)
        return left, len(left)

    def grow(self, requests: list[int], is_service: bool, most: int, now: int) -> int:
        left = []
        for request in requests:
            if request in self.bound:
                continue
            for machine in sorted(self.machines, key=lambda machine: machine.slot):
                limit = machine.capacity if is_service else machine.limit
                others = [self.demand[other] for other, at in self.bound.items() if at is machine]
                if not machine.is_ready and all(sum(o[d] for o in others) + self.demand[request][d] <= limit[d]
                                                for d in range(2)):
                    self.bound[request] = machine
                    break
            else:
                left.append(request)
        if not left or most == 0:
            return 0
        scaler = self.s.autoscaler
        prices = [each.price_per_h for each in scaler.types]
        types, machine_of = scale_out([self.demand[request] for request in left],
                                      self.capacities if is_service else self.limits, prices, self.weights, most)
        ordered: list[Machine | None] = []
        for kind in types:
            free = [slot for slot in range(self.n_slots) if slot not in {machine.slot for machine in self.machines}]
            if not free:
                ordered.append(None)
                continue
            ordered.append(Machine(free[0], self.n_serials, kind, self.capacities[kind], self.limits[kind],
                                   now + self.lags[self.n_serials]))
            self.n_serials += 1
            self.machines.append(ordered[-1])  # type: ignore[arg-type]
        for request, k in zip(left, machine_of, strict=True):
            if k >= 0 and ordered[k] is not None:
                self.bound[request] = ordered[k]  # type: ignore[assignment]
        return sum(machine is not None for machine in ordered)

    def take_bound(self, machine: Machine, queue: list[int], now: int) -> list[int]:
        left = []
        for request in queue:
            if self.bound.get(request) is machine:
                if self.room(machine, request, now) is not None:
                    self.place(machine, request)
                    continue
                del self.bound[request]
            left.append(request)
        return left

    def cycle(self, now: int) -> None:
        self.pass_events(now)
        self.clock, self.n_placed = now, 0
        interval_ms = self.w.interval_s * 1000
        if now % interval_ms == 0:
            self.interval = now // interval_ms
            services = self.w.services
            for k in range(self.n_services):
                if self.status[k] == RUNNING and services.last[k] <= self.interval:
                    self.take_off(k, now)
                    self.status[k] = ENDED
            for k in sorted(range(self.n_services), key=lambda k: (int(services.first[k]), k)):
                if self.status[k] == WAITING and services.first[k] <= self.interval:
                    if self.s.needs == "vertical":
                        self.demand[k] = list(self.need[k][self.interval])
                    if services.last[k] > self.interval:
                        self.enqueue(k)
                    else:
                        self.status[k] = ENDED
        for machine in sorted(self.machines, key=lambda machine: machine.slot):
            if is_overloaded(self.used(machine, now), machine.capacity, self.weights, self.s.evictor.threshold):
                self.relieve(machine, now)
        for machine in sorted(self.machines, key=lambda machine: machine.slot):
            if not machine.is_ready and machine.ready_ms <= now:
                machine.is_ready, machine.idle_since_ms = True, now
                self.service_queue = self.take_bound(machine, self.service_queue, now)
                self.queue = self.take_bound(machine, self.queue, now)
        for b in range(self.n_batch):
            if self.status[b + self.n_services] == WAITING and self.w.batch.arrival_ms[b] <= now:
                self.enqueue(b + self.n_services)
        self.service_queue, n_services = self.scan(self.service_queue, now)
        self.queue, n_batch = self.scan(self.queue, now)
        if not self.is_fixed:
            most = self.s.autoscaler.most_at_once
            most -= self.grow(self.service_queue[:n_services], True, most, now)
            self.grow(self.queue[:n_batch], False, most, now)
            self.machines = [machine for machine in self.machines if not machine.is_ready or machine.services
                             or machine.batch
                             or machine.idle_since_ms + self.s.autoscaler.idle_release_s * 1000 > now]
        self.most_ready = max(self.most_ready, sum(machine.is_ready for machine in self.machines))

    def run(self) -> None:
        self.at_peak = [False] * self.n_batch
        for now in range(0, self.w.horizon_s * 1000, self.s.timing.cycle_ms):
            self.cycle(now)
            self.check()

    def check(self) -> None:
        """What must hold after every cycle."""
        placed = [request for machine in self.machines for request in machine.services + machine.batch]
        assert sorted(placed) == sorted(self.machine)
        assert len(set(self.queue)) == len(self.queue) and not set(self.queue) & set(placed)
