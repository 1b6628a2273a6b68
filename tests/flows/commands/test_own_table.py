"""A user's own table on the command line: checked, its columns written down, and read by every command the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sojourn.flows.admission.settings import AdmitConfig
from sojourn.flows.cli import app
from sojourn.flows.commands.options import DEBUG
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.retrain.ingest import configured_trace, content_hash, input_hash, read_into
from sojourn.flows.settings.retrain import RetrainConfig, load_config
from sojourn.flows.settings.trace import ColumnOptions, TraceSource

ROWS = "\n".join(["vm;who;begun;gone;vcpus;memory_mb;exit_code",
                  *(f"v{k};u{k % 3};2026-11-01 {k % 24:02d}:00;2026-11-02 {k % 24:02d}:30;2;4096;0" for k in range(60)),
                  "bad;u1;yesterday;;1;1;0", "runs;u1;2026-11-01 05:00;;1;1024;0", ""])
PAIRS = ["arrival=begun", "departure=gone", "owner=who"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "my vms.csv"
    path.write_text(ROWS)
    return path


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments], env={DEBUG: "0"})
    assert done.exit_code == 0, done.output
    return done.output


def maps() -> list[str]:
    return [part for pair in PAIRS for part in ("--column-map", pair)]


def test_a_check_says_what_would_be_read_and_writes_the_map_once(table: Path) -> None:
    shown = run("check", str(table), *maps(), "--timezone", "Europe/Berlin")
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    for expected in ("column is kind examples", "who owner name u0, u1, u2",
                     "memory_mb mem_gib MiB 4096, 1, 1024",
                     "exit_code known at end name 0", "first time 2026-10-31 23:00:00 UTC",
                     "horizon 2026-11-02 22:30:00 UTC, the end of observation", "refused 1 of 62 rows",
                     "1 begun must be a time (ISO 8601)",
                     "requests 61, of which 1 still runs at the horizon (1.6 %): censored"):
        cut = [line.removesuffix("...") for line in lines if line.endswith("...")]
        assert expected in lines or any(expected.startswith(line) for line in cut), expected
    assert any(line.startswith("begun arrival ISO 8601, 61 without a zone: Europe/Berlin 2026-11-") for line in lines)
    assert max(len(line) for line in shown.splitlines() if "/" not in line) <= 80  # a path stays whole
    assert "next     sojourn gain '" in shown and shown.rstrip().endswith("--reader csv")
    written = table.with_name("my vms.csv.toml")
    assert 'owners = ["who"]' in written.read_text() and 'timezone = "Europe/Berlin"' in written.read_text()
    written.write_text(written.read_text().replace('owners = ["who"]', "owners = []") + "# mine\n")
    again = run("check", str(table))
    assert written.read_text().endswith("# mine\n") and "who        not read" in again


def test_a_check_where_nothing_can_be_written_shows_the_map(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    shown = run("check", str(table), *maps())
    assert "cannot be written (Permission denied)" in shown and 'arrival = "begun"' in shown


def test_a_check_of_another_reader(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text("".join(f"{k} {k} 0 60 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1\n" for k in range(1, 16)))
    shown = run("check", str(log), "--reader", "swf")
    assert "arrival_s" in shown and "second 0" in shown and "next     sojourn gain" in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.swf"]


def test_describe_and_convert_take_the_same_options(table: Path, tmp_path: Path) -> None:
    assert "owner who" in run("trace", "describe", str(table), "--reader", "csv", *maps())
    run("trace", "convert", str(table), str(tmp_path / "own"), "--reader", "csv", *maps())
    assert (tmp_path / "own" / "rejected.parquet").is_file()


@pytest.mark.parametrize("arguments", [
    ["check"], ["trace", "describe"], ["train"], ["lab", "evaluate"], ["gain"],
    ["lab", "admit"],
])  # fmt: skip
def test_every_command_names_what_is_wrong_with_a_map(arguments: list[str], table: Path) -> None:
    done = CliRunner().invoke(app, [*arguments, str(table), "--reader", "csv", "--column-map", "arrival=start"],
                              env={DEBUG: "0"})
    assert done.exit_code == 2
    assert "the column of arrival must be one of vm, who, begun" in " ".join(done.output.split())


@pytest.mark.parametrize("arguments", [["trace", "describe"], ["train"], ["gain"]])
def test_a_reader_without_columns_to_map_refuses_a_map(arguments: list[str], table: Path) -> None:
    done = CliRunner().invoke(app, [*arguments, str(table), "--reader", "swf", "--column-map", "arrival=start"],
                              env={DEBUG: "0"})
    assert done.exit_code == 2 and "reader that maps columns" in " ".join(done.output.split())


def test_all_settings_read_a_table_the_same_way(table: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"trace": table, "reader": "csv", "column_map": tuple(PAIRS),
                             "timezone": "Europe/Berlin"}
    sources = [RetrainConfig(**given).source, AdmitConfig(**given).source,
               CompareConfig(store=tmp_path / "store", **given).trace_specs()[0].source]
    assert {source.columns for source in sources} == {ColumnOptions(tuple(PAIRS), None, "Europe/Berlin")}
    trace, _ = configured_trace(sources[0])
    assert trace.roles.owners == ("who",) and len(trace) == 61


def test_settings_of_a_file_name_the_columns(table: Path, tmp_path: Path) -> None:
    config = tmp_path / "retrain.toml"
    config.write_text(f'trace = "{table}"\nreader = "csv"\ncolumn_map = {PAIRS!r}\n')
    assert load_config(config).source.columns.pairs == tuple(PAIRS)
    config.write_text(f'trace = "{table}"\nreader = "csv"\ncolumn_map = ["arrival:begun"]\n')
    with pytest.raises(ValueError, match="must be mapped as OURS=THEIRS"):
        load_config(config)


def test_the_hashes_of_a_trace_hold_its_map(table: Path, tmp_path: Path) -> None:
    def source(*pairs: str, file: Path | None = None, timezone: str | None = None) -> TraceSource:
        return TraceSource(table, "csv", None, 0, 0, columns=ColumnOptions(pairs, file, timezone))

    file = tmp_path / "map.toml"
    file.write_text('[columns]\narrival = "begun"\n')
    sources = [source(*PAIRS), source(*PAIRS[:2]), source(*PAIRS, timezone="Asia/Tokyo"), source(file=file)]
    beside = table.with_name(f"{table.name}.toml")
    for hash_of in (input_hash, content_hash):
        found = [hash_of(each) for each in sources]
        file.write_text(file.read_text() + "\n")
        found.append(hash_of(sources[3]))
        beside.write_text(file.read_text())
        found.append(hash_of(sources[0]))
        beside.unlink()
        assert len(set(found)) == len(found)
        assert hash_of(sources[0]) == found[0]
    kept = {read_into(tmp_path / "store", each).folder for each in sources[:2]}
    assert len(kept) == 2


def test_a_search_takes_a_map_for_its_tables_alone(table: Path) -> None:
    done = CliRunner().invoke(app, ["lab", "search", "--on", "synthetic", *maps()], env={DEBUG: "0"})
    assert done.exit_code == 2 and "must be given with a table, as csv=PATH" in " ".join(done.output.split())
    done = CliRunner().invoke(app, ["lab", "search", "--on", f"csv={table}", "--column-map", "arrival=start"],
                              env={DEBUG: "0"})
    assert done.exit_code == 2 and "the column of arrival must be one of vm, who" in " ".join(done.output.split())


@pytest.mark.parametrize(("text", "words"), [
    ("id,start\na,0\nb,9\n", "next     say when requests ended (--column-map departure=COLUMN"),
    ("id,start,end\na,0,5\nb,3,9\n", "next     read a longer table: 2 requests are too few for a model"),
])  # fmt: skip
def test_a_check_names_no_command_that_would_fail(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "vms.csv"
    path.write_text(text)
    shown = run("check", str(path))
    assert words in shown and "sojourn train" not in shown


def test_missing_files_and_tables_without_their_reader_are_named(tmp_path: Path) -> None:
    path = tmp_path / "vms.csv"
    for command in ("trace describe", "check", "trace convert"):
        more = [str(tmp_path / "out")] if "convert" in command else []
        found = CliRunner().invoke(app, [*command.split(), str(tmp_path / "no\x1b.csv"), *more])
        assert found.exit_code == 2 and "trace must be a file or folder, got '" in found.stderr
        assert "\x1b" not in found.stderr and "Errno" not in found.stderr
    path.write_text("id,start\na,0\n")
    found = CliRunner().invoke(app, ["trace", "describe", str(path), "--reader", "parquet"])
    assert found.exit_code == 2 and "--reader csv)" in found.stderr
    (tmp_path / "vms.txt").write_text("id,start\na,0\n")
    found = CliRunner().invoke(app, ["trace", "describe", str(tmp_path / "vms.txt")])
    assert found.exit_code == 2 and "error: reader must be given with --reader NAME" in found.stderr
