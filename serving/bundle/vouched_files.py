"""The files of a folder that its MANIFEST.json vouches for: names, sizes and hashes are checked before any is used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.serving.bundle.folder_files import FolderFiles
from sojourn.serving.errors import BundleError, shown

MANIFEST = "MANIFEST.json"
MANIFEST_N_BYTES_MAX = 1 << 16
_N_DIGITS = 64


@dataclass(frozen=True, slots=True)
class VouchedFiles:
    """How folders of one kind are read. noun: what they are, in errors. format_version: the only one that is read.

    n_bytes_max: name of each file that a folder must hold, beside its manifest -> the largest that it may be.
    """

    noun: str
    format_version: int
    n_bytes_max: Mapping[str, int]

    def read(self, folder: Path) -> dict[str, bytes]:
        """The files by name, MANIFEST.json among them; all of one version where the folder is replaced meanwhile.

        Raises BundleError naming the file and the reason: missing, too large, wrong hash, wrong version, malformed.
        """
        return self._files.whole(folder, self._verified)

    def version(self, folder: Path) -> str:
        """The version of a folder whose files are those that its manifest vouches for; BundleError if not."""
        return version_of(self.read(folder)[MANIFEST])

    def document(self, content: bytes, name: str) -> dict[str, Any]:
        """The JSON object that a file holds."""
        return self._files.document(content, name)

    @property
    def _files(self) -> FolderFiles:
        return FolderFiles(self.noun, MANIFEST, BundleError)

    def _verified(self, root: Path) -> dict[str, bytes]:
        files, names = self._files, list(self.n_bytes_max)
        with files.opened(root) as folder:
            contents = {MANIFEST: files.read(root, folder, MANIFEST, MANIFEST_N_BYTES_MAX)}
            document = files.document(contents[MANIFEST], MANIFEST)
            version, hashes = document.get("format_version"), document.get("sha256")
            if version != self.format_version:
                raise BundleError(f"{MANIFEST}: format_version must be {self.format_version}, got {shown(version)}; "
                                  f"make the {self.noun} anew")
            if not isinstance(hashes, dict) or sorted(hashes) != sorted(names):
                raise BundleError(f"{MANIFEST}: sha256 must name exactly {', '.join(names)}")
            for name in names:
                expected = hashes[name]
                if not isinstance(expected, str) or len(expected) != _N_DIGITS:
                    raise BundleError(f"{MANIFEST}: sha256 of {name} must be {_N_DIGITS} digits, got {shown(expected)}")
                contents[name] = files.read(root, folder, name, self.n_bytes_max[name])
                found = hashlib.sha256(contents[name]).hexdigest()
                if found != expected:
                    raise BundleError(f"{name}: sha256 must be {expected} ({MANIFEST}), got {found}")
        return contents


def manifest_of(contents: Mapping[str, bytes], format_version: int) -> bytes:
    """The MANIFEST.json that vouches for these files, by name."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    return (json.dumps({"format_version": format_version, "sha256": hashes}, indent=1, sort_keys=True) + "\n").encode()


def version_of(manifest: bytes) -> str:
    """The version that a MANIFEST.json stands for: the first 12 hex digits of its sha256."""
    return hashlib.sha256(manifest).hexdigest()[:12]
