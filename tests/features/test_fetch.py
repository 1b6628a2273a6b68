"""Fetching against a publisher that fails in every way we know; nothing here leaves the machine."""

from __future__ import annotations

import fcntl
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_server import BODY, Publisher, publishing
from sojourn.features.fetch import TRACES, RemoteFile, fetch, fetch_file
from sojourn.features.readers import READERS

HASH = hashlib.sha256(BODY).hexdigest()
NAME = "log.swf.gz"


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with publishing() as served:
        yield served


def get(publisher: Publisher, folder: Path, sha256: str | None = HASH, n_tries: int = 4,
        timeout_s: float = 5.0) -> Path:
    return fetch_file(RemoteFile(NAME, publisher.url, sha256), folder, n_tries=n_tries, timeout_s=timeout_s, wait_s=0)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_good_publisher_is_asked_once(publisher: Publisher, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    file = RemoteFile(NAME, publisher.url, HASH)
    path = fetch_file(file, tmp_path / "new", progress=lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == BODY and names(tmp_path / "new") == [NAME]
    assert seen[-1] == (len(BODY), len(BODY)) and seen == sorted(seen)
    assert fetch_file(file, tmp_path / "new") == path and publisher.ranges == [""]


def test_errors_that_may_pass_are_tried_again(publisher: Publisher, tmp_path: Path) -> None:
    publisher.plan = ["500", "503", "429"]
    assert get(publisher, tmp_path).read_bytes() == BODY
    assert publisher.ranges == [""] * 4 and names(tmp_path) == [NAME]


@pytest.mark.parametrize(("how", "problem"), [
    ("short", f"{len(BODY) // 3} of {len(BODY)} bytes"),
    ("stall", "TimeoutError: timed out"),
])
def test_what_came_is_kept_and_continued_by_the_next_call(publisher: Publisher, tmp_path: Path, how: str,
                                                          problem: str) -> None:
    publisher.plan = [how]
    timeout_s = 0.1 if how == "stall" else 5.0
    with pytest.raises(OSError, match=re.escape(f"{publisher.url} must give the whole file within 1 tries, got "
                                                f"{problem}; {len(BODY) // 3} bytes are kept in {NAME}.part")):
        get(publisher, tmp_path, n_tries=1, timeout_s=timeout_s)
    assert names(tmp_path) == [f"{NAME}.part", f"{NAME}.part.tag"]
    assert get(publisher, tmp_path).read_bytes() == BODY
    assert publisher.ranges == ["", f"bytes={len(BODY) // 3}-"] and names(tmp_path) == [NAME]


def test_a_publisher_that_ignores_range_is_read_from_the_start(publisher: Publisher, tmp_path: Path) -> None:
    publisher.plan = ["short", "whole"]
    assert get(publisher, tmp_path).read_bytes() == BODY


def test_a_range_that_was_not_asked_for_is_not_taken(publisher: Publisher, tmp_path: Path) -> None:
    publisher.plan = ["short", "odd"]
    assert get(publisher, tmp_path).read_bytes() == BODY
    assert publisher.ranges == ["", f"bytes={len(BODY) // 3}-", ""]


def test_a_part_of_an_older_version_is_not_continued(publisher: Publisher, tmp_path: Path) -> None:
    publisher.plan = ["short"]
    with pytest.raises(OSError, match="must give the whole file"):
        get(publisher, tmp_path, None, n_tries=1)
    publisher.body, publisher.etag = BODY[::-1], '"v2"'
    assert get(publisher, tmp_path, None).read_bytes() == BODY[::-1]


def test_a_part_without_a_version_is_not_continued(publisher: Publisher, tmp_path: Path) -> None:
    publisher.etag, publisher.plan = "", ["short"]
    assert get(publisher, tmp_path).read_bytes() == BODY
    assert publisher.ranges == ["", ""]


def test_a_part_that_is_whole_is_only_checked(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(BODY)
    (tmp_path / f"{NAME}.part.tag").write_text('"v1"\n')
    assert get(publisher, tmp_path).read_bytes() == BODY and names(tmp_path) == [NAME]


def test_a_part_that_is_too_long_is_dropped(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(BODY + b"more")
    (tmp_path / f"{NAME}.part.tag").write_text('"v1"\n')
    assert get(publisher, tmp_path).read_bytes() == BODY


def test_an_answer_without_length_is_whole_unless_it_is_empty(publisher: Publisher, tmp_path: Path) -> None:
    publisher.has_length = False
    assert get(publisher, tmp_path / "a").read_bytes() == BODY
    publisher.body = b""
    with pytest.raises(OSError, match="0 of an unknown number of bytes"):
        get(publisher, tmp_path / "b", None)


def test_a_missing_file_is_not_asked_for_twice(publisher: Publisher, tmp_path: Path) -> None:
    publisher.plan = ["404", "404"]
    with pytest.raises(OSError, match=rf"{NAME}: http://.* must answer with the file, got HTTP 404"):
        get(publisher, tmp_path)
    assert publisher.plan == ["404"] and NAME not in names(tmp_path)


def test_a_publisher_that_does_not_answer(publisher: Publisher, tmp_path: Path) -> None:
    url = re.sub(r":\d+/", ":9/", publisher.url)  # the discard port: nobody listens
    with pytest.raises(OSError, match=r"within 2 tries, got URLError: .*refused"):
        fetch_file(RemoteFile(NAME, url, HASH), tmp_path, n_tries=2, wait_s=0)


def test_a_file_with_another_hash_never_gets_its_name(publisher: Publisher, tmp_path: Path) -> None:
    publisher.body = BODY[:-1] + b"x"
    with pytest.raises(ValueError, match=rf"{NAME}: http://.* must have the SHA-256 {HASH} \(published\), got .*"):
        get(publisher, tmp_path)
    assert names(tmp_path) == []
    publisher.body = BODY
    assert get(publisher, tmp_path).read_bytes() == BODY


def test_a_damaged_file_is_replaced_and_stays_until_then(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"damaged")
    publisher.plan = ["404"]
    with pytest.raises(OSError, match="HTTP 404"):
        get(publisher, tmp_path)
    assert (tmp_path / NAME).read_bytes() == b"damaged"
    assert get(publisher, tmp_path).read_bytes() == BODY


def test_a_hash_that_is_not_published_is_that_of_the_first_fetch(publisher: Publisher, tmp_path: Path) -> None:
    get(publisher, tmp_path, None)
    assert (tmp_path / f"{NAME}.sha256").read_text() == f"{HASH}  {NAME}\n"
    (tmp_path / NAME).unlink()
    publisher.body = BODY + b"new"
    with pytest.raises(ValueError, match=rf"{HASH} \(that of the first fetch, in {NAME}\.sha256\)"):
        get(publisher, tmp_path, None)
    (tmp_path / f"{NAME}.sha256").write_text("?")
    with pytest.raises(ValueError, match=r"sha256 must .*, got '\?'"):
        get(publisher, tmp_path, None)


def test_two_at_once(publisher: Publisher, tmp_path: Path) -> None:
    with (tmp_path / f"{NAME}.part").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(OSError, match=r"part must be written by one process at a time"):
            get(publisher, tmp_path)
    assert get(publisher, tmp_path).read_bytes() == BODY


@settings(max_examples=25, deadline=None)
@given(plan=st.lists(st.sampled_from(["500", "short", "whole", "odd", "416", "well"]), max_size=6))
def test_whatever_the_publisher_does_the_file_is_whole_or_absent(publisher: Publisher, tmp_path: Path,
                                                                 plan: list[str]) -> None:
    (tmp_path / NAME).unlink(missing_ok=True)
    publisher.plan = list(plan)
    try:
        path = get(publisher, tmp_path)
    except OSError:
        assert len(plan) >= 4 and not (tmp_path / NAME).exists()
    else:
        assert path.read_bytes() == BODY
    publisher.plan = []
    assert get(publisher, tmp_path).read_bytes() == BODY


def test_the_registry_names_readers_and_plain_files() -> None:
    assert list(TRACES) == sorted(TRACES)
    for trace in TRACES.values():
        assert trace.reader in READERS and trace.licence
        for file in trace.files:
            assert file.url.startswith("https://") and Path(file.name).name == file.name
            assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"trace must be one of azure-packing-2020, .*; got 'x'"):
        fetch("x", tmp_path)
    with pytest.raises(ValueError, match="n_tries must be at least 1, got 0"):
        fetch("dlrm", tmp_path, n_tries=0)
    with pytest.raises(ValueError, match=r"timeout_s must be at least 0\.001, got nan"):
        fetch("dlrm", tmp_path, timeout_s=float("nan"))


def test_several_files_come_into_one_folder(publisher: Publisher, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.features import fetch as module

    files = (RemoteFile("a.csv", publisher.url, HASH), RemoteFile("b.csv", publisher.url))
    monkeypatch.setattr(module, "TRACES", {"two": module.PublicTrace(files, "openb", "none stated")})
    assert fetch("two", tmp_path) == tmp_path / "two"
    assert names(tmp_path / "two") == ["a.csv", "b.csv", "b.csv.sha256"]
