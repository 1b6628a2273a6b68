"""The state of an admission on disk: numbers and text only, checked by their hashes."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.inflated import inflated_bytes
from sojourn.publishing import publish_files
from sojourn.simulator.admission.jobs import MAX_TIME_S
from sojourn.simulator.whole_numbers import is_whole

FORMAT, FORMAT_VERSION = "sojourn-admission", 2
MARK, ARRAY = "admission.json", "state.npy"
N_BYTES_MAX = 1 << 30
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
    if max(len(text), len(array)) > N_BYTES_MAX:
        raise ValueError(f"jobs must take at most {N_BYTES_MAX >> 20} MiB, got {max(len(text), len(array)) >> 20}")
    empty = {} if journal is None else {journal: b""}
    publish_files(folder, {ARRAY: array, MARK: text.encode(), **empty}, MARK, others=())


def read_state(folder: Path) -> tuple[Rules, dict[str, int], list[list[Any]], np.ndarray]:
    """Rules, counts, jobs and array. FileNotFoundError without one, ValueError where anything is damaged."""
    mark, file = folder / MARK, folder / ARRAY
    if not mark.is_file():
        raise FileNotFoundError(f"{folder} must hold {MARK}, got none")
    try:
        header = json.loads(inflated_bytes(mark, N_BYTES_MAX))
        version = (header["format"], header["format_version"])
        hashes = header["sha256"]
        found = _header_hash(header)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{mark} must be the header of an admission, got {type(error).__name__}: {error}") from error
    if version != (FORMAT, FORMAT_VERSION):
        raise ValueError(f"{mark} must be of {FORMAT} {FORMAT_VERSION}, got "
                         f"{str(version[0])[:80]} {str(version[1])[:80]}")
    if hashes.get("header") != found:
        raise ValueError(f"{mark}: sha256 must be {str(hashes.get('header'))[:80]}, got {found}")
    if not file.is_file():
        raise FileNotFoundError(f"{folder} must hold {ARRAY}, got none")
    content = inflated_bytes(file, N_BYTES_MAX)
    if _sha256(content) != hashes.get(ARRAY):
        raise ValueError(f"{file}: sha256 must be {str(hashes.get(ARRAY))[:80]} ({MARK}), got "
                         f"{_sha256(content)}")
    try:
        with io.BytesIO(content) as stream:
            state = np.lib.format.read_array(stream, allow_pickle=False)
    except (ValueError, MemoryError, EOFError, OverflowError) as error:
        raise ValueError(f"{file} must be an array, got {error}") from error
    try:
        rules, jobs = Rules(**header["rules"]), header["jobs"]
        counts = {name: header["counts"][name] for name in COUNTS}
        is_good = all(is_whole(each, 0, 2**62) for each in counts.values()) and all(
            _is_job(job, rules.n_cores) for job in jobs)
        # each core that is always on stands in the array, so a lie about their number takes no memory
        is_good = is_good and is_whole(rules.n_cores, 1, MAX_TIME_S) and (
            rules.has_power or rules.n_cores <= state.shape[-1])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        is_good = False
    if not is_good:
        raise ValueError(f"{mark} must hold rules, counts and jobs that fit its array, got others")
    return rules, counts, jobs, state


def _is_job(row: Any, n_cores: int) -> bool:
    name, start_s, end_s, cores, deadline_s = row
    return isinstance(name, str) and all(is_whole(each, 0, 2**62) for each in (start_s, end_s, deadline_s)) and all(
        is_whole(core, 0, n_cores) for core in cores)


def journal_seed(folder: Path) -> int:
    """What a journal goes on from, so that one of another state is refused: CRC-32 of the header."""
    return zlib.crc32((folder / MARK).read_bytes())


def _header_hash(header: Mapping[str, Any]) -> str:
    """Of all but itself."""
    others = {name: digest for name, digest in header["sha256"].items() if name != "header"}
    return _sha256(json.dumps({**header, "sha256": others}, sort_keys=True).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
