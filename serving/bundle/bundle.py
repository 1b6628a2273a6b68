"""The bundle: a folder of data that crosses from training to serving, each file with its hash.

`model.onnx` the forest; `schema.json` what its inputs and scores mean; `history.npz` the owner history at the
end of the trace, test window included (plain arrays, never pickle); `MANIFEST.json` the sha256 of each.
Loading runs no code.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sojourn.serving.bundle.array_archive import read_arrays
from sojourn.serving.bundle.folder_files import FolderFiles
from sojourn.serving.bundle.schema import FORMAT_VERSION, Schema
from sojourn.serving.checks import folder_path
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.inputs import HistoryState

MANIFEST = "MANIFEST.json"
FILES = ("model.onnx", "schema.json", "history.npz")
N_BYTES_MAX = {MANIFEST: 1 << 16, "model.onnx": 1 << 27, "schema.json": 1 << 23, "history.npz": 1 << 29}
"""The largest that each file may be."""
_N_DIGITS = 64
_FILES = FolderFiles("bundle", MANIFEST, BundleError)


@dataclass(frozen=True, slots=True)
class Bundle:
    """A verified bundle in memory. version: the first 12 hex digits of the manifest's sha256."""

    schema: Schema
    model: bytes
    history: HistoryState
    version: str


def load_bundle(folder: str | Path) -> Bundle:
    """Read and verify a bundle folder; one that is replaced meanwhile is read as it was before or is after.

    Raises BundleError naming the file and the reason: missing, wrong hash, wrong version, truncated, malformed.
    """
    contents = _FILES.whole(folder_path(folder, "folder"), _verified)
    schema = Schema.from_document(_FILES.document(contents["schema.json"], "schema.json"))
    try:
        history = HistoryState.from_arrays(schema.encoder.history, read_arrays(contents["history.npz"]))
    except Exception as error:  # whatever arrays that do not fit make numpy raise
        raise BundleError(f"history.npz must hold the schema's history, got {type(error).__name__}: {error}") from error
    return Bundle(schema, contents["model.onnx"], history, version_of(contents[MANIFEST]))


def check_files(folder: str | Path) -> str:
    """The version of a bundle's folder whose files are those that its manifest vouches for; BundleError if not."""
    return version_of(_FILES.whole(Path(folder), _verified)[MANIFEST])


def version_of(manifest: bytes) -> str:
    """The version that a MANIFEST.json stands for: the first 12 hex digits of its sha256."""
    return hashlib.sha256(manifest).hexdigest()[:12]


def _verified(root: Path) -> dict[str, bytes]:
    """The files of the folder, as its manifest vouches for them."""
    with _FILES.opened(root) as folder:
        contents = {MANIFEST: _FILES.read(root, folder, MANIFEST, N_BYTES_MAX[MANIFEST])}
        document = _FILES.document(contents[MANIFEST], MANIFEST)
        version, hashes = document.get("format_version"), document.get("sha256")
        if version != FORMAT_VERSION:
            raise BundleError(f"MANIFEST.json: format_version must be {FORMAT_VERSION}, got {shown(version)}")
        if not isinstance(hashes, dict) or sorted(hashes) != sorted(FILES):
            raise BundleError(f"MANIFEST.json: sha256 must name exactly {', '.join(FILES)}")
        for name in FILES:
            expected = hashes[name]
            if not isinstance(expected, str) or len(expected) != _N_DIGITS:
                raise BundleError(f"MANIFEST.json: sha256 of {name} must be {_N_DIGITS} digits, got {shown(expected)}")
            contents[name] = _FILES.read(root, folder, name, N_BYTES_MAX[name])
            found = hashlib.sha256(contents[name]).hexdigest()
            if found != expected:
                raise BundleError(f"{name}: sha256 must be {expected} (MANIFEST.json), got {found}")
    return contents
