"""Removing what a store no longer needs: artifacts of old runs, caches, and room that SQLite no longer uses.

What serves, may be rolled back to, is compared with, runs, or is recent stays whole. What is registered stays in
MLflow: parameters, main measures, gates and reasons of every version are kept, and a version whose artifacts were
removed says so. The runs of single families, which hold most rows, go with their run. A version is marked before the
first byte goes, a run when the last has gone: a cleaning that is killed is finished by the next one."""

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
from sojourn.flows.versions.version_list import failed_gates

_FOLDER_FORMS = {"features": re.compile(r".+-[0-9a-f]{12}-[0-9a-f]{8}"), "traces": re.compile(r".+-[0-9a-f]{12}")}
"""Names of folders that Sojourn makes in its caches: they end in their key, and hold a list of checksums."""
_FILE_FORMS = {
    "cells": re.compile(r"(?P<entry>[0-9a-f]{64})\.(?:json|npz)"),
    "curves": re.compile(r"(?P<entry>.+-[0-9a-f]{24})\.(?:json|npz)"),
    "features": re.compile(r"(?P<entry>.+-[0-9a-f]{12}-[0-9a-f]{8})\.(?:json|parquet|history\.npz)"),
}
"""Names of files that Sojourn makes there."""
CACHES = tuple(sorted({*_FOLDER_FORMS, *_FILE_FORMS}))
_DATABASES = ("mlflow.db", "optuna.db", "prefect/prefect.db")
_BEGUN = "begun"
_FREE_SHARE = 0.25
"""A database is written anew where more of it than this is free."""
_DAY_MS = 86_400_000
_BEST = ("best.accuracy", "best.placement")


@dataclass(frozen=True, slots=True)
class Removable:
    """What a cleaning removes. what: its kind, for people. place: its path or URI. run: whose artifacts these are."""

    what: str
    place: str
    n_bytes: int
    run: RunRecord | None = None


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """All that may go now, or went; a line for each kind of thing that must wait, and for each that would not go."""

    found: tuple[Removable, ...]
    waiting: tuple[str, ...]
    failed: tuple[str, ...] = ()

    @property
    def n_bytes(self) -> int:
        """Bytes in all."""
        return sum(each.n_bytes for each in self.found)


def plan_cleaning(store: Path, tracker: Tracker, settings: RetentionSettings) -> CleaningPlan:
    """What a cleaning would remove now, largest first; nothing is changed.

    Caches and databases wait while another process uses the store. On a tracking server or a shared database only runs
    of models that this store has published or judged are looked at.
    """
    with store_lock(store):
        return _planned(store, tracker, settings)


def _planned(store: Path, tracker: Tracker, settings: RetentionSettings) -> CleaningPlan:
    own = tracker.uri.database is not None and tracker.uri.database.absolute().parent == store.absolute()
    known = {path.name for part in (BUNDLES, CANDIDATES) for path in (store / part).glob("[!.]*")}
    names = None if own else sorted(known)
    found = []
    for run in ended_runs_to_empty(tracker, settings, names):
        is_done = run.tags.get(CLEANED_TAG, _BEGUN) != _BEGUN
        if is_done and local_folder(run.artifact_uri) is None:
            continue  # a server is not asked for the artifacts of each run that ever was
        n_bytes = artifact_bytes(tracker.uri, run.artifact_uri)
        if n_bytes > 0 or run.parent is not None or run.tags.get(CLEANED_TAG) == _BEGUN:
            kind = "artifacts" if run.parent is None else "run and artifacts"
            found.append(Removable(f"{kind} of {run.name}", run.artifact_uri, n_bytes, run))
    caches = [Removable(f"cache {part}", str(path), folder_bytes(path)) for part in CACHES
              for path in _old(store / part, settings.keep_caches)]
    caches += [Removable(f"cache {PARTS}", str(path), folder_bytes(path))
               for path in unread_files(store, settings.keep_parts_days)]
    free = [Removable("free room", str(file), n_bytes) for file, n_bytes in _roomy(store)]
    waiting = []
    if (caches or free) and not is_alone(store):
        waiting = ["caches and databases wait: another process uses the store"]
        caches, free = [], []
    return CleaningPlan(tuple(sorted((*found, *caches, *free), key=lambda each: -each.n_bytes)), tuple(waiting))


def clean(store: Path, tracker: Tracker, settings: RetentionSettings,
          tell: Callable[[Removable], object] = lambda _: None, *, shown: CleaningPlan | None = None) -> CleaningPlan:
    """Remove what `plan_cleaning` finds, under the store's lock; returns what was removed. tell: called before each.

    shown: nothing goes that is not in this plan, which somebody has agreed to; None = all that is found.
    What cannot be removed is named in `failed`; the others go.
    """
    done, failed = [], []
    with store_lock(store):
        plan = _planned(store, tracker, settings)
        agreed = plan if shown is None else shown
        places = {each.place for each in agreed.found}
        for each in plan.found:
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
            for file, _ in _roomy(store):  # rows that went leave room
                with suppress(OSError):  # a page of MLflow holds it: the next cleaning finds it again
                    vacuum(file)
    return CleaningPlan(tuple(done), plan.waiting, tuple(failed))


def _roomy(store: Path) -> list[tuple[Path, int]]:
    """The store's databases of which much is free, and how many bytes."""
    found = [(store / name, free_bytes(store / name)) for name in _DATABASES]
    return [(file, n_bytes) for file, n_bytes in found if n_bytes > _FREE_SHARE * folder_bytes(file)]


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
            # under a temporary name: nobody reads half of it, and the next command removes what a kill left
            shutil.rmtree(path.rename(path.with_name(f".{path.name}.{uuid.uuid4().hex}")))
        else:
            path.unlink(missing_ok=True)


def _old(folder: Path, n_kept: int) -> Sequence[Path]:
    """A cache's files and folders, but those of the newest `n_kept` entries; an entry is all of one key."""
    entries: dict[str, list[Path]] = {}
    for path in folder.glob("[!.]*"):
        entry = _entry(path)
        if entry is not None:
            entries.setdefault(entry, []).append(path)
    by_age = sorted(entries.values(), key=lambda paths: -max(path.stat().st_mtime for path in paths))
    return [path for paths in by_age[n_kept:] for path in sorted(paths, key=lambda path: path.suffix != ".json")]


def _entry(path: Path) -> str | None:
    """The entry that a path in a cache's folder is of; None for what is no cache's: other files, folders and links."""
    if path.is_symlink():
        return None
    cache = path.parent.name
    if path.is_dir():
        form = _FOLDER_FORMS.get(cache)
        return path.name if form is not None and form.fullmatch(path.name) and (path / CHECKSUMS).is_file() else None
    form = _FILE_FORMS.get(cache)
    found = None if form is None else form.fullmatch(path.name)
    return None if found is None else found["entry"]


def kept_versions(aliases: Mapping[str, int], records: Sequence[VersionRecord], keep_runs: int) -> set[int]:
    """The versions of a model whose artifacts are kept.

    Those with an alias; those that a version with an alias names as the best so far; the newest `keep_runs`; and the
    newest `keep_runs` that passed every gate, which a rollback would take.
    """
    newest = sorted(records, key=lambda record: -record.version)
    passed = [record for record in newest if not failed_gates(record.tags)]
    kept = {*aliases.values(), *(record.version for record in (*newest[:keep_runs], *passed[:keep_runs]))}
    named = {value for record in records if record.version in set(aliases.values())
             for tag, value in record.tags.items() if tag in _BEST}
    return kept | {int(value) for value in named if value.isdecimal()}


def ended_runs_to_empty(tracker: Tracker, settings: RetentionSettings, names: Iterable[str] | None) -> list[RunRecord]:
    """Runs whose artifacts may go, with their children, oldest first.

    names: only runs of these models, as on a server that others use, too; None = all. Never one that has not ended, or
    ended within `keep_days`.
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
        if kind in (STUDY, COMPARISON):  # `sojourn results` reads the latest that finished
            kept_runs |= {run.run_id for run in [each for each in of_group if each.status == "FINISHED"][:1]}
    since_ms = time.time() * 1000 - settings.keep_days * _DAY_MS
    going = {run.run_id for run in runs if run.run_id in candidates - kept_runs and run.status != "RUNNING"
             and run.ended_ms is not None and run.ended_ms < since_ms}
    return sorted((run for run in runs if (run.parent or run.run_id) in going and run.status != "RUNNING"),
                  key=lambda run: (run.start_ms, run.run_id))
