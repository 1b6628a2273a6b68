"""Which code made a cached thing: a hash of the source of the modules that decide its content."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from pathlib import Path

DRAWS = ("page*.py", "pictures.py", "colours.py")
"""Names of files that only draw: nothing kept depends on them, and nothing that it depends on imports them."""


@cache
def source_hash(*modules: str) -> str:
    """sha256 hex of `source_files`.

    >>> source_hash("sojourn.features.augment") == source_hash("sojourn.features.augment")
    True
    """
    digest = hashlib.sha256()
    for path in source_files(*modules):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def source_files(*modules: str) -> list[Path]:
    """The source files of modules, and of all modules of a package among them but DRAWS; not of the packages in it."""
    files: list[Path] = []
    for name in modules:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ValueError(f"modules must be importable, got {name!r}")
        origin = Path(spec.origin)
        files += sorted(origin.parent.glob("*.py")) if origin.name == "__init__.py" else [origin]
    return [path for path in files if not any(path.match(name) for name in DRAWS)]
