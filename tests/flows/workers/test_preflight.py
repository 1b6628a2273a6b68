"""What is refused before Prefect starts and before a store is made: a trace that is none, a server that is away."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.settings.trace import TraceSettings
from sojourn.flows.tracking import client as tracking_client
from sojourn.flows.tracking.client import TrackingError, ask
from sojourn.flows.workers import flow
from sojourn.flows.workers import flow as preflight
from sojourn.flows.workers.flow import check_before_work


def _empty(folder: Path) -> Path:
    (folder / "trace.swf").touch()
    return folder / "trace.swf"


def _empty_inside(folder: Path) -> Path:
    (folder / "trace.swf.gz").write_bytes(gzip.compress(b""))
    return folder / "trace.swf.gz"


def _empty_folder(folder: Path) -> Path:
    (folder / "trace" / "of").mkdir(parents=True)
    return folder / "trace"


def _other(folder: Path) -> Path:
    (folder / "trace.swf").write_text("a,b\n1,2\n")
    return folder / "trace.swf"


@pytest.mark.parametrize(("make", "words"), [
    (_empty, "trace must hold requests, got an empty file: '"),
    (_empty_inside, "trace must hold requests, got an empty file: '"),
    (_empty_folder, "trace must hold requests, got a folder without a file that holds any: '"),
    (lambda folder: folder / "none", "trace must be a file or folder, got '"),
    (_other, "line 1 must have 18 columns"),
])  # fmt: skip
def test_a_trace_that_is_none_is_refused_before_the_store_is_made(
        make: Callable[[Path], Path], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(store: Path) -> None:
        raise AssertionError("Prefect was started")

    monkeypatch.setattr(flow, "prefect_server", started)
    store = tmp_path / "store"
    with pytest.raises((ValueError, OSError)) as raised:
        flow.StoreFlow(lambda config: None, name="any")(RetrainConfig(trace=make(tmp_path), reader="swf", store=store))
    assert words in str(raised.value)
    assert not store.exists()


def test_a_server_that_is_away_is_found_before_prefect_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def started(store: Path) -> None:
        raise AssertionError("Prefect was started")

    monkeypatch.setattr(flow, "prefect_server", started)
    config = RetrainConfig(tracking_uri=TrackingUri("http://me:s3cret@127.0.0.1:9"), store=tmp_path / "store")
    with pytest.raises(TrackingError) as raised:
        flow.StoreFlow(lambda config: None, name="any")(config)
    assert str(raised.value) == ("the tracking store must answer at http://127.0.0.1:9, got [Errno 111] Connection "
                                 "refused")
    assert not (tmp_path / "store").exists()


def test_a_server_that_says_nothing_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking_client, "_ASK_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as door, (
            pytest.raises(TrackingError, match=r"no answer within 0\.05 s")):
        ask(TrackingUri(f"http://127.0.0.1:{door.getsockname()[1]}"))


def test_any_answer_will_do_and_no_password_is_sent() -> None:
    asked: list[tuple[str, str | None]] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization")))
            self.send_error(401)

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        check_before_work(TraceSettings(tracking_uri=TrackingUri(f"http://me:s3cret@127.0.0.1:{server.server_port}")))
    assert asked == [("/health", None)]


def test_behind_a_proxy_mlflow_alone_knows_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    ask(TrackingUri("http://mlflow.invalid"))


def test_a_large_trace_is_left_to_the_stage_that_reads_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(preflight, "READ_UP_TO_BYTES", 500)
    plain, packed = _other(tmp_path), tmp_path / "packed.swf.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert 50 > packed.stat().st_size > plain.stat().st_size
    for trace in (plain, packed):  # 8 bytes of text; 28 of gzip count as 280
        with pytest.raises(ValueError, match="line 1 must have 18 columns"):
            check_before_work(RetrainConfig(trace=trace, reader="swf"))
    monkeypatch.setattr(preflight, "READ_UP_TO_BYTES", 50)
    check_before_work(RetrainConfig(trace=packed, reader="swf"))
