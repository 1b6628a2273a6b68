"""Reads the files of a folder that a publisher may replace meanwhile: all of one version, each of bounded size."""

from __future__ import annotations

import contextlib
import glob
import itertools
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

_Read = TypeVar("_Read")
_MARK_MAX = 1 << 16
_N_ATTEMPTS, _PAUSE_S = 20, 0.01
"""How often reading is tried while a publisher replaces the folder, and what is waited in between."""
_PATIENCE_S = 5.0
"""How long it is tried where a publisher has moved the old folder aside: on a busy machine it may stand still there."""


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """How folders of one kind are read. noun: what they are, in errors; mark: the file that vouches for the others.

    error: what is raised where a file is missing, no regular file, too large or not JSON.
    """

    noun: str
    mark: str
    error: type[ValueError]

    def whole(self, root: Path, read: Callable[[Path], _Read]) -> _Read:
        """What `read` gives of the folder; again where it fails and the folder was replaced or written to meanwhile.

        A publisher renames the old folder away, then a new one into its place, and removes the old. `read` opens
        the folder once, so no rename can mix two versions; where it is gone, it is waited for.
        """
        ends_s = time.monotonic() + _PATIENCE_S
        for n_attempts in itertools.count(1):
            before = self._stamp(root)
            try:
                return read(root)
            except self.error:
                if before is not None and before == self._stamp(root):
                    raise
                if n_attempts >= _N_ATTEMPTS and not (time.monotonic() < ends_s and _is_moved_aside(root)):
                    raise
            time.sleep(_PAUSE_S)
        raise AssertionError("counting does not end")

    @contextlib.contextmanager
    def opened(self, root: Path) -> Iterator[int]:
        """A descriptor of the folder, so that no rename changes it meanwhile."""
        try:
            folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL
            raise self._unreadable(root / self.mark, error) from error
        try:
            yield folder
        finally:
            os.close(folder)

    def read(self, root: Path, folder: int, name: str, limit: int) -> bytes:
        """A file's content; folder: the descriptor of the opened root. Links are followed, as mounts use them."""
        try:
            # a pipe would wait for its writer
            with os.fdopen(os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise self.error(f"{root / name} must be a readable file of the {self.noun}, got something else")
                if found.st_size > limit:
                    raise self.error(f"{root / name} must be at most {limit} bytes, got {found.st_size}")
                return file.read(found.st_size)
        except OSError as error:
            raise self._unreadable(root / name, error) from error

    def document(self, content: bytes, name: str) -> dict[str, Any]:
        """The JSON object that a file holds."""
        try:
            document = json.loads(content, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            raise self.error(f"{name} must be JSON, got {error}") from error
        if not isinstance(document, dict):
            raise self.error(f"{name} must hold a JSON object, got {type(document).__name__}")
        return document

    def _stamp(self, root: Path) -> object:
        """What differs once the folder is another or its mark says something else; None where there is none."""
        try:
            with self.opened(root) as folder:
                found = os.fstat(folder)
                return found.st_dev, found.st_ino, self.read(root, folder, self.mark, _MARK_MAX)
        except self.error:
            return None

    def _unreadable(self, path: Path, error: OSError | ValueError) -> ValueError:
        reason = error.strerror if isinstance(error, OSError) else error
        return self.error(f"{path} must be a readable file of the {self.noun}, got {reason}")


def _is_moved_aside(root: Path) -> bool:
    """True where a publisher that cannot exchange folders is between its two renames, or was killed there."""
    try:
        return not root.exists() and any(root.parent.glob(f".{glob.escape(root.name)}.old.*"))
    except (OSError, ValueError):
        return False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; readers differ in which of two values of one name they take."""
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError(f"an object of {len(pairs)} members, but {len(document)} names")
    return document
