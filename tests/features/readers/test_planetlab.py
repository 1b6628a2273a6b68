"""The planetlab reader: VM-days as requests, and series that are refused whole."""

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings

from made_files import planetlab_file
from mutations import EDITS, Edits, check_read_or_refused, mutated
from sojourn.features.readers import read_trace

DATA = Path(__file__).parents[4] / "shared" / "data" / "planetlab"
FLAT = [0] * 288


def test_rows(tmp_path: Path) -> None:
    planetlab_file(tmp_path / "planetlab_cpu_5min.parquet")
    trace, report = read_trace("planetlab", tmp_path)
    rows = trace.requests
    assert trace.horizon_s == 86_400 and not trace.is_event().any() and not trace.is_start_known().any()
    assert rows[["request_id", "vm", "day"]].values.tolist() == [
        [1, "a_x", "20110303"], [2, "b_x", "20110303"], [3, "a_x", "20110306"]]
    assert trace.roles.columns() == ("vm",) and trace.meta["days"] == ["20110303", "20110306"]
    assert (report.n_read, report.n_kept) == (3, 3)
    assert trace.usage is not None and len(trace.usage) == 3 * 288
    # The last VM-day: 50 % all day and 99 % in the last five minutes, from 287 x 300 s on.
    assert trace.usage.iloc[-2:].values.tolist() == [[3, 85_800, 0.5], [3, 86_100, 0.99]]


def test_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = planetlab_file(tmp_path / "p.parquet")
    trace, report = read_trace("planetlab", path, day="20110306")
    assert trace.requests["request_id"].tolist() == [3] and report.n_read == 1
    assert read_trace("planetlab", path, usage=False)[0].usage is None
    monkeypatch.setattr("sojourn.features.readers.planetlab.MAX_USAGE_ROWS", 3 * 288 - 1)
    assert read_trace("planetlab", path)[0].usage is None
    assert read_trace("planetlab", path, usage=True)[0].usage is not None
    with pytest.raises(ValueError, match="one VM of the day '2011', got days 20110303, 20110306; refused"):
        read_trace("planetlab", path, day="2011")


def test_rows_are_numbered_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.features.readers.planetlab._BLOCK", 1)
    trace, report = read_trace("planetlab", planetlab_file(tmp_path / "p.parquet", vm=["a_x", "a_x", "a_x"]))
    assert trace.requests["request_id"].tolist() == [1, 3]
    assert report.rejected[["line", "rule"]].values.tolist() == [[2, "duplicate day and vm"]]


@pytest.mark.parametrize(("column", "value", "rule"), [
    ("day", "2011-3-3", "day not eight digits"),
    ("day", None, "day not eight digits"),
    ("vm", None, "vm missing"),
    ("vm", "a_x", "duplicate day and vm"),
    ("cpu_pct", None, "not 288 samples"),
    ("cpu_pct", FLAT[1:], "not 288 samples"),
    ("cpu_pct", [*FLAT[1:], None], "a sample missing or outside 0 .. 100"),
    ("cpu_pct", [*FLAT[1:], 101], "a sample missing or outside 0 .. 100"),
    ("cpu_pct", [*FLAT[1:], -1], "a sample missing or outside 0 .. 100"),
])
def test_a_row_is_refused_by_its_rule(tmp_path: Path, column: str, value: object, rule: str) -> None:
    whole = pd.read_parquet(planetlab_file(tmp_path / "p.parquet"))[column].tolist()
    path = planetlab_file(tmp_path / "p.parquet", **{column: [whole[0], value, whole[2]]})
    trace, report = read_trace("planetlab", path)
    assert dict(report.refused) == {rule: 1} and trace.requests["request_id"].tolist() == [1, 3]
    assert report.rejected[["file", "line"]].values.tolist() == [["p.parquet", 2]]


def test_files_that_are_not_the_format_raise(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must hold planetlab_cpu_5min\.parquet"):
        read_trace("planetlab", tmp_path)
    path = tmp_path / "p.parquet"
    with pytest.raises(ValueError, match=r"p\.parquet: cpu_pct must .*, got int64"):
        read_trace("planetlab", planetlab_file(path, cpu_pct=[1, 2, 3]))
    with pytest.raises(ValueError, match="must hold at least one VM, got days 20110303, 20110306; refused"):
        read_trace("planetlab", planetlab_file(path, vm=["", "", ""]))
    path.write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"p\.parquet must be a Parquet file with the columns day, vm, cpu_pct"):
        read_trace("planetlab", path)


@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_files_are_read_or_refused_never_worse(tmp_path: Path, edits: Edits) -> None:
    path = planetlab_file(tmp_path / "p.parquet")
    path.write_bytes(mutated(path.read_bytes(), edits))
    check_read_or_refused("planetlab", path)


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside the repository")
def test_real_counts() -> None:
    trace, report = read_trace("planetlab", DATA)
    assert (report.n_kept, report.n_refused, trace.requests["vm"].nunique()) == (11_746, 0, 3_596)
    assert len(trace.meta["days"]) == 10
    assert trace.usage is not None and len(trace.usage) == 11_746 * 288
    assert trace.usage["cpu_frac"].mean() == pytest.approx(0.111, abs=5e-4)
