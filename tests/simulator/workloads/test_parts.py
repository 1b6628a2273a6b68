"""Jobs that span hosts: their parts fill hosts, run together, and add up to the job."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sojourn.simulator as sim
from sojourn.flows.placement.replicas import replica
from sojourn.flows.placement.simulation import positions_of
from sojourn.simulator.workloads.amounts import whole_amounts
from sojourn.simulator.workloads.parts import in_parts


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
