"""Golden numbers, invariants, relations between replays, and input that is refused."""

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

import naive
import sojourn.simulator as sim
from made_workloads import each_policy
from sojourn.simulator import Cluster, Request, kernel
from studies.policies import MIN_USAGE


def hosts_of(*shapes: tuple[float, float]) -> pd.DataFrame:
    return pd.DataFrame({"host_id": range(len(shapes)), "cpu_cores": [s[0] for s in shapes],
                         "mem_gib": [s[1] for s in shapes]})


def workload_of(rows: list[Any], horizon: int, hosts: pd.DataFrame, warmup_s: int = 0) -> sim.Workload:
    trace = naive.trace_of(rows, horizon)
    return sim.Workload("test", trace, hosts, sim.true_totals(trace, np.random.default_rng(0)), warmup_s)


def busy(n: int = 400, seed: int = 0, unit: int = 60) -> list[Any]:
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.integers(0, 500, n))
    stay = np.where(rng.random(n) < 0.8, rng.integers(1, 20, n), rng.integers(50, 400, n))
    cores, mem = rng.choice([1.0, 2.0, 4.0], n), rng.choice([1.0, 4.0, 8.0], n)
    return [(int(a) * unit, int(a + s) * unit, float(c), float(m))
            for a, s, c, m in zip(arrival, stay, cores, mem, strict=True)]


BUSY_HOSTS = hosts_of(*[(16.0, 32.0)] * 20)


def test_golden_metrics() -> None:
    # Two hosts of 8 cores. Request 0: 6 cores in 0..40 on host 0. Request 1: 4 cores in 20..80 on host 1.
    # Request 2: 2 cores in 60..100 joins host 1 (non-empty before empty). Metrics from 20 to 100:
    # empty hosts: 0 in 20..40, 1 in 40..100 -> 60 of 2 * 80 host-seconds = 37.5 %.
    # cores: 6 * 20 + 4 * 60 + 2 * 40 = 440 core-s; in use: 16 * 20 + 8 * 60 = 800 -> 55 %; of 16 * 80 = 34.375 %.
    # fewest hosts: 10 cores in 20..40 -> 2, then 4 and 6 and 2 -> 1: the bound is 37.5 %, too.
    rows = [(0, 40, 6.0, 1.0), (20, 80, 4.0, 1.0), (60, 100, 2.0, 1.0)]
    result = sim.simulate(workload_of(rows, 100, hosts_of((8.0, 8.0), (8.0, 8.0)), warmup_s=20))
    assert result.host.tolist() == [0, 1, 1]
    assert result.metrics.empty_hosts_pct == 37.5
    assert result.metrics.packing_density_pct == pytest.approx(55)
    assert result.metrics.utilisation_pct["cpu_cores"] == 34.375
    assert result.bound_empty_hosts_pct == 37.5
    assert (result.metrics.n_requests, result.metrics.n_events) == (2, 6)


def test_rejections_name_what_was_short() -> None:
    # Hosts of 4 cores, 4 GiB. Taken: 3 cores + 1 GiB on host 0 and 1 core + 3 GiB on host 1.
    taken = [(0, 100, 3.0, 1.0), (0, 100, 2.0, 3.0)]
    # 3 cores: 1 and 2 free -> cores; 3 + 4: cores and memory; 2 cores + 2 GiB: host 0 has 1, host 1 has 2 of 4
    # cores but 1 GiB -> each is there, never both.
    asked = [(10, 20, 3.0, 1.0), (10, 20, 3.0, 4.0), (10, 20, 2.0, 2.0)]
    result = sim.simulate(workload_of([*taken, *asked], 100, hosts_of((4.0, 4.0), (4.0, 4.0))))
    assert result.host.tolist() == [0, 1, -1, -1, -1]
    assert dict(result.metrics.rejections) == {"cpu_cores": 1, "cpu_cores+mem_gib": 1, "fragmentation": 1}
    assert result.metrics.rejected_pct == 60


@kernel
def never(cluster: Cluster, host: int, request: Request, now: int) -> bool:
    return host < 0


def test_a_filter_is_a_reason() -> None:
    result = sim.simulate(workload_of([(0, 9, 1.0, 1.0)], 10, hosts_of((4.0, 4.0))), sim.Policy("x", filter=never))
    assert dict(result.metrics.rejections) == {"filter": 1}


def test_departures_come_before_arrivals_at_one_time() -> None:
    rows = [(0, 10, 4.0, 4.0), (10, 20, 4.0, 4.0)]
    assert sim.simulate(workload_of(rows, 20, hosts_of((4.0, 4.0)))).host.tolist() == [0, 0]


@pytest.mark.parametrize("policy", each_policy(sim.POLICIES))
def test_no_host_is_ever_over_capacity_and_all_end_empty(policy: str) -> None:
    workload = workload_of(busy(), 1000 * 60, BUSY_HOSTS)
    result = sim.simulate(workload, policy, sim.Oracle(workload))
    is_placed = result.host >= 0
    time = np.concatenate([workload.placed_s[is_placed], workload.departure_s[is_placed]])
    kind = np.repeat([1, 0], is_placed.sum())
    who = np.tile(np.flatnonzero(is_placed), 2)
    used = np.zeros_like(workload.capacity)
    for k in np.lexsort((kind, time)):
        used[result.host[who[k]]] += workload.need[who[k]] * (1 if kind[k] else -1)
        assert (used >= 0).all()
        assert (used <= workload.capacity).all()
    assert (used == 0).all()
    assert result.metrics.n_events == len(workload.trace) + is_placed.sum()


@pytest.mark.parametrize("policy", each_policy(sim.POLICIES))
def test_same_input_same_bytes(policy: str) -> None:
    workload = workload_of(busy(), 1000 * 60, BUSY_HOSTS)
    first, again = (sim.simulate(workload, policy, sim.Oracle(workload)) for _ in range(2))
    assert first.host.tobytes() == again.host.tobytes()
    assert first.metrics == again.metrics
    pd.testing.assert_frame_equal(first.series, again.series, check_exact=True)


@pytest.mark.parametrize("policy", each_policy(sim.POLICIES))
def test_names_and_a_host_that_fits_nothing_change_nothing(policy: str) -> None:
    plain = workload_of(busy(), 1000 * 60, BUSY_HOSTS)
    expected = sim.simulate(plain, policy, sim.Oracle(plain)).host.tolist()
    renamed = sim.Workload("test", sim.Trace(plain.trace.requests.assign(request_id=[f"r{i}" for i in range(400)]),
                                             60_000), BUSY_HOSTS.assign(host_id=[f"h{i}" for i in range(20)]),
                           plain.total_s)
    assert sim.simulate(renamed, policy, sim.Oracle(renamed)).host.tolist() == expected
    wider = workload_of(busy(), 1000 * 60, pd.concat([BUSY_HOSTS, hosts_of((0.0, 0.0))], ignore_index=True))
    assert sim.simulate(wider, policy, sim.Oracle(wider)).host.tolist() == expected


def test_best_fit_does_not_know_the_unit_of_time() -> None:
    slow = sim.simulate(workload_of(busy(unit=420), 1000 * 420, BUSY_HOSTS))
    fast = sim.simulate(workload_of(busy(unit=60), 1000 * 60, BUSY_HOSTS))
    assert slow.host.tolist() == fast.host.tolist()
    assert slow.metrics.empty_hosts_pct == pytest.approx(fast.metrics.empty_hosts_pct)


# random draws by row, the next three remember the mix, the other two cut time at fixed edges
NOT_SPLITTING = {"random", "waste-min", "fgd", "open-fgd", "classify-departure", "hybrid"}


@pytest.mark.parametrize("policy", each_policy({*sim.POLICIES, *MIN_USAGE} - NOT_SPLITTING))
def test_a_trace_splits_at_an_idle_point(policy: str) -> None:
    first = busy(seed=1)  # twice the same, as the binding resource is that of the whole trace
    shifted = [(a + 60_000, d + 60_000, c, m) for a, d, c, m in first]
    whole = workload_of([*first, *shifted], 120_000, BUSY_HOSTS)
    half = workload_of(first, 60_000, BUSY_HOSTS)
    expected = sim.simulate(half, policy, sim.Oracle(half)).host.tolist()
    assert sim.simulate(whole, policy, sim.Oracle(whole)).host.tolist() == expected * 2


def test_an_oracle_needs_few_rescores() -> None:
    workload = workload_of(busy(), 1000 * 60, BUSY_HOSTS)
    result = sim.simulate(workload, "nilas", sim.Oracle(workload))
    assert result.metrics.n_rescores < 0.2 * result.metrics.n_requests


def test_rescores_of_the_warm_up_do_not_count() -> None:
    # a third of the requests come in the first 10,000 s
    whole, later = (sim.simulate(workload, "nilas", sim.NoisyOracle(workload, 1.0)).metrics for workload in
                    (workload_of(busy(), 60_000, BUSY_HOSTS, warmup_s) for warmup_s in (0, 10_000)))
    assert 0 < later.n_rescores < whole.n_rescores
    assert later.n_events == whole.n_events
    # the last request comes before 30,000 s, and who only leaves is not asked about
    last = workload_of(busy(), 60_000, BUSY_HOSTS, 30_000)
    assert sim.simulate(last, "nilas", sim.NoisyOracle(last, 1.0)).metrics.n_rescores == 0


def test_bad_input_is_refused() -> None:
    workload = workload_of([(0, 9, 1.0, 1.0)], 10, hosts_of((4.0, 4.0)))
    with pytest.raises(ValueError, match=r"policy must .*, got 'worst'"):
        sim.simulate(workload, "worst")
    with pytest.raises(ValueError, match="source must be given for policy 'nilas'"):
        sim.simulate(workload, "nilas")
    with pytest.raises(ValueError, match="is_ranked must be False or None"):
        sim.simulate(workload, "first-fit", is_ranked=True)
    with pytest.raises(ValueError, match="hosts must be at least one, got none"):
        workload_of([(0, 9, 1.0, 1.0)], 10, hosts_of())
    with pytest.raises(ValueError, match="got 0 larger than every host"):
        workload_of([(0, 9, 5.0, 1.0)], 10, hosts_of((4.0, 4.0)))
    with pytest.raises(ValueError, match=r"warmup_s must be in 0\.\.9, got 10"):
        workload_of([(0, 9, 1.0, 1.0)], 10, hosts_of((4.0, 4.0)), warmup_s=10)

    class TooFew:
        def curves(self, requests: pd.DataFrame) -> sim.Curves:
            return sim.one_step(np.zeros(0, np.int64))

    with pytest.raises(ValueError, match=r"curves must .*, got 0"):
        sim.simulate(workload, "nilas", TooFew())


def test_importing_the_simulator_loads_no_model_library() -> None:
    code = ("import sys, sojourn.simulator; "
            "print([m for m in ('onnxruntime', 'lightgbm', 'mlflow', 'sksurv', 'prefect') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_exported_members() -> None:
    assert sim.__all__ == sorted(sim.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert all(hasattr(sim, name) for name in sim.__all__)
