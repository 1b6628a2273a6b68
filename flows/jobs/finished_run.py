"""A finished retrain of the same inputs, code and settings: what it left is still whole, so nothing has to be done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from sojourn.flows.gates.gate import Gate
from sojourn.flows.gates.next_steps import REASONS_TAG, next_steps, of_tag
from sojourn.flows.outside.run_reading import RunRecord
from sojourn.flows.outside.tracked_names import CHALLENGER, CHAMPION, LEFT_TAG
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.stages.ingest import Ingested
from sojourn.flows.stages.promote import Promotion
from sojourn.flows.store.code_version import source_hash
from sojourn.flows.versions.bundle_bytes import BUNDLE_TAG, BundleBytes, fetched, read_sha256
from sojourn.flows.versions.gate_tags import GATE, PASSED
from sojourn.flows.versions.promotion_journal import BUNDLES
from sojourn.serving.errors import BundleError

KEY_TAG, AGAINST_TAG = "run_key", "judged_against"
"""Tags of a retrain's run: what decided it, and the champion that its gates compared it with (a version, or none)."""
TABLES = "tables.txt"
"""A run's artifact: the tables that it printed."""
_DECIDES_NOTHING = ("store", "tracking_uri", "dask", "n_threads", "is_shrunk_allowed", "is_again",
                    "tracking_wait_s", "artifacts", "keep_runs", "keep_days", "keep_caches", "keep_parts_days",
                    "is_cleaned", "is_system_logged")


@dataclass(frozen=True, slots=True)
class Finished:
    """What an earlier run left. left: why its version was rolled back, "" where it was not. tables: as printed."""

    run_id: str
    ended: datetime
    promotion: Promotion
    left: str
    tables: str


def run_key(config: RetrainConfig, ingested: Ingested) -> str:
    """sha256 hex of what decides a retrain besides the champion: the trace, the code, its libraries and settings."""
    settings = {name: value for name, value in config.resolved().items() if name not in _DECIDES_NOTHING}
    parts = [ingested.data_hash, source_hash("features", "models", "serving", "simulator", "flows"), settings]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def run_tags(config: RetrainConfig, ingested: Ingested, champion: int | None) -> dict[str, str]:
    """Tags by which a later run finds this one. champion: the version that it is judged against."""
    return {KEY_TAG: run_key(config, ingested), AGAINST_TAG: "none" if champion is None else str(champion)}


def finished_run(config: RetrainConfig, tracker: Tracker, ingested: Ingested) -> Finished | None:
    """The latest finished run of the same key whose result stands; None where there is none.

    It stands where its bundle is the champion's, or its version was rolled back (it would be refused again), or it is
    the challenger and the champion is the one that it was judged against. All that it left must be there and whole.
    """
    for run in tracker.finished(KEY_TAG, run_key(config, ingested)):
        found = _standing(config, tracker, run)
        if found is not None:
            return found
    return None


def _standing(config: RetrainConfig, tracker: Tracker, run: RunRecord) -> Finished | None:
    name, sha256 = config.registered_name, run.tags.get(BUNDLE_TAG)
    aliases = tracker.aliases(name) or {}
    champion = aliases.get(CHAMPION)
    if sha256 is None or (champion is not None and champion not in tracker.versions(name)):
        return None
    if champion is not None and tracker.version_tags(name, champion).get(BUNDLE_TAG) == sha256:
        version: int | None = champion
    else:
        version = tracker.version_of_run(name, run.run_id)
    if version is None:
        return None
    tags = tracker.version_tags(name, version)
    left = tags.get(LEFT_TAG, "")
    alias = next((alias for alias in (CHAMPION, CHALLENGER) if aliases.get(alias) == version), "")
    is_as_judged = alias == CHALLENGER and run.tags.get(AGAINST_TAG) == ("none" if champion is None else str(champion))
    if not (alias == CHAMPION or left or is_as_judged):
        return None
    try:
        with fetched(tracker, config.store, name, version) as folder:
            BundleBytes.read(folder).check(sha256, f"{name} version {version}")
        tables = tracker.text(run.run_id, TABLES)
    except (BundleError, OSError):
        return None
    if alias == CHAMPION and read_sha256(config.store / BUNDLES / name) != sha256:
        return None
    steps = next_steps(of_tag(tags.get(REASONS_TAG, "")), name, version) if alias == CHALLENGER else ()
    promotion = Promotion(name, version, alias, _gates(tags), is_unchanged=True, next_steps=steps)
    return Finished(run.run_id, datetime.fromtimestamp((run.ended_ms or 0) / 1000, UTC), promotion, left, tables)


def _gates(tags: Mapping[str, str]) -> tuple[Gate, ...]:
    """The gates of a version, as `promote` wrote them into its tags."""
    found = {tag.removeprefix(GATE): text.partition(": ")[::2] for tag, text in tags.items() if tag.startswith(GATE)}
    return tuple(Gate(name, state == PASSED, words) for name, (state, words) in found.items())
