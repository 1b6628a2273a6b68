"""Host events and upkeep: failures, drains, maintenance in waves, defragmentation; and the plans of a rectifier.

For a rectifier the loop pauses once a day, or more often. The planner sees what an operator would see: which requests
run where, their uptimes and the predictions. It chooses the targets; when a migration begins, the loop
checks again that its target still takes the request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sojourn.simulator.cluster import DAY_S
from sojourn.simulator.engine.metrics import MigrationRecord
from sojourn.simulator.loop import (
    AT_RANDOM,
    BY_ROW,
    DRAIN,
    FAIL,
    HOST_EVENTS,
    LONGEST_FIRST,
    NOT_PLACED,
    OPEN,
    PLAN,
    REOPEN,
    REPAIR,
    SHORTEST_FIRST,
    WAVE,
    World,
)
from sojourn.simulator.rectification import (
    RECTIFIERS,
    PoolView,
    Rectify,
    Refill,
    count_day,
    worth,
)
from sojourn.simulator.whole_numbers import check_setting, is_whole

ORDERS = {"longest-first": LONGEST_FIRST, "shortest-first": SHORTEST_FIRST, "trace": BY_ROW, "random": AT_RANDOM}
"""Orders of migration by name."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A host fails at `at_s` and is back after `repair_s`.

    Its requests start again elsewhere at once, wait, or are lost. host: its row in the workload's
    hosts. Times: whole seconds.
    """

    host: int
    at_s: int
    repair_s: int

    def __post_init__(self) -> None:
        _check(self, {"host": 0, "at_s": 0, "repair_s": 1})


@dataclass(frozen=True, slots=True)
class Drain:
    """A host takes no requests from `from_s` to `until_s`; those that can migrate leave it, the others stay."""

    host: int
    from_s: int
    until_s: int

    def __post_init__(self) -> None:
        _check(self, {"host": 0, "from_s": 0, "until_s": 1})
        if self.from_s >= self.until_s:
            raise ValueError(f"until_s must be after from_s, got {self}")


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Every host is to be updated: from `from_s` on, each `every_s`, a wave takes `share` of the hosts, rounded up.

    A wave takes hosts not yet updated, those with the least to move first. Empty ones are updated at
    once; the others are closed until their requests have migrated or ended. So 1 / share waves,
    rounded up, reach every host. Hosts that can't be emptied yet, or that a failure or drain
    interrupts, are left to later waves, up to the horizon.
    """

    from_s: int
    every_s: int
    share: float

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"share must be above 0 and at most 1, got {self.share!r}")
        _check(self, {"every_s": 1, "from_s": 0})


@dataclass(frozen=True, slots=True)
class Defragmentation:
    """When fewer than `min_empty_pct` of the hosts are empty, `n_hosts` are closed and their requests migrate away.

    It takes the hosts with the least in use, the binding resource first. A host is open again as soon
    as it is empty; the next batch waits until all are (LAVA, section 4.4).
    """

    min_empty_pct: float
    n_hosts: int = 3

    def __post_init__(self) -> None:
        if not 0.0 < self.min_empty_pct <= 100.0:
            raise ValueError(f"min_empty_pct must be above 0 and at most 100, got {self.min_empty_pct!r}")
        _check(self, {"n_hosts": 1})


@dataclass(frozen=True, slots=True)
class Migration:
    """How requests migrate: at most `n_at_once`, each for `duration_s` on both hosts (LAVA, section 4.4).

    order: longest predicted remaining time first (LARS), shortest first, as the trace lists them, or at
    random. is_across: one order across all hosts of a batch or wave; False goes host by host.
    n_a_day: how many may begin on a day of the trace, whoever planned them; None = any number. Those of
    drains and waves count, but are not held back. A rectifier and a batch plan only what is left of the
    day, less what is planned and has not begun.

    >>> Migration(order="best")
    Traceback (most recent call last):
    ValueError: order must be one of longest-first, random, shortest-first, trace, got 'best'
    """

    order: Literal["longest-first", "shortest-first", "trace", "random"] = "longest-first"
    is_across: bool = True
    n_at_once: int = 3
    duration_s: int = 1_200
    seed: int = 0
    n_a_day: int | None = None

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(sorted(ORDERS))}, got {self.order!r}")
        _check(self, {"n_at_once": 1, "duration_s": 1})
        if self.n_a_day is not None and not is_whole(self.n_a_day, 0):
            raise ValueError(f"n_a_day must be None or a whole number of migrations, 0 or more, got {self.n_a_day!r}")

    @property
    def is_predicting(self) -> bool:
        """Whether the order needs predicted lifetimes."""
        return self.order in ("longest-first", "shortest-first")


def _check(entry: object, least: Mapping[str, int]) -> None:
    """ValueError if a named setting is not a whole number of at least its least value."""
    for name, smallest in least.items():
        check_setting(getattr(entry, name), smallest, name)


Upkeep = Failure | Drain | Maintenance | Defragmentation


def host_events_of(upkeep: Sequence[Upkeep], n_hosts: int, horizon_s: int) -> np.ndarray:
    """The failures, drains and waves as HOST_EVENTS, by time; ValueError for hosts that do not exist."""
    rows: list[tuple[int, int, int]] = []
    for entry in upkeep:
        if isinstance(entry, Failure | Drain):
            at_s, until_s = (entry.at_s, entry.at_s + entry.repair_s) if isinstance(entry, Failure) else (
                entry.from_s, entry.until_s)
            if not 0 <= entry.host < n_hosts:
                raise ValueError(f"host must be in 0..{n_hosts - 1}, got {entry.host!r} in {entry}")
            is_failure = isinstance(entry, Failure)
            rows += [(at_s, FAIL if is_failure else DRAIN, entry.host),
                     (until_s, REPAIR if is_failure else REOPEN, entry.host)]
        elif isinstance(entry, Maintenance):
            n_wave = max(math.ceil(entry.share * n_hosts - 1e-9), 1)  # 0.07 * 100 is a little above 7
            rows += [(at_s, WAVE, n_wave) for at_s in range(entry.from_s, horizon_s + 1, entry.every_s)]
    return np.array(sorted(rows, key=lambda row: row[0]), HOST_EVENTS)


def defragmentation_of(upkeep: Sequence[Upkeep], n_hosts: int) -> tuple[int, int]:
    """The least number of empty hosts, and hosts of a batch; 0 without a Defragmentation. ValueError for two."""
    settings = [entry for entry in upkeep if isinstance(entry, Defragmentation)]
    if len(settings) > 1:
        raise ValueError(f"upkeep must have one Defragmentation at most, got {len(settings)}")
    return (math.ceil(settings[0].min_empty_pct / 100 * n_hosts), settings[0].n_hosts) if settings else (0, 0)


def pool_view(world: World, now_s: int, cpu: int, refill: Refill | None) -> tuple[PoolView, np.ndarray]:
    """The pool of a paused replay, and the place of each of the view's requests in the tables, int64 (n,)."""
    requests, cluster = world.requests, world.cluster
    places = np.flatnonzero(requests["host"] != NOT_PLACED)
    running, planned = requests[places], _plan_of_upkeep(world)["row"]
    is_fixed = (running["is_pinned"] == 1) | (running["from_host"] >= 0) | np.isin(places, planned)
    view = PoolView(
        cluster.capacity.copy(), cluster.free.copy(), cpu, cluster.closed == OPEN, cluster.n_running.copy(),
        world.hosts["kind"].copy(), running["host"].copy(), world.need[places], now_s - running["start_s"], is_fixed,
        running["kind"].copy(), running["group"].copy(), running["curve_start"].copy(), running["curve_end"].copy(),
        world.uptime_s, world.total_s, world.overhang_s, refill,
        int(world.settings["duration_s"][0]), int(world.settings["n_at_once"][0]),
        int(cluster.gpu_dimension[0]) if cluster.gpu_free.shape[1] else -1, cluster.gpu_free.copy())
    return view, places


def plan_migrations(world: World, rectify: Rectify, cpu: int, record: MigrationRecord,
                    held: Callable[[World], np.ndarray]) -> None:
    """Add the rectifier's migrations of the day to the plan of a paused replay, and with their worth to the record.

    Its earlier migrations that have not begun are removed from the plan. The record must hold all that
    the loop has logged. held: what `Pieces.held` returns."""
    counts = world.counts[0]
    now_s = int(counts["time_s"])
    view, places = pool_view(world, now_s, cpu, _refill(world, record, now_s, held))
    of_upkeep = _plan_of_upkeep(world)
    left = rectify.budget - record.n_rectified(rectify.day_from_s(now_s))
    budget = max(min(left, _left_of_day(world, now_s) - len(of_upkeep)), 0)
    groups = RECTIFIERS[rectify.planner](view, budget, rectify.long_s)
    moves = [(places[position], group.source, target, OPEN, now_s) for group in groups
             for position, target in zip(group.requests, group.targets, strict=True)]
    if len({place for place, *_ in moves}) < len(moves):
        raise ValueError(f"planner {rectify.planner!r} must plan a request once, got one twice at {now_s} s")
    record.add(now_s, view, world.requests["row"][places], groups, worth(view, groups))
    waiting = world.plan[counts["plan_from"]:counts["plan_to"]]["row"]
    counts["n_spared"] += int((waiting >= 0).sum()) - len(of_upkeep)
    whole = np.concatenate([of_upkeep, np.array(moves, PLAN)])
    world.plan[:len(whole)] = whole
    counts["plan_from"], counts["plan_to"] = 0, len(whole)
    counts["n_planned"] += len(moves)


def _refill(world: World, record: MigrationRecord, now_s: int, held: Callable[[World], np.ndarray]) -> Refill:
    """How soon emptied hosts were in use again, up to now."""
    begin_s = now_s - 2 * DAY_S
    if begin_s >= 0 and record.refills.is_due(now_s):
        stays = record.stays(held(world), from_s=begin_s, until_s=now_s)
        left, still = count_day(*stays.all(), now_s)
        record.refills.add(left, still, now_s)
    return record.refills.refill()


def _left_of_day(world: World, now_s: int) -> int:
    """How many migrations may still begin today."""
    counts = world.counts[0]
    return int(world.settings["n_a_day"][0]) - int(counts["n_of_day"] if counts["day"] == now_s // DAY_S else 0)


def _plan_of_upkeep(world: World) -> np.ndarray:
    """Planned migrations of other upkeep that have not begun."""
    counts = world.counts[0]
    planned = world.plan[counts["plan_from"]:counts["plan_to"]]
    planned = planned[(planned["row"] >= 0) & (planned["target"] < 0)]
    return np.array(planned[world.requests["host"][planned["row"]] == planned["host"]])
