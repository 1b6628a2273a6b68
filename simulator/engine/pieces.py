"""The requests of a replay, a piece at a time: the loop's tables hold those that run, wait, or arrive next.

Otherwise memory would grow with the trace: a record takes 184 bytes, and its curve up to 1.7 kB. Of one that has ended
32 bytes stay if a rectifier looks at it. When the last request
of the tables has come, the loop returns. Requests that have ended leave the tables, and the next ones get their
records and curves. Records keep the order of the trace, so decisions and counts are those of a replay in one piece.

The agenda, the queue and plans of migrations go on with the records' new places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from sojourn.simulator.cluster import NEVER
from sojourn.simulator.jit import kept_kernel
from sojourn.simulator.loop import EXPIRED, HOSTS, MIGRATION_LOG, NOT_PLACED, PLAN, REQUESTS, SLOTS, World
from sojourn.simulator.predictions import Curves
from sojourn.simulator.workloads import Workload, owner_numbers

PIECE = 50_000
"""Requests that arrive in a piece; or a quarter of those that run, if that is more: it costs to carry them over."""
HELD = np.dtype([(name, np.int64) for name in ("first_host", "arrival_s", "wait_s", "ends_s")])
"""When a request held room on which host, but for its migrations; its row is its place."""
_LOGGED = 4
"""Log entries of migrations per request: twice what a step can add, as a half-full log is emptied."""
NOWHERE = -1
_NONE = np.zeros(0, np.int64)
Columns = Mapping[str, np.ndarray | int]
"""What records begin with: values of all requests, or one for all."""
Flat = tuple[np.ndarray, np.ndarray, np.ndarray]
"""uptime_s, total_s and overhang_s (or empty) of curves, one after another."""


@dataclass(slots=True)
class Pieces:
    """What is put in a replay's tables, and what became of the requests that have left them.

    columns: see `columns_of`. need: the workload's. curves: those of the requests from a row up to another. warmup_s:
    of what came before, only hosts and disturbances are noted. is_queueing, is_migrating, is_logging: whether requests
    may depart late, migrate, and have their moves logged. is_asked_once: whether a policy sees a request's curve only
    as it arrives, so that the part before its uptime may go. is_rectified: whether somebody looks at requests that
    have ended. stop_row: before whose arrival the replay ends, or -1. length: of a piece, at least.

    host: int64 (n,), the first host of each request, or NOT_PLACED. reasons: of those rejected, int64 arrays. wait_s:
    of those placed, in all. is_disturbed: whether one waited, or was on a host that failed.
    """

    columns: Columns
    need: np.ndarray
    curves: Callable[[int, int], Curves]
    warmup_s: int
    is_queueing: bool
    is_migrating: bool
    is_logging: bool
    is_asked_once: bool
    is_rectified: bool
    stop_row: int
    length: int
    host: np.ndarray = field(init=False)
    reasons: list[np.ndarray] = field(init=False, default_factory=list)
    wait_s: int = field(init=False, default=0)
    is_disturbed: bool = field(init=False, default=False)
    _end: int = field(init=False, default=0)
    _used: int = field(init=False, default=0)
    _flat: list[np.ndarray] = field(init=False, default_factory=lambda: [_NONE, _NONE, _NONE])
    _held: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.host = np.full(len(self.need), NOT_PLACED)
        self._held = np.zeros(len(self.need) * self.is_rectified, HELD)

    def held(self, world: World) -> np.ndarray:
        """HELD of each row that has been in the tables, as of now; for a replay with a rectifier."""
        self._hold(world.requests)
        return self._held[:self._end]

    def shortened(self, world: World) -> World:
        """The world without the requests that have ended, once all in its tables have come and its log is empty."""
        requests, counts = world.requests, world.counts[0]
        is_kept = requests["host"] != NOT_PLACED
        is_kept[_waiting(world)] = True
        planned = world.plan["row"][counts["plan_from"]:counts["plan_to"]]
        is_kept[planned[planned >= 0]] = True  # it is counted as spared when its turn comes
        self.note(requests[~is_kept])
        idx = np.flatnonzero(is_kept)
        place = np.full(len(requests) + 1, NOWHERE)  # the last is that of -1, none
        place[idx] = np.arange(len(idx))
        kept = requests[idx]
        for name in ("next", "previous", "next_waiting"):
            kept[name] = place[kept[name]]
        world.hosts["first"] = place[world.hosts["first"]]
        for name in ("first_waiting", "last_waiting", "last_row"):
            counts[name] = place[counts[name]]
        if self.is_asked_once:
            kept["curve_start"] = kept["segment"]
        starts, ends, to, self._used = _runs(kept, 0)
        for array in self._flat:
            if len(array):
                _copy(array, starts, ends, to, array)  # a run moves down, to where nothing is needed any more
        return self._moved(world, kept, place, (_NONE, _NONE, _NONE))

    def lengthened(self, world: World) -> World:
        """The world with the next requests in its tables; ValueError if the source fails for them."""
        first, n_kept = self._end, len(world.requests)
        self._end = end = min(first + max(self.length, n_kept // 4), len(self.need))
        curves = self.curves(first, end)
        arriving, flat = records_of(self.columns, curves, first, end), flat_of(curves)
        if first or end < len(self.need):
            flat = self._added(arriving, flat)
        if n_kept:
            arriving = np.concatenate([world.requests, arriving])
        world.settings["has_more"] = end < len(self.need)
        world.settings["stop_row"] = n_kept + self.stop_row - first if first <= self.stop_row < end else -1
        return self._moved(world, arriving, np.append(np.arange(n_kept), NOWHERE), flat)

    def note(self, requests: np.ndarray) -> None:
        """Keep what became of requests that leave the tables."""
        self.host[requests["row"]] = requests["first_host"]
        is_counted, is_rejected = requests["arrival_s"] >= self.warmup_s, requests["first_host"] == NOT_PLACED
        self.reasons.append(requests["reason"][is_counted & is_rejected])
        self.wait_s += int(requests["wait_s"][is_counted & ~is_rejected].sum())
        self.is_disturbed |= bool((requests["since_s"] != EXPIRED).any() or (requests["wait_s"] > 0).any())
        if self.is_rectified:
            self._hold(requests)

    def _hold(self, requests: np.ndarray) -> None:
        for name in HELD.names or ():
            self._held[name][requests["row"]] = requests[name]

    def _added(self, requests: np.ndarray, flat: Flat) -> Flat:
        """The curves of the tables with those of further records, which get their places there."""
        if len(self._flat[0]) and (len(self._flat[2]) > 0) != (len(flat[2]) > 0):
            raise ValueError("source must give overhang_s for every request or for none")
        used = self._used
        starts, ends, to, self._used = _runs(requests, used)
        for k, source in enumerate(flat):
            if len(source):
                if self._used > len(self._flat[k]):  # what is not written takes no memory yet
                    grown = np.empty(2 * self._used, np.int64)
                    grown[:used] = self._flat[k][:used]
                    self._flat[k] = grown
                _copy(source, starts, ends, to, self._flat[k])
        uptime_s, total_s, overhang_s = (array[:self._used] for array in self._flat)
        return uptime_s, total_s, overhang_s

    def _moved(self, world: World, requests: np.ndarray, place: np.ndarray, flat: Flat) -> World:
        """The world with these records and curves. place: int64 (n + 1,), the new place of each old one, or NOWHERE."""
        settings, counts, n = world.settings[0], world.counts[0], len(requests)
        n_late, n_migrating = n * self.is_queueing, n * self.is_migrating
        late_before, both_before = int(settings["first_migration"]), int(settings["first_host_event"])
        shift = n_late + n_migrating - both_before
        slot_of = np.concatenate([place[:late_before], n_late + place[:both_before - late_before],
                                  np.arange(both_before, len(world.slots)) + shift])
        settings["first_migration"], settings["first_host_event"] = n_late, n_late + n_migrating
        settings["first_deadline"] += shift
        idx = np.flatnonzero(place[:-1] != NOWHERE)
        counts["idx_arrival"], counts["idx_departure"] = len(idx), 0
        gpu_held = world.cluster.gpu_held
        if gpu_held.shape[1]:
            gpu_held = np.concatenate([gpu_held[idx], np.zeros((n - len(idx), 4), np.int64)])
        return world._replace(
            cluster=world.cluster._replace(gpu_held=gpu_held), requests=requests, need=self.need[requests["row"]],
            uptime_s=flat[0], total_s=flat[1], overhang_s=flat[2],
            slots=_agenda(world.slots, int(counts["heap_size"]), slot_of, len(world.slots) + shift),
            plan=_plan(world, place, 2 * n_migrating),
            migration_log=np.zeros(_LOGGED * n * self.is_logging, MIGRATION_LOG))


def columns_of(workload: Workload, is_pinned: np.ndarray | None = None) -> dict[str, np.ndarray | int]:
    """What the records of a workload's requests begin with. is_pinned: bool (n,), more that can't migrate."""
    rules = workload.constraints.rules(workload.trace.requests, workload.hosts)
    owner = owner_numbers(workload)
    pinned: np.ndarray | int = 0 if rules.is_pinned is None else rules.is_pinned
    return {
        "arrival_s": workload.placed_s, "departure_s": workload.departure_s,
        "kind": -1 if rules.kind is None else rules.kind, "group": -1 if rules.group is None else rules.group,
        "is_pinned": pinned if is_pinned is None else pinned | is_pinned,
        "owner": owner.astype(np.int32) if (owner >= 0).any() else -1,
        "host": NOT_PLACED, "from_host": NOT_PLACED, "first_host": NOT_PLACED, "start_s": workload.start_s,
        "ends_s": workload.departure_s, "next": -1, "previous": -1, "next_waiting": -1, "wait_s": -1,
        "since_s": EXPIRED,
    }  # fmt: skip


def records_of(columns: Columns, curves: Curves, first: int, end: int) -> np.ndarray:
    """REQUESTS of the rows from `first` up to `end` before the first event. curves: theirs."""
    requests = np.zeros(end - first, REQUESTS)
    for name, values in columns.items():
        requests[name] = values[first:end] if isinstance(values, np.ndarray) else values
    curve = curves.curve_of()
    requests["row"], requests["curve_end"] = np.arange(first, end), curves.offsets[curve + 1]
    requests["curve_start"] = requests["segment"] = curves.offsets[curve]
    return requests


def hosts_of(workload: Workload) -> np.ndarray:
    """HOSTS before the first event."""
    kind = workload.constraints.rules(workload.trace.requests, workload.hosts).host_kind
    hosts = np.zeros(len(workload.capacity), HOSTS)
    hosts["valid_until_s"], hosts["first"] = NEVER, -1
    hosts["kind"] = 0 if kind is None else kind
    return hosts


def flat_of(curves: Curves) -> Flat:
    """The breakpoints of curves for a world."""
    return curves.uptime_s, curves.total_s, _NONE if curves.overhang_s is None else curves.overhang_s


def _waiting(world: World) -> list[int]:
    """Places of the requests that wait."""
    after, found = world.requests["next_waiting"].tolist(), []
    place = int(world.counts["first_waiting"][0])
    while place >= 0:
        found.append(place)
        place = after[place]
    return found


def _agenda(slots: np.ndarray, heap_size: int, slot_of: np.ndarray, n_slots: int) -> np.ndarray:
    """The agenda with new numbers of slots; they keep their order, so the heap keeps its form."""
    heap = slots["heap"][:heap_size]
    moved, found = slot_of[heap], np.zeros(n_slots, SLOTS)
    found["time"], found["position"] = NEVER, -1
    found["heap"][:heap_size], found["position"][moved] = moved, np.arange(heap_size)
    found["time"][moved] = slots["time"][heap]
    return found


def _plan(world: World, place: np.ndarray, n_free: int) -> np.ndarray:
    """The plan's open entries with new places, and room for more; counts are changed to match."""
    counts = world.counts[0]
    entries = world.plan[counts["plan_from"]:counts["plan_to"]]
    plan = np.zeros(len(entries) + n_free, PLAN)
    plan[:len(entries)] = entries
    plan["row"][:len(entries)] = place[entries["row"]]
    counts["plan_from"], counts["plan_to"] = 0, len(entries)
    return plan


def _runs(requests: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Begin, end and new begin of the records' curves, each curve once, rising, from `first` on; and the end of all.
    The records get their new places."""
    ends, curve = np.unique(requests["curve_end"], return_inverse=True)
    starts = np.full(len(ends), NEVER)
    np.minimum.at(starts, curve, requests["curve_start"])
    until = first + np.cumsum(ends - starts)
    to = until - (ends - starts)
    shift = (to - starts)[curve]
    for name in ("curve_start", "curve_end", "segment"):
        requests[name] += shift
    return starts, ends, to, int(until[-1]) if len(until) else first


@kept_kernel
def _copy(source: np.ndarray, starts: np.ndarray, ends: np.ndarray, to: np.ndarray, target: np.ndarray) -> None:
    """Copy runs of numbers, each to its place."""
    for run in range(len(starts)):
        for k in range(ends[run] - starts[run]):
            target[to[run] + k] = source[starts[run] + k]
