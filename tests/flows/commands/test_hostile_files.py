"""Files that `rectify`, `annotate` and `admit` are given, mutated: each is read, or refused in one line."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings

from learnt_bundle import Learnt, learn
from mutations import EDITS, RAW, Edits, mutated, mutated_tables, paths, with_raw
from sojourn.flows.annotation.bounds import Replayed, coming_bounds
from sojourn.flows.commands.serve import _ids, _running_requests
from sojourn.flows.placement import snapshot as snapshot_tables
from sojourn.flows.placement.snapshot import read_snapshot, table_of
from sojourn.flows.reports.section import migrations_table
from sojourn.serving import Predictor, load_bundle
from sojourn.simulator.admission import read_power_profile
from sojourn.simulator.rectification import RECTIFIERS


@dataclass(frozen=True)
class Served:
    """A bundle as each command holds it."""

    learnt: Learnt
    predictor: Predictor
    replayed: Replayed


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    learnt = learn(tmp_path_factory.mktemp("learnt"))
    return Served(learnt, Predictor.load(learnt.folder), Replayed.of(load_bundle(learnt.folder), learnt.trace))


def is_read(call: Callable[[], object], what: str, *files: str) -> bool:
    """Whether it is; if not, one short line names one of the files."""
    try:
        call()
    except (ValueError, OSError) as error:
        assert "\n" not in str(error) and len(str(error)) < 800, what
        assert any(file in str(error) for file in files), f"{what}: {error}"
        return False
    except Exception as error:
        error.add_note(what)
        raise
    return True


HOSTS = "host_id,cpu_cores,mem_gib,gpu", "a,16,64,0", "b,16,64,2"
REQUESTS = ("request_id,host_id,uptime_s,cpu_cores,mem_gib,gpu,migratable,subscription,requested_s,colour",
            "old,a,1728000,2,4,0,true,s1,3600,red", "7,b,600,4,8,0,no,,,", "8,b,60,1,1,1,,s2,7200,")


def rectified(folder: Path, served: Served) -> Callable[[], object]:
    def call() -> object:
        pool = read_snapshot(folder, served.predictor, served.learnt.trace.horizon_s)
        return migrations_table(pool, RECTIFIERS["value"](pool.view, 5, 86_400))
    return call


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hosts", "requests"])
def test_every_cell_and_column_of_a_snapshot_mutated(name: str, served: Served, tmp_path: Path) -> None:
    tables = {"hosts": HOSTS, "requests": REQUESTS}
    for each, rows in tables.items():
        (tmp_path / f"{each}.csv").write_text("\n".join(rows) + "\n")
    assert is_read(rectified(tmp_path, served), "as it is")
    n_read = n_all = 0
    for what, text in mutated_tables(*tables[name]):
        (tmp_path / f"{name}.csv").write_text(text)
        n_all += 1
        n_read += is_read(rectified(tmp_path, served), what, "hosts.csv", "requests.csv")
    assert 0 < n_read < 0.6 * n_all


@settings(max_examples=60, deadline=None)
@given(edits=EDITS)
def test_mutated_snapshots_are_read_or_refused(edits: Edits, served: Served, tmp_path: Path) -> None:
    for name, rows in (("hosts", HOSTS), ("requests", REQUESTS)):
        for each, lines in (("hosts", HOSTS), ("requests", REQUESTS)):
            (tmp_path / f"{each}.csv").write_text("\n".join(lines) + "\n")
        (tmp_path / f"{name}.csv").write_bytes(mutated(("\n".join(rows) + "\n").encode(), edits))
        is_read(rectified(tmp_path, served), name, "hosts.csv", "requests.csv")


def test_a_table_of_more_cells_than_it_may_hold_is_refused_at_once(tmp_path: Path,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    monkeypatch.setattr(snapshot_tables, "N_CELLS_MAX", 100)
    (tmp_path / "t.csv").write_text("id,n,more\n" + "a,1,x\n" * 51)
    pd.DataFrame({"id": ["a"] * 51, "n": 1, "more": "x"}).to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        with pytest.raises(ValueError, match=rf"{name} must hold at most 100 cells that are read, got more in 51 rows"):
            table_of(tmp_path / name, ["id", "n"], [])
        assert len(table_of(tmp_path / name, ["id"], [])) == 51  # of the columns that are read


def test_a_header_of_a_million_names_takes_no_square_of_them(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",".join(map(str, range(1_000_000))) + "\n")
    with pytest.raises(ValueError, match=r"t\.csv must have the columns id, got none named 'id'"):
        table_of(tmp_path / "t.csv", ["id"], [])


def annotated(file: Path, served: Served) -> Callable[[], object]:
    return lambda: coming_bounds(served.replayed, _running_requests(file), 0.9, 0.9)


def test_every_value_of_a_request_is_read_or_refused(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "waiting.jsonl"
    whole = {"request_id": "a", "cpu_cores": 2, "mem_gib": 8, "subscription": "s1"}
    n_read = n_all = 0
    for path in paths(whole):
        for raw in (*RAW, *("[" * n + "]" * n for n in (800, 900, 950, 990)), None):
            file.write_text('{"request_id": "first"}\n\n' + with_raw(whole, path, raw) + "\n")
            n_all += 1
            n_read += is_read(annotated(file, served), f"{path} {str(raw)[:20]}", "waiting.jsonl: line 3")
    assert 0 < n_read < 0.6 * n_all


@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_requests_and_ids_are_read_or_refused(edits: Edits, served: Served, tmp_path: Path) -> None:
    lines = b'{"request_id": "a", "cpu_cores": 2}\n{"request_id": "b", "subscription": "s1"}\n'
    for name, content in (("waiting.jsonl", lines), ("waiting.jsonl.gz", gzip.compress(lines, mtime=0))):
        file = tmp_path / name
        file.write_bytes(mutated(content, edits))
        is_read(annotated(file, served), name, name)
    file = tmp_path / "ids.txt"
    file.write_bytes(mutated(b"ns/a\n7\n  b  \n", edits))
    is_read(lambda: _ids(file), "ids", "ids.txt")


def test_ids_and_requests_are_read_by_lines(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xef\xbb\xbfa\r\n\r\n  b b \nc\xe2\x80\xa8d\n")
    assert _ids(file) == {"a", "b b", "c\u2028d"}
    file.write_text('{"request_id": "a\u2028b"}\n')  # a line of Unicode that is none of JSON
    assert list(_running_requests(file).values()) == [{"request_id": "a\u2028b"}]


@pytest.mark.parametrize("name", ["folder", "pipe", "loop", "none", "bomb.gz", "nul", "latin"])
def test_what_is_no_text_is_refused_by_all(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif name == "pipe":
        os.mkfifo(path)
    elif name == "loop":
        path.symlink_to(path)
    elif name == "bomb.gz":
        path.write_bytes(gzip.compress(b"1\n" * (40 << 20), 1))
    elif name in ("nul", "latin"):
        path.write_bytes(b"a\n\0\n" if name == "nul" else b"a\n\xfc\n")
    for read in (_ids, _running_requests, read_power_profile):
        assert not is_read(lambda read=read: read(path), name, name)  # type: ignore[misc]


POWER = "time_s,cores", "0,3", "60,2", "120,4"


def test_every_cell_and_column_of_a_power_profile_mutated(tmp_path: Path) -> None:
    path, n_read, n_all = tmp_path / "power.csv", 0, 0
    for what, text in mutated_tables(*POWER):
        path.write_text(text)
        n_all += 1
        n_read += is_read(lambda: read_power_profile(path, busy_w=100), what, "power.csv")
    assert 0 < n_read < 0.3 * n_all


@settings(max_examples=60, deadline=None)
@given(edits=EDITS)
def test_mutated_power_profiles_are_read_or_refused(edits: Edits, tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    path.write_bytes(mutated(("\n".join(POWER) + "\n").encode(), edits))
    is_read(lambda: read_power_profile(path, busy_w=100), "power", "power.csv")
    path.write_text(json.dumps(str(edits)))
    is_read(lambda: read_power_profile(path), "json", "power.csv")
