"""Readers of usage series: small made files of each format, what each refuses, and the real files where they are."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from made_files import (
    bitbrains_folder,
    bitbrains_meta,
    container_folder,
    google_folder,
    planetlab_file,
    surf_folder,
    vm_table,
)
from sojourn.features.usage import USAGE_READERS, UsageStream, planetlab_days, read_usage

DATA = Path(__file__).parents[4] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside the repository")

Kept = list[tuple[Any, int, float]]


def kept(stream: UsageStream, since_s: int = 0) -> Kept:
    """(request, seconds after `since_s`, cpu) of the samples kept, in the order of the file."""
    found: Kept = []
    for block in stream.blocks():
        ids = stream.requests().request_ids[block.idx_request]
        found += zip(ids.tolist(), (block.time_s - since_s).tolist(), np.round(block.cpu.astype(float), 4).tolist(),
                     strict=True)
    return found


def two_months(folder: Path) -> Path:
    """July of `made_files` and an August with VM 1, grown to 8 cores, and the new VM 4."""
    bitbrains_folder(folder, meta=pd.concat([bitbrains_meta(), pd.DataFrame({
        "month": ["2013-8"], "vm": [4], "cores": [1], "cap_mhz": [2600.0], "mem_cap_mb": [512.0],
        "first_ts": [2_000_000], "last_ts": [2_000_900]})]).assign(cores=[2, 4, 1, 8, 1]))
    pd.DataFrame({"vm": [4, 1, 5], "cpu_pct": [10.0, 20.0, 1.0], "mem_use_mb": [256, 512, 1], "cores": 1,
                  "ts": [2_000_000, 2_000_300, 2_000_600]}).to_parquet(folder / "rnd_2013-8.parquet", index=False)
    return folder


def test_bitbrains_joins_months_on_one_clock(tmp_path: Path) -> None:
    stream = read_usage("bitbrains", two_months(tmp_path / "b"))
    assert stream.clock.start_unix_s == 0 and stream.n_rows == 10
    assert kept(stream, 1_000_000) == [(1, 0, 0.015), (1, 300, 0.0), (1, 2100, 1.82), (2, 1200, 0.5), (2, 2400, 1.0),
                            (3, 300, 0.0025), (3, 1500, 0.04), (4, 1_000_000, 0.1), (1, 1_000_300, 0.2)]
    requests = stream.requests()
    assert dict(zip(requests.request_ids.tolist(), requests.cpu_cores.tolist(), strict=True)) == {
        1: 8.0, 2: 4.0, 3: 1.0, 4: 1.0}
    assert stream.report().without_request == (5,)
    mem = next(iter(stream.blocks())).mem
    assert mem is not None and mem[0] == pytest.approx(100 / 1024)


def test_bitbrains_reads_the_months_asked_for(tmp_path: Path) -> None:
    folder = two_months(tmp_path / "b")
    assert len(kept(read_usage("bitbrains", folder, month="2013-7"))) == 7
    assert len(kept(read_usage("bitbrains", folder, month="2013-8, 2013-7"))) == 9
    assert len(kept(read_usage("bitbrains", folder / "rnd_2013-8.parquet"))) == 2
    with pytest.raises(FileNotFoundError, match=r"must hold rnd_2013-9\.parquet, got rnd_2013-7\.parquet, rnd_2013-8"):
        read_usage("bitbrains", folder, month="2013-9")


def test_bitbrains_small_gives_each_interval_of_a_joined_row_a_sample(tmp_path: Path) -> None:
    """Row 2 is the mean of the 600 s before its stamp: samples at 300 and 600 s after the first."""
    stamps = pd.to_datetime([1000, 1600, 1900, 2200], unit="s", utc=True)
    pd.DataFrame({"id": "a", "timestamp": stamps, "duration": [300_000, 600_000, 0, 300_000], "cpu_count": 1,
                  "cpu_usage": [500.0, 1000.0, 1.0, 2000.0]}).to_parquet(tmp_path / "bitbrains_small_trace.parquet")
    pd.DataFrame({"id": ["a"], "cpu_count": [2], "cpu_capacity": [2000.0], "mem_capacity": [2048]}).to_parquet(
        tmp_path / "bitbrains_small_meta.parquet")
    stream = read_usage("bitbrains-small", tmp_path)
    assert kept(stream, 1_000) == [("a", 0, 0.25), ("a", 300, 0.5), ("a", 600, 0.5), ("a", 1200, 1.0)]
    report = stream.report().read
    assert dict(report.refused) == {"duration not within 1 s .. 31 days": 1}
    assert report.rejected["line"].tolist() == [3]
    assert stream.requests().mem_gib.tolist() == [2.0] and stream.clock.start_unix_s == 0


def test_planetlab_reads_one_day(tmp_path: Path) -> None:
    path = planetlab_file(tmp_path / "p.parquet")
    found = kept(read_usage("planetlab", path))
    assert len(found) == 576 and found[95] == ("a_x", 95 * 300, 0.95) and found[-1] == ("b_x", 86_100, 0.0)
    assert planetlab_days(path) == ["20110303", "20110306"]
    assert kept(read_usage("planetlab", path, day="20110306"))[-1] == ("a_x", 86_100, 0.99)
    with pytest.raises(ValueError, match=r"day must .*, got '20110304'"):
        read_usage("planetlab", path, day="20110304")


def test_days_of_a_wrong_length_or_twice_are_refused_whole(tmp_path: Path) -> None:
    path = tmp_path / "gcd.parquet"
    pd.DataFrame({"file": ["v1", "v2", "v1"], "cpu_pct": [[50.0] * 288, [1.0] * 287, [2.0] * 288],
                  "mem_pct": [[25.0] * 288, [1.0] * 288, [2.0] * 288]}).to_parquet(path)
    stream = read_usage("gcd-vms", path)
    assert kept(stream) == [("v1", 300 * k, 0.5) for k in range(288)]
    report = stream.report().read
    assert dict(report.refused) == {"not 288 samples in the row": 288, "second row of the same VM": 288}
    assert (report.n_read, report.n_kept) == (864, 288)


def test_surf_fragments_follow_one_another(tmp_path: Path) -> None:
    """Times of `made_files`: submissions at 0, 30, 90.5 and 180 s, fragments of 30 s each in file order per task."""
    stream = read_usage("surf", surf_folder(tmp_path / "s"))
    assert kept(stream, 60) == [(11, 0, 0.0), (12, 30, 0.25), (12, 60, 1.0), (14, 180, 0.0), (14, 210, 0.0001),
                            (14, 240, 0.0001), (11, 30, 0.5), (11, 60, 1.05)]
    assert stream.report().without_series == (13,)


def test_surf_refuses_fragments_without_a_duration_and_after_the_end(tmp_path: Path) -> None:
    fragments = pd.DataFrame({"id": [12, 12, 12, 12], "duration": [30_000, 0, 30_000, 30_000],
                              "cpu_usage": [8000.0, 1.0, 16_000.0, 1.0]})
    stream = read_usage("surf", surf_folder(tmp_path / "s", fragments=fragments))
    assert kept(stream, 60) == [(12, 30, 0.25), (12, 60, 0.5)]
    assert dict(stream.report().read.refused) == {"fragment's duration not above 0": 1,
                                                  "fragment after its task's end": 1}


def test_surf_counts_time_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = kept(read_usage("surf", surf_folder(tmp_path / "s")))
    monkeypatch.setattr("sojourn.features.usage._columns.BLOCK_ROWS", 2)
    assert kept(read_usage("surf", tmp_path / "s")) == whole


def azure_folder(folder: Path, *rows: str) -> Path:
    folder.mkdir()
    vm_table(folder / "vmtable.csv")
    with gzip.open(folder / "vm_cpu_readings-file-2-of-2.csv.gz", "wt") as file:
        file.write("\n".join(rows) + "\n")
    (folder / "vm_cpu_readings-file-1-of-2.csv").write_text("0,v1,1,90,50\n")
    return folder


def test_azure_readings_stand_next_to_their_table(tmp_path: Path) -> None:
    folder = azure_folder(tmp_path / "a", "300,v1,1,80,25", "300,other,1,80,25", "300,v2,1", "300,v2,1,x,10",
                          "600,v2,1,x,")
    stream = read_usage("azure-vm", folder)
    assert kept(stream) == [("v1", 0, 0.5), ("v1", 300, 0.25), ("v2", 300, 0.1)]
    report = stream.report()
    assert dict(report.read.refused) == {
        "sample of a request that is not in the trace": 1, "not 5 columns": 1, "cpu missing or not finite": 1}
    assert report.without_request == ("other",) and report.without_series == ("v3", "v4")
    assert kept(read_usage("azure-vm", folder, reading="max")) == [("v1", 0, 0.9), ("v1", 300, 0.8)]
    assert ("other", 300, 0.25) in kept(read_usage("azure-vm", folder, only_known=False))
    with pytest.raises(ValueError, match="reading must be avg, max or min, got 'p95'"):
        read_usage("azure-vm", folder, reading="p95")


USAGE_HEADER = ("start_time,end_time,job_id,task_index,machine_id,cpu_rate,canonical_memory,assigned_memory,"
                "unmapped_page_cache,total_page_cache,max_memory,disk_io_time,local_disk_space,max_cpu_rate,"
                "max_disk_io_time,cpi,mai,sample_portion,aggregation_type,sampled_cpu_usage")


@pytest.mark.parametrize("has_header", [True, False])
def test_google_task_usage_is_a_share_of_the_request_where_events_are_there(tmp_path: Path, has_header: bool) -> None:
    tail = ",0" * 13
    rows = [f"600000000,900000000,1,0,7,0.25,0.125{tail}", f"900000000,1200000000,8,3,7,0.5,0.125{tail}"]
    folder = google_folder(tmp_path / "g")
    file = folder / "task_usage-part-00000-of-00500.csv"
    file.write_text("\n".join([*([USAGE_HEADER] if has_header else []), *rows]) + "\n")
    of_machine = read_usage("google-2011", file)
    assert kept(of_machine) == [("1-0", 0, 0.25), ("8-3", 300, 0.5)]
    assert of_machine.requests().cpu_cores.tolist() == [1.0, 1.0]
    of_request = read_usage("google-2011", folder)
    assert kept(of_request) == [("1-0", 0, 0.5)]  # it asked for 0.5
    assert of_request.report().without_request == ("8-3",)


def test_alibaba_containers_machines_and_the_mean_of_all(tmp_path: Path) -> None:
    folder = container_folder(tmp_path / "c")
    stream = read_usage("alibaba-2018", folder)
    assert {row[0] for row in kept(stream)} == {"c_1", "c_2"}
    assert kept(stream)[0] == ("c_1", 0, 0.1)
    (folder / "machine_usage.csv").write_text("m_1,0,50,25,,,1,1,1\nm_1,10,101,25,,,1,1,1\n")
    assert kept(read_usage("alibaba-2018", folder, level="machine")) == [("m_1", 0, 0.5), ("m_1", 10, 1.01)]
    alone = tmp_path / "m"
    alone.mkdir()
    (alone / "machine_usage_days_1_to_8_grouped_300_seconds.csv").write_text(
        "cpu_util_percent,mem_util_percent,net_in\n20,80,1\n40,80,1\n")
    assert kept(read_usage("alibaba-2018", alone)) == [("machines", 0, 0.2), ("machines", 300, 0.4)]


def test_aggregates_and_cloudwatch(tmp_path: Path) -> None:
    (tmp_path / "vm_cpu_readings_month_aggregated_x.csv").write_text(
        "timestamp,cpu_usage,assigned_mem\n0,50,1\n300,100,1\n")
    assert kept(read_usage("azure-2019", tmp_path)) == [("all VMs", 0, 0.5), ("all VMs", 300, 1.0)]
    (tmp_path / "instance_usage_grouped_300_seconds.csv").write_text("avg_cpu,avg_mem\n0.5,0.25\n0.75,0.25\n")
    assert kept(read_usage("google-2019", tmp_path)) == [("cell", 0, 0.5), ("cell", 300, 0.75)]
    pd.DataFrame({"timestamp": pd.to_datetime([600, 900, 300], unit="s"), "value": [50.0, 25.0, 7.0],
                  "series": ["ec2_cpu_utilization_1", "ec2_cpu_utilization_1", "ec2_network_in_2"]}).to_parquet(
        tmp_path / "aws_cloudwatch_5min.parquet")
    stream = read_usage("aws-nab", tmp_path)
    assert kept(stream, 600) == [("ec2_cpu_utilization_1", 0, 0.5), ("ec2_cpu_utilization_1", 300, 0.25)]
    assert stream.clock.start_unix_s == 0


def test_names_and_options_are_checked() -> None:
    with pytest.raises(ValueError, match="reader must be one of alibaba-2018, "):
        read_usage("csv", "x")
    with pytest.raises(ValueError, match="option of planetlab must be one of day, timezone, max_cpu; got 'month'"):
        read_usage("planetlab", "x", month="2013-7")
    with pytest.raises(ValueError, match="timezone must be an IANA name, got 'Mars'"):
        read_usage("synthetic", "", timezone="Mars", n_requests=1000, n_usage=1, days=2)
    assert list(USAGE_READERS) == sorted(USAGE_READERS)


@pytest.mark.parametrize("name", ["azure-2019", "google-2019", "aws-nab", "alibaba-2018", "azure-vm", "google-2011",
                                  "parquet", "bitbrains", "surf"])
def test_an_empty_folder_raises_and_says_what_it_must_hold(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="must hold"):
        read_usage(name, tmp_path)


def test_damaged_files_raise_and_name_the_file(tmp_path: Path) -> None:
    folder = azure_folder(tmp_path / "a", "300,v1,1,80,25")
    file = folder / "vm_cpu_readings-file-2-of-2.csv.gz"
    file.write_bytes(file.read_bytes()[:-12])
    with pytest.raises(ValueError, match=r"file-2-of-2\.csv\.gz: gzip must be whole, got "):
        kept(read_usage("azure-vm", folder))
    (tmp_path / "gcd.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"gcd\.parquet must be a Parquet file"):
        kept(read_usage("gcd-vms", tmp_path / "gcd.parquet"))


REAL = [
    ("bitbrains-small", "opendc", {}, 403_577, 50), ("planetlab", "planetlab", {}, 302_976, 1052),
    ("gcd-vms", "google-2011-gcd-vms", {}, 460_800, 1600), ("azure-2019", "azure-2019", {}, 8640, 1),
    ("google-2019", "google-2019", {}, 8064, 1), ("aws-nab", "aws-cloudwatch-nab", {}, 40_320, 10),
    ("alibaba-2018", "alibaba-2018", {}, 2243, 1),
    ("google-2011", "google-2011/task_usage_sample.csv.gz", {}, 10_000, 10_000),
    ("azure-vm", "azure-2017-fixture", {"only_known": False}, 100, 100),
]


@needs_data
@pytest.mark.parametrize(("name", "path", "options", "n_kept", "n_series"), REAL, ids=[row[0] for row in REAL])
def test_real_counts(name: str, path: str, options: dict[str, Any], n_kept: int, n_series: int) -> None:
    stream = read_usage(name, DATA / path, **options)
    assert sum(map(len, stream.blocks())) == n_kept
    report = stream.report()
    assert (report.read.n_refused, report.n_series) == (0, n_series)


@needs_data
def test_the_real_azure_fixture_has_readings_of_none_of_its_vms() -> None:
    stream = read_usage("azure-vm", DATA / "azure-2017-fixture")
    assert not list(stream.blocks())
    report = stream.report()
    assert len(report.without_request) == 100 and len(report.without_series) == 10


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(("name", "path", "n_kept", "n_series"), [
    ("bitbrains", "bitbrains-rnd", 8_141_044, 500), ("surf", "opendc", 2_323_475, 6295),
    ("google-2011", "google-2011", 9996, 9996),
])
def test_large_real_counts(name: str, path: str, n_kept: int, n_series: int) -> None:
    stream = read_usage(name, DATA / path)
    assert sum(map(len, stream.blocks())) == n_kept
    assert stream.report().n_series == n_series
