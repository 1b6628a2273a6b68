"""A bundle as bytes in memory, known by the hash of its manifest: what was gated, registered and published is one."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sojourn.serving.errors import BundleError

MANIFEST = "MANIFEST.json"
"""The file of a bundle that names the sha256 of each other one."""
CANDIDATES = "candidates"
"""Folder of a store: the bundles of runs, whether they are promoted or not."""
BUNDLE_TAG = "manifest_sha256"
"""The tag of a run and of a registered version that says which bundle it has."""
_PLAIN = re.compile(r"\w[\w.-]*")
"""Names of files in the folder itself."""


class VersionSource(Protocol):
    """What fetching asks of a registry; OSError where it does not answer. `Tracker` is one."""

    def fetch(self, name: str, version: int, folder: Path) -> Path: ...


@dataclass(frozen=True, slots=True)
class BundleBytes:
    """The files of one bundle by name, MANIFEST.json among them, each as the manifest says."""

    files: Mapping[str, bytes]

    @property
    def sha256(self) -> str:
        """sha256 hex of the manifest, which holds those of all other files."""
        return hashlib.sha256(self.files[MANIFEST]).hexdigest()

    @classmethod
    def read(cls, folder: Path) -> BundleBytes:
        """From a folder, of a lifetime bundle or a usage section.

        BundleError naming the file that is missing or is not what the manifest says.
        """
        files = {MANIFEST: _content(folder, MANIFEST)}
        try:
            hashes = json.loads(files[MANIFEST])["sha256"]
            names = sorted(hashes)
            if not names or not all(_PLAIN.fullmatch(name) for name in names):
                raise ValueError(names)
            files |= {name: _content(folder, name) for name in names}
            wrong = [name for name in names if hashlib.sha256(files[name]).hexdigest() != hashes[name]]
        except BundleError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise BundleError(f"{folder / MANIFEST} must name the sha256 of each file, got {error!r}") from error
        if wrong:
            raise BundleError(f"{folder / wrong[0]} must have the sha256 that {MANIFEST} names, got another")
        return cls(files)

    def check(self, sha256: str, what: str) -> None:
        """BundleError unless this is the bundle of that hash. what: who holds it, for the message."""
        if self.sha256 != sha256:
            raise BundleError(f"{what} must hold the bundle that the gates judged ({sha256[:12]}), got "
                              f"{self.sha256[:12]}")


def _content(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise BundleError(f"{folder / name} must be a readable file of the bundle, got {error}") from error


def read_sha256(folder: Path) -> str | None:
    """The hash of the bundle in a folder; None where there is none, or not a whole one."""
    try:
        return BundleBytes.read(folder).sha256
    except BundleError:
        return None


@contextmanager
def fetched(registry: VersionSource, store: Path, name: str, version: int) -> Iterator[Path]:
    """A registered version's bundle in a folder of this block's own."""
    with tempfile.TemporaryDirectory(prefix=".fetch.", dir=store) as folder:
        yield registry.fetch(name, version, Path(folder))
