"""Slow, silent and too many clients: staged with real sockets on the loopback interface and a clock that is set."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from made_extender import ask, connect, serving
from sojourn.serving.http import JsonServer, Limits
from sojourn.serving.http.json_server import _Client, _Server

HEAD = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n"


class Ticks:
    """Seconds that stand still until they are set."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@contextmanager
def staged(limits: Limits, **posts: Callable[[Any], tuple[int, Any]]) -> Iterator[tuple[JsonServer, Ticks]]:
    """A server on a clock of its own."""
    ticks = Ticks()
    named = {f"/{name}": post for name, post in posts.items()}
    server = JsonServer("127.0.0.1", 0, {"/echo": lambda document: (200, document), **named},
                        {"/healthz": lambda: (200, "text/plain", '"text"')}, limits, clock=ticks,
                        quick={"/quick": lambda document: (200, document.encode())})
    with serving(server):
        yield server, ticks


def _reached(phase: str, n: int = 1) -> None:
    """Return once the server has seen so many connections in a phase, in one look at all; n = 0: none in any."""
    is_seen = threading.Event()
    look = _Server.on_tick

    async def spied(self: _Server, counter: int) -> bool:
        is_over = await look(self, counter)
        phases = [each._phase[0] for each in self.server_state.connections if isinstance(each, _Client)]
        if phases.count(phase) >= n > 0 or len(phases) == n == 0:
            is_seen.set()
        return is_over

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Server, "on_tick", spied)
        assert is_seen.wait(30)


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
    with staged(limits) as (server, _), ExitStack() as stack:
        silent = [stack.enter_context(_client(server)) for _ in range(limits.n_connections)]
        assert _status(server) == 200  # it takes a place of theirs
        assert _status(server, "/echo", 1) == 200
        assert _until_closed(silent[0]) == b""  # the first of them was dropped
        silent[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert _until_closed(silent[-1]).startswith(b"HTTP/1.1 200 ")


def test_those_that_asked_before_are_dropped_after_those_that_never_did() -> None:
    with staged(Limits(n_connections=2)) as (server, _), ExitStack() as stack:
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
    is_free = threading.Event()

    def wait(document: Any) -> tuple[int, Any]:
        assert is_free.wait(30)
        return 200, document

    limits = Limits(n_connections=4, n_reserved=2)
    with staged(limits, wait=wait) as (server, _), ExitStack() as stack:
        stack.callback(is_free.set)
        at_work = [stack.enter_context(_client(server)) for _ in range(limits.n_connections)]
        for client in at_work:
            client.sendall(HEAD.replace(b"/echo", b"/wait").replace(b"900", b"1") + b"Connection: close\r\n\r\n1")
        _reached("work", limits.n_connections)
        assert _status(server) == 200
        assert _status(server, "/echo", 1) == 503
        assert server.counts["connection", "refused"] == 1
        # nor do those who fill that room with requests that they do not end keep probes out
        for _ in range(limits.n_reserved):
            stack.enter_context(_client(server)).sendall(b"P")
        assert _status(server) == 200
        is_free.set()
        assert [_until_closed(client)[:13] for client in at_work] == [b"HTTP/1.1 200 "] * limits.n_connections


@pytest.mark.parametrize("content", [b"POST /e", HEAD + b"\r\n{", b"GET /healthz HTTP/1.1\r\nA: ", HEAD + b"\r\n"])
def test_a_request_that_stops_or_drips_is_cut_off(content: bytes) -> None:
    with staged(Limits()) as (server, ticks), _client(server) as client:
        client.sendall(content)
        _reached("ask")
        for _ in range(11):
            with contextlib.suppress(OSError):
                client.sendall(b"x")
            ticks.now_s += 1.0
        assert _until_closed(client) == b""
        assert _status(server) == 200


def test_an_idle_connection_is_cut_after_its_time() -> None:
    with staged(Limits()) as (server, ticks), _client(server) as silent:
        kept = connect(server)
        assert ask(kept, "/echo", 1) == (200, 1)
        _reached("idle", 2)
        ticks.now_s += 119.0
        assert ask(kept, "/echo", 2) == (200, 2)
        _reached("idle", 2)
        ticks.now_s += 2.0
        assert _until_closed(silent) == b""
        assert ask(kept, "/echo", 3) == (200, 3)
        kept.close()


def test_the_servers_own_work_is_not_the_clients_time() -> None:
    """Nor does it keep a probe waiting."""
    def wait(document: Any) -> tuple[int, Any]:
        ticks.now_s += 1_000.0
        _reached("work")
        ticks.now_s += 1_000.0
        _reached("work")
        assert _status(server) == 200
        return 200, document

    with staged(Limits(), wait=wait) as (server, ticks):
        assert _status(server, "/wait", "late") == 200


def test_one_that_does_not_take_its_answer_is_cut_off() -> None:
    document = b"[" + b"1," * 4_000_000 + b"1]"
    with staged(Limits()) as (server, ticks), _client(server) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.sendall(HEAD.replace(b"900", str(len(document)).encode()) + b"\r\n" + document)
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        _reached("answer")
        ticks.now_s += 10.5
        _reached("answer", 0)


def test_one_that_asks_on_without_taking_answers_is_read_no_further_and_cut_off() -> None:
    one = HEAD.replace(b"/echo", b"/quick") + b"\r\n" + b'"%b"' % (b"a" * 898)
    with staged(Limits()) as (server, ticks), socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)  # before it connects: a window cannot shrink
        client.settimeout(0.5)
        client.connect(("127.0.0.1", server.server_port))
        n_sent = 0
        with contextlib.suppress(TimeoutError):
            while n_sent < 64 << 20:
                n_sent += client.send(one * 50)
        assert n_sent < 64 << 20  # the kernel's buffers, and one of ours
        _reached("answer")
        buffered = [each.transport.get_write_buffer_size() for each in server._server.server_state.connections]
        assert 0 < max(buffered) < 2 << 20
        ticks.now_s += 10.5
        _reached("answer", 0)
        assert _status(server) == 200


@pytest.mark.parametrize("name", ["body_bytes", "n_bodies", "n_connections", "request_s", "idle_s", "n_reserved"])
def test_limits_are_above_zero(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be above 0, got 0"):
        Limits(**{name: 0})


def test_bytes_of_all_requests_and_answers_together_are_bounded() -> None:
    """Two that send half a body hold it whole; a third finds no room, until one of them is gone."""
    with staged(Limits(body_bytes=1_000, n_bodies=2)) as (server, _), ExitStack() as stack:
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
