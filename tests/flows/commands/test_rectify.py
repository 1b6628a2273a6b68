"""`sojourn lab rectify`: today's list from a snapshot, with reasons; and one line with exit code 2 for bad input."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from learnt_bundle import learn
from made_views import pool_of
from sojourn.flows.cli import app
from sojourn.flows.placement.snapshot import PoolRecord, Snapshot, read_snapshot
from sojourn.flows.reports.section import COLUMNS, migrations_table
from sojourn.serving import Predictor
from sojourn.simulator.rectification import count_day

DAY_S = 86_400


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return learn(tmp_path_factory.mktemp("learnt")).folder


def _tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two hosts of 16 cores: an old request alone on host a, one that can't migrate on host b."""
    hosts = pd.DataFrame({"host_id": ["a", "b"], "cpu_cores": 16.0, "mem_gib": 64.0})
    requests = pd.DataFrame({
        "request_id": ["old", "kept"], "host_id": ["a", "b"], "uptime_s": [20 * DAY_S, 20 * DAY_S],
        "cpu_cores": [2.0, 4.0], "mem_gib": [4.0, 8.0], "migratable": [True, False], "colour": ["red", None]})
    return hosts, requests


def _write(folder: Path, hosts: pd.DataFrame, requests: pd.DataFrame, kind: str = "csv") -> Path:
    folder.mkdir(exist_ok=True)
    for name, table in (("hosts", hosts), ("requests", requests)):
        if kind == "csv":
            table.to_csv(folder / f"{name}.csv", index=False)
        else:
            table.to_parquet(folder / f"{name}.parquet")
    return folder


def _run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["lab", "rectify", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_list_says_which_host_is_freed_when_and_how_sure(bundle: Path, tmp_path: Path, kind: str) -> None:
    snapshot = _write(tmp_path / "now", *_tables(), kind)
    code, told, warned = _run(snapshot, "--bundle", bundle, "--out", tmp_path / "list.csv")
    assert code == 0, warned
    assert "old" in told
    assert "requests.csv" in warned or kind == "parquet"
    assert "not read: colour" in warned  # no column of the model
    assert "of 2 of 2 requests the model does not know all that it reads; not given: " in warned
    assert "deployment (2)" in warned
    table = pd.read_csv(tmp_path / "list.csv")
    assert list(table) == list(COLUMNS)
    row = table.iloc[0]
    assert (len(table), row["request_id"], row["from_host"], row["to_host"], row["frees_host"]) == (
        1, "old", "a", "b", "a")
    # nothing else is on host a: empty for sure as soon as the migration is over, 20 min from now
    assert (row["chance_pct"], row["likely_after_h"]) == (100.0, pytest.approx(1_200 / 3_600))
    assert row["chance_without_pct"] < 100.0
    assert row["gain_h"] > 6.0


@pytest.mark.parametrize(("change", "arguments", "words"), [
    (lambda hosts, requests: (hosts, requests), ("--budget", 0), "the budget is 0"),
    (lambda hosts, requests: (hosts, requests.assign(migratable=False)), (), "none of the 2 requests can be migrated"),
    (lambda hosts, requests: (hosts[:1], requests[:1]), (), "one host has no other to migrate to"),
    (lambda hosts, requests: (hosts, requests[:0]), (), "nothing runs"),
    (lambda hosts, requests: (hosts, requests[:1]), (), "none of the 1 requests that can be migrated would free"),
    (lambda hosts, requests: (hosts, requests), ("--rectifier", "pdre", "--long-h", 100_000), "none of the 1 requests"),
])
def test_where_nothing_is_to_be_done_it_says_why(
        bundle: Path, tmp_path: Path, change: Callable[..., tuple[pd.DataFrame, pd.DataFrame]],
        arguments: tuple[object, ...], words: str) -> None:
    snapshot = _write(tmp_path / "now", *change(*_tables()))
    code, told, warned = _run(snapshot, "--bundle", bundle, *arguments)
    assert code == 0, warned
    assert words in told


@pytest.mark.parametrize(("change", "arguments", "words"), [
    (lambda h, r: (h, r), ("--budget", -1), "budget must be a whole number of moves a day, 0 to 1,000,000, got -1"),
    (lambda h, r: (h, r), ("--rectifier", "lars"), "planner must be one of pdre, value, got 'lars'"),
    (lambda h, r: (h[:1], r), (), "requests.csv, line 3: host_id must be in hosts.csv, got 'b'"),
    (lambda h, r: (h, r.assign(cpu_cores=[2.0, 17.0])), (), "got 17 cpu_cores on host 'b', which has 16"),
    (lambda h, r: (h, r.assign(gpu=[1.0, 0.0])), (), "got 1 gpu on host 'a', which has 0"),
    (lambda h, r: (h, r.assign(gpu=[1.0, None])), (), "requests.csv, line 3: gpu must be a number in 0..1000000000"),
    (lambda h, r: (h.assign(gpu=[None, 2.0]), r), (), "hosts.csv, line 2: gpu must be a number in 0..1000000000"),
    (lambda h, r: (h[:0], r), (), "hosts must be at least one, got none"),
    (lambda h, r: (h.assign(host_id="a"), r), (), "hosts.csv, line 3: host_id must be unique, got 'a'"),
    (lambda h, r: (h, r.assign(request_id="x")), (), "requests.csv, line 3: request_id must be unique"),
    (lambda h, r: (h, r.assign(uptime_s=[-1, 5])), (), "line 2: uptime_s must be a number in 0..3155760000, got '-1'"),
    (lambda h, r: (h, r.assign(uptime_s=["x", 5])), (), "line 2: uptime_s must be a number in 0..3155760000, got 'x'"),
    (lambda h, r: (h, r.assign(uptime_s=[10**18, 5])), (), "line 2: uptime_s must be a number in 0..3155760000"),
    (lambda h, r: (h, r.assign(disk_gib=[1, -5])), (), "line 3: disk_gib must be a finite number from 0 on, or"),
    (lambda h, r: (h, r), ("--now-s", 10**18), "now_s must be seconds or a datetime with a time zone, got 10000"),
    (lambda h, r: (h, r), ("--rectifier", "pdre", "--long-h", "inf"), "long_h must be hours in 0.001..876600, got inf"),
    (lambda h, r: (h, r), ("--rectifier", "pdre", "--long-h", "nan"), "long_h must be hours in 0.001..876600, got nan"),
    (lambda h, r: (h, r), ("--rectifier", "pdre", "--long-h", "1e300"), "long_h must be hours in 0.001..876600"),
    (lambda h, r: (h, r), ("--long-h", 3), "long_h must be given with the rectifier pdre alone, got 3 with 'value'"),
    (lambda h, r: (h, r), ("--minutes", 0), "minutes must be in 1..1440, got 0"),
    (lambda h, r: (h, r), ("--minutes", 1441), "minutes must be in 1..1440, got 1441"),
    (lambda h, r: (h, r), ("--at-once", 0), "at_once must be in 1..1000000, got 0"),
    (lambda h, r: (h, r.drop(columns="mem_gib")), (), "requests.csv must have the columns"),
    (lambda h, r: (h, r.assign(migratable=["perhaps", True])), (), "migratable must be true or false, got 'perhaps'"),
])
def test_bad_input_ends_with_one_line(
        bundle: Path, tmp_path: Path, change: Callable[..., tuple[pd.DataFrame, pd.DataFrame]],
        arguments: tuple[object, ...], words: str) -> None:
    snapshot = _write(tmp_path / "now", *change(*_tables()))
    code, _, warned = _run(snapshot, "--bundle", bundle, *arguments)
    assert code == 2
    assert words in warned
    assert len(warned.strip().splitlines()) == 1


def test_a_long_migration_frees_its_host_later(bundle: Path, tmp_path: Path) -> None:
    snapshot = _write(tmp_path / "now", *_tables())
    arguments = (snapshot, "--bundle", bundle, "--out", tmp_path / "list.csv")
    soon = _listed(tmp_path, *arguments)
    late = _listed(tmp_path, *arguments, "--minutes", 240, "--at-once", 1)
    assert "takes 240 minutes, 1 at a time" in " ".join(late[1].split())
    # the host is held for 3 h 40 min more, of which the request would have ended in some
    assert 0.0 < soon[0]["gain_h"] - late[0]["gain_h"] <= 220 / 60 + 1e-6
    assert late[0]["likely_after_h"] == max(soon[0]["likely_after_h"], 4.0)


def _listed(folder: Path, *arguments: object) -> tuple[dict[Hashable, Any], str]:
    code, told, warned = _run(*arguments)
    assert code == 0, warned
    (row,) = pd.read_csv(folder / "list.csv").to_dict("records")
    return row, told


def test_a_folder_without_tables_is_named(bundle: Path, tmp_path: Path) -> None:
    code, _, warned = _run(tmp_path, "--bundle", bundle)
    assert code == 2
    assert "snapshot must be a folder with hosts.csv or hosts.parquet, got neither" in warned


def test_ids_and_attributes_are_text(bundle: Path, tmp_path: Path) -> None:
    hosts, requests = _tables()
    names = {"a": "01", "b": "1"}
    snapshot = _write(tmp_path / "now", hosts.assign(host_id=["01", "1"]), requests.assign(
        host_id=requests["host_id"].map(names), request_id=["007", "3e10"], subscription="007"))
    code, _, warned = _run(snapshot, "--bundle", bundle, "--out", tmp_path / "list.csv")
    assert code == 0, warned
    row = pd.read_csv(tmp_path / "list.csv", dtype=str).iloc[0]
    assert (row["request_id"], row["from_host"], row["to_host"]) == ("007", "01", "1")


def test_an_attribute_reaches_the_model_as_it_stands_in_the_file(bundle: Path, tmp_path: Path) -> None:
    from sojourn.serving import Predictor

    asked: list[dict[str, object]] = []

    class Watched(Predictor):
        def predict(self, request, now_s):  # type: ignore[no-untyped-def]
            asked.append(dict(request))
            return super().predict(request, now_s)

    hosts, requests = _tables()
    snapshot = _write(tmp_path / "now", hosts, requests.assign(subscription=["007", "NA"]))
    read_snapshot(snapshot, Watched.load(bundle), 1_793_491_200)
    assert [each["subscription"] for each in asked if each] == ["007", "NA"]


def test_a_misspelt_column_is_told(bundle: Path, tmp_path: Path) -> None:
    hosts, requests = _tables()
    snapshot = _write(tmp_path / "now", hosts.assign(rack=1), requests.rename(columns={"migratable": "migrateable"}))
    code, _, warned = _run(snapshot, "--bundle", bundle)
    assert code == 0, warned
    assert "warning: hosts.csv: not read: rack\n" in warned
    assert "warning: requests.csv: not read: migrateable (migratable?), colour\n" in warned


def test_a_time_before_the_end_of_the_history_is_told(bundle: Path, tmp_path: Path) -> None:
    snapshot = _write(tmp_path / "now", *_tables())
    to_s = int(Predictor.load(bundle).info()["training"]["history_to_s"])
    code, listed, warned = _run(snapshot, "--bundle", bundle, "--now-s", to_s - 5_400)  # 1.5 h
    assert code == 0 and listed
    assert (f"warning: now_s must not be before the end of the bundle's history, {to_s}, got {to_s - 5_400}: "
            "predictions know ends of the 1.5 hours between\n") in warned
    for arguments in ((), ("--now-s", to_s), ("--now-s", to_s + 1)):
        assert "history" not in _run(snapshot, "--bundle", bundle, *arguments)[2]


@pytest.mark.parametrize("place", ["now/requests.csv", "link.csv", "now/hosts.parquet", "now", "bundle/schema.json",
                                   "now/hosts.csv/list.csv"])
def test_the_list_replaces_nothing_that_is_read(bundle: Path, tmp_path: Path, place: str) -> None:
    snapshot = _write(tmp_path / "now", *_tables())
    (tmp_path / "link.csv").symlink_to(snapshot / "requests.csv")
    (tmp_path / "bundle").symlink_to(bundle)
    before = (snapshot / "requests.csv").read_bytes()
    code, told, warned = _run(snapshot, "--bundle", bundle, "--out", tmp_path / place)
    assert (code, told) == (2, "")
    assert "error: out must be" in warned
    assert str(tmp_path / place) in warned
    assert (snapshot / "requests.csv").read_bytes() == before
    assert sorted(path.name for path in snapshot.iterdir()) == ["hosts.csv", "requests.csv"]


def test_requests_that_leave_together_share_their_reason() -> None:
    from made_views import pool_of
    from sojourn.simulator.rectification import MigrationGroup

    # Host 0 is left by two for host 1, and has a third that ends in 12 h: empty then, and never without; host 1 stays.
    view = pool_of([(0, 2, 900), (0, 2, 900), (0, 1, 12), (1, 4, 900)], 2)
    left_s = [900 * 3_600, 900 * 3_600, 12 * 3_600, 900 * 3_600]

    def ended(position: int, after_s: float) -> float:
        return float(after_s >= left_s[position])

    pool = Snapshot(view, ["a", "b"], list("wxyz"), ended)
    table = migrations_table(pool, [MigrationGroup(0, (0, 1), (1, 1), math.nan)])
    assert table["request_id"].tolist() == ["w", "x"]
    assert table["n_together"].tolist() == [2, 2]
    assert (table["chance_pct"].tolist(), table["chance_without_pct"].tolist()) == ([100.0] * 2, [0.0] * 2)
    assert table["likely_after_h"].tolist() == [12.0, 12.0]
    # of a day 12 h are empty, less the half of a cell's error
    assert table["gain_h"].iloc[0] == pytest.approx(12.0, abs=0.1)


def _recorded(folder: Path, bundle: Path, now_s: int, *options: object) -> tuple[str, str]:
    """The list of one call with a record, and what it told."""
    code, told, warned = _run(folder / "now", "--bundle", bundle, "--record", folder / "record.json", "--out",
                              folder / "list.csv", "--now-s", now_s, *options)
    assert code == 0, warned
    return (folder / "list.csv").read_text(), told + warned


@pytest.fixture
def pool(tmp_path: Path, bundle: Path) -> tuple[Path, int]:
    """A folder whose snapshot has two hosts that can be freed, and the time at which it is asked."""
    hosts = pd.DataFrame({"host_id": ["a", "b", "c"], "cpu_cores": 16.0, "mem_gib": 64.0})
    requests = pd.DataFrame({
        "request_id": ["one", "two", "kept"], "host_id": ["a", "b", "c"], "uptime_s": 20 * DAY_S,
        "cpu_cores": [2.0, 2.0, 4.0], "mem_gib": 4.0, "migratable": [True, True, False]})
    _write(tmp_path / "now", hosts, requests)
    return tmp_path, int(Predictor.load(bundle).info()["training"]["history_to_s"])


def _changed(folder: Path, hosts: list[str], uptime_s: int) -> None:
    """The snapshot with other hosts and another uptime in the table of requests."""
    table = pd.read_csv(folder / "now" / "requests.csv")
    table.assign(host_id=hosts, uptime_s=uptime_s).to_csv(folder / "now" / "requests.csv", index=False)


def test_the_same_snapshot_with_a_record_gives_the_same_list_and_record(pool: tuple[Path, int], bundle: Path) -> None:
    folder, now_s = pool
    plain = _run(folder / "now", "--bundle", bundle, "--out", folder / "plain.csv", "--now-s", now_s)
    first = _recorded(folder, bundle, now_s)
    kept = (folder / "record.json").read_bytes()
    assert plain[0] == 0 and first[0] == (folder / "plain.csv").read_text() and first[0].count("\n") == 3
    assert "record: 0 of 5 migrations" in first[1]
    assert _recorded(folder, bundle, now_s) == first
    assert (folder / "record.json").read_bytes() == kept


def test_migrations_that_were_begun_count_for_a_day_and_others_are_planned_again(pool: tuple[Path, int],
                                                                                  bundle: Path) -> None:
    folder, now_s = pool
    planned, _ = _recorded(folder, bundle, now_s, "--budget", 2)
    target = {row["request_id"]: row["to_host"] for row in pd.read_csv(folder / "list.csv").to_dict("records")}
    assert set(target) == {"one", "two"}
    # under way: 20 minutes are not over
    again, told = _recorded(folder, bundle, now_s + 600, "--budget", 2)
    assert again.count("\n") == 1 and "2 of 2 migrations" in told and "those of the last 24 hours are begun" in told
    # an hour later one has gone where it should, the other has not moved
    _changed(folder, [target["one"], "b", "c"], 20 * DAY_S + 3_600)
    again, told = _recorded(folder, bundle, now_s + 3_600, "--budget", 2)
    assert "1 of 2 migrations" in told
    assert pd.read_csv(folder / "list.csv")["request_id"].tolist() == ["two"]
    # what ended may have been migrated before: it counts, so that the cap holds
    table = pd.read_csv(folder / "now" / "requests.csv")
    table[table["request_id"] == "kept"].to_csv(folder / "now" / "requests.csv", index=False)
    assert "2 of 2 migrations" in _recorded(folder, bundle, now_s + 7_200, "--budget", 2)[1]
    # a day after the plan the first counts no more
    assert "1 of 2 migrations" in _recorded(folder, bundle, now_s + DAY_S, "--budget", 2)[1]
    assert "0 of 2 migrations" in _recorded(folder, bundle, now_s + DAY_S + 3_600, "--budget", 2)[1]
    assert planned.count("\n") == 3


def test_refills_are_counted_from_snapshots_as_a_replay_counts_them() -> None:
    """Host a is empty for an hour each day from 12 to 13 h, host b is always in use."""
    record = PoolRecord(seen_s=0)
    for hour in range(24 * 5 + 1):
        k = (hour + 11) // 24
        on_a = [] if hour % 24 == 12 else [(0, 1, 1)]
        uptime_s = 3_600 * np.array([hour - max(24 * k - 11, 0)] * len(on_a) + [hour])
        view = pool_of([*on_a, (1, 1, 1)], 2, uptime_s=uptime_s)
        names = [*([f"a{k}"] if on_a else []), "b"]
        record = record.after(Snapshot(view, ["a", "b"], names, lambda position, after_s: 0.0), 3_600 * hour)
        assert PoolRecord.model_validate_json(record.model_dump_json()) == record
    on_a = [(0, max(24 * day - 11, 0), 24 * day + 12) for day in range(5)]
    host, from_s, to_s = np.array([*on_a, (0, 109, 120), (1, 0, 120)]).T * np.array([[1], [3_600], [3_600]])
    last_s, left, still = record.days[-1]
    expected = count_day(host, from_s, to_s, last_s)
    assert (left, still) == (expected[0].tolist(), expected[1].tolist())
    assert sum(n for _, n in left) > 0 and still[0] == [1, 1] and still[-1] == [1, 1] and [0, 1] in still
    assert [at_s // 3_600 for at_s, _, _ in record.days] == [48, 72, 96, 120]
    assert record.refill().left_empty[-1] < 1.0 or record.refill().still_empty.min() < 1.0
    assert len(record.stays) <= 2 * 4 + 1  # what ended three days ago is gone


def test_a_host_that_vanished_and_its_stays_are_forgotten(pool: tuple[Path, int], bundle: Path) -> None:
    folder, now_s = pool
    _recorded(folder, bundle, now_s)
    for name in ("hosts", "requests"):
        table = pd.read_csv(folder / "now" / f"{name}.csv")
        table[table["host_id"] != "c"].to_csv(folder / "now" / f"{name}.csv", index=False)
    _recorded(folder, bundle, now_s + 3_600)
    record = PoolRecord.read(folder / "record.json", now_s + 3_600)
    assert {stay[1] for stay in record.stays} == {"a", "b"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"seen_s": "5"}', '{"seen_s": 5, "more": 1}',
                                  '{"seen_s": 5, "stays": [[1]]}',
                                  '{"seen_s": 5, "days": [[1, [[1]], [[2, 3]]]]}', "\0", '{"seen_s": 1e400}'])
def test_a_file_that_is_no_record_is_refused_and_left(pool: tuple[Path, int], bundle: Path, text: str) -> None:
    folder, now_s = pool
    (folder / "record.json").write_text(text)
    code, _, warned = _run(folder / "now", "--bundle", bundle, "--record", folder / "record.json", "--now-s", now_s)
    assert code == 2 and "record must be a file that rectify wrote, got" in warned.replace("\n", " ")
    assert (folder / "record.json").read_text() == text


def test_a_snapshot_from_before_the_record_is_refused(pool: tuple[Path, int], bundle: Path) -> None:
    folder, now_s = pool
    _recorded(folder, bundle, now_s + 10)
    code, _, warned = _run(folder / "now", "--bundle", bundle, "--record", folder / "record.json", "--now-s", now_s)
    assert code == 2
    assert f"now_s must not be before the record's last snapshot, second {now_s + 10}, got {now_s}" in " ".join(
        warned.split())
    code, _, warned = _run(folder / "now", "--bundle", bundle, "--record", folder / "x", "--out", folder / "x")
    assert code == 2 and "out must be another file than record" in warned
