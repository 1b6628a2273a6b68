"""Where a text file is not UTF-8: its line and byte, in long files as in short ones, and what to type."""

from pathlib import Path

import pytest

from sojourn.features.readers import _json_documents as json_documents
from sojourn.features.readers import read_trace

POD = (b'{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%b","uid":"u"}}}')


@pytest.mark.parametrize("block_bytes", [1, 2, 7, 64, 1 << 20])
def test_a_bad_byte_of_json_is_found_whatever_the_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                         block_bytes: int) -> None:
    monkeypatch.setattr(json_documents, "_BLOCK_BYTES", block_bytes)
    path = tmp_path / "watch.json"
    path.write_bytes(POD % "Zürich".encode() + b"\n" + POD % "ü€".encode() + b"\n" + POD % "bö".encode("latin1"))
    byte = POD.index(b"%b") + 2
    with pytest.raises(ValueError, match=rf"watch.json: line 3 must be UTF-8, got the byte 0xf6 as its byte {byte};"):
        read_trace("kubernetes", path)


def test_a_watch_that_was_cut_within_a_character_is_cut_short_only(tmp_path: Path) -> None:
    path = tmp_path / "watch.json"
    path.write_bytes(POD % b"a" + b"\n" + (POD % "ü".encode()).partition(b"\xbc")[0])
    assert [part.key for part in json_documents.json_parts(path)] == ["", "fault"]


def test_utf_16_is_named(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_bytes("JobID|State|Start|End|NCPUS\n".encode("utf-16"))
    with pytest.raises(ValueError, match=r"line 1 must be UTF-8, got the byte 0xff .* UTF-16 with: iconv -f utf-16"):
        read_trace("slurm", path)
