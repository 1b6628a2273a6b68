"""What a client may and may not do to the server, and how it stops."""

from __future__ import annotations

import json
import logging
import socket
import threading
from typing import Any

import pytest

from made_extender import ask, connect, serving
from sojourn.serving.json_server import JsonServer, Limits

SMALL = Limits(body_bytes=1_000, n_connections=2, request_s=0.15, idle_s=0.15)


def _echo(document: Any) -> tuple[int, Any]:
    return 200, document


def _fail(document: Any) -> tuple[int, Any]:
    raise KeyError("a secret of the inside")


def _server(limits: Limits | None = None, **posts: Any) -> JsonServer:
    named = {f"/{name}": post for name, post in posts.items()}
    return JsonServer("127.0.0.1", 0, {"/echo": _echo, "/fail": _fail, **named},
                      {"/text": lambda: ("text/plain", '"text"')}, limits)


def _raw(server: JsonServer, content: bytes) -> bytes:
    """All that comes back for these bytes, until the server closes."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as client:
        client.sendall(content)
        if content.endswith(b"\r\n\r\n"):
            client.shutdown(socket.SHUT_WR)
        return _until_closed(client)


def _until_closed(client: socket.socket) -> bytes:
    found = b""
    while chunk := client.recv(65_536):
        found += chunk
    return found


def test_a_connection_is_kept_between_requests() -> None:
    with serving(_server()) as server:
        connection = connect(server)
        connection.connect()
        port = connection.sock.getsockname()[1]
        assert ask(connection, "/echo", {"a": [1, 2.5, None]}) == (200, {"a": [1, 2.5, None]})
        assert ask(connection, "/text?x=1") == (200, "text")
        assert ask(connection, "/echo", b"{")[0] == 400
        assert connection.sock.getsockname()[1] == port
        connection.close()


@pytest.mark.parametrize(("request_line", "headers", "status"), [
    ("GET /none", "", 404), ("POST /none", "Content-Length: 0", 404), ("GET /echo", "", 405),
    ("POST /text", "Content-Length: 0", 405), ("PUT /echo", "Content-Length: 0", 501), ("POST /echo", "", 411),
    ("POST /echo", "Transfer-Encoding: chunked", 411), ("POST /echo", "Content-Length: -1", 400),
    ("POST /echo", "Content-Length: 1e3", 400), ("POST /echo", "Content-Length: " + "9" * 16, 400),
    ("POST /echo", "Content-Length: 1001", 413),
    ("GET /" + "a" * 70_000, "", 414), ("GET /text", "|".join(["a: b"] * 200), 431),
])  # fmt: skip
def test_what_is_refused(request_line: str, headers: str, status: int) -> None:
    lines = [f"{request_line} HTTP/1.1", "Host: x", *headers.split("|")]
    with serving(_server(Limits(body_bytes=1_000))) as server:
        found = _raw(server, "\r\n".join(line for line in lines if line).encode() + b"\r\n\r\n")
    top, _, body = found.partition(b"\r\n\r\n")
    assert f" {status} " in top.decode().splitlines()[0]
    assert "Connection: close" in top.decode().splitlines()
    assert list(json.loads(body)) == ["Error"]


@pytest.mark.parametrize("line", [b"nonsense", b"a b c d", b"GET /echo", b"GET /text HTTP/9.9", b"GET /text HTTP/x",
                                  b"\x16\x03\x01\x02\x00\x01\x00"])
def test_what_is_not_http_is_refused_without_headers(line: bytes) -> None:
    with serving(_server()) as server:
        assert list(json.loads(_raw(server, line + b"\r\n\r\n"))) == ["Error"]


def test_a_client_that_sends_on_still_sees_why_it_was_refused() -> None:
    with serving(_server()) as server:
        connection = connect(server)
        body = b"x" * (17 << 20)
        connection.putrequest("POST", "/echo")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        connection.send(body)
        response = connection.getresponse()
        assert response.status == 413
        assert json.loads(response.read()) == {"Error": f"body must be at most {16 << 20} bytes, got {len(body)}"}
        connection.close()


def test_a_client_may_ask_before_it_sends() -> None:
    with serving(_server()) as server, socket.create_connection(("127.0.0.1", server.server_port), 30) as client:
        client.sendall(b"POST /echo HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")
        client.sendall(b"{}")
        assert _until_closed(client).endswith(b"\r\n\r\n{}")


def test_an_error_of_ours_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    with serving(_server()) as server:
        connection = connect(server)
        with caplog.at_level(logging.ERROR):
            assert ask(connection, "/fail", {}) == (500, {"Error": "internal error"})
        assert "a secret of the inside" in caplog.text
        assert ask(connection, "/echo", 1) == (200, 1)
        connection.close()
    assert server.counts == {("fail", "failed"): 1, ("echo", "ok"): 1}


@pytest.mark.parametrize("content", [b"", b"POST /echo HT", b"POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"])
def test_slow_clients_are_cut_off(content: bytes) -> None:
    with serving(_server(SMALL)) as server:
        assert _raw(server, content) == b""
        connection = connect(server)
        assert ask(connection, "/echo", 1) == (200, 1)
        connection.close()


def test_a_client_that_drips_is_cut_off_though_it_never_pauses() -> None:
    with serving(_server(SMALL)) as server, socket.create_connection(("127.0.0.1", server.server_port), 30) as client:
        client.sendall(b"POST /echo HTTP/1.1\r\nContent-Length: 900\r\n\r\n")
        client.settimeout(0.02)
        for _ in range(800):
            try:
                client.send(b" ")
                assert client.recv(100) == b""
            except TimeoutError:
                continue
            except OSError:
                pass
            break
        else:
            pytest.fail("the connection must be cut off")


def test_the_servers_own_work_is_not_the_clients_time() -> None:
    is_swept = threading.Event()

    class Sweeping(JsonServer):
        n_sweeps = 0

        def service_actions(self) -> None:
            super().service_actions()
            self.n_sweeps += 1
            if self.n_sweeps * 0.01 > 2 * SMALL.request_s:
                is_swept.set()

    def wait(document: Any) -> tuple[int, Any]:
        assert is_swept.wait(30)
        return 200, document

    with serving(Sweeping("127.0.0.1", 0, {"/wait": wait}, {}, SMALL)) as server:
        connection = connect(server)
        assert ask(connection, "/wait", "late") == (200, "late")
        connection.close()


def test_connections_are_bounded() -> None:
    with serving(_server(Limits(n_connections=2))) as server:
        first, second = connect(server), connect(server)
        assert [ask(each, "/echo", 1)[0] for each in (first, second)] == [200, 200]
        assert _raw(server, b"").startswith(b"HTTP/1.1 503 ")
        first.close()
        second.close()
    assert server.counts["connection", "refused"] == 1


def test_stopping_answers_what_is_under_way() -> None:
    is_begun, is_free = threading.Event(), threading.Event()

    def wait(document: Any) -> tuple[int, Any]:
        is_begun.set()
        assert is_free.wait(30)
        return 200, document

    server = _server(wait=wait)
    serve = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serve.start()
    busy, idle = connect(server), connect(server)
    assert ask(idle, "/echo", 1) == (200, 1)
    found: list[tuple[int, Any]] = []
    asking = threading.Thread(target=lambda: found.append(ask(busy, "/wait", "late")))
    asking.start()
    assert is_begun.wait(30)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    serve.join(30)  # takes no connections any more, while one is under way
    assert not serve.is_alive()
    assert stopping.is_alive()
    is_free.set()
    for thread in (asking, stopping):
        thread.join(30)
    assert found == [(200, "late")]
    assert not stopping.is_alive()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.server_port), timeout=5)
    busy.close()
    idle.close()


@pytest.mark.parametrize("name", ["body_bytes", "n_connections", "request_s", "idle_s"])
def test_limits_are_above_zero(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be above 0, got 0"):
        Limits(**{name: 0})
