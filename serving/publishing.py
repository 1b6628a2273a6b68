"""Puts a bundle's files into a folder all at once, so that no reader of it sees half of two versions."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sojourn.serving.bundle import MANIFEST
from sojourn.serving.exchange import exchange


def publish_files(target: Path, contents: Mapping[str, bytes]) -> None:
    """Put a bundle's files, by name, into a folder; a reader sees the older one or this one.

    Raises ValueError where the folder holds anything else than a bundle, OSError where the disk fails: it then stays
    as it was. Where the system cannot exchange folders, a reader for a moment sees none; a crash in that moment leaves
    the older one beside it, in `.NAME.old.*`.
    """
    is_empty = target.is_dir() and not any(target.iterdir())
    if target.exists() and not is_empty and not (target / MANIFEST).is_file():
        raise ValueError(f"{target} must be new, empty or a folder with {MANIFEST}, got something else there")
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        for name, content in contents.items():
            (fresh / name).write_bytes(content)
            _sync(fresh / name)
        fresh.chmod(0o755)  # a temporary folder is its maker's only
        _rename(fresh, target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _rename(fresh: Path, target: Path) -> None:
    if not target.exists():
        fresh.rename(target)
        return
    if exchange(fresh, target):
        shutil.rmtree(fresh, ignore_errors=True)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
    target.rename(old / "was")
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
