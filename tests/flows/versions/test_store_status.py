"""`sojourn store status` says what a store holds, and changes nothing."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from made_bundles import Made
from made_store import made_store
from sojourn.flows.cli import app
from sojourn.flows.settings.trace import TraceSettings
from sojourn.flows.tracking.tracker import CHALLENGER, CHAMPION, Tracker
from sojourn.flows.versions.version_list import status_facts, status_lines


def _lines(store: Path, tracker: Tracker) -> dict[str, str]:
    return {line[:12].strip(): line[12:] for line in status_lines(status_facts(TraceSettings(store=store), tracker))}


def test_an_empty_store_says_so(store: Path, tracker: Tracker) -> None:
    found = _lines(store, tracker)
    assert (found["store"], found["champion"], found["last run"]) == (
        str(store), "none: no model is registered yet", "none")
    assert found["disk"].split(" (")[0].endswith(" MB") and "`sojourn store clean` lists what may go" in found["disk"]


def test_champion_challenger_and_run_are_said(made: Made, store: Path, tracker: Tracker) -> None:
    made_store(made, store, "m")
    tracker.set_alias("m", CHAMPION, 2)
    tracker.set_alias("m", CHALLENGER, 1)
    tracker.tag_version("m", 1, "gate.accuracy", "FAILED: worse")
    with tracker.run("retrain made", {}):
        pass
    before = sorted(path for path in store.rglob("*") if path.name != "mlflow.db-shm")
    found = _lines(store, tracker)
    assert found["champion"].startswith("m version 2, of 20")
    assert found["challenger"].endswith("; failed: accuracy")
    assert found["last run"].startswith("retrain made: finished, began 20")
    assert sorted(path for path in store.rglob("*") if path.name != "mlflow.db-shm") == before
    shutil.rmtree(store / "bundles", ignore_errors=True)
    assert _lines(store, tracker)["champion"].endswith(f"not in {store / 'bundles' / 'm'}: the next run puts it there")


def test_the_command_prints_the_lines(store: Path, tracker: Tracker) -> None:
    done = CliRunner().invoke(app, ["store", "status", "--store", str(store)])
    assert done.exit_code == 0 and done.stdout.splitlines()[0] == f"store       {store}"
    done = CliRunner().invoke(app, ["store", "status", "--store", str(store / "none")])
    assert done.exit_code == 2 and not (store / "none").exists()


def test_a_store_that_nobody_may_write_to_is_read(store: Path, tracker: Tracker,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def read_only(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if Path(os.fsdecode(path)).is_relative_to(store) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", read_only)
    assert _lines(store, tracker)["store"] == str(store)
