"""Nodes by their pods: when each will be empty, and what a further pod would add to that (NILAS' temporal cost)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sojourn.serving import pods
from sojourn.serving.pod_columns import PodColumns
from sojourn.serving.predictor import Lifetime, Predictor

EXTENSION_EDGES_S = (1_800, 3_600, 5_400, 7_200, 10_800, 14_400, 21_600, 43_200, 86_400, 604_800)
"""Left-closed buckets of the time by which a pod would extend its node's exit (LAVA, section 4.2): costs 0 to 10."""
BEST_SCORE = 10
"""Kubernetes' MaxExtenderPriority; its least is 0."""
ABSENT_GRACE_S = 60
"""A pod learnt of more recently than this is not taken to have ended for being absent from a list."""
N_GONE = 65_536
"""How many uids of ended pods are remembered, so that a late or repeated report cannot bring one back."""


def extension_cost(extension_s: float) -> int:
    """Temporal cost, 0 (none) to 10, of extending a node's exit by some seconds.

    >>> [extension_cost(minutes * 60) for minutes in (0, 29, 30, 70, 24 * 60, 10_080)]
    [0, 0, 1, 2, 9, 10]
    """
    return bisect_right(EXTENSION_EDGES_S, extension_s)


def node_score(exit_s: float | None, end_s: float) -> int:
    """Score, 0 to 10, higher = better, of a node with this exit for a pod with this predicted end, seconds.

    An empty node (None) scores 0: its cost is never less than that of a node in use, so it comes last, and costs 9
    and 10 of nodes in use share the score 1.

    >>> [node_score(exit_s, 10_000) for exit_s in (20_000, 10_000, 5_800, 0, None)]
    [10, 10, 8, 6, 0]
    """
    return 0 if exit_s is None else max(BEST_SCORE - extension_cost(end_s - exit_s), 1)


@dataclass(slots=True)
class _Placed:
    """A pod on its node. exit_s: its predicted exit, held until stale_s (it changes then, or is outlived)."""

    vm: Lifetime
    node: str
    learnt_s: int
    exit_s: float = -math.inf
    stale_s: float = -math.inf

    def ask(self, now_s: int) -> None:
        uptime_s = float(max(now_s - self.vm.arrival_s, 0))
        self.exit_s = self.vm.arrival_s + uptime_s + self.vm.remaining(uptime_s)
        self.stale_s = min(self.vm.arrival_s + self.vm.next_change(uptime_s), self.exit_s)


@dataclass(slots=True)
class _Node:
    """The pods of a node by uid, and the latest of their exits, held until the first of them is stale."""

    pods: dict[str, _Placed] = field(default_factory=dict)
    exit_s: float = -math.inf
    stale_s: float = -math.inf

    def ask(self, now_s: int) -> None:
        self.exit_s, self.stale_s = -math.inf, math.inf
        for pod in self.pods.values():
            if now_s >= pod.stale_s:
                pod.ask(now_s)
            self.exit_s = max(self.exit_s, pod.exit_s)
            self.stale_s = min(self.stale_s, pod.stale_s)


class Nodes:
    """What runs where, as reported, with predictions kept fresh. One caller at a time.

    Reports are idempotent by the pod's uid. Times are whole seconds on the bundle's clock, which is `epoch_s` behind
    unix time. n_pods_max bounds the memory.
    """

    def __init__(self, predictor: Predictor, columns: PodColumns, *, epoch_s: int, n_pods_max: int) -> None:
        if n_pods_max < 1:
            raise ValueError(f"n_pods_max must be above 0, got {n_pods_max!r}")
        self._predictor = predictor
        self._columns = columns
        self._epoch_s = epoch_s
        self._n_pods_max = n_pods_max
        self._nodes: dict[str, _Node] = {}
        self._placed: dict[str, _Placed] = {}
        self._gone: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def n_pods(self) -> int:
        """Pods that are running now, as far as was reported."""
        return len(self._placed)

    def predict(self, pod: Mapping[str, Any], now_s: int) -> Lifetime:
        """The prediction for a pod that would start now; records nothing. ValueError where its request is wrong."""
        return self._predictor.predict(self._columns.request(pod), now_s)

    def placed(self, pod: Mapping[str, Any], now_s: int) -> str:
        """Take in a pod as it stands now; what came of it: placed, known, ended, unknown or ignored.

        Ignored: not yet on a node, or part of its node (DaemonSet, static pod). A finished pod is taken as `ended`.
        ValueError: no uid, a wrong type, another node than before, or too many pods.
        """
        uid = pods.pod_uid(pod)
        if pods.is_finished(pod):
            return self.ended(pod, now_s)
        name = pods.field(pod, "spec", "nodeName")
        if not name or pods.is_part_of_node(pod):
            return "ignored"
        known = self._placed.get(uid)
        if known is not None and known.node != name:
            raise ValueError(f"spec.nodeName must stay {known.node!r}, got {pods.shown(name)}")
        if known is not None or uid in self._gone:
            return "known"
        if len(self._placed) >= self._n_pods_max:
            raise ValueError(f"pods must be at most {self._n_pods_max}, got one more")
        pods.short_text(name)
        started_s = pods.started_unix_s(pod)
        arrival_s = now_s if started_s is None else min(started_s - self._epoch_s, now_s)
        vm = self._predictor.admit(self._columns.request(pod), now_s, arrival_s=arrival_s)
        placed = self._placed[uid] = _Placed(vm, name, now_s)
        node = self._nodes.setdefault(name, _Node())
        node.pods[uid] = placed
        node.stale_s = -math.inf
        return "placed"

    def ended(self, pod: Mapping[str, Any], now_s: int) -> str:
        """Take in that a pod (its uid is enough) has ended: when its last container did, where it says so, else now.

        What came of it: ended, known (it had before) or unknown (never placed here).
        """
        uid = pods.pod_uid(pod)
        finished_s = pods.finished_unix_s(pod)
        end_s = now_s if finished_s is None else min(finished_s - self._epoch_s, now_s)
        if uid in self._gone:
            return "known"
        self._gone[uid] = None
        if len(self._gone) > N_GONE:
            del self._gone[next(iter(self._gone))]
        placed = self._placed.pop(uid, None)
        if placed is None:
            return "unknown"
        self._predictor.ended(placed.vm, max(end_s, placed.vm.arrival_s))
        node = self._nodes[placed.node]
        del node.pods[uid]
        node.stale_s = -math.inf
        if not node.pods:
            del self._nodes[placed.node]
        return "ended"

    def end_absent(self, uids: Iterable[str], now_s: int) -> int:
        """End all pods but these, and but those learnt of within ABSENT_GRACE_S; how many that were."""
        kept = set(uids)
        absent = [uid for uid, placed in self._placed.items()
                  if uid not in kept and now_s - placed.learnt_s >= ABSENT_GRACE_S]
        for uid in absent:
            self.ended({"metadata": {"uid": uid}}, now_s)
        return len(absent)

    def exit_s(self, name: str, now_s: int) -> float | None:
        """When the node is predicted to be empty: the latest exit among its pods; None for an empty node."""
        node = self._nodes.get(name)
        if node is None:
            return None
        if now_s >= node.stale_s:
            node.ask(now_s)
        return node.exit_s

    def scores(self, names: Sequence[str], remaining_s: float, now_s: int) -> list[int]:
        """Scores, 0 to 10, higher = better, of nodes for a pod that would stay for `remaining_s` from now."""
        return [node_score(self.exit_s(name, now_s), now_s + remaining_s) for name in names]
