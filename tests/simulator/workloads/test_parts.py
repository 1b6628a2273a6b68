"""Jobs that span hosts: their parts fill hosts, run together, and add up to the job."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sojourn.simulator as sim
from sojourn.flows.placement.workloads import positions_of, replica
from sojourn.simulator.workloads import whole_amounts
from sojourn.simulator.workloads.host_shape import in_parts


def _jobs(cores: list[float], gib: list[float]) -> sim.Trace:
    table = pd.DataFrame({"request_id": range(len(cores)), "arrival_s": np.arange(len(cores)) * 10,
                          "departure_s": np.arange(len(cores)) * 10 + 900, "cpu_cores": cores, "mem_gib": gib})
    return sim.Trace(table, 2_000, meta={"spans_hosts": True})


@given(st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 9_000)), min_size=1, max_size=30),
       st.integers(1, 96), st.integers(1, 384))
def test_parts_fit_and_add_up(jobs: list[tuple[int, int]], cores: int, gib: int) -> None:
    trace = _jobs([job[0] / 7.0 for job in jobs], [job[1] / 3.0 for job in jobs])
    sizes = {"cpu_cores": float(cores), "mem_gib": float(gib)}
    parts = in_parts(trace, sizes)
    need = whole_amounts(parts.trace.requests, ("cpu_cores", "mem_gib"))
    assert (need <= whole_amounts(pd.DataFrame([sizes]), ("cpu_cores", "mem_gib"))).all()
    for name in ("cpu_cores", "mem_gib"):
        total = np.bincount(parts.job_of, parts.trace.requests[name].to_numpy(), len(trace))
        np.testing.assert_allclose(total, trace.requests[name].to_numpy(), rtol=2e-6)
    # no more parts than hosts are needed: all but a job's last one fill a host
    is_last = np.append(np.diff(parts.job_of) > 0, True)
    filled = np.maximum(need[:, 0] / (1000 * cores), need[:, 1] / (1024 * gib))
    assert (filled[~is_last] > 0.999 - 1 / 1000).all()


def test_parts_find_their_jobs_features() -> None:
    parts = in_parts(_jobs([4.0, 10.0], [1.0, 5.0]), {"cpu_cores": 4.0, "mem_gib": 8.0})
    found = positions_of(parts.trace.requests["request_id"], pd.Series([0, 1]))
    assert found.tolist() == parts.job_of.tolist() == [0, 1, 1, 1]


def test_jobs_of_a_batch_system_are_replayed_whole_on_small_hosts() -> None:
    # 1,000 cores for all of the time: 11 hosts of 96 by itself; 1,000 / (0.8 x 96) = 13.02
    workload = sim.build_workload("trace", _jobs([1_000.0], [0.0]), is_fitted=True)
    assert (len(workload.hosts), len(workload.trace), workload.left_out.n_requests) == (14, 11, 0)
    assert workload.description.endswith("(the usual host); 1 of 1 jobs span hosts and are replayed in parts")
    assert set(workload.total_s) == {900}
    given_hosts = sim.build_workload("trace", _jobs([1_000.0], [0.0]), cpu_cores=500, mem_gib=1)
    assert (len(given_hosts.hosts), len(given_hosts.trace)) == (3, 2)


def _on_nodes(cores: list[float], n_nodes: list[float], gib: float = 0.0) -> sim.Trace:
    table = _jobs(cores, [gib] * len(cores)).requests.assign(n_nodes=n_nodes)
    return sim.Trace(table, 2_000, meta={"spans_hosts": True, "hosts_column": "n_nodes"})


def test_a_job_of_n_nodes_is_n_parts_and_others_are_divided_as_before() -> None:
    # a: 10 cores on 1 node, b: 10 on 4 nodes, c: 10 on an unknown number: 4 + 4 + 2 on hosts of 4
    parts = in_parts(_on_nodes([4.0, 10.0, 10.0, 2.0], [1, 4, np.nan, 2]), {"cpu_cores": 4.0, "mem_gib": 8.0})
    assert parts.job_of.tolist() == [0, 1, 1, 1, 1, 2, 2, 2, 3, 3] and parts.n_divided == 3
    assert parts.trace.requests["cpu_cores"].tolist() == [4.0, *[2.5] * 4, 4.0, 4.0, 2.0, 1.0, 1.0]
    assert parts.trace.requests["request_id"].tolist()[:3] == ["0", "1#1", "1#2"]


def test_a_one_node_job_larger_than_every_host_is_left_out_and_counted() -> None:
    # 128 cores on one node do not fit a host of 96; 256 on 4 nodes do. 900 s each: 32 of 96 core-hours are left out
    workload = sim.build_workload("trace", _on_nodes([128.0, 256.0], [1, 4]), cpu_cores=96, mem_gib=384)
    assert workload.trace.requests["cpu_cores"].tolist() == [64.0] * 4 and workload.job_of is not None
    assert workload.job_of.tolist() == [0] * 4
    assert (workload.left_out.n_requests, workload.left_out.n_all) == (1, 2)
    assert workload.left_out.core_hours == pytest.approx(32.0)
    assert workload.left_out.core_hours_all == pytest.approx(96.0)
    assert "1 (50.0%) of the requests with 33.3% of the core-hours are larger than every host" in workload.description
    assert workload.description.endswith("1 of 2 jobs span hosts and are replayed in parts")


def test_chosen_hosts_hold_what_ran_on_one_node() -> None:
    # 20 jobs of 128 cores and 500 GiB on one node each: the usual host of 96 and its parts hold none
    one_node = sim.build_workload("trace", _on_nodes([128.0] * 20, [1] * 20, 500.0), is_fitted=True)
    assert one_node.hosts[["cpu_cores", "mem_gib"]].drop_duplicates().to_numpy().tolist() == [[128.0, 512.0]]
    assert (len(one_node.trace), one_node.left_out.n_requests) == (20, 0)
    # the same jobs on two nodes each fit the usual host by halves
    two_nodes = sim.build_workload("trace", _on_nodes([128.0] * 20, [2] * 20, 500.0), is_fitted=True)
    assert set(two_nodes.hosts["cpu_cores"]) == {96.0} and len(two_nodes.trace) == 40
    # one job of 128 among many of 48 has under 5 % of the core-hours: left out by the same share rule, and said
    mixed = sim.build_workload("trace", _on_nodes([128.0] + [48.0] * 90, [1] * 91), is_fitted=True)
    assert set(mixed.hosts["cpu_cores"]) == {96.0} and mixed.left_out.n_requests == 1


def test_without_node_counts_nothing_changes() -> None:
    plain, unknown = _jobs([1_000.0, 25.0], [0.0, 9.0]), _on_nodes([1_000.0, 25.0], [np.nan] * 2)
    table = unknown.requests.assign(mem_gib=plain.requests["mem_gib"])
    built = [sim.build_workload("trace", trace, is_fitted=True)
             for trace in (plain, sim.Trace(table, 2_000, meta=unknown.meta))]
    assert built[0].description == built[1].description
    pd.testing.assert_frame_equal(built[0].trace.requests, built[1].trace.requests.drop(columns="n_nodes"))


def test_hosts_are_halved_until_there_are_enough() -> None:
    # 100 cores at once: 2 hosts of 96, 3 of 48, 6 of 24, 11 of 12
    workload = sim.build_workload("trace", _jobs([25.0] * 4, [0.0] * 4), is_fitted=True)
    assert workload.hosts["cpu_cores"].tolist() == [12.0] * 11


def test_parts_of_a_job_move_together_in_a_replica() -> None:
    workload = sim.build_workload("trace", _jobs([40.0] * 30, [0.0] * 30), cpu_cores=8, mem_gib=1)
    moved = replica(workload, 3)
    assert moved.job_of is not None
    frame = pd.DataFrame({"job": moved.job_of, "start": moved.start_s, "total": moved.total_s})
    assert len(frame.drop_duplicates()) == frame["job"].nunique()
    assert frame["start"].nunique() > 10  # and jobs do not


def test_censored_jobs_keep_one_end() -> None:
    table = _jobs([40.0] * 6, [0.0] * 6).requests
    table.loc[[1, 4], "departure_s"] = pd.NA
    workload = sim.build_workload("trace", sim.Trace(table, 2_000, meta={"spans_hosts": True}), cpu_cores=8, mem_gib=1)
    assert workload.job_of is not None
    assert [len(set(workload.total_s[workload.job_of == job])) for job in range(6)] == [1] * 6


def test_a_trace_of_vms_is_not_divided() -> None:
    plain = sim.Trace(_jobs([1_000.0, 1.0], [0.0, 1.0]).requests, 2_000)
    assert sim.build_workload("trace", plain, cpu_cores=96, mem_gib=384).left_out.n_requests == 1
    with pytest.raises(ValueError, match=r"job_of must be one per request, got \(1,\) for \(2,\)"):
        sim.Workload("test", plain, pd.DataFrame({"host_id": [0], "cpu_cores": [2e3], "mem_gib": [1.0]}),
                     np.array([1, 1]), job_of=np.array([0]))
