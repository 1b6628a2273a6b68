"""Real files, where the shared data stands beside the repository: counts against the published ones."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sojourn.features.describe import describe
from sojourn.features.readers import read_trace

DATA = Path(__file__).parents[4] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside the repository")


def test_openb_counts() -> None:
    trace, report = read_trace("openb", DATA / "alibaba-gpu-2023")
    assert report.n_read - report.n_hosts == 8152
    assert dict(report.refused) == {"never ran (Pending)": 897}
    assert (~trace.is_event()).sum() == 34
    assert report.n_hosts == 1523
    assert trace.horizon_s == 12_902_960
    assert trace.requests["qos"].value_counts().sum() == 7255
    # 151 shapes of which one was never scheduled.
    assert trace.requests["shape"].nunique() == 150


def test_a_pod_list_read_as_any_table_is_the_same_trace() -> None:
    file = DATA / "alibaba-gpu-2023" / "openb_pod_list_default.csv.gz"
    own, _ = read_trace("openb", DATA / "alibaba-gpu-2023")
    table, report = read_trace("csv", file, columns=["id=name", "arrival=scheduled_time", "cpu_cores=cpu_milli",
                                                     "gpu=num_gpu", "owner=", "category=qos"])
    assert table.horizon_s == own.horizon_s and dict(report.refused) == {"never ran, by pod_phase": 897}
    names = ["request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib"]
    left, right = (each.requests[names].sort_values("request_id", ignore_index=True) for each in (own, table))
    pd.testing.assert_frame_equal(left, right, check_dtype=False)


def test_a_table_of_vms_read_as_any_table_is_the_same_trace(tmp_path: Path) -> None:
    file = DATA / "azure-2017-fixture" / "vmtable.csv.gz"
    own, _ = read_trace("azure-vm", file)
    header = b"vm_id,subscription,deployment,created,deleted,max_cpu,mean_cpu,p95_cpu,category,cores,mem_gib\n"
    (tmp_path / "vms.csv").write_bytes(header + gzip.decompress(file.read_bytes()))
    table, _ = read_trace("csv", tmp_path / "vms.csv", columns=["owner=subscription", "owner=deployment"])
    assert table.horizon_s == own.horizon_s and table.roles == own.roles
    assert set(table.meta["known_at_end"]) == {"max_cpu", "mean_cpu", "p95_cpu"}
    names = ["request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib", "subscription", "deployment"]
    left, right = (each.requests[names].sort_values("request_id", ignore_index=True) for each in (own, table))
    pd.testing.assert_frame_equal(left, right, check_dtype=False, check_categorical=False)


@pytest.mark.slow
@pytest.mark.parametrize("pods", ["cpu250", "gpushare100", "gpuspec33"])
def test_openb_variants(pods: str) -> None:
    trace, report = read_trace("openb", DATA / "alibaba-gpu-2023", pods=pods)
    assert set(report.refused) == {"never ran (Pending)"}
    assert (trace.lifetime_s() > 0).all()


def test_openb_list_without_times_is_refused_as_a_whole() -> None:
    with pytest.raises(ValueError, match=r"must have the columns .* once; got 'name, cpu_milli"):
        read_trace("openb", DATA / "alibaba-gpu-2023", pods="multigpu50")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n_jobs", "n_users", "n_kept"), [
    ("SDSC-BLUE-2000-4.2-cln", 243_306, 468, 232_562),
    ("HPC2N-2002-2.1-cln", 202_876, 257, 202_876),
    ("LLNL-Thunder-2007-1.1-cln", 121_039, 283, 118_791),
    ("RICC-2010-2", 447_794, 176, 447_794),
])
def test_swf_counts(name: str, n_jobs: int, n_users: int, n_kept: int) -> None:
    trace, report = read_trace("swf", DATA / "swf" / f"{name}.swf.gz")
    assert (report.n_read, report.n_kept) == (n_jobs, n_kept)
    refused_users = set(report.rejected["raw"].str.split().str[11])
    assert len(set(trace.requests["user"].cat.categories) | refused_users) == n_users


@pytest.mark.slow
def test_curie_counts_and_its_machine_is_never_overfull() -> None:
    trace, report = read_trace("swf", DATA / "swf" / "CEA-Curie-2011-2.1-cln.swf.gz")
    assert (report.n_read, report.n_kept) == (312_826, 301_914)
    assert dict(report.refused) == {"never ran (run time 0, no processor)": 10_912}
    # 582 users in the file, of whom one never ran a job.
    assert trace.requests["user"].nunique() == 581
    assert describe(trace).peak["cpu_cores"] <= 93_312  # MaxProcs of the header
    # The cleaning removed the first year; time 0 is the first submit that was left.
    assert trace.meta["origin_s"] == 31_656_837 and trace.requests["submit_s"].min() == trace.begin_s


def test_nasa_has_no_waits_and_no_requested_times() -> None:
    trace, report = read_trace("swf", DATA / "swf" / "NASA-iPSC-1993-3.1-cln.swf.gz")
    assert (len(trace), trace.requests["user"].nunique()) == (18_239, 69)
    assert report.repaired["wait missing: start taken as submit"] == 18_239
    assert trace.requests["requested_s"].isna().all()
    assert (trace.requests["arrival_s"] == trace.requests["submit_s"]).all()
    # Run seconds, README: median 86, 95 % at 3,723.
    assert np.quantile(trace.lifetime_s(), [0.5, 0.95]).round().tolist() == [86, 3723]
    assert trace.meta["start_unix_s"] == 749_458_803
