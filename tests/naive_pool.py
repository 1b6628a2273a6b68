"""Slow twin of an elastic pool: one event at a time, and everything asked anew at every decision."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import naive_dapp
import naive_joint_exact
import naive_lava
from naive import total_at
from naive_replay import Replay
from naive_scores import Host
from sojourn.simulator.pool import Consolidation

LEFT, DUE, DEADLINE, ARRIVED = range(4)


@dataclass
class Node:
    """What an elastic host has besides a host of a fixed pool."""

    kind: int
    opened: int
    ready: int
    state: str = "on"
    due: float = math.inf
    is_low: bool = False
    moving: list[int] = field(default_factory=list)


@dataclass
class NaivePool(Replay):
    """A whole replay; `capacity` holds the types' shapes."""

    prices: list[float] = field(default_factory=list)
    n_places: int = 1
    boot: int = 0
    idle: int = 0
    choice: str = "cheapest"
    consolidation: Consolidation = field(default_factory=Consolidation)

    def run(self, policy: str) -> list[int]:
        """The first place of each request, -1 = none; the rest is left in fields."""
        n = len(self.start)
        self.policy, self.now = policy, 0
        self.nodes: dict[int, Node] = {}
        self.hosts: list[Host] = []
        self.arrival = [max(start, 0) for start in self.start]
        self.begins, self.ends = list(self.start), list(self.departure)
        self.first, self.wait = [-1] * n, [-1] * n
        self.log: list[tuple[int, str, int, int]] = []
        self.host_s = [0] * len(self.capacity)
        self.moves, self.lost = [0] * n, [0] * n
        self.n_arrived, self.source = 0, -1
        self.n_checks = 0
        self.totals = (-math.inf, 0.0, 0.0)
        if policy.startswith("dapp"):
            naive_dapp.begin(self)
        while (event := min(self.events(), default=(self.horizon + 1, ARRIVED, -1)))[0] <= self.horizon:
            self.now = event[0]
            self.apply(event[1], event[2])
        for node in self.nodes.values():
            self.host_s[node.kind] += self.horizon - node.opened
        return self.first

    def events(self) -> list[tuple[int, int, int]]:
        """Everything that is to come, as far as it is known: (time, kind, which)."""
        found = [(self.ends[i], LEFT, i) for host in self.hosts for i in host.running]
        found += [(int(node.due), DUE, place) for place, node in self.nodes.items() if node.due < math.inf]
        found += [(int(host.deadline), DEADLINE, host.index) for host in self.hosts if host.deadline < math.inf]
        found += [(naive_dapp.next_time(self), DEADLINE, -1)] if self.policy.startswith("dapp") else []
        found += [(self.arrival[i], ARRIVED, i) for i in range(self.n_arrived, len(self.start))][:1]
        return found

    def apply(self, kind: int, which: int) -> None:
        """One event."""
        if kind == ARRIVED:
            self.n_arrived += 1
            self.arrive(which)
        elif kind == LEFT:
            host = self.host_of(which)
            assert host is not None
            self.take_off(which, host)
            self.settle_emptiness(host)
            self.watch(host)
            for other in self.hosts:
                if which in other.leaving:
                    other.leaving.remove(which)
                    self.settle_emptiness(other)
        elif kind == DUE:
            self.nodes[which].due = math.inf
            self.at_host(self.at(which))
        elif which < 0:
            naive_dapp.pass_time(self)
        elif self.policy == "joint-exact":
            naive_joint_exact.pass_deadline(self, self.at(which))
        else:
            naive_lava.pass_deadline(self, self.at(which))

    def at(self, place: int) -> Host:
        """The host at a place."""
        return next(host for host in self.hosts if host.index == place)

    def may(self, i: int, host: Host) -> bool:
        """Open; and in use, while a host is to be emptied."""
        is_open = self.nodes[host.index].state == "on" and host.index != self.source
        return is_open and (self.source < 0 or not host.is_empty)

    def exit_of(self, i: int) -> int:
        """As in a fixed pool; a request that is yet to begin is asked as it will begin."""
        if self.policy in ("la", "la-binary", "nilas-one-shot", "classify-departure", "hybrid"):
            return self.begins[i] + max(self.breakpoints[i][0][1], 0)
        return self.current(i)

    def current(self, i: int) -> int:
        """The exit by the curve at the uptime."""
        return self.begins[i] + total_at(self.breakpoints[i], max(self.now - self.begins[i], 0))

    def say(self, what: str, place: int) -> None:
        """A line of the log."""
        self.log.append((self.now, what, place, self.nodes[place].kind))

    def arrive(self, i: int) -> None:
        """On a host that is on, one that boots, or a new one."""
        host = self.chosen(i)
        wait = 0
        if host is None:
            booting = [host for host in self.hosts if self.nodes[host.index].state == "booting" and self.fits(i, host)]
            host = min(booting, key=lambda host: host.index, default=None) or self.opened(i)
            if host is None:
                return
            wait = max(self.nodes[host.index].ready - self.now, 0)
            self.begins[i] += wait
            self.ends[i] += wait
        self.put_on(i, host)
        self.first[i], self.wait[i] = host.index, wait
        self.watch(host)

    def opened(self, i: int) -> Host | None:
        """A new host."""
        free = [place for place in range(self.n_places) if place not in self.nodes]
        if not free:
            return None

        def cost(kind: int) -> float:
            price = self.prices[kind]
            return price * self.share(i, self.capacity[kind]) if self.choice == "efficient" else price

        fitting = [kind for kind, shape in enumerate(self.capacity)
                   if all(need <= room for need, room in zip(self.need[i], shape, strict=True))]
        kind = min(fitting, key=lambda kind: (cost(kind), kind))
        boot = 0 if self.begins[i] < self.now else self.boot
        self.nodes[free[0]] = Node(kind, self.now, self.now + boot)
        host = Host(free[0], self.capacity[kind])
        self.hosts = sorted([*self.hosts, host], key=lambda host: host.index)
        self.say("opened", free[0])
        if boot:
            self.nodes[free[0]].state, self.nodes[free[0]].due = "booting", self.now + boot
        return host

    def share(self, i: int, shape: list[int]) -> float:
        """The largest share of a shape that a request takes."""
        return max((need / room for need, room in zip(self.need[i], shape, strict=True) if need), default=0.0)

    def close(self, host: Host) -> None:
        """Off."""
        self.say("released", host.index)
        node = self.nodes.pop(host.index)
        self.host_s[node.kind] += self.now - node.opened
        self.hosts.remove(host)

    def used(self, host: Host) -> float:
        """The largest share in use."""
        return max(((room - free) / room for room, free in zip(host.capacity, self.free(host), strict=True) if room),
                   default=0.0)

    def watch(self, host: Host) -> None:
        """When it is next looked at."""
        node, rules = self.nodes[host.index], self.consolidation
        if node.state != "on" or rules.mode == "none":
            return
        if host.is_empty:
            node.is_low, node.due = False, self.now + self.idle
        elif rules.mode != "empty" and self.used(host) < rules.utilisation_max:
            if not node.is_low or rules.is_reset_by_events:
                node.is_low, node.due = True, self.now + rules.after_s
        else:
            node.is_low, node.due = False, math.inf

    def at_host(self, host: Host) -> None:
        """What is due there."""
        node = self.nodes[host.index]
        if node.state == "booting":
            node.state = "on"
            self.say("booted", host.index)
            self.watch(host)
        elif node.state == "draining":
            for i in list(host.leaving):
                host.leaving.remove(i)
            self.settle_emptiness(host)
            self.close(host)
        elif host.is_empty:
            self.close(host)
        else:
            self.check(host)

    def check(self, host: Host) -> None:
        """Empty it, or look again later."""
        self.n_checks += 1
        targets = self.targets(host)
        if targets is None:
            self.nodes[host.index].due = self.now + self.consolidation.recheck_s
        else:
            self.drain(host, targets)

    def targets(self, host: Host) -> list[tuple[int, Host]] | None:
        """Where each request would go; None where one fits nowhere, or it does not pay."""
        rules, node = self.consolidation, self.nodes[host.index]
        budget, price = 1.0, self.prices[node.kind]
        if rules.mode == "regret":
            left = max(self.current(i) for i in host.running) - self.now
            if rules.moving == "restart":
                budget = rules.trust * (left + self.idle - self.boot) * price
            else:
                stay = min(rules.trust * left + self.idle, self.now - self.grew())
                budget = (stay - rules.move_s - self.boot) * price
            if budget <= 0:
                return None
        if rules.mode == "balanced" and not self.is_balanced(host):
            return None
        if not host.running or any(i in other.leaving for i in host.running for other in self.hosts):
            return None
        before = list(self.begins)
        found: list[tuple[int, Host]] = []
        self.source = host.index
        for i in sorted(host.running, key=lambda i: (-self.need[i][0], i)):
            uptime = self.now - self.begins[i]
            if rules.moving == "restart":
                self.begins[i] = self.now
            target = self.chosen(i)
            if target is None:
                budget = 0.0
                break
            if rules.mode == "regret":
                budget -= self.move_cost(i, host, target, uptime)
            if budget <= 0:
                break
            target.running.append(i)
            found.append((i, target))
        for i, target in found:
            target.running.pop(len(target.running) - 1 - target.running[::-1].index(i))
        self.begins, self.source = before, -1
        return found if budget > 0 else None

    def is_balanced(self, host: Host) -> bool:
        """Karpenter's score against 1 / k; the totals are those of the first check within `recheck_s`."""
        rules = self.consolidation
        if self.now - self.totals[0] >= rules.recheck_s:
            on = [other for other in self.hosts if self.nodes[other.index].state == "on"]
            self.totals = (self.now, sum(self.price(other) for other in on), sum(self.cost(other) for other in on))
        _, price, cost = self.totals
        return self.price(host) * cost * rules.k >= self.cost(host) * price

    def price(self, host: Host) -> float:
        """Of an hour."""
        return self.prices[self.nodes[host.index].kind]

    def cost(self, host: Host) -> float:
        """1, and the evictions."""
        return 1.0 + sum(self.eviction(i) for i in host.running)

    def eviction(self, i: int) -> float:
        """1, or the power of 2 within a factor of the root of 2 of the uptime over the unit or the remaining time."""
        rules, uptime = self.consolidation, self.now - self.begins[i]
        if rules.cost == "uniform":
            return 1.0
        over = rules.cost_unit_s
        if rules.cost == "predicted":
            over = min(over, self.current(i) - self.now)
        return 2.0 ** min(max(round(math.log2(max(uptime, 1e-9) / over)), -4), 3)

    def grew(self) -> int:
        """When the pool last grew to as many hosts as it has, by the log."""
        n, latest = 0, 0
        for time, what, _, _ in self.log:
            n += {"opened": 1, "released": -1}.get(what, 0)
            if what == "opened" and n == len(self.nodes):
                latest = time
        return latest

    def move_cost(self, i: int, host: Host, target: Host, uptime: int) -> float:
        """As the regret counts it."""
        rules = self.consolidation
        price, target_price = self.prices[self.nodes[host.index].kind], self.prices[self.nodes[target.index].kind]
        cost = rules.move_cost_s * price
        last, exit_s = max(self.current(r) for r in target.running), self.current(i)
        longer = max(exit_s - last, 0) * target_price
        if rules.moving == "live":
            return cost + rules.trust * longer
        cost += self.share(i, host.capacity) * uptime * price
        cost += rules.room_weight * self.share(i, target.capacity) * (exit_s - self.now) * target_price
        return cost + longer

    def drain(self, host: Host, targets: list[tuple[int, Host]]) -> None:
        """Carry out the moves."""
        node = self.nodes[host.index]
        node.state, node.is_low = "draining", False
        self.say("drained", host.index)
        for i, target in targets:
            self.moves[i] += 1
            self.take_off(i, host)
            if self.consolidation.moving == "restart":
                self.settle_emptiness(host)
                self.lost[i] += self.need[i][self.cpu] * (self.now - self.begins[i])
                self.begins[i], self.ends[i] = self.now, self.now + self.ends[i] - self.begins[i]
            else:
                host.leaving.append(i)
            self.put_on(i, target)
            self.watch(target)
        if self.consolidation.moving == "restart":
            self.close(host)
        else:
            node.due = self.now + self.consolidation.move_s
