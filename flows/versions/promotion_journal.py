"""A promotion or a rollback as an order: written down before its first step, it can be carried out again from any step.

Killed in between, the next run that opens the store goes on with it. All steps are done under the store's lock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sojourn.flows.outside.tracked_names import CHAMPION, LEFT_TAG, ROLLBACK
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.outside.tracking_client import TrackingError
from sojourn.flows.versions.bundle_bytes import BUNDLE_TAG, MANIFEST, BundleBytes, fetched, read_sha256
from sojourn.publishing import publish_files, sync, whole_file
from sojourn.serving.errors import BundleError

PROMOTIONS, BUNDLES = "promotions", "bundles"
_GONE = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "INVALID_STATE")
_ROLLBACKS = f"{ROLLBACK}-"
"""How names of rollbacks' orders begin."""
_ORDER_TAG = "order"
"""Of a rollback's run: the order that it records."""


@dataclass(frozen=True, slots=True)
class PromotionOrder:
    """What a promotion is to leave: a version of `name` with a run's bundle, and an alias that points at it.

    source: the bundle's URI in the run. sha256: of its manifest. replaced: the version that the alias pointed at.
    is_pointed: the alias was moved; whoever moves it after that knows better. run_name: what the run is called from
    then on; "" = as before.
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
    """What a person decided: version `to` of `name` is champion, and the one that is left is not taken again by itself.

    sha256: of the manifest of `to`. left: the version that the alias pointed at. despite: the gates that `to` failed,
    as names. order_id: finds its run. is_pointed: as of a promotion.
    """

    name: str
    to: int
    sha256: str
    left: int | None
    why: str
    despite: str
    order_id: str
    is_pointed: bool = False

    @property
    def key(self) -> str:
        """The name of its file: of two rollbacks of a model the later one counts."""
        return f"{_ROLLBACKS}{self.name}"


def carry_out(store: Path, tracker: Tracker, order: PromotionOrder) -> int:
    """Write the order down and do its steps, whichever are done already; returns the version.

    BundleError where the version does not hold the bundle of the order: no alias then points at it, and the order is
    given up. After any other error it stays written down. The caller holds the store's lock.
    """
    _write(store, order)
    version = tracker.version_of_run(order.name, order.run_id)
    if version is None:
        version = tracker.register(order.name, order.source, order.run_id, order.card,
                                   {**order.tags, BUNDLE_TAG: order.sha256})
    try:
        held = held_bundle(store, tracker, order.name, version, order.sha256)
    except BundleError:
        _remove(store, order)
        raise
    if not order.is_pointed:
        # where it points elsewhere by now, somebody moved it on since the order was written
        if tracker.version_of(order.name, order.alias) == order.replaced:
            tracker.set_alias(order.name, order.alias, version)
        _write(store, replace(order, is_pointed=True))
    _publish(store, tracker, order, version, held)
    if order.run_name:
        with _run_may_be_gone():
            tracker.rename(order.run_id, order.run_name)
    _end(tracker, order.run_id)
    _remove(store, order)
    return version


def carry_out_rollback(store: Path, tracker: Tracker, order: RollbackOrder, held: BundleBytes | None = None) -> str:
    """Write the order down and do its steps, whichever are done already; returns the run that records it.

    held: the version's bundle, if it was fetched and checked already. BundleError where the version no longer holds
    the bundle of the order, which is then given up. After any other error it stays written down. The caller holds the
    store's lock.
    """
    _write(store, order)
    run_id = _rollback_run(tracker, order)
    try:
        held = held or held_bundle(store, tracker, order.name, order.to, order.sha256)
    except BundleError:
        tracker.end(run_id, "FAILED")
        _remove(store, order)
        raise
    if not order.is_pointed:
        if order.left is not None and order.left in tracker.versions(order.name):  # else the alias pointed nowhere
            tracker.tag_version(order.name, order.left, LEFT_TAG, order.why)
        tracker.untag_version(order.name, order.to, LEFT_TAG)
        # where it points elsewhere by now, somebody moved it on since the order was written
        if tracker.version_of(order.name, CHAMPION) == order.left:
            tracker.set_alias(order.name, CHAMPION, order.to)
        _write(store, replace(order, is_pointed=True))
    _publish(store, tracker, order, order.to, held)
    _end(tracker, run_id)
    _remove(store, order)
    return run_id


def held_bundle(store: Path, tracker: Tracker, name: str, version: int, sha256: str) -> BundleBytes:
    """A registered version's bundle; BundleError where it is not the one of that hash, OSError where it is gone."""
    with fetched(tracker, store, name, version) as folder:
        held = BundleBytes.read(folder)
    held.check(sha256, f"{name} version {version}")
    return held


def pending_rollback(store: Path, name: str) -> RollbackOrder | None:
    """The rollback of a model that was cut off and not finished yet."""
    file = store / PROMOTIONS / f"{_ROLLBACKS}{name}.json"
    with suppress(OSError, ValueError, TypeError):
        return RollbackOrder(**json.loads(file.read_text()))
    return None


def _rollback_run(tracker: Tracker, order: RollbackOrder) -> str:
    """The order's run: the one that an earlier try began, or a new one."""
    begun = next((run.run_id for run in tracker.tagged(_ORDER_TAG, order.order_id)), None)
    tags = {"kind": ROLLBACK, "model": order.name, "from": str(order.left), "to": str(order.to), "why": order.why,
            **({"despite_gates": order.despite} if order.despite else {}), _ORDER_TAG: order.order_id}
    return begun or tracker.start(f"rollback {order.name} to {order.to}", tags)


def _publish(store: Path, tracker: Tracker, order: PromotionOrder | RollbackOrder, version: int,
             held: BundleBytes) -> None:
    """The model's folder holds the version, if that is the champion."""
    target = store / BUNDLES / order.name
    if tracker.version_of(order.name, CHAMPION) == version and read_sha256(target) != order.sha256:
        publish_files(target, held.files, MANIFEST)


def _end(tracker: Tracker, run_id: str) -> None:
    with _run_may_be_gone():
        tracker.end(run_id)


@contextmanager
def _run_may_be_gone() -> Iterator[None]:
    """A run that somebody deleted is no reason to stop: its version is what counts."""
    try:
        yield
    except TrackingError as error:
        if error.code not in _GONE:
            raise


def finish_orders(store: Path, tracker: Tracker, tell: Callable[[str], object]) -> None:
    """Carry out what killed runs left written down. The caller holds the store's lock, so none of them lives.

    tell: called with a line for each. One that cannot be carried out now stays for a later run.
    """
    for file in sorted((store / PROMOTIONS).glob("[!.]*.json")):
        is_rollback = file.name.startswith(_ROLLBACKS)
        try:
            document = json.loads(file.read_text())
            if is_rollback:
                decided = RollbackOrder(**document)
                carry_out_rollback(store, tracker, decided)
                tell(f"finished the rollback of {decided.name} to version {decided.to}, which was cut off")
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
