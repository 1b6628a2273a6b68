"""Sources that grow: a real trace cut into days and replayed week by week, read in steps and read whole.

Each day's rows are those that were written then: a request's beginning, its end, 5 % of the ends up to three weeks
late, and for 1 % of the requests a correction of the size. Both reads must give the same bytes, and the last one the
trace that was cut. Prints medians over the weeks, in CPU seconds, and writes growing.json; a ratio is whole / in steps.

    python benchmarks/growing.py --trace ../shared/data/alibaba-gpu-2023 --reader openb --n-weeks 12
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features import Trace
from sojourn.features.readers import KeptParts, read_trace

ORIGIN_S = 1_767_225_600
"""2026-01-01 00:00 UTC, where the trace's clock is put."""
DAY_S = 86_400
LATE_SHARE, CORRECTED_SHARE, LATE_DAYS_MAX = 0.05, 0.01, 21
DECLARATION = "origin = 2026-01-01\nowners = {owners}\n"
SQL = '[sql]\nquery = "select * from requests"\nwatermark = "updated_at"\noverlap = "{overlap}"\n'


def written_rows(trace: Trace, seed: int) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """All rows that a source of this trace writes over time, with `written_s` (Unix); and the owners' columns."""
    rng = np.random.default_rng(seed)
    kept = trace.requests[trace.is_start_known() & (trace.start_s() >= trace.begin_s)].reset_index(drop=True)
    owners = trace.roles.owners
    base = pd.DataFrame({
        "request_id": kept["request_id"].astype(str), "arrival": kept["arrival_s"].astype("int64") + ORIGIN_S,
        "departure": kept["departure_s"] + ORIGIN_S, "cpu_cores": kept["cpu_cores"], "mem_gib": kept["mem_gib"],
        **{name: kept[name].astype(str) for name in owners}})
    began = base.assign(departure=pd.array([pd.NA] * len(base), "Int64"), written_s=base["arrival"])
    is_corrected = rng.random(len(base)) < CORRECTED_SHARE
    began["cpu_cores"] = began["cpu_cores"].where(~is_corrected, began["cpu_cores"] + 1.0)
    ended = base[base["departure"].notna()]
    late_s = np.where(rng.random(len(ended)) < LATE_SHARE, rng.integers(DAY_S, LATE_DAYS_MAX * DAY_S, len(ended)), 0)
    ended = ended.assign(written_s=ended["departure"].astype("int64") + late_s)
    fixed = base[is_corrected & base["departure"].isna().to_numpy()]
    fixed = fixed.assign(written_s=fixed["arrival"] + DAY_S)
    rows = pd.concat([began, ended, fixed], ignore_index=True).sort_values("written_s", kind="stable")
    return rows.reset_index(drop=True), owners


def write_day(folder: Path, rows: pd.DataFrame, day: int) -> None:
    name = time.strftime("%Y-%m-%d", time.gmtime(day * DAY_S))
    rows.drop(columns="written_s").to_parquet(folder / f"{name}.parquet", index=False)


def write_table(database: Path, rows: pd.DataFrame) -> None:
    columns = list(rows.columns)
    with sqlite3.connect(database) as connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS requests (request_id TEXT PRIMARY KEY, "
                           f"{', '.join(f'[{name}]' for name in columns if name not in ('request_id', 'written_s'))}, "
                           "updated_at INTEGER)")
        connection.execute("CREATE INDEX IF NOT EXISTS by_time ON requests (updated_at)")
        plain = rows.astype(object).where(rows.notna(), None)
        connection.executemany(f"INSERT OR REPLACE INTO requests VALUES ({', '.join('?' * len(columns))})",
                               plain.values.tolist())
    connection.close()


def timed(name: str, path: Path, kept: KeptParts | None) -> tuple[float, Trace, str]:
    started = time.process_time()
    trace, report = read_trace(name, path, kept=kept)
    return time.process_time() - started, trace, report.notes[-1]


def same(one: Trace, other: Trace, folder: Path) -> bool:
    saved = [trace.save(folder / name) for name, trace in (("one", one), ("other", other))]
    equal = all((saved[0] / name).read_bytes() == (saved[1] / name).read_bytes()
                for name in ("requests.parquet", "trace.json"))
    for each in saved:
        shutil.rmtree(each)
    return equal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--reader", required=True)
    parser.add_argument("--n-weeks", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("growing.json"))
    given = parser.parse_args()
    whole = read_trace(given.reader, given.trace)[0].since_begin()
    rows, owners = written_rows(whole, given.seed)
    days = (rows["written_s"] // DAY_S).to_numpy()
    first = max(int(days[-1]) - 7 * given.n_weeks, int(days[0]))
    root = Path(tempfile.mkdtemp(prefix="growing."))
    folder = root / "days"
    folder.mkdir()
    declaration = DECLARATION.format(owners=json.dumps(list(owners)))
    (folder / "trace.toml").write_text(declaration)
    (root / "source.toml").write_text(declaration + SQL.format(overlap="7d"))
    os.environ["SOJOURN_SQL_URL"] = f"sqlite:///{root / 'requests.db'}"
    found: dict[str, dict[str, list[float]]] = {name: {"steps": [], "whole": []} for name in ("parquet-days", "sql")}
    paths = {"parquet-days": folder, "sql": root / "source.toml"}
    is_same, last, notes = True, None, {}
    upto = int(days[0]) - 1
    for end in range(first, int(days[-1]) + 7, 7):
        new = rows[(days > upto) & (days <= end)]
        for day, of_day in new.groupby(new["written_s"] // DAY_S):
            write_day(folder, of_day, int(day))
        write_table(root / "requests.db", new)
        upto = end
        for name, path in paths.items():
            kept = KeptParts(root / f"{name}.parquet", "code")
            steps_s, grown, notes[name] = timed(name, path, kept)
            whole_s, fresh, _ = timed(name, path, None)
            is_same &= same(grown, fresh, root)
            if end > first:  # the first read has nothing kept
                found[name]["steps"].append(steps_s)
                found[name]["whole"].append(whole_s)
            last = grown
    assert last is not None
    original = whole.requests[whole.is_start_known() & (whole.start_s() >= whole.begin_s)]
    columns = ["arrival_s", "departure_s", "cpu_cores", "mem_gib"]
    cut = [table.assign(request_id=table["request_id"].astype(str)).set_index("request_id")[columns].sort_index()
           for table in (original, last.since_begin().requests)]
    is_original = cut[0].equals(cut[1])
    report = {"trace": given.trace.name, "requests": len(last), "rows": len(rows), "days": len(set(days.tolist())),
              "is_same_as_one_read": bool(is_same), "is_the_trace_that_was_cut": bool(is_original), "notes": notes,
              "median_s": {name: {way: round(statistics.median(values), 3) for way, values in ways.items()}
                           for name, ways in found.items()}}
    print(f"{given.trace.name}: {len(last):,} requests, {len(rows):,} rows on {report['days']:,} days, "
          f"{len(found['sql']['steps'])} weekly reads")
    print(f"same bytes as one read: {is_same}; the trace that was cut: {is_original}")
    for name, ways in found.items():
        steps, at_once = (statistics.median(ways[way]) for way in ("steps", "whole"))
        print(f"{name:14} in steps {steps:7.3f} s   whole {at_once:7.3f} s   ratio {at_once / steps:5.2f}   "
              f"{notes[name]}")
    given.out.write_text(json.dumps(report, indent=1) + "\n")
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
