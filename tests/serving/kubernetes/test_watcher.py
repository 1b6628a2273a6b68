"""The watcher against an API server in memory: lists, watches, and every kind of fault; then the view is right."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_api_server import CUT, Answer, FakeApi, cut, error_event, refusal, serving_api, with_lines
from made_bundles import Made
from made_extender import HOUR_S, SIX_OCLOCK_S, Clock, ask, connect, fixed_calls, serving
from sojourn.serving import Predictor
from sojourn.serving.extender.extender import Settings, bind
from sojourn.serving.extender.nodes import READER_SOURCES, PodColumns
from sojourn.serving.http import Turns
from sojourn.serving.kubernetes import main, open_cluster, watcher
from sojourn.serving.kubernetes.watcher import (
    CONNECTION_MAX_S,
    FORBIDDEN_S,
    N_FORBIDDEN,
    N_REASONS_MAX,
    STALE_S,
    NodeTaker,
    PodTaker,
    Reflector,
    Watcher,
    page_of,
    watched_objects,
)

NAMES = [f"p{number}" for number in range(6)]
TOTALS_S = dict.fromkeys(NAMES, 3.0 * HOUR_S)
DRAIN = "sojourn/drain-by"


def pod(name: str, node: str | None = "n0", uid: str = "", **fields: Any) -> dict[str, Any]:
    """A pod as the API server gives it, with what the watcher drops."""
    return {
        "metadata": {"name": name, "namespace": "a", "uid": uid or f"uid-{name}", "labels": {"app": name},
                     "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
                     **fields.pop("metadata", {})},
        "spec": {"containers": [{"name": "main", "image": "web:1", "env": [{"name": "A", "value": "b"}],
                                 "resources": {"requests": {"cpu": "1"}}}],
                 "volumes": [{"name": "v"}], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running" if node else "Pending", "conditions": [], **fields},
    }  # fmt: skip


def node(name: str, deadline: str | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, **({} if deadline is None else {"annotations": {DRAIN: deadline}})},
            "status": {"images": [{"names": ["web:1"]}]}}


class View:
    """Extender calls over known lifetimes, and the reflectors that feed them; nothing waits."""

    def __init__(self, kubeconfig: Path) -> None:
        self.calls, self.predictor, self.clock = fixed_calls(TOTALS_S)
        self.now_s, self.said = 0.0, list[str]()
        turns, self.client = Turns(), open_cluster(kubeconfig)
        takers = PodTaker(self.calls, turns, None), NodeTaker(self.calls._drains)
        self.pods, self.nodes = (Reflector(self.client, taker, turns, random.Random(3), lambda: self.now_s,
                                           self.said.append) for taker in takers)

    def placed(self) -> dict[str, tuple[str, int]]:
        """Node and start of each pod that runs, by uid."""
        return {uid: (each.node, each.vm.arrival_s) for uid, each in self.calls._nodes._placed.items()}

    def state(self) -> tuple[dict[str, tuple[str, int]], dict[str, int]]:
        return self.placed(), dict(self.calls._drains._deadlines)

    def settle(self) -> None:
        """Step until both are listed and a watch of each ended well."""
        for reflector in (self.pods, self.nodes):
            for _ in range(20):
                is_watch = reflector._version is not None
                if reflector.step() == 0.0 and is_watch:
                    break
            else:
                raise RuntimeError(f"does not settle: {reflector.failure}")


@contextmanager
def viewing(api: FakeApi, folder: Path) -> Iterator[View]:
    with serving_api(api, folder) as kubeconfig:
        view = View(kubeconfig)
        try:
            yield view
        finally:
            view.client.close()


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    for name in NAMES[:4]:
        api.put("pods", pod(name))
    api.put("nodes", node("n0"))
    return api


def test_pods_and_nodes_follow_the_server(api: FakeApi, tmp_path: Path) -> None:
    with viewing(api, tmp_path) as view:
        view.settle()
        assert set(view.placed()) == {"uid-p0", "uid-p1", "uid-p2", "uid-p3"}
        api.put("pods", pod("p4", None))  # waits for a node
        view.settle()
        assert "uid-p4" not in view.placed()
        api.put("pods", pod("p4", "n1"))
        api.put("pods", pod("p0", phase="Succeeded"))
        api.put("pods", pod("p1", metadata={"deletionTimestamp": "2026-03-01T06:00:00Z"}))  # still runs
        api.delete("pods", "a/p2")
        api.put("pods", pod("p2", "n2", "uid-again"))  # the same name, another pod
        api.put("nodes", node("n0", "2026-03-01T09:00:00Z"))
        api.put("nodes", node("n1", "2026-03-01T10:00:00Z"))
        api.put("nodes", node("n2", "soon"))
        view.settle()
        assert {uid: name for uid, (name, _) in view.placed().items()} == {
            "uid-p1": "n0", "uid-p3": "n0", "uid-p4": "n1", "uid-again": "n2"}  # fmt: skip
        assert view.state()[1] == {"n0": SIX_OCLOCK_S + 3 * HOUR_S, "n1": SIX_OCLOCK_S + 4 * HOUR_S}
        assert view.calls._drains.n_unreadable == 1
        api.put("nodes", node("n0"))
        api.delete("nodes", "/n1")  # its pods stay until they are deleted, too
        view.settle()
        assert view.state()[1] == {}
        assert view.placed()["uid-p4"][0] == "n1"
        assert view.pods.lists == {"start": 1} and not view.pods.failures and not view.nodes.failures
        assert view.pods.events["DELETED", "ended"] == 1 and view.pods.events["MODIFIED", "ended"] == 1


def test_what_is_asked(api: FakeApi, tmp_path: Path) -> None:
    api.page_size_max = 3
    with viewing(api, tmp_path) as view:
        view.settle()
    (first, second, watch), (nodes, _) = ([each for each in api.asked if each[0] == f"/api/v1/{resource}"]
                                          for resource in ("pods", "nodes"))
    assert first[1] == {"limit": "500"} and second[1] == {"limit": "500", "continue": "token-0"}
    assert watch[1] == {"watch": "true", "resourceVersion": "105", "timeoutSeconds": "60",
                        "allowWatchBookmarks": "true"}  # fmt: skip
    assert nodes[2]["Accept"].startswith("application/json;as=PartialObjectMetadataList;")
    assert first[2]["User-Agent"] == "sojourn"


def test_a_list_is_taken_in_by_the_starts(tmp_path: Path) -> None:
    api = FakeApi()
    api.page_size_max = 1
    for name, hour in (("p0", 5), ("p1", 3), ("p2", 4), ("p3", None)):
        api.put("pods", pod(name, **({} if hour is None else {"startTime": f"2026-03-01T0{hour}:00:00Z"})))
    with viewing(api, tmp_path) as view:
        view.settle()
    assert [name for name, _ in view.predictor.admitted] == ["p1", "p2", "p0", "p3"]


def lost(api: FakeApi) -> None:
    """What happens while the watcher cannot see it."""
    api.delete("pods", "a/p0")
    api.put("pods", pod("p1", phase="Failed"))
    api.put("pods", pod("p4", "n3"))
    api.put("nodes", node("n3", "2026-03-01T09:00:00Z"))


def half_twice(lines: list[bytes]) -> list[bytes]:
    """The first events again after the others, and each twice: the newest of a pod comes last."""
    return [line for each in lines[:-1] for line in (each, each)] + lines


WATCH_FAULTS: dict[str, tuple[Callable[[Answer], Answer], str]] = {
    "410 as an answer": (refusal(410, "Expired", "too old resource version"), "expired"),
    "410 as an event": (error_event(410, "Expired"), "expired"),
    "gone by its reason": (error_event(0, "Gone"), "expired"),
    "another error as an event": (error_event(500, "InternalError"), "server"),
    "cut in a line": (cut(0.6), "connection"),
    "ended in a line": (cut(0.6, is_clean=True), "garbage"),
    "cut before the first": (cut(0.0), "connection"),
    "no JSON": (with_lines(lambda lines: [lines[0], b"}{"]), "garbage"),
    "no UTF-8": (with_lines(lambda lines: [b'{"type":"ADDED","object":{"a":"\xff"}}', *lines]), "garbage"),
    "no object": (with_lines(lambda lines: [b"[1]", *lines]), "garbage"),
    "no version": (with_lines(lambda lines: [b'{"type":"ADDED","object":{"metadata":{}}}', *lines]), "garbage"),
    "deeper than Python goes": (with_lines(lambda lines: [b"[" * 100_000]), "garbage"),
    "403": (refusal(403, "Forbidden", "pods is forbidden"), "forbidden"),
    "401": (refusal(401, "Unauthorized"), "unauthorized"),
    "429": (refusal(429, "TooManyRequests"), "throttled"),
    "500": (refusal(500, "InternalError"), "server"),
    "504": (refusal(504, "Timeout", "Too large resource version"), "status"),
    "400": (refusal(400, "BadRequest", "Invalid value"), "status"),
    "a proxy's page": (lambda _: (502, {"Content-Type": "text/html"}, [b"<html>bad gateway</html>"]), "server"),
    "no HTTP body": (lambda _: (200, {}, [CUT]), "connection"),
}


@pytest.mark.parametrize("name", WATCH_FAULTS)
def test_the_view_is_right_after_a_fault_of_a_watch(name: str, api: FakeApi, tmp_path: Path) -> None:
    fault, reason = WATCH_FAULTS[name]
    with viewing(api, tmp_path) as view:
        view.settle()
        lost(api)
        api.faults += [fault] * 2
        waits_s = [view.pods.step()]
        assert view.pods.failures == {reason: 1} and waits_s[0] >= 0.25
        assert reason in view.pods.failure and view.said[-1] == f"pods: {view.pods.failure}"
        waits_s.append(view.pods.step())  # the fault again, of a list after 410
        view.settle()
        assert view.pods.failure == "" and view.said[-1] == "pods: watched again"
        assert set(view.placed()) == {"uid-p2", "uid-p3", "uid-p4"}
        assert view.pods.lists["expired"] == (2 if "answer" in name else 1 if reason == "expired" else 0)
        assert waits_s[0] <= 0.5


@pytest.mark.parametrize("fault", [
    refusal(410, "Expired"), refusal(403, "Forbidden"), refusal(500), refusal(429), cut(0.5), cut(0.5, is_clean=True),
    cut(0.99, is_clean=True), lambda _: (200, {}, [b"[]"]), lambda _: (200, {}, [b'{"items":[1,]']),
    lambda _: (200, {}, [b'{"items":[{"a":}]}']), lambda _: (200, {}, [b'{"metadata":{},"items":[]}']),
    lambda _: (200, {}, [b'{"metadata":{"resourceVersion":"9"}}']), lambda _: (200, {}, [b"\xff"]),
    lambda _: (200, {}, [])])  # fmt: skip
@pytest.mark.parametrize("n_good", [0, 1])
def test_a_list_that_fails_changes_nothing_and_is_asked_again(fault: Callable[[Answer], Answer], n_good: int,
                                                              api: FakeApi, tmp_path: Path) -> None:
    api.page_size_max = 2
    with viewing(api, tmp_path) as view:
        api.faults += [*[lambda answer: answer] * n_good, fault]
        assert view.pods.step() > 0.0
        assert view.placed() == {} and "have not been listed yet" in view.pods.missing()
        view.settle()
        assert len(view.placed()) == 4 and view.pods.missing() == ""


def test_retry_after_and_backoff_and_slow_retries(api: FakeApi, tmp_path: Path) -> None:
    with viewing(api, tmp_path) as view:
        waits_s = []
        for _ in range(9):
            api.faults.append(refusal(503))
            waits_s.append(view.pods.step())
        for doubled_s, wait_s in zip((0.5, 1, 2, 4, 8, 16, 30, 30, 30), waits_s, strict=True):
            assert doubled_s / 2 <= wait_s <= doubled_s
        for text, least_s in (("90", 90.0), ("100000", 300.0), ("Fri, 01 May 2026 00:00:00 GMT", 15.0)):
            api.faults.append(refusal(429, Retry_After=text))
            assert view.pods.step() == pytest.approx(least_s, abs=15.0 if least_s < 30.0 else 0.0)
        assert view.pods.failures == {"server": 9, "throttled": 3}
        view.settle()
        for number in range(8):  # a server that has just started says so, too, until it knows its roles
            api.faults.append(refusal(403, "Forbidden"))
            assert (view.pods.step() >= FORBIDDEN_S) == (number >= N_FORBIDDEN)
        for _ in range(8):
            api.faults.append(cut(0.0))
            assert view.pods.step() <= CONNECTION_MAX_S
        api.faults.append(refusal(503))
        assert view.pods.step() <= 0.5  # it is there again
        view.settle()
        api.faults.append(refusal(503))
        assert view.pods.step() <= 0.5  # a watch that went well begins anew


def test_all_is_listed_again_after_three_answers_that_make_no_sense(api: FakeApi, tmp_path: Path) -> None:
    with viewing(api, tmp_path) as view:
        view.settle()
        api.faults += [refusal(504)] * 3
        for _ in range(4):
            view.pods.step()
        assert view.pods.lists == {"start": 1, "failures": 1}
        view.settle()
        api.faults += [refusal(503), refusal(403), refusal(429)] * 2
        for _ in range(6):
            view.pods.step()
        view.settle()
        assert view.pods.lists == {"start": 1, "failures": 1}  # these pass without a list


def test_events_that_come_twice_or_late_change_nothing(api: FakeApi, tmp_path: Path) -> None:
    with viewing(api, tmp_path) as view:
        view.settle()
        lost(api)
        api.put("pods", pod("p3", phase="Succeeded"))
        api.faults.append(with_lines(half_twice))
        view.settle()
        assert set(view.placed()) == {"uid-p2", "uid-p4"}
        assert len(view.predictor.ends) == 3 and len(view.predictor.admitted) == 5


def test_bookmarks_and_unknown_events_move_the_version_on(api: FakeApi, tmp_path: Path) -> None:
    with viewing(api, tmp_path) as view:
        view.settle()
        api.put("nodes", node("n7"))
        api.faults.append(with_lines(lambda lines: [b'{"type":"NEW","object":{"metadata":{"resourceVersion":"104"}}}',
                                                    *lines]))
        view.pods.step()
        assert view.pods._version == "106"  # of the node: the bookmark has it
        assert view.pods.events["other", "known"] == 1
        api.compact()
        api.version += 3
        view.nodes.step()
        assert view.nodes.failures == {"expired": 1}


@pytest.mark.parametrize("pods", [
    [{}], [{"metadata": 1}], [{"metadata": {"name": "p", "uid": ""}}], [pod("p5", "n") | {"spec": []}],
    [pod("p5", "n", uid="x" * 600)], [pod("p5") | {"status": {"phase": "Running", "startTime": "noon"}}],
    [pod("p5", "n", metadata={"ownerReferences": {}})]])  # fmt: skip
def test_a_wrong_pod_is_refused_alone(pods: list[Any], api: FakeApi, tmp_path: Path) -> None:
    def with_wrong(answer: Answer) -> Answer:
        document = json.loads(b"".join(answer[2]))
        document["items"] += pods
        return 200, {}, [json.dumps(document).encode()]

    with viewing(api, tmp_path) as view:
        api.faults.append(with_wrong)
        view.settle()
        assert len(view.placed()) == 4 and sum(view.pods.refusals.values()) == 1
        assert view.pods.events["LISTED", "refused"] == 1
        uids = [each.get("metadata") for each in pods]
        wrong = json.dumps({"type": "ADDED", "object": {**pods[0], "metadata": {
            **(uids[0] if isinstance(uids[0], dict) else {}), "resourceVersion": "105"}}}).encode()
        api.put("pods", pod("p4"))
        api.faults.append(with_lines(lambda lines: [wrong, *lines]))
        view.settle()
        assert len(view.placed()) == 5 and view.pods.failures == {} and sum(view.pods.refusals.values()) == 2


def test_wrong_nodes_are_refused_alone(tmp_path: Path) -> None:
    api = FakeApi()
    api.put("nodes", node("n0", "2026-03-01T09:00:00Z"))
    wrong: list[Any] = [{}, 7, {"metadata": []}, {"metadata": {"name": "n1", "annotations": 3}}]
    with viewing(api, tmp_path) as view:
        api.faults.append(lambda _: (200, {}, [json.dumps({
            "metadata": {"resourceVersion": "101"}, "items": [*wrong, node("n0", "2026-03-01T09:00:00Z")]}).encode()]))
        view.nodes.step()
        assert view.state()[1] == {"n0": SIX_OCLOCK_S + 3 * HOUR_S}
        assert view.nodes.events == {("LISTED", "refused"): 4 - 1, ("LISTED", "draining"): 1, ("LISTED", "known"): 1}


def test_reasons_are_few() -> None:
    class Refusing:
        resource, accept = "pods", ""

        def kept(self, text: Any) -> Any:
            return text

        def take(self, item: Any, is_deleted: bool) -> str:
            raise ValueError(f"column {item} must be good")

        def take_all(self, items: list[Any], take: Callable[[Any], None]) -> None:
            pass

    reflector = Reflector(None, Refusing(), Turns())  # type: ignore[arg-type]
    for number in range(100):
        reflector._take("ADDED", number, is_deleted=False)
    assert len(reflector.refusals) == N_REASONS_MAX + 1 and reflector.refusals["other"] == 100 - N_REASONS_MAX


def test_an_object_that_breaks_the_extender_does_not_end_the_watch(api: FakeApi, tmp_path: Path,
                                                                    caplog: pytest.LogCaptureFixture) -> None:
    with viewing(api, tmp_path) as view:
        api.put("pods", pod("unknown to the predictor"))  # a KeyError in its table
        view.settle()
        assert len(view.placed()) == 4 and view.pods.events["LISTED", "failed"] == 1
    assert "KeyError" in caplog.text


def test_how_old_the_view_is(api: FakeApi, tmp_path: Path) -> None:
    with viewing(api, tmp_path) as view:
        assert view.pods.age_s() is None
        view.settle()
        view.now_s = 100.0
        assert view.pods.age_s() == 100.0
        api.faults.append(refusal(500, message="etcd is away"))
        view.pods.step()
        assert view.pods.age_s() == 100.0 and view.pods.missing() == ""  # stale, but useful
        view.now_s = STALE_S + 1.0
        assert view.pods.missing() == "pods were last heard of 901 s ago: server: 500 etcd is away"
        view.settle()
        assert view.pods.age_s() == 0.0 and view.pods.missing() == ""


OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["place", "wait", "finish", "again"]), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["delete"]), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["drain", "calm", "wrong", "vanish"]), st.sampled_from(["n0", "n1"])),
    st.tuples(st.sampled_from(["pods", "nodes"]), st.just("")),
    st.tuples(st.just("compact"), st.just("")),
    st.tuples(st.just("fault"), st.sampled_from([*WATCH_FAULTS, "twice"])),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(OPERATIONS, max_size=30), st.integers(1, 4))
def test_after_any_faults_the_view_is_that_of_a_fresh_list(tmp_path_factory: pytest.TempPathFactory,
                                                           operations: list[tuple[str, str]], page_size: int) -> None:
    api = FakeApi()
    api.page_size_max = page_size
    n_made = 0
    with viewing(api, tmp_path_factory.mktemp("api")) as view:
        for what, name in operations:
            former = api.objects["pods"].get(f"a/{name}")
            bound = {} if former is None else former["spec"]
            uid = "" if former is None else former["metadata"]["uid"]
            is_over = former is not None and former["status"]["phase"] == "Succeeded"
            if what in ("pods", "nodes"):
                getattr(view, what).step()
            elif what == "compact":
                api.compact()
            elif what == "fault":
                api.faults.append(with_lines(half_twice) if name == "twice" else WATCH_FAULTS[name][0])
            elif what in ("drain", "calm", "wrong"):
                api.put("nodes", node(name, {"drain": "2026-03-01T09:00:00Z", "wrong": "soon"}.get(what)))
            elif what == "vanish":
                if f"/{name}" in api.objects["nodes"]:
                    api.delete("nodes", f"/{name}")
            elif what in ("delete", "again"):
                if former is not None:
                    api.delete("pods", f"a/{name}")
                if what == "again":
                    api.put("pods", pod(name, "n1", f"uid-{n_made}"))
            elif what == "finish" and former is not None and not is_over:
                api.put("pods", pod(name, bound.get("nodeName"), uid, phase="Succeeded"))
            elif what == "place" and not is_over:
                api.put("pods", pod(name, bound.get("nodeName", "n0"), uid or f"uid-{n_made}"))
            elif what == "wait" and former is None:
                api.put("pods", pod(name, None, f"uid-{n_made}"))
            n_made += 1
        api.faults.clear()
        view.settle()
        with viewing(api, tmp_path_factory.mktemp("fresh")) as other:
            other.settle()
            assert view.state() == other.state()
        assert len(view.predictor.admitted) - len(view.predictor.ends) == len(view.placed())


def test_the_texts_of_lists_and_watches_may_come_in_any_pieces() -> None:
    items = [{"metadata": {"name": "ä€𝄞", "of": [1, {"items": [2]}]}}, {}, {"a": "]}"}]
    for text in (json.dumps({"metadata": {"continue": ""}, "items": items}, ensure_ascii=False),
                 json.dumps({"items": items, "metadata": {"continue": ""}}, indent=2, ensure_ascii=False)):
        body = text.encode()
        for size in (1, 2, 3, 7, len(body)):
            page = page_of(body[at:at + size] for at in range(0, len(body), size))
            assert [json.loads(bytes(item)) for item in page.items or ()] == items
            assert page.metadata == {"continue": ""}
    assert page_of([b'{"items": null, "metadata": {}}']).items is None
    lines = [{"type": "ADDED", "object": item} for item in items]
    body = "\r\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode() + b"\n\n"
    for size in (1, 2, 5, len(body)):
        found = list(watched_objects(body[at:at + size] for at in range(0, len(body), size)))
        assert [(kind, json.loads(bytes(text))) for kind, text in found] == [("ADDED", item) for item in items]


def endless(begin: bytes) -> Iterator[bytes]:
    yield begin
    while True:
        yield b" " * (1 << 20)


@pytest.mark.parametrize("begin", [b"", b'{"items":[{"a":"', b'{"items":[}'])
def test_an_object_without_an_end_does_not_fill_the_memory(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "_PAGE_BYTES_MAX", 8 << 20)
    with pytest.raises(ValueError, match="a page must have at most"):
        page_of(endless(begin))
    with pytest.raises(ValueError, match="a line must have at most"):
        list(watched_objects(endless(begin)))


@pytest.mark.parametrize("source", ["spec.volumes.0.name", "spec.containers.0.env", "spec.containers",
                                    "metadata.managedFields"])  # fmt: skip
def test_a_column_that_is_not_kept_is_refused(source: str) -> None:
    calls, _, _ = fixed_calls({})
    with pytest.raises(ValueError, match="user must not come from"):
        PodTaker(calls, Turns(), {"user": source})
    PodTaker(calls, Turns(), {"a": "spec.containers.0.image", "b": "metadata.name", "c": "spec.volumesets",
                              "d": "requests.cpu", "e": "label:volumes", "f": "spec.nodeName"})  # fmt: skip


def test_what_is_kept_gives_the_same_request() -> None:
    columns = PodColumns({**READER_SOURCES, "x": "spec.containers.0.image", "y": "limits.memory"}, frozenset())
    calls, _, _ = fixed_calls({})
    main_container = {"annotations": {"kubectl.kubernetes.io/default-container": "b"}}
    whole = pod("p", "n", qosClass="Burstable", metadata=main_container)
    whole["spec"] |= {"initContainers": [{"name": "i", "restartPolicy": "Always", "env": [], "resources": {
        "requests": {"cpu": "2"}}}], "overhead": {"cpu": "1"}, "priorityClassName": "high", "restartPolicy": "Never",
        "activeDeadlineSeconds": 60}  # fmt: skip
    whole["spec"]["containers"].append({"name": "b", "image": "db", "resources": {"limits": {"memory": "1Gi"}}})
    kept = PodTaker(calls, Turns(), None).kept(json.dumps(whole).encode())
    assert columns.request(kept) == columns.request(whole)
    assert len(json.dumps(kept)) < len(json.dumps(whole)) - 100


def until(is_so: Callable[[], object]) -> None:
    """Look until it is so, for at most 20 s."""
    end_s = time.monotonic() + 20.0
    while not is_so():
        assert time.monotonic() < end_s, "it did not come about"
        time.sleep(0.01)


def test_the_extender_is_fed_in_threads(api: FakeApi, made: Made, tmp_path: Path) -> None:
    with serving_api(api, tmp_path) as kubeconfig:
        client = open_cluster(kubeconfig)
        said: list[str] = []
        watcher = Watcher(client, random.Random(1), say=said.append)
        api.faults.append(refusal(503))
        server = bind(Predictor.load(made.folders["hazard"]), "127.0.0.1", 0, Settings(epoch_s=0),
                      Clock(made.trace.horizon_s), watcher)
        with serving(server):
            connection = connect(server)
            code, answer = ask(connection, "/readyz")
            assert code == 503 and answer["reason"] == "pods have not been listed yet; nodes have not been listed yet"
            assert ask(connection, "/running", {"items": []})[0] == 404  # it would be a second opinion
            watcher.start()
            until(lambda: ask(connection, "/readyz")[0] == 200)
            arguments = {"Pod": pod("new", None), "NodeNames": ["n0", "empty"]}
            scores = {each["Host"]: each["Score"] for each in ask(connection, "/prioritize", arguments)[1]}
            assert scores["n0"] > 0 and scores["empty"] == 0
            api.put("pods", pod("more", "empty"))
            until(lambda: ask(connection, "/prioritize", arguments)[1][1]["Score"] > 0)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            for name in ("events_total", "lists_total", "failures_total", "list_seconds", "view_age_seconds"):
                assert f"sojourn_cluster_{name}{{resource=" in text
            assert 'sojourn_cluster_failures_total{resource="pods",reason="server"} 1' in text or (
                'sojourn_cluster_failures_total{resource="nodes",reason="server"} 1' in text)
            connection.close()
        watcher.stop()
        assert not any(thread.is_alive() for thread in watcher._threads)
        client.close()
    assert any("listed 4 in" in line for line in said)


def test_a_watch_that_is_silent_ends_when_it_is_told_to(api: FakeApi, tmp_path: Path) -> None:
    silent, is_asked = threading.Event(), threading.Event()

    def waiting(answer: Answer) -> Answer:
        is_asked.set()
        silent.wait(20.0)
        return answer

    with serving_api(api, tmp_path) as kubeconfig:
        view = View(kubeconfig)
        view.settle()

        class Stream(list[bytes]):
            def __iter__(self) -> Iterator[bytes]:
                yield b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"105"}}}\n'
                is_asked.set()
                silent.wait(20.0)

        api.faults.append(lambda _: (200, {}, Stream()))
        thread = threading.Thread(target=view.pods.run)
        thread.start()
        assert is_asked.wait(20.0)
        until(lambda: view.pods.events["BOOKMARK", "known"] == 2)
        view.pods.stop()
        thread.join(5.0)
        is_over = not thread.is_alive()
        silent.set()
        thread.join()
        view.client.close()
    assert is_over and view.pods.failures == {}


@pytest.mark.parametrize(("arguments", "words"), [
    (["--kubeconfig", "nowhere"], "kubeconfig 'nowhere' must lead to a cluster, got: "),
    (["--context", "x", "--kubeconfig", "{}"], "kubeconfig '{}' must lead to a cluster, got: "),
])  # fmt: skip
def test_the_program_says_what_it_cannot_reach(arguments: list[str], words: str, made: Made,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(made.folders["hazard"]), "--port", "0", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"error: {words}")


def test_the_client_is_imported_by_nobody_else() -> None:
    code = ("import sys, sojourn.serving, sojourn.serving.extender; "
            "sys.exit(any(name in sys.modules for name in ('kubernetes', 'urllib3')))")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
