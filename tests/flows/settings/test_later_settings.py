"""`--test FILE`: what is refused, how the later file is read, and that what is kept depends on both files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from sojourn.features import Trace
from sojourn.flows.cli import app
from sojourn.flows.retrain.ingest import content_hash, ingested_trace, input_hash
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.trace import TraceSource, since_s
from sojourn.flows.tracking.tracker import train_and_test

HEADER = "began,over,who\n"


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    past, later = tmp_path / "past.csv", tmp_path / "later.csv"
    past.write_text(HEADER + "0,30,ann\n10,,ann\n20,90,bob\n")
    later.write_text(HEADER + "5,20,ann\n9,60,bob\n")
    return past, later


PAIRS = ("arrival=began", "departure=over", "owner=who", "cpu_cores=1")


def _source(past: Path, later: Path | None = None, **settings: object) -> TraceSource:
    return RetrainConfig(trace=past, reader="csv", test=later, **settings).source  # type: ignore[arg-type]


def _map_beside(table: Path) -> None:
    beside = table.with_name(f"{table.name}.toml")
    beside.write_text('owners = ["who"]\n[columns]\narrival = "began"\ndeparture = "over"\n')


def test_the_later_file_is_read_as_the_trace_is(tables: tuple[Path, Path], tmp_path: Path) -> None:
    past, later = tables
    _map_beside(past)
    source = _source(past, later, test_offset_s=100)
    assert source.later is not None
    assert source.later.columns.file == past.with_name("past.csv.toml")
    ingested = ingested_trace(tmp_path / "store", source, input_hash(source))
    assert ingested.name == "past.csv+later.csv"
    assert "the trace's end is second 90; the test file begins at second 100" in ingested.report
    trace = Trace.load(ingested.folder)
    assert trace.requests["who"].tolist() == ["ann", "ann", "bob", "ann", "bob"]
    assert trace.end_s().tolist() == [30, 90, 90, 120, 160]
    before = ingested.folder.stat().st_mtime_ns
    assert ingested_trace(tmp_path / "store", source, input_hash(source)) == ingested
    assert ingested.folder.stat().st_mtime_ns == before  # kept, not read again
    _map_beside(later)  # its own, where it has one
    assert _source(past, later, test_offset_s=100).later.columns.file is None  # type: ignore[union-attr]
    other = _source(past, later, test_reader="parquet", test_offset_s=100).later
    assert other is not None
    assert (other.reader, other.columns.file, other.columns.pairs) == ("parquet", None, ())


def test_what_is_kept_depends_on_both_files_and_the_offset(tables: tuple[Path, Path]) -> None:
    past, later = tables
    _map_beside(past)
    asked = [(None, None), (later, 100), (later, 200)]
    sources = [_source(past, file, test_offset_s=offset_s) for file, offset_s in asked]
    later.write_text(HEADER + "5,20,ann\n9,61,bob\n")
    hashes = [[hash_of(source) for source in sources] for hash_of in (input_hash, content_hash)]
    assert [len(set(each)) for each in hashes] == [3, 3]
    later.write_text(HEADER + "5,20,ann\n9,62,bob\n")
    for hash_of, before in zip((input_hash, content_hash), hashes, strict=True):
        assert [hash_of(source) == old for source, old in zip(sources, before, strict=True)] == [True, False, False]


def test_the_test_window_s_data_set_is_the_later_file(tables: tuple[Path, Path]) -> None:
    past, later = tables
    _map_beside(past)
    train, test = train_and_test(_source(past, later, test_offset_s=100), "both", "f" * 64, 90, 3, 2)
    assert ("past.csv" in train.source, "later.csv" in test.source) == (True, True)


@pytest.mark.parametrize(("settings", "rule"), [
    ({"test_offset_s": 100}, "test_offset_s must be given with test, got 100 without one"),
    ({"allow_overlap": True}, "allow_overlap must be given with test"),
    ({"test": Path("later.csv")}, "test must be given with a trace file, got 'later.csv' for the synthetic trace"),
    ({"test": Path("later.csv"), "trace": Path("past.csv"), "reader": "csv", "test_reader": "sql"},
     "test_reader must be one of files with test, got 'sql'"),
    ({"test": Path("later.csv"), "trace": Path("past.csv"), "reader": "csv", "test_reader": "xlsx"},
     "test_reader must be one of .*, got 'xlsx'"),
])  # fmt: skip
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, object], rule: str) -> None:
    with pytest.raises(ValidationError, match=rule):
        RetrainConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("content", "rule"), [
    (None, "test must be a file or folder, got"),
    ("", "test must hold requests, got an empty file"),
])
def test_a_later_file_that_is_not_there_is_refused_before_any_work(tables: tuple[Path, Path], tmp_path: Path,
                                                                   content: str | None, rule: str) -> None:
    missing = tmp_path / "missing.csv"
    if content is not None:
        missing.write_text(content)
    maps = [part for pair in PAIRS[:3] for part in ("--column-map", pair)]
    done = CliRunner().invoke(app, ["lab", "evaluate", str(tables[0]), "--reader", "csv", *maps, "--test",
                                    str(missing), "--store", str(tmp_path / "store")])
    assert done.exit_code == 2
    assert rule in " ".join(done.stderr.split())
    assert not (tmp_path / "store").exists()


def test_a_span_counts_back_from_the_first_file_s_end() -> None:
    table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [9], "cpu_cores": [1.0],
                          "mem_gib": [1.0]})
    assert since_s("1h", Trace(table, 10_000, meta={"test_from_s": 5_000})) == 1_400
