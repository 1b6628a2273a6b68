"""Slow, silent and too many clients: staged with real sockets on the loopback interface and a clock that is set."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from made_extender import ask, connect, serving
from sojourn.serving.extender.http import JsonServer, Limits

HEAD = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n"


class Ticks:
    """Seconds that stand still until they are set."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@contextmanager
def staged(limits: Limits, resting: threading.Semaphore | None = None
           ) -> Iterator[tuple[JsonServer, Ticks, threading.Semaphore]]:
    """A server on a clock of its own; the semaphore is released once for each request whose first byte it saw.

    resting: released each time that a connection begins to wait for a request.
    """
    ticks, seen = Ticks(), threading.Semaphore(0)
    server = JsonServer("127.0.0.1", 0, {"/echo": lambda document: (200, document)},
                        {"/healthz": lambda: (200, "text/plain", '"text"')}, limits, clock=ticks)
    really = server.connections.ask

    def spied(connection: socket.socket) -> None:
        really(connection)
        seen.release()

    server.connections.ask = spied  # type: ignore[method-assign]
    if resting is not None:
        wait = server.connections.wait

        def rested(connection: socket.socket) -> bool:
            found = wait(connection)
            resting.release()
            return found

        server.connections.wait = rested  # type: ignore[method-assign]
    with serving(server):
        yield server, ticks, seen


def _client(server: JsonServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=30)


def _until_closed(client: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionResetError):  # it was cut with bytes of ours unread
        while chunk := client.recv(65_536):
            found += chunk
    return found


def _status(server: JsonServer, path: str = "/healthz", document: Any = None) -> int:
    connection = connect(server)
    try:
        return ask(connection, path, document)[0]
    finally:
        connection.close()


def test_silent_connections_make_room_for_others() -> None:
    limits = Limits(n_connections=32)
    with staged(limits) as (server, _, _), ExitStack() as stack:
        silent = [stack.enter_context(_client(server)) for _ in range(limits.n_connections)]
        assert _status(server) == 200  # with `Connection: close` or not, it takes a place of theirs
        assert _status(server, "/echo", 1) == 200
        assert _until_closed(silent[0]) == b""  # the first of them was dropped
        silent[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert _until_closed(silent[-1]).startswith(b"HTTP/1.1 200 ")


def test_those_that_asked_before_are_dropped_after_those_that_never_did() -> None:
    with staged(Limits(n_connections=2)) as (server, _, _), ExitStack() as stack:
        kept = connect(server)
        stack.callback(kept.close)
        assert ask(kept, "/echo", 1) == (200, 1)
        silent = stack.enter_context(_client(server))
        newer = connect(server)
        stack.callback(newer.close)
        assert ask(newer, "/echo", 2) == (200, 2)
        assert _until_closed(silent) == b""
        assert ask(kept, "/echo", 3) == (200, 3)  # on the connection that it had


def test_probes_are_answered_while_every_place_is_taken_by_requests_under_way() -> None:
    limits = Limits(n_connections=4, n_reserved=2)
    with staged(limits) as (server, _, seen), ExitStack() as stack:
        for _ in range(limits.n_connections):
            stack.enter_context(_client(server)).sendall(b"P")
            seen.acquire()
        assert _status(server) == 200
        assert _status(server, "/echo", 1) == 503
        assert server.counts["connection", "refused"] == 1
        # nor do those who fill that room keep probes out
        for _ in range(limits.n_reserved):
            stack.enter_context(_client(server)).sendall(b"P")
            seen.acquire()
        assert _status(server) == 200


def test_a_place_among_the_reserved_is_for_one_request_and_two_seconds() -> None:
    with staged(Limits(n_connections=1)) as (server, ticks, seen), _client(server) as slow, ExitStack() as stack:
        slow.sendall(b"P")
        seen.acquire()
        probe = stack.enter_context(_client(server))
        probe.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        top = _until_closed(probe)
        assert top.startswith(b"HTTP/1.1 200 ")
        assert b"\r\nConnection: close\r\n" in top
        late = stack.enter_context(_client(server))
        late.sendall(b"G")
        for _ in range(2):  # the probe's, and this one's
            seen.acquire()
        ticks.now_s += 2.5
        assert _until_closed(late) == b""


@pytest.mark.parametrize("content", [b"P", b"POST /echo HTTP/1.1\r\nHost: x", HEAD + b"\r\n{"])
def test_a_request_that_stops_midway_is_cut_off(content: bytes) -> None:
    with staged(Limits()) as (server, ticks, seen), _client(server) as client:
        client.sendall(content)
        seen.acquire()
        ticks.now_s += 10.5
        assert _until_closed(client) == b""
        assert _status(server) == 200


@pytest.mark.parametrize("head", [b"GET /healthz HTTP/1.1\r\nA: ", HEAD + b"\r\n"])
def test_one_that_drips_is_cut_off_though_it_never_pauses(head: bytes) -> None:
    with staged(Limits()) as (server, ticks, seen), _client(server) as client:
        client.sendall(head)
        seen.acquire()
        for _ in range(11):
            with contextlib.suppress(OSError):
                client.sendall(b"x")
            ticks.now_s += 1.0
        assert _until_closed(client) == b""


def test_an_idle_connection_is_cut_after_its_time() -> None:
    resting = threading.Semaphore(0)
    with staged(Limits(), resting) as (server, ticks, _), _client(server) as silent:
        kept = connect(server)
        assert ask(kept, "/echo", 1) == (200, 1)
        for _ in range(3):  # both at their beginning, and the one that was answered
            resting.acquire()
        ticks.now_s += 119.0
        assert ask(kept, "/echo", 2) == (200, 2)
        resting.acquire()
        ticks.now_s += 2.0
        assert _until_closed(silent) == b""
        assert ask(kept, "/echo", 3) == (200, 3)
        kept.close()


def test_the_servers_own_work_is_not_the_clients_time() -> None:
    ticks = Ticks()
    is_swept = threading.Event()

    class Sweeping(JsonServer):
        def service_actions(self) -> None:
            super().service_actions()
            if ticks.now_s:
                is_swept.set()

    def wait(document: Any) -> tuple[int, Any]:
        ticks.now_s += 100.0
        assert is_swept.wait(30)
        return 200, document

    with serving(Sweeping("127.0.0.1", 0, {"/wait": wait}, {}, clock=ticks)) as server:
        assert _status(server, "/wait", "late") == 200


def test_one_that_does_not_take_its_answer_is_cut_off() -> None:
    document = b"[" + b"1," * 4_000_000 + b"1]"
    with staged(Limits()) as (server, ticks, seen), _client(server) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.sendall(HEAD.replace(b"900", str(len(document)).encode()) + b"\r\n" + document)
        seen.acquire()
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        ticks.now_s += 10.5
        server.connections.wait_until_gone(30.0)
        assert server.connections.n_now() == 0


@pytest.mark.parametrize("name", ["body_bytes", "n_bodies", "n_connections", "request_s", "idle_s", "n_reserved",
                                  "reserved_s"])  # fmt: skip
def test_limits_are_above_zero(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be above 0, got 0"):
        Limits(**{name: 0})


def test_bytes_of_all_requests_and_answers_together_are_bounded() -> None:
    """Two that send half a body hold it whole; a third finds no room, until one of them is gone."""
    with staged(Limits(body_bytes=1_000, n_bodies=2)) as (server, _, _), ExitStack() as stack:
        slow = [stack.enter_context(_client(server)) for _ in range(2)]
        for client in slow:
            client.sendall(HEAD + b"Expect: 100-continue\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 100 ")  # so its bytes are held
        third = connect(server)
        stack.callback(third.close)
        status, answer = ask(third, "/echo", "a" * 400)
        assert (status, answer["Error"]) == (
            503, "requests and answers under way must be at most 2000 bytes together, got 402 more")
        assert server.counts["connection", "refused"] == 1
        assert _status(server) == 200  # a probe holds nothing
        assert _status(server, "/echo", "a" * 100) == 200  # 900 + 900 + 102: there is room for this one
        slow[0].sendall(b" " * 899 + b"1")
        assert slow[0].recv(1_000).startswith(b"HTTP/1.1 200 ")  # it holds an answer of one byte, or nothing more
        assert _status(server, "/echo", "a" * 400) == 200


def test_an_answer_without_room_is_refused() -> None:
    limits = Limits(body_bytes=100, n_bodies=1)
    posts = {"/blow": lambda document: (200, "a" * document)}
    with serving(JsonServer("127.0.0.1", 0, posts, {}, limits)) as server:
        connection = connect(server)
        assert ask(connection, "/blow", 98) == (200, "a" * 98)
        assert ask(connection, "/blow", 99)[0] == 503  # two quotes more
        assert ask(connection, "/blow", 98)[0] == 200
        connection.close()
