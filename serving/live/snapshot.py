"""A predictor's live owner history in a folder: what runs included, so that a restart goes on as if there were none.

`SNAPSHOT.json` says which files belong to it, by their hashes: `state-HASH.json` and `arrays-HASH.npz`. It is renamed
into place last, so the folder holds the former snapshot or the new one, whenever the writer ends. A folder without it
holds no snapshot yet. Data only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sojourn.publishing import sync
from sojourn.serving.bundle import FolderFiles, read_arrays, write_arrays
from sojourn.serving.errors import SnapshotError, shown

try:
    import fcntl
except ImportError:  # Windows: two writers of one folder are not told from each other there
    fcntl = None  # type: ignore[assignment]

FORMAT_VERSION = 1
MARK = "SNAPSHOT.json"
ENDINGS: Mapping[str, str] = {"state": ".json", "arrays": ".npz"}
N_BYTES_MAX: Mapping[str, int] = {MARK: 1 << 16, "state": 1 << 27, "arrays": 1 << 33}
"""The largest that each file may be."""
_OWN = re.compile(r"\.tmp-[0-9a-f]{16}|(state|arrays)-[0-9a-f]{16}\.(json|npz)")
_OF_MOUNTS = "lost+found"
"""A folder that the root of a file system holds."""
_HASH = re.compile(r"[0-9a-f]{64}")
_FILES = FolderFiles("snapshot", MARK, SnapshotError)
_HELD: set[int] = set()


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """What a snapshot holds: a JSON object, and arrays by name."""

    state: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]


def write_snapshot(folder: Path, content: SnapshotContent) -> None:
    """Put a snapshot into a folder of its own, in place of the one before; made where there is none.

    SnapshotError where the folder holds anything else, or another process is writing there. An OSError (no space, say)
    leaves the one before.
    """
    _make(folder)
    with _locked(folder):
        _check_own(folder)
        _sweep(folder)  # what a killed writer left
        try:
            hashes = {
                "arrays": _written(folder, "arrays", lambda file: write_arrays(file, content.arrays,
                                                                               is_compressed=False)),
                "state": _written(folder, "state", lambda file: _write_json(file, content.state)),
            }  # fmt: skip
            with _temporary(folder) as (path, file):
                _write_json(file, {"format": "sojourn-history", "format_version": FORMAT_VERSION, "sha256": hashes})
                _flush(file)
                sync(folder)  # the files that the mark names come first
                path.replace(folder / MARK)
            sync(folder)
        finally:
            _sweep(folder)


def read_snapshot(folder: Path) -> SnapshotContent | None:
    """The snapshot in a folder, verified; one that is replaced meanwhile is read as it was before or is after.

    None where none was completed yet: there is no folder, or no mark in it, and nothing else than a writer leaves.
    SnapshotError naming the file and the reason.
    """
    contents = _FILES.whole(folder, _verified)
    if contents is None:
        return None
    state = _FILES.document(contents["state"], "state.json")
    try:
        arrays = read_arrays(contents.pop("arrays"), N_BYTES_MAX["arrays"])
    except ValueError as error:
        raise SnapshotError(f"arrays.npz must hold the history's arrays, got {error}") from error
    return SnapshotContent(state, arrays)


def _verified(root: Path) -> dict[str, bytes] | None:
    if _is_missing(root):
        return None
    with _FILES.opened(root) as folder:
        if not _has_mark(root, folder):
            return None
        mark = _FILES.document(_FILES.read(root, folder, MARK, N_BYTES_MAX[MARK]), MARK)
        names = _names(mark)
        contents = {}
        for part, name in names.items():
            contents[part] = _FILES.read(root, folder, name, N_BYTES_MAX[part])
            found, expected = hashlib.sha256(contents[part]).hexdigest(), mark["sha256"][part]
            if found != expected:
                raise SnapshotError(f"{root / name}: sha256 must be {expected} ({MARK}), got {found}")
    return contents


def _names(mark: Mapping[str, Any]) -> dict[str, str]:
    """File names by part, made of the hashes in a mark; SnapshotError where it is none of this format."""
    if mark.get("format") != "sojourn-history" or mark.get("format_version") != FORMAT_VERSION:
        raise SnapshotError(f"{MARK}: format must be sojourn-history, version {FORMAT_VERSION}, got "
                            f"{shown(mark.get('format'))}, version {shown(mark.get('format_version'))}")
    hashes = mark.get("sha256")
    if (not isinstance(hashes, dict) or sorted(hashes) != sorted(ENDINGS)
            or not all(isinstance(value, str) and _HASH.fullmatch(value) for value in hashes.values())):
        raise SnapshotError(f"{MARK}: sha256 must be that of {' and '.join(ENDINGS)}, got {shown(hashes)}")
    return {part: f"{part}-{hashes[part][:16]}{ending}" for part, ending in ENDINGS.items()}


def _is_missing(root: Path) -> bool:
    try:
        root.lstat()
    except FileNotFoundError:
        return True
    except OSError as error:
        raise SnapshotError(f"{root} must be a readable folder, got {error.strerror}") from error
    return False


def _has_mark(root: Path, folder: int) -> bool:
    """Whether a snapshot was completed in the folder; SnapshotError where none was and it holds anything else."""
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise SnapshotError(f"{root} must be a readable folder, got {error.strerror}") from error
    if MARK in names:
        return True
    _check_names(root, names)
    return False


def _check_names(folder: Path, names: Iterable[str]) -> None:
    strangers = sorted(name for name in names if name not in (MARK, _OF_MOUNTS) and not _OWN.fullmatch(name))
    if strangers:
        raise SnapshotError(f"{folder} must be new, empty or a folder of snapshots only, got {shown(strangers[0])} "
                            f"there")


def _make(folder: Path) -> None:
    """Make the folder where there is none, to be there after a power cut."""
    if folder.is_dir():
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise SnapshotError(f"{folder} must be a folder, got something else there") from error
    sync(folder.parent)


def _check_own(folder: Path) -> None:
    """SnapshotError where the folder holds what is no snapshot of this format: it is not ours to write to."""
    _check_names(folder, (path.name for path in folder.iterdir()))
    mark = _mark(folder)
    if mark is not None:
        _names(mark)


def _mark(folder: Path) -> dict[str, Any] | None:
    """What the folder's mark says; None where there is none, or none that can be read."""
    try:
        with _FILES.opened(folder) as opened:
            return _FILES.document(_FILES.read(folder, opened, MARK, N_BYTES_MAX[MARK]), MARK)
    except SnapshotError:
        return None


def _sweep(folder: Path) -> None:
    """Remove what no snapshot needs; nothing where the mark is there and cannot be read."""
    mark = _mark(folder)
    if mark is None and (folder / MARK).exists():
        return
    kept = set() if mark is None else {*_names(mark).values()}
    for path in folder.iterdir():
        if _OWN.fullmatch(path.name) and path.name not in kept:
            path.unlink()


def _written(folder: Path, part: str, write: Callable[[BinaryIO], object]) -> str:
    """The hash of a file that is written and named after it, and will be there after a power cut."""
    with _temporary(folder) as (path, file):
        write(file)
        _flush(file)
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()
        path.replace(folder / f"{part}-{found[:16]}{ENDINGS[part]}")
    return found


def _write_json(file: BinaryIO, document: Mapping[str, Any]) -> None:
    file.write((json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())


@contextlib.contextmanager
def _temporary(folder: Path) -> Iterator[tuple[Path, Any]]:
    path = folder / f".tmp-{secrets.token_hex(8)}"
    with path.open("x+b") as file:
        yield path, file


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The folder is this writer's until it ends, killed or not; SnapshotError where it is another's."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    _HELD.add(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SnapshotError(f"{folder} must be written by one predictor at a time, got another that is "
                                f"writing") from error
        yield
    finally:
        _HELD.discard(descriptor)
        os.close(descriptor)


def _close_in_child() -> None:
    """A child would keep a lock that its parent was killed with."""
    while _HELD:
        os.close(_HELD.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
