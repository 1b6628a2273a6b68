"""What a run does first: it finishes what killed runs began, and removes what they left."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from sojourn.flows.outside.run_artifacts import PROBE
from sojourn.flows.outside.tracked_names import CHALLENGER, CHAMPION
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.progress import console
from sojourn.flows.store.lock import store_lock
from sojourn.flows.store.processes import PROCESS_TAG, PROCESSES, forget, is_alive, since_s, tokens
from sojourn.flows.store.unsent_runs import unsent_orders
from sojourn.flows.versions.bundle_bytes import BUNDLE_TAG, CANDIDATES, MANIFEST, BundleBytes, fetched, read_sha256
from sojourn.flows.versions.promotion_journal import BUNDLES, PROMOTIONS, finish_orders
from sojourn.publishing import publish_files

_FOLDERS = ("bundles", "cells", "curves", "features", "parts", PROCESSES, PROMOTIONS, "traces")
_TEMPORARY = re.compile(r"\.(?P<of>.+)\.(?:[0-9a-f]{32}|[a-z0-9_]{8})(?:-journal|-wal|-shm)?|\.[0-9a-f]{32}\.json")
"""What `whole_file`, `new_database`, `publish_files`, `fetched` and `enter_store` call what is not done yet."""
_OF_ROOT = ("fetch", "fit", "mlflow.db", "optuna.db", "overview.png", "usage")
"""What is temporary in the store's own folder, which may hold other things."""
_RUN_ID = re.compile("[0-9a-f]{32}")
_UPLOADING = ".artifact.uploading.*"
"""What MLflow calls an artifact that it is still copying into the store's folder."""


def repair_store(store: Path, tracker: Tracker, names: Sequence[str] = (),
                 tell: Callable[[str], object] | None = None) -> None:
    """Leave a store as if no run had ever been killed. names: models whose champion is to be in `bundles`.

    Cut off promotions are finished; `bundles` gets each champion's bundle, also after somebody moved the alias by hand;
    runs of dead processes end as KILLED; their temporary files and candidates go. Nothing of a living process is
    touched. tell: called with a line for all that was done; default: the console.
    """
    tell = tell or _print
    with store_lock(store):
        finish_orders(store, tracker, tell)
        folder = store / BUNDLES
        known = [path.name for path in folder.glob("[!.]*")] if folder.is_dir() else []
        for name in dict.fromkeys((*names, *known)):
            _publish_champion(store, tracker, name, tell)
        _end_runs(store, tracker, tell)
        _sweep(store, tracker)


def _publish_champion(store: Path, tracker: Tracker, name: str, tell: Callable[[str], object]) -> None:
    version = tracker.version_of(name, CHAMPION)
    if version is None:
        return
    target = store / BUNDLES / name
    there = read_sha256(target)
    if version not in tracker.versions(name):
        tell(f"the alias {CHAMPION} of {name} must point at a registered version, got {version}, which is gone; "
             f"{target} stays as it was, and `sojourn rollback {name} --to VERSION --why WHY` moves it")
        return
    if tracker.version_of(name, CHALLENGER) == version:  # as somebody moved the alias in MLflow's page
        tracker.set_alias(name, CHAMPION, version)
        tell(f"version {version} of {name} is {CHAMPION}, so it is {CHALLENGER} no more")
    if there is not None and there == tracker.version_tags(name, version).get(BUNDLE_TAG):
        return
    try:
        with fetched(tracker, store, name, version) as fresh:
            held = BundleBytes.read(fresh)
        if held.sha256 != there:
            publish_files(target, held.files, MANIFEST)
            tell(f"{target} now holds the champion, version {version}")
    except (OSError, ValueError) as error:
        tell(f"{target} must hold the champion, version {version}, got {error}")


def _end_runs(store: Path, tracker: Tracker, tell: Callable[[str], object]) -> None:
    """End the runs whose process is dead. Those of another store, on a shared server, are left to that store."""
    is_own = tracker.uri.database is not None and tracker.uri.database.absolute().parent == store.absolute()
    known = set(tokens(store))
    kept = _kept(store)
    for run_id, tags in tracker.running().items():
        token = tags.get(PROCESS_TAG)
        if token is not None and (is_own or token in known) and not is_alive(store, token):
            for path in (store / "artifacts" / run_id).rglob(_UPLOADING):  # first: an ended run is not looked at again
                path.unlink(missing_ok=True)
            tracker.end(run_id, "KILLED")
            if run_id not in kept:  # it finished, and what becomes of it is told when it is sent
                host = tags.get("sojourn.host")
                where = "" if host in (None, socket.gethostname()) else f" on {host}"
                tell(f"run {run_id} ended as KILLED: its process {tags.get('sojourn.pid')}{where} is dead")
    for token in known:
        if not is_alive(store, token):
            forget(store, token)


def _sweep(store: Path, tracker: Tracker) -> None:
    """Remove temporary files that are older than every living process, and candidates of runs that have ended."""
    since = since_s(store)
    for path in store.glob(".*"):
        found = _TEMPORARY.fullmatch(path.name)
        if found is not None and found["of"] in _OF_ROOT:
            _remove_if_older(path, since)
    for path in (store / "artifacts").glob(f"{PROBE}*"):
        _remove_if_older(path, since)
    candidates = [path for path in (store / CANDIDATES).glob("[!.]*") if path.is_dir()]
    monitored = (store / "monitor").glob("[!.]*")
    for folder in (*(store / part for part in _FOLDERS), *candidates, *monitored):
        for path in folder.glob(".*"):
            if _TEMPORARY.fullmatch(path.name):
                _remove_if_older(path, since)
    for folder in candidates:
        sweep_candidates(store, tracker, folder.name)


def sweep_candidates(store: Path, tracker: Tracker, name: str) -> None:
    """Remove the candidates of a model whose runs have ended, but the challenger's and those of runs not sent yet."""
    folder = store / CANDIDATES / name
    left = [path for path in folder.glob("*") if _RUN_ID.fullmatch(path.name)]
    if not left:
        return
    version = tracker.version_of(name, CHALLENGER)
    kept = {*tracker.running(), *_kept(store), None if version is None else tracker.run_of(name, version)}
    for path in left:
        if path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)


def _kept(store: Path) -> set[str]:
    """The ids of the finished runs that are not sent yet."""
    return {order.parent.name for order in unsent_orders(store)}


def _remove_if_older(path: Path, since: float) -> None:
    with suppress(FileNotFoundError):
        if path.lstat().st_mtime < since:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def _print(line: str) -> None:
    console.print(f"[yellow]![/] {line}", soft_wrap=True)
