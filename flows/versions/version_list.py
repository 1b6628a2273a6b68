"""A registered model's versions side by side, with their test data, gates, measures and state; the
contents of a store; and a rollback, by which a person makes another version the champion."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import textwrap
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sojourn.flows.settings.store import StoreSettings
from sojourn.flows.store.lock import store_lock
from sojourn.flows.tracking.client import folder_bytes
from sojourn.flows.tracking.pull import ModelUri, find_version
from sojourn.flows.tracking.tracker import CHALLENGER, CHAMPION, CLEANED_TAG, LEFT_TAG, ROLLBACK, Tracker
from sojourn.flows.versions.promotion import (
    BUNDLE_TAG,
    BUNDLES,
    BundleBytes,
    RollbackOrder,
    carry_out_rollback,
    fetched,
    finish_orders,
    pending_rollback,
    read_sha256,
)
from sojourn.serving import load_bundle
from sojourn.serving.usage import USAGE_FILES, load_usage

MEASURES: Mapping[str, str] = {
    "ages.ibs": "Brier ages",
    "creation.mae_log10_lifetime": "MAE lifetime",
    "creation.coverage_90_at_2pct": "90 % covers",
    "age_1h.coverage_90_at_2pct": "90 % covers, 1 h",
    "sim.nilas.gain_pp": "gain nilas pp",
    "sim.joint_fit.gain_pp": "gain joint-fit pp",
    "wave.next_day.ratio": "wave ratio",
    "class.6h.under_served.combined": "under-served 6 h",
}
"""Measures of a run with their titles; a table shows those that some version has."""
_WHY_LIMIT = 500
JUDGED_TAG, OTHER_TAG = "judged_on", "not_comparable_with"
"""Tags: the key of a run's or version's test data; the version before it with other test data."""
GATE = "gate."
"""Prefix of a gate's tag, before its name."""
PASSED, FAILED = "passed", "FAILED"
"""First words of the tag's text."""
_SMALL = 0.01
"""Parts with a smaller share of the store's bytes are counted together."""
_TITLE = 12


@dataclass(frozen=True, slots=True)
class VersionLine:
    """One version. judged_on: the key of what judged it (see `JudgedOn`). is_comparable: it is the champion's key; None
    if there is no champion.

    failed: names of failed gates. left: why it was rolled back, or "". cleaned: when its artifacts
    were removed, or "". measures: by their titles; missing if the run was deleted.
    """

    version: int
    aliases: tuple[str, ...]
    registered: datetime
    trace: str
    window: str
    data_hash: str
    code_version: str
    judged_on: str
    is_comparable: bool | None
    failed: tuple[str, ...]
    left: str
    cleaned: str
    measures: Mapping[str, float]

    def facts(self) -> dict[str, Any]:
        """As JSON values, measures by their names; None = there is none."""
        own = {name: None if value == "" else value for name, value in asdict(self).items() if name != "registered"}
        return {**own, "registered_unix_s": self.registered.timestamp(),
                "measures": {name: self.measures.get(title) for name, title in MEASURES.items()}}


def version_lines(tracker: Tracker, name: str) -> list[VersionLine]:
    """The versions of a registered model, the latest first; ValueError names the known models."""
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
        judged[record.version], None if reference is None else judged[record.version] == reference,
        tuple(failures(record.tags)),
        record.tags.get(LEFT_TAG, ""), record.tags.get(CLEANED_TAG, ""), _measures(tracker.run_metrics(record.run_id)),
    ) for record in records]


def lost_aliases(tracker: Tracker, name: str) -> dict[str, int]:
    """The aliases of a registered model that point at versions which are gone."""
    known = tracker.versions(name)
    return {alias: version for alias, version in (tracker.aliases(name) or {}).items() if version not in known}


def _measures(metrics: Mapping[str, float]) -> dict[str, float]:
    metrics = unkeyed(metrics)
    return {title: metrics[name] for name, title in MEASURES.items() if name in metrics}


def comparison_words(lines: Sequence[VersionLine]) -> str:
    """The newest version against the champion (else the one before): whether their figures can be compared, and what
    differs; "" if there is one version. lines: the latest first."""
    if len(lines) < 2:
        return ""
    newest = lines[0]
    other = next((line for line in lines[1:] if CHAMPION in line.aliases), lines[1])
    parts = {"data": (_data_text(newest), _data_text(other)), "window": (newest.window, other.window),
             "code": (newest.code_version, other.code_version)}
    differing = [f"{name} {own or '-'} against {others or '-'}" for name, (own, others) in parts.items()
                 if own != others]
    verdict = ("comparable, judged on the same requests" if newest.judged_on == other.judged_on else
               "not comparable, judged on other requests: only paired differences (against_...) and gates compare them")
    differs = f"Differs: {'; '.join(differing)}." if differing else "Data, window and code are the same."
    role = " (champion)" if CHAMPION in other.aliases else ""
    return f"Version {newest.version} against {other.version}{role}: {verdict}. {differs}"


def version_rows(lines: Sequence[VersionLine]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Titles and rows of a table; a measure that no version has is left out."""
    shown = [title for title in MEASURES.values() if any(title in line.measures for line in lines)]
    titles = ("version", "alias", "judged on", "state", "registered UTC", *shown)
    rows = tuple((str(line.version), ", ".join(line.aliases) or "-", _judged_text(line), _state(line),
                  f"{line.registered:%Y-%m-%d %H:%M}",
                  *(f"{line.measures[title]:.4g}" if title in line.measures else "-" for title in shown))
                 for line in lines)
    return titles, rows


def _data_text(line: VersionLine) -> str:
    return f"{line.trace} {line.data_hash[:6]}".strip()


def _judged_text(line: VersionLine) -> str:
    text = _data_text(line) or "-"
    return f"{text} (not comparable)" if line.is_comparable is False else text


def _state(line: VersionLine) -> str:
    gone = f"; artifacts removed {line.cleaned}" if line.cleaned else ""
    if line.left:
        return f"rolled back: {line.left}{gone}"
    return (f"failed {', '.join(line.failed)}" if line.failed else "passed") + gone


def shown_lines(tracker: Tracker, name: str, version: int | None) -> list[str]:
    """Facts, gates and measures of a version, or of the champion; ValueError if there is none of that number."""
    lines = {line.version: line for line in version_lines(tracker, name)}
    wanted = (tracker.aliases(name) or {}).get(CHAMPION) if version is None else version
    if wanted not in lines:
        known = ", ".join(map(str, sorted(lines))) or "none yet"
        raise ValueError(f"version must be one of {known}, got {wanted!r}" if version is not None else
                         f"version must be given, since {name} has no champion: one of {known}, got none")
    line = lines[wanted]
    tags = tracker.version_tags(name, wanted)
    pairs = [("version", " ".join(filter(None, (f"{wanted} of {name}", ", ".join(line.aliases))))),
             ("registered", f"{line.registered:%Y-%m-%d %H:%M} UTC"), ("state", _state(line)),
             ("trace", _data_text(line) or "-"), ("window", line.window or "-"), ("code", line.code_version or "-")]
    pairs += [(f"gate {tag.removeprefix(GATE)}", text) for tag, text in sorted(tags.items()) if tag.startswith(GATE)]
    pairs += [(title, f"{value:.4g}") for title, value in line.measures.items()]
    width = max(len(title) for title, _ in pairs) + 2
    return [wrapped for title, text in pairs for wrapped in textwrap.wrap(
        text, 80, initial_indent=f"{title:<{width}}", subsequent_indent=" " * width, break_long_words=False)]


def predecessor(tracker: Tracker, store: Path, name: str) -> int:
    """The version that a rollback goes to if none is named; ValueError if there is none.

    A rollback that was cut off goes on to where it went.
    """
    interrupted = pending_rollback(store, name)
    if interrupted is not None:
        return interrupted.to
    champion = tracker.version_of(name, CHAMPION)
    lines = version_lines(tracker, name)
    found = next((line.version for line in lines if champion is not None and line.version < champion
                  and not (line.failed or line.left or line.cleaned)), None)
    if found is None:
        raise ValueError(f"to must be given: no version of {name} before the champion, {champion}, passed its gates "
                         "and was not rolled back, got none")
    return found


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The result of a rollback. before: the former champion or None. folder: the champion's bundle.

    despite: the gates that the version failed.
    """

    name: str
    before: int | None
    version: int
    folder: Path
    run_id: str
    despite: tuple[str, ...] = ()


def roll_back(tracker: Tracker, store: Path, name: str, to: int, why: str, *,
              is_despite_gates: bool = False, is_succession: bool = False) -> RolledBack:
    """Make a version the champion, publish its bundle, record it in a run (`kind` = rollback).

    The former champion gets the tag `rolled_back` with the reason, unless is_succession; the new one loses it, and its
    alias `challenger`. The order is written to disk first: if this call is killed or fails after
    that, the same call or the next command that opens the store finishes it. The same call after
    that returns the same result. is_despite_gates: accept failed gates, too; the run names them.

    ValueError: no such model or version, no reason, the version failed gates, or is champion already. BundleError: its
    artifacts are gone, differ from the registered ones, or cannot be served; then nothing has changed.
    """
    reason = " ".join(why.split())
    if not reason or len(reason) > _WHY_LIMIT:
        raise ValueError(f"why must be a reason of 1 to {_WHY_LIMIT} characters, got {len(reason)}")
    with store_lock(store):
        finish_orders(store, tracker, lambda _: None)
        version = find_version(tracker, ModelUri(name, None, to))
        interrupted = pending_rollback(store, name)
        if interrupted is not None and interrupted.to == version:
            carry_out_rollback(store, tracker, interrupted)  # its error says why it cannot be finished
        before = tracker.version_of(name, CHAMPION)
        if before == version:
            done = _done(tracker, store, name, version, reason)
            if done is None:
                raise ValueError(f"to must be another version than the champion of {name}, got {version}")
            return done
        tags = tracker.version_tags(name, version)
        failed = failures(tags)
        if failed and not is_despite_gates:
            findings = "; ".join(f"{gate} ({words})" for gate, words in failed.items())
            raise ValueError(f"to must be a version that passed its gates, got {version}, which failed {findings}; "
                             "--despite-gates makes it the champion all the same")
        with fetched(tracker, store, name, version) as folder:
            bundle = BundleBytes.read(folder)
            (load_usage if (folder / USAGE_FILES[0]).is_file() else load_bundle)(folder)
        bundle.check(tags.get(BUNDLE_TAG, bundle.sha256), f"{name} version {version}")
        order = RollbackOrder(name, version, bundle.sha256, before, reason, ", ".join(failed), uuid.uuid4().hex,
                              is_succession=is_succession)
        run = carry_out_rollback(store, tracker, order, bundle)
    return RolledBack(name, before, version, store / BUNDLES / name, run, tuple(failed))


def _done(tracker: Tracker, store: Path, name: str, version: int, why: str) -> RolledBack | None:
    """The result of the model's latest rollback, if it was this one; else None."""
    for run in tracker.finished("kind", ROLLBACK):
        if run.tags.get("model") == name:
            if (run.tags.get("to"), run.tags.get("why")) != (str(version), why):
                return None
            before, despite = run.tags.get("from", ""), run.tags.get("despite_gates", "")
            return RolledBack(name, int(before) if before.isdecimal() else None, version, store / BUNDLES / name,
                              run.run_id, tuple(filter(None, despite.split(", "))))
    return None


def reason_left(tracker: Tracker, name: str, sha256: str) -> str | None:
    """Why a version of these bytes was rolled back, and which; None if none was.

    sha256: of the bundle's manifest.
    """
    for record in tracker.version_records(name):
        if record.tags.get(BUNDLE_TAG) == sha256 and LEFT_TAG in record.tags:
            return f"version {record.version} holds the same bytes and was rolled back: {record.tags[LEFT_TAG]}"
    return None


@dataclass(frozen=True, slots=True)
class JudgedOn:
    """The test data of a version, and the threshold of "long-lived".

    trace: its name. data_hash: of its content. window: the part of its requests, in words.
    threshold_s: None = there is no such measure.
    """

    trace: str
    data_hash: str
    window: str
    threshold_s: int | None = None

    @property
    def key(self) -> str:
        """A short name: the trace's, and 8 hex digits of a hash of the rest.

        >>> JudgedOn("my trace.swf", "f0", "judged on the rest", 3_600).key
        'my-trace.swf-5b14c195'
        """
        digest = hashlib.sha256(json.dumps([self.trace, self.data_hash, self.window, self.threshold_s]).encode())
        return f"{re.sub(r'[^A-Za-z0-9_.]+', '-', self.trace)}-{digest.hexdigest()[:8]}"


def keyed(key: str, scores: Mapping[str, float]) -> dict[str, float]:
    """Measures under names with the key; MLflow shows those of one key as a section.

    >>> keyed("synthetic-0a1b2c3d", {"ages.ibs": 0.07})
    {'synthetic-0a1b2c3d/ages.ibs': 0.07}
    """
    return {f"{key}/{name}": value for name, value in scores.items()}


def unkeyed(metrics: Mapping[str, float]) -> dict[str, float]:
    """A run's metrics by their names without the key.

    >>> unkeyed({"synthetic-0a1b2c3d/ages.ibs": 0.07, "fit_s": 2.0})
    {'ages.ibs': 0.07, 'fit_s': 2.0}
    """
    return {name.rpartition("/")[2]: value for name, value in metrics.items()}


def other_than(tags: Mapping[str, str], before: Mapping[int, Mapping[str, str]], champion: int | None) -> str | None:
    """The version with measures that are not comparable with these, in words; None without one.

    tags: of the new version. before: those of the versions so far; the champion or newest counts.

    >>> other_than({"judged_on": "a-1"}, {3: {"judged_on": "a-2"}, 4: {"judged_on": "a-1"}}, 3)
    'version 3, then champion, which a-2 judged'
    >>> other_than({"judged_on": "a-1"}, {3: {"judged_on": "a-2"}, 4: {"judged_on": "a-1"}}, None)
    """
    reference = champion if champion in before else max(before, default=None)
    if reference is None:
        return None
    other = before[reference].get(JUDGED_TAG, "something unknown")
    if tags.get(JUDGED_TAG) == other:
        return None
    return f"version {reference}{', then champion,' if reference == champion else ','} which {other} judged"


def failures(tags: Mapping[str, str]) -> dict[str, str]:
    """The finding of each gate that a version failed, by the gate's name.

    >>> failures({"gate.size": "passed: 1 MB", "gate.accuracy": "FAILED: worse", "trace": "a"})
    {'accuracy': 'worse'}
    """
    return {tag.removeprefix(GATE): text.removeprefix(FAILED).removeprefix(": ") for tag, text in tags.items()
            if tag.startswith(GATE) and text.startswith(FAILED)}


def status_facts(settings: StoreSettings, tracker: Tracker) -> dict[str, Any]:
    """What a store holds, as JSON values; None = there is none. TrackingError if the tracking store does not answer.

    bundle_state: of a champion's `bundle`: served (its bytes are there), missing or other.
    """
    store = settings.store
    runs = [run for run in tracker.run_records() if run.parent is None]
    sizes = {path.name: folder_bytes(path) for path in sorted(store.iterdir())} if store.is_dir() else None
    return {"store": str(store.absolute()), "tracking": str(settings.mlflow_uri),
            "models": [{"model": name, **_aliased(store, tracker, name)} for name in tracker.models()],
            "last_run": None if not runs else {
                "name": runs[0].name, "status": runs[0].status.lower(), "began_unix_s": runs[0].start_ms / 1000,
                "took_s": None if runs[0].ended_ms is None else (runs[0].ended_ms - runs[0].start_ms) / 1000},
            "disk_bytes": sizes, "free_bytes": None if sizes is None else shutil.disk_usage(store).free}


def _aliased(store: Path, tracker: Tracker, name: str) -> dict[str, Any]:
    aliases, folder = tracker.aliases(name) or {}, store / BUNDLES / name
    records = {record.version: record for record in tracker.version_records(name)}
    found: dict[str, Any] = dict.fromkeys((CHAMPION, CHALLENGER))
    for alias in found.keys() & aliases.keys():
        found[alias] = {"version": aliases[alias], "is_gone": aliases[alias] not in records}
        if record := records.get(aliases[alias]):
            found[alias] |= {"created_unix_s": record.created_ms / 1000, "trace": record.tags.get("trace"),
                             "failed_gates": list(failures(record.tags))}
            if alias == CHAMPION:
                held = read_sha256(folder)
                state = "missing" if held is None else "served" if held == record.tags.get(BUNDLE_TAG) else "other"
                found[alias] |= {"bundle": str(folder), "bundle_state": state}
    return found


def status_lines(facts: Mapping[str, Any]) -> list[str]:
    """Lines of a title and a text. facts: of `status_facts`."""
    pairs = [(name, facts[name]) for name in ("store", "tracking")]
    for model in facts["models"]:
        pairs += [(alias, _state_text(model["model"], model[alias])) for alias in (CHAMPION, CHALLENGER)
                  if model[alias] is not None or alias == CHAMPION]
    if not facts["models"]:
        pairs.append(("champion", "none: no model is registered yet"))
    run = facts["last_run"]
    words = "none" if run is None else f"{run['name']}: {run['status']}, began {_utc(run['began_unix_s'])}"
    words += "" if run is None or run["took_s"] is None else f", took {run['took_s']:,.0f} s"
    pairs.append(("last run", words))
    return [f"{title:<{_TITLE}}{text}" for title, text in (*pairs, ("disk", _disk(facts)))]


def _state_text(name: str, found: Mapping[str, Any] | None) -> str:
    if found is None:
        return f"{name}: none"
    if found["is_gone"]:
        return f"{name} version {found['version']}, which is gone"
    text = (f"{name} version {found['version']}, of {_utc(found['created_unix_s'])}, trace "
            f"{'unknown' if found['trace'] is None else found['trace']}")
    text += f"; failed: {', '.join(found['failed_gates'])}" if found["failed_gates"] else ""
    if "bundle" in found:
        folder = found["bundle"]
        text += {"missing": f"; not in {folder}: the next run puts it there", "served": f"; in {folder}",
                 "other": f"; {folder} holds another version: see the next run"}[found["bundle_state"]]
    return text


def _disk(facts: Mapping[str, Any]) -> str:
    sizes = facts["disk_bytes"]
    if sizes is None:
        return "nothing is kept here"
    total = sum(sizes.values())
    large = sorted(((size, name) for name, size in sizes.items() if size >= _SMALL * total and size), reverse=True)
    parts = ", ".join(f"{name} {size / 1e6:,.1f}" for size, name in large)
    return (f"{total / 1e6:,.1f} MB ({parts}); {facts['free_bytes'] / 1e9:,.1f} GB are free; `sojourn store clean` "
            "lists what may go")


def _utc(unix_s: float) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M} UTC"
