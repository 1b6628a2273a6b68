"""A registered model's versions side by side: what each was judged on, what it is worth, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sojourn.flows.outside.tracked_names import CHAMPION, CLEANED_TAG, LEFT_TAG
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.versions.gate_tags import failed_gates
from sojourn.flows.versions.judged_on import JUDGED_TAG, unkeyed

MEASURES: Mapping[str, str] = {
    "ages.ibs": "Brier ages",
    "creation.mae_log10_lifetime": "MAE lifetime",
    "sim.nilas.gain_pp": "gain nilas pp",
    "sim.joint_fit.gain_pp": "gain joint-fit pp",
    "wave.next_day.ratio": "wave ratio",
    "class.6h.under_served.combined": "under-served 6 h",
}
"""Measures of a run that are shown where some version has them, and their titles."""


@dataclass(frozen=True, slots=True)
class VersionLine:
    """One version. is_comparable: judged on what the champion was (see `JudgedOn`); None where there is no champion.

    failed: gates that did not hold. left: why it was rolled back from, "" where it was not. cleaned: when its
    artifacts were removed, "" where they were not. measures: by their titles; those of a run that was deleted are
    missing.
    """

    version: int
    aliases: tuple[str, ...]
    registered: datetime
    trace: str
    window: str
    data_hash: str
    code_version: str
    is_comparable: bool | None
    failed: tuple[str, ...]
    left: str
    cleaned: str
    measures: Mapping[str, float]


def version_lines(tracker: Tracker, name: str) -> list[VersionLine]:
    """The versions of a registered model, the latest first; ValueError naming the known models where there is none."""
    aliases = tracker.aliases(name)
    if aliases is None:
        known = ", ".join(tracker.models()) or "none yet"
        raise ValueError(f"the registered model must be one of {known}, got {name!r}")
    records = sorted(tracker.version_records(name), key=lambda record: -record.version)
    judged = {record.version: record.tags.get(JUDGED_TAG, "") for record in records}
    reference = judged.get(aliases.get(CHAMPION, 0))
    return [VersionLine(
        record.version, tuple(sorted(alias for alias, version in aliases.items() if version == record.version)),
        datetime.fromtimestamp(record.created_ms / 1000, UTC), record.tags.get("trace", ""),
        record.tags.get("window", ""), record.tags.get("data_hash", ""), record.tags.get("code_version", ""),
        None if reference is None else judged[record.version] == reference,
        failed_gates(record.tags),
        record.tags.get(LEFT_TAG, ""), record.tags.get(CLEANED_TAG, ""), _measures(tracker.run_metrics(record.run_id)),
    ) for record in records]


def lost_aliases(tracker: Tracker, name: str) -> dict[str, int]:
    """The aliases of a registered model that point at versions which are gone."""
    known = tracker.versions(name)
    return {alias: version for alias, version in (tracker.aliases(name) or {}).items() if version not in known}


def _measures(metrics: Mapping[str, float]) -> dict[str, float]:
    metrics = unkeyed(metrics)
    return {title: metrics[name] for name, title in MEASURES.items() if name in metrics}


def version_rows(lines: Sequence[VersionLine]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Titles and rows of a table; a measure that no version has is left out."""
    shown = [title for title in MEASURES.values() if any(title in line.measures for line in lines)]
    titles = ("version", "alias", "judged on", "state", "registered UTC", *shown)
    rows = tuple((str(line.version), ", ".join(line.aliases) or "-", _judged_text(line), _state(line),
                  f"{line.registered:%Y-%m-%d %H:%M}",
                  *(f"{line.measures[title]:.4g}" if title in line.measures else "-" for title in shown))
                 for line in lines)
    return titles, rows


def _judged_text(line: VersionLine) -> str:
    text = f"{line.trace} {line.data_hash[:6]}".strip() or "-"
    return f"{text} (not comparable)" if line.is_comparable is False else text


def _state(line: VersionLine) -> str:
    gone = f"; artifacts removed {line.cleaned}" if line.cleaned else ""
    if line.left:
        return f"rolled back: {line.left}{gone}"
    return (f"failed {', '.join(line.failed)}" if line.failed else "passed") + gone
