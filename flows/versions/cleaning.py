"""Cleaning removes artifacts of old runs, caches, and room that SQLite no longer uses.

Runs and versions that serve, may be rolled back to, are compared with, run or are recent stay
whole. Registered versions stay in MLflow with their parameters, main measures, gates and reasons; a
tag says if their artifacts were removed. The runs of single families, with most of the rows, are
removed with their run. A version is marked before the first byte is removed, a run after the last:
the next cleaning finishes one that was killed."""

from __future__ import annotations

import re
import shutil
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sojourn.flows.settings.store import RetentionSettings
from sojourn.flows.store.caches import CHECKSUMS, PARTS, unread_files
from sojourn.flows.store.lock import is_alone, store_lock
from sojourn.flows.tracking.client import artifact_bytes, folder_bytes, local_folder, remove_artifacts
from sojourn.flows.tracking.databases import free_bytes, vacuum
from sojourn.flows.tracking.tracker import CLEANED_TAG, COMPARISON, STUDY, RunRecord, Tracker, VersionRecord
from sojourn.flows.versions.promotion import BUNDLES, CANDIDATES
from sojourn.flows.versions.version_list import failures

_FOLDER_FORMS = {"features": re.compile(r".+-[0-9a-f]{12}-[0-9a-f]{8}"), "traces": re.compile(r".+-[0-9a-f]{12}")}
"""Names of Sojourn's folders in its caches: they end in their key, and have a list of checksums."""
_FILE_FORMS = {
    "cells": re.compile(r"(?P<entry>[0-9a-f]{64})\.(?:json|npz)"),
    "curves": re.compile(r"(?P<entry>.+-[0-9a-f]{24})\.(?:json|npz)"),
    "features": re.compile(r"(?P<entry>.+-[0-9a-f]{12}-[0-9a-f]{8})\.(?:json|parquet|history\.npz)"),
}
"""Names of Sojourn's files there."""
CACHES = tuple(sorted({*_FOLDER_FORMS, *_FILE_FORMS}))
_DATABASES = ("mlflow.db", "optuna.db", "prefect/prefect.db")
_BEGUN = "begun"
_FREE_SHARE = 0.25
"""A database is rewritten if a larger share of it is free."""
_DAY_MS = 86_400_000
_BEST = ("best.accuracy", "best.placement")


@dataclass(frozen=True, slots=True)
class Removable:
    """One thing to remove. what: its kind, in words. place: path or URI. run: of artifacts."""

    what: str
    place: str
    n_bytes: int
    run: RunRecord | None = None


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """Items that are or were removable; a line for each kind that waits, and for each failure."""

    items: tuple[Removable, ...]
    waiting: tuple[str, ...]
    failed: tuple[str, ...] = ()

    @property
    def n_bytes(self) -> int:
        """Bytes of all items."""
        return sum(each.n_bytes for each in self.items)


def plan_cleaning(store: Path, tracker: Tracker, settings: RetentionSettings) -> CleaningPlan:
    """The items that a cleaning would remove now, largest first; nothing is changed.

    Caches and databases wait while another process uses the store. On a tracking server or a shared database only runs
    of models that this store has published or judged may be removed.
    """
    with store_lock(store):
        return _planned(store, tracker, settings)


def _planned(store: Path, tracker: Tracker, settings: RetentionSettings) -> CleaningPlan:
    is_own_database = tracker.uri.database is not None and tracker.uri.database.absolute().parent == store.absolute()
    known = {path.name for part in (BUNDLES, CANDIDATES) for path in (store / part).glob("[!.]*")}
    names = None if is_own_database else sorted(known)
    items = []
    for run in ended_runs_to_empty(tracker, settings, names):
        is_done = run.tags.get(CLEANED_TAG, _BEGUN) != _BEGUN
        if is_done and local_folder(run.artifact_uri) is None:
            continue  # a server is not asked for the artifacts of all earlier runs
        n_bytes = artifact_bytes(tracker.uri, run.artifact_uri)
        if n_bytes > 0 or run.parent is not None or run.tags.get(CLEANED_TAG) == _BEGUN:
            kind = "artifacts" if run.parent is None else "run and artifacts"
            items.append(Removable(f"{kind} of {run.name}", run.artifact_uri, n_bytes, run))
    caches = [Removable(f"cache {part}", str(path), folder_bytes(path)) for part in CACHES
              for path in _old(store / part, settings.keep_caches)]
    caches += [Removable(f"cache {PARTS}", str(path), folder_bytes(path))
               for path in unread_files(store, settings.keep_parts_days)]
    free = [Removable("free room", str(file), n_bytes) for file, n_bytes in _roomy(store)]
    waiting = []
    if (caches or free) and not is_alone(store):
        waiting = ["caches and databases wait: another process uses the store"]
        caches, free = [], []
    return CleaningPlan(tuple(sorted((*items, *caches, *free), key=lambda each: -each.n_bytes)), tuple(waiting))


def clean(store: Path, tracker: Tracker, settings: RetentionSettings,
          tell: Callable[[Removable], object] = lambda _: None, *, shown: CleaningPlan | None = None) -> CleaningPlan:
    """Remove the items of `plan_cleaning`, under the store's lock. tell: called before each.

    shown: only items of this plan, which the user has confirmed, are removed; None = all. `failed`
    names those that cannot be removed.
    """
    done, failed = [], []
    with store_lock(store):
        plan = _planned(store, tracker, settings)
        confirmed = plan if shown is None else shown
        places = {each.place for each in confirmed.items}
        for each in plan.items:
            if each.place not in places:
                continue
            tell(each)
            try:
                _remove(tracker, each)
            except OSError as error:
                failed.append(f"{each.what} must be removable, got {each.place}: {error}")
            else:
                done.append(each)
        if is_alone(store):
            for file, _ in _roomy(store):  # removed rows leave room
                with suppress(OSError):  # MLflow's page holds the file: the next cleaning tries again
                    vacuum(file)
    return CleaningPlan(tuple(done), plan.waiting, tuple(failed))


def _roomy(store: Path) -> list[tuple[Path, int]]:
    """The store's databases with much free room, and how many bytes."""
    sizes = [(store / name, free_bytes(store / name)) for name in _DATABASES]
    return [(file, n_bytes) for file, n_bytes in sizes if n_bytes > _FREE_SHARE * folder_bytes(file)]


def _remove(tracker: Tracker, each: Removable) -> None:
    if each.run is not None:
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M UTC}"
        for name, version in tracker.versions_of_run(each.run.run_id):
            tracker.tag_version(name, version, CLEANED_TAG, now)
        tracker.tag(each.run.run_id, CLEANED_TAG, _BEGUN)
        remove_artifacts(tracker.uri, each.place)
        folder = local_folder(each.place)
        if folder is not None:
            with suppress(OSError):  # MLflow's folder of the run, now empty
                folder.parent.rmdir()
        if each.run.parent is None:
            tracker.tag(each.run.run_id, CLEANED_TAG, now)
        else:
            tracker.delete_run(each.run.run_id)
    elif each.what != "free room":
        path = Path(each.place)
        if path.is_dir():
            # under a temporary name: nobody reads half of it, and after a kill the next command removes the rest
            shutil.rmtree(path.rename(path.with_name(f".{path.name}.{uuid.uuid4().hex}")))
        else:
            path.unlink(missing_ok=True)


def _old(folder: Path, n_kept: int) -> Sequence[Path]:
    """A cache's files and folders but those of the newest `n_kept` entries; an entry is a key's."""
    entries: dict[str, list[Path]] = {}
    for path in folder.glob("[!.]*"):
        entry = _entry(path)
        if entry is not None:
            entries.setdefault(entry, []).append(path)
    by_age = sorted(entries.values(), key=lambda paths: -max(path.stat().st_mtime for path in paths))
    return [path for paths in by_age[n_kept:] for path in sorted(paths, key=lambda path: path.suffix != ".json")]


def _entry(path: Path) -> str | None:
    """The entry of a path in a cache's folder; None for other files, folders and links."""
    if path.is_symlink():
        return None
    cache = path.parent.name
    if path.is_dir():
        form = _FOLDER_FORMS.get(cache)
        return path.name if form is not None and form.fullmatch(path.name) and (path / CHECKSUMS).is_file() else None
    form = _FILE_FORMS.get(cache)
    match = None if form is None else form.fullmatch(path.name)
    return None if match is None else match["entry"]


def kept_versions(aliases: Mapping[str, int], records: Sequence[VersionRecord], keep_runs: int) -> set[int]:
    """The versions of a model that keep their artifacts.

    Those with an alias; those that a version with an alias names as the best so far; the newest `keep_runs`; and the
    newest `keep_runs` that passed every gate, for a rollback.
    """
    newest = sorted(records, key=lambda record: -record.version)
    passed = [record for record in newest if not failures(record.tags)]
    kept = {*aliases.values(), *(record.version for record in (*newest[:keep_runs], *passed[:keep_runs]))}
    named = {value for record in records if record.version in set(aliases.values())
             for tag, value in record.tags.items() if tag in _BEST}
    return kept | {int(value) for value in named if value.isdecimal()}


def ended_runs_to_empty(tracker: Tracker, settings: RetentionSettings, names: Iterable[str] | None) -> list[RunRecord]:
    """Runs with artifacts that may be removed, with their children, oldest first.

    names: only runs of these models, as on a shared server; None = all. Never one that has not
    ended, or ended within `keep_days`.
    """
    runs = tracker.run_records()
    known = tracker.models() if names is None else [name for name in names if tracker.aliases(name) is not None]
    kept_runs: set[str] = set()
    candidates: set[str] = set()
    for name in known:
        records = tracker.version_records(name)
        kept = kept_versions(tracker.aliases(name) or {}, records, settings.keep_runs)
        kept_runs |= {record.run_id for record in records if record.version in kept}
        candidates |= {record.run_id for record in records}
    groups: dict[tuple[str, ...], list[RunRecord]] = defaultdict(list)
    for run in runs:  # latest first
        kind = run.tags.get("kind", "")
        if run.parent is None and run.run_id not in candidates and (names is None or run.tags.get("model") in known):
            groups[kind, run.tags.get("trace", ""), run.tags.get("comparison", "")].append(run)
    for (kind, *_), of_group in groups.items():
        candidates |= {run.run_id for run in of_group}
        kept_runs |= {run.run_id for run in of_group[:settings.keep_runs]}
        if kind in (STUDY, COMPARISON):  # `python -m studies results` reads the latest that finished
            kept_runs |= {run.run_id for run in [each for each in of_group if each.status == "FINISHED"][:1]}
    since_ms = time.time() * 1000 - settings.keep_days * _DAY_MS
    removable = {run.run_id for run in runs if run.run_id in candidates - kept_runs and run.status != "RUNNING"
                 and run.ended_ms is not None and run.ended_ms < since_ms}
    return sorted((run for run in runs if (run.parent or run.run_id) in removable and run.status != "RUNNING"),
                  key=lambda run: (run.start_ms, run.run_id))
