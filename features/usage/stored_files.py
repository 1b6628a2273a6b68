"""Files of a store with a digest of each, so that a damaged, edited, mixed or replaced store is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

MARK = "usage.json"
REQUESTS = "requests.parquet"
FORMAT_VERSION = 2


def part_name(part: int) -> str:
    """The file of the requests of one part.

    >>> part_name(3)
    'part-0003.parquet'
    """
    return f"part-{part:04d}.parquet"


def write_header(folder: Path, header: Mapping[str, Any]) -> None:
    """Write `usage.json` last: the header, the digest of every other file of the folder, and its own digest."""
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.glob("*.parquet"))}
    whole = {**header, "format_version": FORMAT_VERSION, "files": digests}
    (folder / MARK).write_text(json.dumps({**whole, "digest": _digest(whole)}, indent=2, sort_keys=True) + "\n")


def read_header(folder: Path) -> dict[str, Any]:
    """The header of a store; FileNotFoundError without one, ValueError of another version or where it was changed."""
    path = folder / MARK
    if not path.is_file():
        raise FileNotFoundError(f"usage folder must hold {MARK}, got {str(folder)!r}")
    try:
        header = json.loads(path.read_text())
        version = header["format_version"]
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} must be a usage header, got {error}") from error
    if version != FORMAT_VERSION:
        raise ValueError(f"{path}: format_version must be {FORMAT_VERSION}, got {version!r}; store the series again")
    rest = {name: value for name, value in header.items() if name != "digest"}
    if header.get("digest") != _digest(rest):
        raise ValueError(f"{path} must be as it was written, got a changed one; store the series again")
    return header


def read_stored(folder: Path, name: str, header: Mapping[str, Any]) -> pa.Table:
    """The table in a file of a store; FileNotFoundError where it is gone, ValueError where it is another.

    The bytes that are checked are the bytes that are read: a store that is replaced meanwhile is noticed.
    """
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"usage folder must hold {name}, got {str(folder)!r} without it")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != header["files"].get(name):
        raise ValueError(f"{path} must be the file that was stored with its {MARK}, got another: it is damaged, or the "
                         f"store was replaced after it was opened")
    return pq.read_table(pa.BufferReader(content), use_threads=False)


def check_only_ours(folder: Path) -> None:
    """ValueError where a folder holds anything but a store: replacing the store would delete it."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"{folder} must be a folder, got a file")
    odd = [path.name for path in sorted(folder.iterdir())
           if path.name not in (MARK, REQUESTS) and not path.match("part-????.parquet")]
    if odd:
        raise ValueError(f"{folder} must be new, empty or a folder with {MARK} and its files alone, "
                         f"got something else there: {odd[0]!r}")


def _digest(header: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
