"""Prefect's temporary server: it keeps its files in the store, and ends with its run, however the run ends.

Prefect's own one outlives a run that is killed, and lies in the user's home. This file is also the server's program."""

from __future__ import annotations

import fcntl
import os
import re
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sojourn.flows.settings.store import without_secrets

_READY = b"ready\n"
_STOPPED_WITHIN_S = 10.0
_LOG_TAIL_BYTES, _N_SIGNS_MAX = 65_536, 300
_ERROR_LINE = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception)\b")
_NOT_ITS = ("SOJOURN_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
"""Secrets that the server has no use for."""
_SMALL = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"}
"""A server of a single job makes no runs itself."""


@contextmanager
def prefect_server(store: Path, *, is_scheduling: bool = False) -> Iterator[str]:
    """Prefect has a server within; gives its API: the one that the user set (PREFECT_API_URL), else a temporary one.

    The temporary one's home is `prefect` in the store, unless PREFECT_HOME is set. RuntimeError where it does not
    start. is_scheduling: it makes runs of schedules, and has its pages.
    """
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, get_current_settings, temporary_settings

    known = get_current_settings().api.url
    if known is not None:
        yield str(known)
        return
    home = Path(os.environ.get("PREFECT_HOME") or store / "prefect").absolute()
    with _running(home, is_scheduling) as url, temporary_settings({PREFECT_API_URL: url, PREFECT_HOME: home}):
        try:
            yield url
        finally:
            _drain()


@contextmanager
def _running(home: Path, is_scheduling: bool) -> Iterator[str]:
    """A server with its files in `home`; gives the URL of its API."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "starting.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one at a time: two would both make the database
        creating = home / "creating"
        database = home / "prefect.db"
        if creating.exists():  # who began to make the database was killed
            for part in home.glob("prefect.db*"):
                part.unlink()
        if not database.exists():
            creating.touch()
        log = home / "server.log"
        n_logged = log.stat().st_size if log.exists() else 0
        process, url = _begun(home, is_scheduling)
        try:
            _await(process, log, n_logged)
            creating.unlink(missing_ok=True)
        except BaseException:
            _stop(process)
            raise
    try:
        yield url
    finally:
        _stop(process)


def _begun(home: Path, is_scheduling: bool) -> tuple[subprocess.Popen[bytes], str]:
    """The server's process, and the URL that it will answer at."""
    from prefect.settings import get_current_settings

    settings = get_current_settings().to_environment_variables(exclude_unset=True)
    environment = {**os.environ, **settings, **({} if is_scheduling else _SMALL), "PREFECT__SERVER_FINAL": "1",
                   "PREFECT_HOME": str(home)}
    for name in _NOT_ITS:
        environment.pop(name, None)
    # bound here, so that no other process takes the port meanwhile
    with socket.create_server(("127.0.0.1", 0)) as door, (home / "server.log").open("ab") as log:
        url = f"http://127.0.0.1:{door.getsockname()[1]}/api"
        environment.setdefault("PREFECT_SERVER_UI_API_URL", url)  # by default its pages ask port 4200
        process = subprocess.Popen(
            [sys.executable, "-m", "sojourn.flows.workers.prefect", str(door.fileno())],
            pass_fds=[door.fileno()], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            start_new_session=True)  # Ctrl-C is for the run, which then ends the server
    return process, url


def _await(process: subprocess.Popen[bytes], log: Path, n_logged: int = 0) -> None:
    """Wait until the server answers; RuntimeError, with its last error, where it ends before, or takes too long.

    n_logged: bytes of its log that are of earlier servers.
    """
    from prefect.settings import PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS as TIMEOUT

    limit_s = float(TIMEOUT.value())
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], limit_s)[0]:
        raise RuntimeError(f"Prefect's server must start within {limit_s:g} s (set {TIMEOUT.name} for more), got no "
                           f"answer{_last_error(log, n_logged)}; it logs to {log}")
    if process.stdout.readline() != _READY:
        raise RuntimeError(f"Prefect's server must start, got its end with code {process.wait()}"
                           f"{_last_error(log, n_logged)}; it logs to {log}")


def _last_error(log: Path, n_logged: int) -> str:
    """What the server logged last of an error, else its last line, after a colon; "" where there is none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(n_logged, log.stat().st_size - _LOG_TAIL_BYTES))
            lines = [line.strip() for line in stream.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    errors = [line for line in lines if _ERROR_LINE.match(line)]
    said = [*lines[-1:], *errors[-1:]]
    return f": {without_secrets(said[-1])[:_N_SIGNS_MAX]}" if said else ""


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOPPED_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _drain() -> None:
    """Hand over what Prefect's threads still hold, while the server answers."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    EventsWorker.drain_all()
    APILogWorker.drain_all()


def _serve(door: socket.socket) -> None:
    """Run the server in this process, until a signal, or until its standard input ends."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    import uvicorn
    from prefect.server.api.server import create_app

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                sys.stdout.buffer.write(_READY)
                sys.stdout.buffer.flush()

    Server(uvicorn.Config(create_app, factory=True, lifespan="on", log_level="error")).run([door])


def _end_with_input() -> None:
    # The run holds the other end of the pipe. The system closes it, however the run ends.
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
