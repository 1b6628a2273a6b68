"""Programs that serve HTTP on the loopback interface, started for a test and ended with it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

READY_WITHIN_S = 180.0
"""A busy machine fails no test."""


@contextmanager
def mlflow_program(arguments: list[str], folder: Path, environment: Mapping[str, str], probe: str,
                   port: int | None = None) -> Iterator[int]:
    """`mlflow ARGUMENTS --host --port --workers 1` in a folder, once it answers at the path `probe`; gives its port.

    environment: besides the test's own. port: default: one that is free. The program's output is in `folder / "log"`.
    """
    if port is None:
        with socket.create_server(("127.0.0.1", 0)) as door:
            port = int(door.getsockname()[1])
    command = [sys.executable, "-m", "mlflow", *arguments, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    with (folder / "log").open("wb") as log:
        program = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True,
                                   env={**os.environ, **environment})
    try:
        deadline = time.monotonic() + READY_WITHIN_S
        while not _answers(f"http://127.0.0.1:{port}{probe}"):
            if program.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"mlflow {arguments[0]} must start, got {(folder / 'log').read_text()[-2_000:]}")
            time.sleep(0.2)
        yield port
    finally:
        os.killpg(program.pid, 9)
        program.wait()


def mlflow_server(folder: Path, port: int | None = None, *, database: str | None = None,
                  **environment: str) -> AbstractContextManager[int]:
    """An MLflow tracking server that asks for no password and keeps its artifacts in a folder; gives its port.

    database: URI of its runs; default: an SQLite file in the folder.
    """
    arguments = ["server", "--serve-artifacts", "--artifacts-destination", str(folder / "kept")]
    return mlflow_program(arguments, folder, {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_BACKEND_STORE_URI": database or f"sqlite:///{folder / 'mlflow.db'}", **environment}, "/health", port)


def _answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=5) as response:
        return bool(response.status == 200)
    return False
