"""Which runs a cleaning leaves whole: what serves, may be rolled back to, is compared with, runs, or is recent."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sojourn.flows.outside.run_reading import RunRecord
from sojourn.flows.outside.tracked_names import COMPARISON, STUDY
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.outside.version_registry import VersionRecord
from sojourn.flows.settings.store import RetentionSettings
from sojourn.flows.versions.gate_tags import failed_gates

_DAY_MS = 86_400_000
_BEST = ("best.accuracy", "best.placement")


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
