"""Usage that a trace carries: in memory as a grid, and from its folder as a stream."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn.features import Trace
from sojourn.features.usage import grid_of, read_usage, store_usage

BEGIN_S = 1_364_684_400
"""Sunday 2013-03-31 00:00 in Berlin, where the hour from 2 to 3 is left out."""


def made_trace(**changed: list[object]) -> Trace:
    """Two requests of 1,500 s of which only b has usage, out of order and with a sample of a stranger."""
    requests = pd.DataFrame({"request_id": ["a", "b"], "arrival_s": [0, 0], "departure_s": [None, None],
                             "cpu_cores": [1.0, 2.0], "mem_gib": [4.0, 8.0]})
    usage = {"request_id": ["b", "b", "c", "b", "b", "b"], "time_s": [300, 0, 0, 0, 900, 1200],
             "cpu_frac": [0.5, 0.25, 0.5, 0.75, 1.5, 1.0], "mem_frac": [0.5, None, 0.5, 0.5, 0.5, 0.5]}
    return Trace(requests, horizon_s=1500, usage=pd.DataFrame(usage | changed),
                 meta={"source": "made"}).moved(BEGIN_S, BEGIN_S)


def test_a_trace_in_memory_becomes_a_grid_of_those_with_usage() -> None:
    grid = grid_of(made_trace(), timezone="Europe/Berlin")
    assert grid.request_ids.tolist() == ["b"] and grid.cpu_cores.tolist() == [2.0]
    np.testing.assert_array_equal(grid.cpu, np.array([[0.25, 0.5, np.nan, 1.5, 1.0]], np.float32))
    assert grid.mem is not None
    np.testing.assert_array_equal(grid.mem, np.array([[np.nan, 0.5, np.nan, 0.5, 0.5]], np.float32))
    assert grid.clock.slot(BEGIN_S + np.array([0, 7200]), 24).tolist() == [0, 3]


def test_a_window_and_a_bridge() -> None:
    grid = grid_of(made_trace(), 300, start_s=BEGIN_S + 300, end_s=BEGIN_S + 1200, bridge_steps=1)
    assert grid.cpu.tolist() == [[0.5, 0.5, 1.5]]
    assert (grid.time_s() - BEGIN_S).tolist() == [300, 600, 900]
    assert grid_of(made_trace(), 600, take="max").cpu.tolist() == [[0.5, 1.5, 1.0]]


def test_the_folder_of_a_trace_gives_the_same_grid(tmp_path: Path) -> None:
    folder = made_trace().save(tmp_path / "trace")
    stream = read_usage("parquet", folder)
    stored = store_usage(stream, tmp_path / "usage").grid()
    expected = grid_of(made_trace())
    np.testing.assert_array_equal(stored.cpu, expected.cpu)
    np.testing.assert_array_equal(stored.mem, expected.mem)
    assert stored.request_ids.tolist() == ["b"] and stored.clock == expected.clock
    report = stream.report()
    assert report.without_series == ("a",) and report.without_request == ("c",)


@pytest.mark.parametrize(("changed", "error"), [
    ({"step_s": 0}, "step_s must be at least 1, got 0"),
    ({"start_s": BEGIN_S + 900, "end_s": BEGIN_S + 900},
     f"end_s must be after start_s {BEGIN_S + 900}, got {BEGIN_S + 900}"),
])
def test_what_is_refused(changed: dict[str, int], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        grid_of(made_trace(), **changed)  # type: ignore[arg-type]


def test_a_trace_without_usage_is_refused(tmp_path: Path) -> None:
    bare = replace(made_trace(), usage=None)
    with pytest.raises(ValueError, match="trace must carry usage, got none"):
        grid_of(bare)
    with pytest.raises(FileNotFoundError, match=r"trace folder must hold usage\.parquet"):
        read_usage("parquet", bare.save(tmp_path / "trace"))
    with pytest.raises(ValueError, match=r"made must hold at least one sample.*name 'c', the trace 'a'"):
        grid_of(made_trace(cpu_frac=[-1.0] * 6))


def _folder_with(tmp_path: Path, usage: pa.Table | bytes) -> Path:
    folder = made_trace().save(tmp_path / "trace")
    if isinstance(usage, bytes):
        (folder / "usage.parquet").write_bytes(usage)
    else:
        pq.write_table(usage, folder / "usage.parquet")
    return folder


_GOOD: dict[str, list[object]] = {"request_id": ["a", "b"], "time_s": [0, 300], "cpu_frac": [0.5, 0.25]}
_TIME = pd.to_datetime([0, 300], unit="s")


@pytest.mark.parametrize(("usage", "words"), [
    (pa.table({**_GOOD, "time_s": _TIME}), r"must have numbers, got timestamp\[\w+\] such as 1970"),
    (pa.table({**_GOOD, "time_s": _TIME - _TIME[0]}), r"must have numbers, got duration"),
    (pa.table({**_GOOD, "cpu_frac": [[0.5], [0.25]]}), "must have numbers, got list"),
    (pa.table({**_GOOD, "cpu_frac": [True, False]}), "must have numbers, got bool"),
    (pa.table({**_GOOD, "request_id": [["a"], ["b"]]}), "ids must be text or whole numbers, got list"),
    (pa.table({**_GOOD, "request_id": [b"\xff", b"b"]}), "ids must be text or whole numbers, got"),
    (pa.table({**_GOOD, "request_id": pa.array([2**64 - 1, 1], pa.uint64())}), r"ids must be below 2\*\*63"),
    (pa.table({**_GOOD, "request_id": [1, 2]}), "samples name 1, the trace 'a'"),
    (pa.Table.from_arrays([pa.array(value) for value in (*_GOOD.values(), [1.0, 2.0])], [*_GOOD, "cpu_frac"]),
     "usage.parquet must hold each column once"),
    (b"", r"usage\.parquet must be a Parquet file"), (b"PAR1" + bytes(99), r"usage\.parquet must be a Parquet file"),
])
def test_a_usage_table_of_wrong_types_is_refused_with_the_type(tmp_path: Path, usage: pa.Table | bytes,
                                                               words: str) -> None:
    with pytest.raises(ValueError, match=words):
        store_usage(read_usage("parquet", _folder_with(tmp_path, usage)), tmp_path / "usage")


@pytest.mark.parametrize("ids", [
    pa.array([b"a", b"b"]), pa.array(["a", "b"]).dictionary_encode(), pa.array(["a", "b"], pa.large_string()),
])
def test_ids_match_however_parquet_keeps_text(tmp_path: Path, ids: pa.Array) -> None:
    stream = read_usage("parquet", _folder_with(tmp_path, pa.table({**_GOOD, "request_id": ids})))
    assert store_usage(stream, tmp_path / "usage").grid().request_ids.tolist() == ["a", "b"]


def test_a_file_in_place_of_a_folder_names_the_reader_for_it(tmp_path: Path) -> None:
    folder = _folder_with(tmp_path, pa.table(_GOOD))
    with pytest.raises(FileNotFoundError, match="the reader `table` reads a file of one's own"):
        read_usage("parquet", folder / "usage.parquet")
