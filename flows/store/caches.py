"""What is kept in a store and under which key: the source of the rooms that decide it, whole, with the libraries'
versions.

A list of sha256, written last, says that kept files are whole. What was read of a source that grows has a file of
its own."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import sojourn
from sojourn.publishing import whole_file

if TYPE_CHECKING:
    from sojourn.flows.settings.trace import TraceSource

_DISTRIBUTIONS = {"sklearn": "scikit-learn", "sksurv": "scikit-survival"}
"""Libraries that are installed under another name than they are imported by."""
_DECIDE_NOTHING = frozenset({
    "dask", "distributed", "matplotlib", "mlflow", "optuna", "plotly", "prefect", "pydantic", "pydantic_settings",
    "rich", "sojourn", "typer"})
"""Libraries that draw, report or orchestrate."""
_IMPORT = re.compile(r"^[ \t]*(?:from|import) (\w+)", re.MULTILINE)
CHECKSUMS = "checksums.json"
"""In a folder: the list of what else is in it."""
PARTS = "parts"
"""The folder in a store."""
_FORM = re.compile(r".+-[0-9a-f]{12}\.parquet")
_DAY_S = 86_400.0


def json_hash(value: object) -> str:
    """sha256 hex of JSON values."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


@cache
def source_hash(*rooms: str) -> str:
    """sha256 hex of all source of these rooms, with the versions of the libraries that it imports. Once a process.

    rooms: folders and files of ours, such as `features` or `flows/compare/grid.py`. An upgrade of a library makes kept
    things anew: a number may change with it. ValueError for a room that is not there.

    >>> source_hash("features") == source_hash("models")
    False
    """
    digest, imported = hashlib.sha256(), set[str]()
    for room in sorted(rooms):
        for file in _files(room):
            content = file.read_bytes()
            digest.update(f"{file.relative_to(_folder())} {len(content)}\n".encode() + content)
            imported |= set(_IMPORT.findall(content.decode(errors="ignore")))
    for library in sorted(imported - _DECIDE_NOTHING - sys.stdlib_module_names):
        digest.update(f"{library} {_version(library)}\n".encode())
    return digest.hexdigest()


@cache
def source_commit() -> str | None:
    """Git's commit of the source that runs, "-changed" after it where files differ from that; None for a package.

    None, too, where git is missing: a commit is told only of a checkout whose files these are.
    """
    folder = Path(sojourn.__file__).resolve().parent
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:  # a package within somebody's checkout
        return None
    commit, changes = _git(folder, "rev-parse", "HEAD"), _git(folder, "status", "--porcelain", "--untracked-files=no")
    return commit if not commit or not changes else f"{commit}-changed"


def _git(folder: Path, *asked: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", folder, *asked], capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def check_same_code(own: str, asked: str) -> None:
    """ValueError where this process, a worker, has another hash of the source than the process that gave out the work.

    >>> check_same_code("0" * 64, "f" * 64)
    Traceback (most recent call last):
    ValueError: a worker must have the code and libraries that asked for ffffffffffff, got those of 000000000000
    """
    if own != asked:
        raise ValueError(f"a worker must have the code and libraries that asked for {asked[:12]}, "
                         f"got those of {own[:12]}")


def _version(library: str) -> str:
    try:
        return version(_DISTRIBUTIONS.get(library, library))
    except PackageNotFoundError:
        return "none"


def _folder() -> Path:
    return Path(sojourn.__path__[0])


def _files(room: str) -> list[Path]:
    """Its source; where only byte code is installed, that."""
    place = _folder() / room
    found = [place] if place.is_file() else [path for path in sorted(place.rglob("*.py*"))
                                             if "__pycache__" not in path.parts]
    found = found or [path for path in [place.with_suffix(".pyc")] if path.is_file()]
    if not found:
        raise ValueError(f"a room must be a folder or file of the package, got {room!r}")
    return found


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


def parts_file(store: Path, source: TraceSource) -> Path | None:
    """The file of a source in a store; None where it has none, as the synthetic trace."""
    if source.file is None:
        return None
    key = json_hash([str(source.file.absolute()), source.reader])
    return store / PARTS / f"{source.name}-{key[:12]}.parquet"


def note_read(file: Path | None) -> None:
    """The source of this file was read now, also where nothing was new and the file stays as it is."""
    if file is not None and file.is_file():
        os.utime(file)


def unread_files(store: Path, days: float) -> Sequence[Path]:
    """Files of sources that were not read within so many days; nothing that Sojourn did not make."""
    since_s = time.time() - days * _DAY_S
    return [path for path in sorted((store / PARTS).glob("[!.]*")) if _FORM.fullmatch(path.name)
            and not path.is_symlink() and path.is_file() and path.stat().st_mtime <= since_s]
