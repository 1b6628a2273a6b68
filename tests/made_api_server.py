"""An API server in memory, over HTTP on the loopback interface: pods and nodes, lists in pages, watches, and faults.

A watch sends what happened after its version, and ends: so a test has no need to wait.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Answer = tuple[int, dict[str, str], list[bytes]]
"""Status, headers and pieces of the body; a last piece of None's place is taken by CUT: the connection breaks."""
CUT = b"\x00cut"


def status(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    """A Status, as the API server writes it."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "details": details, "code": code}


def refusal(code: int, reason: str = "", message: str = "", **headers: str) -> Callable[[Answer], Answer]:
    """A fault: the server says no. headers: with `_` for `-`."""
    body = json.dumps(status(code, reason, message)).encode()
    return lambda _: (code, {name.replace("_", "-"): text for name, text in headers.items()}, [body])


def with_lines(change: Callable[[list[bytes]], Iterable[bytes]]) -> Callable[[Answer], Answer]:
    """A fault: the lines of a watch are changed; a list is left as it is."""
    def changed(answer: Answer) -> Answer:
        code, headers, pieces = answer
        lines = b"".join(pieces).split(b"\n")[:-1]
        is_list = b'"items"' in pieces[0]
        return answer if is_list else (code, headers, [b"".join(each + b"\n" for each in change(lines))])
    return changed


def error_event(code: int, reason: str = "") -> Callable[[Answer], Answer]:
    """A fault: after half of its events, a watch has an ERROR event."""
    event = json.dumps({"type": "ERROR", "object": status(code, reason)}).encode()
    return with_lines(lambda lines: [*lines[:len(lines) // 2], event])


def cut(share: float, is_clean: bool = False) -> Callable[[Answer], Answer]:
    """A fault: the body ends after a share of its bytes; is_clean: as if that were all."""
    def changed(answer: Answer) -> Answer:
        code, headers, pieces = answer
        body = b"".join(pieces)
        return code, headers, [body[:int(len(body) * share)], *([] if is_clean else [CUT])]
    return changed


class FakeApi:
    """What a cluster's API server knows of pods and nodes. faults: for the next requests, each used once."""

    def __init__(self) -> None:
        self.version, self.oldest = 100, 100
        self.objects: dict[str, dict[str, dict[str, Any]]] = {"pods": {}, "nodes": {}}
        self.log: list[tuple[int, str, str, dict[str, Any]]] = []
        self.faults: deque[Callable[[Answer], Answer]] = deque()
        self.asked: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self.page_size_max = 500
        self._pages: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        self._tokens = itertools.count()

    def put(self, resource: str, item: dict[str, Any]) -> None:
        """Create or change an object (by its name and namespace)."""
        metadata = item["metadata"]
        key = f"{metadata.get('namespace', '')}/{metadata['name']}"
        self._happened(resource, "MODIFIED" if key in self.objects[resource] else "ADDED", key, item)

    def delete(self, resource: str, key: str) -> None:
        """Remove an object by NAMESPACE/NAME."""
        self._happened(resource, "DELETED", key, self.objects[resource][key])

    def compact(self) -> None:
        """Forget all earlier versions: who watches from one of them, gets 410."""
        self.version += 1
        self.oldest = self.version
        self._pages.clear()

    def answer(self, resource: str, query: dict[str, str]) -> Answer:
        if query.get("watch") == "true":
            since = int(query["resourceVersion"])
            if since < self.oldest:
                return refusal(410, "Expired", f"too old resource version: {since} ({self.oldest})")((0, {}, []))
            events = [{"type": kind, "object": item} for version, of, kind, item in self.log
                      if of == resource and version > since]
            bookmark = {"metadata": {"resourceVersion": str(self.version), "creationTimestamp": None}}
            events.append({"type": "BOOKMARK", "object": bookmark})
            return 200, {}, [json.dumps(event).encode() + b"\n" for event in events]
        token = query.get("continue")
        if token and token not in self._pages:
            return refusal(410, "Expired", "The provided continue parameter is too old")((0, {}, []))
        version, items = self._pages.pop(token) if token else (self.version, list(self.objects[resource].values()))
        size = min(int(query.get("limit", "0")) or len(items), self.page_size_max) or 1
        metadata = {"resourceVersion": str(version)}
        if items[size:]:
            metadata["continue"] = f"token-{next(self._tokens)}"
            self._pages[metadata["continue"]] = version, items[size:]
        text = json.dumps({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items[:size]}) + "\n"
        return 200, {}, [text.encode()]

    def _happened(self, resource: str, kind: str, key: str, item: dict[str, Any]) -> None:
        self.version += 1
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
        self.log.append((self.version, resource, kind, item))
        if kind == "DELETED":
            del self.objects[resource][key]
        else:
            self.objects[resource][key] = item


@contextmanager
def serving_api(api: FakeApi, folder: Path) -> Iterator[Path]:
    """The server at work in threads until the block is left; a kubeconfig that leads to it."""
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = dict(parse_qsl(url.query))
            api.asked.append((url.path, query, dict(self.headers)))
            answer = api.answer(url.path.rpartition("/")[2], query)
            if api.faults:
                answer = api.faults.popleft()(answer)
            code, headers, pieces = answer
            self.send_response(code)
            for name, text in {"Content-Type": "application/json", "Transfer-Encoding": "chunked", **headers}.items():
                self.send_header(name, text)
            self.end_headers()
            for piece in pieces:
                if piece is CUT:
                    self.close_connection = True
                    return
                if piece:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # the client went away

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        file = folder / "kubeconfig"
        file.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}))
        yield file
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
