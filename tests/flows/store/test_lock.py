"""One holder at a time; who waits says for whom; a killed holder is none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.flows.store.lock import is_alone, model_lock, schedule_lock, store_id, store_lock, use_store, whoami

HOLD = """
import sys
from pathlib import Path
from sojourn.flows.store.lock import store_lock
sys.argv = ["/usr/bin/sojourn", "train", "--store", "secret"]
with store_lock(Path({store!r})):
    print("held", flush=True)
    sys.stdin.read()
"""
SCHEDULE = """
import sys
from pathlib import Path
from sojourn.flows.store.lock import schedule_lock
with schedule_lock(Path({store!r}), "retrain", "m"):
    print("held", flush=True)
    sys.stdin.read()
"""
WRITES = SCHEDULE.replace("schedule_lock", "model_lock").replace('"retrain", ', "")
USES = """
import sys
from pathlib import Path
from sojourn.flows.store.lock import use_store
print(use_store(Path({store!r})), flush=True)
sys.stdin.read()
"""
"""The test holds the store's lock for it."""


def _begin(code: str, store: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([sys.executable, "-c", code.format(store=str(store))], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def _kill(process: subprocess.Popen[str]) -> None:
    with process:
        process.send_signal(signal.SIGKILL)


def test_who_waits_says_for_whom_and_a_killed_holder_is_none(tmp_path: Path) -> None:
    process, _ = _begin(HOLD, tmp_path)
    lines: list[str] = []
    holder = rf"the store {tmp_path} is in use by process {process.pid} \(sojourn train, since 20.* UTC\)"
    with pytest.raises(TimeoutError, match=rf"{holder}: waited 1 s"), store_lock(tmp_path, 1.2, lines.append):
        pass
    assert len(lines) == 1
    assert lines[0].startswith(f"waiting  the store {tmp_path} is in use by process {process.pid} (sojourn train, ")
    assert "secret" not in lines[0]
    _kill(process)
    with store_lock(tmp_path, 0.0):
        assert f'"pid": {os.getpid()}' in (tmp_path / "store.lock").read_text()
    assert (tmp_path / "store.lock").read_text() == ""


ELSEWHERE = """
import os, socket
socket.gethostname = lambda: "far"
os.getpid = lambda: {pid}
"""


def test_a_process_of_another_host_with_this_ones_pid_is_another_one(tmp_path: Path) -> None:
    elsewhere = ELSEWHERE.format(pid=os.getpid())
    named = rf"process {os.getpid()} on far \(.*, since 20"
    process, _ = _begin(elsewhere + HOLD, tmp_path)
    with pytest.raises(TimeoutError, match=f"is in use by {named}"), store_lock(tmp_path, 0.0):
        pass
    _kill(process)
    process, _ = _begin(elsewhere + SCHEDULE, tmp_path)
    with pytest.raises(ValueError, match=f"got a second one: stop {named}"), schedule_lock(tmp_path, "retrain", "m"):
        pass
    _kill(process)
    with store_lock(tmp_path, 0.0), schedule_lock(tmp_path, "retrain", "m"):
        pass


def test_one_process_excludes_itself(tmp_path: Path) -> None:
    with store_lock(tmp_path), pytest.raises(TimeoutError, match="is in use by process"), store_lock(tmp_path, 0.0):
        pass


def test_a_command_is_told_without_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/bin/sojourn", "model", "pull", "http://me:secret@host"])
    assert whoami()["command"] == "sojourn model pull"
    monkeypatch.setattr(sys, "argv", ["-c"])
    assert whoami()["command"] == "python"


def test_who_uses_the_store_alone_knows_it_until_another_process_begins(tmp_path: Path) -> None:
    with store_lock(tmp_path):
        assert is_alone(tmp_path)
        own = store_id(tmp_path)
        process, said = _begin(USES, tmp_path)
        assert said == "True"  # it was the first one
        assert not is_alone(tmp_path)
        assert not use_store(tmp_path)  # others may be at work
        assert not is_alone(tmp_path)
        _kill(process)
        assert is_alone(tmp_path)
        assert not use_store(tmp_path)  # what this process began since is not left behind
        process, said = _begin(USES, tmp_path)
        assert said == "False"  # this process uses it still, after its looks
        _kill(process)
        assert store_id(tmp_path) == own


def test_a_models_second_writer_is_refused_and_another_models_is_not(tmp_path: Path) -> None:
    process, _ = _begin(WRITES, tmp_path)
    named = rf"m must have one writer at a time, got a second one: wait for process {process.pid} \(.* or stop it"
    with pytest.raises(BlockingIOError, match=named), model_lock(tmp_path, "m"):
        pass
    with model_lock(tmp_path, "other"), pytest.raises(BlockingIOError), model_lock(tmp_path, "other"):
        pass
    _kill(process)
    with model_lock(tmp_path, "m"):
        pass


def test_the_store_has_the_same_name_for_all_who_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with store_lock(tmp_path / "a"), pytest.raises(TimeoutError, match=f"the store {tmp_path / 'a'} is in use"), (
            store_lock(Path("a"), 0.0)):
        pass
