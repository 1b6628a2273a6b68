"""DAPP's switches with short days, so that midnights, groups and updates come within a small replay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import naive_dapp
import naive_rectification
import naive_replay
import sojourn.simulator as sim
import studies.policies  # noqa: F401  # their names are known then
from made_workloads import cases, check_full, full_cases, twin_of, with_all
from sojourn.features import Trace
from sojourn.simulator import DappRules, GroupRules, dapp_policy


@st.composite
def switches(draw: Any, unit_s: int, tags: tuple[str, ...]) -> DappRules:
    """Any switches, with days and bounds of a few units of time."""
    update = draw(st.sampled_from(["off", "algorithm-1", "algorithm-1", "timer"]))
    alarm, confirm = draw(st.sampled_from([(-1.0, 0.0), (0.2, 0.5), (2.0, 3.0)]))
    groups = GroupRules(update, draw(st.integers(1, 3)), alarm, confirm, warmup_days=draw(st.integers(1, 3)),
                        cooldown_days=draw(st.integers(1, 2)), timer_days=draw(st.integers(1, 3)),
                        coverage=draw(st.sampled_from([0.4, 0.8, 1.0])), n_least=draw(st.integers(1, 2)),
                        is_as_printed=draw(st.booleans()))
    bounds_s = tuple(np.cumsum(draw(st.lists(st.sampled_from([1, 3, 10]), min_size=1, max_size=5))) * unit_s)
    return DappRules(draw(st.sampled_from(["one-sided", "symmetric"])),
                     draw(st.sampled_from(["weighted", "max", "switch-over"])), draw(st.sampled_from(tags)),
                     draw(st.sampled_from(["last", "scored"])), tuple(int(bound) for bound in bounds_s),
                     draw(st.integers(1, len(bounds_s) + 1)), max(draw(st.integers(1, 9)) * unit_s, 2), groups)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(case=cases(), data=st.data())
def test_every_reading_decides_as_the_slow_twin(case: Any, data: Any) -> None:
    workload, curves, per_request = case
    rules = data.draw(switches(workload.trace.horizon_s // 40, ("paper", "daily", "events", "exact")))
    policy = dapp_policy("dapp-drawn", rules)
    naive_dapp.RULES["dapp-drawn"] = rules
    twin = twin_of(workload, per_request, curves)
    found = sim.simulate(workload, policy, sim.Held(workload.request_ids, curves), is_ranked=False)
    assert found.host.tolist() == twin.run("dapp-drawn")


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(case=full_cases(are_hosts_alike=True), data=st.data())
def test_with_migrations_and_failures_it_decides_as_the_slow_twin(case: Any, data: Any) -> None:
    workload = case[0]
    rules = data.draw(switches(workload.trace.horizon_s // 40, ("paper", "daily", "events")))
    # midnights between the events: a failure at midnight may restart what ran there before or after the day's end
    rules = replace(rules, day_s=rules.day_s + 1 if workload.trace.horizon_s > 40 else 1_000)
    naive_dapp.RULES["dapp-drawn"] = rules
    check_full(dapp_policy("dapp-drawn", rules), with_all(case), is_ranked=True)


@pytest.mark.slow
@pytest.mark.parametrize("update", ["timer", "algorithm-1"])
def test_groups_decide_as_in_the_slow_twin(update: Any) -> None:
    # some 30 requests run at a time on 8 hosts; the replays above are too small for a group to change a decision
    n_changed = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        arrival = np.sort(rng.integers(0, 3_000, 300))
        length = np.where(rng.random(300) < 0.5, rng.integers(5, 60, 300), rng.integers(100, 900, 300))
        rows = [(int(at), int(at + stay), float(rng.integers(1, 5)), float(rng.integers(1, 5)))
                for at, stay in zip(arrival, length, strict=True)]
        trace = naive.trace_of(rows, 4_000)
        hosts = pd.DataFrame({"host_id": range(12), "cpu_cores": 16.0, "mem_gib": 24.0})
        workload = sim.Workload("test", trace, hosts, trace.lifetime_s())
        groups = GroupRules(update, 2, -1.0, 0.0, warmup_days=2, cooldown_days=1, timer_days=3, coverage=0.5, n_least=1)
        rules = DappRules(tag_rule="weighted", bounds_s=(20, 60, 150, 400, 700), day_s=50, groups=groups)
        naive_dapp.RULES["dapp-drawn"] = rules
        found = sim.simulate(workload, dapp_policy("dapp-drawn", rules), sim.Oracle(workload))
        pairs = [[(0, int(total))] for total in workload.total_s]
        assert found.host.tolist() == twin_of(workload, pairs).run("dapp-drawn"), seed
        without = dapp_policy("dapp-drawn", replace(rules, groups=GroupRules("off")))
        n_changed += found.host.tolist() != sim.simulate(workload, without, sim.Oracle(workload)).host.tolist()
    assert n_changed == 6


HOUR, DAY = 3_600, 86_400
KINDS = ("uniform", "bursty", "ties", "gpu", "two", "warm", "midnight")
"""Days of requests: at any time, in bursts, at few times and with round lifetimes, with GPUs, on hosts of two shapes,
of which some ran before, and at every second hour of the clock, so at midnight too."""


def days_of(kind: str, seed: int, n: int) -> sim.Workload:
    """Some days to two weeks of n requests, a third of them long, on hosts of 32 cores."""
    rng = np.random.default_rng([seed, len(kind)])
    horizon_s = int(rng.integers(48, 400)) * HOUR + int(rng.integers(1, 3_000))
    arrival_s = np.sort(rng.integers(0, horizon_s, n))
    if kind in ("ties", "bursty"):
        arrival_s = np.sort(rng.choice(arrival_s[:: 12 if kind == "bursty" else 4], n))
    if kind == "midnight":
        arrival_s = np.minimum(arrival_s // 7_200 * 7_200, horizon_s - 1)
    is_long = rng.random(n) < 0.3
    stay_s = np.exp(np.where(is_long, rng.normal(np.log(40 * HOUR), 1.2, n), rng.normal(np.log(2_400), 1.0, n)))
    if kind in ("ties", "midnight"):
        stay_s = np.round(stay_s / 1_800) * 1_800  # exactly 1 h, 24 h and midnight are frequent
    departure_s = arrival_s + np.clip(stay_s, 1, 3e6).astype(np.int64)
    if kind == "warm":
        ran = np.arange(n) < n // 12
        arrival_s = np.where(ran, -rng.integers(0, 200_000, n), arrival_s)
        departure_s = np.where(ran, np.maximum(departure_s, 1), departure_s)
    cpu = rng.choice([0.5, 1, 2, 4, 8, 16], n, p=[0.2, 0.25, 0.25, 0.15, 0.1, 0.05])
    table = pd.DataFrame({"request_id": range(n), "arrival_s": arrival_s, "departure_s": departure_s,
                          "cpu_cores": cpu, "mem_gib": cpu * rng.choice([1, 2, 4, 8], n)})
    table["departure_s"] = pd.array([at if at <= horizon_s else None for at in departure_s.tolist()], "Int64")
    if kind == "gpu":
        table["gpu"] = rng.choice([0, 0, 0, 0.25, 0.5, 1, 2], n)
    hosts = pd.DataFrame({"host_id": range(5), "cpu_cores": 32.0, "mem_gib": 128.0})
    if kind == "gpu":
        hosts["gpu"] = 4.0
    if kind == "two":
        hosts.loc[::2, ["cpu_cores", "mem_gib"]] = [48.0, 96.0]
    trace = Trace(table.sort_values("arrival_s", kind="stable"), horizon_s, hosts=hosts)
    return sim.build_workload("trace", trace, warmup_s=horizon_s // 10, seed=seed)


def vague_curves(workload: sim.Workload, seed: int) -> sim.Curves:
    """Predictions that are wrong by a factor of e^1.5 or so, and change at up to six uptimes."""
    rng = np.random.default_rng([seed, 77])
    offsets, uptimes, totals, overhangs = [0], [], [], []
    for total_s in workload.total_s.tolist():
        steps = [0, *sorted({int(np.exp(rng.uniform(4, 13))) for _ in range(int(rng.integers(0, 6)))})]
        ends = [*steps[1:], steps[-1] + 1]
        own = [max(end, int(total_s * np.exp(rng.normal(0, 1.5)))) for end in ends]
        uptimes += steps
        totals += own
        overhangs += sorted((int(own[0] * rng.uniform(0.05, 1)) for _ in own), reverse=True)
        offsets.append(len(uptimes))
    return sim.Curves(np.array(offsets), np.array(uptimes), np.array(totals), overhang_s=np.array(overhangs))


def check_with_pdre(policy: str, kind: str, seed: int, hour: int, every_s: int = DAY) -> int:
    """Every decision and count of a replay with DVLA's moves equals the twin's; how many moves have begun."""
    workload = days_of(kind, seed, 110)
    curves = sim.Oracle(workload).curves(workload.trace.requests) if seed % 2 else vague_curves(workload, seed)
    begin, end = curves.offsets[:-1], curves.offsets[1:]
    pairs = [list(zip(curves.uptime_s[begin[c]:end[c]].tolist(), curves.total_s[begin[c]:end[c]].tolist(),
                      strict=True)) for c in curves.curve_of()]
    rectify = sim.Rectify("pdre", 5, hour=hour, seed=seed, every_s=every_s)
    case: tuple[Any, ...] = (workload, curves, pairs, [], sim.Migration(), False)

    def moves(twin: naive_replay.Replay) -> list[tuple[int, int]]:
        day = (twin.now - hour * HOUR) // DAY
        begun = sum((at - hour * HOUR) // DAY == day for at in twin.rectified_at)
        return naive_rectification.pdre(twin, 5 - begun, DAY)

    return check_full(dapp_policy(policy, naive_dapp.RULES[policy]), case, is_ranked=None, rectify=rectify,
                      twin_moves=moves)


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "first"), [("dapp", 0), ("dapp-daily", 1), ("dapp-short", 2), ("dapp-weighted", 0)])
def test_with_dvlas_moves_at_midnight_it_decides_as_the_slow_twin(policy: str, first: int) -> None:
    """Each kind of days with one of three seeds, and with another one under another policy."""
    seeds_and_hours = ((0, 0), (1, 0), (2, 5))
    assert sum(check_with_pdre(policy, kind, *seeds_and_hours[at % 3]) for at, kind in enumerate(KINDS, first)) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("hour", "every_s"), [(5, HOUR), (0, 4 * HOUR)])
def test_with_moves_planned_every_few_hours_it_decides_as_the_slow_twin(hour: int, every_s: int) -> None:
    often, daily = (sum(check_with_pdre("dapp", kind, 0, hour, step_s) for kind in KINDS) for step_s in (every_s, DAY))
    assert often > daily


@pytest.mark.slow  # the largest loop that there is
def test_a_plan_of_midnight_begins_after_the_tags_of_midnight() -> None:
    # At the first midnight host 1 has a request of 5 d more (class 3; 3 of 8 cores, so it is stranded) and one of 2 h
    # (class 2). The first goes to host 0, which holds 4 long cores, after host 1 has got the tag 3. No request of class
    # 5 or 6 has left, so the tag stays until the next midnight; if the move came first, it would be 2.
    rows = [(0, 9 * DAY, 4.0, 1.0), (0, 20 * HOUR, 4.0, 1.0), (HOUR, 6 * DAY, 3.0, 1.0),
            (2 * HOUR, 26 * HOUR, 1.0, 1.0)]
    hosts = pd.DataFrame({"host_id": range(2), "cpu_cores": 8.0, "mem_gib": 64.0})
    trace = naive.trace_of(rows, 10 * DAY)
    workload = sim.Workload("test", trace, hosts, trace.lifetime_s())
    result = sim.simulate(workload, "dapp", sim.Oracle(workload), rectify=sim.Rectify(non_migratable_share=0.0))
    at = int(np.flatnonzero(result.samples.time_s > DAY)[0])
    assert result.host.tolist() == [0, 0, 1, 1] and result.metrics.n_migrations == 1
    assert result.samples.state is not None
    assert result.samples.state[at].tolist() == [4, 3]
