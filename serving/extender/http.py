"""JSON over HTTP/1.1 with the standard library: bounded in body, connections and time, and stopped without loss.

Who is connected: bounded in number and time, idle ones dropped first, some room kept for probes.

The head of an HTTP request, taken strictly: two readers of it cannot see two requests (RFC 9112, section 11.2).

The standard library parses heads as e-mail: it takes a bare CR for a line's end, a line without a colon for the end of
the head, and the first of two lengths. So the bytes are held against the grammar before it sees them.
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import json
import logging
import math
import re
import socket
import socketserver
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any

from sojourn.serving.extender.calls import Turns


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


N_BYTES_MAX = 1 << 16
"""Of a request line, and of all header lines together."""
N_LINES_MAX = 100
LOOPBACK_NAMES = frozenset({"localhost"})
JSON_TYPE = "application/json"
_REQUEST_LINE = re.compile(rb"[!-~]+ [!-~]+ HTTP/([0-9]\.[0-9])\r\n")
_VERSIONS = (b"1.0", b"1.1")
_HEADER_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n")
_HOST = re.compile(r"(?:\[(?P<literal>[0-9A-Fa-f:.]+)\]|(?P<name>[0-9A-Za-z._-]+))(?::[0-9]{1,5})?")
_DIGITS_MAX = 15


class Refusal(Exception):
    """A request that is not taken: its answer is this status, its text says why."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def check_request_line(line: bytes) -> None:
    """Refusal of what is not METHOD TARGET HTTP/1.1, in printable ASCII with one blank each and a CRLF, or HTTP/1.0.

    The standard library would answer HTTP/0.9 without a head, and take HTTP/1.2 for 1.1.
    """
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise Refusal(HTTPStatus.BAD_REQUEST, "request line must be METHOD PATH HTTP/1.1 and CRLF")
    if found[1] not in _VERSIONS:
        raise Refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED,
                      f"HTTP version must be 1.0 or 1.1, got {found[1].decode()}")


def read_header_lines(stream: BufferedIOBase) -> bytes | None:
    """The header lines and the empty one after them, as sent; None where the client ends before that.

    Refusal of a line that is not NAME: VALUE and CRLF (no blank before the colon, no folding, no bare CR or LF), and
    of more than N_LINES_MAX lines or N_BYTES_MAX bytes.
    """
    lines: list[bytes] = []
    n_bytes = 0
    while True:
        line = stream.readline(N_BYTES_MAX + 1)
        n_bytes += len(line)
        if n_bytes > N_BYTES_MAX or len(lines) > N_LINES_MAX:
            raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                          f"headers must be at most {N_LINES_MAX} lines of {N_BYTES_MAX} bytes together")
        if not line.endswith(b"\n"):
            return None
        lines.append(line)
        if line == b"\r\n":
            return b"".join(lines)
        if not _HEADER_LINE.fullmatch(line):
            raise Refusal(HTTPStatus.BAD_REQUEST, f"header line {len(lines)} must be NAME: VALUE and CRLF")


def body_length(headers: Message) -> int | None:
    """The Content-Length, bytes; None without one.

    Refusal of two of them (equal ones, too), of one that is no plain whole number, and of every Transfer-Encoding.
    """
    lengths = headers.get_all("Content-Length", [])
    if "Transfer-Encoding" in headers:
        if lengths:
            raise Refusal(HTTPStatus.BAD_REQUEST, "Content-Length must not be given with Transfer-Encoding")
        raise Refusal(HTTPStatus.LENGTH_REQUIRED, "Content-Length must be given, got Transfer-Encoding")
    if not lengths:
        return None
    length = lengths[0]
    if len(lengths) > 1 or not (length.isascii() and length.isdecimal() and len(length) <= _DIGITS_MAX):
        raise Refusal(HTTPStatus.BAD_REQUEST, "Content-Length must be one whole number")
    return int(length)


def check_host(headers: Message, version: str, names: Collection[str]) -> None:
    """Refusal of a request that was meant for another host; names: those that are ours, in lower case.

    Without this a web page could ask through a browser on this machine, under a name of its own that it makes point
    here (DNS rebinding). An address in place of a name cannot be made to point elsewhere, so each is taken. HTTP/1.0
    may leave the host out.
    """
    hosts = headers.get_all("Host", [])
    if not hosts and version == "HTTP/1.0":
        return
    found = _HOST.fullmatch(hosts[0].strip()) if len(hosts) == 1 else None
    if found is None:
        raise Refusal(HTTPStatus.BAD_REQUEST, "Host must be given once, as NAME or NAME:PORT")
    host = (found["literal"] or found["name"].removesuffix(".")).lower()
    if host in names:
        return
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        raise Refusal(HTTPStatus.MISDIRECTED_REQUEST,
                      f"Host must be an address or one of {', '.join(sorted(names))}, got {host[:255]!r}") from error


def check_is_json(headers: Message) -> None:
    """Refusal of a body that does not say that it is JSON: a web page may send any other kind without asking first."""
    types = headers.get_all("Content-Type", [])
    if len(types) != 1 or types[0].partition(";")[0].strip().lower() != JSON_TYPE:
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type must be {JSON_TYPE}")


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
