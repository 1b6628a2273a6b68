"""The cost writer: what a pod's eviction costs, who may write where, and that all of it can be taken back."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3

from made_cluster import MadeCluster
from made_pods import SIX_S, pod, stamp
from sojourn.serving import Predictor, example_bundle
from sojourn.serving.extender.nodes import PodRequests
from sojourn.serving.kubernetes import ask, costs, open_cluster
from sojourn.serving.kubernetes.costs import (
    CONSUMERS,
    FREED_S,
    LEVELS,
    N_FAILED_MAX,
    REASONS,
    WROTE,
    Cost,
    PodCosts,
    RoundFailed,
    Rules,
    Writer,
    cost_level,
    costs_main,
    costs_metrics,
    rounds,
    table,
)
from sojourn.simulator.loop.state import COST_LEAST, COST_MOST
from sojourn.simulator.pool import Consolidation

HOUR = 3_600
NOW_S = SIX_S + 6 * HOUR
KEY = CONSUMERS["karpenter"].key
OWNER = ("Job", "train")
MERGE = {"Content-Type": "application/merge-patch+json"}
RBAC = 'pods "a" is forbidden: User "system:serviceaccount:x:y" cannot patch resource "pods" in API group ""'


class Remaining:
    """Each pod's remaining time, by name; of no owner that is known if it has none."""

    encoder: Any = SimpleNamespace(history=SimpleNamespace(keys=(SimpleNamespace(name="app", columns=("app",)),)))

    def __init__(self, **remaining_s: float) -> None:
        self.remaining_s = remaining_s

    def request(self, pod: Any) -> dict[str, Any]:
        return {"app": pod["metadata"]["name"]}

    def predict(self, request: Any, now_s: int) -> Any:
        left_s = self.remaining_s.get(request["app"])
        return SimpleNamespace(not_given=(), not_seen=() if left_s is not None else ("app",),
                               remaining=lambda uptime_s: left_s)


def job(name: str, start_s: float | None = 0, end_s: float | None = None, **options: Any) -> dict[str, Any]:
    """A running pod of a Job that began so many seconds after six."""
    return pod(name, start_s, end_s, **{"owner": OWNER, **options})


def writer(cluster: MadeCluster, consumer: str = "karpenter", *, remaining: Remaining | None = None,
           waits: list[float] | None = None, stop_after: int = 10**6, said: list[str] | None = None,
           **rules: Any) -> Writer:
    """At noon, by uptime alone unless remaining times are given; it is told to stop at the wait `stop_after`."""
    seen: list[float] = [] if waits is None else waits

    def wait(seconds: float) -> bool:
        seen.append(seconds)
        return len(seen) >= stop_after

    made = Rules(consumer, **{"is_writing": True, **rules})
    of = None if made.is_removing else PodCosts() if remaining is None else PodCosts(remaining, remaining)
    return Writer(cluster, made, of, wait=wait, clock=lambda: NOW_S, say=([] if said is None else said).append)


@pytest.mark.parametrize(("ratio", "level"), [
    (0.0, -4), (2**-3.51, -4), (2**-3.49, -3), (0.7, -1), (0.72, 0), (1.0, 0), (1.41, 0), (1.42, 1), (5.6, 2),
    (5.7, 3), (1e9, 3), (math.inf, 3)])  # fmt: skip
def test_a_level_is_the_nearest_power_of_2(ratio: float, level: int) -> None:
    assert cost_level(ratio) == level


def test_a_level_is_kept_until_the_ratio_is_a_quarter_beyond_its_edge() -> None:
    # level 0 begins at 2**-0.5 and ends at 2**0.5
    assert [cost_level(2.0**exact, 0) for exact in (-0.76, -0.74, 0.0, 0.74, 0.76)] == [-1, 0, 0, 0, 1]
    # a pod that ages to 200 times its remaining time is written 8 times: once a level
    present, n_written = None, 0
    for minutes in range(1, 20_000):
        level = cost_level(minutes / 100.0, present)
        n_written, present = n_written + (level != present), level
    assert n_written == len(LEVELS)


def test_values_are_costs_that_karpenter_does_not_cut() -> None:
    for name in ("karpenter", "deletion-cost"):
        for level in LEVELS:
            value = int(CONSUMERS[name].value(level))
            assert -(2**31) <= value < 2**31
            assert 0.0 < 1.0 + value / 2**27 == 2.0**level < 10.0
    assert [CONSUMERS["kueue"].value(level) for level in LEVELS] == list("01234567")  # never below those that wait


def test_the_replay_has_the_same_costs() -> None:
    assert (2.0 ** LEVELS[0], 2.0 ** LEVELS[-1]) == (COST_LEAST, COST_MOST)
    assert Consolidation().cost_unit_s == FREED_S


@pytest.mark.parametrize(("cost", "ratio"), [
    (Cost(3 * HOUR, math.inf), 0.5),  # over 6 h
    (Cost(3 * HOUR, 30 * HOUR), 0.5),  # room is freed for 6 h, at most
    (Cost(3 * HOUR, HOUR), 3.0),
    (Cost(3 * HOUR, 0.0), 10_800.0),
])  # fmt: skip
def test_the_ratio_is_of_uptime_to_the_time_for_which_room_is_freed(cost: Cost, ratio: float) -> None:
    assert cost.ratio == ratio


@pytest.mark.parametrize(("each", "reason"), [
    (pod("a", 0, owner=("DaemonSet", "x")), "other_kind"), (pod("a", 0, owner=("ReplicaSet", "x")), "other_kind"),
    (pod("a", 0), "other_kind"), (job("a", 0, 600), "ending"), (job("a", deletionTimestamp=stamp(NOW_S)), "ending"),
    (job("a", None), "no_start"), (job("a", 7 * HOUR), "no_start"), (job("b"), "unknown"),
    ({**job("a"), "status": {"startTime": "0001-01-01T00:00:00Z"}}, "no_start"),
    ({**job("a"), "status": {"startTime": "noon"}}, "unreadable"), ({**job("a"), "status": 3}, "unreadable"),
    ({"metadata": {"ownerReferences": {}}}, "unreadable"), ({}, "other_kind"),
])  # fmt: skip
def test_a_pod_without_a_cost_has_a_reason(each: Any, reason: str) -> None:
    of = Remaining(a=HOUR)
    assert PodCosts(of, of).of(each, NOW_S) == reason
    assert reason in REASONS


def test_a_pod_that_started_before_it_was_made_began_when_it_was_made() -> None:
    each = job("a")
    each["status"]["startTime"] = stamp(SIX_S - 9 * HOUR)
    assert PodCosts().of(each, NOW_S) == Cost(6.0 * HOUR, math.inf)
    bare = {"metadata": {"ownerReferences": [{"kind": "Job", "name": "x", "controller": True}]},
            "status": {"startTime": stamp(SIX_S)}}  # no uid, no requests
    assert PodCosts().of(bare, NOW_S) == Cost(6.0 * HOUR, math.inf)


def test_a_bundle_of_another_cluster_writes_nothing() -> None:
    predictor = Predictor.load(example_bundle())
    cluster = MadeCluster(job("a"), job("b"))
    of = PodCosts(predictor, PodRequests(predictor))
    counts = Writer(cluster, Rules("karpenter", is_writing=True), of, wait=lambda s: False, clock=lambda: NOW_S).round()
    assert +counts == Counter(objects=2, unknown=2)
    assert cluster.n_patches == 0


def test_a_round_writes_what_has_changed_and_no_more() -> None:
    cluster = MadeCluster(job("a"), job("b", 3 * HOUR), job("c", -90 * HOUR), pod("web", 0, owner=("ReplicaSet", "w")))
    own = writer(cluster)
    assert +own.round() == Counter(objects=4, written=3, other_kind=1)
    # 6 h, 3 h and 96 h over 6 h: costs of 1, 0.5 and 8
    values = [cluster.annotations(f"/api/v1/namespaces/a/pods/{name}") for name in "abc"]
    expected = ["0", str(-(2**26)), str(7 * 2**27)]
    assert values == [{KEY: value, WROTE: f"{KEY}={value}"} for value in expected]
    assert +own.round() == Counter(objects=4, kept=3, other_kind=1)
    assert cluster.n_patches == 3
    # another process finds the same
    assert +writer(cluster).round() == Counter(objects=4, kept=3, other_kind=1)
    # all pages were read, of running pods alone
    assert {query["fieldSelector"] for query in cluster.queries} == {"status.phase=Running"}


def test_a_prediction_makes_a_pod_dearer_that_is_about_to_end() -> None:
    cluster = MadeCluster(job("a"), job("b"))
    writer(cluster, remaining=Remaining(a=1_000 * HOUR, b=HOUR)).round()
    levels = [CONSUMERS["karpenter"].level(cluster.annotations(f"/api/v1/namespaces/a/pods/{name}")[KEY])
              for name in "ab"]
    assert levels == [0, 3]  # 6 h over 6 h, over 1 h: 6 is next to 8


def test_what_others_wrote_is_left() -> None:
    cluster = MadeCluster(job("a", annotations={KEY: "7"}), job("b", annotations={"x": "y"}))
    path = "/api/v1/namespaces/a/pods/a"
    assert +writer(cluster).round() == Counter(objects=2, foreign=1, written=1)
    assert cluster.annotations(path) == {KEY: "7"}
    assert +writer(cluster, is_removing=True).round() == Counter(objects=2, absent=1, removed=1)
    assert cluster.annotations(path) == {KEY: "7"}
    assert cluster.annotations("/api/v1/namespaces/a/pods/b") == {"x": "y"}


@pytest.mark.parametrize("new", ["9", None])
def test_who_changes_or_takes_away_our_value_keeps_theirs(new: str | None) -> None:
    cluster = MadeCluster(job("a"))
    path = "/api/v1/namespaces/a/pods/a"
    own = writer(cluster)
    own.round()
    cluster.touch(path, **{KEY: new})
    assert +own.round() == Counter(objects=1, foreign=1)
    assert +writer(cluster, is_removing=True).round() == Counter(objects=1, removed=1)
    assert cluster.annotations(path) == ({} if new is None else {KEY: new})


def test_an_edit_between_reading_and_writing_is_not_overwritten() -> None:
    cluster = MadeCluster(job("a"))
    path = "/api/v1/namespaces/a/pods/a"
    cluster.on_patch = lambda path: cluster.touch(path, **{KEY: "5"})
    own = writer(cluster)
    assert +own.round() == Counter(objects=1, conflict=1)
    assert cluster.annotations(path) == {KEY: "5"}
    assert +own.round() == Counter(objects=1, foreign=1)


def test_one_pod_never_has_both_keys() -> None:
    cluster = MadeCluster(job("a"), job("b"))
    other = CONSUMERS["deletion-cost"].key
    writer(cluster, "deletion-cost").round()
    assert set(cluster.annotations("/api/v1/namespaces/a/pods/a")) == {other, WROTE}
    cluster.touch("/api/v1/namespaces/a/pods/b", **{KEY: "3"})  # somebody's own value: ours of the other key goes
    assert +writer(cluster).round() == Counter(objects=2, written=1, removed=1)
    assert set(cluster.annotations("/api/v1/namespaces/a/pods/a")) == {KEY, WROTE}
    assert cluster.annotations("/api/v1/namespaces/a/pods/b") == {KEY: "3"}


def test_a_record_of_another_key_takes_nothing_away() -> None:
    forged = {"karpenter.sh/do-not-disrupt": "true", WROTE: "karpenter.sh/do-not-disrupt=true"}
    cluster = MadeCluster(job("a", annotations=forged))
    assert +writer(cluster).round() == Counter(objects=1, foreign=1)
    writer(cluster, is_removing=True).round()
    assert cluster.annotations("/api/v1/namespaces/a/pods/a") == {"karpenter.sh/do-not-disrupt": "true"}


@pytest.mark.parametrize("n_written", range(4))
def test_after_a_stop_at_any_pod_all_is_taken_back(n_written: int) -> None:
    cluster = MadeCluster(job("a"), job("b", annotations={"x": "y"}), job("c"), pod("web", 0), job("done", 0, 60))
    before = cluster.state()
    counts = writer(cluster, stop_after=max(n_written, 1), n_max=3 if n_written else 0).round()
    assert (counts["written"], counts["left"]) == (n_written, 3 - n_written)
    # pods that have ended, or that no cost is for any more, too; in small steps, and once more
    if n_written:
        path = "/api/v1/namespaces/a/pods/a"
        cluster.objects[path]["status"]["phase"] = "Succeeded"
    code = rounds(writer(cluster, is_removing=True, n_max=2), is_once=False, is_removing=True, every_s=60,
                  wait=lambda s: False)
    assert code == 0
    if n_written:
        cluster.objects[path]["status"]["phase"] = "Running"
    assert cluster.state() == before
    n_patches = cluster.n_patches
    assert writer(cluster, is_removing=True).round()["removed"] == 0
    assert cluster.n_patches == n_patches


def test_a_cost_that_is_no_longer_wanted_is_taken_back() -> None:
    cluster = MadeCluster(pod("web", 0, owner=("ReplicaSet", "w")))
    before = cluster.state()
    both = PodCosts(is_any_kind=True)
    Writer(cluster, Rules("karpenter", is_writing=True), both, wait=lambda s: False, clock=lambda: NOW_S).round()
    assert cluster.state() != before
    assert +writer(cluster).round() == Counter(objects=1, other_kind=1, removed=1)
    assert cluster.state() == before


def test_writes_keep_their_pace_and_their_number() -> None:
    cluster = MadeCluster(*(job(f"p{k}", k * HOUR) for k in range(5)))
    waits: list[float] = []
    own = writer(cluster, waits=waits, per_minute=30, n_max=3)
    assert +own.round() == Counter(objects=5, written=3, left=2)
    assert waits == [2.0, 2.0]
    assert +own.round() == Counter(objects=5, written=2, kept=3)


@pytest.mark.parametrize(("status", "message", "expected"), [
    (404, "gone", Counter(objects=2, gone=1, written=1)),
    (409, "modified", Counter(objects=2, conflict=1, written=1)),
    (429, "busy", Counter(objects=2, throttled=1, left=1)),
    (500, "boom", Counter(objects=2, failed=1, written=1)),
    (422, "invalid", Counter(objects=2, refused=1, written=1)),
    (403, 'admission webhook "w" denied the request: no', Counter(objects=2, refused=1, written=1)),
])  # fmt: skip
def test_what_the_server_may_answer(status: int, message: str, expected: Counter[str]) -> None:
    cluster = MadeCluster(job("a"), job("b"))
    cluster.answers["PATCH", "/api/v1/namespaces/a/pods/a"] = (status, message)
    said: list[str] = []
    own = writer(cluster, said=said)
    assert +own.round() == expected
    n_patches = cluster.n_patches
    again = own.round()
    is_refused = "refused" in expected
    assert again["refused_before"] == is_refused
    assert cluster.n_patches == n_patches + (2 if status == 429 else 0 if is_refused else 1) - (status == 429)
    assert len(said) == (is_refused or status == 500)
    del cluster.answers["PATCH", "/api/v1/namespaces/a/pods/a"]
    assert +writer(cluster).round() + Counter() == Counter(
        objects=2, **({"written": 2} if status == 429 else {"written": 1, "kept": 1}))


def test_a_webhook_that_rejects_all_is_named_once_and_not_asked_again() -> None:
    cluster = MadeCluster(*(job(f"p{k}") for k in range(20)))
    for path in cluster.objects:
        cluster.answers["PATCH", path] = (403, f'admission webhook "w" denied the request: pod "{path}" is ours')
    said: list[str] = []
    own = writer(cluster, said=said)
    assert own.round()["refused"] == 20
    assert own.round()["refused_before"] == 20
    assert (len(said), cluster.n_patches) == (1, 20)
    assert own.totals == Counter(refused=20)


def test_taking_back_that_is_refused_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = MadeCluster(job("a"), job("b"))
    writer(cluster).round()
    cluster.answers["PATCH", "/api/v1/namespaces/a/pods/a"] = (403, 'admission webhook "w" denied the request: no')
    own = writer(cluster, is_removing=True)
    assert rounds(own, is_once=False, is_removing=True, every_s=60, wait=lambda s: False) == 1
    assert cluster.annotations("/api/v1/namespaces/a/pods/b") == {}


@pytest.mark.parametrize("each", [3, None, [], {}, {"metadata": 3}, {"metadata": {"name": 4, "namespace": "a"}},
                                  {"metadata": {"ownerReferences": 3, "name": "x", "namespace": "a"}},
                                  {"metadata": {"annotations": 3, "name": "x", "namespace": "a"}}])  # fmt: skip
@pytest.mark.parametrize("consumer", ["karpenter", "kueue"])
def test_objects_of_a_wrong_form_do_not_end_a_round(each: Any, consumer: str) -> None:
    cluster = MadeCluster()
    group = "/apis/kueue.x-k8s.io/v1beta2"
    cluster.answers["GET", "/apis/kueue.x-k8s.io"] = (200, {"preferredVersion": {"groupVersion": group[6:]}})
    for path in ("/api/v1/pods", f"{group}/workloads"):
        cluster.answers["GET", path] = (200, {"items": [each, {**job("a"), "metadata": {**job("a")["metadata"],
                                                                                       "resourceVersion": "7"}}]})
    for is_removing in (False, True):
        counts = writer(cluster, consumer, is_removing=is_removing).round()
        assert counts["unreadable"] + counts["other_kind"] == 1
        assert counts["gone"] + counts["absent"] == 1  # the good one


def test_a_server_that_fails_ends_the_round() -> None:
    cluster = MadeCluster(*(job(f"p{k}") for k in range(9)))
    for path in cluster.objects:
        cluster.answers["PATCH", path] = (0, urllib3.exceptions.ProtocolError("reset"))
    counts = writer(cluster).round()
    assert (counts["failed"], counts["left"], cluster.n_patches) == (N_FAILED_MAX, 9 - N_FAILED_MAX, N_FAILED_MAX)


def test_who_may_not_patch_is_told_at_once() -> None:
    cluster = MadeCluster(job("a"), job("b"))
    cluster.answers["PATCH", "/api/v1/namespaces/a/pods/a"] = (403, RBAC)
    with pytest.raises(RoundFailed, match="cannot patch resource") as failed:
        writer(cluster).round()
    assert failed.value.is_final
    assert cluster.n_patches == 1


@pytest.mark.parametrize(("answer", "words", "code"), [
    ((401, "Unauthorized"), "401 Unauthorized", 2),
    ((403, 'User "u" cannot list resource "pods"'), "cannot list", 2),
    ((500, "boom"), "500 boom", 1),
    ((200, b"<html>"), "must answer in JSON", 1),
    ((200, {"items": 3}), "must answer with a list", 1),
    ((0, urllib3.exceptions.ProtocolError("reset")), "did not answer: reset", 1),
])  # fmt: skip
def test_a_list_that_fails_is_one_line(answer: Any, words: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = MadeCluster(job("a"))
    cluster.answers["GET", "/api/v1/pods"] = answer
    assert rounds(writer(cluster), is_once=True, is_removing=False, every_s=60, wait=lambda s: True) == code
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert words in error


def test_rounds_go_on_after_one_that_failed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cluster = MadeCluster(job("a"))
    cluster.answers["GET", "/api/v1/pods"] = (503, "busy")
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        cluster.answers.clear()
        return len(waits) == 3

    file = tmp_path / "costs.prom"
    assert rounds(writer(cluster), is_once=False, is_removing=False, every_s=60, wait=wait, metrics_file=file,
                  clock=lambda: NOW_S) == 0
    assert rounds(writer(MadeCluster()), is_once=True, is_removing=False, every_s=60, wait=wait,
                  metrics_file=file / "below", clock=lambda: NOW_S) == 0  # a metrics file that cannot be written
    assert waits == [60.0, 60.0, 60.0]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"time_s": NOW_S, "objects": 1, "written": 1}, {"time_s": NOW_S, "objects": 1, "kept": 1},
                     {"time_s": NOW_S}]
    metrics = file.read_text()
    assert 'sojourn_costs_writes_total{outcome="written"} 1\n' in metrics
    assert 'sojourn_costs_objects{state="kept"} 1\n' in metrics
    assert "sojourn_costs_failed_rounds_total 1\n" in metrics


def test_the_server_tells_the_time() -> None:
    cluster = MadeCluster(job("a"), now_s=NOW_S + 90 * HOUR)
    said: list[str] = []
    own = writer(cluster, said=said)
    own.round()
    own.round()
    assert CONSUMERS["karpenter"].level(cluster.annotations("/api/v1/namespaces/a/pods/a")[KEY]) == 3
    assert said == ["clock    +324,000 s from this machine's to the API server's, which is used"]


def workload(name: str, owner_uid: str, **metadata: Any) -> dict[str, Any]:
    """A workload of Kueue that a Job owns."""
    return {"metadata": {"name": name, "namespace": "a", "uid": f"uid-{name}",
                         "ownerReferences": [{"kind": "Job", "uid": owner_uid}], **metadata}}


def test_a_workload_of_kueue_has_the_level_of_its_dearest_pod() -> None:
    cluster = MadeCluster()
    group, key = "/apis/kueue.x-k8s.io/v1beta2", CONSUMERS["kueue"].key
    for name, start_s in (("a", 0), ("b", -90 * HOUR)):
        each = job(name, start_s)
        each["metadata"]["ownerReferences"][0]["uid"] = "job-1"
        cluster.add(each)
    one = cluster.add(workload("w1", "job-1"), group, "workloads")
    other = cluster.add(workload("w2", "job-2"), group, "workloads")
    before = cluster.state()
    cluster.answers["GET", "/apis/kueue.x-k8s.io"] = (200, {"preferredVersion": {
        "groupVersion": "kueue.x-k8s.io/v1beta2"}})
    assert +writer(cluster, "kueue").round() == Counter(objects=2, written=1, no_pod=1)
    assert cluster.annotations(one) == {key: "7", WROTE: f"{key}=7"}
    cluster.touch(one, **{key: "3", WROTE: f"{key}=3"})  # of the writer before, whose boosts began at -4
    assert +writer(cluster, "kueue").round() == Counter(objects=2, written=1, no_pod=1)
    assert cluster.annotations(one)[key] == "7"
    assert cluster.annotations(other) == {}
    # evicted: its boost goes, so that it does not decide in the queue
    for path in ("a", "b"):
        cluster.objects[f"/api/v1/namespaces/a/pods/{path}"]["status"]["phase"] = "Failed"
    assert +writer(cluster, "kueue").round() == Counter(objects=2, removed=1, no_pod=2)
    for path in ("a", "b"):
        cluster.objects[f"/api/v1/namespaces/a/pods/{path}"]["status"]["phase"] = "Running"
    writer(cluster, "kueue").round()
    writer(cluster, "kueue", is_removing=True).round()
    assert cluster.state() == before
    for words in ("not found", b"404 page not found\n"):  # the latter from a server without the group
        cluster.answers["GET", "/apis/kueue.x-k8s.io"] = (404, words)
        with pytest.raises(RoundFailed, match=r"/apis/kueue\.x-k8s\.io: 404") as failed:
            writer(cluster, "kueue").round()
        assert failed.value.is_final


def test_the_program_writes_nothing_by_default(monkeypatch: pytest.MonkeyPatch,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    cluster = MadeCluster(*(job(f"a-job-of-a-very-long-name-{k}", -k * HOUR) for k in range(50)), now_s=NOW_S)
    before = cluster.state()
    monkeypatch.setattr(costs, "open_cluster", lambda kubeconfig, context: cluster)
    assert costs_main(["--consumer", "karpenter", "--namespace", "a"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines()[:-1])) <= 80
    assert "~job-of-a-very-long-name-49" in out or "a-job-of-a-very-long-name-49" in out
    assert out.splitlines()[-2] == "and 10 more"
    assert json.loads(out.splitlines()[-1])["to_be_written"] == 50
    assert (cluster.state(), cluster.n_patches) == (before, 0)
    assert costs_main(["--consumer", "karpenter", "--remove"]) == 0
    assert costs_main(["--consumer", "karpenter", "--write", "--once", "--writes-per-minute", "6000"]) == 0
    assert cluster.n_patches == 50
    capsys.readouterr()
    assert costs_main(["--consumer", "karpenter", "--remove"]) == 0
    assert "(taken away)" in capsys.readouterr().out
    assert cluster.n_patches == 50
    assert costs_main([str(example_bundle()), "--consumer", "karpenter"]) == 0  # of no owner that it knows
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["unknown"] == 50


@pytest.mark.parametrize(("arguments", "words"), [
    (["--consumer", "both"], "invalid choice"), ([], "--consumer"), (["--consumer", "kueue", "--every", "1s"], "10s"),
    (["--consumer", "kueue", "--writes-per-minute", "0"], "whole number"),
])  # fmt: skip
def test_options_that_are_refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        costs_main(arguments)
    assert words in capsys.readouterr().err


def test_no_bundle_and_no_cluster_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert costs_main([str(tmp_path / "none"), "--consumer", "karpenter"]) == 2
    assert costs_main(["--consumer", "karpenter", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.count("error: ") == 2
    columns = tmp_path / "columns.json"
    columns.write_text("zone=label:zone")
    assert costs_main([str(example_bundle()), "--consumer", "karpenter", "--columns", str(columns)]) == 2
    assert f"--columns must be a file of JSON, got {columns}: " in capsys.readouterr().err


def test_the_table_and_the_metrics_of_nothing() -> None:
    assert len(list(table([]))) == 1
    assert 'outcome="written"} 0' in costs_metrics({}, {}, 0, 0.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_a_real_api_server(capsys: pytest.CaptureFixture[str]) -> None:
    """SOJOURN_KUBE: a folder with `kubeconfig` of a running API server whose objects may be changed."""
    folder = os.environ.get("SOJOURN_KUBE")
    if folder is None or not (Path(folder) / "kubeconfig").exists():
        pytest.skip("SOJOURN_KUBE names no folder with the kubeconfig of a running API server")
    kubeconfig, space = str(Path(folder) / "kubeconfig"), f"sojourn-costs-{os.getpid()}"
    client = open_cluster(Path(kubeconfig))
    pods, group = f"/api/v1/namespaces/{space}/pods", "/apis/kueue.x-k8s.io/v1beta2"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "11111111-1111-1111-1111-111111111111"}

    def asked(method: str, path: str, body: Any = None) -> Any:
        answer = ask(client, method, path, body=body, headers=MERGE if method == "PATCH" else None)
        document = json.loads(answer.data)
        assert answer.status < 300, document
        return document

    def state(path: str = pods) -> Any:
        items = asked("GET", path)["items"]
        for each in items:
            del each["metadata"]["resourceVersion"], each["metadata"]["managedFields"]
        return items

    def annotations(path: str = pods) -> dict[str, set[str]]:
        return {each["metadata"]["name"]: set(each["metadata"].get("annotations", ())) for each in state(path)}

    asked("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
    for name, own in (("a", {}), ("b", {"x": "y"}), ("c", {KEY: "7"})):
        each = job(name, namespace=space, annotations=own, ownerReferences=[{**owner, "controller": True}])
        del each["status"], each["metadata"]["uid"], each["metadata"]["creationTimestamp"]
        asked("POST", pods, each)
        asked("PATCH", f"{pods}/{name}/status", {"status": {"phase": "Running", "startTime": stamp(SIX_S)}})
    before = state()
    options = ["--consumer", "karpenter", "--kubeconfig", kubeconfig, "--namespace", space,
               "--writes-per-minute", "6000"]
    assert costs_main(options) == 0
    assert state() == before
    assert costs_main([*options, "--write", "--once"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["written"] == 2
    assert annotations() == {"a": {KEY, WROTE}, "b": {KEY, WROTE, "x"}, "c": {KEY}}
    assert costs_main([*options, "--remove", "--write"]) == 0
    assert state() == before

    def edit(seconds: float) -> bool:  # the second pod, after the first was written
        asked("PATCH", f"{pods}/b", {"metadata": {"annotations": {KEY: "5"}}})
        return False

    counts = Writer(client, Rules("karpenter", space, is_writing=True), PodCosts(), wait=edit).round()
    assert +counts == Counter(objects=3, foreign=1, written=1, conflict=1)
    asked("PATCH", f"{pods}/b", {"metadata": {"annotations": {KEY: None}}})
    # a webhook that cannot be reached: the API server refuses every change of a pod
    hook = {"name": f"{space}.example.org", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "timeoutSeconds": 1, "clientConfig": {"url": "https://127.0.0.1:1/"}, "failurePolicy": "Fail", "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}]}
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    asked("POST", hooks, {"metadata": {"name": space}, "webhooks": [hook]})
    edited = {"metadata": {"labels": {"x": "y"}}}
    for n_tries in range(1_000):  # the API server takes a moment to know of it
        edited["metadata"]["labels"]["x"] = str(n_tries)
        if ask(client, "PATCH", f"{pods}/c", body=edited, headers=MERGE).status != 200:
            break
    said: list[str] = []
    counts = Writer(client, Rules("karpenter", space, is_removing=True, is_writing=True), None, wait=lambda s: False,
                    say=said.append).round()
    assert (counts["failed"], counts["removed"], len(said)) == (1, 0, 1)
    assert "failed calling webhook" in said[0]
    asked("DELETE", f"{hooks}/{space}")
    # workloads of Kueue, by a definition with the fields of its v1beta2 (apis/kueue/v1beta2/workload_types.go), less
    # rules in CEL, which 1.20 does not know; what is not in it is cut off
    names = {"plural": "workloads", "singular": "workload", "kind": "Workload", "listKind": "WorkloadList"}
    pod_set = {"type": "object", "required": ["name", "count", "template"], "properties": {
        "name": {"type": "string"}, "count": {"type": "integer", "minimum": 0},
        "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    spec = {"type": "object", "properties": {
        "podSets": {"type": "array", "minItems": 1, "maxItems": 8, "items": pod_set},
        "queueName": {"type": "string"}, "priority": {"type": "integer", "format": "int32"},
        "active": {"type": "boolean", "default": True}}}
    schema = {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
        "spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}}
    asked("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
        "metadata": {"name": "workloads.kueue.x-k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved"}},
        "spec": {"group": "kueue.x-k8s.io", "names": names, "scope": "Namespaced", "versions": [
            {"name": f"v1beta{number}", "served": True, "storage": number == 2, "schema": schema,
             "subresources": {"status": {}}} for number in (1, 2)]}})
    workloads = f"{group}/namespaces/{space}/workloads"
    for _ in range(1_000):
        if ask(client, "GET", workloads).status == 200:
            break
    containers = [{"name": "c", "image": "i"}]
    asked("POST", workloads, {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {
        "name": "w", "ownerReferences": [owner]}, "spec": {"queueName": "q", "priority": 10, "podSets": [
            {"name": "main", "count": 1, "template": {"spec": {"containers": containers}}}]}})
    asked("PATCH", f"{workloads}/w/status", {"status": {"admission": {"clusterQueue": "cq"}}})
    before = state(workloads)
    assert before[0]["spec"]["priority"] == 10 and before[0]["status"]["admission"] == {"clusterQueue": "cq"}
    options[1] = "kueue"
    assert costs_main([*options, "--write", "--once"]) == 0
    assert annotations(workloads) == {"w": {CONSUMERS["kueue"].key, WROTE}}
    written = state(workloads)
    assert 0 <= int(written[0]["metadata"].pop("annotations")[CONSUMERS["kueue"].key]) <= 7
    assert [{**each, "metadata": None} for each in written] == [{**each, "metadata": None} for each in before]
    assert costs_main([*options, "--remove", "--write"]) == 0
    assert state(workloads) == before
