"""Moving a registered model's champion to another version by decision of a person: alias, folder and a record of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sojourn.flows.outside.pull import ModelUri, find_version
from sojourn.flows.outside.tracked_names import CHAMPION
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.store.lock import store_lock
from sojourn.flows.versions.bundle_bytes import BUNDLE_TAG, BundleBytes, fetched
from sojourn.flows.versions.promotion_journal import BUNDLES, finish_orders
from sojourn.publishing import publish_files
from sojourn.serving import load_bundle
from sojourn.serving.bundle import MANIFEST
from sojourn.serving.usage import USAGE_FILES, load_usage

LEFT_TAG = "rolled_back"
"""On a version that was left for another one: why. The same bytes do not become champion again by themselves."""
_WHY_LIMIT = 500


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What a rollback left. before: the version that was champion, None = none. folder: holds the champion's bundle."""

    name: str
    before: int | None
    version: int
    folder: Path
    run_id: str


def roll_back(tracker: Tracker, store: Path, name: str, to: int, why: str) -> RolledBack:
    """Make a version the champion, publish its bundle, and record it in a run of MLflow (`kind` = rollback).

    The version that is left gets the tag `rolled_back` with the reason; the one that is taken loses it. Killed before
    the alias is moved, nothing has changed; killed after it, the next command that opens the store publishes
    the bundle.

    ValueError: no such model or version, no reason, or the version is champion already. BundleError: its artifacts are
    gone, not what was registered, or cannot be served; nothing has changed then.
    """
    reason = " ".join(why.split())
    if not reason or len(reason) > _WHY_LIMIT:
        raise ValueError(f"why must be a reason of 1 to {_WHY_LIMIT} characters, got {len(reason)}")
    with store_lock(store), tracker.alone_with(name):
        finish_orders(store, tracker, lambda _: None)
        version = find_version(tracker, ModelUri(name, None, to))
        before = tracker.version_of(name, CHAMPION)
        if before == version:
            raise ValueError(f"to must be another version than the champion of {name}, got {version}")
        with fetched(tracker, store, name, version) as folder:
            held = BundleBytes.read(folder)
            (load_usage if (folder / USAGE_FILES[0]).is_file() else load_bundle)(folder)
        held.check(tracker.version_tags(name, version).get(BUNDLE_TAG, held.sha256), f"{name} version {version}")
        tags = {"kind": "rollback", "model": name, "from": str(before), "to": str(version), "why": reason}
        with tracker.run(f"rollback {name} to {version}", tags) as run:
            tracker.set_alias(name, CHAMPION, version)
            target = store / BUNDLES / name
            publish_files(target, held.files, MANIFEST)
            if before is not None and before in tracker.versions(name):  # else the alias pointed nowhere
                tracker.tag_version(name, before, LEFT_TAG, reason)
            tracker.untag_version(name, version, LEFT_TAG)
    return RolledBack(name, before, version, target, run)


def reason_left(tracker: Tracker, name: str, sha256: str) -> str | None:
    """Why a version of these bytes was rolled back from, and which; None where none was.

    sha256: of the bundle's manifest.
    """
    for record in tracker.version_records(name):
        if record.tags.get(BUNDLE_TAG) == sha256 and LEFT_TAG in record.tags:
            return f"version {record.version} holds the same bytes and was rolled back: {record.tags[LEFT_TAG]}"
    return None
