"""The hosts that a trace is replayed on where the user names none, and what is left out."""

import numpy as np
import pandas as pd
import pytest

import naive
import sojourn.simulator as sim
from sojourn.simulator.workloads import Demand
from sojourn.simulator.workloads.host_shape import host_shape
from sojourn.simulator.workloads.workload import LeftOut


def _at_once(n: int, cores: float, gib: float, **columns: float) -> sim.Trace:
    """n requests that run together from 0 to 3,600 s."""
    table = pd.DataFrame({"request_id": range(n), "arrival_s": 0, "departure_s": 3_600, "cpu_cores": cores,
                          "mem_gib": gib, **columns})
    return sim.Trace(table, 7_200)


def test_usual_hosts_where_they_hold_the_trace() -> None:
    # 300 x 4 cores: 1,200 / (0.8 x 96) = 15.6 hosts
    workload = sim.build_workload("trace", _at_once(300, 4.0, 8.0), is_fitted=True)
    assert workload.hosts.drop(columns="host_id").drop_duplicates().to_dict("records") == [
        {"cpu_cores": 96.0, "mem_gib": 384.0}]
    assert (len(workload.hosts), workload.doubts()) == (16, [])
    assert "the usual host" in workload.description


def test_requests_larger_than_usual_hosts_get_hosts_that_hold_them() -> None:
    # 3,000 cores each: 8 of them would be 24,576 cores and 40 x 3,000 / (0.8 x 24,576) = 7 hosts; 4 give 13
    shape = host_shape(_at_once(40, 3_000.0, 0.0))
    assert dict(shape.sizes) == {"cpu_cores": 12_288.0, "mem_gib": 49_152.0}
    workload = sim.build_workload("trace", _at_once(40, 3_000.0, 0.0), is_fitted=True)
    assert (workload.left_out.n_requests, len(workload.hosts)) == (0, 13)


def test_requests_that_are_shares_of_a_machine_get_small_hosts() -> None:
    # 200 x 0.05 of a machine: 8 of them are 0.4 -> 0.5, and 10 / (0.8 x 0.5) = 25 hosts; a host of 96 would be one
    assert dict(host_shape(_at_once(200, 0.05, 0.02)).sizes) == {"cpu_cores": 0.5, "mem_gib": 0.1875}


def test_the_traces_own_hosts_come_first_the_commonest_of_them() -> None:
    plain = _at_once(300, 4.0, 8.0)
    hosts = pd.DataFrame({"host_id": range(5), "cpu_cores": [32.0, 32.0, 64.0, 32.0, 64.0], "mem_gib": 128.0})
    with_hosts = sim.Trace(plain.requests, plain.horizon_s, hosts=hosts)
    assert dict(host_shape(with_hosts).sizes) == {"cpu_cores": 32.0, "mem_gib": 128.0}
    too_small = sim.Trace(plain.requests, plain.horizon_s, hosts=hosts.assign(cpu_cores=2.0))
    assert dict(host_shape(too_small).sizes) == {"cpu_cores": 96.0, "mem_gib": 384.0}


def test_gpus_get_hosts_with_gpus() -> None:
    workload = sim.build_workload("trace", _at_once(300, 4.0, 8.0, gpu=1.0), is_fitted=True)
    assert (workload.left_out.n_requests, len(workload.hosts)) == (0, 47)  # 300 / (0.8 x 8) by GPU
    assert " / 8 GPUs " in workload.description


def test_a_few_giants_are_left_out_and_said_in_core_hours() -> None:
    # 990 x 1 core and 10 x 500: 990 of 5,990 core-hours without them. Hosts must hold them: nothing is left out
    table = pd.concat([_at_once(990, 1.0, 1.0).requests, _at_once(10, 500.0, 1.0).requests], ignore_index=True)
    trace = sim.Trace(table.assign(request_id=range(1_000)), 7_200)
    assert sim.build_workload("trace", trace, is_fitted=True).left_out.n_requests == 0
    given = sim.build_workload("trace", trace, cpu_cores=96, mem_gib=384)
    assert given.left_out == LeftOut(10, 1_000, 5_000.0, 5_990.0)
    assert "10 (1.0%) of the requests with 83.5% of the core-hours are larger than every host" in given.description
    assert given.doubts() == [
        "check: 10 (1.0%) of the requests with 83.5% of the core-hours are larger than every host and left out; gains "
        "are of the others alone. Give larger hosts with --host-cpu-cores and --host-mem-gib"]


def test_few_hosts_are_said() -> None:
    [doubt] = sim.build_workload("trace", _at_once(3, 90.0, 1.0), cpu_cores=96, mem_gib=384).doubts()
    assert doubt.startswith("check: 4 hosts are few, so that one of them is 25 % of the pool")


def test_one_request_and_empty_sizes_have_a_shape() -> None:
    assert dict(host_shape(_at_once(1, 0.0, 0.0)).sizes) == {"cpu_cores": 1.0, "mem_gib": 4.0}
    assert dict(host_shape(_at_once(1, 2.0, 3.0)).sizes) == {"cpu_cores": 2.0, "mem_gib": 3.0}
    with pytest.raises(ValueError, match="load must be finite and above 0, got 0"):
        host_shape(_at_once(1, 1.0, 1.0), 0.0)


def test_jobs_that_fail_at_once_do_not_set_the_number_of_hosts() -> None:
    # 50 x 1,000 cores for one second, in a trace that needs 100 cores: 100 / (0.8 x 96) = 1.3 hosts, not 652
    rows = [(0, 3_600, 1.0, 1.0)] * 100 + [(1_800, 1_801, 96.0, 1.0)] * 500
    workload = sim.build_workload("trace", naive.trace_of(rows, 7_200), cpu_cores=96, mem_gib=384)
    assert len(workload.hosts) == 2
    assert workload.load > 100  # of the moment; what has no room then is rejected


@pytest.mark.parametrize(("amount", "expected"), [
    ([3, 90, 3], 3),  # a moment
    ([3, 6, 3], 6),  # a moment, and not above twice the rest
    ([0, 90, 0], 90),  # nothing else
])  # fmt: skip
def test_lasting_peak(amount: list[int], expected: int) -> None:
    steps = Demand(np.array([0, 50, 51]), np.array(amount)[:, None])
    assert steps.lasting_peak(500).tolist() == [expected]


def test_a_lasting_demand_counts_in_pieces() -> None:
    # 90 for 30 s, twice: 60 s in all
    steps = Demand(np.array([0, 100, 130, 300]), np.array([[3], [90], [3], [90]]))
    assert steps.lasting_peak(330).tolist() == [90]
    assert steps.lasting_peak(329).tolist() == [3]
