"""Recipes, comparison and pictures."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import naive
import sojourn.simulator as sim
from sojourn.features import Roles
from sojourn.simulator.workloads.recipes import OPENB_START_S

OPENB = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "alibaba-gpu-2023"


def test_host_count_follows_the_load() -> None:
    # peak of 40 cores and 10 GiB; hosts of 8 cores: 40 / (0.8 * 8) = 6.25 -> 7 hosts, load 40 / 56
    trace = naive.trace_of([(0, 50, 4.0, 1.0)] * 10, 100)
    workload = sim.build_workload("trace", trace, cpu_cores=8, mem_gib=8)
    assert len(workload.hosts) == 7
    assert workload.load == pytest.approx(40 / 56)
    assert workload.resources == ("cpu_cores", "mem_gib")


def test_the_binding_resource_comes_first() -> None:
    workload = sim.build_workload("trace", naive.trace_of([(0, 50, 1.0, 8.0)], 100), cpu_cores=8, mem_gib=8)
    assert workload.resources == ("mem_gib", "cpu_cores")
    assert workload.need.tolist() == [[8192, 1000]]


def test_requests_larger_than_every_host_are_left_out_and_counted() -> None:
    trace = naive.trace_of([(0, 50, 9.0, 1.0), (0, 50, 1.0, 9.0), (0, 50, 8.0, 8.0)], 100)
    workload = sim.build_workload("trace", trace, cpu_cores=8, mem_gib=8)
    assert (len(workload.trace), workload.left_out.n_requests) == (1, 2)
    assert workload.description.endswith(
        "; 2 (66.7%) of the requests with 55.6% of the core-hours are larger than every host and left out")
    with pytest.raises(ValueError, match=r"requests must be at least one, got none \(3 larger than every host\)"):
        sim.build_workload("trace", trace, cpu_cores=1, mem_gib=1, n_hosts=1)


def test_a_traces_own_hosts_are_taken_as_they_are() -> None:
    hosts = pd.DataFrame({"host_id": ["a", "b"], "cpu_cores": [8.0, 4.0], "mem_gib": [8.0, 4.0]})
    plain = naive.trace_of([(0, 50, 6.0, 1.0)], 100)
    workload = sim.build_workload("trace", sim.Trace(plain.requests, 100, hosts=hosts))
    assert workload.load == 0.5
    with pytest.raises(ValueError, match="cpu_cores and mem_gib must be given for a trace without hosts"):
        sim.build_workload("trace", plain)
    with pytest.raises(ValueError, match=r"workload must .*, got 'borg'"):
        sim.build_workload("borg", plain)


@pytest.mark.parametrize(("recipe", "cores", "gib", "warmup_s"), [
    ("azure-flavors", 64.0, 256.0, 151_200),  # 1.75 x 86,400
    ("dlrm", 192.0, 1024.0, 1_296_000),  # 15 x 86,400
])  # fmt: skip
def test_recipes_of_one_shape(recipe: str, cores: float, gib: float, warmup_s: int) -> None:
    # 10 requests of 64 cores at once: 640 / (0.8 x 64) = 12.5 and 640 / (0.8 x 192) = 4.2 hosts
    trace = naive.trace_of([(0, 50, 64.0, 1.0)] * 10 + [(0, 50, 200.0, 1.0)], 2_000_000)
    workload = sim.build_workload(recipe, trace)
    assert len(workload.hosts) == {64.0: 13, 192.0: 5}[cores]
    assert workload.hosts[["cpu_cores", "mem_gib"]].drop_duplicates().to_numpy().tolist() == [[cores, gib]]
    assert (workload.warmup_s, workload.left_out.n_requests, workload.name) == (warmup_s, 1, recipe)


def test_a_comparison() -> None:
    rows = [(t, t + (20 if t % 3 else 300), 2.0, 2.0) for t in range(0, 900, 2)]
    workload = sim.build_workload("trace", naive.trace_of(rows, 1300), cpu_cores=8, mem_gib=8, warmup_s=100)
    seen: list[str] = []
    cells = [("nilas", "oracle", sim.Oracle(workload)), ("first-fit", "", None), ("best-fit", "", None)]
    result = sim.compare(workload, cells, progress=lambda done, n, label: seen.append(f"{done}/{n} {label}"))
    assert list(result.table.index) == ["best-fit", "nilas (oracle)", "first-fit"]
    assert seen == ["0/3 best-fit", "1/3 nilas (oracle)", "2/3 first-fit"]
    table = result.table
    assert table.loc["best-fit", "gain_pp"] == 0
    assert (table["empty_hosts_pct"] <= result.bound_empty_hosts_pct + 1e-9).all()
    gap = result.bound_empty_hosts_pct - table["empty_hosts_pct"].iloc[0]
    assert table["gap_closed_pct"].to_numpy() == pytest.approx(100 * table["gain_pp"].to_numpy() / gap)
    with pytest.raises(ValueError, match="got 'nilas' twice"):
        sim.compare(workload, [("nilas", "", None), ("nilas", "", None)])


@pytest.mark.slow
@pytest.mark.skipif(not OPENB.is_dir(), reason="the openb trace is not beside the repository")
def test_oracle_nilas_gains_on_openb() -> None:
    pods = pd.read_csv(OPENB / "openb_pod_list_default.csv.gz")
    pods = pods[pods["scheduled_time"].notna()]
    horizon = int(pods["deletion_time"].max())
    trace = sim.Trace(pd.DataFrame({
        "request_id": pods["name"], "arrival_s": pods["scheduled_time"].astype("Int64"),
        "departure_s": pods["deletion_time"].astype("Int64").where(pods["deletion_time"] < horizon),
        "cpu_cores": pods["cpu_milli"] / 1000, "mem_gib": pods["memory_mib"] / 1024}), horizon)
    workload = sim.build_workload("openb", trace, seed=0)
    assert 0.75 < workload.load <= 0.8
    assert np.array_equal(workload.total_s, sim.build_workload("openb", trace, seed=0).total_s)
    gain = sim.compare(workload, [("nilas", "oracle", sim.Oracle(workload))]).table["gain_pp"].to_dict()
    assert 3 < gain["nilas (oracle)"] < 7  # +3.7 to +5.1 over five seeds


def test_further_resources_are_replayed_on_hosts_that_have_them() -> None:
    plain = naive.trace_of([(0, 50, 1.0, 1.0)] * 4, 100)
    requests = plain.requests.assign(disk_gib=5.0)
    hosts = pd.DataFrame({"host_id": ["a"], "cpu_cores": [8.0], "mem_gib": [8.0], "disk_gib": [20.0]})
    trace = sim.Trace(requests, 100, Roles(resources=("disk_gib",)), hosts)
    own = sim.build_workload("trace", trace)
    assert set(own.resources) == {"cpu_cores", "mem_gib", "disk_gib"}
    # a shape of cores and memory says nothing of disks: without this every request would be larger than every host
    shaped = sim.build_workload("trace", trace, cpu_cores=8, mem_gib=8)
    assert (set(shaped.resources), shaped.left_out.n_requests) == ({"cpu_cores", "mem_gib"}, 0)
    assert shaped.description.endswith("; disk_gib not replayed, since the hosts' shape has none")


@pytest.mark.slow
def test_openb_with_its_gpus() -> None:
    pods = pd.DataFrame({"request_id": range(6), "arrival_s": OPENB_START_S + np.arange(6) * 100,
                         "departure_s": OPENB_START_S + np.arange(6) * 100 + 400, "cpu_cores": 2.0, "mem_gib": 8.0,
                         "gpu": [0.5, 1.0, 2.0, 0.0, 0.3, 2.0],
                         "gpu_spec": ["any", "T4|P100", "T4", "any", "G9", "any"]})
    nodes = pd.DataFrame({"host_id": [f"n{k}" for k in range(40)], "cpu_cores": 64.0, "mem_gib": 256.0,
                          "gpu": [2.0, 8.0] * 20, "model": ["T4", "P100"] * 20})
    trace = sim.Trace(pods, OPENB_START_S + 1_000, Roles(categories=("gpu_spec",)), nodes)
    workload = sim.build_workload("openb-gpu", trace, n_copies=3, load=0.1)
    # of six pods one names a model that no node has: 5 of 6, on 3 copies and 3 laps
    assert (len(workload.trace), workload.left_out.n_requests) == (45, 9)
    assert workload.warmup_s == 1_000 and set(workload.hosts["host_id"]) <= set(nodes["host_id"])
    assert workload.load <= 0.1
    found = sim.simulate(workload, "open-fgd", is_checked=True)
    model = workload.hosts["model"].to_numpy()[found.host]
    only_t4 = workload.trace.requests["model"] == "T4"
    assert found.metrics.n_rejected == 0 and (model[only_t4] == "T4").all()
    with pytest.raises(ValueError, match="n_copies must leave a peak of at most 160 GPUs"):
        sim.build_workload("openb-gpu", trace, n_copies=400)
    with pytest.raises(ValueError, match="trace must have the hosts of openb's node list"):
        sim.build_workload("openb-gpu", sim.Trace(pods, OPENB_START_S + 1_000))
