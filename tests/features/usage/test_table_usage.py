"""A table of one's own as usage: whatever its columns are called, however times and ids are written."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sojourn.features.usage import read_usage, store_usage

START = pd.Timestamp("2024-03-30T23:00:00Z")
"""Midnight in Berlin, on the day on which daylight saving begins."""
FRAME = pd.DataFrame({
    "vm": ["b", "a", "b", "a", "a"], "at": START + pd.to_timedelta([0, 0, 3600, 7200, 3600], unit="s"),
    "load": [10.0, 20.0, 30.0, 50.0, 40.0], "ram": [100.0, 0.0, np.nan, 50.0, 25.0]})
NAMES = {"request": "vm", "time": "at", "cpu": "load", "mem": "ram", "full": 100.0, "timezone": "Europe/Berlin"}


def _written(frame: pd.DataFrame, folder: Path, kind: str) -> Path:
    if kind == "parquet":
        frame.to_parquet(folder / "own.parquet", index=False)
        return folder / "own.parquet"
    path = folder / f"own.{kind}"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("change", [
    lambda frame: frame, lambda frame: frame[["ram", "at", "load", "vm"]],
    lambda frame: frame.assign(vm=frame["vm"].astype("category")),
    lambda frame: frame.assign(at=frame["at"].dt.tz_convert("Europe/Berlin")),
    lambda frame: frame.assign(at=frame["at"].dt.tz_localize(None)),
    lambda frame: frame.assign(at=frame["at"].dt.strftime("%Y-%m-%dT%H:%M:%S.250Z")),
    lambda frame: frame.assign(at=(frame["at"] - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(seconds=1)),
], ids=["as it is", "reordered", "categories", "zone", "no zone", "text", "unix seconds"])
def test_every_way_of_writing_a_table_gives_the_same_series(tmp_path: Path, kind: str, change: object) -> None:
    stream = read_usage("table", _written(change(FRAME), tmp_path, kind), **NAMES)  # type: ignore[operator]
    store = store_usage(stream, tmp_path / "usage")
    grid = store.grid(["a", "b"], 3600)
    assert grid.cpu.round(3).tolist() == [[np.float32(x) for x in (0.2, 0.4, 0.5)],
                                          [np.float32(0.1), np.float32(0.3), pytest.approx(np.nan, nan_ok=True)]]
    assert grid.mem is not None and grid.mem[0].tolist() == [0.0, 0.25, 0.5] and np.isnan(grid.mem[1, 1])
    # 0:00, 1:00 and, since 2:00 does not exist that day, 3:00
    assert np.flatnonzero(store.profiles(24).count.sum(0)).tolist() == [0, 1, 3]


def test_numbers_of_milliseconds_and_ids_of_whole_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"request_id": [7, 7, 2**40], "time_s": [1000, 301_500, 1000], "cpu_frac": [0.5, 0.25, 1.0]})
    store = store_usage(read_usage("table", _written(frame, tmp_path, "parquet"), unit_s=0.001), tmp_path / "usage")
    assert store.requests.request_ids.tolist() == [7, 2**40]
    assert store.grid([7]).cpu.tolist() == [[0.5, 0.25]] and store.start_s == 1


@pytest.mark.parametrize(("frame", "options", "words"), [
    (FRAME.drop(columns="load"), {}, "load"),
    (FRAME.assign(at="soon"), {}, "at must be times or numbers, got none in any row"),
    (FRAME.head(0), {}, "at must be times or numbers|at least one row"),
    (FRAME, {"full": 0.0}, "full must be finite and above 0, got 0.0"),
    (FRAME, {"cpu": "ram"}, "must be different columns"),
    (FRAME, {"full": 0.01}, "cpu above the cap': 5"),
])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_that_cannot_be_read_are_refused(tmp_path: Path, frame: pd.DataFrame, options: dict[str, object],
                                                words: str, kind: str) -> None:
    with pytest.raises(ValueError, match=words):
        store_usage(read_usage("table", _written(frame, tmp_path, kind), **{**NAMES, **options}), tmp_path / "usage")


def test_ids_that_are_missing_or_no_whole_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"request_id": [7.0, np.nan, 9.0], "time_s": [0, 300, 600], "cpu_frac": 0.5})
    store = store_usage(read_usage("table", _written(frame, tmp_path, "parquet")), tmp_path / "usage")
    assert store.requests.request_ids.tolist() == [7, 9] and store.requests.request_ids.dtype == np.int64
    for bad, shown in ((1.25, "1.25"), (2.0 ** 53, "9007199254740992"), (np.inf, "inf")):
        path = _written(frame.assign(request_id=[7.0, bad, 9.0]), tmp_path, "parquet")
        with pytest.raises(ValueError, match=f"ids must be text or whole numbers, got {shown}"):
            store_usage(read_usage("table", path), tmp_path / "bad")
    path = _written(frame.assign(request_id=None), tmp_path, "parquet")
    with pytest.raises(ValueError, match=r"got none and 3 refused|at least one sample"):
        store_usage(read_usage("table", path), tmp_path / "none")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_first_row_without_a_time_is_one_refused_sample(tmp_path: Path, kind: str) -> None:
    frame = FRAME.copy()
    frame.loc[0, "at"] = pd.NaT
    stream = read_usage("table", _written(frame, tmp_path, kind), **NAMES)
    store = store_usage(stream, tmp_path / "usage")
    assert store.start_s == int(FRAME["at"][1].timestamp())
    assert "time missing" in stream.report().text()


def test_a_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("request_id,time_s,cpu_frac,cpu_frac\na,0,0.1,0.2\n")
    with pytest.raises(ValueError, match="must hold each column once, got cpu_frac 2 times"):
        store_usage(read_usage("table", path), tmp_path / "usage")


@pytest.mark.parametrize("kind", ["csv.gz", "parquet"])
def test_cut_files_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    path = _written(pd.concat([FRAME] * 500), tmp_path, kind)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=path.name):
        store_usage(read_usage("table", path, **NAMES), tmp_path / "usage")
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"path must .*, got the folder"):
        read_usage("table", tmp_path)
    with pytest.raises(FileNotFoundError):
        read_usage("table", tmp_path / "own.csv")
    (tmp_path / "own.csv").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    with pytest.raises(ValueError, match=r"own\.csv must be a CSV file with the columns vm, at, load, ram"):
        read_usage("table", tmp_path / "own.csv", **NAMES)


def test_percent_read_as_shares_are_told(tmp_path: Path) -> None:
    frame = FRAME.assign(load=[0.1, 0.2, 30.0, 50.0, 40.0])  # a busy hour; idle machines stay below the cap
    told: list[str] = []
    silent: list[str] = []
    for options, found in (({**NAMES, "full": 1.0}, told), (NAMES, silent)):
        stream = read_usage("table", _written(frame, tmp_path, "parquet"), **options)
        assert sum(map(len, stream.blocks())) == (2 if found is told else 5)
        found.extend(stream.report().doubts())
    assert told == ["doubt: 3 of 5 samples have cpu above the cap: cpu must be a share of what is reserved; percent "
                    "are divided by 100 (`full` 100, of the reader `table`)"]
    assert silent == []


def test_milliseconds_read_as_seconds_are_refused(tmp_path: Path) -> None:
    stamps = (FRAME["at"] - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(milliseconds=1)
    path = _written(FRAME.assign(at=stamps), tmp_path, "parquet")
    with pytest.raises(ValueError, match=r"at must .*, got 1711839600000: if it is in "
                                         "milliseconds, set unit_s to 0.001"):
        read_usage("table", path, **NAMES)
    assert sum(map(len, read_usage("table", path, **NAMES, unit_s=0.001).blocks())) == 5
