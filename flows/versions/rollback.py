"""Moving a registered model's champion to another version by decision of a person: alias, folder and a record of it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from sojourn.flows.outside.pull import ModelUri, find_version
from sojourn.flows.outside.tracked_names import CHAMPION, LEFT_TAG, ROLLBACK
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.store.lock import store_lock
from sojourn.flows.versions.bundle_bytes import BUNDLE_TAG, BundleBytes, fetched
from sojourn.flows.versions.gate_tags import failures
from sojourn.flows.versions.promotion_journal import (
    BUNDLES,
    RollbackOrder,
    carry_out_rollback,
    finish_orders,
    pending_rollback,
)
from sojourn.serving import load_bundle
from sojourn.serving.usage import USAGE_FILES, load_usage

_WHY_LIMIT = 500


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What a rollback left. before: the version that was champion, None = none. folder: holds the champion's bundle.

    despite: the gates that the version failed.
    """

    name: str
    before: int | None
    version: int
    folder: Path
    run_id: str
    despite: tuple[str, ...] = ()


def roll_back(tracker: Tracker, store: Path, name: str, to: int, why: str, *,
              is_despite_gates: bool = False) -> RolledBack:
    """Make a version the champion, publish its bundle, and record it in a run of MLflow (`kind` = rollback).

    The version that is left gets the tag `rolled_back` with the reason; the one that is taken loses it, and its alias
    `challenger`. The decision is written down first: killed at any moment after that, or where a step fails, this call
    again or the next command that opens the store finishes it. The same call after it was done returns what it left.
    is_despite_gates: a version that failed gates is taken, too, and the run names them.

    ValueError: no such model or version, no reason, the version failed gates, or is champion already. BundleError: its
    artifacts are gone, not what was registered, or cannot be served; nothing has changed then.
    """
    reason = " ".join(why.split())
    if not reason or len(reason) > _WHY_LIMIT:
        raise ValueError(f"why must be a reason of 1 to {_WHY_LIMIT} characters, got {len(reason)}")
    with store_lock(store), tracker.alone_with(name):
        finish_orders(store, tracker, lambda _: None)
        version = find_version(tracker, ModelUri(name, None, to))
        left_over = pending_rollback(store, name)
        if left_over is not None and left_over.to == version:
            carry_out_rollback(store, tracker, left_over)  # its error says why it cannot be finished
        before = tracker.version_of(name, CHAMPION)
        if before == version:
            done = _done(tracker, store, name, version, reason)
            if done is None:
                raise ValueError(f"to must be another version than the champion of {name}, got {version}")
            return done
        tags = tracker.version_tags(name, version)
        failed = failures(tags)
        if failed and not is_despite_gates:
            found = "; ".join(f"{gate} ({words})" for gate, words in failed.items())
            raise ValueError(f"to must be a version that passed its gates, got {version}, which failed {found}; "
                             "--despite-gates makes it the champion all the same")
        with fetched(tracker, store, name, version) as folder:
            held = BundleBytes.read(folder)
            (load_usage if (folder / USAGE_FILES[0]).is_file() else load_bundle)(folder)
        held.check(tags.get(BUNDLE_TAG, held.sha256), f"{name} version {version}")
        order = RollbackOrder(name, version, held.sha256, before, reason, ", ".join(failed), uuid.uuid4().hex)
        run = carry_out_rollback(store, tracker, order, held)
    return RolledBack(name, before, version, store / BUNDLES / name, run, tuple(failed))


def _done(tracker: Tracker, store: Path, name: str, version: int, why: str) -> RolledBack | None:
    """What the model's latest rollback left, if it was this one; None if it was another, or there was none."""
    for run in tracker.finished("kind", ROLLBACK):
        if run.tags.get("model") == name:
            if (run.tags.get("to"), run.tags.get("why")) != (str(version), why):
                return None
            before, despite = run.tags.get("from", ""), run.tags.get("despite_gates", "")
            return RolledBack(name, int(before) if before.isdecimal() else None, version, store / BUNDLES / name,
                              run.run_id, tuple(filter(None, despite.split(", "))))
    return None


def reason_left(tracker: Tracker, name: str, sha256: str) -> str | None:
    """Why a version of these bytes was rolled back from, and which; None where none was.

    sha256: of the bundle's manifest.
    """
    for record in tracker.version_records(name):
        if record.tags.get(BUNDLE_TAG) == sha256 and LEFT_TAG in record.tags:
            return f"version {record.version} holds the same bytes and was rolled back: {record.tags[LEFT_TAG]}"
    return None
