"""Explains a placement: which hosts were excluded and why, and the scores of each remaining host."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from sojourn.simulator.cluster import Request
from sojourn.simulator.engine.simulate import named_policy, simulate
from sojourn.simulator.engine.upkeep import Migration, Upkeep
from sojourn.simulator.engine.world import Prepared, prepared
from sojourn.simulator.loop import (
    CURRENT,
    INITIAL,
    NO_PREDICTIONS,
    OPEN,
    World,
    gpus_fit,
    read_only,
    takes_kind,
    visible,
)
from sojourn.simulator.policies import PerResource, Policy
from sojourn.simulator.predictions import LifetimeSource
from sojourn.simulator.rectification import Rectify
from sojourn.simulator.workloads import Workload

_CLOSED_FOR = ("", "closed: being defragmented", "closed: being updated", "closed: drained", "closed: failed")


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision, at the arrival of the request.

    request_id, time_s; need: its amounts by resource, in the trace's units; remaining_s: its
        predicted remaining time, None if the policy uses no predictions.
    host_id: the chosen host, None if there is none.
    meanings: the meaning of each score, by column.
    table: one row per host, in their order: `host_id`, `excluded` ("" or the reason), then one
        float64 column per score in order of importance (NaN if excluded); lower is better.
    migrations: rows of `Result.migrations` of this request; None without a rectifier.
    """

    request_id: Hashable
    time_s: int
    policy: str
    need: dict[str, float]
    remaining_s: int | None
    host_id: Hashable | None
    meanings: dict[str, str]
    table: pd.DataFrame
    migrations: pd.DataFrame | None = None


def explain(
    workload: Workload,
    policy: str | Policy,
    source: LifetimeSource | None,
    request_id: Hashable,
    *,
    upkeep: Sequence[Upkeep] = (),
    migration: Migration | None = None,
    rectify: Rectify | None = None,
) -> Explanation:
    """The decision about one request, from a replay up to its arrival.

    With rectify the whole workload is replayed as well, for the request's later migrations.

    KeyError for a request that the workload does not have; all else as in `simulate`.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": ["a", "b"], "arrival_s": [0, 5], "departure_s": [40, 90],
    ...                       "cpu_cores": [6.0, 4.0], "mem_gib": [8.0, 8.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 100), cpu_cores=8, mem_gib=32, n_hosts=2)
    >>> explanation = explain(workload, "best-fit", None, "b")
    >>> explanation.host_id, explanation.table["excluded"].tolist()
    (1, ['no room: cpu_cores', ''])
    """
    ids = workload.request_ids
    rows = ids.get_indexer(pd.Index([request_id]))
    if rows[0] < 0:
        raise KeyError(f"request_id must be in the workload, got {request_id!r}")
    row, rule = int(rows[0]), named_policy(policy)
    replay = prepared(workload, rule, source, is_ranked=None, upkeep=upkeep, migration=migration or Migration(),
                      is_checked=False, stop_row=row, rectify=rectify)
    replay.run()
    migrations = None
    if rectify is not None:
        migrations = simulate(workload, rule, source, upkeep=upkeep, migration=migration, rectify=rectify).migrations
    if migrations is not None:
        migrations = migrations[migrations["request_id"] == request_id].reset_index(drop=True)
    return replace(_explained(replay, row, request_id), migrations=migrations)


def _explained(replay: Prepared, row: int, request_id: Hashable) -> Explanation:
    workload, world, policy = replay.workload, replay.world, replay.policy
    now, place = int(workload.placed_s[row]), int(world.settings["stop_row"][0])
    for host in range(len(world.hosts)):
        if world.hosts["valid_until_s"][host] <= now:
            world.cluster.exit_s[host] = max(_exit_s(world, int(other), now) for other in _residents(world, host))
    exit_s = _exit_s(world, place, now) if policy.predictions != "none" else 0
    record = world.requests[place]
    request = Request(row, world.need[place], exit_s, now - int(record["start_s"]),
                      world.uptime_s[record["curve_start"]:record["curve_end"]],
                      world.overhang_s[record["curve_start"]:record["curve_end"]])
    excluded = [_reason(replay, host, place, request, now) for host in range(len(world.hosts))]
    columns = _scores(policy, world, request, now, workload.resources, [not reason for reason in excluded])
    scores = np.column_stack([values for _, _, values in columns]) if columns else np.zeros((len(excluded), 0))
    is_out = np.array([bool(reason) for reason in excluded]) | np.isinf(scores).any(axis=1)
    reasons = [reason or ("the policy's own rule" if out else "") for reason, out in zip(excluded, is_out, strict=True)]
    candidates = np.flatnonzero(~is_out)
    best = min(candidates.tolist(), key=lambda host: (*scores[host], host), default=None)
    host_ids = workload.hosts["host_id"].tolist()
    table = pd.DataFrame({"host_id": host_ids, "excluded": reasons})
    for name, _, values in columns:
        table[name] = np.where(is_out, np.nan, values)
    requests = workload.trace.requests
    need = {name: float(requests[name].iloc[row]) for name in workload.resources if name in requests}
    return Explanation(
        request_id, now, policy.name, need,
        exit_s - now if policy.predictions != "none" else None, None if best is None else host_ids[best],
        {name: meaning for name, meaning, _ in columns}, table,
    )  # fmt: skip


def _residents(world: World, host: int) -> list[int]:
    """Places of the host's requests in the tables."""
    residents, place = [], int(world.hosts["first"][host])
    while place >= 0:
        residents.append(place)
        place = int(world.requests["next"][place])
    return residents


def _exit_s(world: World, place: int, now: int) -> int:
    """A request's predicted exit at `now`, by its curve."""
    record, kind = world.requests[place], int(world.settings["predictions"][0])
    start, stop = int(record["curve_start"]), int(record["curve_end"])
    if kind == INITIAL:
        return int(record["start_s"] + world.total_s[start])
    uptime_s = now - int(record["start_s"])
    k = start + int(np.searchsorted(world.uptime_s[start:stop], uptime_s, side="right")) - 1
    total = max(int(world.total_s[k]), 1)
    while kind == CURRENT and total <= uptime_s:
        total *= 2
    return int(record["start_s"]) + (total if kind != NO_PREDICTIONS else 0)


def _reason(replay: Prepared, host: int, place: int, request: Request, now: int) -> str:
    """Why the host is excluded, or ""."""
    world, resources = replay.world, replay.workload.resources
    if world.cluster.closed[host] != OPEN:
        return _CLOSED_FOR[world.cluster.closed[host]]
    short = [name for d, name in enumerate(resources) if world.cluster.free[host, d] < request.need[d]]
    if short:
        return f"no room: {', '.join(short)}"
    cluster = world.cluster
    if cluster.gpu_free.shape[1] and not gpus_fit(cluster, host, int(request.need[cluster.gpu_dimension[0]])):
        return "no room: gpu, on no single GPU of the host or on too few whole ones"
    record = world.requests[place]
    if world.settings["has_kinds"][0] and not takes_kind(int(record["kind"]), int(world.hosts["kind"][host])):
        return "another type of host"
    if world.settings["has_groups"][0] and record["group"] >= 0:
        if any(world.requests["group"][other] == record["group"] for other in _residents(world, host)):
            return "another of its group is there"
    if replay.policy.filter is not None and not replay.policy.filter(world.cluster, host, request, now):
        return "the policy's filter"
    return ""


def _scores(policy: Policy, world: World, request: Request, now: int, resources: tuple[str, ...],
            is_scored: list[bool]) -> list[tuple[str, str, np.ndarray]]:
    """Name, meaning and values (n_hosts,) of each score."""
    n_hosts = len(world.hosts)
    if policy.host_scores is not None:
        view = request._replace(need=read_only(request.need), uptimes_s=read_only(request.uptimes_s),
                                overhang_s=read_only(request.overhang_s))
        scores = policy.host_scores(visible(world.cluster), view, now)
        levels = scores if isinstance(scores, tuple) else (scores,)
        return [(f"score {k + 1}", _meaning(policy.host_scores), np.asarray(values, np.float64))
                for k, values in enumerate(levels)]
    columns: list[tuple[str, str, np.ndarray]] = []
    for scorer in policy.scorers:
        calls = [(scorer.scorer, d, f" ({name})") for d, name in enumerate(resources)] if isinstance(
            scorer, PerResource) else [(scorer, now, "")]
        for function, last, suffix in calls:
            values = np.array([function(world.cluster, host, request, last) if is_scored[host] else np.nan
                               for host in range(n_hosts)], np.float64)
            columns.append((f"{function.__name__}{suffix}", _meaning(function), values))
    return columns


def _meaning(function: Any) -> str:
    """The first paragraph of its docstring."""
    doc = getattr(function, "py_func", function).__doc__ or ""
    return " ".join(doc.split("\n\n")[0].split())
