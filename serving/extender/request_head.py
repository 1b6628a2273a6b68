"""The head of an HTTP request, taken strictly: two readers of it cannot see two requests (RFC 9112, section 11.2).

The standard library parses heads as e-mail: it takes a bare CR for a line's end, a line without a colon for the end of
the head, and the first of two lengths. So the bytes are held against the grammar before it sees them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from email.message import Message
from http import HTTPStatus
from io import BufferedIOBase

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
