"""Rows of an MLflow server that goes away: at the start, in mid-run, for a while or for long; then `sojourn sync`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psutil
from benchmarks.faults.injection import kill, stop
from benchmarks.faults.looks import looking
from benchmarks.faults.soundness import NAME, served_problems
from benchmarks.faults.sweeps import swept_over
from benchmarks.faults.tries import KILLED, NEXT, Bench, Try, timed

_NO_RETRIES = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
_MOMENTS = (("in its candidate", "/candidates/"), ("in its order to promote", "/promotions/"))


def lost_server(bench: Bench) -> Iterator[Try]:
    """An MLflow server is killed in a retrain, for longer than the run waits; it is back, then `sojourn sync`"""
    with _server(bench) as (server, uri):
        yield timed("away from the start", partial(_away_at_start, bench, server, uri))
        for what, event in _MOMENTS:
            if not bench.is_over():
                yield timed(what, partial(_lost, bench, server, uri, event, 1.0))


def returning_server(bench: Bench) -> Iterator[Try]:
    """An MLflow server is killed in a retrain, and is back while the run waits for it"""
    with _server(bench) as (server, uri):
        for what, event in _MOMENTS:
            if not bench.is_over():
                yield timed(what, partial(_lost, bench, server, uri, event, 300.0))


def killed_sync(bench: Bench) -> Iterator[Try]:
    """kill -9 of `sojourn sync` while it sends a kept run to an MLflow server; then `sojourn sync` again"""
    command = ["sync", "--store", str(bench.store)]
    with _server(bench) as (server, uri), _tracking(uri):
        server.start()
        run = bench.launcher.start(bench.retrain(KILLED, "tracking_wait_s = 1.0"), bench.store, _MOMENTS[0][1], stop)
        if run.wait_until_stopped():
            server.kill()
            run.go_on()
        ended = run.wait()
        if ended.code != 2 or not any((bench.store / "unsent").glob("*/order.json")):
            raise RuntimeError(f"the run must be kept, got exit code {ended.code}: {ended.last_line}")
        _keep(bench, server)

        def ready() -> None:
            server.kill()
            _fresh(bench, server)
            server.start()
            bench.launcher.spared |= {child.pid for child in psutil.Process().children()}

        def after() -> list[str]:
            sent = bench.launcher.run(command, bench.store)
            found = [] if sent.code == 0 else [f"sync ends with exit code {sent.code}: {sent.last_line}"]
            return found + bench.asked(partial(registered, bench.store)) + bench.left_behind()

        yield from swept_over(bench, ready, command, kill, after=after)


class _Mlflow:
    """A server with its files in `folder`, always at the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._on = folder, ExitStack()
        self.port: int | None = None

    def start(self) -> None:
        sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
        from made_servers import mlflow_server

        self.port = self._on.enter_context(mlflow_server(self.folder, self.port))

    def kill(self) -> None:
        self._on.close()


@contextmanager
def _server(bench: Bench) -> Iterator[tuple[_Mlflow, str]]:
    """A server and its URI, killed now; it and the store, as `_fresh` brings them back, have one version."""
    bench.empty()
    folder = bench.folder / "mlflow-server"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    server = _Mlflow(folder)
    os.environ.update(_NO_RETRIES)
    try:
        server.start()
        uri = f"http://127.0.0.1:{server.port}"
        with _tracking(uri):
            first = bench.launcher.run(bench.retrain(NEXT), bench.store)
        server.kill()
        if first.code != 0:
            raise RuntimeError(f"a run without any fault must end with exit code 0, got {first.printed[-2_000:]}")
        _keep(bench, server)
        yield server, uri
    finally:
        server.kill()
        for name in _NO_RETRIES:
            os.environ.pop(name, None)


@contextmanager
def _tracking(uri: str) -> Iterator[None]:
    os.environ["SOJOURN_TRACKING_URI"] = uri
    try:
        yield
    finally:
        del os.environ["SOJOURN_TRACKING_URI"]


def _keep(bench: Bench, server: _Mlflow) -> None:
    for place in (server.folder, bench.store):
        shutil.rmtree(place.with_name(f"{place.name}-kept"), ignore_errors=True)
        shutil.copytree(place, place.with_name(f"{place.name}-kept"))


def _fresh(bench: Bench, server: _Mlflow) -> None:
    for place in (server.folder, bench.store):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(place.with_name(f"{place.name}-kept"), place)


def _away_at_start(bench: Bench, server: _Mlflow, uri: str) -> list[str]:
    _fresh(bench, server)
    found: list[str] = []
    before = _files(bench)
    with _tracking(uri), looking(bench, found):
        ended = bench.launcher.run(bench.retrain(KILLED), bench.store)
    if ended.code != 2 or "Traceback" in ended.printed or "the tracking store must answer at" not in ended.printed:
        found.append(f"the run ends with exit code {ended.code}: {ended.last_line}")
    if changed := sorted(_files(bench) ^ before):
        found.append(f"a file is changed before the server answers: {changed[0]}")
    return found + bench.left_behind()


def _files(bench: Bench) -> set[str]:
    return {str(path.relative_to(bench.store)) for path in bench.store.rglob("*") if path.is_file()}


def _lost(bench: Bench, server: _Mlflow, uri: str, event: str, wait_s: float) -> list[str]:
    """The server goes before such an event; the run waits so long at most. In the end both versions are there."""
    _fresh(bench, server)
    server.start()
    found: list[str] = []
    try:
        with _tracking(uri), looking(bench, found):
            run = bench.launcher.start(bench.retrain(KILLED, f"tracking_wait_s = {wait_s}"), bench.store, event, stop)
            bench.launcher.spared.add(run.pid)
            if not run.wait_until_stopped():
                return [*found, f"the run ended before the event: {run.printed()[-200:]}"]
            server.kill()
            run.go_on()
            is_kept = run.ends_within(60.0) if wait_s < 60.0 else run.ends_within(5.0)
            server.start()
            ended = run.wait()
            bench.launcher.spared.discard(run.pid)
            if wait_s < 60.0 and is_kept and (ended.code != 2 or "Traceback" in ended.printed):
                found.append(f"the run ends with exit code {ended.code}: {ended.last_line}")
            if wait_s > 60.0 and ended.code != 0:
                found.append(f"the run that waits ends with exit code {ended.code}: {ended.last_line}")
            sent = bench.launcher.run(["sync", "--store", str(bench.store)], bench.store)
            if sent.code != 0:
                found.append(f"sync ends with exit code {sent.code}: {sent.last_line}")
            found += bench.asked(partial(registered, bench.store))
    finally:
        server.kill()
    return found + bench.left_behind()


def registered(store: Path) -> list[str]:
    """What does not hold after the run: two versions, the later one champion and served, and no run under way."""
    from sojourn.flows.settings.trace import TraceSettings
    from sojourn.flows.tracking.registry import CHAMPION
    from sojourn.flows.versions.promotion import BundleBytes, read_sha256, read_store

    tracker = read_store(TraceSettings(store=store))
    found = served_problems(store / "bundles" / NAME)
    if (versions := tracker.versions(NAME)) != [1, 2]:
        return [*found, f"the versions are {versions}"]
    if (champion := tracker.version_of(NAME, CHAMPION)) != 2:
        found.append(f"the champion is {champion}")
    held = BundleBytes.read(tracker.fetch(NAME, 2, store.parent / "looked" / str(time.monotonic_ns())))
    if held.sha256 != read_sha256(store / "bundles" / NAME):
        found.append("the folder that is served is not the champion")
    if any((store / "unsent").glob("*")):
        found.append("a kept run is not sent")
    return found + [f"run {run} is RUNNING" for run in tracker.running()]
