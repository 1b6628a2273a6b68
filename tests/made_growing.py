"""Sources that grow, made by hand: a folder of days, and a SQLite table, from the same rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

COLUMNS = ("request_id", "arrival", "departure", "cpu_cores", "mem_gib", "user", "requested_s", "exit_code")
Row = tuple[str | None, str | None, str | None, float, float | None, str | None, float | None, str | None]
DECLARATION = ('origin = 2026-11-01\nowners = ["user"]\nnumbers = ["requested_s"]\nknown_at_end = ["exit_code"]\n')
SQL_DECLARATION = DECLARATION + ('[sql]\nurl_variable = "TRACE_URL"\nquery = "select * from requests"\n'
                                 'watermark = "updated_at"\noverlap = "2d"\n')
DAYS: Mapping[str, Sequence[Row]] = {
    "2026-11-01": [("a", "2026-11-01 01:00:00", None, 2.0, 8.0, "ann", 60.0, None),
                   ("b", "2026-11-01 02:00:00", "2026-11-01 03:00:00", 4.0, 8.0, None, None, "ok")],
    "2026-11-02": [("c", "2026-11-02 00:00:00", "2026-11-02 00:30:00", 1.0, 2.0, "bob", 5.0, "ok"),
                   ("b", "2026-11-01 02:00:00", "2026-11-01 03:30:00", 4.0, 8.0, "bob", None, "ok")],
    "2026-11-03": [("a", "2026-11-01 01:00:00", "2026-11-03 05:00:00", 2.0, 8.0, "ann", 60.0, "late"),
                   ("c", "2026-11-02 00:00:00", "2026-11-02 00:30:00", 1.0, 2.0, "bob", 5.0, "ok")],
}
"""Request b is corrected on the second day; a ends on the third, and c comes again unchanged."""


def table(rows: Sequence[Row]) -> pd.DataFrame:
    made = pd.DataFrame(list(rows), columns=list(COLUMNS))
    for name in ("arrival", "departure"):
        made[name] = pd.to_datetime(made[name])
    return made


def write_day(folder: Path, day: str, rows: Sequence[Row], name: str = "") -> Path:
    """A day's rows as `day.parquet`, or as `day=DAY/name`."""
    file = folder / f"day={day}" / name if name else folder / f"{day}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    table(rows).to_parquet(file, index=False)
    return file


def days_folder(folder: Path, days: Mapping[str, Sequence[Row]] = DAYS) -> Path:
    folder.mkdir()
    (folder / "trace.toml").write_text(DECLARATION)
    for day, rows in days.items():
        write_day(folder, day, rows)
    return folder


def sql_source(folder: Path, days: Mapping[str, Sequence[Row]] = DAYS) -> tuple[Path, str]:
    """A TOML file and the URL of a SQLite file: one row a request, changed in place as the days go by."""
    folder.mkdir()
    database = folder / "requests.db"
    with sqlite3.connect(database) as connection:
        columns = ", ".join((f'{COLUMNS[0]} TEXT PRIMARY KEY', *COLUMNS[1:]))
        connection.execute(f"CREATE TABLE requests ({columns}, updated_at TEXT)")
    connection.close()
    for day, rows in days.items():
        write_rows(database, f"{day} 12:00:00", rows)
    (folder / "source.toml").write_text(SQL_DECLARATION)
    return folder / "source.toml", f"sqlite:///{database}"


def write_rows(database: Path, updated_at: str, rows: Sequence[Row]) -> None:
    with sqlite3.connect(database) as connection:
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        connection.executemany(f"INSERT OR REPLACE INTO requests VALUES ({marks})",
                               [(*row, updated_at) for row in rows])
    connection.close()
