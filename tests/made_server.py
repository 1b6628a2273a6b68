"""A publisher on the loopback interface whose answers are told in advance."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY = bytes(range(256)) * 2_000


@dataclass
class Publisher:
    """What is served and how. plan: one word per request, then "well".

    "well": as asked. "500", "404", "416": that status. "short": a third of the answer, then the end. "stall": a
    third, then silence. "whole": Range is ignored. "odd": a range that was not asked for.
    """

    url: str = ""
    body: bytes = BODY
    etag: str = '"v1"'
    has_length: bool = True
    plan: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    publisher: Publisher

    def do_GET(self) -> None:
        publisher = self.publisher
        how = publisher.plan.pop(0) if publisher.plan else "well"
        publisher.ranges.append(self.headers.get("Range", ""))
        if how.isdigit():
            self.send_error(int(how))
            return
        first = 0
        if self.headers.get("Range") and how != "whole" and self.headers.get("If-Range") == publisher.etag:
            first = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        size = len(publisher.body)
        if first and first >= size:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{size}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        rest = publisher.body[first:]
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first + (how == 'odd')}-{size - 1}/{size}")
        if publisher.etag:
            self.send_header("ETag", publisher.etag)
        if publisher.has_length:
            self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[:len(rest) // 3] if how in ("short", "stall") else rest)
        if how == "stall":
            self.wfile.flush()
            publisher.is_over.wait()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the terminal."""


@contextmanager
def publishing() -> Iterator[Publisher]:
    """A publisher that serves its body under every path, until the block is left."""
    publisher = Publisher()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"publisher": publisher}))
    publisher.url = f"http://127.0.0.1:{server.server_port}/log.swf.gz"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield publisher
    finally:
        publisher.is_over.set()
        server.shutdown()
        server.server_close()
        thread.join()
