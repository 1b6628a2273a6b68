"""A queried trace is compared and admitted from the store, as it was when the command began."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from made_growing import Row, sql_source, write_rows
from sojourn.features import Trace
from sojourn.flows.cli import app
from sojourn.flows.retrain.ingest import with_kept_trace
from sojourn.flows.settings.retrain import RetrainConfig

DAYS: dict[str, list[Row]] = {"2026-11-02": [
    (f"r{k}", f"2026-11-01 {k % 24:02d}:00:00", f"2026-11-01 {k % 24:02d}:40:00", 2.0, 8.0, f"u{k % 3}", 3600.0, "ok")
    for k in range(60)]}


@pytest.fixture()
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file, url = sql_source(tmp_path / "sql", DAYS)
    monkeypatch.setenv("TRACE_URL", url)
    return file


def test_a_table_that_has_changed_is_another_trace(source: Path, tmp_path: Path) -> None:
    settings = RetrainConfig(store=tmp_path / "store", trace=source, reader="sql", load=0.5)
    first = with_kept_trace(settings)
    assert (first.reader, first.load) == ("parquet", 0.5)
    assert first.trace is not None and first.trace.parent == tmp_path / "store" / "traces"
    assert len(Trace.load(first.trace)) == 60
    assert with_kept_trace(settings).trace == first.trace
    write_rows(source.parent / "requests.db", "2026-11-03 12:00:00",
               [("new", "2026-11-01 05:00:00", "2026-11-01 06:00:00", 1.0, 2.0, "u1", None, "ok")])
    later = with_kept_trace(settings).trace
    assert later is not None and later != first.trace and len(Trace.load(later)) == 61
    assert len(Trace.load(first.trace)) == 60


def test_other_traces_stay_as_they_are(tmp_path: Path) -> None:
    settings = RetrainConfig(store=tmp_path / "store")
    assert with_kept_trace(settings) is settings
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "words"), [
    ("gain --policy first-fit --n-seeds 1 --n-workers 1", "first-fit"),
    ("lab admit --n-days 1 --n-draws 1 --n-workers 1 --slack 0.5", "greedy"),
])
def test_a_queried_table_is_compared_and_admitted(arguments: str, words: str, source: Path, tmp_path: Path,
                                                     new_store: Callable[[Path], Path]) -> None:
    store = new_store(tmp_path / "store")
    done = CliRunner().invoke(app, [*arguments.split(), "--reader", "sql", "--store", str(store), str(source)])
    assert done.exit_code == 0, done.output
    assert words in done.output
    assert len(list((store / "traces").glob("source.toml-*"))) >= 1
