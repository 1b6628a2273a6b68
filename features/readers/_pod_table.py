"""The pods of kubectl's files as a table with starts and ends in Unix time, and notes on the recording.

`node_table` has kubectl's nodes as hosts, with their room for pods that the scheduler places.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers._kubectl_files import COMMAND, WATCH_COMMAND, KubectlFiles, recorded_files
from sojourn.features.readers._pod_lives import MAX_SIZE, PodLife, PodLives, drawn_s
from sojourn.serving.inputs import POD_NAMES, POD_SIZES, field, gpu_share, mapping, quantity, sequence

TIMES = ("arrival_s", "departure_s", "ended_after_s", "ended_by_s", "last_s", "creation_s")
"""Columns of times. last_s: the last time with data on the pod."""
_BREAK_S = 300
"""A note is added if a watch restarts later than this after its last event, s."""
_SKEW_S = 60
"""The allowed difference between clocks of nodes and of the API server, s."""


@dataclass(frozen=True, slots=True)
class PodTable:
    """requests: a row for each pod: `file`, `line` and TIMES in Unix seconds (NaN: none), names, sizes.

    first_s: start of the recording, after which no pod is missing; infinite = unknown. last_s: its last time.
    hosts: as in a trace; None = not recorded.
    """

    requests: pd.DataFrame
    first_s: float
    last_s: float
    owners: tuple[str, ...] = ("namespace", "controller")
    hosts: pd.DataFrame | None = None


def kubectl_table(source: Path, timezone: str | None, seed: int, ledger: ReadLedger) -> PodTable:
    """The pods of one file of kubectl, or of a folder; ValueError with the commands to type if there is none."""
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
        counts = dict(ledger.report(0).refused)
        got = f"{files.n_other:,} objects of other kinds" if files.n_other else f"none; refused: {counts}"
        raise ValueError(f"{source}: must hold at least one pod, got {got}; write a list with "
                         f"{COMMAND}")
    requests = _table(lives, ledger, seed)
    _tell(files, requests, ledger)
    hosts = node_table(files.nodes, lives.part_of_node.values(), source.name, ledger)
    return PodTable(requests, min(lives.lists_s, default=math.inf), lives.last_s, hosts=hosts)


def _table(lives: PodLives, ledger: ReadLedger, seed: int) -> pd.DataFrame:
    """Pods that ran, times in Unix seconds (NaN: none); the others are refused."""
    pods, times = [], []
    for life in lives.lives.values():
        rule, row = _times(lives, life, ledger, seed)
        if rule:
            ledger.refuse(rule, life.file, np.array([life.line], np.int64), [life.label])
        else:
            pods.append(life)
            times.append(row)
    columns = np.array(times, np.float64).reshape(-1, len(TIMES)).T
    return pd.DataFrame({
        "file": [life.file for life in pods],
        "line": np.array([life.line for life in pods], np.int64),
        "request_id": pd.Series([life.uid for life in pods], dtype="str"),
        **dict(zip(TIMES, columns, strict=True)),
        **{name: np.array([life.sizes[idx] for life in pods], np.float64) for idx, name in enumerate(POD_SIZES)},
        "requested_s": np.array([life.requested_s for life in pods], np.float64),
        **{name: pd.Series([life.names[idx] for life in pods], dtype="str") for idx, name in enumerate(POD_NAMES)},
        "pod": pd.Series([life.label for life in pods], dtype="str"),
        "phase": pd.Series([life.phase or "missing" for life in pods], dtype="str"),
        "n_restarts": np.array([life.n_restarts for life in pods], np.int64),
    })


def _times(lives: PodLives, life: PodLife, ledger: ReadLedger, seed: int) -> tuple[str, tuple[float, ...]]:
    """The rule that refuses the pod, or "" and its TIMES."""
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


_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_STEPS = {"cpu_cores": 0.01, "mem_gib": 0.25, "gpu": 1e-3}
"""Steps to which sizes are rounded down, since nodes of one type differ by some KiB."""


def node_table(nodes: Mapping[str, Any], part_of_node: Iterable[tuple[str, str, tuple[float, ...]]], file: str,
               ledger: ReadLedger) -> pd.DataFrame | None:
    """Hosts with their allocatable amounts, minus the requests of their own pods; None without nodes.

    part_of_node: node, controller and sizes (as POD_SIZES) of such pods; each controller counts once per node. Cordoned
    nodes and those of the control plane do not count. A node that cannot be read is refused.

    >>> node = {"metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": {"cpu": "4", "memory": "16Gi"}}}
    >>> node_table({"n": node}, [("n", "DaemonSet/agent", (0.5, 1.0, 0.0))], "nodes.json", ReadLedger()).values.tolist()
    [['n', 3.5, 15.0, 0.0]]
    """
    reserved: dict[str, dict[str, tuple[float, ...]]] = {}
    for name, controller, sizes in part_of_node:
        reserved.setdefault(name, {})[controller] = sizes
    rows, n_closed = [], 0
    for name, node in nodes.items():
        try:
            if _is_closed(node):
                n_closed += 1
                continue
            of_node = np.array(list(reserved.get(name, {}).values())).reshape(-1, len(POD_SIZES)).sum(axis=0)
            free = [round(math.floor(max(has - used, 0.0) / step + 1e-9) * step, 6)
                    for has, used, step in zip(_allocatable(node), of_node, _STEPS.values(), strict=True)]
        except ValueError as error:
            rule, _, shown = str(error).partition(", got ")
            ledger.refuse(f"node: {rule}", file, np.zeros(1, np.int64), [f"{shown} in {name}"])
            continue
        rows.append((name, *free))
    if n_closed:
        ledger.note(f"{n_closed:,} nodes left out: cordoned, or of the control plane")
    return pd.DataFrame(rows, columns=["host_id", *POD_SIZES]) if rows else None


def _is_closed(node: Any) -> bool:
    if field(node, "spec", "unschedulable") is True:
        return True
    return any(field(taint, "key") in _CONTROL_PLANE for taint in sequence(node, "spec", "taints"))


def _allocatable(node: Any) -> tuple[float, float, float]:
    has = mapping(node, "status", "allocatable")
    if not {"cpu", "memory"} <= has.keys():
        raise ValueError(f"status.allocatable must name cpu and memory, got {', '.join(map(str, has)) or 'none'}")
    sizes = (quantity(has["cpu"]), quantity(has["memory"]) / 2.0**30,
             sum(quantity(each) * gpu_share(name) for name, each in has.items() if gpu_share(name)))
    for column, size in zip(POD_SIZES, sizes, strict=True):
        if not 0.0 <= size <= MAX_SIZE:
            raise ValueError(f"{column} must be from 0 to 1e9, got {size!r}")
    return sizes
