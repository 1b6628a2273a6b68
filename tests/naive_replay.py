"""Slow twin of the whole replay: one event at a time, and everything asked anew at every decision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import naive_dapp
import naive_gpu
import naive_joint_exact
import naive_lava
import naive_min_usage
from naive import total_at
from naive_scores import Host, score
from sojourn.simulator import Defragmentation, Drain, Failure, Maintenance, Migration

DEPARTURE, MIGRATED, HOST_EVENT, DEADLINE, ARRIVAL = range(5)
RECTIFY = "rectify"


@dataclass
class Replay:
    """A whole replay.

    start, departure: per request; need: per request, per resource, binding resource first; breakpoints: per
    request, (uptime, total) pairs. kind, host_kind: -1 = any, a tuple = any of these. group: -1 = none.
    rectify_at: when moves are planned: moves_now gives (request, target) pairs. gpu: which resource is
    counted GPU by GPU, or None.
    """

    start: list[int]
    departure: list[int]
    need: list[list[int]]
    capacity: list[list[int]]
    breakpoints: list[list[tuple[int, int]]]
    horizon: int
    overhang: list[list[int]] | None = None
    kind: list[Any] | None = None
    host_kind: list[int] | None = None
    group: list[int] | None = None
    pinned: list[bool] | None = None
    upkeep: tuple[Any, ...] = ()
    migration: Migration = field(default_factory=Migration)
    is_queueing: bool = False
    warmup: int = 0
    cpu: int = 0
    gpu: Any = None
    rectify_at: tuple[int, ...] = ()
    moves_now: Callable[[Replay], list[tuple[int, int]]] | None = None

    # DAPP's, made when its replay begins
    known: dict[int, int] = field(default_factory=dict)
    detector: Any = None
    is_weighted: bool = False
    untagged: set[int] = field(default_factory=set)
    midnight: int = 0
    # hosts by their placements, for Move To Front
    fronts: list[int] = field(default_factory=list)
    # latest interval of each class, for the Hybrid Algorithm
    latest: dict[int, int] = field(default_factory=dict)

    def run(self, policy: str) -> list[int]:
        """The first host of each request, -1 = none; counts and integrals from the warm-up's end on are left in
        fields."""
        n = len(self.start)
        self.policy = policy
        self.hosts = [Host(index, capacity) for index, capacity in enumerate(self.capacity)]
        self.arrival = [max(start, 0) for start in self.start]
        self.begins, self.ends = list(self.start), list(self.departure)
        self.first, self.wait = [-1] * n, [0] * n
        self.migrated_at: dict[int, int] = {}
        self.queue: list[int] = []
        self.fronts, self.latest = [], {}
        self.placed_in_order: list[int] = []
        self.plan: list[tuple[int, int, int, str, int]] = []
        self.migration_log: list[tuple[int, int, int, int, str, int]] = []
        self.held: dict[int, list[list[int]]] = {host.index: [] for host in self.hosts}
        self.host_events = self.known_host_events()
        self.n_arrived = self.n_events = 0
        self.restarted: dict[int, int] = {}
        self.is_disturbed = False
        self.begin_counts()
        self.now = 0
        self.begun_on: dict[int, int] = {}
        self.rectified_at: list[int] = []  # when a rectifier's moves began
        if policy.startswith("dapp"):
            naive_dapp.begin(self)
        has_news = False
        while True:
            time, kind, which = min(self.events(), default=(self.horizon + 1, ARRIVAL, -1))
            if has_news and (time > self.now or kind == ARRIVAL):
                has_news = False
                self.use_room()
                continue
            if time > self.horizon:
                break
            self.pass_time(time)
            has_news = True
            self.apply(kind, which)
        self.pass_time(self.horizon)
        self.n_lost += sum(self.first[i] >= 0 and self.ends[i] <= self.horizon for i in self.queue)
        return self.first

    def begin_counts(self) -> None:
        """Nothing has been counted."""
        self.n_planned = self.n_begun = self.n_re_placed = self.n_lost = 0
        self.moves, self.voided = [0] * len(self.start), [0] * len(self.start)
        self.empty_seconds = 0

    def known_host_events(self) -> list[tuple[int, Any, bool]]:
        """(time, what, whether it begins) in order of time."""
        found: list[tuple[int, Any, bool]] = []
        for entry in self.upkeep:
            if isinstance(entry, Failure):
                found += [(entry.at_s, entry, True), (entry.at_s + entry.repair_s, entry, False)]
            elif isinstance(entry, Drain):
                found += [(entry.from_s, entry, True), (entry.until_s, entry, False)]
            elif isinstance(entry, Maintenance):
                found += [(time, entry, True) for time in range(entry.from_s, self.horizon + 1, entry.every_s)]
        found += [(time, RECTIFY, True) for time in self.rectify_at]
        return sorted(found, key=lambda row: row[0])

    def events(self) -> list[tuple[int, int, int]]:
        """Everything that is to come, as far as it is known: (time, kind, which)."""
        found = [(self.ends[i], DEPARTURE, i) for host in self.hosts for i in host.running]
        found += [(time, MIGRATED, i) for i, time in self.migrated_at.items()]
        found += [(row[0], HOST_EVENT, -len(self.host_events)) for row in self.host_events[:1]]
        found += [(int(host.deadline), DEADLINE, host.index) for host in self.hosts if host.deadline < math.inf]
        found += [(naive_dapp.next_time(self), DEADLINE, -1)] if self.policy.startswith("dapp") else []
        found += [(self.arrival[i], ARRIVAL, i) for i in range(self.n_arrived, len(self.start))][:1]
        return found

    def apply(self, kind: int, which: int) -> None:
        """One event."""
        if kind == ARRIVAL:
            self.n_arrived += 1
            self.n_events += 1
            if not self.place(which) and self.is_queueing:
                self.queue.append(which)
        elif kind == DEPARTURE:
            self.n_events += 1
            self.stop_migrating(which)
            host = self.host_of(which)
            assert host is not None
            self.take_off(which, host)
            self.settle_emptiness(host)
        elif kind == MIGRATED:
            self.stop_migrating(which)
            host = self.host_of(which)
            assert host is not None
            if not host.is_open:
                self.add_to_plan([which])
        elif kind == DEADLINE and which < 0:
            naive_dapp.pass_time(self)
        elif kind == DEADLINE and self.policy == "joint-exact":
            naive_joint_exact.pass_deadline(self, self.hosts[which])
        elif kind == DEADLINE:
            naive_lava.pass_deadline(self, self.hosts[which])
        else:
            entry, is_beginning = self.host_events.pop(0)[1:]
            if entry == RECTIFY:
                self.rectify()
            elif isinstance(entry, Failure):
                self.fail(self.hosts[entry.host]) if is_beginning else self.mend(self.hosts[entry.host])
            elif isinstance(entry, Drain):
                host = self.hosts[entry.host]
                was_open = host.is_open
                host.n_drains += 1 if is_beginning else -1
                if was_open and is_beginning:
                    self.add_to_plan(self.ordered([i for i in host.running if self.can_migrate(i)]))
                host.emptied_for = ""
                self.strike(host)
            else:
                share = Fraction(entry.share).limit_denominator(1_000_000)
                self.wave(math.ceil(share * len(self.hosts)))

    def use_room(self) -> None:
        """Waiting requests first, then a batch if hosts are wanted, then migrations."""
        for i in list(self.queue):
            if self.first[i] < 0:
                late = self.now - self.arrival[i]
                self.begins[i], self.ends[i] = self.start[i] + late, self.departure[i] + late
            elif self.ends[i] <= self.now:
                self.n_lost += 1
                self.queue.remove(i)
                continue
            has_run = self.first[i] >= 0
            if self.place(i):
                if has_run:
                    self.restarted[i] = self.now
                    self.note(i, -1, self.where(i), "failure", self.now)
                self.n_re_placed += has_run
                self.queue.remove(i)
        self.defragment()
        self.migrate()

    def place(self, i: int) -> bool:
        """Whether the request found a host; then it is on it."""
        host = self.chosen(i)
        if host is None:
            return False
        self.put_on(i, host)
        if self.first[i] < 0:
            self.first[i], self.wait[i] = host.index, self.now - self.arrival[i]
            self.placed_in_order.append(i)
            self.is_disturbed |= self.wait[i] > 0
        return True

    def chosen(self, i: int) -> Host | None:
        """The host that the policy wants."""
        if self.policy == "nilas-60s":
            for host in self.hosts:
                if host.running and self.now >= host.cached_until:
                    host.cached = self.exit_of_host(host)
                    host.cached_until = min(self.now + 60, host.cached)
        fitting = [host for host in self.hosts if self.fits(i, host) and self.may(i, host)]
        return min(fitting, key=lambda host: (*score(self, i, host), host.index), default=None)

    def put_on(self, i: int, host: Host) -> None:
        """Begin on a host."""
        host.running.append(i)
        host.cached_until = -math.inf
        if self.gpu is not None:
            naive_gpu.came(self, i, host)
        if self.policy.startswith("lava"):
            naive_lava.came(self, i, host)
        elif self.policy.startswith("dapp"):
            naive_dapp.came(self, i, host)
        elif self.policy == "joint-exact":
            naive_joint_exact.came(self, i, host)
        elif self.policy in naive_min_usage.POLICIES:
            naive_min_usage.came(self, i, host)

    def take_off(self, i: int, host: Host) -> None:
        """End on a host."""
        host.running.remove(i)
        host.cached_until = -math.inf
        if self.policy.startswith("lava"):
            naive_lava.left(self, i, host)
        elif self.policy.startswith("dapp"):
            naive_dapp.left(self, host)
        elif self.policy == "joint-exact":
            naive_joint_exact.left(self, host)

    def settle_emptiness(self, host: Host) -> None:
        """What becomes of a host that may have become empty."""
        if not host.is_empty:
            return
        if host.emptied_for == "wave":
            host.is_updated = True
        host.emptied_for = ""
        naive_lava.emptied(host)
        naive_min_usage.emptied(host)
        naive_joint_exact.emptied(host)

    def host_of(self, i: int) -> Host | None:
        """Where a request runs."""
        return next((host for host in self.hosts if i in host.running), None)

    def free(self, host: Host) -> list[int]:
        """What is left of each resource."""
        return [room - sum(self.need[r][d] for r in host.running + host.leaving)
                for d, room in enumerate(host.capacity)]

    def fits(self, i: int, host: Host) -> bool:
        """Whether request i has room on the host."""
        has_room = all(need <= free for need, free in zip(self.need[i], self.free(host), strict=True))
        if self.gpu is None or not has_room:
            return has_room
        return naive_gpu.fits(naive_gpu.free_gpus(self, host), self.need[i][self.gpu])

    def may(self, i: int, host: Host) -> bool:
        """Whether the host is open, of the right kind, and without another of the request's group."""
        if not host.is_open:
            return False
        if self.kind is not None and self.host_kind is not None:
            several = self.kind[i] if isinstance(self.kind[i], tuple) else (self.kind[i],)
            if -1 not in several and self.host_kind[host.index] not in several:
                return False
        group = self.group
        return group is None or group[i] == -1 or all(group[r] != group[i] or r == i for r in host.running)

    def where(self, i: int) -> int:
        """Index of the host where a request runs, or -1."""
        host = self.host_of(i)
        return -1 if host is None else host.index

    def note(self, i: int, source: int, target: int, planner: str, planned_s: int) -> None:
        """A request begins to migrate, or goes on after its host has failed."""
        self.migration_log.append((i, source, target, self.now, planner, planned_s))

    def pass_time(self, until: int) -> None:
        """Count the empty hosts that can be used, and note when the others were held."""
        for host in self.hosts:
            own = self.held[host.index]
            if until > self.now and (not host.is_empty or host.is_out):
                if own and own[-1][1] == self.now:
                    own[-1][1] = until
                else:
                    own.append([self.now, until])
        if self.now < self.warmup <= until:
            self.begin_counts()
            self.now = self.warmup
        self.empty_seconds += (until - self.now) * self.n_empty()
        self.now = until

    def n_empty(self) -> int:
        """Hosts that are empty and neither failed nor drained."""
        return sum(host.is_empty and not host.is_out for host in self.hosts)

    def fail(self, host: Host) -> None:
        """All leave; who migrates away goes on at its target, who migrates here stays where it was."""
        host.n_failures += 1
        if host.n_failures > 1:
            return
        host.emptied_for = ""
        for i in sorted(host.leaving):
            self.stop_migrating(i)
            self.note(i, host.index, self.where(i), "failure", self.now)
            self.break_off(i)
            self.n_re_placed += 1
        for i in sorted(host.running):
            self.take_off(i, host)
            self.settle_emptiness(host)
            if i in self.migrated_at:
                del self.migrated_at[i]
                source = next(other for other in self.hosts if i in other.leaving)
                source.leaving.remove(i)
                self.put_on(i, source)
                self.note(i, host.index, source.index, "failure", self.now)
                if not source.is_open:
                    self.add_to_plan([i])
                continue
            self.break_off(i)
            is_placed = self.place(i)
            self.note(i, host.index, self.where(i), "failure", self.now)
            if is_placed:
                self.n_re_placed += 1
            elif self.is_queueing:
                self.queue.append(i)
            else:
                self.n_lost += 1

    def break_off(self, i: int) -> None:
        """What the request has run for since it last started is void."""
        self.voided[i] += self.now - max(self.begins[i], self.restarted.get(i, self.begins[i]))
        self.restarted[i] = self.now
        self.is_disturbed = True

    def mend(self, host: Host) -> None:
        """A failed host is back."""
        host.n_failures -= 1
        self.strike(host)

    def strike(self, host: Host) -> None:
        """Nothing is to leave a host that is open again."""
        if host.is_open:
            self.plan = [entry for entry in self.plan if entry[1] != host.index]

    def wave(self, n_hosts: int) -> None:
        """Close hosts that are not updated, those with least in use first; empty ones are done."""
        parts = []
        for _ in range(n_hosts):
            waiting = [h for h in self.hosts
                       if h.is_open and not h.is_updated and all(map(self.can_migrate, h.running))]
            if not waiting:
                break
            host = min(waiting, key=self.work)
            host.is_updated = host.is_empty
            if not host.is_empty:
                host.emptied_for = "wave"
                parts.append(list(host.running))
        self.add_parts(parts)

    def defragment(self) -> None:
        """Close a batch of hosts in use if too few are empty and no batch is under way."""
        for entry in self.upkeep:
            if not isinstance(entry, Defragmentation) or any(host.emptied_for == "batch" for host in self.hosts):
                continue
            if self.n_empty() >= math.ceil(entry.min_empty_pct / 100 * len(self.hosts)):
                continue
            parts = []
            n_left = self.left_to_plan()
            for _ in range(entry.n_hosts):
                usable = [h for h in self.hosts if h.is_open and h.running and all(map(self.can_migrate, h.running))]
                if not usable:
                    break
                host = min(usable, key=self.work)
                if len(host.running) > n_left:
                    break
                n_left -= len(host.running)
                host.emptied_for = "batch"
                parts.append(list(host.running))
            self.add_parts(parts)

    def work(self, host: Host) -> tuple[Any, ...]:
        """In use, binding resource first; then requests; then index."""
        used = [room - free for room, free in zip(host.capacity, self.free(host), strict=True)]
        return (*used, len(host.running) + len(host.leaving), host.index)

    def can_migrate(self, i: int) -> bool:
        """Neither pinned nor on its way."""
        return not (self.pinned is not None and self.pinned[i]) and i not in self.migrated_at

    def add_parts(self, parts: list[list[int]]) -> None:
        """Plan the requests of hosts closed together: in one order, or host by host."""
        if self.migration.is_across:
            parts = [[i for part in parts for i in part]]
        for part in parts:
            self.add_to_plan(self.ordered(part))

    def add_to_plan(self, requests: list[int]) -> None:
        """Plan to move each from where it is."""
        for i in requests:
            host = self.host_of(i)
            assert host is not None
            emptied_for = {"batch": "defragmentation", "wave": "maintenance"}
            planner = "drain" if host.n_drains else emptied_for[host.emptied_for]
            self.plan.append((i, host.index, -1, planner, self.now))
            self.n_planned += 1

    def rectify(self) -> None:
        """Plan the moves of now; those that are left of the last ones are struck off."""
        assert self.moves_now is not None
        self.plan = [entry for entry in self.plan if entry[2] < 0 and entry[0] in self.hosts[entry[1]].running]
        for i, target in self.moves_now(self):
            host = self.host_of(i)
            assert host is not None
            self.plan.append((i, host.index, target, "pdre", self.now))
            self.n_planned += 1

    def left_of_day(self) -> float:
        """Migrations that may still begin on this day."""
        cap = self.migration.n_a_day
        return math.inf if cap is None else cap - self.begun_on.get(self.now // 86_400, 0)

    def left_to_plan(self) -> float:
        """Besides those that are planned."""
        return self.left_of_day() - sum(entry[0] in self.hosts[entry[1]].running for entry in self.plan)

    def ordered(self, requests: list[int]) -> list[int]:
        """In the migration's order."""
        sign = {"longest-first": -1, "shortest-first": 1, "trace": 0, "random": 0}[self.migration.order]
        hashed = self.migration.order == "random"
        return sorted(requests, key=lambda i: (sign * self.exit_of(i), self.hash_of(i) if hashed else 0, i))

    def hash_of(self, i: int) -> int:
        """What orders migrations at random."""
        word = ((i + self.migration.seed) * 0x9E3779B97F4A7C15) % 2**64
        word = ((word ^ word >> 31) * 0xBF58476D1CE4E5B9) % 2**64
        return (word ^ word >> 29) >> 2

    def migrate(self) -> None:
        """Go through the plan as long as one more may migrate; what finds no host stays planned."""
        later: list[tuple[int, int, int, str, int]] = []
        given_way: set[int] = set()
        for k, (i, source_index, planned, planner, planned_s) in enumerate(self.plan):
            if planned >= 0 and source_index in given_way:
                continue
            if len(self.migrated_at) >= self.migration.n_at_once:
                later += [entry for entry in self.plan[k:] if entry[2] < 0 or entry[1] not in given_way]
                break
            source = self.hosts[source_index]
            if i not in source.running:
                continue
            is_by_choice = source.is_open or (source.emptied_for == "batch" and not source.is_out)
            if is_by_choice and self.left_of_day() <= 0:
                later.append(self.plan[k])
                continue
            if planned >= 0:
                target = self.hosts[planned]
                if target.is_empty or not self.fits(i, target) or not self.may(i, target):
                    given_way.add(source_index)
                    continue
            else:
                found = self.chosen(i)
                if found is None:
                    later.append(self.plan[k])
                    continue
                target = found
            self.take_off(i, source)
            source.leaving.append(i)
            self.put_on(i, target)
            self.migrated_at[i] = self.now + self.migration.duration_s
            self.note(i, source_index, target.index, planner, planned_s)
            self.n_begun += 1
            self.begun_on[self.now // 86_400] = self.begun_on.get(self.now // 86_400, 0) + 1
            if planner == "pdre":
                self.rectified_at.append(self.now)
            self.is_disturbed = True
            self.moves[i] += 1
        self.plan = later

    def stop_migrating(self, i: int) -> None:
        """Free the source of a request that migrates, if it does."""
        self.migrated_at.pop(i, None)
        for host in self.hosts:
            if i in host.leaving:
                host.leaving.remove(i)
                self.settle_emptiness(host)

    def exit_of(self, i: int) -> int:
        """When the request is predicted to leave: by its first prediction, or by the one at its uptime."""
        if self.policy in ("la", "la-binary", "nilas-one-shot", "classify-departure", "hybrid"):
            return self.begins[i] + self.breakpoints[i][0][1]
        return self.begins[i] + total_at(self.breakpoints[i], self.now - self.begins[i])

    def exit_of_host(self, host: Host) -> int:
        """When the last of its requests is; now at the earliest."""
        return max([self.now, *map(self.exit_of, host.running)])
