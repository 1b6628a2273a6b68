"""A finished run whose tracking store went away: kept in the store's own folder, and sent once that answers again.

It is logged into an MLflow database of its own, so that what is kept is what would have been logged, and can be looked
at. `order.json` comes last and says that it is whole."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sojourn.flows.retrain.gate import Gate
from sojourn.flows.retrain.promote import Judged, Promotion, promote
from sojourn.flows.settings.tracking_uri import TrackingUri
from sojourn.flows.store.lock import is_locked, since_s
from sojourn.flows.tracking.client import TrackingError
from sojourn.flows.tracking.registry import BUNDLE
from sojourn.flows.tracking.tracker import Tracker
from sojourn.flows.versions.promotion import ORDER, PROMOTIONS, UNSENT, unsent_orders
from sojourn.publishing import whole_file


@dataclass(frozen=True, slots=True)
class Logged:
    """A run that is logged and ready to be promoted."""

    judged: Judged
    card: str
    tags: Mapping[str, str]


def keep_unsent(store: Path, run_id: str, name: str, log: Callable[[Tracker, str], Logged]) -> Path:
    """Keep a run; returns its folder. name: the run's. log: logs it into the run of a tracker."""
    folder = store / UNSENT / run_id
    shutil.rmtree(folder, ignore_errors=True)
    local = _local(folder)
    own_run = local.start(name, {})
    logged = log(local, own_run)
    local.end(own_run)
    with whole_file(folder / ORDER) as temporary:
        temporary.write_text(json.dumps({**asdict(logged), "own_run": own_run, "run_id": run_id}, indent=1) + "\n")
    return folder


def is_ordered(store: Path, run_id: str) -> bool:
    """Whether a run's promotion is written down, so that the next command finishes it: all is logged then."""
    return (store / PROMOTIONS / f"{run_id}.json").exists()


def send_unsent(store: Path, tracker: Tracker, tell: Callable[[str], object]) -> list[Promotion]:
    """Log and promote what was kept, oldest first, by the gates as they were found and the champion of now.

    tell: called with a line for each. What cannot be sent now stays; what another process sends is left to it. A run
    that the tracking store does not know stays, too: the store may be another one than the run began in.
    """
    done = []
    for order in unsent_orders(store):
        try:
            file = os.open(order, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # another process has sent it
        try:
            if is_locked(file):
                tell(f"the run in {order.parent} is being sent by another process")
                continue
            if not order.exists():
                continue
            done.append(_sent(store, tracker, order))
            tell(f"sent a run that was kept: {done[-1].name} version {done[-1].version} is {done[-1].alias}")
            order.unlink()
            shutil.rmtree(order.parent, ignore_errors=True)
        except (OSError, ValueError, KeyError, TypeError) as error:
            tell(f"the run in {order.parent} is kept still: {error}")
        finally:
            os.close(file)
    for folder in (store / UNSENT).glob("*"):
        if not (folder / ORDER).exists() and folder.stat().st_mtime < since_s(store):
            shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed while it kept or removed it
    return done


def _sent(store: Path, tracker: Tracker, order: Path) -> Promotion:
    document = json.loads(order.read_text())
    run_id, found = str(document["run_id"]), document["judged"]
    try:
        tracker.artifact_uri(run_id)
    except TrackingError as error:
        if error.code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise ValueError(f"the tracking store {tracker.uri} must know run {run_id}, which began there, and does not: "
                         "bring its database back or give the tracking store that has the run, and call `sojourn sync` "
                         f"again; or drop the run: delete the folder {order.parent}") from error
    _local(order.parent).copy_run(document["own_run"], tracker, run_id)
    judged = Judged(**{**found, "gates": tuple(Gate(**gate) for gate in found["gates"])})
    judged = replace(judged, run_id=run_id, source=f"{tracker.artifact_uri(run_id)}/{BUNDLE}")
    return promote.fn(tracker, store, judged, document["card"], document["tags"])


def _local(folder: Path) -> Tracker:
    return Tracker(TrackingUri.of_file(folder / "mlflow.db"), folder / "artifacts")
