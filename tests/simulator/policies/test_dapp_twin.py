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
import sojourn.simulator as sim
from made_workloads import cases, check_full, full_cases, twin_of
from sojourn.simulator.policies import DappRules, GroupRules, dapp_policy


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
@settings(deadline=None, max_examples=150)
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
@settings(deadline=None, max_examples=80)
@given(case=full_cases(are_hosts_alike=True), data=st.data())
def test_with_migrations_and_failures_it_decides_as_the_slow_twin(case: Any, data: Any) -> None:
    workload = case[0]
    rules = data.draw(switches(workload.trace.horizon_s // 40, ("paper", "daily", "events")))
    # midnights between the events: a failure at midnight may restart what ran there before or after the day's end
    rules = replace(rules, day_s=rules.day_s + 1 if workload.trace.horizon_s > 40 else 1_000)
    naive_dapp.RULES["dapp-drawn"] = rules
    check_full(dapp_policy("dapp-drawn", rules), case, is_ranked=True)


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
