"""`sojourn rectify`: today's list from a snapshot, with reasons; and one line with exit code 2 for bad input."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from learnt_bundle import learn
from sojourn.flows.cli import app
from sojourn.flows.placement.snapshot import Snapshot
from sojourn.flows.reports.rectify_table import COLUMNS, migrations_table

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
    result = CliRunner().invoke(app, ["rectify", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_list_says_which_host_is_freed_when_and_how_sure(bundle: Path, tmp_path: Path, kind: str) -> None:
    snapshot = _write(tmp_path / "now", *_tables(), kind)
    code, told, warned = _run(snapshot, "--bundle", bundle, "--out", tmp_path / "list.csv")
    assert code == 0, warned
    assert "old" in told
    assert "of 2 of 2 requests the model does not know all" in warned
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
    (lambda h, r: (h[:1], r), (), "host_id must be in the table of hosts, got 'b' of request 'kept'"),
    (lambda h, r: (h, r.assign(cpu_cores=[2.0, 17.0])), (), "got 17 cpu_cores on host 'b', which has 16"),
    (lambda h, r: (h, r.assign(gpu=[1.0, None])), (), "got 1 gpu on host 'a', which has 0"),
    (lambda h, r: (h[:0], r), (), "hosts must be at least one, got none"),
    (lambda h, r: (h.assign(host_id="a"), r), (), "host_id must be unique, got 'a' twice"),
    (lambda h, r: (h, r.assign(request_id="x")), (), "request_id must be unique, got 'x' twice"),
    (lambda h, r: (h, r.assign(uptime_s=[-1, 5])), (), "uptime_s must be 0 or more, got -1 of request 'old'"),
    (lambda h, r: (h, r.assign(uptime_s=["x", 5])), (), "uptime_s must be 0 or more, got 'x' of request 'old'"),
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


def test_a_folder_without_tables_is_named(bundle: Path, tmp_path: Path) -> None:
    code, _, warned = _run(tmp_path, "--bundle", bundle)
    assert code == 2
    assert "snapshot must be a folder with hosts.csv or hosts.parquet, got neither" in warned


def test_requests_that_leave_together_share_their_reason() -> None:
    from made_views import pool_of
    from sojourn.simulator.rectification import MigrationGroup

    # Host 0 is left by two for host 1, and has a third that ends in 12 h: empty then, and never without; host 1 stays.
    view = pool_of([(0, 2, 900), (0, 2, 900), (0, 1, 12), (1, 4, 900)], 2)
    table = migrations_table(Snapshot(view, ["a", "b"], list("wxyz"), 0), [MigrationGroup(0, (0, 1), (1, 1), math.nan)])
    assert table["request_id"].tolist() == ["w", "x"]
    assert table["n_together"].tolist() == [2, 2]
    assert (table["chance_pct"].tolist(), table["chance_without_pct"].tolist()) == ([100.0] * 2, [0.0] * 2)
    # cells are a fifth longer each: that of 12 h begins or ends within as much of it
    assert np.abs(table["likely_after_h"] - 12.0).max() < 12.0 * 0.2
    # of a day 12 h are empty, less the half of a cell's error
    assert table["gain_h"].iloc[0] == pytest.approx(12.0, abs=0.1)
