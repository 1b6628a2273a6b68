"""Nodes by their pods: when each will be empty, and what a further pod would add to that (NILAS' temporal cost)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol

import numpy as np

from sojourn.serving import pods
from sojourn.serving.lifetime import Lifetime
from sojourn.serving.live import N_RUNNING_MAX
from sojourn.serving.predictor import Predictor

EXTENSION_EDGES_S = (1_800, 3_600, 5_400, 7_200, 10_800, 14_400, 21_600, 43_200, 86_400, 604_800)
"""Left-closed buckets of the seconds by which a pod would extend its node's exit: temporal cost 0 to 10 (NILAS)."""
BEST_SCORE = 10
"""Kubernetes' MaxExtenderPriority; its least is 0."""
ABSENT_GRACE_S = 60
"""A pod learnt of more recently than this is not taken to have ended for being absent from a list."""
N_GONE = 65_536
"""How many uids of ended pods are remembered, so that a late or repeated report cannot bring one back."""

_N_VOID_MAX = 1_000


def node_scores(exits_s: np.ndarray, end_s: float) -> np.ndarray:
    """Scores, int64 (n,), 0 to 10, higher = better, of nodes with these exits for a pod with this predicted end.

    exits_s: float64 (n,), seconds, -infinity for an empty node, which scores 0: its cost is never less than that of a
    node in use, so it comes last; costs 9 and 10 of nodes in use share the score 1.

    >>> node_scores(np.array([20_000.0, 10_000.0, 5_800.0, 0.0, -np.inf]), 10_000.0).tolist()
    [10, 10, 8, 6, 0]
    """
    costs = np.searchsorted(EXTENSION_EDGES_S, end_s - exits_s, side="right")
    return np.where(exits_s == -math.inf, 0, np.maximum(BEST_SCORE - costs, 1))


@dataclass(slots=True)
class _Placed:
    """A pod on its node. exit_s: its predicted exit as of asked_s, held until stale_s (it changes then, or is
    outlived)."""

    vm: Lifetime
    node: str
    learnt_s: int
    asked_s: int = 0
    exit_s: float = -math.inf
    stale_s: float = -math.inf

    def ask(self, now_s: int) -> None:
        arrival_s = self.vm.arrival_s  # later than now where the clock was ahead then
        uptime_s = float(max(now_s - arrival_s, 0))
        self.asked_s, self.exit_s = now_s, now_s + self.vm.remaining(uptime_s)
        self.stale_s = max(min(arrival_s + self.vm.next_change(uptime_s), self.exit_s), now_s + 1)


class Requests(Protocol):
    """From a pod to the request of it; ValueError where the pod's value for a column is wrong."""

    def request(self, pod: Mapping[str, Any]) -> dict[str, Any]: ...


class Nodes:
    """What runs where, as reported, with predictions kept fresh. One caller at a time.

    Exits are held until they change: a question first asks those pods again, on all nodes, that are due since the last
    one. A clock that was ahead leaves nothing behind: if time goes back, exits that were asked later than now are asked
    again, too. Reports are idempotent by the pod's uid. Times are whole seconds on the bundle's clock, which is
    `epoch_s` behind unix time. n_pods_max bounds the memory.
    """

    def __init__(self, predictor: Predictor, requests: Requests, *, epoch_s: int, n_pods_max: int) -> None:
        if not 1 <= n_pods_max <= N_RUNNING_MAX:
            raise ValueError(f"n_pods_max must be from 1 to {N_RUNNING_MAX}, got {n_pods_max!r}")
        self._predictor = predictor
        self._requests = requests
        self._epoch_s = epoch_s
        self._n_pods_max = n_pods_max
        self._nodes: dict[str, dict[str, _Placed]] = {}  # pods in use by node and uid
        self._exits_s: dict[str, float] = {}  # the latest of their exits
        self._placed: dict[str, _Placed] = {}
        self._gone: dict[str, None] = {}
        self._due: list[tuple[float, str]] = []  # a heap of (stale_s, uid); an entry that is not a pod's own is void
        self._asked_s: float = -math.inf  # the latest time that an exit is held of

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def n_pods(self) -> int:
        """Pods that are running now, as far as was reported."""
        return len(self._placed)

    def predict(self, pod: Mapping[str, Any], now_s: int) -> Lifetime:
        """The prediction for a pod that would start now; records nothing. ValueError where its request is wrong."""
        return self._predictor.predict(self._requests.request(pod), now_s)

    def placed(self, pod: Mapping[str, Any], now_s: int) -> str:
        """Take in a pod as it stands now; returns placed, known, ended, finished or ignored.

        Ignored: not yet on a node, or part of its node (DaemonSet, static pod). A finished pod is taken as `ended`,
        or as `finished` where it was not placed here.
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
            raise ValueError(f"spec.nodeName must stay {known.node!r}, got {pods.shown_field(name)}")
        if known is not None or uid in self._gone:
            return "known"
        if len(self._placed) >= self._n_pods_max:
            raise ValueError(f"pods must be at most {self._n_pods_max}, got one more")
        pods.short_text(name)
        started_s = pods.started_unix_s(pod, now_s + self._epoch_s)
        arrival_s = now_s if started_s is None else started_s - self._epoch_s
        vm = self._predictor.admit(self._requests.request(pod), now_s, arrival_s=arrival_s, request_id=uid)
        placed = self._placed[uid] = _Placed(vm, name, now_s)
        self._nodes.setdefault(name, {})[uid] = placed
        self._ask(uid, placed, now_s)
        return "placed"

    def ended(self, pod: Mapping[str, Any], now_s: int) -> str:
        """Take in that a pod (its uid is enough) has ended: when its last container did, where it says so, else now.

        Returns ended, known (it had before), finished (it says that it has ended, and was never placed here: it ended
        before it was reported) or unknown (nothing of it is known).
        """
        uid = pods.pod_uid(pod)
        finished_s = pods.finished_unix_s(pod, now_s + self._epoch_s)
        end_s = now_s if finished_s is None else finished_s - self._epoch_s
        if uid in self._gone:
            return "known"
        self._gone[uid] = None
        if len(self._gone) > N_GONE:
            del self._gone[next(iter(self._gone))]
        placed = self._placed.pop(uid, None)
        if placed is None:
            return "finished" if pods.is_finished(pod) else "unknown"
        del self._nodes[placed.node][uid]
        self._move(placed.node, placed.exit_s, -math.inf)
        if not self._nodes[placed.node]:
            del self._nodes[placed.node], self._exits_s[placed.node]
        self._predictor.ended(placed.vm, max(end_s, placed.vm.arrival_s))  # last: it may refuse what it has dropped
        return "ended"

    def absent(self, uids: Iterable[str | None], now_s: int) -> list[str]:
        """Uids of all pods that run but these, and but those learnt of within ABSENT_GRACE_S.

        One that was learnt of long after now was so while the clock was ahead: it has no grace left.
        """
        kept = set(uids)
        return [uid for uid, placed in self._placed.items()
                if uid not in kept and abs(now_s - placed.learnt_s) >= ABSENT_GRACE_S]

    def exit_s(self, name: str, now_s: int) -> float | None:
        """When the node is predicted to be empty: the latest exit among its pods; None for an empty node."""
        self._refresh(now_s)
        return self._exits_s.get(name)

    def scores(self, names: Sequence[str], remaining_s: float, now_s: int) -> list[int]:
        """Scores, 0 to 10, higher = better, of nodes for a pod that would stay for `remaining_s` from now."""
        self._refresh(now_s)
        exits_s = np.fromiter(map(self._exits_s.get, names, repeat(-math.inf)), np.float64, len(names))
        scores: list[int] = node_scores(exits_s, now_s + remaining_s).tolist()
        return scores

    def _refresh(self, now_s: int) -> None:
        due, placed = self._due, self._placed
        if now_s < self._asked_s:
            for uid, held in placed.items():
                if held.asked_s > now_s:
                    self._ask(uid, held, now_s)
            self._asked_s = now_s
        while due and due[0][0] <= now_s:
            stale_s, uid = heapq.heappop(due)
            pod = placed.get(uid)
            if pod is not None and pod.stale_s == stale_s:
                self._ask(uid, pod, now_s)
        if len(due) > 2 * len(placed) + _N_VOID_MAX:
            self._due = [(pod.stale_s, uid) for uid, pod in placed.items()]
            heapq.heapify(self._due)

    def _ask(self, uid: str, pod: _Placed, now_s: int) -> None:
        before_s = pod.exit_s
        pod.ask(now_s)
        self._asked_s = max(self._asked_s, now_s)
        self._move(pod.node, before_s, pod.exit_s)
        heapq.heappush(self._due, (pod.stale_s, uid))

    def _move(self, name: str, old_s: float, new_s: float) -> None:
        """One pod's exit has moved (-infinity: it was or is none of them)."""
        latest_s = self._exits_s.get(name, -math.inf)
        if new_s >= latest_s:
            self._exits_s[name] = new_s
        elif old_s == latest_s:
            self._exits_s[name] = max((pod.exit_s for pod in self._nodes[name].values()), default=-math.inf)
