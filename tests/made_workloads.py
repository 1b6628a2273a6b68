"""Small workloads, curves and upkeep, drawn by Hypothesis; and their slow twin.

What there are many of is drawn from a generator that Hypothesis seeds: its own draws take longer than the replays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

import naive
import sojourn.simulator as sim
from naive_replay import Replay
from sojourn.simulator.engine.metrics import PLANNERS, Stays
from sojourn.simulator.engine.world import prepared
from sojourn.simulator.loop import FAILED, OPEN
from sojourn.simulator.rectification import non_migratable

STEP_S = st.sampled_from([1, 7, 600, 1800, 3600, 7200, 36_000])
LAST_TOTAL_S = st.one_of(st.integers(0, 20_000), st.sampled_from([100_000, 400_000, 4_000_000]))

QUICK_POLICIES = ("best-fit", "lava", "nilas")
"""Compiling a policy's loop takes longer than trying it: the others' are compiled where slow tests are."""


def each_policy(names: Iterable[str]) -> list[Any]:
    """Parameters of a test: all of them, those not quick marked slow."""
    return [name if name in QUICK_POLICIES else pytest.param(name, marks=pytest.mark.slow) for name in sorted(names)]



@st.composite
def breakpoints(draw: Any) -> list[tuple[int, int]]:
    """One valid curve as (uptime, total) pairs; the last total may lie below its uptime."""
    uptimes = [0, *np.cumsum(draw(st.lists(STEP_S, max_size=4))).tolist()]
    totals = [nxt + draw(st.sampled_from([0, 1, 900, 5400, 40_000, 400_000])) for nxt in uptimes[1:]]
    return list(zip(uptimes, [*totals, draw(LAST_TOTAL_S)], strict=True))


@st.composite
def cases(draw: Any, are_hosts_alike: bool | None = None) -> tuple[sim.Workload, sim.Curves, list[Any]]:
    """A small workload with equal time stamps, unknown and negative starts and censored requests, and curves."""
    unit = draw(st.sampled_from([1, 900, 3600, 36_000]))
    horizon = 40 * unit
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows: list[tuple[int | None, int | None, float, float]] = []
    for _ in range(draw(st.integers(1, 25))):
        arrival = None if rng.random() < 0.2 else int(rng.integers(-6, 31))
        departure = None if rng.random() < 0.3 else int(rng.integers(max(arrival or 0, 0), 41))
        rows.append((None if arrival is None else arrival * unit, None if departure is None else departure * unit,
                     float(rng.integers(0, 5)), float(rng.choice([1, 2, 4]))))
    is_alike = draw(st.booleans()) if are_hosts_alike is None else are_hosts_alike
    n_hosts = draw(st.integers(1, 5))
    shapes = [(4.0, 4.0)] + [(4.0, 4.0) if is_alike else draw(st.sampled_from([(4.0, 4.0), (8.0, 4.0), (2.0, 12.0)]))
                             for _ in range(n_hosts - 1)]
    hosts = pd.DataFrame({"host_id": range(n_hosts), "cpu_cores": [s[0] for s in shapes],
                          "mem_gib": [s[1] for s in shapes]})
    trace = naive.trace_of(rows, horizon)
    total = sim.true_totals(trace, rng)
    workload = sim.Workload("test", trace, hosts, total, warmup_s=draw(st.integers(0, horizon - 1)))
    distinct = draw(st.lists(breakpoints(), min_size=1, max_size=4))
    index = rng.integers(0, len(distinct), len(rows)).tolist()
    flat = [pair for curve in distinct for pair in curve]
    overhang = None
    if draw(st.booleans()):
        sizes = st.sampled_from([0, 1, 1799, 1800, 7200, 50_000])
        overhang = [sorted((draw(sizes) for _ in curve), reverse=True) for curve in distinct]
    curves = sim.Curves(np.cumsum([0, *map(len, distinct)]), np.array([u for u, _ in flat]),
                        np.array([t for _, t in flat]), np.array(index),
                        None if overhang is None else np.array([s for own in overhang for s in own]))
    return workload, curves, [distinct[i] for i in index]


@st.composite
def ruled(draw: Any, workload: sim.Workload) -> sim.Workload:
    """The same workload with or without its warm-up, and with some of the rules besides room."""
    trace, hosts = workload.trace, workload.hosts
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def drawn(values: list[Any], n: int) -> list[Any]:
        return [values[k] for k in rng.integers(0, len(values), n)]

    has_types, is_apart, is_pinned = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    requests = trace.requests.assign(machine=drawn(["n1", "n2", "n3", "n1|n3", "n4|n5", None, None, None], len(trace)),
                                     job=drawn(["a", "b", None, None], len(trace)),
                                     is_pinned=drawn([True, False, False, False], len(trace)))
    hosts = hosts.assign(machine=drawn(["n1", "n1", "n2", "n3"], len(hosts)))
    if draw(st.booleans()):
        requests = requests.assign(gpu=drawn([0.0, 0.2, 0.5, 0.7, 1.0, 2.0], len(trace)))
        hosts = hosts.assign(gpu=np.maximum(hosts["cpu_cores"] / 2, 2))
    return sim.Workload("test", sim.Trace(requests, trace.horizon_s), hosts, workload.total_s,
                        draw(st.sampled_from([0, workload.warmup_s])),
                        constraints=sim.Constraints("machine" if has_types else None, "job" if is_apart else None,
                                                    "is_pinned" if is_pinned else None))


@st.composite
def upkeeps(draw: Any, workload: sim.Workload) -> tuple[list[Any], sim.Migration]:
    """Failures, drains, maintenance and defragmentation that may overlap, and how requests migrate."""
    unit, n_hosts = workload.trace.horizon_s // 40, len(workload.hosts)
    host, at, span = st.integers(0, n_hosts - 1), st.integers(0, 38), st.integers(1, 12)
    found: list[Any] = []
    for _ in range(draw(st.integers(0, 3))):
        first, long = draw(at) * unit, draw(span) * unit
        if draw(st.booleans()):
            found.append(sim.Failure(draw(host), first, long))
        else:
            found.append(sim.Drain(draw(host), first, first + long))
    if draw(st.booleans()):
        found.append(sim.Maintenance(draw(at) * unit, draw(span) * unit, draw(st.sampled_from([0.25, 0.5, 1.0]))))
    if draw(st.booleans()):
        found.append(sim.Defragmentation(draw(st.sampled_from([20.0, 50.0, 100.0])), draw(st.integers(1, 3))))
    order = draw(st.sampled_from(["longest-first", "shortest-first", "trace", "random"]))
    duration = draw(st.sampled_from([max(unit // 3, 1), unit, 3 * unit, 5 * unit]))
    n_a_day = draw(st.sampled_from([None, None, 0, 1, 2, 5]))
    return found, sim.Migration(order, draw(st.booleans()), draw(st.integers(1, 3)), duration, draw(st.integers(0, 9)),
                                n_a_day)


@st.composite
def full_cases(draw: Any, are_hosts_alike: bool | None = None) -> tuple[Any, ...]:
    """Workload with rules, curves, their breakpoints, upkeep, migration, and whether requests wait."""
    plain, curves, per_request = draw(cases(are_hosts_alike))
    workload = draw(ruled(plain))
    return (workload, curves, per_request, *draw(upkeeps(workload)), draw(st.booleans()))


def with_all(case: tuple[Any, ...]) -> tuple[Any, ...]:
    """The case, in which requests wait if nothing else would make its loop the full one.

    A test of full loops would compile a plain one beside each, for a third of its time, and those have their own tests.
    """
    workload, curves, per_request, upkeep, migration, is_queueing = case
    is_plain = not upkeep and workload.constraints == sim.Constraints()
    return workload, curves, per_request, upkeep, migration, is_queueing or is_plain


def twin_of(workload: sim.Workload, per_request: list[Any], curves: sim.Curves | None = None) -> Replay:
    """The slow twin of a replay without host events."""
    overhang = None
    if curves is not None and curves.overhang_s is not None:
        overhang = [curves.overhang_s[curves.offsets[c]:curves.offsets[c + 1]].tolist() for c in curves.curve_of()]
    requests, names = workload.trace.requests, workload.constraints
    machines: dict[Any, Any] = {None: -1, "n1": 0, "n2": 1, "n3": 2, "n1|n3": (0, 2), "n4|n5": (7, 8)}

    def codes(table: pd.DataFrame, column: str | None, known: dict[Any, Any]) -> list[Any] | None:
        return None if column is None else [known[None if pd.isna(value) else value] for value in table[column]]

    return Replay(
        workload.start_s.tolist(), workload.departure_s.tolist(), workload.need.tolist(), workload.capacity.tolist(),
        per_request, workload.trace.horizon_s, overhang, codes(requests, names.host_type, machines),
        codes(workload.hosts, names.host_type, machines), codes(requests, names.apart_by, {None: -1, "a": 0, "b": 1}),
        None if names.pinned_by is None else requests[names.pinned_by].tolist(), warmup=workload.warmup_s,
        cpu=workload.resources.index("cpu_cores"),
        gpu=workload.resources.index("gpu") if "gpu" in workload.resources else None,
    )  # fmt: skip


def check_full(policy: sim.Policy, case: tuple[Any, ...], *, is_ranked: bool | None, name: str = "",
               rectify: sim.Rectify | None = None, twin_moves: Any = None) -> int:
    """Every decision and every count of a replay in which all may happen equal the slow twin's; how many migrations
    have begun."""
    workload, curves, per_request, upkeep, migration, is_queueing = case
    waiting = replace(policy, is_queueing=is_queueing)
    result = sim.simulate(workload, waiting, sim.Held(workload.request_ids, curves), is_ranked=is_ranked,
                          upkeep=upkeep, migration=migration, rectify=rectify, is_checked=True)
    twin = replace(twin_of(workload, per_request, curves), upkeep=tuple(upkeep), migration=migration,
                   is_queueing=is_queueing)
    if rectify is not None:
        drawn = non_migratable(workload, rectify).tolist()
        twin = replace(twin, rectify_at=tuple(rectify.times_s(workload.trace.horizon_s)), moves_now=twin_moves,
                       pinned=[a or b for a, b in zip(twin.pinned or drawn, drawn, strict=True)])
    assert result.host.tolist() == twin.run(name or policy.name)
    metrics, warmup = result.metrics, workload.warmup_s
    is_counted = [arrival >= warmup for arrival in twin.arrival]
    firsts = [host for host, counts in zip(twin.first, is_counted, strict=True) if counts]
    found = (metrics.n_planned_migrations, metrics.n_migrations, metrics.n_rescheduled, metrics.n_lost,
             metrics.n_events, metrics.n_rejected, metrics.n_updated)
    assert found == (twin.n_planned, twin.n_begun, twin.n_re_placed, twin.n_lost, twin.n_events,
                     firsts.count(-1), sum(host.is_updated for host in twin.hosts))
    room = (workload.trace.horizon_s - warmup) * len(workload.hosts)
    assert round(metrics.empty_hosts_pct * room / 100, 3) == twin.empty_seconds
    waits = [wait for wait, host, counts in zip(twin.wait, twin.first, is_counted, strict=True) if host >= 0 and counts]
    assert round(metrics.mean_wait_s * len(waits), 3) == sum(waits)
    mem = workload.resources.index("mem_gib")
    moved = sum(need[mem] * moves for need, moves in zip(twin.need, twin.moves, strict=True))
    assert metrics.migrated_gib * 1024 == moved
    cpu = workload.resources.index("cpu_cores")
    voided = sum(need[cpu] * seconds for need, seconds in zip(twin.need, twin.voided, strict=True))
    assert metrics.voided_core_h * 3_600_000 == pytest.approx(voided, abs=1e-3)
    assert result.is_disturbed == twin.is_disturbed
    if upkeep or rectify is not None:
        replay = prepared(workload, waiting, sim.Held(workload.request_ids, curves), is_ranked=is_ranked,
                          upkeep=upkeep, migration=migration, is_checked=True, stop_row=-1, rectify=rectify)
        replay.run()
        assert replay.record is not None
        replay.record.take_over(replay.world)
        check_log(twin, result, workload.request_ids.tolist(), replay.record.log(), replay.world.requests,
                  replay.arguments[2])
    return twin.n_begun


def check_log(twin: Replay, result: sim.Result, ids: list[int], log: np.ndarray, requests: np.ndarray,
              host_events: np.ndarray) -> None:
    """Every migration that began, and when hosts were held, by the end and before, equal the slow twin's."""
    planners = {FAILED: "failure", OPEN: "pdre", **PLANNERS}
    assert [(row, source, target, at_s, planners[planner], planned_s)
            for row, source, target, at_s, planner, planned_s in log.tolist()] == twin.migration_log
    assert result.migrations is not None
    begun = result.migrations[result.migrations["begun_s"].notna()]
    assert sorted(zip(*(begun[name].tolist() for name in (
        "request_id", "from_host", "to_host", "begun_s", "planner", "planned_s")), strict=True)) == sorted(
            (ids[entry[0]], *entry[1:]) for entry in twin.migration_log if entry[4] != "failure")
    placed_s = requests["arrival_s"] + requests["wait_s"]
    for until_s in range(0, twin.horizon + 1, max(twin.horizon // 7, 1)):
        known = requests.copy()
        known["first_host"][placed_s > until_s] = -1
        stays = Stays(log[log["at_s"] <= until_s], known, twin.migration.duration_s, host_events, until_s=until_s)
        for host, held in twin.held.items():
            expected = [[from_s, min(to_s, until_s)] for from_s, to_s in held if from_s < until_s]
            assert merged(stays.of(host).tolist()) == expected


def merged(stays: list[list[int]]) -> list[list[int]]:
    """The union of spans that come by their begin."""
    found: list[list[int]] = []
    for from_s, to_s in stays:
        if to_s <= from_s:
            continue
        if found and from_s <= found[-1][1]:
            found[-1][1] = max(found[-1][1], to_s)
        else:
            found.append([from_s, to_s])
    return found
