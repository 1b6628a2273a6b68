"""DAPP's switches with short days, so that midnights, groups and updates come within a small replay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
@settings(deadline=None, max_examples=400)
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
@settings(deadline=None, max_examples=150)
@given(case=full_cases(are_hosts_alike=True), data=st.data())
def test_with_migrations_and_failures_it_decides_as_the_slow_twin(case: Any, data: Any) -> None:
    workload = case[0]
    rules = data.draw(switches(workload.trace.horizon_s // 40, ("paper", "daily", "events")))
    # midnights between the events: a failure at midnight may restart what ran there before or after the day's end
    rules = replace(rules, day_s=rules.day_s + 1 if workload.trace.horizon_s > 40 else 1_000)
    naive_dapp.RULES["dapp-drawn"] = rules
    check_full(dapp_policy("dapp-drawn", rules), case, is_ranked=True)
