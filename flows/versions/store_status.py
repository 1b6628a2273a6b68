"""What a store holds now, in lines: its place, its models' champions, its last run, what it waits for, its size."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from sojourn.flows.outside.run_artifacts import folder_bytes
from sojourn.flows.outside.run_reading import RunRecord
from sojourn.flows.outside.tracked_names import CHALLENGER, CHAMPION
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.settings.store import StoreSettings
from sojourn.flows.store.processes import is_alive, tokens
from sojourn.flows.store.unsent_runs import unsent_orders
from sojourn.flows.versions.bundle_bytes import BUNDLE_TAG, read_sha256
from sojourn.flows.versions.gate_tags import failed_gates
from sojourn.flows.versions.promotion_journal import BUNDLES

_SMALL = 0.01
"""Of the store's bytes: parts with a smaller share are counted together."""
_TITLE = 12


def status_lines(settings: StoreSettings, tracker: Tracker) -> list[str]:
    """Lines of a title and a text; nothing is changed. TrackingError where the tracking store does not answer."""
    store = settings.store
    found = [("store", str(store.absolute())), ("tracking", str(settings.mlflow_uri))]
    for name in tracker.models():
        found += _model(store, tracker, name)
    if not tracker.models():
        found.append(("champion", "none: no model is registered yet"))
    runs = [run for run in tracker.run_records() if run.parent is None]
    found.append(("last run", _run(runs[0]) if runs else "none"))
    n_alive = sum(is_alive(store, token) for token in tokens(store))
    found += [("in use", f"by {n_alive} processes")] * (n_alive > 0)
    n_unsent = len(unsent_orders(store))
    found += [("not sent", f"{n_unsent} kept runs: `sojourn sync` sends them")] * (n_unsent > 0)
    return [f"{title:<{_TITLE}}{text}" for title, text in (*found, ("disk", _disk(store)))]


def _model(store: Path, tracker: Tracker, name: str) -> list[tuple[str, str]]:
    aliases = tracker.aliases(name) or {}
    records = {record.version: record for record in tracker.version_records(name)}
    lines = []
    for alias in (CHAMPION, CHALLENGER):
        version = aliases.get(alias)
        if version is None:
            lines += [(alias, f"{name}: none")] * (alias == CHAMPION)
            continue
        if version not in records:
            lines.append((alias, f"{name} version {version}, which is gone"))
            continue
        record = records[version]
        text = f"{name} version {version}, of {_utc(record.created_ms)}, trace {record.tags.get('trace', 'unknown')}"
        failed = failed_gates(record.tags)
        text += f"; failed: {', '.join(failed)}" if failed else ""
        if alias == CHAMPION:
            text += f"; {_bundle(store / BUNDLES / name, record.tags)}"
        lines.append((alias, text))
    return lines


def _bundle(folder: Path, tags: Mapping[str, str]) -> str:
    sha256 = read_sha256(folder)
    if sha256 is None:
        return f"not in {folder}: the next run puts it there"
    return f"in {folder}" if sha256 == tags.get(BUNDLE_TAG) else f"{folder} holds another version: see the next run"


def _run(run: RunRecord) -> str:
    began = f"{run.name}: {run.status.lower()}, began {_utc(run.start_ms)}"
    return began if run.ended_ms is None else f"{began}, took {(run.ended_ms - run.start_ms) / 1000:,.0f} s"


def _disk(store: Path) -> str:
    if not store.is_dir():
        return "nothing is kept here"
    sizes = {path.name: folder_bytes(path) for path in sorted(store.iterdir())}
    total = sum(sizes.values())
    large = sorted(((size, name) for name, size in sizes.items() if size >= _SMALL * total and size), reverse=True)
    parts = ", ".join(f"{name} {size / 1e6:,.1f}" for size, name in large)
    return (f"{total / 1e6:,.1f} MB ({parts}); {shutil.disk_usage(store).free / 1e9:,.1f} GB are free; `sojourn clean` "
            "lists what may go")


def _utc(stamp_ms: int) -> str:
    return f"{datetime.fromtimestamp(stamp_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
