"""DVLA's list of moves by hand. Hosts have 8 cores; long is more than a day."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_views import pool_of
from sojourn.simulator.rectification import RECTIFIERS, PoolView

DAY_S = 86_400


def pdre(view: PoolView, budget: int = 9) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    return [(each.source, each.requests, each.targets) for each in RECTIFIERS["pdre"](view, budget, DAY_S)]


def test_a_stranded_host_goes_to_the_one_with_most_long_cores() -> None:
    # host 0: 2 of 8 cores long, stranded. Long cores elsewhere: 4 on host 1 (4 free), 5 on host 2 (3 free).
    assert pdre(pool_of([(0, 2, 48), (0, 5, 2), (1, 4, 48), (2, 5, 48)], 3)) == [(0, (0,), (2,))]


def test_of_as_many_long_cores_the_fuller_host_is_taken_and_then_the_lower_index() -> None:
    # hosts 1 to 3: 4 long cores each; on host 2 a short one takes 1 core, so that 1 is left after the move, not 2
    requests = [(0, 2, 48), (1, 4, 48), (2, 4, 48), (2, 1, 1), (3, 4, 48)]
    assert pdre(pool_of(requests, 4)) == [(0, (0,), (2,))]
    assert pdre(pool_of(requests[:3] + requests[4:], 4)) == [(0, (0,), (1,))]


def test_half_of_the_cores_is_not_stranded_and_a_day_is_not_long() -> None:
    assert pdre(pool_of([(0, 4, 48), (1, 4, 48)], 2)) == []
    assert pdre(pool_of([(0, 2, 24), (1, 4, 48)], 2)) == []


def test_never_to_a_host_with_fewer_long_cores_and_never_to_an_empty_one() -> None:
    # host 1 holds 1 long core, host 0 two; hosts 2 and 3 none or nothing. So host 1 goes to host 0.
    view = pool_of([(0, 2, 48), (1, 1, 48), (2, 2, 1)], 4)
    # of two that move one request each the lower index is first: host 0 finds none with 2 long cores, then host 1 goes
    assert pdre(view) == [(1, (1,), (0,))]


def test_two_alike_come_together_and_none_moves_twice() -> None:
    # host 0 goes to host 1, which then has 4 long cores; host 1 was stranded too, and stays
    assert pdre(pool_of([(0, 2, 48), (1, 2, 48)], 2)) == [(0, (0,), (1,))]


def test_all_of_a_host_or_none() -> None:
    # host 0: two long requests of 1 core, hosts 1 and 2 have room for one each: 7 long cores
    requests = [(0, 1, 48), (0, 1, 72), (1, 7, 48), (2, 7, 48)]
    assert pdre(pool_of(requests, 3)) == [(0, (1, 0), (1, 2))]  # the longer first
    assert pdre(pool_of(requests[:3], 3)) == []
    assert pdre(pool_of(requests, 3), budget=1) == []


def test_hosts_with_fewest_candidates_are_first_and_the_budget_is_kept() -> None:
    requests = [(0, 1, 48), (0, 1, 48), (1, 2, 48), (2, 4, 48)]
    assert pdre(pool_of(requests, 3)) == [(1, (2,), (2,)), (0, (0, 1), (2, 2))]
    assert pdre(pool_of(requests, 3), budget=2) == [(1, (2,), (2,))]
    assert pdre(pool_of(requests, 3), budget=0) == []


def test_a_host_with_a_long_request_that_cannot_migrate_is_left_alone() -> None:
    long_fixed = [(0, 1, 48), (0, 1, 48, "fixed"), (1, 4, 48)]
    assert pdre(pool_of(long_fixed, 2)) == []
    short_fixed = [(0, 1, 48), (0, 1, 2, "fixed"), (1, 4, 48)]
    assert pdre(pool_of(short_fixed, 2)) == [(0, (0,), (1,))]


def test_closed_hosts_and_rules_keep_out() -> None:
    requests = [(0, 2, 48), (1, 5, 48), (2, 4, 48)]
    assert pdre(pool_of(requests, 3, is_open=np.array([True, False, True]))) == [(0, (0,), (2,))]
    assert pdre(pool_of(requests, 3, host_kind=np.array([0, 1, 0]), kind=np.array([0, -1, -1]))) == [(0, (0,), (2,))]
    assert pdre(pool_of(requests, 3, group=np.array([7, 7, -1]))) == [(0, (0,), (2,))]
    # two of a group do not follow each other to one host: one finds none
    both = [(0, 1, 48), (0, 1, 48), (1, 4, 48)]
    assert pdre(pool_of(both, 2, group=np.array([3, 3, -1]))) == []


def test_a_target_has_room_gpu_by_gpu() -> None:
    def with_gpus(requests: list[tuple[Any, ...]], milli: list[int], free: list[list[int]]) -> list[Any]:
        cores = pool_of(requests, len(free))
        free_gpus = np.array(free)
        return pdre(replace(cores, need=np.column_stack([cores.need[:, 0], milli]), gpu=1, gpu_free=free_gpus,
                            free=np.column_stack([cores.free[:, 0], free_gpus.sum(axis=1)])))

    requests = [(0, 2, 48), (1, 5, 48), (2, 4, 48)]
    assert with_gpus(requests, [500, 0, 0], [[500, 0], [500, 0], [0, 1000]]) == [(0, (0,), (1,))]
    assert with_gpus(requests, [500, 0, 0], [[500, 0], [300, 300], [0, 1000]]) == [(0, (0,), (2,))]
    assert with_gpus(requests, [1000, 0, 0], [[0, 0], [700, 700], [1000, 0]]) == [(0, (0,), (2,))]
    assert with_gpus(requests, [2000, 0, 0], [[0, 0], [1000, 900], [1000, 900]]) == []
    # two with GPUs to one host: which GPU the first gets is known when it is there
    assert with_gpus([(0, 1, 48), (0, 1, 48), (1, 4, 48)], [500, 500, 0], [[0], [1000]]) == []
    assert with_gpus([(0, 1, 48), (0, 1, 48), (1, 4, 48)], [500, 0, 0], [[500], [1000]]) == [(0, (0, 1), (1, 1))]


def test_a_prediction_is_that_at_the_uptime() -> None:
    # a curve of 1 h at the start, 100 h from 2 h on; at 3 h of uptime 97 h are left, at 1 h 30 min the 1 h has doubled
    view = pool_of([(0, 2, 0), (1, 4, 48)], 2, curve_start=np.array([0, 2]), curve_end=np.array([2, 3]),
                   breakpoint_s=np.array([0, 7_200, 0]), total_s=np.array([7_200, 360_000, 172_800]),
                   uptime_s=np.array([10_800, 0]))
    assert view.remaining_s().tolist() == [349_200, 172_800]
    assert pdre(view) == [(0, (0,), (1,))]
    assert view.remaining_s().dtype == np.int64


@pytest.mark.parametrize("n_hosts", [1, 3])
def test_nothing_runs(n_hosts: int) -> None:
    assert pdre(pool_of([], n_hosts)) == []


@given(seed=st.integers(0, 2**32 - 1), budget=st.integers(0, 6), name=st.sampled_from(sorted(RECTIFIERS)))
def test_every_planner_keeps_the_budget_the_room_and_the_rules(seed: int, budget: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    n_hosts = int(rng.integers(1, 9))
    free = np.full(n_hosts, 8)
    requests = []
    for _ in range(20):
        host, cores = int(rng.integers(n_hosts)), int(rng.integers(1, 5))
        if free[host] >= cores:
            free[host] -= cores
            requests.append((host, cores, float(rng.choice([1, 30, 200])), *(["fixed"] * (rng.random() < 0.2))))
    view = pool_of(requests, n_hosts, is_open=rng.random(n_hosts) < 0.9)
    found = RECTIFIERS[name](view, budget, DAY_S)
    moved = [position for each in found for position in each.requests]
    targets = [target for each in found for target in each.targets]
    assert len(moved) == len(set(moved)) <= budget
    assert not view.is_fixed[moved].any()
    assert view.is_open[targets].all()
    assert (view.n_holding[targets] > 0).all()
    assert not set(targets) & {each.source for each in found}
    left = view.free.copy()
    np.subtract.at(left, targets, view.need[moved])
    assert (left >= 0).all()
    for each in found:
        assert (view.host[list(each.requests)] == each.source).all()
