"""JSON over HTTP/1.1 with the standard library: bounded in body, connections and time, and stopped without loss."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import socket
import socketserver
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sojourn.serving.extender.connections import Connections, Limits
from sojourn.serving.extender.request_head import (
    JSON_TYPE,
    LOOPBACK_NAMES,
    Refusal,
    body_length,
    check_host,
    check_is_json,
    check_request_line,
    read_header_lines,
)
from sojourn.serving.extender.turns import Turns

_log = logging.getLogger(__name__)
_CHUNK = 1 << 16
_COUNTED = (HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE)
"""Refusals that are counted where they are raised, under their own verb."""


class JsonServer(ThreadingHTTPServer):
    """Answers POST with `posts[path](document)` -> (status, document), GET with `gets[path]()` -> (status, type, text).

    Posted documents are parsed and worked on one at a time: Python would take turns between threads anyway, and so
    the functions need no locks and few parsed documents are in memory. A ValueError from them is the client's
    fault (400), any other exception ours (500, its traceback in the log alone). turns: whose turn it is to work; a
    function that takes long calls its `pass_on`. reports: paths of such functions, of which one at a time is called.

    host_names: names that a request's Host may give, besides `localhost`, `host` and any address.
    clock: seconds, never falling; it times the clients.
    """

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, posts: Mapping[str, Callable[[Any], tuple[int, Any]]],
                 gets: Mapping[str, Callable[[], tuple[int, str, str]]], limits: Limits | None = None,
                 host_names: Iterable[str] = (), clock: Callable[[], float] = time.monotonic,
                 turns: Turns | None = None, reports: Collection[str] = ()) -> None:
        self.posts = posts
        self.gets = gets
        self.limits = Limits() if limits is None else limits
        self.host_names = LOOPBACK_NAMES | {name.lower() for name in (host, *host_names)}
        self.connections = Connections(self.limits, clock)
        self._turns = Turns() if turns is None else turns
        self._reporting = dict.fromkeys(reports, threading.Lock())  # one lock for all of them
        self._counting = threading.Lock()
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
        with self._reporting.get(path, contextlib.nullcontext()), self._turns:
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
        """Count a request: ok, refused (the client's fault, or no room) or failed (ours)."""
        with self._counting:
            self.counts[verb, outcome] += 1

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a new connection to a thread of its own."""
        if self.connections.enter(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and forget it."""
        super().shutdown_request(request)
        self.connections.leave(request)

    def service_actions(self) -> None:
        """Cut connections that have used up their time; the serving loop calls this about twice a second."""
        self.connections.cut_overdue()

    def stop(self) -> None:
        """Answer the requests under way, and no others; returns when all threads have ended."""
        self.connections.stop()
        self.shutdown()
        self.connections.wait_until_gone(self.limits.request_s)
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke off; nothing to tell anybody."""
        _log.debug("connection broke off", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.1"  # so that an answer has a head, whatever was asked
    server_version = "sojourn"
    sys_version = ""
    wbufsize = _CHUNK
    disable_nagle_algorithm = True
    server: JsonServer
    raw_requestline: bytes
    _is_body_awaited = False

    def handle_one_request(self) -> None:
        connections = self.server.connections
        if not (connections.wait(self.connection) and self.rfile.peek(1)):  # type: ignore[attr-defined]
            self.close_connection = True
            return
        connections.ask(self.connection)
        self.command = ""
        try:
            super().handle_one_request()
        except Refusal as refusal:
            if refusal.status not in _COUNTED:
                self.server.count("other", "refused")
            self.send_error(refusal.status, str(refusal))

    def parse_request(self) -> bool:
        """Check the head byte by byte, then let the standard library parse it."""
        self.request_version, self.requestline, self.close_connection = "HTTP/1.1", "", True
        if not self.raw_requestline.endswith(b"\n"):
            return False  # the client ended within it
        check_request_line(self.raw_requestline)
        head = read_header_lines(self.rfile)
        if head is None:
            return False
        stream, self.rfile = self.rfile, io.BytesIO(head)
        try:
            is_parsed = super().parse_request()
        finally:
            self.rfile = stream
        if is_parsed:
            check_host(self.headers, self.request_version, self.server.host_names)
        return is_parsed

    def handle_expect_100(self) -> bool:
        """Let the client send its body, once it is known that it will be taken."""
        self._is_body_awaited = True
        return True

    def do_GET(self) -> None:
        path = self._path(self.server.gets)
        if self._body(body_length(self.headers) or 0) is None:  # left unread, it would be taken for a request
            return
        try:
            status, content_type, text = self.server.gets[path]()
        except Exception as error:
            _log.exception("%s failed", path)
            self.server.count(path[1:], "failed")
            raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error") from error
        self.server.count(path[1:], "ok" if status < HTTPStatus.BAD_REQUEST else "refused")
        self._answer(status, text.encode(), content_type)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        path = self._path(self.server.posts)
        length = body_length(self.headers)
        check_is_json(self.headers)
        if length is None:
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "Content-Length must be given")
        if self.server.connections.is_reserved(self.connection):
            self.server.count("connection", "refused")
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE,
                          f"connections must be at most {self.server.limits.n_connections} at once, got one more")
        body = self._body(length)
        if body is None:
            return
        self.server.connections.work(self.connection)
        status, answer = self.server.post(path, body)
        del body
        self._hold(len(answer))
        self._answer(status, answer)

    def _path(self, answered: Mapping[str, object]) -> str:
        """The path without its query; Refusal of one that is not of `answered`."""
        path = self.path.partition("?")[0]
        known = [*self.server.posts, *self.server.gets]
        if path not in known:
            raise Refusal(HTTPStatus.NOT_FOUND, f"path must be one of {', '.join(known)}")
        if path not in answered:
            allowed = "POST" if path in self.server.posts else "GET"
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} must be asked with {allowed}")
        return path

    def _body(self, length: int) -> bytes | None:
        """The request's body, read whole; None where the client ended before."""
        limit = self.server.limits.body_bytes
        if length > limit:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"body must be at most {limit} bytes, got {length}")
        self._hold(length)
        if self._is_body_awaited:
            self._is_body_awaited = False
            self.send_response_only(HTTPStatus.CONTINUE)
            self.end_headers()
            self.wfile.flush()
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
            return None
        return body

    def _hold(self, n_bytes: int) -> None:
        """Hold so many bytes of a request or an answer; Refusal if all connections together would hold too many."""
        if not self.server.connections.hold(self.connection, n_bytes):
            limits = self.server.limits
            self.server.count("connection", "refused")
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE,
                          f"requests and answers under way must be at most {limits.n_bodies * limits.body_bytes} bytes "
                          f"together, got {n_bytes} more")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with an error as JSON and close, since the request's body may not have been read."""
        self.close_connection = True
        self._answer(code, json.dumps({"Error": message or HTTPStatus(code).phrase}).encode())
        self.wfile.flush()
        with contextlib.suppress(OSError):  # closing with unread bytes would reset, and the client not see the answer
            self.connection.shutdown(socket.SHUT_WR)
            while self.connection.recv(_CHUNK):
                pass

    def _answer(self, status: int, body: bytes, content_type: str = JSON_TYPE) -> None:
        self.close_connection |= not self.server.connections.answer(self.connection)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
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
