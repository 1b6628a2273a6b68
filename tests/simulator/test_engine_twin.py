"""Every placement of the engine equals the slow twin's, which recomputes everything at every decision."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import sojourn.simulator as sim
from sojourn.simulator.policies import PACKING

POLICY_NAMES = sorted(set(sim.POLICIES) - {"lava"})
RANKED_NAMES = [name for name in POLICY_NAMES if sim.POLICIES[name].scorers[-len(PACKING):] == PACKING]
STEP_S = st.sampled_from([1, 7, 600, 1800, 3600, 7200])


@st.composite
def breakpoints(draw: Any) -> list[tuple[int, int]]:
    """One valid curve as (uptime, total) pairs; the last total may lie below its uptime."""
    uptimes = [0, *np.cumsum(draw(st.lists(STEP_S, max_size=4))).tolist()]
    totals = [nxt + draw(st.sampled_from([0, 1, 900, 5400, 40_000])) for nxt in uptimes[1:]]
    return list(zip(uptimes, [*totals, draw(st.integers(0, 20_000))], strict=True))


@st.composite
def cases(draw: Any, are_hosts_alike: bool | None = None) -> tuple[sim.Workload, sim.Curves, list[Any]]:
    """A small workload with equal time stamps, unknown and negative starts and censored requests, and curves."""
    unit = draw(st.sampled_from([1, 900, 3600]))
    horizon = 40 * unit
    rows: list[tuple[int | None, int | None, float, float]] = []
    for _ in range(draw(st.integers(1, 25))):
        arrival = draw(st.one_of(st.none(), st.integers(-6, 30)))
        departure = draw(st.one_of(st.none(), st.integers(max(arrival or 0, 0), 40)))
        rows.append((None if arrival is None else arrival * unit, None if departure is None else departure * unit,
                     draw(st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0])), draw(st.sampled_from([1.0, 2.0, 4.0]))))
    is_alike = draw(st.booleans()) if are_hosts_alike is None else are_hosts_alike
    n_hosts = draw(st.integers(1, 5))
    shapes = [(4.0, 4.0)] + [(4.0, 4.0) if is_alike else draw(st.sampled_from([(4.0, 4.0), (8.0, 4.0), (2.0, 12.0)]))
                             for _ in range(n_hosts - 1)]
    hosts = pd.DataFrame({"host_id": range(n_hosts), "cpu_cores": [s[0] for s in shapes],
                          "mem_gib": [s[1] for s in shapes]})
    trace = naive.trace_of(rows, horizon)
    total = sim.true_totals(trace, np.random.default_rng(draw(st.integers(0, 3))))
    workload = sim.Workload("test", trace, hosts, total, warmup_s=draw(st.integers(0, horizon - 1)))
    distinct = draw(st.lists(breakpoints(), min_size=1, max_size=4))
    index = [draw(st.integers(0, len(distinct) - 1)) for _ in rows]
    flat = [pair for curve in distinct for pair in curve]
    overhang = None
    if draw(st.booleans()):
        sizes = st.sampled_from([0, 1, 1799, 1800, 7200, 50_000])
        overhang = [sorted((draw(sizes) for _ in curve), reverse=True) for curve in distinct]
    curves = sim.Curves(np.cumsum([0, *map(len, distinct)]), np.array([u for u, _ in flat]),
                        np.array([t for _, t in flat]), np.array(index),
                        None if overhang is None else np.array([s for own in overhang for s in own]))
    return workload, curves, [distinct[i] for i in index]


def twin_of(workload: sim.Workload, per_request: list[Any], curves: sim.Curves | None = None) -> naive.Replay:
    overhang = None
    if curves is not None and curves.overhang_s is not None:
        overhang = [curves.overhang_s[curves.offsets[c]:curves.offsets[c + 1]].tolist() for c in curves.curve_of()]
    return naive.Replay(workload.start_s.tolist(), workload.departure_s.tolist(), workload.need.tolist(),
                        workload.capacity.tolist(), per_request, workload.trace.horizon_s, overhang)


@pytest.mark.parametrize("policy", POLICY_NAMES)
@settings(deadline=None, max_examples=100)
@given(case=cases())
def test_every_decision_equals_the_slow_twin(policy: str, case: Any) -> None:
    workload, curves, per_request = case
    source = sim.Held(workload.request_ids, curves)
    result = sim.simulate(workload, policy, source)
    expected, _ = twin_of(workload, per_request, curves).run(policy)
    assert result.host.tolist() == expected


@pytest.mark.parametrize("policy", RANKED_NAMES)
@settings(deadline=None, max_examples=60)
@given(case=cases(are_hosts_alike=True))
def test_ranked_and_plain_scan_decide_alike(policy: str, case: Any) -> None:
    workload, curves, _ = case
    source = sim.Held(workload.request_ids, curves)
    ranked = sim.simulate(workload, policy, source, is_ranked=True)
    plain = sim.simulate(workload, policy, source, is_ranked=False)
    assert ranked.host.tolist() == plain.host.tolist()
    pd.testing.assert_frame_equal(ranked.series, plain.series)


@settings(deadline=None, max_examples=60)
@given(case=cases())
def test_oracle_and_one_shot_equal_the_slow_twin(case: Any) -> None:
    workload, curves, per_request = case
    sources: list[tuple[sim.LifetimeSource, list[Any]]] = [
        (sim.Oracle(workload), [[(0, int(total))] for total in workload.total_s]),
        (sim.OneShot(sim.Held(workload.request_ids, curves)), [curve[:1] for curve in per_request]),
    ]
    for source, pairs in sources:
        expected, _ = twin_of(workload, pairs).run("nilas")
        assert sim.simulate(workload, "nilas", source).host.tolist() == expected


@pytest.mark.parametrize("policy", ["best-fit", "nilas"])
@settings(deadline=None, max_examples=60)
@given(case=cases())
def test_empty_hosts_equal_the_slow_twin_without_warmup(policy: str, case: Any) -> None:
    workload, curves, per_request = case
    cold = sim.Workload("test", workload.trace, workload.hosts, workload.total_s)
    result = sim.simulate(cold, policy, sim.Held(cold.request_ids, curves))
    twin = twin_of(cold, per_request)
    twin.run(policy)
    room = cold.trace.horizon_s * len(cold.hosts)
    assert result.metrics.empty_hosts_pct == pytest.approx(100 * twin.empty_seconds / room)
    assert (result.series["empty_hosts_pct"] * np.diff([*result.series["time_s"], cold.trace.horizon_s])).sum() == \
        pytest.approx(100 * twin.empty_seconds / len(cold.hosts))


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICY_NAMES)
@settings(deadline=None, max_examples=1000)
@given(case=cases())
def test_every_decision_equals_the_slow_twin_in_depth(policy: str, case: Any) -> None:
    workload, curves, per_request = case
    expected, _ = twin_of(workload, per_request, curves).run(policy)
    assert sim.simulate(workload, policy, sim.Held(workload.request_ids, curves)).host.tolist() == expected
