"""What stands for a trace: its content alone, and its content with the code that reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from made_growing import DAYS, days_folder, sql_source, write_day, write_rows
from sojourn.features.readers import SourceUnavailable
from sojourn.flows.retrain import ingest as ingesting
from sojourn.flows.retrain.ingest import configured_trace, content_hash, ingested_trace, input_hash, read_into
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.trace import TraceSource


def _of_file(file: Path, reader: str = "parquet") -> TraceSource:
    return RetrainConfig(trace=file, reader=reader).source


def test_a_content_is_the_same_under_another_name_reader_or_code(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).write_text(content)
    a, b, c = (_of_file(tmp_path / name) for name in "abc")
    assert content_hash(a) == content_hash(b) == content_hash(_of_file(tmp_path / "a", "openb")) != content_hash(c)
    assert len({input_hash(one) for one in (a, b, c, _of_file(tmp_path / "a", "openb"))}) == 4
    made = RetrainConfig(n_requests=2_000, seed=3).source
    assert content_hash(made) != content_hash(RetrainConfig(n_requests=2_000, seed=4).source)
    before = [(content_hash(one), input_hash(one)) for one in (a, made)]
    monkeypatch.setattr(ingesting, "trace_code", lambda: "edited")
    for one, (content, whole) in zip((a, made), before, strict=True):
        assert content_hash(one) == content
        assert input_hash(one) != whole


def test_a_declared_horizon_is_another_trace(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    told, short, long = (RetrainConfig(trace=file, reader="swf", horizon_s=each).source for each in (None, 100, 200))
    assert len({input_hash(one) for one in (told, short, long)}) == 3  # the kept trace, and all that is made of it
    assert len({content_hash(one) for one in (told, short, long)}) == 3
    assert content_hash(told) == content_hash(_of_file(file))


def test_a_folder_is_its_files_wherever_each_stands(tmp_path: Path) -> None:
    for folder, (x, y) in (("first", "12"), ("second", "21"), ("third", "13")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").write_text(x)
        (tmp_path / folder / "y").write_text(y)
    first, second, third = (_of_file(tmp_path / name) for name in ("first", "second", "third"))
    assert content_hash(first) == content_hash(second) != content_hash(third)
    assert input_hash(first) != input_hash(second)  # a reader tells its files by their names


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "removed": Path.unlink,
    "emptied": lambda file: file.write_bytes(b""),
    "flipped": lambda file: file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_trace_is_read_anew(tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = RetrainConfig(store=tmp_path, n_requests=1_000)
    folder = ingested_trace(config.store, config.source, "0" * 64).folder
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(whole) == ["checksums.json", "hosts.parquet", "report.txt", "requests.parquet", "trace.json"]
    capsys.readouterr()
    for name in whole:
        DAMAGE[damage](folder / name)
        assert ingested_trace(config.store, config.source, "0" * 64).folder == folder
        assert "the kept trace synthetic-000000000000 is damaged and read anew" in capsys.readouterr().out
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    ingested_trace(config.store, config.source, "0" * 64)
    assert capsys.readouterr().out == ""


def test_who_reads_a_trace_keeps_it_when_another_makes_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RetrainConfig(store=tmp_path, n_requests=1_000)
    make = configured_trace
    inodes: list[int] = []

    def slow(asked: TraceSource, kept: Path | None) -> object:
        monkeypatch.setattr(ingesting, "configured_trace", make)
        inodes.append((ingested_trace(config.store, config.source, "0" * 64).folder / "requests.parquet").stat().st_ino)
        return make(asked, kept)

    monkeypatch.setattr(ingesting, "configured_trace", slow)
    folder = ingested_trace(config.store, config.source, "0" * 64).folder
    assert [(folder / "requests.parquet").stat().st_ino] == inodes
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_source_that_grows_is_kept_by_its_content(tmp_path: Path) -> None:
    source = _of_file(days_folder(tmp_path / "days"), "parquet-days")
    first = read_into(tmp_path / "store", source)
    assert "3 of 3 parts read" in first.report and first.content_hash == content_hash(source)
    assert read_into(tmp_path / "store", source) == first
    write_day(tmp_path / "days", "2026-11-04", DAYS["2026-11-03"])
    second = read_into(tmp_path / "store", source)
    assert "1 of 4 parts read" in second.report and second.data_hash != first.data_hash
    (tmp_path / "days" / "2026-11-01.parquet").unlink()
    with pytest.raises(ValueError, match="must not shrink, got 2026-11-01 gone"):
        read_into(tmp_path / "store", source)
    assert "0 of 3 parts" in read_into(tmp_path / "store", replace(source, is_shrunk_allowed=True)).report


def test_a_query_is_asked_each_time_and_its_trace_kept_by_its_content(tmp_path: Path,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    file, url = sql_source(tmp_path / "sql")
    monkeypatch.setenv("TRACE_URL", url)
    source = _of_file(file, "sql")
    first, again = (read_into(tmp_path / "store", source) for _ in range(2))
    assert (again.folder, again.data_hash, again.content_hash) == (first.folder, first.data_hash, first.content_hash)
    assert "all rows read" in first.report and "rows read, those written since" in again.report
    write_rows(tmp_path / "sql" / "requests.db", "2026-11-04 02:00:00", [DAYS["2026-11-01"][0]])
    assert read_into(tmp_path / "store", source).data_hash != first.data_hash
    assert len(list((tmp_path / "store" / "traces").iterdir())) == 2
    with pytest.raises(ValueError, match=r"reader must .*, got 'sql'"):
        input_hash(source)


def test_no_file_of_the_store_holds_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, url = sql_source(tmp_path / "sql")
    monkeypatch.setenv("TRACE_URL", f"{url}?password=hunter2")
    read_into(tmp_path / "store", _of_file(file, "sql"))
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()
            and b"hunter2" in path.read_bytes()] == []


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_database_that_is_away_is_asked_again_and_a_wrong_query_is_not(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect import flow
    from prefect.client.orchestration import get_client

    file, url = sql_source(tmp_path / "sql")
    monkeypatch.setenv("TRACE_URL", url)
    monkeypatch.setattr(ingesting, "RETRY_AFTER_S", (0.0, 0.0, 0.0))
    source = RetrainConfig(trace=file, reader="sql").source
    errors: list[Exception] = [SourceUnavailable("away"), SourceUnavailable("away")]
    n_asked = []

    def read(store: Path, source: TraceSource) -> object:
        n_asked.append(1)
        if errors:
            raise errors.pop()
        return read_into(store, source)

    monkeypatch.setattr(ingesting, "read_into", read)

    @flow(persist_result=False)
    def reading() -> str:
        return ingesting.ingesting(source)(tmp_path / "store", source).report

    assert "all rows read" in reading() and len(n_asked) == 3
    with get_client(sync_client=True) as client:
        found = client.read_artifacts()
    assert any(each.key == "read-report" and "all rows read" in str(each.data) for each in found)
    errors[:] = [ValueError("a column drifted")]
    n_asked.clear()
    with pytest.raises(ValueError, match="a column drifted"):
        reading()
    assert len(n_asked) == 1
