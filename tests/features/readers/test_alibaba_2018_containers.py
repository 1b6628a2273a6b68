"""The alibaba-2018-containers reader: which states begin and end a request, and usage as means over steps."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from made_files import CONTAINER_USAGE, CONTAINERS, container_folder
from mutations import EDITS, Edits, check_read_or_refused, mutated
from sojourn.features import Trace
from sojourn.features.read_report import ReadReport
from sojourn.features.readers import alibaba_2018 as alibaba_2018_containers
from sojourn.features.readers import read_trace

SAMPLE = Path(__file__).parents[4] / "shared" / "data" / "alibaba-2018" / "alibaba2018_container_meta_sample.csv.gz"
NAME = "alibaba-2018-containers"
GOOD = "c_1,m_1,100,app_1,started,400,400,1.56"
USAGE = "c_1,m_1,100,10,50,,,,0.1,0.1,5"


def read_lines(folder: Path, *rows: str, usage: tuple[str, ...] | None = None) -> tuple[Trace, ReadReport]:
    if usage is None:
        path = folder / "table.csv"
        path.write_text("\n".join(rows) + "\n")
        return read_trace(NAME, path)
    return read_trace(NAME, container_folder(folder / "c", *rows, usage=usage))


def test_rows(tmp_path: Path) -> None:
    trace, report = read_trace(NAME, container_folder(tmp_path / "c"))
    rows = trace.requests.set_index("request_id")
    assert trace.horizon_s == 900
    # Unknown starts first, then by arrival; c_6 was never placed.
    assert rows.index.tolist() == ["c_1", "c_5", "c_4", "c_2", "c_3"]
    assert rows["arrival_s"].fillna(-1).tolist() == [-1, -1, 30, 60, 120]
    assert rows["departure_s"].fillna(-1).tolist() == [-1, 20, -1, 600, -1]
    assert rows["cpu_cores"].tolist() == [4.0, 4.0, 4.0, 0.5, 8.0]
    # c_1's limit is 4.8 only later; that of c_5 is missing at first; c_2 asks for 50 of 100.
    assert rows["cpu_limit_cores"].tolist() == [4.0, 0.0, 4.0, 1.0, 8.0]
    assert rows["mem_gib"].tolist() == [1.56, 1.56, 1.56, 3.13, 6.25]
    assert rows["status"].tolist() == ["started", "stopped", "started", "stopped", "started"]
    assert trace.roles.columns() == ("app_du", "cpu_limit_cores")
    assert trace.meta["n_never_placed"] == 1 and trace.meta["known_at_end"] == ["status"]
    assert dict(report.repaired) == {"cpu_request, cpu_limit or mem_size missing: 0 taken": 2,
                                     "stopped and placed again on its machine: taken as running through": 1}
    assert (report.n_read, report.n_kept, report.n_joined) == (16 + 5, 5, 11 + 5)


def test_rows_of_a_container_may_come_in_any_order(tmp_path: Path) -> None:
    header = "container_id,machine_id,time_stamp,app_du,status,cpu_request,cpu_limit,mem_size"
    trace, report = read_lines(tmp_path, header, *reversed(CONTAINERS))
    wanted = read_lines(tmp_path, *CONTAINERS)[0].requests.set_index("request_id")
    got = trace.requests.set_index("request_id").loc[wanted.index]
    assert got.astype(str).equals(wanted.astype(str))
    # Rows above which a later one of the same container stands: 1, 3, 1, 3, 2 and 0 of the six.
    assert report.repaired["time before the container's row above: sorted"] == 10


def test_usage_is_the_mean_of_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = container_folder(tmp_path / "c")
    usage = read_trace(NAME, folder)[0].usage
    assert usage is not None
    # c_1: (10 + 20) / 2 and 100 %; its memory is known once in the first step.
    assert usage[["request_id", "time_s"]].values.tolist() == [["c_1", 0], ["c_1", 300], ["c_2", 0]]
    np.testing.assert_allclose(usage["cpu_frac"], [0.15, 1.0, 0.03])
    np.testing.assert_allclose(usage["mem_frac"], [0.5, 0.4, np.nan])
    monkeypatch.setattr(alibaba_2018_containers, "_MAX_PENDING", 1)
    monkeypatch.setattr("sojourn.features.readers._rows.BLOCK_LINES", 1)
    again = read_trace(NAME, folder)[0].usage
    assert again is not None
    pd.testing.assert_frame_equal(again, usage)
    trace, report = read_trace(NAME, folder, max_series=1)
    assert trace.usage is not None and trace.usage["request_id"].tolist() == ["c_1", "c_1"]
    assert report.n_refused == 0  # a sample without a series is joined
    assert read_trace(NAME, folder, usage=False)[0].usage is None
    monkeypatch.setattr(alibaba_2018_containers, "MAX_USAGE_BYTES", 10)
    assert read_trace(NAME, folder)[0].usage is None
    assert read_trace(NAME, folder, usage=True)[0].usage is not None
    (folder / "container_usage.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"must hold container_usage\.csv or"):
        read_trace(NAME, folder, usage=True)
    with pytest.raises(ValueError, match="max_series must be at least 1, got 0"):
        read_trace(NAME, folder, max_series=0)


@pytest.mark.parametrize(("old", "new", "rule"), [
    ("c_9,", ",", "container_id missing"),
    ("started", "Started", "status not started, allocated, stopped or unknown"),
    (",100,", ",,", "time not a number"),
    (",100,", ",-1,", "time not a whole number in 0 .. 100 years"),
    (",100,", ",0.5,", "time not a whole number in 0 .. 100 years"),
    (",100,", ",4e9,", "time not a whole number in 0 .. 100 years"),
    (",400,4", ",x,4", "cpu_request not a number"),
    (",400,1.56", ",nan,1.56", "cpu_limit not a number"),
    (",400,4", ",-400,4", "negative size"),
    (",1.56", ",-1", "negative size"),
    (",1.56", ",101", "mem_size above 100"),
    (",400,1.56", ",1e10,1.56", "cpu above 1e+09"),
    ("c_9,m_1", "c_1,m_2", "machine or app_du not that of the container's first row"),
    ("c_9,m_1,100,app_1", "c_1,m_1,100,app_2", "machine or app_du not that of the container's first row"),
    ("c_9,", "c_1,", "duplicate state"),
    (",1.56", "", "not 8 columns"),
])
def test_a_row_is_refused_by_its_rule(tmp_path: Path, old: str, new: str, rule: str) -> None:
    row = GOOD.replace("c_1,", "c_9,").replace(old, new, 1)
    trace, report = read_lines(tmp_path, GOOD, row)
    assert dict(report.refused) == {rule: 1} and trace.requests["request_id"].tolist() == ["c_1"]
    assert report.rejected[["line", "raw"]].values.tolist() == [[2, row]]


@pytest.mark.parametrize(("old", "new", "rule"), [
    ("c_1", "c_7", "sample of a container that is not in container_meta"),
    (",100,", ",x,", "time not a number"),
    (",100,", ",99,", "sample outside its container's arrival .. departure"),
    (",100,", ",201,", "sample outside its container's arrival .. departure"),
    (",10,", ",,", "cpu_util not a number"),
    (",10,", ",101,", "cpu_util_percent or mem_util_percent outside 0 .. 100"),
    (",50,", ",-1,", "cpu_util_percent or mem_util_percent outside 0 .. 100"),
    (",5", "", "not 11 columns"),
])
def test_a_sample_is_refused_by_its_rule(tmp_path: Path, old: str, new: str, rule: str) -> None:
    # The rule of the columns needs ",5" of the last column alone.
    bad = USAGE[:-2] if rule == "not 11 columns" else USAGE.replace(old, new, 1)
    stop = GOOD.replace("started", "stopped").replace(",100,", ",200,")
    trace, report = read_lines(tmp_path, GOOD, stop, usage=(USAGE, bad))
    assert dict(report.refused) == {rule: 1} and report.rejected["file"].tolist() == ["container_usage.csv"]
    assert trace.usage is not None and len(trace.usage) == 1


def test_files_that_are_not_the_format_raise(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must hold container_meta\.csv or"):
        read_trace(NAME, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"batch_task\.csv\.gz \(its containers .* alibaba-2018-containers"):
        read_trace("alibaba-2018", container_folder(tmp_path / "c"))
    with pytest.raises(ValueError, match=r"table\.csv: line 1 must .*, got 2"):
        read_lines(tmp_path, "a,b")
    with pytest.raises(ValueError, match="one started or allocated container and a time after 0, got none"):
        read_lines(tmp_path, GOOD.replace("started", "stopped"))
    with pytest.raises(ValueError, match=r"and a time after 0, got none; refused: \{\}"):
        read_lines(tmp_path, GOOD.replace(",100,", ",0,"))
    with pytest.raises(ValueError, match=r"got none; refused: \{'negative size': 1\}"):
        read_lines(tmp_path, GOOD.replace("1.56", "-1"))


@pytest.mark.parametrize("file", ["container_meta.csv", "container_usage.csv", "container_meta.csv.gz"])
@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_files_are_read_or_refused_never_worse(tmp_path: Path, file: str, edits: Edits) -> None:
    folder = container_folder(tmp_path / "c")
    if file.endswith(".gz"):
        (folder / "container_meta.csv").unlink()
    sample = "\n".join([*(CONTAINER_USAGE if "usage" in file else CONTAINERS), ""]).encode()
    (folder / file).write_bytes(mutated(gzip.compress(sample, mtime=0) if file.endswith(".gz") else sample, edits))
    check_read_or_refused(NAME, folder)


@pytest.mark.skipif(not SAMPLE.is_file(), reason="the shared data is not beside the repository")
def test_real_counts() -> None:
    trace, report = read_trace(NAME, SAMPLE)
    # 3,861 containers of which 35 are only ever stopped; 34 rows at 0 are stopped ones.
    assert (report.n_read, report.n_kept, report.n_refused) == (20_000, 3_826, 0)
    assert trace.horizon_s == 694_284 and trace.meta["n_never_placed"] == 35
    assert (~trace.is_start_known()).sum() == 3_494
    assert trace.is_event().sum() == 4
    assert report.repaired == {"stopped and placed again on its machine: taken as running through": 2}
