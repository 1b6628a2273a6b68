"""Reads recordings of a cluster's pods: what `kubectl get pods -o json` writes, once, often or as a watch."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import all_requests, trace_of
from sojourn.features.readers._horizon import cut_at, horizon_of, origin_of
from sojourn.features.readers._kubectl_files import COMMAND, WATCH_COMMAND, KubectlFiles, recorded_files
from sojourn.features.readers._pod_lives import PodLife, PodLives, drawn_s
from sojourn.features.readers._stamps import checked_timezone
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace
from sojourn.serving.pods import POD_NAMES, POD_SIZES

_OWNERS = ("namespace", "controller")
_CATEGORIES = tuple(name for name in POD_NAMES if name not in _OWNERS)
_AT_END = ("phase", "n_restarts", "ended_after_s", "ended_by_s")
_TIMES = ("arrival_s", "departure_s", "ended_after_s", "ended_by_s", "last_s", "creation_s")
_CUT_LABEL = 200
"""So long labels are cut short: they may name another pod."""
_SKEW_S = 60
"""Clocks of nodes and of the API server may differ by so much."""


def read_kubernetes(path: str | Path, *, timezone: str | None = None, seed: int = 0,
                    horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one file or a folder of them: lists of pods, and watches with their events. A pod is a request.

    Arrival is when the pod's node took it (`status.startTime`), since that is when it takes room; departure is when the
    last of its containers ended, or when a watch told that it was deleted. A pod that is in a list and not in the next
    one ended between the two: a time is drawn uniformly between them. Pods of DaemonSets and static pods belong to
    their node and are no requests. docs/traces.md says the rest.

    timezone: IANA name of the zone of stamps in file names; None = UTC. seed: of the times that are drawn. horizon_s:
    when observation ended, seconds on the trace's clock.

    Raises OSError where a file cannot be opened and ValueError where it is no such recording, with what to type.

    >>> import json, tempfile
    >>> pods = [{"metadata": {"uid": name, "name": name, "namespace": "a"}, "spec": {"nodeName": "n"}, "status": {
    ...     "phase": "Running", "startTime": f"2026-03-01T0{idx}:00:00Z"}} for idx, name in enumerate("xyz")]
    >>> file = Path(tempfile.mkdtemp()) / "pods.json"
    >>> _ = file.write_text(json.dumps({"items": pods[:2]}) + json.dumps({"items": pods[1:]}))
    >>> trace, report = read_kubernetes(file)
    >>> trace.requests[["request_id", "arrival_s", "ended_after_s", "ended_by_s"]].values.tolist()
    [['a/x', -3600, 0, 3600], ['a/y', 0, <NA>, <NA>], ['a/z', 3600, <NA>, <NA>]]
    """
    source, ledger = Path(path), ReadLedger()
    files = KubectlFiles(PodLives(), ledger, checked_timezone(timezone) if timezone else None)
    recorded = recorded_files(source)
    for file in recorded:
        files.read(file)
    lives = files.lives
    lives.close()
    if not lives.lives and not lives.part_of_node:
        got = f"{files.n_other:,} objects of other kinds" if files.n_other else f"none; refused: {_refused(ledger)}"
        raise ValueError(f"{source}: must hold at least one pod, got {got}; write a list with\n{COMMAND}")
    requests = all_requests([_table(lives, ledger, seed)], source, "pod that ran", ledger)
    requests, origin_s, is_from_list = _on_clock(requests, lives, ledger)
    last_s = requests.pop("last_s").to_numpy(np.int64)
    last_s = np.append(last_s, math.floor(max(lives.last_s - origin_s, last_s.max(initial=0))))
    if horizon_s is None and int(last_s.max()) <= 0:
        raise ValueError(f"{source}: the last time must lie after the first, got one moment alone; record a second "
                         "list later")
    horizon = horizon_of(last_s, horizon_s, n_rows=len(last_s))
    requests = cut_at(requests.drop(columns="file"), horizon, ledger, source.name)
    roles = _roles(requests)
    _tell(files, requests, horizon.time_s, origin_s, is_from_list, ledger)
    meta = {"source": f"Kubernetes, {source.name}", "licence": "the user's own", "start_unix_s": origin_s,
            "known_at_end": [name for name in _AT_END if name in requests], "seed": seed}
    return trace_of(requests, horizon.time_s, roles, ledger, meta, others=("pod", "phase"), is_event_log=True)


KUBERNETES = Reader(
    read_kubernetes,
    path="what `kubectl get pods -A -o json` writes: a list or several, a watch, or a folder of such files",
    arrival="start of the pod (`status.startTime`)",
    departure="end of its last container, or its deletion; drawn between two lists where only they tell; none where it "
              "still runs",
    owners="`namespace`, `controller`",
    categories="`kind`, `image`, `priority_class`, `qos`, `restart_policy`, where used",
    numbers="`requested_s` (`activeDeadlineSeconds`) where used",
    no_role="`creation_s`, `pod` (NAMESPACE/POD), `phase`, `n_restarts`, `ended_after_s`, `ended_by_s`",
)


def _table(lives: PodLives, ledger: ReadLedger, seed: int) -> pd.DataFrame:
    """Pods that ran, times in Unix seconds (NaN: none); the others are refused."""
    kept, times = [], []
    for life in lives.lives.values():
        rule, row = _times(lives, life, ledger, seed)
        if rule:
            ledger.refuse(rule, life.file, np.array([life.line], np.int64), [life.label])
        else:
            kept.append(life)
            times.append(row)
    columns = np.array(times, np.float64).reshape(-1, len(_TIMES)).T
    return pd.DataFrame({
        "file": [life.file for life in kept],
        "line": np.array([life.line for life in kept], np.int64),
        "request_id": pd.Series(_ids(kept), dtype="str"),
        **dict(zip(_TIMES, columns, strict=True)),
        **{name: np.array([life.sizes[idx] for life in kept], np.float64) for idx, name in enumerate(POD_SIZES)},
        "requested_s": np.array([life.requested_s for life in kept], np.float64),
        **{name: pd.Series([life.names[idx] for life in kept], dtype="str") for idx, name in enumerate(POD_NAMES)},
        "pod": pd.Series([life.label if len(life.label) < _CUT_LABEL else "missing" for life in kept], dtype="str"),
        "phase": pd.Series([life.phase or "missing" for life in kept], dtype="str"),
        "n_restarts": np.array([life.n_restarts for life in kept], np.int64),
    })


def _ids(kept: list[PodLife]) -> list[str]:
    """NAMESPACE/NAME of each pod; of several pods of one name (a StatefulSet's) the last one's, the others' with @uid."""
    last: dict[str, PodLife] = {}
    for life in kept:
        other = last.get(life.label)
        if other is None or (life.arrival_s or 0.0, life.uid) > (other.arrival_s or 0.0, other.uid):
            last[life.label] = life
    return [life.label if last[life.label] is life else f"{life.label}@{life.uid}" for life in kept]


def _times(lives: PodLives, life: PodLife, ledger: ReadLedger, seed: int) -> tuple[str, tuple[float, ...]]:
    """The rule by which the pod is refused, or "" and its _TIMES."""
    if not life.node:
        return "never seen on a node (pending)", ()
    if life.is_turned_away:
        return "never ran (turned away by its node)", ()
    arrival_s = life.arrival_s
    if arrival_s is None:
        return "start missing", ()
    end = lives.end_of(life)
    if math.isinf(end.by_s):
        return "", (arrival_s, math.nan, math.nan, math.nan, max(life.seen_s, arrival_s), life.created_s)
    if end.by_s < arrival_s - _SKEW_S:
        return "end before start", ()
    if end.by_s < arrival_s:
        ledger.repair("end less than a minute before the start (clocks differ): start taken", 1)
    after_s, by_s = max(end.after_s, arrival_s), max(end.by_s, arrival_s)
    departure_s = drawn_s(life.uid, after_s, by_s, seed)
    return "", (arrival_s, departure_s, after_s, by_s, departure_s, life.created_s)


def _on_clock(requests: pd.DataFrame, lives: PodLives, ledger: ReadLedger) -> tuple[pd.DataFrame, int, bool]:
    """The pods on the trace's clock, its second 0, and whether that is the first list's time.

    That is right where the ends were recorded as they came: what ran at the first list is there with its start, what
    had ended by then is not. Where most ends are of before, second 0 is the first of them, as in other exports.
    """
    ends = requests["departure_s"].dropna().to_numpy(np.float64)
    first_s = min(lives.lists_s, default=math.inf)
    is_from_list = bool(lives.last_s > first_s and (ends > first_s).sum() >= max((ends <= first_s).sum(), 1))
    if is_from_list:
        origin_s = math.floor(first_s)
    elif len(ends) and origin_of(ends) < max(lives.last_s, ends.max()):
        origin_s = origin_of(ends)
    else:
        origin_s = origin_of(requests["arrival_s"].to_numpy(np.float64))
    for name in _TIMES:
        whole = pd.Series(np.floor(requests[name].to_numpy(np.float64)) - origin_s, dtype="Float64")
        requests[name] = whole.mask(whole.isna()).astype("Int64")
    is_over = (requests["departure_s"] < 0).fillna(False).to_numpy(bool)
    if is_over.any():
        for file, gone in requests[is_over].groupby("file", sort=False):
            ledger.refuse("ended before the trace's start", str(file), gone["line"].to_numpy(np.int64), [
                f"{uid}: ended {-end} s before it" for uid, end in zip(gone["request_id"], gone["departure_s"],
                                                                       strict=True)])
        requests = requests[~is_over].reset_index(drop=True)
    return requests, origin_s, is_from_list


def _roles(requests: pd.DataFrame) -> Roles:
    """The roles of what is told; columns that tell nothing are dropped in place."""
    for name in ("namespace", *_CATEGORIES):
        if requests[name].nunique() < 2:
            del requests[name]
    if not (requests["gpu"] > 0).any():
        del requests["gpu"]
    if requests["requested_s"].isna().all():
        del requests["requested_s"]
    return Roles(owners=tuple(name for name in _OWNERS if name in requests),
                 categories=tuple(name for name in _CATEGORIES if name in requests),
                 numbers=tuple(name for name in ("requested_s",) if name in requests))


def _tell(files: KubectlFiles, requests: pd.DataFrame, horizon_s: int, origin_s: int, is_from_list: bool,
          ledger: ReadLedger) -> None:
    """What a reader of the report should know."""
    lives = files.lives
    what = "the first list" if is_from_list else "the first end"
    ledger.note(f"second 0 is {_moment(origin_s)}, {what}; {int((requests['arrival_s'] < 0).sum()):,} pods began "
                f"before it; the last time is {_moment(origin_s + horizon_s)}")
    ledger.note(f"read {files.n_lists:,} lists and {files.n_events:,} events; {len(lives.part_of_node):,} pods of "
                "DaemonSets and static pods left out: they belong to their node")
    running = int(requests["departure_s"].isna().sum())
    ledger.note(f"{running:,} of {len(requests):,} pods have no end and still run at the horizon")
    is_drawn = (requests["ended_by_s"] > requests["ended_after_s"]).fillna(False).to_numpy(bool)
    if is_drawn.any():
        width_s = (requests["ended_by_s"] - requests["ended_after_s"])[is_drawn].median()
        ledger.note(f"{int(is_drawn.sum()):,} ends lie between two lists and are drawn uniformly between them (median "
                    f"width {width_s:,.0f} s): pods that began and ended between two lists are missing")
    if not files.n_events and not files.n_plain and len(lives.lists_s) == 1:
        ledger.note("check: one list tells of ends only where finished pods are still kept; what was deleted before is "
                    f"missing. Record lists every few minutes, or a watch:\n{WATCH_COMMAND}")
    if files.n_lists > files.n_stamped > 0 or (files.n_lists and not files.n_stamped):
        ledger.note("lists without a time in their file's name are of the newest time in them (a name such as "
                    "pods-20260301T060000Z.json gives it)")
    if files.n_early:
        ledger.note(f"check: {files.n_early:,} of {files.n_stamped:,} lists hold times later than their file's name "
                    "says, which are taken (--timezone sets the zone of the names)")
    if files.n_plain:
        ledger.note(f"check: {files.n_plain:,} pods came without a type of event, so deletions are known only by their "
                    "deadline (--output-watch-events tells them)")
    if files.n_faults:
        ledger.note(f"check: {files.n_faults:,} documents are cut short or no JSON; pods that they told of may be "
                    "missing")
    if files.n_empty:
        ledger.note(f"{files.n_empty:,} empty lists left out")
    if files.n_other:
        ledger.note(f"{files.n_other:,} objects that are no pods left out")


def _refused(ledger: ReadLedger) -> dict[str, int]:
    return dict(ledger.report(0).refused)


def _moment(unix_s: float) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
