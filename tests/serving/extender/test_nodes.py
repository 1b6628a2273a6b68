"""Nodes' exits and scores, reports of pods, and the deadlines of drains."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_bundles import Made
from made_extender import HOUR_S, SIX_OCLOCK_S, fixed_nodes, pod
from sojourn.serving import Predictor, load_bundle
from sojourn.serving.extender import nodes
from sojourn.serving.extender.nodes import ABSENT_GRACE_S, Drains, Nodes, PodColumns, node_scores
from sojourn.serving.inputs import finished_unix_s, unix_s

NOW_S = SIX_OCLOCK_S


@pytest.mark.parametrize(("extension_min", "cost"), [
    (-60, 0), (0, 0), (29, 0), (30, 1), (59, 1), (60, 2), (70, 2), (90, 3), (120, 4), (179, 4), (180, 5), (240, 6),
    (360, 7), (12 * 60, 8), (24 * 60, 9), (168 * 60 - 1, 9), (168 * 60, 10), (10**6, 10),
])  # fmt: skip
def test_scores_by_left_closed_buckets_of_temporal_cost(extension_min: int, cost: int) -> None:
    assert node_scores(np.array([1e9]), 1e9 + extension_min * 60).tolist() == [max(10 - cost, 1)]


def test_empty_nodes_come_last_and_the_longest_extensions_share_a_score() -> None:
    exits_s = np.array([190.0, 100.0, 0.0, -np.inf]) * HOUR_S
    assert node_scores(exits_s, 200.0 * HOUR_S).tolist() == [3, 1, 1, 0]  # 10 h more cost 7, 100 h 9, 200 h 10


def test_a_nodes_exit_is_its_latest_and_follows_reprediction() -> None:
    cluster, _ = fixed_nodes({"a": 2 * HOUR_S, "b": 5 * HOUR_S, "new": 4 * HOUR_S})
    assert cluster.exit_s("n", NOW_S) is None
    assert cluster.placed(pod("a", "n"), NOW_S) == "placed"
    assert cluster.exit_s("n", NOW_S) == NOW_S + 2 * HOUR_S
    assert cluster.placed(pod("b", "n"), NOW_S) == "placed"
    assert cluster.exit_s("n", NOW_S) == NOW_S + 5 * HOUR_S
    # at + 4 h: b alone would end at + 5 h; a outlived 2 h and doubled to 4 h, at + 4 h to 8 h
    assert cluster.exit_s("n", NOW_S + 4 * HOUR_S) == NOW_S + 8 * HOUR_S
    assert cluster.ended(pod("a"), NOW_S + 4 * HOUR_S) == "ended"
    assert cluster.exit_s("n", NOW_S + 4 * HOUR_S) == NOW_S + 5 * HOUR_S
    # a new pod would end at + 8 h and extend b's node by 3 h: cost 5
    assert cluster.scores(["n", "elsewhere"], 4 * HOUR_S, NOW_S + 4 * HOUR_S) == [5, 0]
    assert cluster.ended(pod("b"), NOW_S + 4 * HOUR_S) == "ended"
    assert cluster.exit_s("n", NOW_S + 4 * HOUR_S) is None
    assert (len(cluster), cluster.n_pods) == (0, 0)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 50_000), st.integers(0, 20_000)), min_size=1, max_size=8),
       st.lists(st.integers(0, 40_000), min_size=1, max_size=6))
def test_held_exits_are_those_asked_anew(made_pods: list[tuple[int, int]], asked_s: list[int]) -> None:
    totals_s = {str(idx): float(total_s) for idx, (total_s, _) in enumerate(made_pods)}
    held, predictor = fixed_nodes(totals_s)
    for idx, (_, age_s) in enumerate(made_pods):
        held.placed(pod(str(idx), "n", startTime=_time(NOW_S - age_s)), NOW_S)
    for now_s in (NOW_S + each_s for each_s in asked_s):  # in any order: the clock may be set back
        anew = []
        for name, arrival_s in predictor.admitted:
            uptime_s = now_s - arrival_s
            anew.append(now_s + predictor.predict({"user": name}, 0).remaining(uptime_s))
        assert held.exit_s("n", now_s) == max(anew)


@pytest.mark.parametrize("kind", ["hazard", "uptime", "once"])
def test_a_clock_ahead_for_one_question_leaves_no_exit_behind(made: Made, kind: str) -> None:
    """44 days ahead for one question: asked then, a pod's exit is held for as long."""
    bundle = load_bundle(made.folders[kind])
    now_s = made.trace.horizon_s
    cluster = Nodes(Predictor(bundle), PodColumns.of(bundle.schema.encoder, {"cpu_cores": "requests.cpu"}), epoch_s=0,
                    n_pods_max=10)
    request = {"containers": [{"resources": {"requests": {"cpu": "2"}}}], "nodeName": "n"}
    cluster.placed({"metadata": {"uid": "1"}, "spec": request}, now_s)
    before_s = cluster.exit_s("n", now_s)
    ahead_s = cluster.exit_s("n", now_s + 44 * 86_400)
    assert ahead_s is not None and ahead_s > now_s + 44 * 86_400
    assert cluster.exit_s("n", now_s) == before_s


def test_a_pod_placed_while_the_clock_was_ahead() -> None:
    cluster, _ = fixed_nodes({"a": 2 * HOUR_S})
    cluster.placed(pod("a", "n"), NOW_S + 44 * 86_400)
    assert cluster.exit_s("n", NOW_S) == NOW_S + 2 * HOUR_S
    assert cluster.exit_s("n", NOW_S + 60) == NOW_S + 2 * HOUR_S  # held
    assert cluster.absent([], NOW_S + 60) == ["uid-a"]  # learnt of 44 days after now: no grace


@pytest.mark.parametrize("kind", ["hazard", "hazard-limit", "uptime", "once"])
def test_a_bundles_exits_are_held_until_they_change_or_are_outlived(made: Made, kind: str) -> None:
    bundle = load_bundle(made.folders[kind])
    now_s = made.trace.horizon_s
    cluster = Nodes(Predictor(bundle), PodColumns.of(bundle.schema.encoder, {"cpu_cores": "requests.cpu"}), epoch_s=0,
                    n_pods_max=10)
    request = {"containers": [{"resources": {"requests": {"cpu": "2"}}}], "nodeName": "n"}
    assert cluster.placed({"metadata": {"uid": "1"}, "spec": request}, now_s) == "placed"
    vm = Predictor.load(made.folders[kind]).predict({"cpu_cores": 2}, now_s)
    exit_s, until_s = now_s + vm.remaining(0.0), min(vm.next_change(0.0), vm.remaining(0.0))
    assert cluster.exit_s("n", now_s) == exit_s
    assert cluster.exit_s("n", now_s + int(until_s) - 1) == exit_s
    later_s = int(until_s) + 1
    assert cluster.exit_s("n", now_s + later_s) == now_s + later_s + vm.remaining(later_s)


def test_reports_are_idempotent() -> None:
    cluster, predictor = fixed_nodes({"a": 60.0, "b": 60.0})
    assert [cluster.placed(pod("a", "n"), NOW_S) for _ in range(2)] == ["placed", "known"]
    assert [cluster.ended(pod("a"), NOW_S + 5) for _ in range(2)] == ["ended", "known"]
    assert cluster.placed(pod("a", "n"), NOW_S + 6) == "known"  # a late report
    assert [cluster.ended(pod("b"), NOW_S), cluster.placed(pod("b", "n"), NOW_S)] == ["unknown", "known"]
    assert (predictor.admitted, predictor.ends) == ([("a", NOW_S)], [("a", NOW_S + 5)])
    assert cluster.n_pods == 0


def test_a_pod_that_finished_before_it_was_reported_is_not_one_that_was_never_seen() -> None:
    cluster, predictor = fixed_nodes({"a": 60.0})
    finished = {phase: pod(phase, "n") | {"status": {"phase": phase}} for phase in ("Succeeded", "Failed")}
    assert [cluster.placed(each, NOW_S) for each in finished.values()] == ["finished", "finished"]
    assert [cluster.placed(each, NOW_S) for each in finished.values()] == ["known", "known"]
    assert cluster.ended(pod("x", "n") | {"status": {"phase": "Succeeded"}}, NOW_S) == "finished"
    assert cluster.ended(pod("never seen"), NOW_S) == "unknown"
    assert cluster.placed(pod("a", "n"), NOW_S) == "placed"
    assert cluster.placed(pod("a", "n") | {"status": {"phase": "Succeeded"}}, NOW_S + 9) == "ended"
    assert [name for name, _ in predictor.admitted] == ["a"]


def test_ended_pods_are_remembered_in_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "N_GONE", 2)
    cluster, _ = fixed_nodes({"a": 60.0, "b": 60.0, "c": 60.0})
    assert [cluster.ended(pod(name), NOW_S) for name in "abc"] == ["unknown"] * 3
    assert [cluster.placed(pod(name, "n"), NOW_S) for name in "abc"] == ["placed", "known", "known"]


def test_what_is_due_is_forgotten_with_its_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "_N_VOID_MAX", 4)
    cluster, _ = fixed_nodes({str(idx): 1e6 for idx in range(50)})
    for idx in range(50):
        cluster.placed(pod(str(idx), "n"), NOW_S + idx)
        if idx >= 2:
            cluster.ended(pod(str(idx)), NOW_S + idx)
        assert cluster.exit_s("n", NOW_S + idx) == NOW_S + min(idx, 1) + 1e6
        assert len(cluster._due) <= 2 * 2 + 4


def test_times_are_the_pods_own_and_never_in_the_future() -> None:
    cluster, predictor = fixed_nodes({"old": 60.0, "ahead": 60.0, "plain": 60.0})
    cluster.placed(pod("old", "n", startTime=_time(NOW_S - 900)), NOW_S)
    cluster.placed(pod("ahead", "n", startTime=_time(NOW_S + 900)), NOW_S)
    cluster.placed(pod("plain", "n"), NOW_S)
    assert predictor.admitted == [("old", NOW_S - 900), ("ahead", NOW_S), ("plain", NOW_S)]
    statuses = [{"state": {"terminated": {"finishedAt": _time(NOW_S - each_s)}}} for each_s in (300, 200)]
    cluster.placed(pod("old", "n", phase="Succeeded", containerStatuses=statuses), NOW_S)
    cluster.ended(pod("ahead", containerStatuses=[{"state": {"terminated": {"finishedAt": _time(NOW_S - 5)}}}]), NOW_S)
    cluster.ended(pod("plain", containerStatuses=[{"state": {"terminated": {"finishedAt": _time(NOW_S + 99)}}}]), NOW_S)
    # the later of two containers; not before the start; not after now
    assert predictor.ends == [("old", NOW_S - 200), ("ahead", NOW_S), ("plain", NOW_S)]


@pytest.mark.parametrize("no_time", ["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2014-05-31T23:59:59Z"])
def test_a_time_that_no_pod_can_have_is_none(no_time: str) -> None:
    """Taken as a start, one such pod spoils its owner's mean for good."""
    cluster, predictor = fixed_nodes({"a": 60.0})
    cluster.placed(pod("a", "n", startTime=no_time), NOW_S)
    ends = [{"state": {"terminated": {"finishedAt": no_time}}}]
    cluster.ended(pod("a", containerStatuses=ends), NOW_S + 90)
    assert (predictor.admitted, predictor.ends) == ([("a", NOW_S)], [("a", NOW_S + 90)])


def test_no_pod_starts_before_it_was_created() -> None:
    cluster, predictor = fixed_nodes({"a": 60.0, "b": 60.0})
    for name, created_s in (("a", NOW_S - 900), ("b", NOW_S + 900)):  # b's is after now, and says nothing
        early = pod(name, "n", startTime=_time(NOW_S - 86_400))
        early["metadata"]["creationTimestamp"] = _time(created_s)
        assert cluster.placed(early, NOW_S) == "placed"
    assert predictor.admitted == [("a", NOW_S - 900), ("b", NOW_S - 86_400)]


def test_what_does_not_keep_a_node_up_is_ignored() -> None:
    cluster, _ = fixed_nodes({})
    daemon = pod("a", "n") | {"metadata": {"uid": "1", "ownerReferences": [{"kind": "DaemonSet"}]}}
    static = pod("b", "n") | {"metadata": {"uid": "2", "annotations": {"kubernetes.io/config.mirror": "x"}}}
    assert [cluster.placed(each, NOW_S) for each in (daemon, static, pod("pending"))] == ["ignored"] * 3
    assert cluster.exit_s("n", NOW_S) is None


def test_refusals_leave_no_mark() -> None:
    cluster, predictor = fixed_nodes({"a": 60.0, "b": 60.0}, n_pods_max=1)
    cluster.placed(pod("a", "n"), NOW_S)
    for document, message in [
        (pod("a", "other"), "spec.nodeName must stay 'n', got 'other'"),
        (pod("b", "n"), "pods must be at most 1, got one more"),
        ({"metadata": {}}, "metadata.uid must be given, got None"),
        ({"metadata": {"uid": 7}}, "value must be text"),
        (7, "object must be an object, got 7"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            cluster.placed(document, NOW_S)  # type: ignore[arg-type]
    cluster.ended(pod("a"), NOW_S)
    for document in (pod("b", "n", startTime="noon"), pod("b", "n" * 513), pod("b", ["n"])):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="must be"):
            cluster.placed(document, NOW_S)
    assert (len(cluster), cluster.n_pods, len(predictor.admitted)) == (0, 0, 1)


def test_pods_are_absent_unless_they_are_new() -> None:
    cluster, _ = fixed_nodes(dict.fromkeys("abc", 1e5))
    cluster.placed(pod("a", "n"), NOW_S)
    cluster.placed(pod("b", "n"), NOW_S)
    cluster.placed(pod("c", "n"), NOW_S + 1)
    assert cluster.absent(["uid-a"], NOW_S + ABSENT_GRACE_S) == ["uid-b"]


def test_drains_are_told_by_nodes_or_whole_lists() -> None:
    drains = Drains("sojourn/drain-by")
    assert drains.update({"items": [_node("a", _time(NOW_S)), _node("b")]}) == {"nodes": 2, "draining": 1}
    drains.update(_node("b", _time(NOW_S + 1)))
    assert drains.among(["a", "b"]) == [("a", NOW_S), ("b", NOW_S + 1)]
    drains.update(_node("a"))
    assert drains.among(["a"]) == []
    with pytest.raises(ValueError, match="annotation sojourn/drain-by of node 'c': time must be one such as"):
        drains.update({"items": [_node("a", _time(NOW_S)), _node("c", "soon")]})
    assert drains.among(["a", "b"]) == [("b", NOW_S + 1)]
    drains.update({"items": []})
    assert drains.among(["b"]) == []
    assert (drains.deadline_of(_node("c", "soon")), drains.n_unreadable) == (None, 1)


@pytest.mark.parametrize("time", ["2026-03-01", "2026-03-01T06:00:00", "noon", "", 7, None, [], "2026-13-01T00:00:00Z"])
def test_a_time_without_a_zone_is_none(time: Any) -> None:
    with pytest.raises(ValueError, match="time must be one such as"):
        unix_s(time)


def test_times_with_fractions_and_zones() -> None:
    assert unix_s("2026-03-01T07:00:00.999999+01:00") == NOW_S
    assert unix_s("0001-01-01T00:00:00Z") < 0
    assert finished_unix_s({"status": {"containerStatuses": [{"state": {"running": {}}}]}}) is None


def _node(name: str, drain_by: str | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {} if drain_by is None else {"sojourn/drain-by": drain_by}}}


def _time(unix: int) -> str:
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
