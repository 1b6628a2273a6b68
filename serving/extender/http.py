"""JSON over HTTP/1.1 by uvicorn and Starlette: bounded in body, connections and time, and stopped without loss.

uvicorn reads and writes HTTP, and Starlette finds the path. This module limits the time of a
client, the connections and the bytes in memory, and gives turns to work.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import json
import logging
import re
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from sojourn.serving.extender.calls import Turns
from sojourn.serving.prometheus import Histogram

JSON_TYPE = "application/json"
_HOST = re.compile(r"(?:\[(?P<literal>[0-9A-Fa-f:.]+)\]|(?P<name>[0-9A-Za-z._-]+))(?::[0-9]{1,5})?")
_HEAD_BYTES_MAX = 1 << 16
_log = logging.getLogger(__name__)
logging.getLogger("uvicorn").addHandler(logging.NullHandler())  # else errors of clients are printed


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for clients. body_bytes: size of one request. n_bodies: n_bodies x body_bytes bounds
    the sum of all requests and answers, from before a body is read until its answer is sent.
    n_connections: at the same time. request_s: to send a whole request, and again to receive its
    answer. idle_s: between requests; Go's HTTP client, and so kube-scheduler, closes an idle
    connection after 90 s, and the server must not be first. n_reserved: more connections, for
    probes while all others work."""

    body_bytes: int = 16 << 20
    n_bodies: int = 8
    n_connections: int = 32
    request_s: float = 10.0
    idle_s: float = 120.0
    n_reserved: int = 4

    def __post_init__(self) -> None:
        for each in fields(self):
            if not getattr(self, each.name) > 0:
                raise ValueError(f"{each.name} must be above 0, got {getattr(self, each.name)!r}")


class JsonServer:
    """Answers POST with `posts[path](document)` -> (status, document), GET with `gets[path]()` -> (status, type, text).

    All are called in threads. Posted documents are parsed and processed one at a time, since Python
    threads take turns anyway: so the functions need no locks, and few parsed documents are in
    memory. A ValueError in them is the client's fault (400), any other exception ours (500, its
    traceback only in the log). turns: a lock to work; a long function calls its `pass_on`. reports:
    paths of such functions; only one of them runs at a time. host_names: allowed names in a
    request's Host, besides `localhost`, `host` and any address.
    clock: seconds, never falling; it times the clients.
    """

    def __init__(self, host: str, port: int, posts: Mapping[str, Callable[[Any], tuple[int, Any]]],
                 gets: Mapping[str, Callable[[], tuple[int, str, str]]], limits: Limits | None = None,
                 host_names: Iterable[str] = (), clock: Callable[[], float] = time.monotonic,
                 turns: Turns | None = None, reports: Collection[str] = ()) -> None:
        if not 0 <= port <= 65_535:
            raise ValueError(f"port must be 0-65535, got {port}")
        self.posts, self.gets, self.clock = posts, gets, clock
        self.limits = limits = Limits() if limits is None else limits
        self.host_names = {"localhost", host.lower(), *(name.lower() for name in host_names)}
        self._turns = Turns() if turns is None else turns
        self._reporting = dict.fromkeys(reports, threading.Lock())  # one lock for all of them
        self._counting = threading.Lock()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.times: defaultdict[str, Histogram] = defaultdict(Histogram)
        self._n_held = self._n_posted = 0
        app = Starlette(routes=[Route(path, self._posted, methods=["POST"]) for path in posts]
                        + [Route(path, self._got) for path in gets], exception_handlers={HTTPException: self._refused})
        app.router.redirect_slashes = False
        n_connections = limits.n_connections + limits.n_reserved
        self._server = _Server(uvicorn.Config(
            app, http=partial(_Client, self), loop="asyncio", ws="none", lifespan="off",  # type: ignore[arg-type]
            log_config=None, access_log=False, server_header=False, proxy_headers=False,
            h11_max_incomplete_event_size=_HEAD_BYTES_MAX, limit_concurrency=n_connections + 1,
            timeout_keep_alive=int(limits.idle_s) + 1, timeout_graceful_shutdown=int(limits.request_s) + 1))
        self._socket = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128)
        # accepted connections inherit it; asyncio sets it only for sockets with an explicit
        # protocol
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server_port: int = self._socket.getsockname()[1]
        self._workers = ThreadPoolExecutor(n_connections, "extender")
        self._is_over = threading.Event()

    @property
    def is_stopping(self) -> bool:
        """True once `stop` was called."""
        return self._server.should_exit

    def n_connections(self) -> int:
        """Number of open connections."""
        return len(self._server.server_state.connections)

    def serve_forever(self) -> None:
        """Answer until another thread calls `stop`."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self.server_close()
            self._is_over.set()

    def stop(self) -> None:
        """Answer the requests in progress, and no others; returns when all threads have ended."""
        self._server.should_exit = True
        self._is_over.wait()

    def server_close(self) -> None:
        """Close the socket of a server that does not serve."""
        self._socket.close()
        self._workers.shutdown()

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
            except Exception:  # one bad request must not end the service or reveal its internals
                _log.exception("%s failed", path)
                status, answer = HTTPStatus.INTERNAL_SERVER_ERROR, {"Error": "internal error"}
                text = _text(answer)
            is_refused = status >= 400 or (isinstance(answer, dict) and bool(answer.get("Error")))
            self.count(path[1:], "failed" if status >= 500 else "refused" if is_refused else "ok")
            self.times[path[1:]].add(time.perf_counter() - started_s)
        return status, text

    def count(self, verb: str, outcome: str) -> None:
        """Count a request: ok, refused (the client's fault, or no room) or failed (ours)."""
        with self._counting:
            self.counts[verb, outcome] += 1

    async def _posted(self, request: Request) -> Response:
        length = _checked_length(request, self.host_names, self.limits.body_bytes)
        types = request.headers.getlist("Content-Type")
        # a web page may send any other type without a CORS preflight
        if len(types) != 1 or types[0].partition(";")[0].strip().lower() != JSON_TYPE:
            raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type must be {JSON_TYPE}")
        if length is None:
            raise HTTPException(HTTPStatus.LENGTH_REQUIRED, "Content-Length must be given")
        if self._n_posted >= self.limits.n_connections:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE,
                                f"connections must be at most {self.limits.n_connections} at once, got one more")
        self._hold(length)
        self._n_posted += 1
        try:
            body = b"".join([chunk async for chunk in request.stream()])
            status, text = await asyncio.get_running_loop().run_in_executor(
                self._workers, self.post, request.scope["path"], body)
        except ClientDisconnect:
            return Response()
        finally:
            self._n_posted -= 1
            self._n_held -= length
        self._hold(len(text))
        return _Answer(text, status, JSON_TYPE, partial(self._hold, -len(text)))

    async def _got(self, request: Request) -> Response:
        _checked_length(request, self.host_names, self.limits.body_bytes)  # its body is read and dropped
        path = request.scope["path"]
        try:
            status, content_type, text = await asyncio.get_running_loop().run_in_executor(
                self._workers, self.gets[path])
        except Exception as error:
            _log.exception("%s failed", path)
            self.count(path[1:], "failed")
            raise HTTPException(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error") from error
        self.count(path[1:], "ok" if status < HTTPStatus.BAD_REQUEST else "refused")
        return Response(text, status, {"Content-Type": content_type})

    def _hold(self, n_bytes: int) -> None:
        """Count bytes of a request or an answer (negative: release them); 503 if the sum would be too large."""
        limit = self.limits.n_bodies * self.limits.body_bytes
        if n_bytes > 0 and self._n_held + n_bytes > limit:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, f"requests and answers under way must be at most "
                                                                f"{limit} bytes together, got {n_bytes} more")
        self._n_held += n_bytes

    def _refused(self, request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        path, reason = request.scope["path"], error.detail
        if error.status_code == HTTPStatus.NOT_FOUND:
            reason = f"path must be one of {', '.join([*self.posts, *self.gets])}"
        elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            reason = f"{path} must be asked with {'POST' if path in self.posts else 'GET'}"
        if error.status_code != HTTPStatus.INTERNAL_SERVER_ERROR:
            self.count("connection" if error.status_code == HTTPStatus.SERVICE_UNAVAILABLE else "other", "refused")
        # after a refused `Expect`, the client may send its body or another request: unknown which
        headers = {"Connection": "close"} if "expect" in request.headers else None
        return Response(_text({"Error": reason}), error.status_code, headers, JSON_TYPE)


class _Answer(Response):
    """Calls `sent` when the client has received it: uvicorn waits for that before the last, empty piece."""

    def __init__(self, text: bytes, status: int, content_type: str, sent: Callable[[], None]) -> None:
        super().__init__(text, status, media_type=content_type)
        self._sent = sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": self.body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._sent()


class _Client(H11Protocol):
    """A connection with time limits for its request, its answer, and the idle time between."""

    _numbers = itertools.count()

    def __init__(self, owner: JsonServer, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._owner = owner
        self.number = next(self._numbers)
        self._phase: tuple[str, Any] = ("idle", None)
        self.since_s = owner.clock()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept it. If there are too many, close one that waits for its client: without a request
        first, then the oldest."""
        super().connection_made(transport)
        clients = [each for each in self.connections if isinstance(each, _Client) and each is not self]
        if len(clients) >= self._owner.limits.n_connections:
            idle = [each for each in clients if each.phase()[0] != "work" and not each.transport.is_closing()]
            if idle:
                min(idle, key=lambda each: (each.cycle is not None, each.since_s, each.number)).transport.abort()

    def phase(self) -> tuple[str, Any]:
        """Its phase (idle, ask, work, answer), and its request."""
        cycle, now = self.cycle, "idle"
        if self.transport.get_write_buffer_size():
            now = "answer"
        elif cycle is not None and not cycle.response_complete and not cycle.more_body:
            now = "work"
        elif self.conn.their_state is h11.SEND_BODY or self.conn.trailing_data[0]:
            now = "ask"
        return now, cycle

    def look(self) -> None:
        """Close it if its client exceeds the time of a phase."""
        phase, now_s, limits = self.phase(), self._owner.clock(), self._owner.limits
        if phase != self._phase:
            self._phase, self.since_s = phase, now_s
        within_s = limits.idle_s if phase[0] == "idle" else limits.request_s
        if phase[0] != "work" and now_s - self.since_s > within_s:
            self.transport.abort()

    def eof_received(self) -> bool:  # type: ignore[override]
        """True if the client will send nothing more and waits for its answer."""
        is_awaited = self.phase()[0] == "work"
        if is_awaited:
            self.cycle.keep_alive = False
        return is_awaited

    def send_400_response(self, msg: str) -> None:
        """The answer if the data is no HTTP."""
        self._owner.count("other", "refused")
        super().send_400_response(msg)


class _Server(uvicorn.Server):
    """Checks each connection ten times a second."""

    async def on_tick(self, counter: int) -> bool:
        for each in list(self.server_state.connections):
            if isinstance(each, _Client):
                each.look()
        return await super().on_tick(counter)


def _checked_length(request: Request, host_names: Collection[str], body_bytes: int) -> int | None:
    """The Content-Length, bytes; None without one.

    Refuses a request for another host. Otherwise a web page could send requests through a browser
    on this machine, under a name of its own that resolves to this server (DNS rebinding). An
    address cannot be rebound, so all are accepted. HTTP/1.0 may omit the host.
    """
    version, host = request.scope["http_version"], request.headers.get("Host")
    if version not in ("1.0", "1.1"):
        raise HTTPException(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"HTTP version must be 1.0 or 1.1, got {version}")
    if host is not None:
        match = _HOST.fullmatch(host.strip())
        if match is None:
            raise HTTPException(HTTPStatus.BAD_REQUEST, "Host must be given once, as NAME or NAME:PORT")
        name = (match["literal"] or match["name"].removesuffix(".")).lower()
        try:
            if name not in host_names:
                ipaddress.ip_address(name)
        except ValueError as error:
            raise HTTPException(HTTPStatus.MISDIRECTED_REQUEST, f"Host must be an address or one of "
                                f"{', '.join(sorted(host_names))}, got {name[:255]!r}") from error
    if "Transfer-Encoding" in request.headers:
        raise HTTPException(HTTPStatus.LENGTH_REQUIRED, "Content-Length must be given, got Transfer-Encoding")
    length = request.headers.get("Content-Length")
    if length is not None and int(length) > body_bytes:
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                            f"body must be at most {body_bytes} bytes, got {length}")
    return None if length is None else int(length)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"body must be JSON, got {str(error) or type(error).__name__}") from error


def _text(document: Any) -> bytes:
    """JSON; ValueError for an infinite number, which may come from 1e999 in a document."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"the number {name}")
