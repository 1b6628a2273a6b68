"""A row of an MLflow server that goes away: at the start and in mid-run; the run ends, and the next one succeeds."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.faults.injection import stop
from benchmarks.faults.looks import looking
from benchmarks.faults.soundness import NAME, served_problems
from benchmarks.faults.tries import KILLED, NEXT, Bench, Try, timed

_NO_RETRIES = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
_MOMENTS = (("in its candidate", "/candidates/"), ("in its order to promote", "/promotions/"))


def lost_server(bench: Bench) -> Iterator[Try]:
    """An MLflow server is killed in a retrain, which ends with one line; it is back, then the next run"""
    with _server(bench) as (server, uri):
        yield timed("away from the start", partial(_away_at_start, bench, server, uri))
        for what, event in _MOMENTS:
            if not bench.is_over():
                yield timed(what, partial(_lost, bench, server, uri, event))


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


def _lost(bench: Bench, server: _Mlflow, uri: str, event: str) -> list[str]:
    """The server goes before such an event. After the next run both versions are there."""
    _fresh(bench, server)
    server.start()
    found: list[str] = []
    try:
        with _tracking(uri), looking(bench, found):
            run = bench.launcher.start(bench.retrain(KILLED), bench.store, event, stop)
            if not run.wait_until_stopped():
                return [*found, f"the run ended before the event: {run.printed()[-200:]}"]
            server.kill()
            run.go_on()
            ended = run.wait()
            if ended.code != 2 or "Traceback" in ended.printed or "start it again" not in ended.printed:
                found.append(f"the run ends with exit code {ended.code}: {ended.last_line}")
            found += bench.asked(lambda: served_problems(bench.store / "bundles" / NAME))
            server.start()
            again = bench.launcher.run(bench.retrain(KILLED), bench.store)
            if again.code != 0:
                found.append(f"the next run ends with exit code {again.code}: {again.last_line}")
            found += bench.asked(partial(registered, bench.store))
    finally:
        server.kill()
    return found + bench.left_behind()


def registered(store: Path) -> list[str]:
    """What does not hold after the run: two versions, the later one champion and served, and no run under way."""
    from sojourn.flows.settings.trace import TraceSettings
    from sojourn.flows.tracking.tracker import CHAMPION
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
    return found + [f"run {run} is RUNNING" for run in tracker.running()]
