"""Files that are plain or gzipped: what is read, and what a small gzip may not hold."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import sojourn.inflated as module
from sojourn.features.read_report import ReadLedger
from sojourn.features.readers import read_trace
from sojourn.features.readers._rows import BLOCK_BYTES, line_blocks
from sojourn.features.usage._columns import csv_columns, first_line
from sojourn.inflated import inflated, inflated_bytes


def bomb(head: bytes, piece: bytes, n: int) -> bytes:
    """A gzip of the head and n times the piece, in members of which each is compressed once."""
    n_together = next(each for each in (48, 2, 1) if n % each == 0)
    return gzip.compress(head) + (n // n_together) * gzip.compress(n_together * piece)


@pytest.mark.parametrize("is_gzip", [False, True])
def test_all_bytes_are_read_in_any_portions(tmp_path: Path, is_gzip: bool) -> None:
    text = bytes(range(256)) * 5_000
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(text[:600_000]) + gzip.compress(text[600_000:]) if is_gzip else text)
    with inflated(path) as source:
        portions = [source.read(1), source.read(900_000), source.read1(7), source.read(10**9), source.read(5)]
    assert b"".join(portions) == text == inflated_bytes(path, len(text))
    assert list(map(len, portions)) == [1, 900_000, 7, len(text) - 900_008, 0]
    with pytest.raises(ValueError, match=r"file: must .*, got more"):
        inflated_bytes(path, len(text) - 1)


@pytest.mark.parametrize("n_lost", [1, 9, 200])
def test_a_gzip_that_is_cut_is_refused(tmp_path: Path, n_lost: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(bytes(range(256)) * 100)[:-n_lost])
    with pytest.raises(ValueError, match=r"gzip must be whole, .* here"), inflated(path, lambda: " here") as s:
        s.read(10**9)


def test_a_gzip_holds_so_much_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "N_BYTES_FREE", 1 << 20)
    path = tmp_path / "file"
    path.write_bytes(bomb(b"", bytes(1 << 20), 4))  # 4 MiB in about 4 kB: 200 times that is 0.8 MB more
    with pytest.raises(ValueError, match=r"must hold at most 1 MiB and 200 times its own size, got [12],\d+,\d+"):
        inflated_bytes(path, 1 << 30)
    path.write_bytes(bomb(b"", bytes(1 << 20), 1))
    assert len(inflated_bytes(path, 1 << 30)) == 1 << 20


@pytest.mark.parametrize("reader", ["csv", "swf", "kubernetes", "openb", "openstack", "slurm"])
@pytest.mark.parametrize("piece", [b"9" * 65_536, b"9,9 9|9\n" * 8_192, b'"' + b"\n" * 65_535])
def test_every_reader_ends_early_in_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str,
                                           piece: bytes) -> None:
    """300 MiB in 300 kB; no reader sees more than a few MiB of it."""
    monkeypatch.setattr(module, "N_BYTES_FREE", 1 << 20)
    monkeypatch.setattr(module, "EXPANSION_MAX", 20)
    n_read = 0
    whole = module.InflatedFile.read1

    def counted(self: module.InflatedFile, n_bytes: int = 1 << 18) -> bytes:
        nonlocal n_read
        block = whole(self, n_bytes)
        n_read += len(block)
        return block

    monkeypatch.setattr(module.InflatedFile, "read1", counted)
    path = tmp_path / "bomb.gz"
    path.write_bytes(bomb(b"id,created,deleted\n", piece, 4_800))
    with pytest.raises(ValueError, match=r"bomb\.gz"):
        read_trace(reader, path)
    assert 0 < n_read < 16 << 20


def test_a_block_of_long_lines_ends_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    line = b"x" * 1_000_000 + b"\n"
    path.write_bytes(bomb(b"", line, 150))
    n_lines = [(first, len(lines)) for first, lines in line_blocks(path)]
    per_block = n_lines[0][1]
    assert (per_block - 1) * len(line) < BLOCK_BYTES + (1 << 18) and sum(n for _, n in n_lines) == 150
    assert [first for first, _ in n_lines] == [1 + per_block * idx for idx in range(len(n_lines))]


def test_usage_tables_are_read_under_the_bound_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "usage.csv"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 500_000))
    assert first_line(path) == "a,b"
    assert sum(len(columns["a"]) for _, columns in csv_columns(path, ["a", "b"], ReadLedger())) == 500_000
    monkeypatch.setattr(module, "N_BYTES_FREE", 1 << 20)
    monkeypatch.setattr(module, "EXPANSION_MAX", 20)
    with pytest.raises(ValueError, match=r"usage\.csv: gzip must hold at most 1 MiB and 20 times its own size"):
        list(csv_columns(path, ["a", "b"], ReadLedger()))
