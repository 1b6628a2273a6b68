"""What must hold of a store after a full run, whatever happened before it. Read from outside, save for a predictor."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlparse

NAME = "sojourn-lifetime"
_PARTIAL = ("_alembic_tmp", ".uploading", ".partial", ".tmp")
N_CANDIDATES_MAX = 1
GATED_TAG = "manifest_sha256"
"""Of a run and of a version: the hash of the bundle that the gates saw."""


def problems(store: Path, name: str = NAME) -> list[str]:
    """What does not hold of a store at rest; none where all does."""
    found = []
    with closing(sqlite3.connect(f"{(store / 'mlflow.db').as_uri()}?mode=ro", uri=True)) as database:
        found += _database(database)
        champion = database.execute(
            "SELECT v.source, v.version, v.run_id FROM registered_model_aliases a JOIN model_versions v "
            "ON v.name = a.name AND v.version = a.version WHERE a.name = ? AND a.alias = 'champion'",
            (name,)).fetchone()
        stated = [] if champion is None else database.execute(
            "SELECT 'version', value FROM model_version_tags WHERE name = ? AND version = ? AND key = ? UNION ALL "
            "SELECT 'run', value FROM tags WHERE run_uuid = ? AND key = ?",
            (name, champion[1], GATED_TAG, champion[2], GATED_TAG)).fetchall()
    if champion is None:
        found.append("there is no champion")
    else:
        found += _served(store / "bundles" / name, _folder(champion[0]), stated)
    return found + _strays(store)


def served_problems(folder: Path) -> list[str]:
    """What a scheduler that watches this folder would meet."""
    from sojourn.serving import BundleError, Predictor

    try:
        Predictor.load(folder)
    except (BundleError, OSError) as error:
        return [f"no predictor loads {folder.name}: {str(error)[:100]}"]
    return []


def _database(database: sqlite3.Connection) -> list[str]:
    found = []
    if (answer := database.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
        found.append(f"the database is damaged: {answer}")
    if (n := len(database.execute("SELECT * FROM alembic_version").fetchall())) != 1:
        found.append(f"alembic_version has {n} rows")
    tables = [table for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if left := [table for table in tables if table.startswith("_alembic_tmp")]:
        found.append(f"a migration's table is left: {left[0]}")
    if n := database.execute("SELECT count(*) FROM runs WHERE status = 'RUNNING'").fetchone()[0]:
        found.append(f"{n} MLflow runs are RUNNING")
    return found


def _served(bundle: Path, registered: Path, stated: Sequence[tuple[str, str]]) -> list[str]:
    """Whether the served folder holds the champion's bytes, and both what its gates saw."""
    from sojourn.serving.bundle import FILES, MANIFEST

    if not bundle.is_dir():
        return ["there is a champion and no folder to serve"]
    different = [file for file in (*FILES, MANIFEST) if _content(bundle / file) != _content(registered / file)]
    found = [f"the folder that is served is not the champion: {different[0]} differs"] if different else []
    found += served_problems(bundle)
    if not found:
        held = sha256((bundle / MANIFEST).read_bytes()).hexdigest()
        if not stated:
            found.append("nothing says which bundle the gates saw")
        found += [f"the {who} says {value[:12]} of what the gates saw, its bytes {held[:12]}" for who, value in stated
                  if value != held]
    return found


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _folder(source: str) -> Path:
    return Path(unquote(urlparse(source).path))


def _strays(store: Path) -> list[str]:
    """Files and folders that a run leaves only if it was ended in the midst."""
    found = [f"left behind: {path.relative_to(store)}" for path in sorted(store.rglob("*"))
             if path.name.startswith(".") or any(part in path.name for part in _PARTIAL)]
    n_kept = len(list((store / "candidates").rglob("MANIFEST.json")))
    if n_kept > N_CANDIDATES_MAX:
        found.append(f"{n_kept} candidates are kept")
    return found
