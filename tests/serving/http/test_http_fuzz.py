"""Two thousand damaged requests, always the same ones: each gets an answer or a close, and the server lives.

Half of the posts have a quick answer, half one of a thread.
"""

from __future__ import annotations

import json
import random
import re
import socket
from contextlib import suppress
from typing import Any

from made_extender import ask, connect, serving
from sojourn.serving.http import JsonServer

N_REQUESTS = 2_000
HEAD = b"Host: localhost:8899\r\nUser-Agent: Go-http-client/1.1\r\nContent-Type: application/json\r\n"
SEEDS = (
    b"POST /echo HTTP/1.1\r\n" + HEAD + b'Content-Length: 13\r\n\r\n{"a": [1, 2]}',
    b"GET /text?x=1 HTTP/1.1\r\n" + HEAD + b"Accept-Encoding: gzip\r\n\r\n",
    b"GET /text HTTP/1.0\r\n\r\n",
    b"POST /echo HTTP/1.1\r\n" + HEAD + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\ntrue",
    b"HEAD /text HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n",
    b"POST /echo HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\ntrue\r\n0\r\n\r\n",
    b"POST /quick HTTP/1.1\r\n" + HEAD + b'Content-Length: 13\r\n\r\n{"a": [1, 2]}',
    b"POST /quick HTTP/1.1\r\n" + HEAD + b"Content-Length: 4\r\n\r\ntrue",
)
PIECES = (
    b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\x00", b"\xff", b":", b" ", b"\t", b"%00", b"..", b"a" * 70_000, b"9" * 40,
    b"Content-Length: 1\r\n", b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: evil\r\n",
    b"[" * 3_000, b"X: y\r\n" * 150, b"HTTP/1.1", b"HTTP/2.0", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01",
    b"1e999", b"GET ",
)  # fmt: skip


def _damaged(rng: random.Random) -> bytes:
    """One or two requests with up to four edits: bytes changed, cut out, put in, doubled, or swapped."""
    content = bytearray(b"".join(rng.choices(SEEDS, k=rng.choice((1, 1, 2)))))
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(content) + 1)
        stop = min(start + rng.randint(0, 20), len(content))
        kind = rng.randrange(5)
        if kind == 0 and content:
            content[start % len(content)] = rng.randrange(256)
        elif kind == 1:
            del content[start:stop]
        elif kind == 2:
            content[start:start] = rng.choice(PIECES)
        elif kind == 3:
            content[start:start] = content[start:stop]
        else:
            content = content[start:] + content[:start]
    return bytes(content)


def _quick(document: Any) -> tuple[int, bytes] | None:
    return None if document is True else (200, json.dumps(document).encode())


async def _late(document: Any) -> tuple[int, bytes]:
    return 200, json.dumps(document).encode()


def _answers(server: JsonServer, content: bytes) -> bytes:
    """All that comes back until the server closes."""
    found = b""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as client:
        try:
            client.sendall(content)
            with suppress(OSError):  # it was reset, with bytes of ours unread: what came before can still be read
                client.shutdown(socket.SHUT_WR)
            while chunk := client.recv(65_536):
                found += chunk
        except (BrokenPipeError, ConnectionResetError):  # closed before it had read all
            pass
    return found


def test_each_damaged_request_gets_an_answer_or_a_close() -> None:
    rng = random.Random(13)
    server = JsonServer("127.0.0.1", 0, {"/echo": lambda document: (200, document), "/quick": _late},
                        {"/text": lambda: (200, "text/plain", '"text"')}, quick={"/quick": _quick})
    statuses = set()
    with serving(server):
        for number in range(N_REQUESTS):
            content = _damaged(rng)
            found = _answers(server, content)
            lines = re.findall(rb"(?m)^HTTP/1\.1 (\d{3}) [A-Za-z -]+\r$", found)
            assert not found or found.startswith(b"HTTP/1.1 "), (content, found)
            assert len(lines) <= 6, (content, found)
            statuses |= set(map(int, lines))
            if number % 100 == 0:
                connection = connect(server)
                assert ask(connection, "/echo", number) == ask(connection, "/quick", number) == (200, number)
                connection.close()
    assert server.n_connections() == 0
    assert not [key for key in server.counts if key[1] == "failed"]
    usual = {200, 400, 404, 411, 415, 421}
    assert usual <= statuses <= usual | {100, 405, 413, 505}
