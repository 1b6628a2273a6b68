"""The state of an admission on disk: numbers and text only, checked by their hashes."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.publishing import publish_files

FORMAT, FORMAT_VERSION = "sojourn-admission", 2
MARK, ARRAY = "admission.json", "state.npy"
COUNTS = ("now_s", "n_offered", "n_accepted")


@dataclass(frozen=True, slots=True)
class Rules:
    """What an admission was made with. has_power: a power profile."""

    n_cores: int
    allocation: str
    acceptance: str
    slack: float | None
    is_backfilling: bool
    has_power: bool


def write_state(folder: Path, rules: Rules, counts: Mapping[str, int], jobs: Sequence[Sequence[Any]], state: np.ndarray,
                journal: str | None) -> None:
    """Writes all files at once; a folder that holds anything else is refused with ValueError.

    jobs: that are accepted and not over, as rows that JSON can hold. journal: name of an empty file, if there is one.
    """
    with io.BytesIO() as stream:
        np.save(stream, state, allow_pickle=False)
        array = stream.getvalue()
    header: dict[str, Any] = {"format": FORMAT, "format_version": FORMAT_VERSION, "rules": asdict(rules),
                              "counts": dict(counts), "jobs": list(jobs), "sha256": {ARRAY: _sha256(array)}}
    header["sha256"]["header"] = _header_hash(header)
    text = json.dumps(header, indent=1, sort_keys=True) + "\n"
    empty = {} if journal is None else {journal: b""}
    publish_files(folder, {ARRAY: array, MARK: text.encode(), **empty}, MARK, others=())


def read_state(folder: Path) -> tuple[Rules, dict[str, int], list[list[Any]], np.ndarray]:
    """Rules, counts, jobs and array. FileNotFoundError without one, ValueError where anything is damaged."""
    mark, file = folder / MARK, folder / ARRAY
    if not mark.is_file():
        raise FileNotFoundError(f"{folder} must hold {MARK}, got none")
    try:
        header = json.loads(mark.read_bytes())
        version = (header["format"], header["format_version"])
        hashes = dict(header["sha256"])
        found = _header_hash(header)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{mark} must be the header of an admission, got {error}") from error
    if version != (FORMAT, FORMAT_VERSION):
        raise ValueError(f"{mark} must be of {FORMAT} {FORMAT_VERSION}, got {version[0]} {version[1]}")
    if hashes.get("header") != found:
        raise ValueError(f"{mark}: sha256 must be {hashes.get('header')}, got {found}")
    content = file.read_bytes()
    if _sha256(content) != hashes.get(ARRAY):
        raise ValueError(f"{file}: sha256 must be {hashes.get(ARRAY)} ({MARK}), got {_sha256(content)}")
    with io.BytesIO(content) as stream:
        state = np.load(stream, allow_pickle=False)
    counts = {name: int(header["counts"][name]) for name in COUNTS}
    return Rules(**header["rules"]), counts, header["jobs"], state


def _header_hash(header: Mapping[str, Any]) -> str:
    """Of all but itself."""
    others = {name: digest for name, digest in header["sha256"].items() if name != "header"}
    return _sha256(json.dumps({**header, "sha256": others}, sort_keys=True).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
