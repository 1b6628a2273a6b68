"""Which code and libraries made a cached thing: derived from the imports of what makes it, never listed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import sojourn
from sojourn.source_closure import NoSource, installed

Made = str | ModuleType | Callable[..., object]
"""What makes a thing: a function or class of ours, a module, or a module's name."""
_DISTRIBUTIONS = {"sklearn": "scikit-learn", "sksurv": "scikit-survival"}
"""Libraries that are installed under another name than they are imported by."""


@cache
def source_hash(*makers: Made, alone: tuple[str, ...] = ()) -> str:
    """sha256 hex of the source of makers' modules and all that these import of ours, with the libraries' versions.

    alone: modules whose own text counts, but not what they import: those that only bring the makers their inputs. An
    upgrade of a library that is imported there makes kept things anew: a number may change with it. Computed once a
    process.

    >>> from sojourn.features.creation import augment_uptime
    >>> source_hash(augment_uptime) == source_hash("sojourn.features.creation")
    True
    """
    names = sorted({_module(maker) for maker in makers})
    digest = hashlib.sha256()
    try:
        digest.update(installed().hash(*names).encode())
        for name in sorted(alone):
            digest.update(installed().closure(name)[name])
        libraries = installed().libraries(*names)
    except NoSource:
        return _hash_of_all()
    for library in libraries:
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


def _module(maker: Made) -> str:
    if isinstance(maker, str):
        return maker
    return maker.__name__ if isinstance(maker, ModuleType) else maker.__module__


def _version(library: str) -> str:
    try:
        return version(_DISTRIBUTIONS.get(library, library))
    except PackageNotFoundError:
        return "none"


def _hash_of_all() -> str:
    """Where only byte code is installed, what imports what can't be read: everything counts, libraries included."""
    digest = hashlib.sha256(sys.version.encode())
    for folder in sorted(Path(sojourn.__path__[0]).iterdir()):
        for file in sorted(folder.rglob("*.pyc")) if folder.is_dir() else []:
            digest.update(file.read_bytes())
    for library in sorted({"numpy", "pandas", "numba", "scipy", "lightgbm", *_DISTRIBUTIONS}):
        digest.update(_version(library).encode())
    return digest.hexdigest()
