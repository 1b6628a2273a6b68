"""What must hold of a store after a full run, whatever happened before it. Read from outside, save for a predictor."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlparse

from sojourn.flows.tracking.tracker import CLEANED_TAG

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
            "SELECT v.source FROM registered_model_aliases a JOIN model_versions v "
            "ON v.name = a.name AND v.version = a.version WHERE a.name = ? AND a.alias = 'champion'",
            (name,)).fetchone()
        versions = database.execute(
            "SELECT v.version, v.source, t.value, r.value FROM model_versions v "
            "LEFT JOIN model_version_tags t ON t.name = v.name AND t.version = v.version AND t.key = ? "
            "LEFT JOIN tags r ON r.run_uuid = v.run_id AND r.key = ? WHERE v.name = ?",
            (GATED_TAG, GATED_TAG, name)).fetchall()
        cleaned = {row[0] for row in database.execute(
            "SELECT version FROM model_version_tags WHERE name = ? AND key = ?", (name, CLEANED_TAG))}
    for version, source, *stated in versions:
        if version in cleaned:  # it says itself that its artifacts are gone
            continue
        found += _gated(f"version {version}", _folder(source), stated)
    if champion is None:
        found.append("there is no champion")
    else:
        found += _served(store / "bundles" / name, _folder(champion[0]))
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


def _gated(version: str, bundle: Path, stated: Sequence[str | None]) -> list[str]:
    """Whether a registered bundle is, by what its version and its run say, the one that the gates saw."""
    manifest = _content(bundle / "MANIFEST.json")
    if manifest is None:
        return [f"{version} has no bundle"]
    held = sha256(manifest).hexdigest()
    return [f"{version}'s {who} says {(value or 'nothing')[:12]} of what the gates saw, its bytes {held[:12]}"
            for who, value in zip(("tag", "run"), stated, strict=True) if value != held]


def _served(bundle: Path, registered: Path) -> list[str]:
    """Whether the served folder holds the champion's bytes, and a predictor loads it."""
    from sojourn.serving.bundle import FILES, MANIFEST

    if not bundle.is_dir():
        return ["there is a champion and no folder to serve"]
    different = [file for file in (*FILES, MANIFEST) if _content(bundle / file) != _content(registered / file)]
    found = [f"the folder that is served is not the champion: {different[0]} differs"] if different else []
    return found + served_problems(bundle)


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
