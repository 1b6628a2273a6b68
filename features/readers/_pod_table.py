"""The pods that kubectl wrote as a table: when each began and ended, on Unix time; and what to tell of a recording."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers._kubectl_files import COMMAND, WATCH_COMMAND, KubectlFiles, recorded_files
from sojourn.features.readers._node_table import node_table
from sojourn.features.readers._pod_lives import PodLife, PodLives, drawn_s
from sojourn.serving.pods import POD_NAMES, POD_SIZES

TIMES = ("arrival_s", "departure_s", "ended_after_s", "ended_by_s", "last_s", "creation_s")
"""Columns of times. last_s: the last time that anything is known of the pod."""
_BREAK_S = 300
"""A watch that begins again later than this after its last event has a break that is told, s."""
_SKEW_S = 60
"""Clocks of nodes and of the API server may differ by so much."""


@dataclass(frozen=True, slots=True)
class PodTable:
    """requests: a row a pod, `file`, `line` and TIMES in Unix seconds (NaN: none), names, sizes.

    first_s: when recording began, after which no pod was missed; infinite = not known. last_s: its last time. hosts: as
    of a trace; None = not recorded.
    """

    requests: pd.DataFrame
    first_s: float
    last_s: float
    owners: tuple[str, ...] = ("namespace", "controller")
    hosts: pd.DataFrame | None = None


def kubectl_table(source: Path, timezone: str | None, seed: int, ledger: ReadLedger) -> PodTable:
    """The pods of one file of kubectl's, or of a folder of them; ValueError where there is none, with what to type."""
    files = KubectlFiles(PodLives(), ledger, timezone)
    recorded = recorded_files(source)
    for file in recorded:
        try:
            files.read(file)
        except ValueError as error:
            if len(recorded) == 1:
                raise
            ledger.read(1)
            ledger.refuse("file must be what kubectl writes", file.name, np.ones(1, np.int64), [str(error)])
    lives = files.lives
    lives.close()
    if not lives.lives and not lives.part_of_node:
        refused = dict(ledger.report(0).refused)
        got = f"{files.n_other:,} objects of other kinds" if files.n_other else f"none; refused: {refused}"
        raise ValueError(f"{source}: must hold at least one pod, got {got}; write a list with\n{COMMAND}")
    requests = _table(lives, ledger, seed)
    _tell(files, requests, ledger)
    hosts = node_table(files.nodes, lives.part_of_node.values(), source.name, ledger)
    return PodTable(requests, min(lives.lists_s, default=math.inf), lives.last_s, hosts=hosts)


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
    columns = np.array(times, np.float64).reshape(-1, len(TIMES)).T
    return pd.DataFrame({
        "file": [life.file for life in kept],
        "line": np.array([life.line for life in kept], np.int64),
        "request_id": pd.Series([life.uid for life in kept], dtype="str"),
        **dict(zip(TIMES, columns, strict=True)),
        **{name: np.array([life.sizes[idx] for life in kept], np.float64) for idx, name in enumerate(POD_SIZES)},
        "requested_s": np.array([life.requested_s for life in kept], np.float64),
        **{name: pd.Series([life.names[idx] for life in kept], dtype="str") for idx, name in enumerate(POD_NAMES)},
        "pod": pd.Series([life.label for life in kept], dtype="str"),
        "phase": pd.Series([life.phase or "missing" for life in kept], dtype="str"),
        "n_restarts": np.array([life.n_restarts for life in kept], np.int64),
    })


def _times(lives: PodLives, life: PodLife, ledger: ReadLedger, seed: int) -> tuple[str, tuple[float, ...]]:
    """The rule by which the pod is refused, or "" and its TIMES."""
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


def _tell(files: KubectlFiles, requests: pd.DataFrame, ledger: ReadLedger) -> None:
    """What a reader of the report should know."""
    lives = files.lives
    ledger.note(f"read {files.n_lists:,} lists and {files.n_events:,} events; {len(lives.part_of_node):,} pods of "
                "DaemonSets and static pods left out: they belong to their node")
    is_drawn = (requests["ended_by_s"] > requests["ended_after_s"]).to_numpy(bool)
    if is_drawn.any():
        width_s = (requests["ended_by_s"] - requests["ended_after_s"])[is_drawn].median()
        ledger.note(f"check: {int(is_drawn.sum()):,} ends lie between two lists, or in a break of a watch, and are "
                    f"drawn uniformly there (median width {width_s:,.0f} s); pods that began and ended there are "
                    "missing")
    longest_s = max(files.breaks_s, default=0.0)
    if longest_s > _BREAK_S:
        ledger.note(f"check: a watch began again {len(files.breaks_s):,} times, the longest break took up to "
                    f"{longest_s:,.0f} s: pods that began and ended in it are missing")
    if not files.n_events and not files.n_plain and len(lives.lists_s) == 1:
        ledger.note("check: one list tells of ends only where finished pods are still kept; what was deleted before is "
                    f"missing. Record lists every few minutes, or a watch ({WATCH_COMMAND})")
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
