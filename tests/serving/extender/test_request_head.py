"""Which heads of requests are taken, and with which status others are refused."""

from __future__ import annotations

import io
from email.message import Message

import pytest

from sojourn.serving.extender.http import (
    Refusal,
    body_length,
    check_host,
    check_is_json,
    check_request_line,
    read_header_lines,
)

NAMES = frozenset({"localhost", "extender.example"})


def _headers(*pairs: tuple[str, str]) -> Message:
    message = Message()
    for name, value in pairs:
        message[name] = value
    return message


@pytest.mark.parametrize("line", [
    b"GET /x HTTP/1.1\n", b"GET  /x HTTP/1.1\r\n", b"GET /x\r\n", b"GET /\x80 HTTP/1.1\r\n", b"GET /x\tHTTP/1.1\r\n",
    b"GET /x HTTP/1.1 \r\n", b" GET /x HTTP/1.1\r\n", b"\r\n", b"\x16\x03\x01\x02\r\n", b"GET /x HTTP/11\r\n",
])  # fmt: skip
def test_request_lines_that_are_refused(line: bytes) -> None:
    with pytest.raises(Refusal, match="request line must be"):
        check_request_line(line)
    check_request_line(b"GET /x?y HTTP/1.1\r\n")


@pytest.mark.parametrize("version", ["0.9", "0.0", "1.2", "1.9", "2.0", "3.0"])
def test_other_versions_of_http_are_refused(version: str) -> None:
    with pytest.raises(Refusal, match=rf"^HTTP version must be 1\.0 or 1\.1, got {version}$") as refused:
        check_request_line(f"GET /x HTTP/{version}\r\n".encode())
    assert refused.value.status == 505
    check_request_line(b"GET /x HTTP/1.0\r\n")


@pytest.mark.parametrize("line", [
    b"Content-Length : 5\r\n", b" folded\r\n", b"no colon\r\n", b": empty\r\n", b"A: b\rContent-Length: 5\r\n",
    b"A: b\n", b"A: \x00\r\n", b"From me\r\n", b"\xffA: b\r\n", b"A\x0b: b\r\n", b"\n",
])  # fmt: skip
def test_header_lines_that_two_readers_could_read_differently_are_refused(line: bytes) -> None:
    with pytest.raises(Refusal, match="header line 2 must be NAME: VALUE and CRLF") as refused:
        read_header_lines(io.BytesIO(b"Host: x\r\n" + line + b"\r\n"))
    assert refused.value.status == 400


def test_header_lines_end_with_the_empty_one() -> None:
    stream = io.BytesIO(b"Host: x\r\nA: \tb \xe9\r\n\r\nbody")
    assert read_header_lines(stream) == b"Host: x\r\nA: \tb \xe9\r\n\r\n"
    assert stream.read() == b"body"
    for cut in (b"", b"Host: x", b"Host: x\r\n", b"Host: x\r\n\r"):
        assert read_header_lines(io.BytesIO(cut)) is None


@pytest.mark.parametrize("content", [b"a: b\r\n" * 200, b"a: " + b"b" * 70_000 + b"\r\n"])
def test_header_lines_are_bounded(content: bytes) -> None:
    with pytest.raises(Refusal, match="at most 100 lines of 65536 bytes") as refused:
        read_header_lines(io.BytesIO(content))
    assert refused.value.status == 431


@pytest.mark.parametrize(("pairs", "status"), [
    ([("Content-Length", "5"), ("Content-Length", "5")], 400),
    ([("Content-Length", "5"), ("content-length", "6")], 400),
    ([("Content-Length", "5, 5")], 400), ([("Content-Length", "+5")], 400), ([("Content-Length", "5"),
     ("Transfer-Encoding", "chunked")], 400), ([("Transfer-Encoding", "chunked")], 411),
    ([("Transfer-Encoding", "identity")], 411), ([("Content-Length", "\u0665")], 400), ([("Content-Length", "")], 400),
    ([("Content-Length", "9" * 16)], 400),
])  # fmt: skip
def test_lengths_that_are_refused(pairs: list[tuple[str, str]], status: int) -> None:
    with pytest.raises(Refusal) as refused:
        body_length(_headers(*pairs))
    assert refused.value.status == status


def test_one_length_or_none() -> None:
    assert (body_length(_headers(("Content-Length", "5"))), body_length(_headers())) == (5, None)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8899", "127.0.0.1", "127.9.9.9:1", "[::1]:8899", "10.1.2.3",
                                  "Extender.Example.:80"])
def test_hosts_that_are_ours(host: str) -> None:
    check_host(_headers(("Host", host)), "HTTP/1.1", NAMES)


@pytest.mark.parametrize(("hosts", "status"), [
    ([], 400), (["localhost", "localhost"], 400), ([""], 400), (["a b"], 400), (["x@localhost"], 400),
    (["localhost:"], 400), (["evil.example"], 421), (["127.0.0.1.evil.example"], 421),
    (["localhost.evil.example"], 421), (["[evil]"], 400), (["2130706433"], 421),
])  # fmt: skip
def test_hosts_that_are_refused(hosts: list[str], status: int) -> None:
    with pytest.raises(Refusal) as refused:
        check_host(_headers(*(("Host", host) for host in hosts)), "HTTP/1.1", NAMES)
    assert refused.value.status == status


def test_only_the_oldest_version_may_leave_the_host_out() -> None:
    check_host(_headers(), "HTTP/1.0", NAMES)
    with pytest.raises(Refusal):
        check_host(_headers(("Host", "evil.example")), "HTTP/1.0", NAMES)


@pytest.mark.parametrize("types", [[], ["text/plain"], ["application/x-www-form-urlencoded"], ["application/jsonp"],
                                   ["application/json", "text/plain"]])
def test_bodies_that_are_not_json_are_refused(types: list[str]) -> None:
    check_is_json(_headers(("Content-Type", "Application/JSON; charset=utf-8")))
    with pytest.raises(Refusal, match="Content-Type must be application/json") as refused:
        check_is_json(_headers(*(("Content-Type", each) for each in types)))
    assert refused.value.status == 415
