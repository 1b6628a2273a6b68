"""The calls of a scheduler extender, from JSON documents to JSON documents, without HTTP.

`filter` and `prioritize` use the types of `k8s.io/kube-scheduler/extender/v1`. These have no JSON
tags, so fields have their Go names, and Go's decoder ignores the case.

A long call lets waiting calls go first now and then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from operator import itemgetter
from typing import Any, TypeVar

from sojourn.serving.checks import N_TEXT_MAX
from sojourn.serving.extender.choices import Choices
from sojourn.serving.extender.nodes import ABSENT_GRACE_S, Drains, Nodes
from sojourn.serving.inputs import (
    listed_items,
    node_name,
    pod_uid,
    sequence,
    short_text,
    shown_field,
    started_unix_s,
)

_N_REASONS = 20
_N_AT_ONCE = 64
"""After so many pods of a list, some 10 ms, waiting calls may go first."""
N_NODES_MAX = 100_000
"""The most nodes of one call, above the limits of kube-scheduler."""
_Element = TypeVar("_Element")
REPORTS = frozenset({"/placed", "/ended", "/running"})
"""Calls that may be long, with pauses; only one of them may run at a time."""


class ExtenderCalls:
    """Each call takes a JSON document and returns a status and a JSON document; one caller at a time.

    clock: unix seconds now. drain_quantile: `filter` refuses a node with a deadline unless the pod
    will have ended by then with this probability. pause: called now and then in a long list;
    meanwhile, other calls than REPORTS may run. choices: for a dry run, which leaves the scheduler's
    placement as it is: `filter` passes all nodes, all scores are 0, and choices are compared.
    """

    def __init__(self, nodes: Nodes, drains: Drains, *, epoch_s: int, drain_quantile: float = 0.9,
                 clock: Callable[[], float] = time.time, pause: Callable[[], None] = lambda: None,
                 choices: Choices | None = None) -> None:
        if not 0.0 < drain_quantile < 1.0:
            raise ValueError(f"drain_quantile must be between 0 and 1, got {drain_quantile!r}")
        self._nodes = nodes
        self._drains = drains
        self._epoch_s = epoch_s
        self._drain_quantile = drain_quantile
        self._clock = clock
        self._pause = pause
        self.choices = choices
        self.n_nodes_refused = 0
        self.has_pods = False  # true after the first list of all pods: before it every node looks empty
        self.posts: dict[str, Callable[[Any], tuple[int, Any]]] = {
            "/filter": self.filter, "/prioritize": self.prioritize, "/placed": self.placed, "/ended": self.ended,
            "/running": self.running, "/nodes": self.nodes,
        }  # fmt: skip

    def filter(self, document: Any) -> tuple[int, Any]:
        """ExtenderArgs -> ExtenderFilterResult: all nodes except those with a deadline that the pod
        is predicted to outlive."""
        try:
            pod, names, items = _arguments(document)
            refusals = {} if self.choices is not None else self._outlived(pod, names, items)
        except ValueError as error:
            return 200, {"Error": str(error)}  # the scheduler shows this text only with status 200
        self.n_nodes_refused += len(refusals)
        return 200, {
            "Nodes": None if items is None else _node_list(items, names, refusals),
            "NodeNames": [name for name in names if name not in refusals] if items is None else None,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": refusals,  # eviction of other pods would not help
            "Error": "",
        }

    def prioritize(self, document: Any) -> tuple[int, Any]:
        """ExtenderArgs -> HostPriorityList: a score of 0 to 10 for each node."""
        pod, names, _ = _arguments(document)
        if self.choices is not None:
            self.choices.asked(pod, names)
            return 200, [{"Host": name, "Score": 0} for name in names]
        now_s = self._now_s()
        remaining_s = self._nodes.predict(pod, now_s).remaining(0.0)
        scores = self._nodes.scores(names, remaining_s, now_s)
        return 200, [{"Host": name, "Score": score} for name, score in zip(names, scores, strict=True)]

    def placed(self, document: Any) -> tuple[int, Any]:
        """A Pod, or a list of pods, in their present state -> counts of the results."""
        starts = [(start_order(pod), idx, pod) for idx, pod in enumerate(self._pausing(_items(document)))]
        return self._tally([pod for *_, pod in sorted(starts, key=itemgetter(0, 1))], self._place)

    def ended(self, document: Any) -> tuple[int, Any]:
        """A Pod (metadata.uid is enough), or a list of pods, that have ended -> counts of the results."""
        return self._tally(_items(document), self._end)

    def running(self, document: Any) -> tuple[int, Any]:
        """The list of all pods -> counts of the results; pods that are not in it have ended.

        If an element has no uid, its pod is unknown: then no pod counts as absent.
        """
        listed = listed_items(document)
        if listed is None:
            raise ValueError(f"document must be a list of all pods, got {shown_field(document)}")
        uids = [_uid(pod) for pod in self._pausing(listed)]
        status, tally = self.placed(document)
        self.has_pods |= status == HTTPStatus.OK
        return status, tally | {"absent": self.end_absent(uids)}

    def end_absent(self, uids: Sequence[str | None], grace_s: int = ABSENT_GRACE_S) -> int:
        """End the pods that are not among all uids of a list, if none of them is None -> how many they were.

        grace_s: how much older the list may be than what else was reported.
        """
        now_s = self._now_s()
        absent = [] if None in uids else self._nodes.absent(uids, now_s, grace_s)
        for uid in self._pausing(absent):
            self._end({"metadata": {"uid": uid}}, now_s)
        if self.choices is not None:
            self.choices.listed(uids)
        return len(absent)

    def take(self, pod: Any, is_deleted: bool = False) -> str:
        """A pod in its present or its last state -> the result, as it is counted; ValueError if it is refused."""
        return (self._end if is_deleted else self._place)(pod, self._now_s())

    def nodes(self, document: Any) -> tuple[int, Any]:
        """A Node, or the list of all nodes, with their annotations -> how many, and how many with a deadline."""
        counts = self._drains.update(document)
        if self.choices is not None:
            self.choices.seen(document)
        return 200, counts

    def _place(self, pod: Any, now_s: int) -> str:
        outcome = self._nodes.placed(pod, now_s)
        if self.choices is not None:
            self.choices.taken(pod, outcome, now_s, now_s + self._epoch_s)
        return outcome

    def _end(self, pod: Any, now_s: int) -> str:
        if self.choices is not None:
            self.choices.gone(pod_uid(pod))
        return self._nodes.ended(pod, now_s)

    def _outlived(self, pod: Any, names: Sequence[str], items: Sequence[Any] | None) -> dict[str, str]:
        drains = self._drains
        if items is None:
            deadline_of = drains.among(names)
        else:
            deadlines = map(drains.deadline_of, items)
            deadline_of = [(name, time_s) for name, time_s in zip(names, deadlines, strict=True) if time_s is not None]
        if not deadline_of:
            return {}
        now_s = self._now_s()
        stay_s = self._nodes.predict(pod, now_s).quantile(self._drain_quantile, 0.0)
        stays = {name: time_s - self._epoch_s - now_s for name, time_s in deadline_of}
        return {name: f"to be drained in {max(left_s, 0)} s; the pod is predicted to stay for at most {stay_s:.0f} s "
                      f"with probability {self._drain_quantile:g}" for name, left_s in stays.items() if stay_s > left_s}

    def _tally(self, pods: Sequence[Any], take: Callable[[Any, int], str]) -> tuple[int, dict[str, Any]]:
        """Counts by result, and reasons of the first refused pods; 422 if all were refused."""
        counts: dict[str, Any] = {}
        reasons = []
        now_s = self._now_s()
        for pod in self._pausing(pods):
            try:
                outcome = take(pod, now_s)
            except ValueError as error:
                outcome = "refused"
                reasons.append(str(error))
            counts[outcome] = counts.get(outcome, 0) + 1
        if reasons:
            counts["reasons"] = reasons[:_N_REASONS]
        return 422 if reasons and len(reasons) == len(pods) else 200, counts

    def _pausing(self, elements: Sequence[_Element]) -> Iterator[_Element]:
        for idx, element in enumerate(elements):
            if idx and idx % _N_AT_ONCE == 0:
                self._pause()
            yield element

    def _now_s(self) -> int:
        return int(self._clock() // 1) - self._epoch_s


def _node_list(items: Sequence[Any], names: Sequence[str], refusals: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {}, "items": [item for item, name in zip(items, names, strict=True) if name not in refusals]}


def _arguments(document: Any) -> tuple[Any, list[str], Sequence[Any] | None]:
    if not isinstance(document, dict):
        raise ValueError(f"ExtenderArgs must be an object, got {shown_field(document)}")
    fields = {name.lower(): value for name, value in document.items()}
    pod, nodes, names = fields.get("pod"), fields.get("nodes"), fields.get("nodenames")
    if not isinstance(pod, dict):
        raise ValueError(f"Pod must be an object, got {shown_field(pod)}")
    if nodes is not None:
        items = sequence(nodes, "items")
        _check_number(items)
        return pod, [node_name(item) for item in items], items
    if not isinstance(names, list):
        raise ValueError(f"Nodes or NodeNames must be given, got {shown_field(names)}")
    _check_number(names)
    if set(map(type, names)) - {str} or max(map(len, names), default=0) > N_TEXT_MAX:
        list(map(short_text, names))  # refuses the one that is wrong
    return pod, names, None


def _check_number(nodes: Sequence[Any]) -> None:
    if len(nodes) > N_NODES_MAX:
        raise ValueError(f"nodes must be at most {N_NODES_MAX}, got {len(nodes)}")


def _items(document: Any) -> Sequence[Any]:
    listed = listed_items(document)
    return [document] if listed is None else listed


def _uid(pod: Any) -> str | None:
    """The pod's uid; None if it cannot be read: such a pod is refused later."""
    try:
        return pod_uid(pod)
    except ValueError:
        return None


def start_order(pod: Any) -> float:
    """Sort key: earlier starts first, for the owner history; a pod that cannot be read is refused later."""
    try:
        started_s = started_unix_s(pod)
    except ValueError:
        started_s = None
    return math.inf if started_s is None else float(started_s)
