"""Stranding: golden numbers, its slow twin, and what it does not depend on."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import sojourn.simulator as sim
from sojourn.simulator.loop import ranking
from sojourn.simulator.measures.stranding import inflated


def workload_of(rows: list[Any], horizon: int, n_hosts: int, warmup_s: int = 0) -> sim.Workload:
    trace = naive.trace_of(rows, horizon)
    hosts = pd.DataFrame({"host_id": range(n_hosts), "cpu_cores": 8.0, "mem_gib": 16.0})
    return sim.Workload("test", trace, hosts, sim.true_totals(trace, np.random.default_rng(0)), warmup_s)


def test_golden_numbers() -> None:
    # Two hosts of 8 cores, 16 GiB. At 50 s (the warm-up's end) a request of 5 cores, 4 GiB runs on host 0: 11 cores and
    # 28 GiB are free. Another of 2 cores, 2 GiB has come and gone; one of 1 core comes at 90 s and is not known yet.
    # The pair in the drawn order, again and again, by best fit, as (cores free):
    #   2 on host 0 (3 -> 1), 5 on host 1 (8 -> 3), 2 on host 1 (3 -> 1), 5: first misfit; 2: misfit; over; or
    #   5 on host 1 (3, 3), 2 on host 0 (1, 3), 5: first misfit; 2 on host 1 (1, 1), 2: misfit; over.
    # Free at the end either way: 1 + 1 of 16 cores; 28 - 2 x 2 - 4 = 20 of 32 GiB.
    # At the first misfit: the same, or 1 + 3 of 16 cores and 28 - 4 - 2 = 22 of 32 GiB.
    rows = [(0, 100, 5.0, 4.0), (0, 10, 2.0, 2.0), (90, 100, 1.0, 1.0)]
    workload = workload_of(rows, 100, 2, warmup_s=50)
    result = sim.simulate(workload)
    misfits = set()
    for seed in range(10):
        found = sim.stranding(workload, result, seed=seed, n_moments=1)
        assert found.time_s.tolist() == [50]
        assert found.columns()["stranded_cpu_cores_pct"] == 12.5
        assert found.columns()["stranded_mem_gib_pct"] == 62.5
        misfits.add((found.columns()["stranded_cpu_cores_at_misfit_pct"],
                     found.columns()["stranded_mem_gib_at_misfit_pct"]))
    assert misfits == {(12.5, 62.5), (25.0, 68.75)}


@st.composite
def clusters(draw: Any) -> tuple[np.ndarray, ...]:
    n_hosts = draw(st.integers(1, 5))
    sizes = st.sampled_from([(4, 8), (6, 6), (0, 8)])
    alike = draw(st.booleans())
    first = draw(sizes)
    capacity = np.array([first if alike else draw(sizes) for _ in range(n_hosts)], np.int64)
    free = np.array([[draw(st.integers(0, int(room))) for room in own] for own in capacity], np.int64)
    n_running = np.array([int((own < room).any() or draw(st.booleans()))
                          for own, room in zip(free, capacity, strict=True)], np.int64)
    amounts = st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(any)
    shapes = np.array(draw(st.lists(amounts, min_size=1, max_size=4, unique=True)), np.int64)
    drawn = np.array(draw(st.lists(st.integers(0, len(shapes) - 1), max_size=8)), np.int64)
    return capacity, free, n_running, shapes, drawn


@settings(deadline=None, max_examples=100)
@given(clusters())
def test_inflation_equals_the_slow_twin(case: tuple[np.ndarray, ...]) -> None:
    capacity, free, n_running, shapes, drawn = case
    expected = naive.inflated(free.tolist(), capacity.tolist(), n_running.tolist(), shapes.tolist(), drawn.tolist())
    before = free.copy()
    order = ranking(capacity, shapes)
    for used in [None] if order is None else [None, order]:
        assert inflated(capacity, free, n_running, used, shapes, drawn).tolist() == expected
    assert (free == before).all(), "the state is a copy"


def test_the_draws_are_of_the_seed_and_the_moment_alone() -> None:
    rng = np.random.default_rng(0)
    rows = [(int(a), int(a) + int(s), float(c), float(m)) for a, s, c, m in
            zip(np.sort(rng.integers(0, 900, 300)), rng.integers(5, 60, 300), rng.choice([1, 2, 4], 300),
                rng.choice([1, 4, 8], 300), strict=True)]
    workload = workload_of(rows, 1000, 20, warmup_s=500)
    result = sim.simulate(workload)
    first, again, other = (sim.stranding(workload, result, seed=seed, n_moments=5) for seed in (3, 3, 4))
    assert first.at_misfit_pct.tobytes() == again.at_misfit_pct.tobytes()
    assert (first.at_misfit_pct != other.at_misfit_pct).any()
    assert (first.time_s >= 500).all()
    assert len(first.time_s) == 5
    assert (first.when_full_pct <= first.at_misfit_pct).all()


def test_a_request_without_needs_does_not_fill_for_ever() -> None:
    workload = workload_of([(0, 90, 0.0, 0.0)], 100, 1)
    assert np.isnan(sim.stranding(workload, sim.simulate(workload)).columns()["stranded_cpu_cores_pct"])


def test_what_no_request_needs_is_not_stranded() -> None:
    # 4 of 8 cores are in use and one more request of 4 fits; of the memory nobody asks for any
    workload = workload_of([(0, 90, 4.0, 0.0)], 100, 1)
    found = sim.stranding(workload, sim.simulate(workload)).columns()
    assert found["stranded_cpu_cores_pct"] == 0
    assert np.isnan([found["stranded_mem_gib_pct"], found["stranded_mem_gib_at_misfit_pct"]]).all()


def test_comparisons_show_it_where_asked() -> None:
    workload = workload_of([(0, 90, 4.0, 2.0)], 100, 2)
    assert "stranded_cpu_cores_pct" not in sim.compare(workload, []).table
    assert sim.compare(workload, [], n_stranding_moments=2).table["stranded_cpu_cores_pct"].tolist() == [0]


def test_bad_input_is_refused() -> None:
    workload = workload_of([(0, 90, 4.0, 2.0)], 100, 2)
    result = sim.simulate(workload)
    with pytest.raises(ValueError, match="n_moments must be at least 1, got 0"):
        sim.stranding(workload, result, n_moments=0)
    with pytest.raises(ValueError, match="result must be of this workload, got 2 hosts and 1 requests"):
        sim.stranding(workload_of([(0, 90, 4.0, 2.0)], 100, 3), result)
    with pytest.raises(ValueError, match="result must be of this workload, got 2 hosts and 2 requests"):
        sim.stranding(workload, replace(result, host=np.zeros(2, np.int64)))
