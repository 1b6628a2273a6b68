"""What requests the server takes, and how it stops; what clients do to its connections: test_connections.py."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from typing import Any

import pytest

from made_extender import ask, connect, serving
from sojourn.serving.http import JsonServer, Limits, Turns


def _echo(document: Any) -> tuple[int, Any]:
    return 200, document


def _fail(document: Any) -> tuple[int, Any]:
    raise KeyError("a secret of the inside")


def _break() -> tuple[int, str, str]:
    raise KeyError("a secret of the inside")


def _server(limits: Limits | None = None, **posts: Any) -> JsonServer:
    named = {f"/{name}": post for name, post in posts.items()}
    return JsonServer("127.0.0.1", 0, {"/echo": _echo, "/fail": _fail, **named},
                      {"/text": lambda: (200, "text/plain", '"text"'), "/broken": _break}, limits)


def _raw(server: JsonServer, content: bytes) -> bytes:
    """All that comes back for these bytes, until the server closes."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as client:
        client.sendall(content)
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


JSON_HEAD = "Content-Type: application/json|"
REFUSED = [
    ("GET /none", "", 404), ("POST /none", "Content-Length: 0", 404), ("GET /echo", "", 405),
    ("POST /text", "Content-Length: 0", 405), ("PUT /echo", "Content-Length: 0", 405), ("HEAD /echo", "", 405),
    ("GET http://localhost/none", "", 404), ("GET /text/", "", 404),
    ("POST /echo", JSON_HEAD, 411), ("GET /text", "Transfer-Encoding: chunked", 411),
    ("POST /echo", JSON_HEAD + "Transfer-Encoding: chunked", 411), ("GET /text", "Content-Length: 1001", 413),
    ("POST /echo", JSON_HEAD + "Content-Length: 1001", 413),
    ("POST /echo", "Content-Length: 0", 415), ("POST /echo", "Content-Type: text/plain|Content-Length: 0", 415),
    ("POST /echo", "Content-Type: application/jsonp|Content-Length: 0", 415),
    ("POST /echo", JSON_HEAD + JSON_HEAD + "Content-Length: 0", 415),
]
NO_HTTP = [
    b"nonsense", b"a b c d", b"GET /text HTTP/x", b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost",
    b"\x16\x03\x01\x02\x00\x01\x00", b"GET /x HTTP/11",
    *(b"GET /text HTTP/1.1\r\nHost: localhost\r\n" + line for line in (
        b"Content-Length : 5", b"no colon", b": empty", b"A: b\rContent-Length: 5", b"A: \x00", b"Host: localhost",
        b"Content-Length: 2\r\nContent-Length: 3",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked", b"Content-Length: -1", b"Content-Length: 1e3",
        b"Content-Length: ")),
    b"GET /text HTTP/1.1",
]
HOSTS = {"localhost:80": 200, "LOCALHOST": 200, "127.0.0.1": 200, "[::1]:8899": 200, "10.1.2.3": 200,
         "Scheduler.example.:8899": 200, "": 400, "a b": 400, "x@localhost": 400, "localhost:": 400, "[evil]": 400,
         "evil.example": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "2130706433": 421}


def test_what_is_refused() -> None:
    with serving(_server(Limits(body_bytes=1_000))) as server:
        for request_line, headers, status in REFUSED:
            lines = [f"{request_line} HTTP/1.1", "Host: localhost", "Connection: close", *headers.split("|")]
            found = _raw(server, "\r\n".join(line for line in lines if line).encode() + b"\r\n\r\n")
            top, _, body = found.partition(b"\r\n\r\n")
            assert top.startswith(f"HTTP/1.1 {status} ".encode()), (request_line, headers, top)
            assert not body if request_line.startswith("HEAD") else list(json.loads(body)) == ["Error"]
        assert server.counts == {("other", "refused"): len(REFUSED)}


def test_what_is_not_http_is_answered_in_http_and_closed() -> None:
    with serving(_server()) as server:
        for content in NO_HTTP:
            assert _raw(server, content + b"\r\n\r\n").startswith(b"HTTP/1.1 400 "), content[:80]
        assert server.counts == {("other", "refused"): len(NO_HTTP)}
        for version, status in {"0.9": 505, "1.2": 400, "2.0": 505, "9.9": 400}.items():
            found = _raw(server, f"GET /text HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            assert found.startswith(b"HTTP/1.1 %d " % status), version
        assert _raw(server, b"GET /echo\r\n\r\n").startswith(b"HTTP/1.1 505 ")
        assert _raw(server, b"GET /text HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_only_our_own_names_are_answered() -> None:
    server = JsonServer("127.0.0.1", 0, {}, {"/text": lambda: (200, "text/plain", '"text"')},
                        host_names=["Scheduler.example"])
    with serving(server):
        for host, status in HOSTS.items():
            found = _raw(server, f"GET /text HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            assert found.startswith(f"HTTP/1.1 {status} ".encode()), host


def test_the_body_of_a_get_is_not_taken_for_a_request() -> None:
    hidden = b"POST /fail HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    with serving(_server()) as server, socket.create_connection(("127.0.0.1", server.server_port), 30) as client:
        client.sendall(b"GET /text HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(hidden) + hidden
                       + b"GET /text HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        found = _until_closed(client)
    assert found.count(b"HTTP/1.1 200 OK\r\n") == found.count(b"HTTP/1.1 ") == 2
    assert server.counts == {("text", "ok"): 2}


def test_requests_that_come_together_are_answered_in_turn() -> None:
    one = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1\r\n"
    with serving(_server()) as server:
        found = _raw(server, b"".join(one + b"\r\n%d" % number for number in range(9))
                     + one + b"Connection: close\r\n\r\n9")
    assert [part[-1:] for part in found.split(b"HTTP/1.1 200 OK\r\n")[1:]] == [b"%d" % number for number in range(10)]


def _quick(document: Any) -> tuple[int, bytes] | None:
    """Null is left to the usual way; 0 is an error of ours."""
    return None if document is None else (200, b"q%d" % (6 // document))


async def _usual(document: Any) -> tuple[int, bytes]:
    return 200, b"usual"


@pytest.fixture
def quick_server() -> JsonServer:
    limits = Limits(body_bytes=5_000, request_s=2.0)
    return JsonServer("127.0.0.1", 0, {"/quick": _usual, "/echo": _echo}, {}, limits, token="t",
                      quick={"/quick": _quick})


QUICK_HEAD = b"POST /quick HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer t\r\n"
QUICK_WAYS = [
    (b"Content-Length: 1\r\n\r\n3", 200, b"q2"), (b"Content-Length: 4\r\n\r\nnull", 200, b"usual"),
    (b"Content-Length: 1\r\nExpect: 100-continue\r\n\r\n3", 200, b"usual"),
    (b"Content-Length: 5000\r\n\r\n" + b" " * 4_999 + b"3", 200, b"usual"),
    (b"Content-Length: 1\r\n\r\n0", 500, b'{"Error":"internal error"}'), (b"Content-Length: 1\r\n\r\n{", 400, b""),
    (b"Content-Length: 3\r\n\r\nNaN", 400, b""), (b"Content-Length: 5001\r\n\r\n", 413, b""), (b"\r\n", 411, b""),
    (b"Transfer-Encoding: chunked\r\n\r\n1\r\n3\r\n0\r\n\r\n", 411, b""),
    (b"Content-Type: text/plain\r\nContent-Length: 1\r\n\r\n3", 415, b""),
]  # fmt: skip


def test_a_quick_answer_is_checked_as_any_other(quick_server: JsonServer, caplog: pytest.LogCaptureFixture) -> None:
    last = QUICK_HEAD + b"Content-Length: 1\r\nConnection: close\r\n\r\n3"
    with serving(quick_server) as server:
        for rest, status, body in QUICK_WAYS:
            found = _raw(server, QUICK_HEAD + rest + last).replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
            head, _, answer = found.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 %d " % status), (rest[:60], head)
            assert b"\r\ndate: " in head and b"\r\ncontent-type: application/json" in head
            assert answer.startswith(body), (rest[:60], answer)
        for right, wrong, status in ((b"Bearer t", b"Bearer u", 401), (b"localhost", b"evil.example", 421),
                                     (b"POST", b"GET", 405), (b"/quick", b"/quack", 404), (b"1.1", b"2.0", 505)):
            found = _raw(server, QUICK_HEAD.replace(right, wrong) + b"Content-Length: 1\r\nConnection: close\r\n\r\n3")
            assert found.startswith(b"HTTP/1.1 %d " % status), wrong
        old = QUICK_HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Content-Length: 1\r\n\r\n3"
        assert _raw(server, old).endswith(b"\r\n\r\nusual")  # and closed
    assert caplog.text.count("ZeroDivisionError") == 1
    assert server.counts["quick", "failed"] == 1


def test_quick_answers_keep_their_places_among_others(quick_server: JsonServer) -> None:
    quick = QUICK_HEAD + b"Content-Length: 1\r\n\r\n"
    slow = QUICK_HEAD.replace(b"/quick", b"/echo") + b"Content-Length: 1\r\n\r\n"
    content = quick + b"1" + quick + b"2" + slow + b"7" + quick + b"3" + slow + b"8" + quick + b"6"
    with serving(quick_server) as server:
        for size in (1, 50, len(content)):
            with socket.create_connection(("127.0.0.1", server.server_port), 30) as client:
                for start in range(0, len(content), size):
                    client.sendall(content[start:start + size])
                client.shutdown(socket.SHUT_WR)
                found = _until_closed(client)
            bodies = [part.partition(b"\r\n\r\n")[2] for part in found.split(b"HTTP/1.1 200 OK\r\n")[1:]]
            wanted = [b"q6", b"q3", b"7", b"q2", b"8", b"q1"]  # one that waits behind another goes the usual way
            assert len(bodies) == 6 and bodies[0] == b"q6", bodies
            assert all(body in (each, b"usual") for body, each in zip(bodies, wanted, strict=True)), bodies


def test_what_is_not_http_waits_for_the_answer_before_it() -> None:
    one = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n7"
    with serving(_server()) as server:
        found = _raw(server, one + b"no http\r\n\r\n")
    assert found.count(b"HTTP/1.1 ") == 1 and found.endswith(b"\r\n\r\n7")


def test_a_head_that_comes_in_pieces_is_bounded() -> None:
    with serving(_server()) as server, socket.create_connection(("127.0.0.1", server.server_port), 30) as client:
        client.sendall(b"GET /text HTTP/1.1\r\n")
        with contextlib.suppress(OSError):  # it is closed before all is sent
            for number in range(2_000):
                client.sendall(b"A%d: %s\r\n" % (number, b"a" * 1_000))
        with contextlib.suppress(ConnectionResetError):
            assert _until_closed(client).startswith(b"HTTP/1.1 400 ")
        assert server.counts["other", "refused"] >= 1 and server.counts["text", "ok"] == 0


def test_a_request_for_another_protocol_is_answered_and_closed() -> None:
    with serving(_server()) as server:
        found = _raw(server, b"GET /text HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
                             b"GET /text HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert found.count(b"HTTP/1.1 200 OK\r\n") == found.count(b"HTTP/1.1 ") == 1


def test_a_long_report_lets_questions_go_first_and_no_other_report() -> None:
    turns, has_begun, is_asked = Turns(), threading.Event(), threading.Event()
    order: list[str] = []

    def report(name: str) -> tuple[int, Any]:
        order.append(name)
        has_begun.set()
        while not is_asked.is_set():
            turns.pass_on()
        order.append(name)
        return 200, {}

    def question(document: Any) -> tuple[int, Any]:
        is_asked.set()
        return 200, {}

    server = JsonServer("127.0.0.1", 0, {"/one": report, "/other": report, "/question": question}, {}, turns=turns,
                        reports=("/one", "/other"))
    threads = [threading.Thread(target=server.post, args=(f"/{name}", json.dumps(name).encode()))
               for name in ("one", "other")]
    for thread in threads:
        thread.start()
    has_begun.wait(30)
    assert server.post("/question", b"{}") == (200, b"{}")
    for thread in threads:
        thread.join()
    server.server_close()
    assert order in (["one", "one", "other", "other"], ["other", "other", "one", "one"])


def test_a_head_is_a_get_without_its_body() -> None:
    with serving(_server()) as server:
        found = _raw(server, b"HEAD /text HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\ncontent-length: 6\r\n" in found.lower()
    assert found.endswith(b"\r\n\r\n")


def test_a_client_that_sends_on_still_sees_why_it_was_refused() -> None:
    with serving(_server()) as server:
        connection = connect(server)
        body = b"x" * (17 << 20)
        connection.putrequest("POST", "/echo")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        connection.send(body)
        response = connection.getresponse()
        assert response.status == 413
        assert json.loads(response.read()) == {"Error": f"body must be at most {16 << 20} bytes, got {len(body)}"}
        connection.close()


def test_a_client_may_ask_before_it_sends() -> None:
    with serving(_server()) as server, socket.create_connection(("127.0.0.1", server.server_port), 30) as client:
        client.sendall(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")
        client.sendall(b"{}")
        assert _until_closed(client).endswith(b"\r\n\r\n{}")


def test_a_refusal_of_what_was_to_follow_closes() -> None:
    with serving(_server()) as server, socket.create_connection(("127.0.0.1", server.server_port), 30) as client:
        client.sendall(b"POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        found = _until_closed(client)
    assert found.startswith(b"HTTP/1.1 404 ") and b"\r\nconnection: close\r\n" in found.lower()


def test_an_error_of_ours_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    with serving(_server()) as server:
        connection = connect(server)
        with caplog.at_level(logging.ERROR):
            assert ask(connection, "/fail", {}) == (500, {"Error": "internal error"})
            assert ask(connection, "/broken") == (500, {"Error": "internal error"})
        assert caplog.text.count("KeyError: 'a secret of the inside'") == 2
        connection.close()
        assert ask(connection, "/echo", 1) == (200, 1)
        connection.close()
    assert server.counts == {("fail", "failed"): 1, ("echo", "ok"): 1, ("broken", "failed"): 1}


def test_stopping_answers_what_is_under_way() -> None:
    is_begun, is_free = threading.Event(), threading.Event()

    def wait(document: Any) -> tuple[int, Any]:
        is_begun.set()
        assert is_free.wait(30)
        return 200, document

    server = _server(wait=wait)
    serve = threading.Thread(target=server.serve_forever)
    serve.start()
    busy, idle = connect(server), connect(server)
    assert ask(idle, "/echo", 1) == (200, 1)
    found: list[tuple[int, Any]] = []
    asking = threading.Thread(target=lambda: found.append(ask(busy, "/wait", "late")))
    asking.start()
    assert is_begun.wait(30)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    idle.sock.settimeout(30)
    assert idle.sock.recv(1) == b""  # the idle one is closed, while one is under way
    assert stopping.is_alive()
    is_free.set()
    for thread in (asking, stopping, serve):
        thread.join(30)
    assert found == [(200, "late")]
    assert not stopping.is_alive()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.server_port), timeout=5)
    busy.close()
    idle.close()
