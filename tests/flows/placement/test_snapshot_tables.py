"""Tables of a snapshot: text stays text, and what is wrong is named by file, row, column and value."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sojourn.flows.placement.snapshot import SnapshotTable, snapshot_table


def _csv(folder: Path, content: str | bytes) -> SnapshotTable:
    raw = content if isinstance(content, bytes) else content.encode()
    (folder / "t.csv").write_bytes(raw)
    return snapshot_table(folder, "t", ("id",), ("n", "owner", "flag"))


def _parquet(folder: Path, **columns: Any) -> SnapshotTable:
    pd.DataFrame(columns).to_parquet(folder / "t.parquet")
    return snapshot_table(folder, "t", ("id",), ("n", "owner", "flag"))


def test_texts_of_csv_are_not_read_as_numbers(tmp_path: Path) -> None:
    ids = ["000", "3e10", "NA", "1", "01", "nan", "True", "10000000000000000000000001"]
    table = _csv(tmp_path, "id,owner\n" + "".join(f"{one},{one}\n" for one in ids))
    assert table.unique_ids("id") == ids
    assert table.texts("owner") == ids


def test_quoted_cells_blank_lines_and_a_mark_at_the_start(tmp_path: Path) -> None:
    table = _csv(tmp_path, b'\xef\xbb\xbfid,owner\n"a,b","two\nlines"\n\nc,\n')
    assert (table.ids("id"), table.texts("owner")) == (["a,b", "c"], ["two\nlines", None])
    assert table.at(1) == "t.csv, line 5"  # the quoted row has two lines, then a blank one


def test_numbers_and_flags_of_csv(tmp_path: Path) -> None:
    table = _csv(tmp_path, "id,n,flag\na,1e3,True\nb, 2.5 ,0\nc,0,\nd,.5,FALSE\ne,7,1.0\n")
    assert table.numbers("n", 1_000).tolist() == [1_000.0, 2.5, 0.0, 0.5, 7.0]
    assert table.flags("flag").tolist() == [True, False, True, False, True]


@pytest.mark.parametrize("value", ["", "two", "nan", "inf", "-1", "1_000", "1001", "0x10", "True"])
def test_what_is_no_number_is_named(tmp_path: Path, value: str) -> None:
    table = _csv(tmp_path, f"id,n\na,1\nb,{value}\n")
    with pytest.raises(ValueError, match=rf"^t\.csv, line 3: n must be a number in 0\.\.1000, got '{value}'$"):
        table.numbers("n", 1_000)


@pytest.mark.parametrize(("content", "words"), [
    (b"", "t.csv must begin with a header of columns, got an empty file"),
    (b"id\n\n", "got none"),
    (b"id,n\na,1\n\xfcb,2\n", "t.csv: line 3 must be UTF-8, got the byte 0xfc as its byte 1"),
    (b"id,n\na,1\nb,2,3\n", "t.csv, line 3: must have 2 cells as the header, got 3"),
    (b"id,n\na,1\nb\n", "t.csv, line 3: must have 2 cells as the header, got 1"),
    (b"id,n\na,1\n\"b,2\n", "t.csv, line 3: must be CSV, got: unexpected end of data"),
    (b"id,n\na,\x00\n", "t.csv: line 2 must be text, got a NUL"),
    (b"id,n,n\na,1,2\n", "t.csv must have each column once, got 'n' twice"),
    (b"name\na\n", "t.csv must have the columns id, got none named 'id'"),
    (b"id,n\n ,1\n", "t.csv, line 2: id must be text or a whole number, got ' '"),
    (b"id,n\na,1\na,2\n", "t.csv, line 3: id must be unique, got 'a', which line 2 has too"),
])
def test_a_broken_csv_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    if words == "got none":  # no rows are no error
        assert len(_csv(tmp_path, content)) == 0
        return
    with pytest.raises(ValueError) as told:
        _csv(tmp_path, content).unique_ids("id")
    assert words in str(told.value)


def test_whole_numbers_of_parquet_are_ids_without_a_point(tmp_path: Path) -> None:
    table = _parquet(tmp_path, id=[1, 2], owner=[7.0, None], n=[1.5, 2.0], flag=[None, False])
    assert (table.ids("id"), table.texts("owner")) == (["1", "2"], ["7", None])
    assert (table.numbers("n", 9).tolist(), table.flags("flag").tolist()) == ([1.5, 2.0], [True, False])


@pytest.mark.parametrize("value", [True, "3", timedelta(seconds=3), [3.0], None, np.nan, -1.0])
def test_other_types_of_parquet_are_no_numbers(tmp_path: Path, value: Any) -> None:
    table = _parquet(tmp_path, id=["a"], n=[value])
    with pytest.raises(ValueError, match=r"^t\.parquet, row 1: n must be a number in 0\.\.9, got "):
        table.numbers("n", 9)


@pytest.mark.parametrize("value", [True, ["a"], b"a", 1.5, None, ""])
def test_other_types_of_parquet_are_no_ids(tmp_path: Path, value: Any) -> None:
    table = _parquet(tmp_path, id=[value])
    with pytest.raises(ValueError, match=r"^t\.parquet, row 1: id must be text or a whole number, got "):
        table.ids("id")


def test_what_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"^t\.parquet must be a Parquet file that can be read, got: "):
        snapshot_table(tmp_path, "t", ("id",), ())
