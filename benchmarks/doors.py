"""What the benchmarks of the doors share: a bundle, a client, and what a server's process takes.

answer_service.py, extender.py, watcher.py, control_plane.py.
"""

from __future__ import annotations

import http.client
import os
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sojourn.features import Trace
from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.split import split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models import LIFETIME_MODELS, FitSettings, write_bundle
from sojourn.serving.inputs import HistoryState

N_REQUESTS = 12_000


def write_model(folder: Path, seed: int) -> Trace:
    """A bundle of the default hazard model, and the made trace that it was learnt from."""
    trace = synthesize(N_REQUESTS, seed=seed)
    learn(folder, trace)
    return trace


def learn(folder: Path, trace: Trace) -> None:
    """Write a bundle of the hazard family that is learnt from a trace."""
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    split = split_by_time(build_rows(trace, encoder, history))
    settings = FitSettings(backoff_keys(encoder), n_threads=1)
    exported = LIFETIME_MODELS["hazard"]().fit(split.train, split.valid, split.past, settings).export()
    if exported is None:
        raise ValueError("the hazard family must be one that is served")
    write_bundle(folder, "hazard", exported, encoder, history, {})


def port_of(server: subprocess.Popen[str]) -> int:
    """The port in the line with which a door begins to serve."""
    if server.stdout is None:
        raise RuntimeError("the server must have an output")
    line = next(line for line in server.stdout if " on http://" in line)
    return urlsplit(line.split()[2].rstrip(",")).port or 0


def status_mib(pid: int, field: str) -> float:
    """VmRSS, VmHWM and so on, of /proc."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def cpu_s(pid: int) -> float:
    """Processor time, with the system's."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until(is_so: Callable[[], object], within_s: float = 60.0, every_s: float = 0.1) -> float:
    """Seconds until it is so; RuntimeError if it takes longer."""
    started_s = time.monotonic()
    while not is_so():
        if time.monotonic() - started_s > within_s:
            raise RuntimeError(f"it did not come about within {within_s:g} s")
        time.sleep(every_s)
    return time.monotonic() - started_s


def machine() -> dict[str, Any]:
    """What a figure's file says of where it was measured."""
    return {"cpu": platform.processor() or platform.machine(), "n_cpu": os.cpu_count(),
            "load_average": os.getloadavg()[0], "python": platform.python_version()}


class Client:
    """One connection that is kept alive."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def post(self, path: str, body: bytes) -> bytes:
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        return self._read()

    def get(self, path: str) -> bytes:
        self._connection.request("GET", path)
        return self._read()

    def close(self) -> None:
        self._connection.close()

    def _read(self) -> bytes:
        response = self._connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(f"status must be 200, got {response.status}: {content[:200]!r}")
        return content
