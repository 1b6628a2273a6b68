"""Bad input in one place: which rule meets it, what the message says, and fuzzing of whole files."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_files import HUAWEI_ROWS
from mutations import EDITS, Edits, check_read_or_refused, mutated, mutated_tables, renewed
from sojourn.features import Trace
from sojourn.features.read_report import ReadReport
from sojourn.features.readers import read_trace

GOOD_JOB = "1 100 20 300 4 -1 -1 4 600 1024 1 7 1 -1 1 1 -1 -1"
POD_HEADER = ("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
              "deletion_time,scheduled_time")
GOOD_POD = "pod-0,12000,16384,1,1000,,LS,Running,0,900,5"


def read_swf_lines(folder: Path, *lines: str) -> tuple[Trace, ReadReport]:
    path = folder / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    return read_trace("swf", path)


def read_openb_lines(folder: Path, *lines: str) -> tuple[Trace, ReadReport]:
    path = folder / "pods.csv"
    path.write_text("\n".join([POD_HEADER, *lines]) + "\n")
    return read_trace("openb", path)


@pytest.mark.parametrize(("line", "rule"), [
    ("2 100 20 -60 4 -1 -1 4 600 1024 1 7 1 -1 1 1 -1 -1", "departure before arrival"),
    ("2 100 -20 60 4 -1 -1 4 600 1024 1 7 1 -1 1 1 -1 -1", "start before submit"),
    ("2 100 20 -1 4 -1 -1 4 600 1024 5 7 1 -1 1 1 -1 -1", "never ran (run time missing)"),
    ("2 100 20 0 0 -1 -1 4 600 1024 5 7 1 -1 1 1 -1 -1", "never ran (run time 0, no processor)"),
    ("2 100 20 60 -1 -1 -1 0 600 1024 1 7 1 -1 1 1 -1 -1", "no processors"),
    ("2 100 20 60 -4 -1 -1 4 600 1024 1 7 1 -1 1 1 -1 -1", "negative size"),
    ("2 100 20 60 4 -1 -1 4 600 -9 1 7 1 -1 1 1 -1 -1", "negative size"),
    ("2 -1 20 60 4 -1 -1 4 600 1024 1 7 1 -1 1 1 -1 -1", "submit missing or negative"),
    ("2 9e9 20 60 4 -1 -1 4 600 1024 1 7 1 -1 1 1 -1 -1", "time above 100 years"),
    ("2 100 20 60 nan -1 -1 4 600 1024 1 7 1 -1 1 1 -1 -1", "procs not a number"),
    ("2 100 20 inf 4 -1 -1 4 600 1024 1 7 1 -1 1 1 -1 -1", "run not a number"),
    ("2 100 20 1e300 4 -1 -1 4 600 1024 1 7 1 -1 1 1 -1 -1", "run not a number"),
    ("2 100 2x 60 4 -1 -1 4 600 1024 1 7 1 -1 1 1 -1 -1", "wait not a number"),
    ("2 100 20 60 4 -1 -1 4 600 1024 1 9e10 1 -1 1 1 -1 -1", "name code outside 32 bits"),
    ("2 100 20 60 4 -1 -1 4 600 1024 77 7 1 -1 1 1 -1 -1", "status outside -1 .. 6"),
    ("1 100 20 60 4 -1 -1 4 600 1024 1 7 1 -1 1 1 -1 -1", "duplicate job"),
    ("2 100 20 60 4", "not 18 columns"),
    ("2 100 20 60 4 -1 -1 4 600 1024 1 7 1 -1 1 1 -1 -1 0", "not 18 columns"),
])
def test_swf_refuses_a_row_by_its_rule(tmp_path: Path, line: str, rule: str) -> None:
    trace, report = read_swf_lines(tmp_path, "; a comment", GOOD_JOB, line)
    assert dict(report.refused) == {rule: 1}
    assert report.rejected[["file", "line", "raw"]].values.tolist() == [["log.swf", 3, line]]
    assert len(trace) == 1


@pytest.mark.parametrize(("line", "rule"), [
    ("pod-1,500,512,0,0,,BE,Failed,30,20,30", "departure before arrival"),
    ("pod-1,500,512,0,0,,BE,Failed,30,90,20", "scheduled before creation"),
    ("pod-1,500,512,0,0,,BE,Pending,30,90,", "never ran (Pending)"),
    ("pod-1,500,512,0,0,,BE,Running,30,90,", "scheduled_time missing"),
    ("pod-1,-500,512,0,0,,BE,Failed,30,90,30", "negative size"),
    ("pod-1,500,nan,0,0,,BE,Failed,30,90,30", "memory_mib not a number"),
    ("pod-1,500,512,0,0,,BE,Failed,30,,30", "deletion_time not a number"),
    ("pod-1,500,512,0,0,,BE,Failed,-30,90,30", "time outside 0 .. 100 years"),
    ("pod-0,500,512,0,0,,BE,Failed,30,90,30", "duplicate name"),
    (",500,512,0,0,,BE,Failed,30,90,30", "name missing"),
    ("pod-1,500,512,0,0,,BE,Failed,30,90", "not 11 columns"),
])
def test_openb_refuses_a_row_by_its_rule(tmp_path: Path, line: str, rule: str) -> None:
    trace, report = read_openb_lines(tmp_path, GOOD_POD, line)
    assert dict(report.refused) == {rule: 1}
    assert report.rejected[["line", "raw"]].values.tolist() == [[3, line]]
    assert len(trace) == 1


def test_a_refused_duplicate_does_not_hide_its_first(tmp_path: Path) -> None:
    broken = GOOD_JOB.replace(" 300 ", " -60 ")
    trace, report = read_swf_lines(tmp_path, broken, GOOD_JOB)
    assert trace.requests["request_id"].tolist() == [1]
    assert dict(report.refused) == {"departure before arrival": 1}


def test_a_clock_that_runs_backwards_is_sorted_and_counted(tmp_path: Path) -> None:
    later = GOOD_JOB.replace("1 100 ", "2 500 ", 1)
    trace, report = read_swf_lines(tmp_path, later, GOOD_JOB)
    assert trace.requests["request_id"].tolist() == [1, 2]
    assert report.repaired["submit before the line above: sorted"] == 1


def test_truncated_gzip_names_the_file_and_how_far_it_got(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tail = "4 -1 -1 4 600 1024 1 7 1 -1 1 1 -1 -1"
    lines = [f"{i} {i} 0 {rng.integers(1, 10**6)} {tail}" for i in range(20_000)]
    whole = gzip.compress("\n".join(lines).encode())
    path = tmp_path / "log.swf.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"log\.swf\.gz: gzip must be whole, .* line \d+$") as caught:
        read_trace("swf", path)
    # Half of the bytes hold about half of the lines.
    assert 5_000 < int(str(caught.value).rsplit(" ", 1)[1]) < 15_000


def test_damaged_gzip_is_named(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress("\n".join([GOOD_JOB] * 100).encode()))
    whole[-8] ^= 0xFF  # the checksum
    path = tmp_path / "log.swf.gz"
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"log\.swf\.gz: gzip must be whole, got CRC check failed"):
        read_trace("swf", path)


def test_a_gzip_is_told_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_bytes(gzip.compress(GOOD_JOB.encode()))
    assert len(read_trace("swf", path)[0]) == 1


def test_bytes_that_are_not_utf8_are_read_in_comments_only(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    job = GOOD_JOB.encode()
    path.write_bytes(b"; Installation: caf\xe9\n" + job + b"\n")
    trace, _ = read_trace("swf", path)
    assert len(trace) == 1 and trace.meta["header"]["Installation"] == "caf\ufffd"
    path.write_bytes(path.read_bytes() + job[:-2] + b"\xe9\xff")
    with pytest.raises(ValueError, match=rf"log\.swf: line 3 must be UTF-8, got the byte 0xe9 as its byte "
                                         rf"{len(job) - 1};"):
        read_trace("swf", path)


def test_a_file_of_another_format_raises_with_line_and_expectation(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text("\n".join([POD_HEADER, *[GOOD_POD] * 30]))
    with pytest.raises(ValueError, match=r"pods\.csv: line 1 must .*, got 1 in"):
        read_trace("swf", path)
    log = tmp_path / "log.swf"
    log.write_text(GOOD_JOB)
    with pytest.raises(ValueError, match=r"log\.swf: line 1 must have the columns name, cpu_milli"):
        read_trace("openb", log)


def test_the_format_is_judged_by_the_first_rows_only(tmp_path: Path) -> None:
    trace, report = read_swf_lines(tmp_path, GOOD_JOB, *["junk"] * 30)
    assert len(trace) == 1 and report.refused["not 18 columns"] == 30


def test_files_without_a_usable_row_raise(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must hold at least one row of 18 columns, got none"):
        read_swf_lines(tmp_path, "; only a comment")
    with pytest.raises(ValueError, match="one job that ran, got none; refused: "):
        read_swf_lines(tmp_path, GOOD_JOB.replace(" 300 ", " -60 "))
    with pytest.raises(ValueError, match="got an empty file"):
        (tmp_path / "empty.csv").write_text("")
        read_trace("openb", tmp_path / "empty.csv")
    with pytest.raises(ValueError, match="must hold at least one pod that ran"):
        read_openb_lines(tmp_path, "pod-1,500,512,0,0,,BE,Pending,30,90,")


def test_an_endless_line_is_refused_before_it_fills_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_bytes(b"1 " * 2_000_000)
    with pytest.raises(ValueError, match="line 1 must be at most 1048576 bytes long"):
        read_trace("swf", path)


def test_a_wrong_column_name_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(POD_HEADER.replace("cpu_milli", "cpu") + "\n" + GOOD_POD)
    with pytest.raises(ValueError, match="must have the columns name, cpu_milli"):
        read_trace("openb", path)


SWF_SAMPLE = "\n".join(["; UnixStartTime: 1000000", GOOD_JOB, GOOD_JOB.replace("1 100", "2 130", 1),
                        "3 140 5 60 8 -1 -1 8 600 -1 5 9 2 -1 1 1 -1 -1", ""]).encode()
OPENB_SAMPLE = "\n".join([POD_HEADER, GOOD_POD, "pod-1,500,512,0,0,V100,BE,Failed,30,90,30",
                          "pod-2,500,512,0,0,,BE,Pending,30,90,", ""]).encode()


@pytest.mark.parametrize(("name", "sample"), [("swf", SWF_SAMPLE), ("openb", OPENB_SAMPLE)])
@pytest.mark.parametrize("is_gzip", [False, True])
@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_files_are_read_or_refused_never_worse(
        tmp_path: Path, name: str, sample: bytes, is_gzip: bool, edits: Edits) -> None:
    path = tmp_path / "file"
    path.write_bytes(mutated(gzip.compress(sample, mtime=0) if is_gzip else sample, edits))
    try:
        trace, report = read_trace(name, path)
    except ValueError as error:
        assert str(path) in str(error)
    else:
        assert report.n_read == report.n_kept + report.n_refused and report.n_kept == len(trace)


@settings(max_examples=25)
@given(edits=EDITS, name=st.sampled_from(["trace.json", "requests.parquet"]))
def test_mutated_trace_folders_are_read_or_refused(tmp_path: Path, edits: Edits,
                                                   name: str) -> None:
    trace, _ = read_swf_lines(tmp_path, GOOD_JOB)
    folder = trace.save(tmp_path / "saved")
    (folder / name).write_bytes(mutated((folder / name).read_bytes(), edits))
    try:
        assert len(read_trace("parquet", folder)[0]) >= 0
    except (ValueError, OSError) as error:
        assert str(error)


def test_a_closed_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(GOOD_JOB)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file")
    with pytest.raises(OSError, match=r"log\.swf"):
        read_trace("swf", path)


TABLES: dict[str, tuple[str, list[str]]] = {
    "csv": (",", ["id,user,created,deleted,submitted,duration,vcpus,memory_mb,gpu,status,requested_s",
                  "a,ann,2026-11-01 00:00,2026-11-01 02:00,2026-11-01 00:00,7200,2,4096,0,DELETED,9000",
                  "b,bob,2026-11-01 01:00,,2026-11-01 00:30,,1,2048,1,ACTIVE,9000",
                  "c,bob,2026-11-01 01:00,2026-11-01 01:30,2026-11-01 01:00,1800,1,2048,1,DELETED,"]),
    "google-2019": (",", [
        "time,type,collection_id,scheduling_class,collection_type,priority,alloc_collection_id,instance_index,"
        "machine_id,resource_request.cpus,resource_request.memory",
        "0,3,7,2,0,200,0,0,77,0.5,0.25", "650000000,6,7,2,0,200,0,0,77,0.5,0.25", "660000000,3,8,2,0,,,0,,0.5,"]),
    "huawei-east": (",", ["vmid,cpu,memory,time,type", *HUAWEI_ROWS]),
    "openb": (",", OPENB_SAMPLE.decode().split()),
    "sap": (",", ["Timestamp,Value,Instance", "2024-08-01 00:00:00,4,a", "2024-08-02 00:00:00,5,a",
                  "2024-08-03 00:00:00,6,a", "2024-08-02 00:00:00,5,b"]),
    "swf": (" ", [GOOD_JOB, GOOD_JOB.replace("1 100", "2 130", 1), "3 140 5 60 8 -1 -1 8 600 -1 5 9 2 -1 1 1 -1 -1"]),
    "openstack": ("\t", [line.replace(",", "\t") for line in (
        "uuid,created_at,launched_at,terminated_at,deleted_at,updated_at,deleted,project_id,vm_state,vcpus,memory_mb",
        "a,2026-01-05 03:00:00,2026-01-05 03:00:20,2026-01-05 04:00:00,,,7,p,deleted,2,4096",
        "b,2026-01-05 03:30:00,2026-01-05 03:30:20,NULL,NULL,NULL,0,q,active,1,2048",
        "c,2026-01-05 03:40:00,NULL,NULL,NULL,NULL,0,q,building,1,2048")]),
    "slurm": ("|", ["JobID|User|Account|Partition|State|Submit|Start|End|ReqCPUS|ReqMem|AllocCPUS|Timelimit",
                    "1|ann|a|p|COMPLETED|2026-01-05T03:00:00|2026-01-05T03:01:00|2026-01-05T04:00:00|2|4G|2|02:00:00",
                    "2|bob|a|p|RUNNING|2026-01-05T03:00:00|2026-01-05T03:01:00|Unknown|2|4G|2|02:00:00"]),
}
"""Reader -> the separator of its table, and lines of one."""


@pytest.mark.slow
@pytest.mark.parametrize("reader", TABLES)
def test_every_cell_and_column_mutated(tmp_path: Path, reader: str) -> None:
    separator, lines = TABLES[reader]
    path = tmp_path / "table"
    path.write_text("\n".join(lines) + "\n")
    read_trace(reader, path)  # what is mutated can be read
    for what, text in mutated_tables(*lines, separator=separator):
        renewed(path, text)
        try:
            check_read_or_refused(reader, path)
        except Exception as error:
            error.add_note(what)
            raise


def test_a_table_without_any_start_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "vms.csv"
    path.write_text("id,created_at,deleted_at\na,NULL,2026-01-01 00:00:00\nb,NULL,2026-01-02 00:00:00\n")
    with pytest.raises(ValueError, match=r"vms\.csv: must .*, got none; refused: "
                                         r"\{'created_at missing': 2\}"):
        read_trace("csv", path)


def test_starts_may_come_after_a_whole_block_without_any(tmp_path: Path) -> None:
    path = tmp_path / "vms.csv"
    rows = ["a,NULL,2026-01-01 00:00:00"] * 65_536 + ["b,2026-01-01 00:00:00,2026-01-02 00:00:00"]
    path.write_text("\n".join(["id,created_at,deleted_at", *rows]) + "\n")
    trace, report = read_trace("csv", path)
    assert len(trace) == 1 and dict(report.refused) == {"created_at missing": 65_536}
