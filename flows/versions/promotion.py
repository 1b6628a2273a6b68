"""Opening a store, and the orders by which versions become champion.

A promotion or a rollback is written to disk as an order before its first step, and can be carried
out again from any step. If it is killed, the next run that opens the store finishes it, and removes
the files of killed runs. All steps are done under the store's lock. A bundle is bytes in memory,
identified by the hash of its manifest, so the judged, the registered and the published one are the
same. A command that only reads needs only the libraries of `sojourn[pull]`."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from sojourn.flows.console import console
from sojourn.flows.settings.store import StoreSettings
from sojourn.flows.store.caches import source_commit
from sojourn.flows.store.lock import store_id, store_lock, use_store, whoami
from sojourn.flows.tracking.client import PROBE, TrackingError, check_place
from sojourn.flows.tracking.databases import check_database, check_whole, ready_database
from sojourn.flows.tracking.tracker import CHALLENGER, CHAMPION, FAMILY, LEFT_TAG, RETRAIN, ROLLBACK, USAGE, Tracker
from sojourn.publishing import publish_files, sync, whole_file
from sojourn.serving.errors import BundleError

PROMOTIONS, BUNDLES = "promotions", "bundles"
_GONE = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "INVALID_STATE")
_ROLLBACKS = f"{ROLLBACK}-"
"""Prefix of the names of rollbacks' orders."""
_ORDER_TAG = "order"
"""Tag of a rollback's run: its order."""
_FOLDERS = ("bundles", "cells", "curves", "features", "parts", PROMOTIONS, "traces")
_TEMPORARY = re.compile(r"\.(?P<of>.+)\.(?:[0-9a-f]{32}|[a-z0-9_]{8})(?:-journal|-wal|-shm)?")
"""Temporary names of `whole_file`, `new_database`, `publish_files` and `fetched`."""
_OF_ROOT = ("fetch", "fit", "mlflow.db", "optuna.db", "overview.png", "usage")
"""Names of temporary files in the store's root, which may hold other files."""
STORE_TAG = "sojourn.store"
"""Tag of an MLflow run: the id of its store."""
_RUN_ID = re.compile("[0-9a-f]{32}")
_UPLOADING = ".artifact.uploading.*"
"""MLflow's name of an artifact while it is copied into the store's folder."""
MANIFEST = "MANIFEST.json"
"""The file of a bundle with the sha256 of each other file."""
CANDIDATES = "candidates"
"""Folder of a store: the bundles of runs, promoted or not."""
BUNDLE_TAG = "manifest_sha256"
"""Tag of a run and of a registered version: the hash of its bundle."""
_PLAIN = re.compile(r"\w[\w.-]*")
"""Names of files in the folder itself, without subfolders."""


@dataclass(frozen=True, slots=True)
class PromotionOrder:
    """The goal of a promotion: a version of `name` with a run's bundle, and an alias on it.

    source: the bundle's URI in the run. sha256: of its manifest. replaced: the version that the alias pointed at.
    is_pointed: the alias was moved; a later change by others stays. run_name: the run's new name; "" = as before.
    """

    name: str
    run_id: str
    source: str
    sha256: str
    alias: str
    replaced: int | None
    card: str
    tags: Mapping[str, str]
    is_pointed: bool = False
    run_name: str = ""

    @property
    def key(self) -> str:
        """The name of its file."""
        return self.run_id


@dataclass(frozen=True, slots=True)
class RollbackOrder:
    """A person's decision: version `to` of `name` is champion; no run promotes the other again.

    sha256: of the manifest of `to`. left: the version that the alias pointed at. despite: names of
    the gates that `to` failed. order_id: identifies its run. is_pointed: as of a promotion. is_succession: the version
    that is left was not at fault, and may come back.
    """

    name: str
    to: int
    sha256: str
    left: int | None
    why: str
    despite: str
    order_id: str
    is_pointed: bool = False
    is_succession: bool = False

    @property
    def key(self) -> str:
        """The name of its file: a later rollback of the model replaces it."""
        return f"{_ROLLBACKS}{self.name}"


def carry_out(store: Path, tracker: Tracker, order: PromotionOrder) -> int:
    """Write the order to disk and do its steps, even if some are done already; returns the version.

    BundleError if the version does not hold the bundle of the order: then no alias points at it,
    and the order is removed. After any other error it stays. The caller holds the store's lock.
    """
    _write(store, order)
    version = tracker.version_of_run(order.name, order.run_id)
    if version is None:
        version = tracker.register(order.name, order.source, order.run_id, order.card,
                                   {**order.tags, BUNDLE_TAG: order.sha256})
    try:
        bundle = held_bundle(store, tracker, order.name, version, order.sha256)
    except BundleError:
        _remove(store, order)
        raise
    if not order.is_pointed:
        # if it points elsewhere by now, somebody has moved it since the order was written
        if tracker.version_of(order.name, order.alias) == order.replaced:
            tracker.set_alias(order.name, order.alias, version)
        _write(store, replace(order, is_pointed=True))
    _publish(store, tracker, order, version, bundle)
    if order.run_name:
        with _run_may_be_gone():
            tracker.rename(order.run_id, order.run_name)
    _end(tracker, order.run_id)
    _remove(store, order)
    return version


def carry_out_rollback(store: Path, tracker: Tracker, order: RollbackOrder, bundle: BundleBytes | None = None) -> str:
    """Write the order to disk and do its steps, also repeatedly; the run that records it.

    bundle: the version's, if it was fetched and checked already. BundleError if the version no longer holds the bundle
    of the order, which is then removed. After any other error it stays. The caller holds the store's lock.
    """
    _write(store, order)
    run_id = _rollback_run(tracker, order)
    try:
        bundle = bundle or held_bundle(store, tracker, order.name, order.to, order.sha256)
    except BundleError:
        tracker.end(run_id, "FAILED")
        _remove(store, order)
        raise
    if not order.is_pointed:
        is_there = order.left is not None and order.left in tracker.versions(order.name)  # else the alias was lost
        if order.left is not None and is_there and not order.is_succession:
            tracker.tag_version(order.name, order.left, LEFT_TAG, order.why)
        tracker.untag_version(order.name, order.to, LEFT_TAG)
        # if it points elsewhere by now, somebody has moved it since the order was written
        if tracker.version_of(order.name, CHAMPION) == order.left:
            tracker.set_alias(order.name, CHAMPION, order.to)
        _write(store, replace(order, is_pointed=True))
    _publish(store, tracker, order, order.to, bundle)
    _end(tracker, run_id)
    _remove(store, order)
    return run_id


def held_bundle(store: Path, tracker: Tracker, name: str, version: int, sha256: str) -> BundleBytes:
    """A registered version's bundle; BundleError if it has another hash, OSError if it is gone."""
    with fetched(tracker, store, name, version) as folder:
        bundle = BundleBytes.read(folder)
    bundle.check(sha256, f"{name} version {version}")
    return bundle


def pending_rollback(store: Path, name: str) -> RollbackOrder | None:
    """The rollback of a model that was interrupted and is not finished yet."""
    file = store / PROMOTIONS / f"{_ROLLBACKS}{name}.json"
    with suppress(OSError, ValueError, TypeError):
        return RollbackOrder(**json.loads(file.read_text()))
    return None


def _rollback_run(tracker: Tracker, order: RollbackOrder) -> str:
    earlier = next((run.run_id for run in tracker.tagged(_ORDER_TAG, order.order_id)), None)
    tags = {"kind": ROLLBACK, "model": order.name, "from": str(order.left), "to": str(order.to), "why": order.why,
            **({"despite_gates": order.despite} if order.despite else {}), _ORDER_TAG: order.order_id}
    what = "promote" if order.is_succession else "rollback"
    return earlier or tracker.start(f"{what} {order.name} to {order.to}", tags)


def _publish(store: Path, tracker: Tracker, order: PromotionOrder | RollbackOrder, version: int,
             bundle: BundleBytes) -> None:
    target = store / BUNDLES / order.name
    if tracker.version_of(order.name, CHAMPION) == version and read_sha256(target) != order.sha256:
        publish_files(target, bundle.files, MANIFEST)


def _end(tracker: Tracker, run_id: str) -> None:
    with _run_may_be_gone():
        tracker.end(run_id)


@contextmanager
def _run_may_be_gone() -> Iterator[None]:
    """Ignore the error if somebody deleted the run: only its version is needed."""
    try:
        yield
    except TrackingError as error:
        if error.code not in _GONE:
            raise


def finish_orders(store: Path, tracker: Tracker, tell: Callable[[str], object]) -> None:
    """Carry out the orders of killed runs. The caller holds the store's lock, so none lives.

    tell: called with a line for each. An order that cannot be carried out now stays for later.
    """
    for file in sorted((store / PROMOTIONS).glob("[!.]*.json")):
        is_rollback = file.name.startswith(_ROLLBACKS)
        try:
            document = json.loads(file.read_text())
            if is_rollback:
                rollback = RollbackOrder(**document)
                carry_out_rollback(store, tracker, rollback)
                tell(f"finished the rollback of {rollback.name} to version {rollback.to}, which was cut off")
            else:
                order = PromotionOrder(**document)
                version = carry_out(store, tracker, order)
                tell(f"finished the promotion of {order.name} version {version}, which was cut off")
        except (OSError, ValueError, TypeError) as error:
            what = ROLLBACK if is_rollback else "promotion"
            tell(f"the {what} in {file} was cut off and cannot be finished now: {error}")


def _write(store: Path, order: PromotionOrder | RollbackOrder) -> None:
    file = _file(store, order)
    with whole_file(file) as temporary:
        temporary.write_text(json.dumps(asdict(order), indent=1) + "\n")


def _remove(store: Path, order: PromotionOrder | RollbackOrder) -> None:
    file = _file(store, order)
    file.unlink(missing_ok=True)
    sync(file.parent)


def _file(store: Path, order: PromotionOrder | RollbackOrder) -> Path:
    return store / PROMOTIONS / f"{order.key}.json"


def repair_store(store: Path, tracker: Tracker, names: Sequence[str] = (),
                 tell: Callable[[str], object] | None = None) -> None:
    """Undo the effects of killed runs on a store; from now on this process uses it.

    names: models whose lock this process holds, and whose champion is to be in `bundles`. Interrupted promotions are
    finished; `bundles` gets each champion's bundle, also after somebody moved the alias by hand. If no other process
    uses the store, its open runs end as KILLED, and temporary files and candidates are removed; else only the trainings
    of `names` end. tell: called with a line for each change; default: the console.
    """
    tell = tell or _print
    with store_lock(store):
        finish_orders(store, tracker, tell)
        folder = store / BUNDLES
        known = [path.name for path in folder.glob("[!.]*")] if folder.is_dir() else []
        for name in dict.fromkeys((*names, *known)):
            _publish_champion(store, tracker, name, tell)
        if use_store(store):
            _end_runs(store, tracker, tell)
            _sweep(store, tracker)
        elif names:
            _end_runs(store, tracker, tell, names)


def _publish_champion(store: Path, tracker: Tracker, name: str, tell: Callable[[str], object]) -> None:
    version = tracker.version_of(name, CHAMPION)
    if version is None:
        return
    target = store / BUNDLES / name
    served_sha256 = read_sha256(target)
    if version not in tracker.versions(name):
        tell(f"the alias {CHAMPION} of {name} must point at a registered version, got {version}, which is gone; "
             f"{target} stays as it was, and `sojourn model rollback {name} --to VERSION --why WHY` moves it")
        return
    if tracker.version_of(name, CHALLENGER) == version:  # somebody moved the alias on MLflow's page
        tracker.set_alias(name, CHAMPION, version)
        tell(f"version {version} of {name} is {CHAMPION}, so it is {CHALLENGER} no more")
    if served_sha256 is not None and served_sha256 == tracker.version_tags(name, version).get(BUNDLE_TAG):
        return
    try:
        with fetched(tracker, store, name, version) as fresh:
            bundle = BundleBytes.read(fresh)
        if bundle.sha256 != served_sha256:
            publish_files(target, bundle.files, MANIFEST)
            tell(f"{target} now holds the champion, version {version}")
    except (OSError, ValueError) as error:
        tell(f"{target} must hold the champion, version {version}, got {error}")


def _end_runs(store: Path, tracker: Tracker, tell: Callable[[str], object], names: Sequence[str] = ()) -> None:
    """End the store's open runs: all are dead. names: only trainings of these models."""
    own_store = store_id(store)
    for run_id, tags in tracker.running().items():
        if tags.get(STORE_TAG) != own_store or (names and (tags.get("kind") not in (FAMILY, RETRAIN, USAGE)
                                                           or tags.get("model") not in names)):
            continue
        for path in (store / "artifacts" / run_id).rglob(_UPLOADING):  # first: an ended run is not checked again
            path.unlink(missing_ok=True)
        tracker.end(run_id, "KILLED")
        host = tags.get("sojourn.host")
        place = "" if host in (None, socket.gethostname()) else f" on {host}"
        tell(f"run {run_id} ended as KILLED: its process {tags.get('sojourn.pid')}{place} is dead")


def _sweep(store: Path, tracker: Tracker) -> None:
    """Remove temporary files, and candidates of runs that have ended. No other process uses the store."""
    for path in store.glob(".*"):
        match = _TEMPORARY.fullmatch(path.name)
        if match is not None and match["of"] in _OF_ROOT:
            _drop(path)
    for path in (store / "artifacts").glob(f"{PROBE}*"):
        _drop(path)
    candidates = [path for path in (store / CANDIDATES).glob("[!.]*") if path.is_dir()]
    monitored = (store / "monitor").glob("[!.]*")
    for folder in (*(store / part for part in _FOLDERS), *candidates, *monitored):
        for path in folder.glob(".*"):
            if _TEMPORARY.fullmatch(path.name):
                _drop(path)
    for folder in candidates:
        sweep_candidates(store, tracker, folder.name)


def sweep_candidates(store: Path, tracker: Tracker, name: str) -> None:
    """Remove the candidates of a model's ended runs, except the challenger's."""
    folder = store / CANDIDATES / name
    folders = [path for path in folder.glob("*") if _RUN_ID.fullmatch(path.name)]
    if not folders:
        return
    version = tracker.version_of(name, CHALLENGER)
    protected = {*tracker.running(), None if version is None else tracker.run_of(name, version)}
    for path in folders:
        if path.name not in protected:
            shutil.rmtree(path, ignore_errors=True)


def _drop(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _print(line: str) -> None:
    console.print(f"[yellow]![/] {line}")


def open_store(settings: StoreSettings, names: Sequence[str] = ()) -> Tracker:
    """The tracker of a run that writes, in a store that this process uses from now on.

    The store is repaired first. names: models whose lock this process holds, and whose champion is
    to be in `bundles`. ValueError or OSError, without a change, if artifacts can't be kept.
    """
    artifacts = settings.store / "artifacts"
    if settings.mlflow_uri.database is not None:  # before a test file is written: the folder may link to another store
        check_whole(settings.mlflow_uri.database, artifacts)
    if not settings.mlflow_uri.is_server:  # before a database is made, which fixes the place
        # under the lock, so that no other process removes the test file; without a store there is no lock
        with store_lock(settings.store) if settings.store.is_dir() else nullcontext():
            check_place(settings.mlflow_uri, settings.artifacts or artifacts)
    if settings.mlflow_uri.database is not None:  # before this process uses the store: an upgrade needs it alone
        ready_database(settings.mlflow_uri.database, artifacts)
    commit = source_commit()
    with store_lock(settings.store):
        own_store = store_id(settings.store)
    tags = {STORE_TAG: own_store, **{f"sojourn.{name}": str(value) for name, value in whoami().items()},
            **({} if commit is None else {"mlflow.source.git.commit": commit})}
    tracker = Tracker(settings.mlflow_uri, settings.artifacts or artifacts,
                      run_tags=tags)
    with store_lock(settings.store):
        tracker.check_artifacts()
    repair_store(settings.store, tracker, names)
    return tracker


def read_store(settings: StoreSettings, *, is_asked: bool = True) -> Tracker:
    """The tracker of a command that only reads; FileNotFoundError if there is no database yet.

    is_asked: False = a server need not answer yet.
    """
    if settings.mlflow_uri.database is not None:
        check_database(settings.mlflow_uri.database)
    return Tracker(settings.mlflow_uri, settings.artifacts or settings.store / "artifacts", is_asked=is_asked)


class VersionSource(Protocol):
    """The registry's methods for fetching; OSError if it does not answer. `Tracker` is one."""

    def fetch(self, name: str, version: int, folder: Path) -> Path: ...


@dataclass(frozen=True, slots=True)
class BundleBytes:
    """The files of one bundle by name, with MANIFEST.json, each with the hash in the manifest."""

    files: Mapping[str, bytes]

    @property
    def sha256(self) -> str:
        """sha256 hex of the manifest, which holds those of all other files."""
        return hashlib.sha256(self.files[MANIFEST]).hexdigest()

    @classmethod
    def read(cls, folder: Path) -> BundleBytes:
        """From a folder, of a lifetime bundle or a usage section.

        BundleError names the file that is missing or has another hash than in the manifest.
        """
        files = {MANIFEST: _content(folder, MANIFEST)}
        try:
            hashes = json.loads(files[MANIFEST])["sha256"]
            names = sorted(hashes)
            if not names or not all(_PLAIN.fullmatch(name) for name in names):
                raise ValueError(names)
            files |= {name: _content(folder, name) for name in names}
            wrong = [name for name in names if hashlib.sha256(files[name]).hexdigest() != hashes[name]]
        except BundleError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise BundleError(f"{folder / MANIFEST} must name the sha256 of each file, got {error!r}") from error
        if wrong:
            raise BundleError(f"{folder / wrong[0]} must have the sha256 that {MANIFEST} names, got another")
        return cls(files)

    def check(self, sha256: str, what: str) -> None:
        """BundleError unless this is the bundle of that hash. what: its holder, for the message."""
        if self.sha256 != sha256:
            raise BundleError(f"{what} must hold the bundle that the gates judged ({sha256[:12]}), got "
                              f"{self.sha256[:12]}")


def _content(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise BundleError(f"{folder / name} must be a readable file of the bundle, got {error}") from error


def read_sha256(folder: Path) -> str | None:
    """The hash of the bundle in a folder; None if there is none, or not a whole one."""
    try:
        return BundleBytes.read(folder).sha256
    except BundleError:
        return None


@contextmanager
def fetched(registry: VersionSource, store: Path, name: str, version: int) -> Iterator[Path]:
    """A registered version's bundle in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix=".fetch.", dir=store) as folder:
        yield registry.fetch(name, version, Path(folder))
