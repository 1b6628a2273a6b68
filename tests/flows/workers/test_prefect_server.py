"""Prefect's temporary server: in the store, gone with its run; two runs at once; no pickles; one line of trouble."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS, temporary_settings

from made_server import publishing
from sojourn.flows.workers import prefect as module
from sojourn.flows.workers.prefect import _await, prefect_server

PROGRAM = """
import sys
from pathlib import Path
from sojourn.flows.process import keep_prefect_in
store = Path(sys.argv[1])
keep_prefect_in(store)
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.workers.flow import StoreFlow

def probe(config: RetrainConfig) -> None:
    print("within", flush=True)
    if sys.stdin.readline().strip() == "fail":
        raise ValueError("a word to find")

StoreFlow(probe, name="probe")(RetrainConfig(store=store, tracking_uri=sys.argv[2]))
print("done", flush=True)
"""
PICKLES = (b"\x80\x04\x95", b"\x80\x05\x95", b"gASV", b"gAWV")
"""How protocols 4 and 5 begin, plain and in base64."""


@contextmanager
def _run(store: Path, home: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SOJOURN_"))}
    with publishing() as answering:  # any answer will do for a tracking server that is there
        uri = f"http://me:s3cret-word@{answering.url.split('/')[2]}"
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(store), uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**environment, "HOME": str(home)})
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _alive(store: Path) -> list[int]:
    """Processes that have the store's path in their environment or their command, not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_zombie = (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            said = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if str(store).encode() in said and not is_zombie:
            found.append(int(folder.name))
    return found


def _await_none(store: Path) -> None:
    end = time.monotonic() + 60.0
    while _alive(store) and time.monotonic() < end:
        time.sleep(0.05)
    assert _alive(store) == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_a_killed_run_leaves_no_server(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with _run(store, tmp_path) as process:
        assert _first_line(process) == "within\n"
        assert len(_alive(store)) == 2  # the run and its server
        process.kill()
        _await_none(store)


@pytest.mark.slow
def test_two_runs_at_once_after_one_that_was_killed_while_it_made_the_database(tmp_path: Path) -> None:
    store = tmp_path / "a store#1 100%41"
    prefect = store / "prefect"
    prefect.mkdir(parents=True)
    (prefect / "creating").touch()
    (prefect / "prefect.db").write_bytes(b"half of it")
    with _run(store, tmp_path) as one, _run(store, tmp_path) as other:
        assert [_first_line(one), _first_line(other)] == ["within\n"] * 2
        out, err = one.communicate("go\n", timeout=120)
        assert (out, err, one.returncode) == ("done\n", "", 0)
        out, err = other.communicate("fail\n", timeout=120)
        assert (out, other.returncode) == ("", 1)
        assert "ValueError: a word to find" in err
    _await_none(store)
    assert not (prefect / "creating").exists()
    assert not list(tmp_path.rglob(".prefect*"))  # nothing in the user's home
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(b"a word to find" in content for content in kept.values())
    for path, content in kept.items():
        assert b"s3cret-word" not in content, path
        assert not any(begin in content for begin in PICKLES), path


def test_a_server_that_ends_or_is_slow_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    def begin(program: str) -> None:
        def started(home: Path, is_scheduling: bool) -> tuple[subprocess.Popen[bytes], str]:
            begun.append(subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE))
            return begun[-1], "http://127.0.0.1:9/api"

        monkeypatch.setattr(module, "_begun", started)

    monkeypatch.delenv("PREFECT_HOME", raising=False)
    begin("raise SystemExit(7)")
    with (pytest.raises(RuntimeError, match=r"Prefect's server must start, got its end with code 7; it logs to .*log"),
          temporary_settings(restore_defaults={PREFECT_API_URL}), prefect_server(tmp_path)):
        pass
    begin("input()")
    with (pytest.raises(RuntimeError, match=r"must start within 1 s \(set PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT"),
          temporary_settings({PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: 1}, restore_defaults={PREFECT_API_URL}),
          prefect_server(tmp_path)):
        pass
    assert [process.poll() is None for process in begun] == [False, False]
    assert (tmp_path / "prefect" / "creating").exists()  # so that the next run makes the database anew


def test_the_users_server_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_begun", lambda home, is_scheduling: pytest.fail("none of our own"))
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}), prefect_server(tmp_path):
        pass
    assert not (tmp_path / "prefect").exists()


@pytest.mark.parametrize(("logged", "told"), [
    ("Traceback\n  File x\nsqlite3.OperationalError: attempt to write a readonly database\n\nIt ends.\n",
     ": sqlite3.OperationalError: attempt to write a readonly database; it logs to"),
    ("no room at postgresql://me:s3cret@host/db\n", ": no room at postgresql://host/db; it logs to"),
    ("", "code -6; it logs to"),
])  # fmt: skip
def test_a_server_that_does_not_start_is_quoted(logged: str, told: str, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("ValueError: of an earlier server\n")
    n_logged = log.stat().st_size
    with log.open("a") as stream:
        process = subprocess.Popen([sys.executable, "-c", f"import os, sys; sys.stderr.write({logged!r}); "
                                                          "sys.stderr.flush(); os.abort()"],
                                   stdout=subprocess.PIPE, stderr=stream)
    with process, pytest.raises(RuntimeError, match="Prefect's server must start, got its end with code -6") as raised:
        _await(process, log, n_logged)
    assert told in str(raised.value)
    assert "earlier" not in str(raised.value) and "s3cret" not in str(raised.value)
