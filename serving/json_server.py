"""JSON over HTTP/1.1 with the standard library: bounded in body, connections and time, and stopped without loss."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import socket
import socketserver
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_log = logging.getLogger(__name__)
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_DIGITS_MAX = 15
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may take. body_bytes: of one request. n_connections: at once; a further one is answered 503.

    request_s: to send a whole request, and again to take its answer. idle_s: between requests; Go's HTTP client, and
    so kube-scheduler, drops an idle connection after 90 s, and the server must not be the first.
    """

    body_bytes: int = 16 << 20
    n_connections: int = 32
    request_s: float = 10.0
    idle_s: float = 120.0

    def __post_init__(self) -> None:
        for name in ("body_bytes", "n_connections", "request_s", "idle_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)!r}")


class JsonServer(ThreadingHTTPServer):
    """Answers POST with `posts[path](document)` -> (status, document) and GET with `gets[path]()` -> (type, text).

    Posted documents are parsed and worked on one at a time: Python would take turns between threads anyway, and so
    the functions need no locks and one parsed document is in memory at most. A ValueError from them is the client's
    fault (400), any other exception ours (500, its traceback in the log alone).
    """

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, posts: Mapping[str, Callable[[Any], tuple[int, Any]]],
                 gets: Mapping[str, Callable[[], tuple[str, str]]], limits: Limits | None = None) -> None:
        self.posts = posts
        self.gets = gets
        self.limits = Limits() if limits is None else limits
        self._work = threading.Lock()
        self._watch = threading.Condition()
        self._connections: dict[socket.socket, tuple[float, bool]] = {}  # the client's time, and whether it is idle
        self._is_stopping = False
        self.counts: Counter[tuple[str, str]] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without looking the host's name up in the DNS, which may take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and answer to a posted body."""
        started_s = time.perf_counter()
        with self._work:
            try:
                status, answer = self.posts[path](_parsed(body))
                text = _text(answer)
            except ValueError as error:
                status, answer = HTTPStatus.BAD_REQUEST, {"Error": str(error)}
                text = _text(answer)
            except Exception:  # one bad request must not end the service, nor tell the client about its inside
                _log.exception("%s failed", path)
                status, answer = HTTPStatus.INTERNAL_SERVER_ERROR, {"Error": "internal error"}
                text = _text(answer)
            is_refused = status >= 400 or (isinstance(answer, dict) and bool(answer.get("Error")))
            self.count(path[1:], "failed" if status >= 500 else "refused" if is_refused else "ok")
            self.seconds[path[1:]] += time.perf_counter() - started_s
        return status, text

    def count(self, verb: str, outcome: str) -> None:
        """Count a request: ok, refused (the client's fault) or failed (ours)."""
        with self._watch:
            self.counts[verb, outcome] += 1

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a new connection to a thread of its own, or turn it away."""
        with self._watch:
            is_full = self._is_stopping or len(self._connections) >= self.limits.n_connections
            if not is_full:
                self._connections[request] = time.monotonic() + self.limits.idle_s, True
        if is_full:
            self.count("connection", "refused")
            with contextlib.suppress(OSError):
                request.send(_FULL)
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and forget it."""
        super().shutdown_request(request)
        with self._watch:
            self._connections.pop(request, None)
            self._watch.notify_all()

    def expect(self, connection: socket.socket, within_s: float, *, is_idle: bool = False) -> bool:
        """Restart a client's clock; False where the connection should end because the server does."""
        with self._watch:
            self._connections[connection] = time.monotonic() + within_s, is_idle
            return not (self._is_stopping and is_idle)

    @property
    def is_stopping(self) -> bool:
        """True once `stop` was called."""
        return self._is_stopping

    def service_actions(self) -> None:
        """Cut connections that have used up their time; the serving loop calls this about twice a second."""
        now_s = time.monotonic()
        with self._watch:
            overdue = [connection for connection, (until_s, _) in self._connections.items() if until_s < now_s]
        _cut(overdue, socket.SHUT_RDWR)

    def stop(self) -> None:
        """Answer the requests under way, and no others; returns when all threads have ended."""
        with self._watch:
            self._is_stopping = True
            idle = [connection for connection, (_, is_idle) in self._connections.items() if is_idle]
        _cut(idle, socket.SHUT_RD)  # a request that has just arrived is still read and answered
        self.shutdown()
        with self._watch:
            self._watch.wait_for(lambda: not self._connections, self.limits.request_s)
            left = list(self._connections)
        _cut(left, socket.SHUT_RDWR)
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke off; nothing to tell anybody."""
        _log.debug("connection broke off", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "sojourn"
    sys_version = ""
    wbufsize = _CHUNK
    disable_nagle_algorithm = True
    server: JsonServer

    def handle_one_request(self) -> None:
        is_wanted = self.server.expect(self.connection, self.server.limits.idle_s, is_idle=True)
        if not (is_wanted and self.rfile.peek(1)):  # type: ignore[attr-defined]
            self.close_connection = True
            return
        self.server.expect(self.connection, self.server.limits.request_s)
        super().handle_one_request()

    def handle_expect_100(self) -> bool:
        is_going_on = super().handle_expect_100()
        self.wfile.flush()
        return is_going_on

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path not in self.server.gets:
            self._refuse_path(path)
            return
        content_type, text = self.server.gets[path]()
        self.server.count(path[1:], "ok")
        self._answer(HTTPStatus.OK, text.encode(), content_type)

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        if path not in self.server.posts:
            self._refuse_path(path)
            return
        length = self.headers.get("Content-Length", "")
        limit = self.server.limits.body_bytes
        if "Transfer-Encoding" in self.headers or not length:
            self.send_error(HTTPStatus.LENGTH_REQUIRED, f"Content-Length must be given, got {length!r}")
        elif not (length.isascii() and length.isdecimal() and len(length) <= _DIGITS_MAX):
            self.send_error(HTTPStatus.BAD_REQUEST, "Content-Length must be a whole number")
        elif int(length) > limit:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"body must be at most {limit} bytes, got {length}")
        else:
            body = self.rfile.read(int(length))
            if len(body) < int(length):
                self.close_connection = True
                return
            self.server.expect(self.connection, math.inf)  # from here on the time is ours
            status, answer = self.server.post(path, body)
            self.server.expect(self.connection, self.server.limits.request_s)
            self._answer(status, answer)

    def _refuse_path(self, path: str) -> None:
        known = [*self.server.posts, *self.server.gets]
        if path in known:
            allowed = "POST" if path in self.server.posts else "GET"
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} must be asked with {allowed}")
        else:
            self.send_error(HTTPStatus.NOT_FOUND, f"path must be one of {', '.join(known)}")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with an error as JSON and close, since the request's body may not have been read."""
        self.close_connection = True
        self.server.count("other", "refused")
        self._answer(code, json.dumps({"Error": message or HTTPStatus(code).phrase}).encode())
        self.wfile.flush()
        with contextlib.suppress(OSError):  # closing with unread bytes would reset, and the client not see the answer
            self.connection.shutdown(socket.SHUT_WR)
            while self.rfile.read1(_CHUNK):
                pass

    def _answer(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        self.close_connection |= self.server.is_stopping
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what happened is counted."""


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"body must be JSON, got {str(error) or type(error).__name__}") from error


def _text(document: Any) -> bytes:
    """JSON; ValueError for an infinite number, which a document may have brought as 1e999."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"the number {name}")


def _cut(connections: list[socket.socket], how: int) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.shutdown(how)
