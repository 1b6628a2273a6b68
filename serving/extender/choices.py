"""What the extender would have chosen beside what was chosen: a line of JSON for each pod that a scheduler placed.

For a dry run. If the pod's scheduler asked (`prioritize`), the nodes are those that it could take. For
pods of other schedulers they are the nodes with room, by the nodes and pods that were reported.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving.extender.nodes import Nodes, node_scores
from sojourn.serving.inputs import (
    field,
    is_finished,
    listed_items,
    mapping,
    node_name,
    pod_resource,
    pod_uid,
    quantity,
    sequence,
)

FILE = "choices.jsonl"
FILE_BYTES = 16 << 20
N_FILES = 8
"""The file and older ones, `choices.jsonl.1` to `.7`: 128 MiB, some 400,000 pods."""
N_ASKED_MAX = 1_000
N_ASKED_NODES_MAX = 200_000
"""Pods that wait for their binding after `prioritize`, and their nodes' names; the oldest pods are dropped."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class _Node:
    """What a node has, and which pods it takes. taints: those that keep pods away."""

    allocatable: Mapping[str, float]
    labels: Mapping[str, Any]
    taints: Sequence[Any]

    @classmethod
    def of(cls, node: Any) -> _Node:
        taints = [each for each in sequence(node, "spec", "taints") if field(each, "effect") != "PreferNoSchedule"]
        if field(node, "spec", "unschedulable"):
            taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        allocatable = {name: quantity(value) for name, value in mapping(node, "status", "allocatable").items()}
        return cls(allocatable, mapping(node, "metadata", "labels"), taints)

    def takes(self, pod: Any) -> bool:
        """Whether labels and taints let the pod in."""
        wanted = mapping(pod, "spec", "nodeSelector")
        tolerations = sequence(pod, "spec", "tolerations")
        return (all(self.labels.get(name) == value for name, value in wanted.items())
                and all(any(_tolerates(each, taint) for each in tolerations) for taint in self.taints))


class Choices:
    """Compares the node of each newly placed pod with the extender's choice; one caller at a time.

    A pod's extension of a node: seconds by which it keeps the node in use longer than the node's
    other pods. n_alike, n_other: pods whose node had the best score, and another one. n_skipped: pods that
    could not be compared: their nodes are not known, or they have rules that are not followed here
    (required affinity, spreading, volume claims). n_errors: lines that could not be written.
    chosen_s, would_s: sums of extensions. folder: of FILE. is_named: lines have the pod's name.
    """

    def __init__(self, nodes: Nodes, folder: Path, *, is_named: bool = True, n_pods_max: int = 200_000) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = RotatingFileHandler(folder / FILE, maxBytes=FILE_BYTES, backupCount=N_FILES - 1, delay=True)
        self._file.handleError = self._failed  # type: ignore[method-assign]
        self._running = nodes
        self._is_named = is_named
        self._n_pods_max = n_pods_max
        self._has_all = False
        self._nodes: dict[str, _Node] = {}
        self._pods: dict[str, tuple[str, Mapping[str, float]]] = {}  # node and requests by uid; DaemonSets' pods, too
        self._used: dict[str, dict[str, float]] = {}
        self._asked: dict[str, Sequence[str]] = {}
        self._n_asked_nodes = 0
        self.n_alike = self.n_other = self.n_skipped = self.n_errors = 0
        self.chosen_s = self.would_s = 0.0

    def asked(self, pod: Any, names: Sequence[str]) -> None:
        """Remember the nodes that a scheduler could take for a pod."""
        uid = pod_uid(pod)
        self._answered(uid)
        self._asked[uid] = names
        self._n_asked_nodes += len(names)
        while len(self._asked) > N_ASKED_MAX or (self._n_asked_nodes > N_ASKED_NODES_MAX and len(self._asked) > 1):
            self._answered(next(iter(self._asked)))

    def seen(self, document: Any) -> None:
        """A Node, or the list of all nodes; one whose `status.allocatable` cannot be read is none to choose."""
        listed = listed_items(document)
        if listed is not None:
            self._nodes.clear()
        for node in [document] if listed is None else listed:
            self._nodes.pop(node_name(node), None)
            with suppress(ValueError):
                found = _Node.of(node)
                if found.allocatable:
                    self._nodes[node_name(node)] = found

    def node_names(self) -> set[str]:
        """Nodes to choose from."""
        return set(self._nodes)

    def taken(self, pod: Any, outcome: str, now_s: int, unix_s: int) -> None:
        """A pod's report had this outcome (see `Nodes.placed`); if it was placed, compare its node."""
        uid, name = pod_uid(pod), field(pod, "spec", "nodeName")
        is_new = outcome == "placed" and self._has_all
        if is_finished(pod):
            self.gone(uid)
            return
        if outcome not in ("placed", "ignored") or not name or uid in self._pods:
            return
        if len(self._pods) >= self._n_pods_max:
            self.n_skipped += is_new
            return
        asked = self._answered(uid)
        try:
            requests = _requests(pod)
            if is_new:
                self._compare(pod, uid, name, asked or self._with_room(pod, requests), bool(asked), now_s, unix_s)
        except ValueError:  # the pod's room cannot be read
            self.n_skipped += is_new
            return
        self._pods[uid] = name, requests
        used = self._used.setdefault(name, {})
        for resource, amount in requests.items():
            used[resource] = used.get(resource, 0.0) + amount

    def gone(self, uid: str) -> None:
        """A pod has ended, or was deleted."""
        self._answered(uid)
        name, requests = self._pods.pop(uid, ("", {}))
        for resource, amount in requests.items():
            self._used[name][resource] -= amount

    def listed(self, uids: Collection[str | None]) -> None:
        """A list of all pods, these, was taken in: others that do not run by later reports have ended.

        Pods of the first list were placed before, and are not compared.
        """
        self._has_all = True
        for uid in () if None in uids else self._pods.keys() - set(uids):
            if uid not in self._running:
                self.gone(uid)

    def _answered(self, uid: str) -> Sequence[str]:
        names = self._asked.pop(uid, ())
        self._n_asked_nodes -= len(names)
        return names

    def _with_room(self, pod: Any, requests: Mapping[str, float]) -> list[str]:
        """Nodes that could take a pod of another scheduler, which is not counted yet; none if it has further rules."""
        return [] if _has_rules(pod) else [
            name for name, node in self._nodes.items()
            if node.takes(pod) and all(self._used.get(name, {}).get(resource, 0.0) + amount
                                       <= node.allocatable.get(resource, 0.0) * (1.0 + 1e-9)
                                       for resource, amount in requests.items())]

    def _compare(self, pod: Any, uid: str, name: str, could: Sequence[str], is_asked: bool, now_s: int,
                 unix_s: int) -> None:
        if not could:
            self.n_skipped += 1
            return
        names = [name, *(each for each in could if each != name)]
        exits_s, end_s = self._running.exits_without(uid, names, now_s)
        extensions_s = np.maximum(end_s - np.maximum(exits_s, now_s), 0.0)
        scores = node_scores(exits_s, end_s)
        # of several best nodes the scheduler's own scores choose: the chosen one, else no better than any of them
        best = np.flatnonzero(scores == scores.max())
        would = 0 if best[0] == 0 else best[np.argmax(extensions_s[best])]
        self.n_alike += int(would == 0)
        self.n_other += int(would != 0)
        self.chosen_s += float(extensions_s[0])
        self.would_s += float(extensions_s[would])
        pod_name = {"pod": f"{field(pod, 'metadata', 'namespace')}/{field(pod, 'metadata', 'name')}"}
        self._file.emit(logging.makeLogRecord({"msg": json.dumps({
            "at_s": unix_s, "uid": uid, **(pod_name if self._is_named else {}),
            "scheduler": field(pod, "spec", "schedulerName"), "is_asked": is_asked, "n_nodes": len(names),
            "stays_s": round(end_s - now_s),
            "chosen": name, "chosen_score": int(scores[0]), "chosen_extends_s": round(float(extensions_s[0])),
            "would": names[would], "would_score": int(scores[would]),
            "would_extends_s": round(float(extensions_s[would]))})}))  # fmt: skip
        self._file.close()  # the next line opens it again

    def _failed(self, record: logging.LogRecord) -> None:
        self.n_errors += 1


def _requests(pod: Any) -> dict[str, float]:
    """What the pod takes of a node, by resource; a pod takes a place, too."""
    parts = [*sequence(pod, "spec", "containers"), *sequence(pod, "spec", "initContainers")]
    names = {name for part in parts for name in mapping(part, "resources", "requests")}
    names.update(mapping(pod, "spec", "resources", "requests"))
    return {"pods": 1.0, **{name: pod_resource(pod, "requests", name) or 0.0 for name in sorted(names)}}


def _has_rules(pod: Any) -> bool:
    """Whether rules other than room, labels and taints bind the pod to nodes."""
    return (any(field(pod, "spec", "affinity", kind, _REQUIRED)
                for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"))
            or any(field(each, "whenUnsatisfiable") != "ScheduleAnyway"
                   for each in sequence(pod, "spec", "topologySpreadConstraints"))
            or any(field(each, kind) for each in sequence(pod, "spec", "volumes")
                   for kind in ("persistentVolumeClaim", "ephemeral")))


def _tolerates(toleration: Any, taint: Any) -> bool:
    key, effect = field(toleration, "key"), field(toleration, "effect")
    return (key in (None, "", field(taint, "key")) and effect in (None, "", field(taint, "effect"))
            and (field(toleration, "operator") == "Exists"
                 or (field(toleration, "value") or "") == (field(taint, "value") or "")))
