"""A dry run leaves placement as it is, and compares each pod's node with the node that it would have got."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from made_bundles import Made
from made_extender import HOUR_S, SIX_OCLOCK_S, Clock, FixedPredictor, ask, connect, pod, serving
from made_prometheus import parsed
from sojourn.serving import Predictor
from sojourn.serving.extender import choices, main
from sojourn.serving.extender.calls import ExtenderCalls
from sojourn.serving.extender.choices import FILE, Choices
from sojourn.serving.extender.extender import Settings, bind
from sojourn.serving.extender.nodes import Drains, Nodes, PodColumns
from sojourn.serving.http import Turns
from sojourn.serving.kubernetes.watcher import NodeTaker, PodTaker

TOTALS_S = {"old": 10.0 * HOUR_S, "short": 2.0 * HOUR_S, "mid": 4.0 * HOUR_S, "long": 300.0 * HOUR_S, "agent": 9.0}


def calls_of(folder: Path, **settings: Any) -> tuple[ExtenderCalls, Choices, Clock]:
    predictor = FixedPredictor(TOTALS_S)
    nodes = Nodes(cast(Predictor, predictor), PodColumns({"user": "metadata.name"}, frozenset()), epoch_s=0,
                  n_pods_max=100)
    found, clock = Choices(nodes, folder, **settings), Clock()
    return ExtenderCalls(nodes, Drains("sojourn/drain-by"), epoch_s=0, clock=clock, choices=found), found, clock


def node(name: str, cpu: str = "8", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"kind": "a" if name < "n3" else "b"}}, "spec": spec,
            "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}}


def sized(name: str, at: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    made = pod(name, at)
    made["metadata"]["namespace"] = "jobs"
    made["spec"] |= {"schedulerName": "default-scheduler", "containers": [
        {"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]} | spec  # fmt: skip
    return made


def lines(folder: Path) -> list[dict[str, Any]]:
    """The lines so far; the file comes with the first one."""
    path = folder / FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def started(folder: Path, **settings: Any) -> tuple[ExtenderCalls, Choices, Clock]:
    """Four nodes; on n1 runs `old` for 10 h more, on n2 `short` for 2 h, n3 and n4 are empty."""
    calls, found, clock = calls_of(folder, **settings)
    calls.nodes({"items": [node("n1"), node("n2"), node("n3"), node("n4")]})
    assert calls.running([sized("old", "n1"), sized("short", "n2")])[1] == {"placed": 2, "absent": 0}
    return calls, found, clock


def test_a_pod_of_another_scheduler_is_compared_when_it_was_bound(tmp_path: Path) -> None:
    calls, found, _ = started(tmp_path)
    assert lines(tmp_path) == []  # the first list is of pods that were placed before
    calls.placed(sized("mid", "n3"))
    # it stays for 4 h: n3 was empty and is kept for all of it; n1 is in use for 10 h anyway
    assert lines(tmp_path) == [{
        "at_s": SIX_OCLOCK_S, "uid": "uid-mid", "pod": "jobs/mid", "scheduler": "default-scheduler", "is_asked": False,
        "n_nodes": 4, "stays_s": 4 * HOUR_S, "chosen": "n3", "chosen_score": 0, "chosen_extends_s": 4 * HOUR_S,
        "would": "n1", "would_score": 10, "would_extends_s": 0}]  # fmt: skip
    assert (found.n_alike, found.n_other, found.n_skipped) == (0, 1, 0)
    assert (found.chosen_s, found.would_s) == (4.0 * HOUR_S, 0.0)
    calls.placed(sized("mid", "n3"))  # known
    assert len(lines(tmp_path)) == 1


def test_the_chosen_node_is_measured_without_the_pod_itself(tmp_path: Path) -> None:
    calls, found, _ = started(tmp_path)
    calls.placed(sized("mid", "n2"))  # 2 h longer than `short`: cost 4
    (line,) = lines(tmp_path)
    assert (line["chosen_extends_s"], line["chosen_score"], line["would"]) == (2 * HOUR_S, 6, "n1")
    calls.ended(pod("mid"))
    calls.placed(sized("long", "n1"))  # 290 h longer there, 298 on n2, all 300 on an empty node: cost 9 and 10 score 1
    line = lines(tmp_path)[1]
    assert (line["chosen_extends_s"], line["chosen"], line["would"]) == (290 * HOUR_S, "n1", "n1")
    assert (found.n_alike, found.n_other) == (1, 1)


def test_of_equal_scores_the_least_favourable_one_counts(tmp_path: Path) -> None:
    calls, _, _ = started(tmp_path)
    calls.placed(sized("long", "n4"))  # empty: score 0; n1 and n2 share the score 1
    (line,) = lines(tmp_path)
    assert (line["would"], line["would_extends_s"]) == ("n2", 298 * HOUR_S)


@pytest.mark.parametrize(("n1", "mid"), [
    ({"cpu": "1.9"}, {}),  # `old` takes 1 of it
    ({"unschedulable": True}, {}),
    ({"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}, {}),
    ({"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
     {"tolerations": [{"key": "gpu", "value": "no"}]}),
    ({"taints": [{"key": "gpu", "effect": "NoExecute"}]},
     {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]}),
    ({}, {"nodeSelector": {"kind": "b"}}),
])  # fmt: skip
def test_a_node_that_could_not_take_it_is_no_choice(tmp_path: Path, n1: dict[str, Any], mid: dict[str, Any]) -> None:
    calls, _, _ = started(tmp_path)
    calls.nodes(node("n1", **n1))
    calls.placed(sized("mid", "n3", **mid))
    assert lines(tmp_path)[0]["would"] != "n1"


@pytest.mark.parametrize(("n1", "mid"), [
    ({"cpu": "2"}, {}),  # just fits
    ({"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}, {}),
    ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, {"tolerations": [{"operator": "Exists"}]}),
    ({"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
     {"tolerations": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}),
    ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, {"tolerations": [{"key": "gpu"}]}),
    ({}, {"nodeSelector": {"kind": "a"}}),
    ({}, {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}),
])  # fmt: skip
def test_a_node_that_could_take_it_is_one(tmp_path: Path, n1: dict[str, Any], mid: dict[str, Any]) -> None:
    calls, _, _ = started(tmp_path)
    calls.nodes(node("n1", **n1))
    calls.placed(sized("mid", "n3", **mid))
    assert lines(tmp_path)[0]["would"] == "n1"


RULE: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}


@pytest.mark.parametrize("spec", [
    {"affinity": {"nodeAffinity": RULE}}, {"affinity": {"podAntiAffinity": RULE}}, {"topologySpreadConstraints": [{}]},
    {"volumes": [{"persistentVolumeClaim": {"claimName": "a"}}]}, {"volumes": [{"ephemeral": {"a": 1}}]},
    {"nodeSelector": []}, {"containers": [{"resources": {"requests": {"x": "?"}}}]},
])  # fmt: skip
def test_a_pod_with_rules_that_are_not_followed_is_skipped(tmp_path: Path, spec: dict[str, Any]) -> None:
    calls, found, _ = started(tmp_path)
    assert calls.placed(sized("mid", "n3", **spec)) == (200, {"placed": 1})
    assert (lines(tmp_path), found.n_skipped, found.n_alike + found.n_other) == ([], 1, 0)


def test_room_follows_ends_and_pods_of_daemon_sets(tmp_path: Path) -> None:
    calls, _, clock = started(tmp_path)
    agent = sized("agent", "n1", "6.5")
    agent["metadata"]["ownerReferences"] = [{"kind": "DaemonSet"}]
    assert calls.placed([agent]) == (200, {"ignored": 1})  # 7.5 of 8 cores are taken
    calls.placed(sized("mid", "n3"))
    calls.ended(pod("mid"))
    calls.ended(pod("agent"))
    calls.placed(sized("mid", "n3") | {"metadata": {"uid": "2", "name": "mid"}})
    clock.now_s += 100
    assert [each["would"] for each in lines(tmp_path)] == ["n2", "n1"]
    # `old` is not in the list of all: n1 is empty; a pod in the list that has ended takes no room either
    over = sized("long", "n2", "7")
    over["status"] = {"phase": "Succeeded"}
    assert calls.running([over, sized("short", "n2")])[1] == {"finished": 1, "known": 1, "absent": 2}
    calls.placed(sized("long", "n3", "7") | {"metadata": {"uid": "3", "name": "long"}})
    assert lines(tmp_path)[2]["would"] == "n2"  # 7 of 8 beside `short`: the other nodes are empty


def test_a_scheduler_that_asks_gets_what_changes_nothing_and_names_the_nodes(tmp_path: Path) -> None:
    calls, found, _ = started(tmp_path)
    drained = {"metadata": {"name": "n2", "annotations": {"sojourn/drain-by": "2026-03-01T06:00:01Z"}}}
    assert calls.nodes(drained) == (200, {"nodes": 1, "draining": 1})
    arguments = {"Pod": pod("mid"), "NodeNames": ["n2", "n3"]}
    status, answer = calls.filter(arguments)
    assert (status, answer["NodeNames"], answer["FailedAndUnresolvableNodes"]) == (200, ["n2", "n3"], {})
    assert calls.prioritize(arguments) == (200, [{"Host": "n2", "Score": 0}, {"Host": "n3", "Score": 0}])
    # rules are the scheduler's affair then, and n2 has no room that is known
    calls.placed(sized("mid", "n3", affinity={"nodeAffinity": RULE}))
    (line,) = lines(tmp_path)
    assert (line["is_asked"], line["n_nodes"], line["would"], line["would_extends_s"]) == (True, 2, "n2", 2 * HOUR_S)
    assert found.n_other == 1


def test_what_waits_for_its_binding_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "N_ASKED_MAX", 3)
    monkeypatch.setattr(choices, "N_ASKED_NODES_MAX", 100)
    _, found, _ = started(tmp_path)
    for idx in range(10):
        found.asked({"metadata": {"uid": str(idx)}}, ["n1"] * 40)
    assert (list(found._asked), found._n_asked_nodes) == (["8", "9"], 80)
    for idx in range(10):
        found.asked({"metadata": {"uid": str(idx)}}, ["n1"])
    assert list(found._asked) == ["7", "8", "9"]
    found.asked({"metadata": {"uid": "9"}}, ["n1", "n2"])
    assert found._n_asked_nodes == 4
    found.gone("9")
    assert found._n_asked_nodes == 2


def test_pods_are_bounded(tmp_path: Path) -> None:
    calls, found, _ = started(tmp_path, n_pods_max=2)
    calls.placed(sized("mid", "n3"))
    assert (len(found._pods), found.n_skipped) == (2, 1)


def test_files_are_rotated_and_a_failing_disk_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "FILE_BYTES", 700)
    monkeypatch.setattr(choices, "N_FILES", 3)
    calls, found, _ = started(tmp_path)
    for idx in range(20):
        calls.placed(sized("mid", "n3") | {"metadata": {"uid": str(idx), "name": "mid"}})
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, f"{FILE}.1", f"{FILE}.2"]
    assert all(path.stat().st_size <= 700 for path in tmp_path.iterdir())
    assert lines(tmp_path)[-1]["uid"] == "19"

    def full(_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(found._file, "format", full)
    assert calls.placed(sized("long", "n3")) == (200, {"placed": 1})
    assert found.n_errors == 1


def test_a_node_that_cannot_be_read_is_no_choice(tmp_path: Path) -> None:
    calls, _, _ = started(tmp_path)
    broken = node("n1")
    broken["status"]["allocatable"]["cpu"] = "many"
    assert calls.nodes(broken) == (200, {"nodes": 1, "draining": 0})
    calls.placed(sized("mid", "n3"))
    assert lines(tmp_path)[0]["would"] == "n2"


def test_names_are_left_out_where_owners_are_keyed(tmp_path: Path) -> None:
    calls, _, _ = started(tmp_path, is_named=False)
    calls.placed(sized("mid", "n3"))
    assert "pod" not in lines(tmp_path)[0]


def test_a_dry_run_over_http_has_metrics_and_its_log(made: Made, tmp_path: Path) -> None:
    predictor = Predictor.load(made.folders["hazard"])
    settings = Settings(epoch_s=0, choices_to=tmp_path)
    with serving(bind(predictor, "127.0.0.1", 0, settings, Clock(made.trace.horizon_s))) as server:
        connection = connect(server)
        ask(connection, "/nodes", [node("n1"), node("n2")])
        ask(connection, "/running", [sized("a", "n1")])
        ask(connection, "/placed", sized("b", "n2"))
        ask(connection, "/placed", sized("c", "n2", affinity={"podAffinity": RULE}))
        connection.request("GET", "/metrics")
        samples, types, _ = parsed(connection.getresponse().read().decode())
        connection.close()
    (line,) = lines(tmp_path)
    pods = {outcome: samples["sojourn_dry_run_pods_total", (("outcome", outcome),)]
            for outcome in ("alike", "other", "skipped")}
    assert pods == {"alike": 0, "other": 1, "skipped": 1}
    seconds = "sojourn_dry_run_extension_seconds_total"
    assert samples[seconds, (("choice", "chosen"),)] == pytest.approx(line["chosen_extends_s"], abs=0.5)
    assert samples[seconds, (("choice", "would"),)] == pytest.approx(line["would_extends_s"], abs=0.5)
    assert samples["sojourn_dry_run_errors_total", ()] == 0
    assert types[seconds] == "counter"


def test_a_dry_run_needs_a_folder(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(made.folders["once"]), "--dry-run"]) == 2
    assert capsys.readouterr().err == "error: --dry-run must be given with --log-to, got it alone\n"


def test_a_watchers_nodes_and_pods_are_enough(tmp_path: Path) -> None:
    calls, found, _ = calls_of(tmp_path)
    turns = Turns()
    pods, nodes = PodTaker(calls, turns, None), NodeTaker(Drains("sojourn/drain-by"), found)
    assert "PartialObjectMetadata" not in nodes.accept

    def add_node(item: Any) -> None:
        nodes.take(item, is_deleted=False)

    def add_pod(item: Any) -> None:
        pods.take(item, is_deleted=False)

    listed = [nodes.kept(json.dumps(node(name) | {"metadata": node(name)["metadata"] | {"annotations": {}}}).encode())
              for name in ("n1", "n2", "n3", "n4")]
    nodes.take_all(listed, add_node)
    pods.take_all([sized("old", "n1"), sized("short", "n2")], add_pod)
    assert lines(tmp_path) == []
    pods.take(pods.kept(json.dumps(sized("mid", "n3")).encode()), is_deleted=False)
    assert (lines(tmp_path)[0]["would"], lines(tmp_path)[0]["n_nodes"]) == ("n1", 4)
    pods.take(pods.kept(json.dumps(sized("mid", "n3")).encode()), is_deleted=True)
    nodes.take(node("n1"), is_deleted=True)
    pods.take(pods.kept(json.dumps(sized("long", "n3")).encode()), is_deleted=False)
    assert (lines(tmp_path)[1]["would"], lines(tmp_path)[1]["n_nodes"]) == ("n2", 3)
    nodes.take_all([nodes.kept(json.dumps(node("n2")).encode())], add_node)
    assert found.node_names() == {"n2"}
    claim = {"persistentVolumeClaim": {"claimName": "a"}}
    claimed = json.dumps(sized("agent", "n2", volumes=[{"name": "a", "emptyDir": {}}, claim])).encode()
    assert pods.kept(claimed)["spec"]["volumes"] == [claim]
    pods.take(pods.kept(claimed), is_deleted=False)
    assert found.n_skipped == 1
