"""A promotion as an order that is written down before its first step, and can be carried out again from any step.

Killed in between, the next run that opens the store goes on with it. All steps are done under the store's lock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sojourn.flows.outside.tracked_names import CHAMPION
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.outside.tracking_client import TrackingError
from sojourn.flows.versions.bundle_bytes import BUNDLE_TAG, BundleBytes, fetched, read_sha256
from sojourn.publishing import publish_files, sync, whole_file
from sojourn.serving.bundle import MANIFEST
from sojourn.serving.errors import BundleError

PROMOTIONS, BUNDLES = "promotions", "bundles"
_GONE = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "INVALID_STATE")


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
        with fetched(tracker, store, order.name, version) as folder:
            held = BundleBytes.read(folder)
        held.check(order.sha256, f"{order.name} version {version}")
    except BundleError:
        _remove(store, order)
        raise
    if not order.is_pointed:
        # where it points elsewhere by now, somebody moved it on since the order was written
        if tracker.version_of(order.name, order.alias) == order.replaced:
            tracker.set_alias(order.name, order.alias, version)
        _write(store, replace(order, is_pointed=True))
    target = store / BUNDLES / order.name
    if tracker.version_of(order.name, CHAMPION) == version and read_sha256(target) != order.sha256:
        publish_files(target, held.files, MANIFEST)
    try:
        if order.run_name:
            tracker.rename(order.run_id, order.run_name)
        tracker.end(order.run_id)
    except TrackingError as error:
        if error.code not in _GONE:  # the run was deleted: its version is what counts
            raise
    _remove(store, order)
    return version


def finish_orders(store: Path, tracker: Tracker, tell: Callable[[str], object]) -> None:
    """Carry out what killed runs left written down. The caller holds the store's lock, so none of them lives.

    tell: called with a line for each. One that cannot be carried out now stays for a later run.
    """
    for file in sorted((store / PROMOTIONS).glob("[!.]*.json")):
        try:
            order = PromotionOrder(**json.loads(file.read_text()))
            version = carry_out(store, tracker, order)
            tell(f"finished the promotion of {order.name} version {version}, which was cut off")
        except (OSError, ValueError, TypeError) as error:
            tell(f"the promotion in {file} was cut off and cannot be finished now: {error}")


def _write(store: Path, order: PromotionOrder) -> None:
    file = _file(store, order)
    with whole_file(file) as temporary:
        temporary.write_text(json.dumps(asdict(order), indent=1) + "\n")


def _remove(store: Path, order: PromotionOrder) -> None:
    file = _file(store, order)
    file.unlink(missing_ok=True)
    sync(file.parent)


def _file(store: Path, order: PromotionOrder) -> Path:
    return store / PROMOTIONS / f"{order.run_id}.json"
