"""JSON over HTTP/1.1 by uvicorn and Starlette: bounded in body, connections and time, and stopped without loss.

uvicorn reads (with httptools) and writes HTTP; requests and answers are Starlette's. This module
limits the time of a client, the connections and the bytes in memory, and gives turns to work.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import inspect
import ipaddress
import itertools
import logging
import re
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import msgspec
import uvicorn
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from sojourn.serving.prometheus import Histogram

JSON_TYPE = "application/json"
_JSON_TYPE = JSON_TYPE.encode()
_HOST = re.compile(r"(?:\[(?P<literal>[0-9A-Fa-f:.]+)\]|(?P<name>[0-9A-Za-z._-]+))(?::[0-9]{1,5})?")
_HEAD_BYTES_MAX = 1 << 16
_SHORT_BYTES = 1 << 12
_FULL = HTTPStatus.SERVICE_UNAVAILABLE
Post = Callable[[Any], tuple[int, Any]] | Callable[[Any], Awaitable[tuple[int, bytes]]]
"""Answers a JSON document with a status and a document, in a thread; or, in the event loop, with a status and JSON."""
Quick = Callable[[Any], tuple[int, bytes] | None]
"""Answers a JSON document with a status and JSON, at once; None for what `posts` shall answer."""
PROBES = frozenset({"/healthz", "/readyz"})
"""Paths that need no token."""
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


class Turns:
    """A lock for `with` whose holder can let a waiting thread go first.

    >>> turns = Turns()
    >>> with turns:
    ...     turns.pass_on()  # no thread waits
    """

    def __init__(self) -> None:
        self._next = threading.Lock()  # held by the next thread
        self._work = threading.Lock()

    def __enter__(self) -> None:
        with self._next:
            self._work.acquire()

    def __exit__(self, *_: object) -> None:
        self._work.release()

    def pass_on(self) -> None:
        """Let a waiting thread work first; called by the holder. A plain lock would mostly return to its holder."""
        self.__exit__()
        self.__enter__()


class JsonServer:
    """Answers POST with `posts[path](document)` -> (status, document), GET with `gets[path]()` -> (status, type, text).

    All are called in threads. Posted documents are parsed and processed one at a time, since Python
    threads take turns anyway: so the functions need no locks, and few parsed documents are in
    memory. A ValueError in them is the client's fault (400), any other exception ours (500, its
    traceback only in the log). turns: a lock to work; a long function calls its `pass_on`. reports:
    paths of such functions; only one of them runs at a time. A coroutine function of `posts` is
    awaited in the event loop instead, without turns, which saves a short answer the way to a thread
    and back; it gives its answer as JSON. quick: by such a path, what answers a short document between
    reading and writing, without a task and the objects of Starlette. host_names: allowed names in a
    request's Host, besides `localhost`, `host` and any address. token: what `Authorization: Bearer`
    must give, except for PROBES; None: nothing is asked. error_name: the field of refusals.
    clock: seconds, never falling; it times the clients.
    """

    def __init__(self, host: str, port: int, posts: Mapping[str, Post],
                 gets: Mapping[str, Callable[[], tuple[int, str, str]]], limits: Limits | None = None,
                 host_names: Iterable[str] = (), clock: Callable[[], float] = time.monotonic,
                 turns: Turns | None = None, reports: Collection[str] = (), token: str | None = None,
                 error_name: str = "Error", quick: Mapping[str, Quick] = MappingProxyType({})) -> None:
        if not 0 <= port <= 65_535:
            raise ValueError(f"port must be 0-65535, got {port}")
        self.posts, self.gets, self.clock = posts, gets, clock
        self.limits = limits = Limits() if limits is None else limits
        self.host_names = {"localhost", host.lower(), *(name.lower() for name in host_names)}
        self._quick = {path.encode(): (path, answer) for path, answer in quick.items()}
        self._default: tuple[Any, bytes] = None, b""
        self._in_loop = {path for path, post in posts.items() if inspect.iscoroutinefunction(post)}
        self._bearer = None if token is None else f"Bearer {token}".encode()
        self._error_name = error_name
        self._turns = Turns() if turns is None else turns
        self._reporting = dict.fromkeys(reports, threading.Lock())  # one lock for all of them
        self._counting = threading.Lock()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.times: defaultdict[str, Histogram] = defaultdict(Histogram)
        self._n_held = self._n_posted = 0
        n_connections = limits.n_connections + limits.n_reserved
        self._server = _Server(uvicorn.Config(
            self._answer, http=partial(_Client, self), loop="asyncio", ws="none",  # type: ignore[arg-type]
            lifespan="off", interface="asgi3", log_config=None, access_log=False, server_header=False,
            proxy_headers=False, limit_concurrency=n_connections + 1,
            timeout_keep_alive=int(limits.idle_s) + 1, timeout_graceful_shutdown=int(limits.request_s) + 1))
        self._socket = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128)
        # accepted connections inherit it; asyncio sets it only for sockets with an explicit
        # protocol
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server_port: int = self._socket.getsockname()[1]
        self._workers = ThreadPoolExecutor(n_connections, "http")
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
        """Status and answer to a posted body, for a path whose function runs in threads."""
        started_s = time.perf_counter()
        with self._reporting.get(path, contextlib.nullcontext()), self._turns:
            try:
                status, answer = self.posts[path](_parsed(body))  # type: ignore[misc]
                is_refused = isinstance(answer, dict) and bool(answer.get(self._error_name))
                text = msgspec.json.encode(answer)
            except Exception as error:  # one bad request must not end the service or reveal its internals
                status, text, is_refused = self._fault(path, error)
            self._finished(path, status, is_refused, started_s)
        return status, text

    async def _post_in_loop(self, path: str, body: bytes) -> tuple[int, bytes]:
        started_s = time.perf_counter()
        try:
            status, text = await self.posts[path](_parsed(body))  # type: ignore[misc]
        except Exception as error:
            status, text, _ = self._fault(path, error)
        self._finished(path, status, False, started_s)
        return status, text

    def _fault(self, path: str, error: Exception) -> tuple[int, bytes, bool]:
        if isinstance(error, ValueError):
            return HTTPStatus.BAD_REQUEST, msgspec.json.encode({self._error_name: str(error)}), True
        _log.error("%s failed", path, exc_info=error)
        return HTTPStatus.INTERNAL_SERVER_ERROR, msgspec.json.encode({self._error_name: "internal error"}), True

    def _finished(self, path: str, status: int, is_refused: bool, started_s: float) -> None:
        is_refused |= status >= HTTPStatus.BAD_REQUEST
        self.count(path[1:], "failed" if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != _FULL
                   else "refused" if is_refused else "ok")
        self.times[path[1:]].add(time.perf_counter() - started_s)

    def count(self, verb: str, outcome: str) -> None:
        """Count a request: ok, refused (the client's fault, or no room) or failed (ours)."""
        with self._counting:
            self.counts[verb, outcome] += 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path, method, version = scope["path"], scope["method"], scope["http_version"]
        try:
            if version not in ("1.0", "1.1"):
                raise HTTPException(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED,
                                    f"HTTP version must be 1.0 or 1.1, got {version}")
            if path in self.posts and method == "POST":
                response = await self._posted(request)
            elif path in self.gets and method in ("GET", "HEAD"):
                response = await self._got(request)
            elif path in self.posts or path in self.gets:
                raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED,
                                    f"{path} must be asked with {'POST' if path in self.posts else 'GET'}")
            else:
                raise HTTPException(HTTPStatus.NOT_FOUND, f"path must be one of {', '.join([*self.posts, *self.gets])}")
        except HTTPException as error:
            response = self._refused(request, error)
        await response(scope, receive, send)

    def quick_path(self, url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
        """The path of a POST in HTTP/1.1 that may be answered at once; None: it goes the usual way."""
        if url not in self._quick:
            return None
        heads = _heads(headers)
        try:
            length = self._checked_post(heads, "1.1")
        except HTTPException:
            return None
        return None if b"expect" in heads or length > _SHORT_BYTES else url

    def quick_answer(self, url: bytes, body: bytes) -> bytes | None:
        """Status line, head and body of the answer to a path of `quick_path`; None: it goes the usual way."""
        started_s = time.perf_counter()
        path, answer = self._quick[url]
        try:
            found = answer(_parsed(body))
        except ValueError:  # it is refused again there
            return None
        except Exception as error:
            status, text, _ = self._fault(path, error)
        else:
            if found is None:
                return None
            status, text = found
        self._finished(path, status, False, started_s)
        return b"%b%bcontent-length: %d\r\ncontent-type: %b\r\n\r\n%b" % (
            STATUS_LINE[status], self._default_head(), len(text), _JSON_TYPE, text)

    def _default_head(self) -> bytes:
        headers = self._server.server_state.default_headers
        if headers is not self._default[0]:  # made anew each second, for its date
            self._default = headers, b"".join(b"%b: %b\r\n" % each for each in headers)
        return self._default[1]

    def _checked_post(self, heads: Mapping[bytes, list[bytes]], version: str) -> int:
        """The Content-Length, bytes; HTTPException if the head is refused."""
        self._check_token(heads)
        length = _checked_length(heads, version, self.host_names, self.limits.body_bytes)
        types = heads.get(b"content-type", ())
        # a web page may send any other type without a CORS preflight
        if len(types) != 1 or types[0].partition(b";")[0].strip().lower() != _JSON_TYPE:
            raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type must be {JSON_TYPE}")
        if length is None:
            raise HTTPException(HTTPStatus.LENGTH_REQUIRED, "Content-Length must be given")
        return length

    async def _posted(self, request: Request) -> Response:
        length = self._checked_post(_heads(request.scope["headers"]), request.scope["http_version"])
        if self._n_posted >= self.limits.n_connections:
            raise HTTPException(_FULL, f"connections must be at most {self.limits.n_connections} at once, got one more")
        self._hold(length)
        self._n_posted += 1
        try:
            path, pieces, is_whole = request.scope["path"], [], False
            while not is_whole:  # as Request.stream, in half of the time
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                pieces.append(message["body"])
                is_whole = not message["more_body"]
            body = b"".join(pieces)
            if path in self._in_loop:
                status, text = await self._post_in_loop(path, body)
            else:
                status, text = await asyncio.get_running_loop().run_in_executor(self._workers, self.post, path, body)
        except ClientDisconnect:
            return Response()
        finally:
            self._n_posted -= 1
            self._n_held -= length
        self._hold(len(text))
        return _Answer(text, status, partial(self._hold, -len(text)))

    async def _got(self, request: Request) -> Response:
        path = request.scope["path"]
        heads = _heads(request.scope["headers"])
        if path not in PROBES:
            self._check_token(heads)
        # its body is read and dropped
        _checked_length(heads, request.scope["http_version"], self.host_names, self.limits.body_bytes)
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
            raise HTTPException(_FULL, f"requests and answers under way must be at most {limit} bytes together, got "
                                       f"{n_bytes} more")
        self._n_held += n_bytes

    def _check_token(self, heads: Mapping[bytes, list[bytes]]) -> None:
        if self._bearer is None:
            return
        given = heads.get(b"authorization", [b""])[0]
        if not hmac.compare_digest(given, self._bearer):
            raise HTTPException(HTTPStatus.UNAUTHORIZED, "Authorization must be Bearer and the token",
                                {"WWW-Authenticate": "Bearer"})

    def _refused(self, request: Request, error: HTTPException) -> Response:
        if error.status_code != HTTPStatus.INTERNAL_SERVER_ERROR:
            self.count("connection" if error.status_code == _FULL else "other", "refused")
        headers = {**(error.headers or {})}
        if "expect" in request.headers:  # the client may send its body or another request now: unknown which
            headers["Connection"] = "close"
        return Response(msgspec.json.encode({self._error_name: error.detail}), error.status_code, headers, JSON_TYPE)


class _Answer(Response):
    """Calls `sent` when the client has received it: uvicorn waits for that before the last, empty piece."""

    def __init__(self, text: bytes, status: int, sent: Callable[[], None]) -> None:
        self.body, self.status_code, self.background, self._sent = text, status, None, sent
        self.raw_headers = [(b"content-length", b"%d" % len(text)), (b"content-type", _JSON_TYPE)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len(self.body) < _SHORT_BYTES:  # the socket takes it at once
            self._sent()
            await super().__call__(scope, receive, send)
            return
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": self.body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._sent()


class _Client(HttpToolsProtocol):
    """A connection with time limits for its request, its answer, and the idle time between."""

    _numbers = itertools.count()

    def __init__(self, owner: JsonServer, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._owner = owner
        self.number = next(self._numbers)
        self._phase = ("idle", 0)
        self.since_s = owner.clock()
        self._is_asking = self._is_in_head = False
        self._n_head_bytes = self.n_asked = 0
        self._quick: bytes | None = None  # the path of a request that is read for a quick answer
        self._body = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept it. If there are too many, close one that waits for its client: without a request
        first, then the oldest."""
        super().connection_made(transport)
        clients = [each for each in self.connections if isinstance(each, _Client) and each is not self]
        if len(clients) >= self._owner.limits.n_connections:
            idle = [each for each in clients if each.phase()[0] != "work" and not each.transport.is_closing()]
            if idle:
                min(idle, key=lambda each: (each.n_asked > 0, each.since_s, each.number)).transport.abort()

    def phase(self) -> tuple[str, int]:
        """Its phase (idle, ask, work, answer), and the number of its requests."""
        now = "idle"
        if self.transport.get_write_buffer_size():
            now = "answer"
        elif self.pipeline or self._is_working():
            now = "work"
        elif self._is_asking:
            now = "ask"
        return now, self.n_asked

    def look(self) -> None:
        """Close it if its client exceeds the time of a phase."""
        phase, now_s, limits = self.phase(), self._owner.clock(), self._owner.limits
        if phase != self._phase:
            self._phase, self.since_s = phase, now_s
        within_s = limits.idle_s if phase[0] == "idle" else limits.request_s
        if phase[0] != "work" and now_s - self.since_s > within_s:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Bound a request's head: the parser does not."""
        was_in_head = self._is_in_head
        super().data_received(data)
        self._n_head_bytes = self._n_head_bytes + len(data) if was_in_head and self._is_in_head else 0
        if self._n_head_bytes > _HEAD_BYTES_MAX:
            self.send_400_response("Invalid HTTP request received.")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._is_asking = self._is_in_head = True

    def on_headers_complete(self) -> None:
        """The end of its head: it may get a quick answer if none is under way and the connection stays as it is."""
        self._is_in_head = False
        self.n_asked += 1
        parser: Any = self.parser
        cycle = self.cycle
        if ((cycle is None or cycle.response_complete) and parser.get_method() == b"POST"
                and parser.get_http_version() == "1.1" and parser.should_keep_alive() and not parser.should_upgrade()
                and not self.transport.is_closing()):
            self._quick = self._owner.quick_path(self.url, self.headers)
        if self._quick is None:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of its body."""
        if self._quick is None:
            super().on_body(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        """Its last byte."""
        self._is_asking = False
        path, body = self._quick, self._body
        if path is not None:
            self._quick, self._body = None, b""
            answer = self._owner.quick_answer(path, body)
            if answer is not None:
                self.transport.write(answer)
                return
            super().on_headers_complete()
            super().on_body(body)
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not take its answers: what it sends waits, too."""
        super().pause_writing()
        self.flow.pause_reading()

    def resume_writing(self) -> None:
        """It has taken them."""
        super().resume_writing()
        if not self.pipeline:
            self.flow.resume_reading()

    def eof_received(self) -> bool:  # type: ignore[override]
        """True if the client will send nothing more and waits for its answer."""
        is_awaited = self.phase()[0] == "work"
        if is_awaited:
            self.cycle.keep_alive = False
        return is_awaited

    def send_400_response(self, msg: str) -> None:
        """The answer if the data is no HTTP; after that to the request before it, if that is under way."""
        self._owner.count("other", "refused")
        if self._is_working():
            self.cycle.keep_alive = False
            self.transport.pause_reading()
        else:
            super().send_400_response(msg)

    def _unsupported_upgrade_warning(self) -> None:
        """What follows such a request is no HTTP to the parser: the request is answered, and the connection closed."""
        self.cycle.keep_alive = False

    def _is_working(self) -> bool:
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body


class _Server(uvicorn.Server):
    """Checks each connection ten times a second."""

    async def on_tick(self, counter: int) -> bool:
        for each in list(self.server_state.connections):
            if isinstance(each, _Client):
                each.look()
        return await super().on_tick(counter)


def _heads(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    """The values of all header fields, by their names in lower case."""
    heads: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        heads.setdefault(name, []).append(value)
    return heads


def _checked_length(heads: Mapping[bytes, list[bytes]], version: str, host_names: Collection[str],
                    body_bytes: int) -> int | None:
    """The Content-Length, bytes; None without one.

    Refuses a request for another host. Otherwise a web page could send requests through a browser
    on this machine, under a name of its own that resolves to this server (DNS rebinding). An
    address cannot be rebound, so all are accepted. HTTP/1.0 may omit the host.
    """
    hosts = [host.decode("latin-1") for host in heads.get(b"host", ())]
    if hosts or version != "1.0":
        match = _HOST.fullmatch(hosts[0].strip()) if len(hosts) == 1 else None
        if match is None:
            raise HTTPException(HTTPStatus.BAD_REQUEST, "Host must be given once, as NAME or NAME:PORT",
                                {"Connection": "close"})
        name = (match["literal"] or match["name"].removesuffix(".")).lower()
        try:
            if name not in host_names:
                ipaddress.ip_address(name)
        except ValueError as error:
            raise HTTPException(HTTPStatus.MISDIRECTED_REQUEST, f"Host must be an address or one of "
                                f"{', '.join(sorted(host_names))}, got {name[:255]!r}") from error
    if b"transfer-encoding" in heads:
        raise HTTPException(HTTPStatus.LENGTH_REQUIRED, "Content-Length must be given, got Transfer-Encoding")
    lengths = heads.get(b"content-length")
    length = None if lengths is None else int(lengths[0])
    if length is not None and length > body_bytes:
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                            f"body must be at most {body_bytes} bytes, got {length}")
    return length


def _parsed(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"body must be JSON, got {str(error) or type(error).__name__}") from error
