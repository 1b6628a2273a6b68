"""The day's migrations within a replay: the loop pauses, a planner sees the pool as it is then, and they are planned.

A planner sees what an operator would: who runs where, for how long already, and the predictions. Targets are chosen
here; whether they still take the request is looked at once more when the migration begins.
"""

from __future__ import annotations

import numpy as np

from sojourn.simulator.engine.migration_record import MigrationRecord
from sojourn.simulator.loop import NOT_PLACED, OPEN, PLAN, World
from sojourn.simulator.rectification import (
    DAY_S,
    RECTIFIERS,
    SAMPLE_S,
    PoolView,
    Rectify,
    Refill,
    count_left,
    count_still,
    worth,
)


def pool_view(world: World, now_s: int, cpu: int, refill: Refill | None) -> tuple[PoolView, np.ndarray]:
    """The pool of a paused replay, and the row of each of the view's requests, int64 (n,)."""
    requests, cluster = world.requests, world.cluster
    rows = np.flatnonzero(requests["host"] != NOT_PLACED)
    running, planned = requests[rows], _kept(world)["row"]
    is_fixed = (running["is_pinned"] == 1) | (running["from_host"] >= 0) | np.isin(rows, planned)
    view = PoolView(
        cluster.capacity.copy(), cluster.free.copy(), cpu, cluster.closed == OPEN, cluster.n_running.copy(),
        world.hosts["kind"].copy(), running["host"].copy(), world.need[rows], now_s - running["start_s"], is_fixed,
        running["kind"].copy(), running["group"].copy(), running["curve_start"].copy(), running["curve_end"].copy(),
        world.uptime_s, world.total_s, world.overhang_s, refill,
        int(world.settings["duration_s"][0]), int(world.settings["n_at_once"][0]))
    return view, rows


def plan_migrations(world: World, rectify: Rectify, cpu: int, record: MigrationRecord) -> None:
    """Put the day's migrations on the plan of a paused replay, and into the record with what they are expected to free;
    what is left of the rectifier's day before is struck off. The record has taken over all that was logged."""
    counts = world.counts[0]
    now_s = int(counts["time_s"])
    view, rows = pool_view(world, now_s, cpu, _refill(world, record, now_s))
    kept = _kept(world)
    budget = max(min(rectify.budget, _left_of_day(world, now_s) - len(kept)), 0)
    found = RECTIFIERS[rectify.planner](view, budget, rectify.long_s)
    moves = [(rows[position], group.source, target, OPEN, now_s) for group in found
             for position, target in zip(group.requests, group.targets, strict=True)]
    record.add(now_s, view, rows, found, worth(view, found))
    waiting = world.plan[counts["plan_from"]:counts["plan_to"]]["row"]
    counts["n_spared"] += int((waiting >= 0).sum()) - len(kept)
    whole = np.concatenate([kept, np.array(moves, PLAN)])
    world.plan[:len(whole)] = whole
    counts["plan_from"], counts["plan_to"] = 0, len(whole)
    counts["n_planned"] += len(moves)


def _refill(world: World, record: MigrationRecord, now_s: int) -> Refill:
    """How soon hosts were in use again, by all that happened up to now."""
    requests, begin_s = world.requests[:world.counts["idx_arrival"][0]], now_s - 2 * DAY_S
    if begin_s >= 0:
        stays = record.stays(requests, from_s=begin_s, until_s=now_s)
        left = [count_left(*stays.all(), at_s) for at_s in range(begin_s, begin_s + DAY_S, SAMPLE_S)]
        record.refills.add(np.sum(left, axis=0), count_still(stays.empty_spells(now_s), begin_s, now_s))
    return record.refills.refill()


def _left_of_day(world: World, now_s: int) -> int:
    """What the day's cap leaves of all migrations."""
    counts = world.counts[0]
    return int(world.settings["n_a_day"][0]) - int(counts["n_of_day"] if counts["day"] == now_s // DAY_S else 0)


def _kept(world: World) -> np.ndarray:
    """What other upkeep has planned and is still to be done."""
    counts = world.counts[0]
    planned = world.plan[counts["plan_from"]:counts["plan_to"]]
    planned = planned[(planned["row"] >= 0) & (planned["target"] < 0)]
    return np.array(planned[world.requests["host"][planned["row"]] == planned["host"]])
