"""The sap reader on made files: series of samples become lifetimes, and what is refused."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings

from made_files import sap_folder
from mutations import EDITS, Edits, check_read_or_refused, mutated
from sojourn.features.readers import read_trace

DAY_S = 86_400
ROWS = ("2024-08-01 00:00:00,4,a", "2024-08-02 00:00:00,5,a", "2024-08-03 00:00:00,6,a", "2024-08-02 00:00:00,5,b")


def sap_file(folder: Path, *rows: str) -> Path:
    path = folder / "vrops_virtualmachine_memory_usage_ratio_all.csv"
    path.write_text("\n".join(["Timestamp,Value,Instance", *rows]) + "\n")
    return path


def test_rows(tmp_path: Path) -> None:
    trace, report = read_trace("sap", sap_folder(tmp_path / "sap"))
    assert trace.begin_s == datetime(2024, 8, 1, tzinfo=UTC).timestamp() and trace.meta["interval_s"] == DAY_S
    since = trace.since_begin()
    rows = since.requests.set_index("request_id")
    # a is there at both ends; b from day 2 to 4, with a gap; c, whose samples are in no order, up to the end
    assert since.horizon_s == 4 * DAY_S
    assert rows["arrival_s"].dropna().to_dict() == {"instance-b": DAY_S, "instance-c": 3 * DAY_S}
    assert rows["departure_s"].dropna().to_dict() == {"instance-b": 4 * DAY_S}
    assert rows["n_samples"].to_dict() == {"instance-a": 5, "instance-b": 2, "instance-c": 2}
    assert list(rows.loc["instance-b", ["cpu_cores", "mem_gib", "mean_value"]]) == [1.0, 0.0, 2.0]
    assert (report.n_read, report.n_kept, report.n_joined, dict(report.refused)) == (9, 3, 6, {})
    assert "a sample of a VM about every 86,400 s" in report.notes
    assert "not published" in trace.meta["units"]


@pytest.mark.parametrize("unit", [1, 1_000])
def test_unix_stamps_and_another_metric_are_read(tmp_path: Path, unit: int) -> None:
    stamps = [(day, name) for name, days in (("a", range(5)), ("b", (1, 2))) for day in days]
    path = sap_file(tmp_path, *(f"{(1_722_470_400 + day * DAY_S) * unit},5,{name}" for day, name in stamps))
    rows = read_trace("sap", path)[0].since_begin().requests.set_index("request_id")
    assert list(rows.loc["b", ["arrival_s", "departure_s"]]) == [DAY_S, 3 * DAY_S]


def test_a_declared_interval(tmp_path: Path) -> None:
    path = sap_file(tmp_path, *ROWS)
    trace, report = read_trace("sap", path, interval_s=3_600)
    assert trace.since_begin().requests.set_index("request_id").loc["b", "departure_s"] == DAY_S + 3_600
    assert "a sample of a VM about every 3,600 s, as declared" in report.notes
    for wrong in (0, -5, 1.5):
        with pytest.raises(ValueError, match=f"interval_s must be a whole number above 0, got {wrong}"):
            read_trace("sap", path, interval_s=wrong)


@pytest.mark.parametrize(("row", "rule"), [
    (",5,c", "Timestamp missing"),
    ("yesterday,5,c", "Timestamp in another form, or no time"),
    ("2024-08-02 00:00:00,,c", "Value not a number"),
    ("2024-08-02 00:00:00,-5,c", "Value negative"),
    ("2024-08-02 00:00:00,5, ", "Instance missing"),
    ("2024-08-02 00:00:00,5", "not 3 columns"),
])
def test_a_row_is_refused_by_its_rule(tmp_path: Path, row: str, rule: str) -> None:
    trace, report = read_trace("sap", sap_file(tmp_path, *ROWS, row))
    assert dict(report.refused) == {rule: 1} and len(trace) == 2
    assert report.rejected[["line", "raw"]].values.tolist() == [[6, row]]


def test_files_that_raise(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must hold vrops_virtualmachine_cpu_usage_ratio_all\.csv or "):
        read_trace("sap", tmp_path)
    path = tmp_path / "hosts.csv"
    path.write_text("Timestamp,Value,Host,BB\n2024-08-01,1,h,b\n")
    with pytest.raises(ValueError, match=r"hosts\.csv: line 1 must have the columns Timestamp, Value, Instance, got"):
        read_trace("sap", path)
    with pytest.raises(ValueError, match="must hold several samples of a VM, got none with two times: give interval_s"):
        read_trace("sap", sap_file(tmp_path, ROWS[0]))
    with pytest.raises(ValueError, match="Timestamp must be dates or Unix time, got seconds on its own clock"):
        read_trace("sap", sap_file(tmp_path, "0,5,a", "300,5,a"))
    with pytest.raises(ValueError, match="must hold samples of more than one time, got 1 VMs at one"):
        read_trace("sap", sap_file(tmp_path, ROWS[0]), interval_s=300)


@settings(max_examples=25)
@given(EDITS)
def test_damaged_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, edits: Edits) -> None:
    path = tmp_path_factory.getbasetemp() / "sap.csv"
    path.write_bytes(mutated("\n".join(["Timestamp,Value,Instance", *ROWS]).encode(), edits))
    check_read_or_refused("sap", path)
