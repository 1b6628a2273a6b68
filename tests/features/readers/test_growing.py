"""Sources that grow: read in steps or at once they give the same trace; drift and loss are refused by name."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_growing import (
    COLUMNS,
    DAYS,
    DECLARATION,
    SQL_DECLARATION,
    Row,
    days_folder,
    sql_source,
    table,
    write_day,
    write_rows,
)
from sojourn.features import Trace
from sojourn.features.readers import KeptParts, _parts, read_trace
from sojourn.features.readers import parquet as parquet_days
from sojourn.features.readers import sql as sql_reader

ORIGIN_S = 1_793_491_200
"""2026-11-01 00:00 UTC, the origin of `made_growing`."""


def saved(trace: Trace, folder: Path) -> dict[str, bytes]:
    """The bytes that stand for a trace."""
    return {path.name: path.read_bytes() for path in sorted(trace.save(folder).iterdir())}


def kept_in(folder: Path, code: str = "code") -> KeptParts:
    return KeptParts(folder / "parts.parquet", code)


def test_the_newest_row_of_a_request_counts(tmp_path: Path) -> None:
    trace, report = read_trace("parquet-days", days_folder(tmp_path / "days"))
    rows = trace.requests.set_index("request_id")
    # Origin 2026-11-01 00:00. a began at 1:00 = 3,600 s, and ended two days later at 5:00 = 190,800 s; b's end moved.
    assert rows["departure_s"].to_dict() == {
        "a": ORIGIN_S + 190_800, "b": ORIGIN_S + 12_600, "c": ORIGIN_S + 88_200}
    assert rows["user"].tolist() == ["ann", "bob", "bob"]
    assert (trace.horizon_s, trace.meta["start_unix_s"]) == (ORIGIN_S + 190_800, ORIGIN_S)
    assert report.n_read == 6 and report.n_joined == 3
    assert report.notes[1:] == ("1 row came again unchanged",
                                "1 row gave the end of a request that an earlier row began",
                                "1 row corrected an earlier row: the newer one counts (such as b)")


def test_a_part_may_be_a_folder_of_files(tmp_path: Path) -> None:
    whole, _ = read_trace("parquet-days", days_folder(tmp_path / "whole"))
    folder = days_folder(tmp_path / "parts", {})
    for day, rows in DAYS.items():
        for number, row in enumerate(rows):
            write_day(folder, day, [row], f"part-{number}.parquet")
        (folder / f"day={day}" / "_SUCCESS").touch()
    assert saved(read_trace("parquet-days", folder)[0], tmp_path / "a") == saved(whole, tmp_path / "b")


def test_only_new_and_changed_parts_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, kept = days_folder(tmp_path / "days"), kept_in(tmp_path)
    read: list[str] = []
    checked = _parts.checked_part

    def counted(day: str, *rest: object) -> object:
        read.append(day)
        return checked(day, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(parquet_days, "checked_part", counted)

    def again() -> tuple[list[str], str]:
        read.clear()
        _, report = read_trace("parquet-days", folder, kept=kept)
        return list(read), report.notes[-1]

    assert again() == (list(DAYS), "3 of 3 parts read")
    assert again() == ([], "0 of 3 parts read, 3 kept from earlier reads")
    write_day(folder, "2026-11-04", [("d", "2026-11-04 01:00:00", None, 1.0, 1.0, "ann", None, None)])
    assert again()[0] == ["2026-11-04"]
    write_day(folder, "2026-11-02", [*DAYS["2026-11-02"],
                                     ("e", "2026-11-02 01:00:00", None, 1.0, 1.0, "ann", None, None)])
    assert again()[0] == ["2026-11-02"]
    read.clear()
    read_trace("parquet-days", folder, kept=kept_in(tmp_path, "edited"))
    assert len(read) == 4  # other code reads all anew


DAY_0 = date(2026, 11, 1)
ROWS = st.lists(st.tuples(
    st.sampled_from("abcdefg"), st.integers(0, 5), st.integers(0, 23), st.none() | st.integers(0, 50),
    st.sampled_from(["ann", "bob", None]), st.sampled_from([1.0, 2.0, -1.0])), max_size=5)  # fmt: skip
STEPS = st.lists(st.tuples(st.integers(0, 9), ROWS), min_size=1, max_size=6)


def _row(made: tuple[str, int, int, int | None, str | None, float]) -> Row:
    """A row whose arrival may lie before the origin or after its day, and whose size may be negative."""
    name, day, hour, hours, user, cpu = made
    arrival = pd.Timestamp(DAY_0) + pd.Timedelta(hours=24 * (day - 1) + hour)
    departure = None if hours is None else str(arrival + pd.Timedelta(hours=hours))
    return (name, str(arrival), departure, cpu, 1.0, user, None, None)


def _trace_or_error(read: Callable[[], Trace], folder: Path) -> object:
    try:
        return saved(read(), folder)
    except ValueError as error:
        return str(error)


@settings(max_examples=20)
@given(steps=STEPS)
def test_a_folder_read_in_steps_is_the_folder_read_at_once(tmp_path_factory: pytest.TempPathFactory,
                                                           steps: list[tuple[int, list[tuple]]]) -> None:  # type: ignore[type-arg]
    """Days come in any order; a day that comes again gains rows, as a late export would write it."""
    root = tmp_path_factory.mktemp("steps")
    folder = days_folder(root / "days", {})
    written: dict[str, list[Row]] = {}
    for number, (day, rows) in enumerate(steps):
        name = (DAY_0 + timedelta(days=day)).isoformat()
        written[name] = [*written.get(name, []), *map(_row, rows)]
        write_day(folder, name, written[name])
        grown = _trace_or_error(lambda: read_trace("parquet-days", folder, kept=kept_in(root))[0], root / f"g{number}")
        fresh = _trace_or_error(lambda: read_trace("parquet-days", folder)[0], root / f"f{number}")
        assert grown == fresh


@pytest.mark.slow
@settings(max_examples=25)
@given(steps=STEPS, is_in_place=st.booleans())
def test_a_table_read_in_steps_is_the_table_read_at_once(tmp_path_factory: pytest.TempPathFactory,
                                                         steps: list[tuple[int, list[tuple]]],  # type: ignore[type-arg]
                                                         is_in_place: bool) -> None:
    """A table that is only added to, also later than the overlap; or one that is changed in place, with a rising
    watermark."""
    root = tmp_path_factory.mktemp("steps")
    file, url = sql_source(root / "sql", {})
    database = Path(url.removeprefix("sqlite:///"))
    if not is_in_place:
        with sqlite3.connect(database) as connection:
            connection.execute("DROP TABLE requests")
            connection.execute(f"CREATE TABLE requests ({', '.join(COLUMNS)}, updated_at TEXT)")
        connection.close()
    kept = kept_in(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACE_URL", url)
        for number, (day, rows) in enumerate(sorted(steps, key=lambda step: step[0]) if is_in_place else steps):
            write_rows(database, f"{DAY_0 + timedelta(days=day)} 23:00:00", [_row(row) for row in rows])
            grown = _trace_or_error(lambda: read_trace("sql", file, kept=kept)[0], root / f"g{number}")
            fresh = _trace_or_error(lambda: read_trace("sql", file)[0], root / f"f{number}")
            assert grown == fresh


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A TOML file and its database."""
    file, url = sql_source(tmp_path / "sql")
    monkeypatch.setenv("TRACE_URL", url)
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)  # 2027-01-15, after all rows
    return file, Path(url.removeprefix("sqlite:///"))


def test_a_table_is_the_folder_of_the_same_rows(tmp_path: Path, source: tuple[Path, Path]) -> None:
    days, _ = read_trace("parquet-days", days_folder(tmp_path / "days"))
    table_, report = read_trace("sql", source[0])
    assert saved(table_, tmp_path / "a") == saved(days, tmp_path / "b")
    assert report.notes[-1] == "all rows read"


def test_only_rows_since_the_overlap_are_asked_for(tmp_path: Path, source: tuple[Path, Path]) -> None:
    file, database = source
    rows = [("d", "2026-11-10 01:00:00", None, 1.0, 1.0, "ann", None, None)]
    assert read_trace("sql", file, kept=kept_in(tmp_path))[1].notes[-1] == "all rows read"
    write_rows(database, "2026-11-10 02:00:00", rows)
    # Known up to 3 November; two days of overlap: from 1 November on, so all rows.
    note = read_trace("sql", file, kept=kept_in(tmp_path))[1].notes[-1]
    assert note == "4 rows read, those written since 2026-11-01; 0 kept from earlier reads"
    note = read_trace("sql", file, kept=kept_in(tmp_path))[1].notes[-1]
    assert note == "1 rows read, those written since 2026-11-08; 3 kept from earlier reads"


def test_rows_later_than_the_overlap_are_found_by_their_number(tmp_path: Path, source: tuple[Path, Path]) -> None:
    file, database = source
    kept = kept_in(tmp_path)
    write_rows(database, "2026-11-20 02:00:00", [("d", "2026-11-20 01:00:00", None, 1.0, 1.0, "ann", None, None)])
    read_trace("sql", file, kept=kept)
    write_rows(database, "2026-11-05 00:00:00", [("e", "2026-11-05 00:00:00", None, 1.0, 1.0, "ann", None, None)])
    trace, report = read_trace("sql", file, kept=kept)
    assert "e" in trace.requests["request_id"].tolist()
    assert report.notes[-1].startswith("all rows read anew: the table holds 5 rows of 5 requests, and with those "
                                       "since the last read 4 of 4 were known")


def test_a_watermark_in_the_future_does_not_stop_later_reads(tmp_path: Path, source: tuple[Path, Path]) -> None:
    file, database = source
    kept = kept_in(tmp_path)
    write_rows(database, "2028-06-01 00:00:00", [("d", "2026-11-03 01:00:00", None, 1.0, 1.0, "ann", None, None)])
    before, _ = read_trace("sql", file, kept=kept)
    assert not before.is_event().all()
    write_rows(database, "2027-01-15 00:00:00",
               [("e", "2026-11-03 01:00:00", "2026-11-04 00:00:00", 1.0, 1.0, "ann", None, None)])
    write_rows(database, "2027-01-15 01:00:00",
               [("c", "2026-11-02 00:00:00", "2026-11-05 00:30:00", 1.0, 2.0, "bob", 5.0, "ok")])
    grown, report = read_trace("sql", file, kept=kept)
    assert saved(grown, tmp_path / "g") == saved(read_trace("sql", file)[0], tmp_path / "f")
    # c's older row is kept too; read again are those since two days and one before the last read
    assert report.notes[-1] == "3 rows read, those written since 2027-01-12; 3 kept from earlier reads"


@pytest.mark.parametrize("is_end_first", [True, False])
def test_of_rows_with_one_watermark_the_end_counts(tmp_path: Path, source: tuple[Path, Path],
                                                   is_end_first: bool) -> None:
    file, database = source
    rows: list[Row] = [("t", "2026-11-03 01:00:00", None, 9.0, 1.0, "ann", None, None),
                       ("t", "2026-11-03 01:00:00", "2026-11-03 02:00:00", 1.0, 1.0, "ann", None, "ok"),
                       ("t", "2026-11-03 01:00:00", "2026-11-03 02:00:00", 1.0, 1.0, "ann", None, "ok")]
    with sqlite3.connect(database) as connection:
        connection.execute("DROP TABLE requests")
        connection.execute(f"CREATE TABLE requests ({', '.join(COLUMNS)}, updated_at TEXT)")
    connection.close()
    write_rows(database, "2026-11-03 00:00:00", rows if is_end_first else rows[::-1])
    trace, report = read_trace("sql", file)
    assert trace.requests["departure_s"].tolist() == [ORIGIN_S + 2 * 86_400 + 7_200]
    assert dict(report.repaired) == {sql_reader.TIED: 1}


def test_a_query_may_end_in_a_comment(tmp_path: Path, source: tuple[Path, Path]) -> None:
    whole = saved(read_trace("sql", source[0])[0], tmp_path / "a")
    source[0].write_text(SQL_DECLARATION.replace("from requests", "from requests -- all of them"))
    assert saved(read_trace("sql", source[0])[0], tmp_path / "b") == whole


def test_a_file_that_is_no_database_is_named(tmp_path: Path, source: tuple[Path, Path],
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").write_text("no database " * 100)
    monkeypatch.setenv("TRACE_URL", f"sqlite:///{tmp_path}/notes.txt")
    with pytest.raises(ValueError, match=r"the SQLite file of the trace must be a database, got '.*notes\.txt'"):
        read_trace("sql", source[0])


def test_a_table_that_shrank_is_refused(tmp_path: Path, source: tuple[Path, Path]) -> None:
    file, database = source
    kept = kept_in(tmp_path)
    read_trace("sql", file, kept=kept)
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM requests WHERE request_id = 'a'")
    connection.close()
    with pytest.raises(ValueError, match=r"must not shrink, got 2 requests in the query of .*, which had 3"):
        read_trace("sql", file, kept=kept)
    assert len(read_trace("sql", file, kept=kept, is_shrunk_allowed=True)[0]) == 2
    assert len(read_trace("sql", file, kept=kept)[0]) == 2


def test_a_folder_that_shrank_is_refused(tmp_path: Path) -> None:
    folder, kept = days_folder(tmp_path / "days"), kept_in(tmp_path)
    read_trace("parquet-days", folder, kept=kept)
    write_day(folder, "2026-11-02", DAYS["2026-11-02"][:1])
    with pytest.raises(ValueError, match=r"got 1 rows on 2026-11-02, which had 2, in .*--allow-shrunk"):
        read_trace("parquet-days", folder, kept=kept)
    (folder / "2026-11-02.parquet").unlink()
    with pytest.raises(ValueError, match="must not shrink, got 2026-11-02 gone from"):
        read_trace("parquet-days", folder, kept=kept_in(tmp_path, "edited"))
    assert len(read_trace("parquet-days", folder, kept=kept, is_shrunk_allowed=True)[0]) == 3
    assert len(read_trace("parquet-days", folder, kept=kept)[0]) == 3


def _without_user(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.drop(columns="requested_s")


def _with_zone(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(zone="z")


def _cpu_as_text(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(cpu_cores=rows["cpu_cores"].astype(str))


@pytest.mark.parametrize(("change", "words"), [
    (_without_user, r"2026-11-03\.parquet must have the column 'requested_s'"),
    (_with_zone, r"got the new column 'zone' \(text\) on 2026-11-03 .* can be named in `ignored`"),
    (_cpu_as_text, r"got the column 'cpu_cores' of the type text, which was number on 2026-11-03"),
])  # fmt: skip
def test_drift_is_refused_with_its_day(tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame],
                                       words: str) -> None:
    folder, kept = days_folder(tmp_path / "days", dict(list(DAYS.items())[:2])), kept_in(tmp_path)
    read_trace("parquet-days", folder, kept=kept)
    change(table(DAYS["2026-11-03"])).to_parquet(folder / "2026-11-03.parquet")
    for each in (None, kept):
        with pytest.raises(ValueError, match=words):
            read_trace("parquet-days", folder, kept=each)


def test_a_column_that_does_not_matter_may_come_and_go(tmp_path: Path) -> None:
    folder = days_folder(tmp_path / "days")
    (folder / "trace.toml").write_text(DECLARATION + 'ignored = ["zone"]\n')
    _with_zone(table(DAYS["2026-11-02"])).to_parquet(folder / "2026-11-02.parquet")
    assert len(read_trace("parquet-days", folder)[0]) == 3
    (folder / "trace.toml").write_text(DECLARATION)
    with pytest.raises(ValueError, match="got the new column 'zone'"):
        read_trace("parquet-days", folder)


def test_whole_numbers_and_missing_ones_are_the_same_type(tmp_path: Path) -> None:
    folder = days_folder(tmp_path / "days")
    table(DAYS["2026-11-02"]).assign(requested_s=[1, 2], exit_code=pd.array([pd.NA, pd.NA], "string")).to_parquet(
        folder / "2026-11-02.parquet")
    assert len(read_trace("parquet-days", folder)[0]) == 3


@pytest.mark.parametrize(("row", "rule"), [
    (("z", None, None, 1.0, 1.0, "u", None, None), "arrival missing or not a time"),
    (("z", "2026-11-03 02:00:00", "2026-11-03 01:00:00", 1.0, 1.0, "u", None, None), "departure before arrival"),
    (("z", "2026-11-04 02:00:00", None, 1.0, 1.0, "u", None, None), "begins after its day"),
    (("z", "2026-10-01 02:00:00", "2026-10-02 01:00:00", 1.0, 1.0, "u", None, None), "ended before the origin"),
    (("z", "2026-11-03 02:00:00", None, -1.0, 1.0, "u", None, None), "cpu_cores not a number from 0 to 1e9"),
    (("z", "2026-11-03 02:00:00", None, 1.0, None, "u", None, None), "mem_gib not a number from 0 to 1e9"),
    ((None, "2026-11-03 02:00:00", None, 1.0, 1.0, "u", None, None), "request_id missing"),
])  # fmt: skip
def test_a_row_is_refused_by_its_rule(tmp_path: Path, row: Row, rule: str) -> None:
    folder = days_folder(tmp_path / "days")
    write_day(folder, "2026-11-03", [*DAYS["2026-11-03"], row])
    trace, report = read_trace("parquet-days", folder)
    assert dict(report.refused) == {rule: 1} and len(trace) == 3
    assert report.rejected[["file", "line"]].values.tolist() == [["2026-11-03.parquet", 3]]


def test_a_request_whose_newest_row_is_refused_is_left_out(tmp_path: Path) -> None:
    folder = days_folder(tmp_path / "days")
    write_day(folder, "2026-11-04", [("c", "2026-11-02 00:00:00", None, -1.0, 2.0, "bob", 5.0, None)])
    assert read_trace("parquet-days", folder)[0].requests["request_id"].tolist() == ["a", "b"]


def test_an_end_that_is_only_planned_is_no_end(tmp_path: Path) -> None:
    folder = days_folder(tmp_path / "days")
    write_day(folder, "2026-11-03", [("z", "2026-11-03 02:00:00", "2027-01-01 00:00:00", 1.0, 1.0, "u", None, None)])
    trace, report = read_trace("parquet-days", folder)
    assert dict(report.repaired) == {"end after its day: still running": 1}
    assert trace.horizon_s == ORIGIN_S + 2 * 86_400 + 7_200 and not trace.is_event()[-1]


@pytest.mark.parametrize("never", ["9999-12-31", "9999-12-31 23:59:59", 253_402_300_799, "2300-01-01T00:00:00Z"])
def test_an_end_that_says_never_is_no_end(tmp_path: Path, never: str | int) -> None:
    folder = days_folder(tmp_path / "days", {})
    ends = ["2026-11-03 02:00:00", never] if isinstance(never, str) else [1_793_671_200, never]
    rows = table([(name, "2026-11-03 01:00:00", None, 1.0, 1.0, "u", None, None) for name in "xy"])
    rows.assign(departure=ends).to_parquet(folder / "2026-11-03.parquet", index=False)
    trace, report = read_trace("parquet-days", folder)
    assert not report.refused and dict(report.repaired) == {"end after its day: still running": 1}
    assert trace.is_event().tolist() == [True, False]


@pytest.mark.parametrize("no_time", ["0001-01-01T00:00:00Z", "1970-01-01 08:00:00"])
def test_an_arrival_that_cannot_be_is_refused(tmp_path: Path, no_time: str) -> None:
    folder = days_folder(tmp_path / "days", {})
    rows = table([(name, "2026-11-03 01:00:00", "2026-11-03 02:00:00", 1.0, 1.0, "u", None, None) for name in "xy"])
    rows.assign(arrival=["2026-11-03 01:00:00", no_time]).to_parquet(folder / "2026-11-03.parquet", index=False)
    trace, report = read_trace("parquet-days", folder)
    assert trace.requests["request_id"].tolist() == ["x"] and sum(report.refused.values()) == 1


def test_a_day_in_another_unit_is_refused_as_a_whole(tmp_path: Path) -> None:
    folder = days_folder(tmp_path / "days", {})
    day: list[Row] = [(f"r{idx}", "2026-11-03 02:00:00", None, 1.0, 1.0, "u", None, None) for idx in range(20)]
    rows = table(day).assign(arrival=1_793_671_200)
    rows.to_parquet(folder / "2026-11-03.parquet", index=False)
    rows.assign(arrival=rows["arrival"] * 1_000).to_parquet(folder / "2026-11-04.parquet", index=False)
    with pytest.raises(ValueError, match=r"2026-11-04\.parquet must .*, got 20 of 20, "
                                         "most by the rule: arrival missing or not a time; 'arrival' looks like milli"):
        read_trace("parquet-days", folder)


@pytest.mark.parametrize("name", ["user", "request_id", "exit_code"])
def test_a_column_of_lists_is_no_name(tmp_path: Path, name: str) -> None:
    folder = days_folder(tmp_path / "days", {})
    rows = table(DAYS["2026-11-01"])
    rows[name] = [["a", "b"], ["c"]]
    rows.to_parquet(folder / "2026-11-01.parquet", index=False)
    with pytest.raises(ValueError, match=rf"2026-11-01\.parquet: the column '{name}' must hold texts or numbers, got "
                                         "list"):
        read_trace("parquet-days", folder)


def test_a_pipe_is_no_part(tmp_path: Path) -> None:
    folder = days_folder(tmp_path / "days")
    os.mkfifo(folder / "2026-11-04.parquet")
    with pytest.raises(ValueError, match=r"a part must be a file, got '2026-11-04\.parquet'"):
        read_trace("parquet-days", folder)


def test_days_without_a_part_are_told(tmp_path: Path) -> None:
    folder = days_folder(tmp_path / "days")
    assert not [line for line in read_trace("parquet-days", folder)[1].lines() if "check: " in line]
    (folder / "2026-11-03.parquet").rename(folder / "2026-11-05.parquet")
    report = read_trace("parquet-days", folder)[1]
    assert ("check: 2 days between 2026-11-01 and 2026-11-05 have no part, the first after 2026-11-02"
            in report.lines())


def test_a_request_from_before_the_origin_runs_at_the_origin(tmp_path: Path) -> None:
    folder = days_folder(tmp_path / "days")
    write_day(folder, "2026-11-03", [("z", "2026-10-20 00:00:00", "2026-11-03 01:00:00", 1.0, 1.0, "u", None, None)])
    trace, _ = read_trace("parquet-days", folder)
    assert trace.requests["arrival_s"].tolist()[0] == trace.begin_s - 12 * 86_400 == ORIGIN_S - 12 * 86_400


@pytest.mark.parametrize(("name", "words"), [
    ("2026-13-01.parquet", "a part must be named YYYY-MM-DD.parquet .*, got '2026-13-01.parquet'"),
    ("notes.txt", "a part must be named .*, got 'notes.txt'"),
    ("2026-11-09.parquet", "must be a Parquet file, got"),
])  # fmt: skip
def test_a_file_that_is_no_part_is_named(tmp_path: Path, name: str, words: str) -> None:
    folder = days_folder(tmp_path / "days")
    (folder / name).write_text("half a file")
    with pytest.raises(ValueError, match=words):
        read_trace("parquet-days", folder)


@pytest.mark.parametrize(("text", "words"), [
    ("owners = ", "must be TOML"), ("", "origin must be a date such as 2026-01-01"),
    ("origin = 7", "origin must be a date"),
    ("origin = 2026-11-01\nowner = ['u']", "a key must be one of .*, got owner"),
    ("origin = 2026-11-01\nowners = 'u'", "owners must be a list of column names"),
    ("origin = 2026-11-01\n[columns]\ncpu = 'x'", r"got columns\.cpu"),
    ("origin = 2026-11-01\nowners = ['u']\ncategories = ['u']", "must have one meaning, got 'u' twice"),
    ("origin = 2026-11-01\nowners = ['gpu']", "roles must not name 'gpu'"),
    ("origin = 2026-11-01\n[sql]\nquery = 'x'", "got sql"),
])  # fmt: skip
def test_a_declaration_is_refused_by_its_key(tmp_path: Path, text: str, words: str) -> None:
    folder = days_folder(tmp_path / "days")
    (folder / "trace.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_trace("parquet-days", folder)


def test_names_of_columns_may_be_the_sources_own(tmp_path: Path) -> None:
    folder = days_folder(tmp_path / "days", {})
    (folder / "trace.toml").write_text(
        'origin = 2026-11-01\nresources = ["disk_gib"]\n[columns]\nrequest_id = "vm"\narrival = "begun"\n'
        'departure = "gone"\ncpu_cores = "vcpus"\nmem_gib = "ram"\ngpu = "gpus"\nsubmit = "asked"\n')
    pd.DataFrame({"vm": [7], "begun": [1_793_491_260], "gone": [None], "vcpus": [2], "ram": [4], "gpus": [1],
                  "asked": [1_793_491_230.5], "disk_gib": [10.0]}).to_parquet(folder / "2026-11-01.parquet")
    trace, _ = read_trace("parquet-days", folder)
    assert trace.requests.iloc[0].to_dict() | {"departure_s": None} == {
        "request_id": 7, "arrival_s": ORIGIN_S + 60, "departure_s": None, "cpu_cores": 2.0, "mem_gib": 4.0, "gpu": 1.0,
        "disk_gib": 10.0, "submit_s": ORIGIN_S + 30}
    assert trace.resources == ("cpu_cores", "mem_gib", "gpu", "disk_gib")


def test_a_damaged_keeping_is_read_anew(tmp_path: Path) -> None:
    folder, kept = days_folder(tmp_path / "days"), kept_in(tmp_path)
    whole = saved(read_trace("parquet-days", folder, kept=kept)[0], tmp_path / "a")
    good = kept.file.read_bytes()
    for bad in (good[:-9], b"", good[:200] + bytes(50) + good[250:]):
        kept.file.write_bytes(bad)
        trace, report = read_trace("parquet-days", folder, kept=kept)
        assert saved(trace, tmp_path / "b") == whole
        assert report.notes[-1] == "3 of 3 parts read"


@pytest.mark.parametrize(("change", "words"), [
    (("[sql]", '[sql]\nurl = "postgresql://me:s3cret@h/d"'), "sql.url must not stand in a file"),
    (("select * from requests", "delete from requests"), "sql.query must be a SELECT, got 'delete"),
    (("select * from requests", "select * from absent"), "the database takes, got no such table: absent"),
    (("updated_at", "changed"), "sql.query must give the column 'changed'"),
    (("select *", "select arrival, request_id, 1 as"), "syntax error"),
    (("select *", "select request_id"), "must give the column 'updated_at', got request_id"),
    (('overlap = "2d"', 'overlap = "2 weeks"'), "overlap must be a number of days or hours, such as 90d or 12h"),
    (("select * from requests", "select * from requests where 0"), "must give at least one row, got none"),
])  # fmt: skip
def test_a_query_is_refused_by_name(source: tuple[Path, Path], change: tuple[str, str], words: str) -> None:
    source[0].write_text(SQL_DECLARATION.replace(*change))
    with pytest.raises(ValueError, match=words) as raised:
        read_trace("sql", source[0])
    assert "s3cret" not in str(raised.value)


def test_a_row_without_a_watermark_is_refused(source: tuple[Path, Path]) -> None:
    with sqlite3.connect(source[1]) as connection:
        connection.execute("UPDATE requests SET updated_at = NULL WHERE request_id = 'a'")
    connection.close()
    with pytest.raises(ValueError, match=r"'updated_at' must .*, got 1 rows without, such as None "
                                         "of the request 'a'"):
        read_trace("sql", source[0])


@pytest.mark.parametrize(("url", "words"), [
    ("", "TRACE_URL must hold the database's URL, .* got nothing"),
    ("hunter2", "must hold a URL of SQLAlchemy, .*got 7 other characters"),
    ("nosuch://me:hunter2@host/d", "must hold a URL of SQLAlchemy"),
    ("postgresql://me:s3cr@hunter2@127.0.0.1:1/d", "one @ before the host, got another one: write an @ .* as %40"),
    ("postgresql://me:s3cr@hun/ter2@127.0.0.1:1/d", "one @ before the host, got another one: write an @ .* as %40"),
    ("sqlite:////nowhere/hunter2.db?token=hunter2", "SQLite file of TRACE_URL must exist"),
])  # fmt: skip
def test_a_url_is_refused_without_its_secrets(source: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, url: str,
                                              words: str) -> None:
    monkeypatch.setenv("TRACE_URL", url)
    with pytest.raises((ValueError, OSError), match=words) as raised:
        read_trace("sql", source[0])
    if not url.startswith("sqlite"):
        assert "hunter2" not in str(raised.value)


def test_a_database_that_is_away_is_told_without_its_password(source: tuple[Path, Path],
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setenv("TRACE_URL", "postgresql://me:hunter2%40@127.0.0.1:9/d?application_name=hunter2x")
    with pytest.raises(sql_reader.SourceUnavailable, match="the database of the trace must answer, got") as raised:
        read_trace("sql", source[0])
    assert "hunter2" not in str(raised.value) and raised.value.__cause__ is None
