"""FGD's experiment: how pods come, the rivals' scores by hand, and a small pool by each policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sojourn.simulator import Cluster, Request
from studies.inflation import POLICIES, clustering, dot_product, free_share, measured, packing, tag_state, workload

NODES = pd.DataFrame({"sn": ["a", "b", "c"], "cpu_milli": 32_000, "memory_mib": 65_536, "gpu": [2, 2, 4],
                      "model": ["T4", "T4", "V100"]})
PODS = pd.DataFrame({"cpu_milli": [1_000, 2_000, 4_000], "memory_mib": 1_024, "num_gpu": [1, 1, 0],
                     "gpu_milli": [500, 1_000, 0], "gpu_spec": ["T4|V100", None, None]})


def test_pods_come_in_a_seeds_order_until_they_ask_for_more_than_all_gpus() -> None:
    one, again, other = workload(NODES, PODS, 0), workload(NODES, PODS, 0), workload(NODES, PODS, 1)
    asked = one.trace.requests["gpu"].cumsum().to_numpy()
    assert asked[-2] < 1.3 * 8 <= asked[-1]
    assert one.trace.requests["gpu"].tolist() == again.trace.requests["gpu"].tolist()
    assert one.trace.requests["gpu"].tolist() != other.trace.requests["gpu"].tolist()
    assert sorted(one.trace.requests["gpu"][:3]) == [0.0, 0.5, 1.0]  # each pod of the list once before any again
    assert (one.start_s + one.total_s > one.trace.horizon_s).all()


def pool(gpu_free: list[list[int]], cores_free: list[int]) -> Cluster:
    """Hosts with GPUs and 64 cores; GPUs are resource 0, cores 1."""
    free = np.column_stack([np.array(gpu_free).sum(axis=1), cores_free])
    state = tag_state(len(free), 9)
    state.idx_cpu[0] = 1
    capacity = np.tile(np.array([1_000 * len(gpu_free[0]), 64_000]), (len(free), 1))
    return Cluster(capacity, free, np.zeros(len(free), np.int64), np.zeros(1, np.int64), state=state,
                   gpu_free=np.array(gpu_free), gpu_dimension=np.array([0]))


@pytest.mark.parametrize(("milli", "expected"),
                         [(500, [5.0, 51.0, 69.0, 6.0]), (1_000, [51.0, 51.0, 69.0]), (0, [0.0])])
def test_packing_prefers_gpus_in_use_then_hosts_in_use(milli: int, expected: list[float]) -> None:
    hosts = pool([[500, 1_000], [1_000, 400], [1_000, 1_000], [600, 700]], [64_000] * 4)
    found = [packing(hosts, host, Request(0, np.array([milli, 1_000]), 0), 0) for host in range(len(expected))]
    assert found == expected


def test_clustering_prefers_hosts_of_the_same_tag_alone() -> None:
    hosts = pool([[500, 1_000]] * 4, [64_000] * 4)
    hosts.state.n_of[0, 0] = hosts.state.n_of[1, [0, 2]] = hosts.state.n_of[3, 2] = 1
    found = [clustering(hosts, host, Request(0, np.array([300, 1_000]), 0), 0) for host in range(4)]
    assert found == [5.0, 30.0, 55.0, 80.0]


def test_best_fit_and_dot_product_by_hand() -> None:
    hosts = pool([[0, 1_000, 1_000, 1_000]], [64_000])
    asked: Any = Request(0, np.array([1_000, 32_000]), 0)
    assert free_share(hosts, 0, asked, 0) == np.ceil(50 * (32 / 128 + 2 / 8))
    assert dot_product(hosts, 0, asked, 0) == np.ceil(50 * (64 / 128 * 32 / 128 + 3 / 8 * 1 / 8))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(POLICIES))
def test_each_policy_fills_a_small_pool(name: str) -> None:
    at_all, at_end, useless = measured(workload(NODES, PODS, 3), POLICIES[name])
    assert 50 <= at_all <= at_end <= 100
    assert 0 <= useless <= 100
