"""GPUs one by one, types of hosts, and FGD's scores with their arithmetic. Twins: tests/naive_gpu.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import sojourn.simulator as sim
from made_workloads import check_full, full_cases
from sojourn.features.trace import Trace
from sojourn.simulator import POLICIES, Cluster, Request
from sojourn.simulator.policies.fgd import fragmentation_step, gpus_left, mix_state
from sojourn.simulator.policies.policy import opens_host


def gpu_host(free: list[int], free_milli_cores: int, mix: list[tuple[list[int], int]]) -> Cluster:
    """A host of 8 cores, GPUs first; and a mix of (milli-GPU and milli-cores) with counts."""
    state = mix_state(1, 9)
    for k, (need, count) in enumerate(mix):
        state.need[k, :2], state.n_of[k] = need, count
    state.total[0] = sum(count for _, count in mix)
    return Cluster(np.array([[1000 * len(free), 8000]]), np.array([[sum(free), free_milli_cores]]), np.array([1]),
                   np.array([0]), state=state, gpu_free=np.array([free]), gpu_dimension=np.array([0]))


@pytest.mark.parametrize(("free", "mix", "need", "expected"), [
    # nothing seen yet
    ([1000, 1000], [], [300, 1000], 10_000),
    # all ask for half a GPU: on GPU 0, 400 that were useless become 100; on GPU 1 nothing changes. -300 / 40 = -7.5
    ([400, 1000], [([500, 1000], 1)], [300, 1000], 9_992),
    # a whole GPU leaves 1 of 2 free, all useless to those who ask for 2: from 0 to 1,000 useless, / 40 = +25
    ([1000, 1000], [([2000, 1000], 1)], [1000, 1000], 10_025),
    # half ask for 2 GPUs, half for a share of .2: only the former find the rest useless, 500 / 40 = 12.5, to even 12
    ([1000, 1000], [([2000, 1000], 1), ([200, 1000], 1)], [1000, 1000], 10_012),
    # a request without GPU takes the last cores: both GPUs become useless, 2,000 / 40
    ([1000, 1000], [([500, 1000], 1)], [0, 8000], 10_050),
    # the rare shape is beyond 95 % of the mix: 20 of 21 ask for .2 and find both GPUs of use before and after
    ([1000, 1000], [([200, 1000], 20), ([2000, 1000], 1)], [1000, 1000], 10_000),
])  # fmt: skip
def test_fragmentation_step(free: list[int], mix: list[Any], need: list[int], expected: int) -> None:
    assert fragmentation_step(gpu_host(free, 8000, mix), 0, Request(0, np.array(need), 0), 0) == expected


@pytest.mark.parametrize(("free", "milli", "expected"), [([400, 1000], 300, 1_100), ([1000, 1000], 2000, 0),
                                                         ([700], 0, 700), ([], 0, 0)])
def test_gpus_left(free: list[int], milli: int, expected: int) -> None:
    host = gpu_host(free, 8000, [])._replace(gpu_free=np.array(free, np.int64).reshape(1, -1))
    assert gpus_left(host, 0, Request(0, np.array([milli, 1000]), 0), 0) == expected


def test_within_a_step_the_fewest_free_gpus_decide() -> None:
    # The third makes no GPU useless on either host. Cores bind, and by best fit it would go to host 1, with free GPUs.
    table = pd.DataFrame({"request_id": range(3), "arrival_s": range(3), "departure_s": 100,
                          "cpu_cores": [12.0, 20.0, 1.0], "mem_gib": 1.0, "gpu": [1.0, 2.0, 0.0]})
    hosts = pd.DataFrame({"host_id": [0, 1], "cpu_cores": 40.0, "mem_gib": 64.0, "gpu": [1.0, 9.0]})
    workload = sim.Workload("two", sim.Trace(table, 100), hosts, np.array([100, 99, 98]))
    assert workload.resources[0] == "cpu_cores"
    assert sim.simulate(workload, "fgd", sim.Oracle(workload)).host.tolist() == [0, 1, 0]


def test_open_fgd_takes_a_host_in_use_first() -> None:
    assert POLICIES["open-fgd"].scorers == (opens_host, *POLICIES["fgd"].scorers)


def workload_of(rows: list[tuple[float, Any]], n_gpus: list[float], models: list[str]) -> sim.Workload:
    """Requests (GPUs, model) that all arrive in turn and stay; hosts of 64 cores."""
    table = pd.DataFrame({"request_id": range(len(rows)), "arrival_s": range(len(rows)), "departure_s": 1_000,
                          "cpu_cores": 1.0, "mem_gib": 1.0, "gpu": [gpu for gpu, _ in rows],
                          "model": [model for _, model in rows]})
    hosts = pd.DataFrame({"host_id": range(len(n_gpus)), "cpu_cores": 64.0, "mem_gib": 64.0, "gpu": n_gpus,
                          "model": models})
    trace = Trace(table, 1_000)
    return sim.Workload("test", trace, hosts, np.full(len(rows), 1_000), constraints=sim.Constraints("model"))


def test_a_share_is_on_one_gpu_and_whole_ones_are_free() -> None:
    # .6 + .6 are on two GPUs; .7 then finds .4 and .4 free and is rejected, as one amount it would fit; .4 fits
    found = sim.simulate(workload_of([(0.6, None), (0.6, None), (0.7, None), (0.4, None), (1.0, None)], [2.0], ["a"]),
                         is_checked=True)
    assert found.host.tolist() == [0, 0, -1, 0, -1]
    # a host or a request that is not counted in whole ones or parts of one: one amount
    parts = sim.simulate(workload_of([(0.6, None), (0.6, None), (0.7, None)], [2.5], ["a"]), is_checked=True)
    assert parts.host.tolist() == [0, 0, 0]


def test_a_share_gets_the_fullest_gpu_with_room() -> None:
    # .5 on GPU 0, .3 beside it: then a whole one has GPU 1
    found = sim.simulate(workload_of([(0.5, None), (0.3, None), (1.0, None)], [2.0], ["a"]), is_checked=True)
    assert found.host.tolist() == [0, 0, 0]


def test_one_of_several_types() -> None:
    found = sim.simulate(workload_of([(1.0, "b|c"), (1.0, "c"), (1.0, "a"), (1.0, "x|y")], [1.0, 1.0, 1.0],
                                     ["a", "b", "c"]), is_checked=True)
    assert found.host.tolist() == [1, 2, 0, -1]


def test_too_many_types_for_several() -> None:
    models = [f"m{k}" for k in range(62)]
    with pytest.raises(ValueError, match=r"fewer than 62 values of 'model'.*got 62 and 'm0\|m1'"):
        sim.simulate(workload_of([(1.0, "m0|m1")], [1.0] * 62, models))
    sim.simulate(workload_of([(1.0, "m0")], [1.0] * 62, models))  # one each may be as many as there are


def test_why_a_host_without_a_free_gpu_is_excluded() -> None:
    workload = workload_of([(0.6, None), (0.6, None), (0.7, None)], [2.0, 2.0], ["a", "a"])
    reasons = sim.explain(workload, "best-fit", None, 2).table["excluded"].tolist()
    assert reasons == ["no room: gpu, on no single GPU of the host or on too few whole ones", ""]


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(case=full_cases())
def test_a_gpu_score_equals_the_slow_twin(case: Any) -> None:
    check_full(POLICIES["fgd"], case, is_ranked=False)
