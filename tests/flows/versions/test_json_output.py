"""`--json`: a program reads what a command found, the same however wide a terminal is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from made_bundles import Made
from made_store import made_store
from sojourn.flows.cli import app
from sojourn.flows.tracking.tracker import CHALLENGER, CHAMPION, Tracker

TABLE = "id,arrival,departure,cpu_cores,mem_gib,owner\n" + "".join(
    f"r{k},{60 * k},{60 * k + 600 if k % 3 else ''},{1 + k % 4},8,o{k % 5}\n" for k in range(24))


def objects(*arguments: str) -> list[dict[str, Any]]:
    """Each line of standard output as an object, the same at 40 columns as without a terminal."""
    piped = CliRunner().invoke(app, [*arguments, "--json"])
    narrow = CliRunner().invoke(app, [*arguments, "--json"], env={"COLUMNS": "40", "FORCE_COLOR": "1"})
    assert piped.exit_code == narrow.exit_code == 0, piped.output
    assert piped.stdout == narrow.stdout
    return [json.loads(line) for line in piped.stdout.splitlines()]


def refused(*arguments: str) -> str:
    """The error of a command that prints no JSON."""
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert (done.exit_code, done.stdout) == (2, "")
    return done.stderr


def test_versions_are_an_object_a_line(made: Made, store: Path, tracker: Tracker) -> None:
    assert objects("model", "list", "--store", str(store)) == []
    made_store(made, store, "m")
    latest, first = objects("model", "list", "m", "--store", str(store))
    assert (latest["model"], latest["version"], latest["aliases"]) == ("m", 2, [CHAMPION])
    assert latest["is_comparable"] is True
    assert (first["version"], first["is_comparable"], first["data_hash"]) == (1, False, "aaa")
    assert latest["measures"]["ages.ibs"] == 0.25 and latest["measures"]["wave.next_day.ratio"] is None
    assert (latest["failed"], latest["left"], latest["cleaned"]) == ([], None, None)
    assert latest["registered_unix_s"] >= first["registered_unix_s"] > 1.7e9
    assert objects("model", "list", "--store", str(store)) == [latest, first]
    assert refused("model", "list", "other", "--store", str(store)).startswith("error: the registered model must be")
    assert refused("model", "list", "--store", str(store / "none")).startswith("error: ")


def test_status_is_one_object(made: Made, store: Path, tracker: Tracker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=7))
    empty, = objects("store", "status", "--store", str(store))
    assert (empty["store"], empty["models"], empty["last_run"]) == (str(store), [], None)
    bundle = made_store(made, store, "m")
    tracker.set_alias("m", CHALLENGER, 1)
    tracker.tag_version("m", 1, "gate.accuracy", "FAILED: worse")
    with tracker.run("retrain made", {}):
        pass
    found, = objects("store", "status", "--store", str(store))
    model, = found["models"]
    champion, challenger = model[CHAMPION], model[CHALLENGER]
    assert (champion["version"], champion["is_gone"], champion["trace"]) == (2, False, "made")
    assert (champion["bundle"], champion["bundle_state"]) == (str(bundle), "served")
    assert (challenger["version"], challenger["failed_gates"]) == (1, ["accuracy"])
    assert champion["created_unix_s"] > 1.7e9 and "bundle" not in challenger
    run = found["last_run"]
    assert (run["name"], run["status"]) == ("retrain made", "finished") and run["took_s"] >= 0.0
    assert found["disk_bytes"]["mlflow.db"] > 1_000 and found["free_bytes"] == 7
    assert refused("store", "status", "--store", str(store / "none")).startswith("error: ")


def test_a_trace_is_described_in_numbers(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(TABLE)
    found, = objects("trace", "describe", str(table), "--reader", "csv")
    assert (found["n_read"], found["n_kept"], found["n_requests"], found["n_censored"]) == (24, 24, 24, 8)
    assert found["lifetime_quantiles_s"]["0.5"] == 600.0 and found["mean_cpu_frac"] is None
    assert found["binding"] is None and found["refused"] == {}
    assert found["owners"] == {"owner": 5}
    picture = tmp_path / "trace.png"
    assert len(objects("trace", "describe", str(table), "--reader", "csv", "--picture", str(picture))) == 1
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert refused("trace", "describe", str(tmp_path / "none")).startswith("error: trace must be a file or folder")
    assert refused("trace", "describe", str(table), "--reader", "parquet").startswith("error: reader parquet must be")


def test_a_check_says_what_would_be_read(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(TABLE)
    guessed = json.loads(CliRunner().invoke(app, ["check", str(table), "--json"]).stdout)
    assert guessed["column_map_toml"] == table.with_name("table.csv.toml").read_text()
    found, = objects("check", str(table))
    assert {each["column"]: each["role"] for each in found["columns"]}["owner"] == "owner"
    assert (found["first_s"], found["n_requests"], found["n_running"], found["is_dated"]) == (0, 24, 8, False)
    assert found["horizon_s"] >= found["last_s"] and found["n_read"] == 24
    assert found["next"] == [f"sojourn {each} {table} --reader csv" for each in ("gain", "train")]
    table.write_text("id,arrival\nr1,x\n")
    assert refused("check", str(table)).startswith("error: ")


@pytest.mark.parametrize("command", [("model", "list"), ("store", "status"), ("check",), ("trace", "describe"),
                                     ("gain",)])
def test_the_help_names_it(command: tuple[str, ...]) -> None:
    assert "--json" in CliRunner().invoke(app, [*command, "--help"]).stdout
