"""What says that kept files are whole: a list of their sha256, written after them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from sojourn.publishing import whole_file

CHECKSUMS = "checksums.json"
"""In a folder: the list of what else is in it."""


def write_checksums(listing: Path, files: Sequence[Path]) -> None:
    """List the sha256 of files that lie beside `listing`; from then on they are whole."""
    document = {file.name: _sha256(file) for file in files}
    with whole_file(listing) as temporary:
        temporary.write_text(json.dumps(document, indent=1) + "\n")


def are_whole(listing: Path, files: Sequence[Path] = ()) -> bool:
    """True where all that is listed lies beside `listing` as it was written, `files` among it.

    False also where there is no listing, or not a whole one.
    """
    try:
        document = json.loads(listing.read_text())
        return ({file.name for file in files} <= document.keys()
                and all(_sha256(listing.with_name(name)) == sha256 for name, sha256 in document.items()))
    except (OSError, ValueError, AttributeError):
        return False


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
