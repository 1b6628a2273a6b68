"""Who is connected: bounded in number and time, idle ones dropped first, some room kept for probes."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may take. body_bytes: of one request. n_bodies: as much as so many of these are all requests and
    answers together, from before a body is read until its answer is sent. n_connections: at once.

    request_s: to send a whole request, and again to take its answer. idle_s: between requests; Go's HTTP client, and
    so kube-scheduler, drops an idle connection after 90 s, and the server must not be the first.
    n_reserved: further connections, for probes; each has reserved_s for its one request.
    """

    body_bytes: int = 16 << 20
    n_bodies: int = 8
    n_connections: int = 32
    request_s: float = 10.0
    idle_s: float = 120.0
    n_reserved: int = 4
    reserved_s: float = 2.0

    def __post_init__(self) -> None:
        for name in ("body_bytes", "n_bodies", "n_connections", "request_s", "idle_s", "n_reserved", "reserved_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)!r}")


@dataclass(slots=True)
class _Client:
    """A connection: by when it must have got on, and what it is about.

    is_idle: no byte of a request has come yet. has_asked: it sent a request before. is_reserved: it stands in the room
    for probes. is_leaving: it was told to go; it no longer counts. n_held: bytes of its request or answer.
    """

    until_s: float
    is_reserved: bool
    is_idle: bool = True
    has_asked: bool = False
    is_leaving: bool = False
    n_held: int = 0


class Connections:
    """All connections of a server, each with its time; for several threads.

    clock: seconds, never falling.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._changed = threading.Condition()
        self._clients: dict[socket.socket, _Client] = {}
        self._is_stopping = False

    @property
    def is_stopping(self) -> bool:
        """True once `stop` was called."""
        return self._is_stopping

    def n_now(self) -> int:
        """How many there are."""
        with self._changed:
            return len(self._clients)

    def enter(self, connection: socket.socket) -> bool:
        """Take in a new connection; False where the server is stopping.

        Where there is no room, an idle one is dropped: first those that never asked, then the one idle for longest.
        Where all have begun a request, the new one stands in the room for probes, from which the one that has been
        there longest is dropped.
        """
        limits = self._limits
        with self._changed:
            if self._is_stopping:
                return False
            staying = [(each, client) for each, client in self._clients.items() if not client.is_leaving]
            is_reserved = sum(not client.is_reserved for _, client in staying) >= limits.n_connections
            if is_reserved:
                idle = [(client.has_asked, client.until_s, idx) for idx, (each, client) in enumerate(staying)
                        if client.is_idle and not client.is_reserved and not _has_bytes(each)]
                if idle:
                    self._drop(*staying[min(idle)[-1]])
                    is_reserved = False
            if is_reserved:
                probes = [(each, client) for each, client in staying if client.is_reserved]
                if len(probes) >= limits.n_reserved:
                    self._drop(*min(probes, key=lambda pair: pair[1].until_s))
            within_s = limits.reserved_s if is_reserved else limits.idle_s
            self._clients[connection] = _Client(self._clock() + within_s, is_reserved)
        return True

    def leave(self, connection: socket.socket) -> None:
        """Forget a connection that was closed."""
        with self._changed:
            self._clients.pop(connection, None)
            self._changed.notify_all()

    def wait(self, connection: socket.socket) -> bool:
        """The client may take its time for the next request; False where the connection should end instead."""
        with self._changed:
            client = self._clients[connection]
            client.is_idle, client.n_held = True, 0
            if client.has_asked:
                client.until_s = self._clock() + self._limits.idle_s
            return not (self._is_stopping or client.is_leaving or (client.is_reserved and client.has_asked))

    def ask(self, connection: socket.socket) -> None:
        """The first byte of a request is here: the rest must follow in time."""
        with self._changed:
            client = self._clients[connection]
            client.is_idle, client.has_asked = False, True
            if not client.is_reserved:
                client.until_s = self._clock() + self._limits.request_s

    def is_reserved(self, connection: socket.socket) -> bool:
        """True where the connection stands in the room for probes."""
        with self._changed:
            return self._clients[connection].is_reserved

    def hold(self, connection: socket.socket, n_bytes: int) -> bool:
        """The connection holds so many bytes from now on, and none of what it held; False if there is no room."""
        with self._changed:
            client = self._clients[connection]
            n_others = sum(each.n_held for each in self._clients.values()) - client.n_held
            has_room = not n_bytes or n_others + n_bytes <= self._limits.body_bytes * self._limits.n_bodies
            client.n_held = n_bytes if has_room else 0
            return has_room

    def work(self, connection: socket.socket) -> None:
        """The request is whole: from here on the time is ours."""
        with self._changed:
            self._clients[connection].until_s = math.inf

    def answer(self, connection: socket.socket) -> bool:
        """The client must take the answer in time; False where it is the connection's last."""
        with self._changed:
            client = self._clients[connection]
            client.until_s = self._clock() + (
                self._limits.reserved_s if client.is_reserved else self._limits.request_s)
            return not (self._is_stopping or client.is_leaving or client.is_reserved)

    def cut_overdue(self) -> None:
        """Cut those that have used up their time."""
        now_s = self._clock()
        with self._changed:
            for connection, client in self._clients.items():
                if client.until_s < now_s:
                    client.is_leaving = True
                    _cut(connection, socket.SHUT_RDWR)

    def stop(self) -> None:
        """Take in no more; the idle ones end, after a request that has just arrived."""
        with self._changed:
            self._is_stopping = True
            for connection, client in self._clients.items():
                if client.is_idle:
                    _cut(connection, socket.SHUT_RD)

    def wait_until_gone(self, within_s: float) -> None:
        """Return when all have ended; those left after that time are cut."""
        with self._changed:
            self._changed.wait_for(lambda: not self._clients, within_s)
            for connection in self._clients:
                _cut(connection, socket.SHUT_RDWR)

    def _drop(self, connection: socket.socket, client: _Client) -> None:
        client.is_leaving = True
        # one that is idle is still answered where its request has arrived in this moment
        _cut(connection, socket.SHUT_RD if client.is_idle and not client.is_reserved else socket.SHUT_RDWR)


def _has_bytes(connection: socket.socket) -> bool:
    """True where bytes wait to be read."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:  # none yet, or broken
        return False


def _cut(connection: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(how)
