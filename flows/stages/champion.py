"""The versions that a candidate is compared with: the champion, and the best so far where that is another.

A version that is worse than the champion by less than a margin may follow it. Week after week such steps would add up.
So each version names, in its tags, the most accurate version so far and the one with the best placement; a later one
takes that place only if it is shown to be better, and every candidate is compared with those, too. What a champion may
lose against the best is one margin in all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sojourn.features.creation import FeatureRows, build_rows
from sojourn.flows.outside.tracked_names import CHAMPION
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.stages.build_features import Features
from sojourn.flows.stages.instants import reread
from sojourn.flows.versions.bundle_bytes import fetched
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import Bundle, load_bundle
from sojourn.serving.errors import BundleError

MOST_ACCURATE, BEST_PLACED = "best.accuracy", "best.placement"
"""Tags of a version: the number of the best version up to it, or `ITSELF`."""
ITSELF = "itself"


@dataclass(frozen=True, slots=True)
class Rival:
    """A registered version to compare with: its bundle, and the trace's rows as its own encoder sees them.

    is_in_accuracy, is_in_placement: which gates it is compared in.
    """

    label: str
    version: int
    bundle: Bundle
    builder: CurveBuilder
    rows: FeatureRows
    is_in_accuracy: bool = True
    is_in_placement: bool = True


@dataclass(frozen=True, slots=True)
class Rivals:
    """The champion first, then the best so far; and why some version cannot be compared, "" for none.

    champion: its version, None where there is none. best: for each tag the version it names.
    """

    champion: int | None = None
    found: tuple[Rival, ...] = ()
    reason: str = ""
    best: tuple[tuple[str, int], ...] = ()


def load_rivals(store: Path, name: str, tracker: Tracker, features: Features) -> Rivals:
    """The champion and the best versions so far, ready for comparison; none where there is no champion."""
    champion = tracker.version_of(name, CHAMPION)
    if champion is None:
        return Rivals()
    if champion not in tracker.versions(name):
        raise ValueError(f"the alias {CHAMPION} of {name} must point at a registered version, got {champion}, "
                         f"which is gone: `sojourn rollback {name} --to VERSION --why WHY` moves it")
    tags = tracker.version_tags(name, champion)
    best = {tag: int(tags[tag]) if tags.get(tag, "").isdecimal() else champion for tag in (MOST_ACCURATE, BEST_PLACED)}
    found, reasons = [], []
    for version in dict.fromkeys((champion, *best.values())):
        roles = (True, True) if version == champion else (best[MOST_ACCURATE] == version, best[BEST_PLACED] == version)
        label = f"champion v{version}" if version == champion else f"best so far v{version}"
        loaded = _load(store, name, tracker, features, version)
        if isinstance(loaded, str):
            reasons.append(loaded)
        else:
            bundle, own_rows = loaded
            builder = CurveBuilder(bundle.schema, bundle.model)
            found.append(Rival(label, version, bundle, builder, own_rows, *roles))
    return Rivals(champion, tuple(found), "; ".join(reasons), tuple(best.items()))


def _load(store: Path, name: str, tracker: Tracker, features: Features,
          version: int) -> tuple[Bundle, FeatureRows] | str:
    """The version's bundle and its rows of this trace; or why it cannot be compared."""
    try:
        with fetched(tracker, store, name, version) as folder:
            bundle = load_bundle(folder)
    except (BundleError, OSError) as error:
        return f"version {version} cannot be loaded: {error}"
    own = bundle.schema.encoder
    missing = [column for column in own.columns() if column not in features.trace.requests]
    if missing:
        return f"version {version} reads the column {missing[0]!r}, which this trace lacks"
    try:
        if replace(own, lookup=None) == features.encoder:
            return bundle, features.rows
        rows = reread(features, replace(own, lookup=None))
        return bundle, build_rows(features.trace, own) if rows is None else rows
    except ValueError as error:  # a column of another type under the same name
        return f"version {version} does not read this trace: {error}"
