"""What every reader owes: a registry entry, a report that adds up, a trace that survives the disk."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from made_files import (
    batch_task_file,
    bitbrains_folder,
    container_folder,
    dlrm_file,
    flavors_folder,
    google_folder,
    huawei_file,
    instances_folder,
    packing_file,
    planetlab_file,
    sap_folder,
    surf_folder,
    vm_table,
)
from made_growing import days_folder, sql_source
from made_pods import recording
from sojourn.features import Trace
from sojourn.features.readers import READERS, check_lines, read_trace
from sojourn.features.trace import TIMES

POD_HEADER = ("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
              "deletion_time,scheduled_time")
PODS = [
    "pod-0,12000,16384,1,1000,,LS,Running,0,900,5",
    "pod-1,4000,8192,0,0,,BE,Pending,10,60,",
    "pod-2,8000,4096,2,1000,V100M16|V100M32,LS,Succeeded,30,400,35",
    "pod-3,500,512,1,250,,Burstable,Failed,30,80,30",
]
NODES = ["sn,cpu_milli,memory_mib,gpu,model", "node-0,96000,393216,8,V100M32", "node-1,64000,262144,0,"]
JOBS = [
    "; UnixStartTime: 1000000",
    "; TimeZone: 3600",
    "; Note: made by hand",
    "1 100 20 300 4 -1 -1 4 600 1048576 1 7 1 3 0 1 -1 -1",
    "2 110  0 600 8 -1 -1 8 600      -1 0 8 1 3 1 1 -1 -1",
    "3 130 90   0 -1 -1 -1 2 600     -1 5 7 1 4 0 1 -1 -1",
    "4 200  5  50 -1 -1 -1 2  -1 2097152 5 9 2 4 0 2 -1 -1",
]


def openb_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "openb_pod_list_default.csv").write_text("\n".join([POD_HEADER, *PODS]) + "\n")
    (folder / "openb_node_list_all_node.csv").write_text("\n".join(NODES) + "\n")
    return folder


def swf_file(folder: Path) -> Path:
    path = folder / "log.swf"
    path.write_text("\n".join(JOBS) + "\n")
    return path


def csv_file(folder: Path) -> Path:
    path = folder / "vms.csv"
    path.write_text("id;user;zone;created;deleted;cpus;memory_mb;time_limit;state\n"
                    "a;ann;x;2026-11-01 00:00;2026-11-01 02:00;2;4096;3h;DELETED\n"
                    "b;bob;y;2026-11-01 01:00;NULL;500m;2048;;ACTIVE\n"
                    "c;;y;2026-11-01 01:00;;1;2048;;PENDING\n"
                    "d;;y;tomorrow;;1;2048;;ACTIVE\n"
                    "e;;;2026-11-01 01:30;2026-11-01 01:45;1;;;ACTIVE\n")
    return path


def sacct_file(folder: Path) -> Path:
    path = folder / "sacct.txt"
    path.write_text("JobID|User|Partition|Submit|Start|End|Elapsed|State|ExitCode|ReqCPUS|AllocTRES|Timelimit\n"
                    "1|ann|x|2026-01-05T03:00:00|2026-01-05T03:01:00|2026-01-05T03:05:00|00:04:00|COMPLETED|0:0|2"
                    "|cpu=2,mem=4G,node=1|01:00:00\n"
                    "1.batch|||2026-01-05T03:01:00|2026-01-05T03:01:00|2026-01-05T03:05:00|00:04:00|COMPLETED|0:0|2"
                    "|cpu=2,mem=4G,node=1|\n"
                    "2|bob|y|2026-01-05T03:00:00|2026-01-05T03:02:00|2026-01-05T03:12:00|00:10:00|TIMEOUT|0:0|1"
                    "|cpu=1,mem=4G,node=1|00:10:00\n"
                    "3|bob|x|2026-01-05T03:10:00|2026-01-05T03:12:00|Unknown|00:30:00|RUNNING|0:0|1"
                    "|cpu=1,mem=4G,node=1|UNLIMITED\n"
                    "4|ann|y|2026-01-05T03:10:00|Unknown|Unknown|00:00:00|PENDING|0:0|1||01:00:00\n"
                    "5|ann|y|2026-01-05T03:10:00|soon|Unknown|00:00:00|RUNNING|0:0|1|cpu=1|01:00:00\n")
    return path


def nova_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "instances.tsv").write_text(
        "uuid\tcreated_at\tlaunched_at\tterminated_at\tdeleted\tproject_id\tuser_id\tavailability_zone\tvm_state\tvcpus"
        "\tmemory_mb\troot_gb\tinstance_type_id\n"
        "a\t2026-01-05 03:00:00\t2026-01-05 03:00:20\t2026-01-05 04:00:00\t7\tp\tann\tx\tdeleted\t2\t4096\t20\t1\n"
        "b\t2026-01-05 03:30:00\t2026-01-05 04:30:00\tNULL\t0\tq\tbob\ty\tactive\t1\t2048\t10\t2\n"
        "c\t2026-01-05 03:40:00\tNULL\tNULL\t0\tq\tbob\ty\terror\t1\t2048\t10\t2\n"
        "d\tsoon\tNULL\tNULL\t0\tq\tbob\ty\tactive\t1\t2048\t10\t2\n")
    (folder / "flavors.tsv").write_text("id\tname\tvcpus\tmemory_mb\troot_gb\n1\tm1\t2\t4096\t20\n2\tm0\t1\t2048\t10\n")
    return folder


def own_folder(folder: Path) -> Path:
    return read_trace("swf", swf_file(folder))[0].save(folder / "own")


def _sql_source(folder: Path) -> Path:
    file, _ = sql_source(folder / "sql")
    file.write_text(file.read_text().replace("TRACE_URL", "SOJOURN_SQL_URL"))
    return file


@pytest.fixture(autouse=True)
def _database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_SQL_URL", f"sqlite:///{tmp_path / 'sql' / 'requests.db'}")


def sample(name: str, folder: Path) -> Path:
    """A small file or folder for the reader `name`."""
    makers = {"alibaba-2018": lambda: batch_task_file(folder / "batch_task.csv"),
              "alibaba-2018-containers": lambda: container_folder(folder / "containers"),
              "bitbrains": lambda: bitbrains_folder(folder / "bitbrains"),
              "openb": lambda: openb_folder(folder / "openb"), "parquet": lambda: own_folder(folder),
              "csv": lambda: csv_file(folder), "swf": lambda: swf_file(folder),
              "azure-flavors": lambda: flavors_folder(folder / "flavors"),
              "dlrm": lambda: dlrm_file(folder), "google-2011": lambda: google_folder(folder / "google"),
              "google-2019": lambda: instances_folder(folder / "google-2019"),
              "huawei-east": lambda: huawei_file(folder / "Huawei-East-1.csv"),
              "sap": lambda: sap_folder(folder / "sap"),
              "azure-packing": lambda: packing_file(folder / "packing.sqlite"),
              "planetlab": lambda: planetlab_file(folder / "planetlab_cpu_5min.parquet"),
              "azure-vm": lambda: vm_table(folder / "vmtable.csv"), "surf": lambda: surf_folder(folder / "surf"),
              "parquet-days": lambda: days_folder(folder / "days"), "sql": lambda: _sql_source(folder),
              "openstack": lambda: nova_folder(folder / "nova"),
              "slurm": lambda: sacct_file(folder), "kubernetes": lambda: recording(folder)}
    return makers[name]()


def test_exported_members() -> None:
    assert list(READERS) == sorted(READERS)


def test_an_unknown_reader_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=f"reader must be one of {', '.join(sorted(READERS))}; got 'nova'"):
        read_trace("nova", "x")


@pytest.mark.parametrize("name", READERS)
def test_the_report_adds_up(name: str, tmp_path: Path) -> None:
    trace, report = read_trace(name, sample(name, tmp_path))
    assert report.n_kept == len(trace) > 0
    assert report.n_read == report.n_kept + report.n_hosts + report.n_joined + report.n_refused
    assert len(report.rejected) == report.n_refused


@pytest.mark.parametrize("name", READERS)
def test_a_check_shows_every_column(name: str, tmp_path: Path) -> None:
    trace, report = read_trace(name, sample(name, tmp_path))
    lines = check_lines(trace, report)
    assert any(line.startswith("horizon  ") for line in lines) and lines[0].startswith("column ")
    assert sum(" known at end " in line for line in lines) >= len(set(trace.meta["known_at_end"]) - {"state"})


@pytest.mark.parametrize("name", READERS)
def test_a_trace_survives_the_disk(name: str, tmp_path: Path) -> None:
    trace, _ = read_trace(name, sample(name, tmp_path))
    loaded = Trace.load(trace.save(tmp_path / "saved"))
    pd.testing.assert_frame_equal(loaded.requests, trace.requests)
    assert loaded.roles == trace.roles and loaded.meta == trace.meta


DATED = {"bitbrains", "csv", "kubernetes", "openstack", "parquet", "parquet-days", "sap", "slurm", "sql", "surf",
         "swf"}


@pytest.mark.parametrize("name", READERS)
def test_times_of_a_dated_trace_are_unix_seconds_within_it(name: str, tmp_path: Path) -> None:
    trace, _ = read_trace(name, sample(name, tmp_path))
    assert trace.is_dated == (name in DATED)
    assert trace.begin_s == (trace.meta["start_unix_s"] if trace.is_dated else 0)
    assert 0 < trace.span_s <= 366 * 86_400 and trace.horizon_s == trace.begin_s + trace.span_s
    for column in [*TIMES, "creation_s", "ended_after_s", "ended_by_s"]:
        if column in trace.requests:  # 30 days: what ran before the begin
            assert trace.requests[column].dropna().between(trace.begin_s - 30 * 86_400, trace.horizon_s).all(), column
    if trace.usage is not None:
        assert trace.usage["time_s"].between(trace.begin_s, trace.horizon_s).all()


@pytest.mark.parametrize("name", READERS)
def test_since_its_begin_a_trace_is_the_same(name: str, tmp_path: Path) -> None:
    trace, _ = read_trace(name, sample(name, tmp_path))
    own = trace.since_begin()
    assert (own.begin_s, own.is_dated, own.horizon_s, own.span_s) == (0, False, trace.span_s, trace.span_s)
    for of in ("lifetime_s", "is_event", "is_start_known", "is_lost"):
        np.testing.assert_array_equal(getattr(own, of)(), getattr(trace, of)())
    np.testing.assert_array_equal(own.start_s() + trace.begin_s, trace.start_s())
    assert own.meta == {key: value for key, value in trace.meta.items() if key != "start_unix_s"}
    if trace.is_dated:
        back = own.moved(trace.begin_s, trace.begin_s)
        pd.testing.assert_frame_equal(back.requests, trace.requests)
        assert back.meta == trace.meta


@pytest.mark.parametrize("name", READERS)
def test_names_are_categories_without_gaps_and_numbers_are_floats(name: str, tmp_path: Path) -> None:
    trace, _ = read_trace(name, sample(name, tmp_path))
    for column in trace.roles.owners + trace.roles.categories:
        assert isinstance(trace.requests[column].dtype, pd.CategoricalDtype)
        assert trace.requests[column].notna().all()
    for column in trace.roles.numbers:
        assert trace.requests[column].dtype == np.float64


@pytest.mark.parametrize("name", READERS)
def test_what_is_known_only_at_the_end_has_no_role(name: str, tmp_path: Path) -> None:
    trace, _ = read_trace(name, sample(name, tmp_path))
    assert not set(trace.meta["known_at_end"]) & set(trace.roles.columns())


@pytest.mark.parametrize("name", READERS)
def test_a_missing_path_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        read_trace(name, tmp_path / "nowhere")


TEXT_FILES = {
    "alibaba-2018": ("batch_task.csv",), "alibaba-2018-containers": ("container_meta.csv", "container_usage.csv"),
    "azure-flavors": ("duration_bins.csv", "flavors.csv"), "azure-vm": ("vmtable.csv",), "csv": ("vms.csv",),
    "dlrm": ("disaggregated_DLRM_trace.csv",), "google-2011": ("task_events_part-00001-of-00500.csv",),
    "google-2019": ("collection_events-000000000000.json", "instance_events-000000000000.json"),
    "huawei-east": ("Huawei-East-1.csv",), "sap": ("vrops_virtualmachine_cpu_usage_ratio_all.csv",),
    "kubernetes": ("watch.json",), "openb": ("openb_node_list_all_node.csv", "openb_pod_list_default.csv"),
    "openstack": ("flavors.tsv", "instances.tsv"), "slurm": ("sacct.txt",), "swf": ("log.swf",)}


def test_every_text_file_of_a_sample_is_listed(tmp_path: Path) -> None:
    found: dict[str, set[str]] = {}
    for name in set(READERS) - {"parquet"}:  # its trace.json is our own
        (tmp_path / name).mkdir()
        path = sample(name, tmp_path / name)
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        texts = {file.name for file in files if file.suffix in {".csv", ".json", ".swf", ".tsv", ".txt"}}
        found |= {name: texts} if texts else {}
    assert found.keys() == TEXT_FILES.keys()
    assert all(texts >= set(TEXT_FILES[name]) for name, texts in found.items())


@pytest.mark.parametrize(("name", "file"), [(name, file) for name, files in TEXT_FILES.items() for file in files])
def test_a_text_file_that_is_not_utf_8_is_refused_with_its_line(name: str, file: str, tmp_path: Path) -> None:
    path = sample(name, tmp_path)
    spoilt = path if path.is_file() else path / file
    lines = spoilt.read_bytes().splitlines()
    lines[-1] = lines[-1] + "Zürich".encode("latin1")
    spoilt.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(ValueError, match=rf"{file}: line {len(lines)} must be UTF-8, got the byte 0xfc as its byte "
                                         rf"{len(lines[-1]) - 4}; .* iconv -f latin1 -t utf-8$"):
        read_trace(name, path)


def test_openb_rows(tmp_path: Path) -> None:
    trace, report = read_trace("openb", openb_folder(tmp_path / "openb"))
    rows = trace.requests.set_index("request_id")
    # Sorted by scheduling time; pod-0 ends at the last deletion (900), so it was still running.
    assert rows.index.tolist() == ["pod-0", "pod-3", "pod-2"]
    assert rows["departure_s"].isna().tolist() == [True, False, False]
    assert rows[["arrival_s", "creation_s", "cpu_cores", "mem_gib", "gpu"]].values.tolist()[2] == [
        35, 30, 8.0, 4.0, 2.0]
    assert rows["shape"].tolist() == ["12c-16g-1gpu", "0.5c-0.5g-0.25gpu", "8c-4g-2gpu"]
    assert rows["gpu_spec"].tolist() == ["any", "any", "V100M16|V100M32"]
    assert trace.roles.categories == ("qos", "gpu_spec")
    assert dict(report.refused) == {"never ran (Pending)": 1}
    assert trace.hosts is not None
    assert trace.hosts[["cpu_cores", "mem_gib", "gpu"]].values.tolist() == [[96, 384, 8], [64, 256, 0]]


def test_openb_without_a_node_list_has_no_hosts(tmp_path: Path) -> None:
    folder = openb_folder(tmp_path / "openb")
    (folder / "openb_node_list_all_node.csv").unlink()
    assert read_trace("openb", folder / "openb_pod_list_default.csv")[0].hosts is None


def test_openb_names_the_lists_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"cpu250\.csv\.gz, got openb_node_list_all_node"):
        read_trace("openb", openb_folder(tmp_path / "openb"), pods="cpu250")


def test_swf_rows(tmp_path: Path) -> None:
    trace, report = read_trace("swf", swf_file(tmp_path))
    rows = trace.requests.set_index("request_id")
    # Time 0 is the first submit (100). Job 1 starts at 100 + 20 and ends at 420; job 2 at 110 and 710.
    begin_s = 1_000_100
    assert rows["submit_s"].tolist() == [begin_s + 10, begin_s, begin_s + 100]
    assert (rows["arrival_s"].to_dict()[1], rows["departure_s"].to_dict()[1]) == (begin_s + 20, begin_s + 320)
    assert trace.horizon_s == begin_s + 610 and trace.meta["start_unix_s"] == begin_s
    # Job 1: 1 GiB per processor x 4; job 2 recorded none; job 4: 2 GiB x 2 requested processors.
    assert rows["mem_gib"].to_dict() == {1: 4.0, 2: 0.0, 4: 4.0}
    assert rows["cpu_cores"].to_dict() == {1: 4.0, 2: 8.0, 4: 2.0}
    assert rows["requested_s"].isna().to_dict() == {1: False, 2: False, 4: True}
    assert trace.roles.owners == ("group", "user", "executable")
    assert trace.roles.categories == ("queue", "partition")
    assert dict(report.refused) == {"never ran (run time 0, no processor)": 1}
    assert dict(report.repaired) == {"allocated processors missing: requested ones taken": 1,
                                     "requested memory missing: 0 taken": 1}
    assert trace.meta["time_zone_offset_s"] == 3600


def test_swf_cut_runs_are_marked_on_request_only(tmp_path: Path) -> None:
    path = swf_file(tmp_path)
    assert "is_cut" not in read_trace("swf", path)[0].requests
    rows = read_trace("swf", path, censor_cut=True)[0].requests.set_index("request_id")
    # Job 2 ran its 600 requested seconds; job 4 was cancelled; job 1 ended by itself.
    assert rows["is_cut"].to_dict() == {1: False, 2: True, 4: True}
    assert rows["departure_s"].notna().all()


def test_swf_drops_name_columns_that_say_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text("1 0 0 5 1 -1 -1 1 9 -1 1 7 1 -1 0 1 -1 -1\n2 0 0 5 1 -1 -1 1 9 -1 1 8 1 -1 0 -1 -1 -1\n")
    roles = read_trace("swf", path)[0].roles
    # Group and queue have one value, the executable is missing; the partition is half missing.
    assert (roles.owners, roles.categories) == (("user",), ("partition",))
