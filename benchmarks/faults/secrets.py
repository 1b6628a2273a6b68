"""A row of what must show nowhere: a password in tracking_uri, looked for in every byte that a run leaves."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

import psutil
from benchmarks.faults.tries import KILLED, Bench, Try, timed

from sojourn.flows.commands.options import CHALLENGER

PASSWORD = "zAq7/secret!Wsx8"
_QUOTED = quote(PASSWORD, safe="")
_FORMS = tuple({*(PASSWORD, _QUOTED, quote(_QUOTED, safe=""), PASSWORD.replace("/", "\\/"), "secret!Wsx8"),
                *(b64encode(f"{user}:{PASSWORD}".encode()).decode() for user in ("me", ""))})
"""As it stands, quoted, quoted again, in JSON, behind a slash that was taken for a path's, in an HTTP header."""
_SERVER_WITHIN_S = 300.0


def password(bench: Bench) -> Iterator[Try]:
    """A password in tracking_uri, looked for in all files, in what is printed and in command lines"""
    def problems(uri: str, code: int) -> list[str]:
        bench.empty()
        home = bench.folder / "home"
        home.mkdir(exist_ok=True)
        code_found, printed, lines = _run(bench, uri, home)
        found = [] if code_found == code else [f"the run ends with exit code {code_found}: {printed[-200:]}"]
        found += ["the password is printed"] if _has_secret(printed.encode()) else []
        found += ["the password is in a command line"] if _has_secret(lines.encode()) else []
        files = [path for place in (bench.store, home, bench.folder / "server") for path in place.rglob("*")
                 if path.is_file()]
        if code == 0 and not any(path.name == "prefect.db" for path in files):
            found.append("Prefect's database is not among what is searched")
        return found + [f"the password is in {path.relative_to(bench.folder)}" for path in files
                        if _has_secret(str(path).encode()) or _has_secret(path.read_bytes())]

    yield timed("a server that is away", partial(problems, f"http://me:{_QUOTED}@127.0.0.1:9/", 2))
    yield timed("a database that is refused",
                partial(problems, f"postgresql://me:{_QUOTED}@127.0.0.1:9/mlflow?password={_QUOTED}", 2))
    yield timed("an SQLite file with a query",
                partial(problems, f"sqlite:///{bench.store / 'mlflow.db'}?password={_QUOTED}", 2))
    with _server(bench.folder / "server") as port:
        yield timed("a server that answers", partial(problems, f"http://me:{_QUOTED}@127.0.0.1:{port}", 0))


def _run(bench: Bench, uri: str, home: Path) -> tuple[int, str, str]:
    """The exit code of a retrain with a Prefect server of its own, what it printed, and the command lines that it and
    its children had."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PREFECT_API_URL", "PREFECT_HOME")}
    environment |= {"SOJOURN_TRACKING_URI": uri, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "HOME": str(home)}
    output, lines = bench.folder / "searched.txt", set[str]()
    with output.open("w") as stream:
        run = subprocess.Popen([sys.executable, "-c", "from sojourn.flows.cli import app; app()",
                                *bench.retrain(KILLED)], env=environment, stdout=stream, stderr=stream)
        while run.poll() is None:
            with suppress(psutil.Error):
                process = psutil.Process(run.pid)
                lines |= {" ".join(each.cmdline()) for each in (process, *process.children(recursive=True))}
            time.sleep(0.2)
    code = 0 if run.returncode == CHALLENGER else run.returncode
    return code, output.read_text(errors="replace"), "\n".join(lines)


def _has_secret(content: bytes) -> bool:
    return any(form.encode() in content for form in _FORMS)


@contextmanager
def _server(folder: Path) -> Iterator[int]:
    """An MLflow server that asks for no password; gives its port."""
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = int(door.getsockname()[1])
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
               "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}", "--serve-artifacts",
               "--artifacts-destination", str(folder / "kept")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True,
                                  env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"})
    try:
        deadline = time.monotonic() + _SERVER_WITHIN_S
        while not _answers(port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"MLflow's server must start, got {(folder / 'log').read_text()[-2_000:]}")
            time.sleep(0.2)
        yield port
    finally:
        os.killpg(server.pid, 9)
        server.wait()


def _answers(port: int) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as response:
        return bool(response.status == 200)
    return False
