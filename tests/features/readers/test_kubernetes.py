"""Recordings of a cluster's pods: lists, watches, and each rule; the pods are made in the shape that kubectl writes."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_pods import SIX_S, event, listed, maker, pod, recording, stamp
from mutations import EDITS, RAW_KINDS, Edits, check_read_or_refused, in_turn, mutated, paths, renewed, with_raw
from sojourn.features import Trace
from sojourn.features.read_report import ReadReport
from sojourn.features.readers import read_trace

HOUR_S = 3_600


def read(folder: Path, *texts: str, **options: Any) -> tuple[Trace, ReadReport]:
    """The trace of a file that holds these texts."""
    path = folder / "pods.json"
    path.write_text("".join(texts))
    return read_trace("kubernetes", path, **options)


def times(trace: Trace) -> dict[str, tuple[int | None, int | None]]:
    """Arrival and departure of each pod, seconds after 06:00; None = it still runs."""
    rows = trace.requests[["request_id", "arrival_s", "departure_s"]].values.tolist()
    return {name.removeprefix("uid-"): (start - SIX_S, None if pd.isna(end) else end - SIX_S)
            for name, start, end in rows}


def bounds(trace: Trace, name: str) -> tuple[int, int]:
    """Between which times the pod's end lies, seconds after the trace's begin."""
    row = trace.requests[trace.requests["request_id"] == f"uid-{name}"]
    after_s, by_s = (int(row[name].item()) for name in ("ended_after_s", "ended_by_s"))
    return after_s - trace.begin_s, by_s - trace.begin_s


def test_a_watch_tells_starts_ends_and_who_still_runs(tmp_path: Path) -> None:
    trace, report = read_trace("kubernetes", recording(tmp_path))
    # `old` was to be gone at 630 s and the stream's newest time was 620 s then.
    assert times(trace) == {"old": (-7_200, 620), "etl-29367840-x7k2p": (0, 620), "late": (3_600, None)}
    assert dict(report.refused) == {"never seen on a node (pending)": 1}
    assert any("1 pods of DaemonSets" in note for note in report.notes)
    assert (trace.begin_s, trace.horizon_s) == (SIX_S, SIX_S + 3_600)
    rows = trace.requests.set_index("request_id")
    assert rows["controller"].to_dict()["uid-etl-29367840-x7k2p"] == "b/CronJob/etl"
    assert rows[["cpu_cores", "mem_gib"]].values.tolist() == [[1.0, 2.0]] * 3


def test_a_pod_that_is_missing_in_the_next_list_ended_between_the_two(tmp_path: Path) -> None:
    lists = [listed(pod("a", -60), pod("b", -60)), listed(pod("b", -60), pod("c", HOUR_S)),
             listed(pod("b", -60), pod("c", HOUR_S), pod("d", 2 * HOUR_S))]
    trace, report = read(tmp_path, *lists)
    rows = trace.requests.set_index("request_id")
    assert bounds(trace, "a") == (0, 3_660)  # the lists' newest times are -60, 3,600 and 7,200 s
    assert 0 < rows["departure_s"].to_dict()["uid-a"] - trace.begin_s <= 3_660
    assert rows["departure_s"].isna().to_dict() == {"uid-a": False, "uid-b": True, "uid-c": True, "uid-d": True}
    assert any("check: 1 ends lie between two lists, or in a break of a watch, and are" in note
               for note in report.notes)
    again = read_trace("kubernetes", tmp_path / "pods.json")[0]
    other = read_trace("kubernetes", tmp_path / "pods.json", seed=1)[0]
    assert again.requests.equals(trace.requests) and not other.requests.equals(trace.requests)


def test_drawn_ends_do_not_depend_on_other_pods_and_are_uniform(tmp_path: Path) -> None:
    pods = [pod(f"p{idx}", -60) for idx in range(400)]
    trace = read(tmp_path, listed(*pods, pod("z", -60)), listed(pod("z", -60), pod("y", HOUR_S)))[0].since_begin()
    ends = dict(zip(trace.requests["request_id"], trace.requests["departure_s"], strict=True))
    few = read(tmp_path, listed(pods[7], pod("z", -60)), listed(pod("z", -60), pod("y", HOUR_S)))[0].since_begin()
    assert few.requests.set_index("request_id")["departure_s"].to_dict()["uid-p7"] == ends["uid-p7"]
    drawn = [ends[f"uid-p{idx}"] for idx in range(400)]
    assert abs(sum(drawn) / 400 - 1_830) < 5 * 3_660 / (12 * 400) ** 0.5  # the mean of 0 .. 3,660; five standard errors


def test_lists_are_put_in_order_by_their_times_whatever_the_files_are_called(tmp_path: Path) -> None:
    lists = {"b.json": listed(pod("a", -60)), "a.json": listed(pod("b", HOUR_S))}
    for name, text in lists.items():
        (tmp_path / name).write_text(text)
    trace, _ = read_trace("kubernetes", tmp_path)
    assert trace.requests["departure_s"].isna().tolist() == [False, True]


def test_a_time_in_a_files_name_is_the_lists_time(tmp_path: Path) -> None:
    (tmp_path / "pods-20260301T060500Z.json").write_text(listed(pod("a", 0), pod("b", 0)))
    (tmp_path / "pods-20260301T061000Z.json").write_text(listed(pod("b", 0)))
    trace, report = read_trace("kubernetes", tmp_path)
    assert bounds(trace, "a") == (0, 300)
    assert trace.horizon_s == SIX_S + 600 and trace.meta["start_unix_s"] == SIX_S + 300
    assert not any("newest time" in note for note in report.notes)


def test_a_files_name_in_another_zone_is_told(tmp_path: Path) -> None:
    for minute in ("00", "30"):  # 08:00 in Berlin is 07:00 UTC
        (tmp_path / f"pods-2026-03-01_08-{minute}.json").write_text(listed(pod("a", 0), pod(f"b{minute}", 0)))
    trace, report = read_trace("kubernetes", tmp_path, timezone="Europe/Berlin")
    assert trace.meta["start_unix_s"] == SIX_S + HOUR_S and trace.horizon_s == SIX_S + HOUR_S + 1_800
    (tmp_path / "pods-2026-03-01_04-00.json").write_text(listed(pod("a", 0)))
    _, report = read_trace("kubernetes", tmp_path)
    assert any(note.startswith("check: 1 of 3 lists hold times later than their file's name") for note in report.notes)


def test_lists_of_one_namespace_each_do_not_end_the_others_pods(tmp_path: Path) -> None:
    trace, _ = read(tmp_path, listed(pod("a", 0)), listed(pod("b", 60, namespace="b")), listed(pod("c", 120)))
    assert trace.requests["departure_s"].isna().tolist() == [False, True, True]


def test_a_finished_pod_ended_with_its_last_container_and_restarts_end_nothing(tmp_path: Path) -> None:
    crashed = pod("c", 0)
    crashed["status"]["containerStatuses"] = [
        {"restartCount": 7, "state": {"terminated": {"finishedAt": stamp(SIX_S + 50)}}},
        {"restartCount": 2, "state": {"running": {"startedAt": stamp(SIX_S + 40)}}}]
    done = pod("d", 0, 100)
    done["status"]["containerStatuses"].append(
        {"restartCount": 0, "state": {"terminated": {"finishedAt": stamp(SIX_S + 900)}}})
    trace, _ = read(tmp_path, listed(crashed, done, pod("e", HOUR_S)))
    assert times(trace) == {"c": (0, None), "d": (0, 900), "e": (HOUR_S, None)}
    assert trace.requests.set_index("request_id")["n_restarts"].to_dict()["uid-c"] == 9


def test_an_evicted_pod_without_containers_ended_when_its_conditions_changed(tmp_path: Path) -> None:
    evicted = pod("a", 0, phase="Failed")
    evicted["status"] |= {"reason": "Evicted", "containerStatuses": [], "conditions": [
        {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": stamp(SIX_S + 500)}]}
    assert times(read(tmp_path, listed(evicted, pod("b", HOUR_S)))[0])["a"] == (0, 500)


def test_what_becomes_known_later_changes_no_feature(tmp_path: Path) -> None:
    """A later sight of a pod may differ in what a model reads: only the first one counts."""
    first, later = pod("a", 0), pod("a", 0, 700)
    later["spec"]["containers"][0] |= {"image": "leak:1", "resources": {"requests": {"cpu": "9", "memory": "9Gi"}}}
    later["spec"] |= {"activeDeadlineSeconds": 700, "priorityClassName": "leak"}
    later["metadata"]["namespace"] = "leak"
    rest = event("ADDED", pod("b", 10, namespace="b")) + event("MODIFIED", pod("b", 10, 900, namespace="b"))
    known, _ = read(tmp_path, event("ADDED", first), rest, event("MODIFIED", pod("a", 0, 700)))
    leaking, _ = read(tmp_path, event("ADDED", first), rest, event("MODIFIED", later))
    columns = [*known.roles.columns(), *known.resources]
    assert leaking.roles == known.roles and leaking.requests[columns].equals(known.requests[columns])
    assert set(known.meta["known_at_end"]) == {"phase", "n_restarts", "ended_after_s", "ended_by_s"}
    assert not set(known.meta["known_at_end"]) & set(known.roles.columns())


@pytest.mark.parametrize(("change", "rule"), [
    ({"status": {"startTime": "yesterday"}}, "startTime must be a time such as 2026-03-01T06:00:00Z"),
    ({"status": {"startTime": 7}}, "startTime must be a time such as 2026-03-01T06:00:00Z"),
    ({"status": {"containerStatuses": {}}}, "status.containerStatuses must be a list"),
    ({"status": {"containerStatuses": [{"restartCount": "9" * 5_000}]}},
     "restartCount must be a whole number from 0 on"),
    ({"status": {"phase": 7}}, "phase must be text"),
    ({"status": []}, "status must be an object"),
    ({"metadata": {"uid": None}}, "metadata.uid must be given"),
    ({"metadata": {"uid": ["a"]}}, "value must be text of at most 512 characters"),
    ({"metadata": {"ownerReferences": [7]}}, "elements of lists must be objects"),
    ({"metadata": "a"}, "metadata must be an object"),
    ({"spec": {"containers": [{"resources": {"requests": {"cpu": "two"}}}]}},
     "cpu_cores: quantity must be one such as 500m, 2Gi or 1e3, below 1e+24"),
    ({"spec": {"containers": [{"resources": {"requests": {"cpu": "-1"}}}]}}, "cpu_cores: quantity must be from 0 on"),
    ({"spec": {"containers": [{"resources": {"requests": {"cpu": "2G"}}}]}}, "cpu_cores must be from 0 to 1e9"),
    ({"spec": {"activeDeadlineSeconds": "soon"}}, "spec.activeDeadlineSeconds must be seconds"),
    ("a pod", "pod must be an object"),
    (None, "pod must be an object"),
])  # fmt: skip
def test_a_pod_of_wrong_types_is_refused_by_place_and_the_others_are_read(tmp_path: Path, change: Any,
                                                                          rule: str) -> None:
    bad: Any = pod("bad", 0)
    if isinstance(change, dict):
        for part, values in change.items():
            bad[part] = bad[part] | values if isinstance(values, dict) else values
    else:
        bad = change
    trace, report = read(tmp_path, listed(pod("a", 0, 60), bad, pod("b", HOUR_S)))
    assert dict(report.refused) == {rule: 1} and len(trace) == 2
    # a value that is no object has the line of the object before it
    assert report.rejected["line"].tolist()[0] > (30 if isinstance(change, dict) else 3)
    assert len(report.rejected["raw"].tolist()[0]) < 300


def test_a_list_without_any_time_is_refused(tmp_path: Path) -> None:
    bare = {"metadata": {"uid": "a", "name": "a"}, "spec": {"nodeName": "n"}}
    with pytest.raises(ValueError, match=r"one pod that ran, got none; refused: {'start missing': 1}"):
        read(tmp_path, listed(bare))


@pytest.mark.parametrize(("bad", "rule"), [
    (pod("a", 0), "uid must stand once in a list"),
    (pod("w", None, node=""), "never seen on a node (pending)"),
    (pod("s", 900, 60), "end before start"),
])
def test_rules_of_one_list(tmp_path: Path, bad: Any, rule: str) -> None:
    trace, report = read(tmp_path, listed(pod("a", 0), pod("b", 0, 100), bad, pod("c", HOUR_S)))
    assert dict(report.refused) == {rule: 1} and len(trace) == 3


def test_a_pod_that_its_node_turned_away_never_ran(tmp_path: Path) -> None:
    refused = pod("r", 0, phase="Failed")
    refused["status"] |= {"reason": "OutOfcpu", "containerStatuses": []}
    _, report = read(tmp_path, listed(pod("a", 0, 100), refused, pod("c", HOUR_S)))
    assert dict(report.refused) == {"never ran (turned away by its node)": 1}


def test_a_watch_that_begins_again_lists_all_and_ends_what_is_missing(tmp_path: Path) -> None:
    session = [event("ADDED", pod(name, 0)) for name in "abc"]
    again = [event("ADDED", pod(name, 0)) for name in "bc"] + [event("ADDED", pod("d", 600))]
    trace, _ = read(tmp_path, *session, event("MODIFIED", pod("b", 0)), *again, event("MODIFIED", pod("d", 600)))
    rows = trace.requests.set_index("request_id")
    assert rows["departure_s"].notna().to_dict() == {"uid-a": True, "uid-b": False, "uid-c": False, "uid-d": False}
    assert bounds(trace, "a") == (0, 600)


def test_events_of_new_pods_are_no_list(tmp_path: Path) -> None:
    """`--watch-only` beside lists: its first events are of new pods, and the others run on."""
    (tmp_path / "a.json").write_text(listed(pod("a", 0), pod("b", 0), pod("c", 0)))
    (tmp_path / "b.json").write_text(event("ADDED", pod("d", 60)) + event("MODIFIED", pod("d", 60, 90)))
    assert {name: end for name, (_, end) in times(read_trace("kubernetes", tmp_path)[0]).items()} == {
        "a": None, "b": None, "c": None, "d": 90}


def test_a_watch_without_event_types_is_read_and_said(tmp_path: Path) -> None:
    gone = pod("a", 0, deletionTimestamp=stamp(SIX_S + 630), deletionGracePeriodSeconds=30)
    text = "".join(json.dumps(each, indent=4) + "\n" for each in (pod("a", 0), pod("b", 10), gone, pod("c", HOUR_S)))
    trace, report = read(tmp_path, text)
    assert times(trace)["a"] == (0, 630)
    assert any("--output-watch-events" in note for note in report.notes)


def test_a_list_that_was_taken_apart_is_a_list(tmp_path: Path) -> None:
    """As `jq -c '.items[]'` writes it: pods alone, each once."""
    for name, pods in {"a": [pod("a", 0), pod("b", 0)], "b": [pod("b", 0), pod("c", HOUR_S)]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in pods))
    trace, report = read_trace("kubernetes", tmp_path)
    assert bounds(trace, "a") == (0, HOUR_S) and trace.is_event().tolist() == [True, False, False]
    assert not any("--output-watch-events" in note for note in report.notes)


def test_a_watch_that_was_stopped_loses_its_last_event_only(tmp_path: Path) -> None:
    path = recording(tmp_path)
    path.write_text(path.read_text()[:-100])
    trace, report = read_trace("kubernetes", path)
    assert len(trace) == 2 and report.refused["document must be JSON"] == 1
    assert "cut short in line 8" in report.rejected.set_index("rule")["raw"]["document must be JSON"]


def test_a_damaged_event_is_refused_and_the_next_line_is_read(tmp_path: Path) -> None:
    lines = recording(tmp_path).read_text().splitlines()
    lines.insert(3, lines[3][:200])
    trace, report = read(tmp_path, "\n".join(lines))
    assert len(trace) == 3 and report.refused["document must be JSON"] == 1


def test_one_value_is_bounded_and_a_list_of_them_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [pod(f"p{k}", k * 60) for k in range(20)]
    texts = {"list": listed(*pods), "long": listed(*pods, {**pod("long", 0), "metadata": {"name": "x" * 30_000}})}
    assert len(texts["list"]) > 20_000 > 2 * max(len(listed(each)) for each in pods)
    monkeypatch.setattr("sojourn.features.readers._json_documents.MAX_ELEMENT", 20_000)
    monkeypatch.setattr("sojourn.features.readers._json_documents._BLOCK_BYTES", 1_000)
    assert len(read(tmp_path, texts["list"])[0]) == 20
    with pytest.raises(ValueError, match=r"line \d+ must have values of at most 20,000 characters"):
        read(tmp_path, texts["long"])


def test_a_list_that_is_cut_short_ends_no_pod_and_raises_alone(tmp_path: Path) -> None:
    whole = listed(pod("a", 0), pod("b", 0))
    cut = listed(pod("a", 0), pod("b", HOUR_S))[:-900]
    (tmp_path / "1.json").write_text(whole)
    (tmp_path / "2.json").write_text(cut)
    with pytest.raises(ValueError, match=r"2\.json: must .*, got one cut short in line \d+"):
        read_trace("kubernetes", tmp_path / "2.json")


@pytest.mark.parametrize(("text", "message"), [
    ("", "must hold at least one pod, got none"),
    (listed(), "must hold at least one pod, got none"),
    (json.dumps({"kind": "List", "items": None}), "must hold at least one pod, got none"),
    (json.dumps({"kind": "DeploymentList", "items": [{"kind": "Deployment"}]}), "got 1 objects of other kinds"),
    ("apiVersion: v1\nitems:\n", "line 1 must be a JSON object or list, got 'apiVersion: v1' .YAML: write JSON"),
    ("NAMESPACE   NAME\n", "a table for people: write JSON, with kubectl get pods -A -o json"),
    ("7", "line 1 must be a JSON object or list, got a number"),
    ('{"items": [1, 2', "must hold whole JSON documents, got one cut short"),
    ('{"items": [1 2]}', "line 1 must be JSON .*after array element, I expect ',' or '.'.*, got "),
    ('{"items": [' + "[" * 200_000, "must be nested less deeply"),
    (listed(pod("a", 0)), "the last time must lie after the first, got one moment alone"),
    (listed(pod("w", None, node="")), "must hold at least one pod that ran"),
])
def test_what_is_no_recording_raises_with_the_file_and_what_to_type(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=rf"pods\.json: .*{message}"):
        read(tmp_path, text)


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"(?s)must hold files of kubectl .*kubectl get pods -A -o json"):
        read_trace("kubernetes", tmp_path)


@pytest.mark.parametrize("encode", [
    lambda text: gzip.compress(text.encode()), lambda text: b"\xef\xbb\xbf" + text.encode(),
    lambda text: text.encode("utf-16"), lambda text: text.replace("\n", "\r\n").encode(),
    lambda text: json.dumps(json.loads(text)["items"]).encode(), lambda text: json.dumps(json.loads(text)).encode(),
], ids=["gzip", "mark", "utf-16", "crlf", "bare list", "one line"])
def test_forms_of_one_list(tmp_path: Path, encode: Any) -> None:
    path = tmp_path / "pods.json"
    text = listed(pod("a", 0, 100), pod("ü", 0), pod("c", HOUR_S), kind="PodList")
    path.write_bytes(encode(text))
    assert times(read_trace("kubernetes", path)[0]) == {"a": (0, 100), "ü": (0, None), "c": (HOUR_S, None)}


def test_fractions_offsets_and_zero_times(tmp_path: Path) -> None:
    odd = pod("a", 0, 100)
    odd["status"]["startTime"] = "2026-03-01T07:00:00.123456789+01:00"
    odd["status"]["initContainerStatuses"] = [{"state": {"terminated": {"finishedAt": "1970-01-01T00:00:00Z"}}},
                                              {"state": {"terminated": {"finishedAt": "0001-01-01T00:00:00Z"}}}]
    assert times(read(tmp_path, listed(odd, pod("b", HOUR_S)))[0])["a"] == (0, 100)


def test_in_a_break_of_a_watch_an_end_lies_after_its_last_event(tmp_path: Path) -> None:
    """The watch told of each end until it broke, whichever pod its last event was of."""
    of_node = pod("agent", 4 * HOUR_S, owner=("DaemonSet", "agent"))  # its start is no time of the watch before
    begin = [event("ADDED", pod(name, 0)) for name in "abc"]
    alive, late = pod("d", 2 * HOUR_S), pod("e", 5 * HOUR_S)
    again = [event("ADDED", pod(name, 0)) for name in "bc"] + [event("ADDED", alive), event("ADDED", late)]
    trace, report = read(tmp_path, *begin, event("MODIFIED", pod("b", 0)), event("ADDED", alive),
                         event("MODIFIED", alive), event("ADDED", of_node), *again, event("MODIFIED", late))
    assert bounds(trace, "a") == (2 * HOUR_S, 5 * HOUR_S)
    assert any("check: a watch began again 1 times, the longest break took up to 10,800 s" in note
               for note in report.notes)


def test_the_phase_is_that_of_the_last_sight(tmp_path: Path) -> None:
    pending, running = pod("a", 0, phase="Pending"), pod("a", 0)
    trace, _ = read(tmp_path, event("ADDED", pending), event("MODIFIED", running), event("ADDED", pod("b", 600)))
    assert trace.requests.set_index("request_id")["phase"].to_dict()["uid-a"] == "Running"


def test_a_name_that_is_used_again_is_another_request(tmp_path: Path) -> None:
    again = pod("db-0", 900)
    again["metadata"]["uid"] = "second"
    trace, _ = read(tmp_path, listed(pod("db-0", 0)), listed(again, pod("b", HOUR_S)))
    assert trace.requests["request_id"].tolist() == ["uid-db-0", "second", "uid-b"]
    assert trace.requests["pod"].tolist() == ["a/db-0", "a/db-0", "a/b"]


def test_an_end_shortly_before_the_start_is_taken_as_clocks_that_differ(tmp_path: Path) -> None:
    trace, report = read(tmp_path, listed(pod("a", 30, 0), pod("b", HOUR_S)))
    assert times(trace)["a"] == (30, 30)
    assert report.repaired == {"end less than a minute before the start (clocks differ): start taken": 1}


def node(name: str, memory: str = "16Gi", **spec: Any) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name}, "spec": spec,
            "status": {"allocatable": {"cpu": "4", "memory": memory, "nvidia.com/gpu": "2", "pods": "110"}}}


def test_nodes_of_the_last_list_are_hosts_less_what_belongs_to_them(tmp_path: Path) -> None:
    agents = [pod(f"agent-{idx}", -60, node="n1", owner=("DaemonSet", "agent")) for idx in range(2)]  # one was replaced
    closed = node("n3", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
    broken = node("n5") | {"status": {}}
    trace, report = read(
        tmp_path, listed(pod("a", 0, 100), *agents, node("gone")),
        listed(pod("c", HOUR_S), node("n1"), node("n2", "16777212Ki"), closed, node("n4", unschedulable=True), broken))
    assert trace.hosts is not None  # 16 GiB - 4 KiB are 15.75; the pods ask for no GPU
    assert trace.hosts.values.tolist() == [["n1", 3.0, 14.0], ["n2", 4.0, 15.75]]
    assert report.n_hosts == 2 and dict(report.refused) == {
        "node: status.allocatable must name cpu and memory": 1}
    assert report.n_read == report.n_kept + report.n_hosts + report.n_joined + report.n_refused
    assert any("2 nodes left out: cordoned, or of the control plane" in note for note in report.notes)


def test_nodes_may_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text(listed(node("n1"), kind="NodeList"))
    (tmp_path / "pods.json").write_text(listed(pod("a", 0, 100), pod("b", HOUR_S)))
    trace, _ = read_trace("kubernetes", tmp_path)
    assert trace.hosts is not None and trace.hosts["host_id"].tolist() == ["n1"]


def test_one_bad_file_of_a_folder_is_refused_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(listed(pod("a", 0, 100), pod("b", 0)))
    (tmp_path / "b.json").write_text(listed(pod("b", 60), pod("c", 60))[:-900])
    (tmp_path / "c.json").write_text(listed(pod("c", 60), pod("b", HOUR_S)))
    (tmp_path / "notes.txt").write_text("NAMESPACE NAME\n")
    trace, report = read_trace("kubernetes", tmp_path)
    assert len(trace) == 3 and report.refused["file must be what kubectl writes"] == 2


def test_the_made_recording_gives_the_lifetimes_that_made_it(tmp_path: Path) -> None:
    made = maker()
    pods = made.cluster(0.5, 16, 0)
    until_s = made.START_S + made.DAY_S // 2
    path = tmp_path / "watch.json"
    path.write_text("".join(made.event_line(kind, seen) for kind, seen in made.watch(pods, until_s)))
    trace, _ = read_trace("kubernetes", path)
    rows = trace.requests.set_index("request_id")
    n_checked = 0
    for each in pods:
        if each.uid in rows.index:
            row = rows.loc[each.uid]
            assert row["pod"] == f"{each.workload.namespace}/{each.name}"
            assert row["arrival_s"] == each.started_s
            if each.ended_s <= until_s:
                n_checked += 1
                assert row["departure_s"] == each.ended_s
            else:
                assert pd.isna(row["departure_s"])
    assert n_checked > 100
    assert set(rows["kind"]) == {"Deployment", "CronJob", "Job", "StatefulSet", "Pod"}
    assert rows["controller"].nunique() == 14  # 16 workloads, of which two are DaemonSets


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Each object or list of a document with each of its keys."""
    for key in list(document) if isinstance(document, dict) else range(len(document)):
        yield document, key
        if isinstance(document[key], dict | list):
            yield from places(document[key])


@pytest.mark.parametrize("value", [None, *(pytest.param(value, marks=pytest.mark.slow)
                                           for value in ({"a": 7}, 7, "x", [7]))], ids=repr)
def test_a_wrong_value_at_any_place_is_read_or_refused(tmp_path: Path, value: Any) -> None:
    tried = pod("a", 0, 60, owner=("ReplicaSet", "web-1"), labels={"pod-template-hash": "1"},
                annotations={"kubectl.kubernetes.io/default-container": "main"},
                deletionTimestamp=stamp(SIX_S + 30), deletionGracePeriodSeconds=30)
    tried["spec"] |= {"initContainers": [{"resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"}],
                      "activeDeadlineSeconds": 60, "overhead": {"cpu": "1"}, "priorityClassName": "p"}
    tried["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(SIX_S)}]
    whole = [tried, node("n", taints=[{"key": "a"}])]
    kept_too = listed(pod("b", 0), pod("c", HOUR_S))
    path = tmp_path / "pods.json"
    n_places = 0
    for holder, key in places(whole):
        kept, holder[key] = holder[key], value
        path.write_text(listed(*whole) + kept_too)
        check_read_or_refused("kubernetes", path)
        holder[key] = kept
        n_places += 1
    assert n_places > 60


WATCH = b"".join(event(kind, of).encode() for kind, of in [
    ("ADDED", pod("a", 0, owner=("Job", "x-29367840"))), ("ADDED", pod("b", 0)), ("MODIFIED", pod("a", 0, 60)),
    ("DELETED", pod("b", 0, 90)), ("ADDED", pod("c", HOUR_S))])
LISTS = (listed(pod("a", 0), pod("b", 0, 50)) + listed(pod("c", HOUR_S))).encode()


@pytest.mark.parametrize("whole", [WATCH, LISTS], ids=["watch", "lists"])
@settings(max_examples=25)
@given(edits=EDITS, is_gzip=st.booleans())
def test_mutated_recordings_are_read_or_refused_never_worse(tmp_path: Path, whole: bytes, edits: Edits,
                                                            is_gzip: bool) -> None:
    path = tmp_path / "pods.json"
    path.write_bytes(mutated(gzip.compress(whole, mtime=0) if is_gzip else whole, edits))
    check_read_or_refused("kubernetes", path)


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"zone": "a"}},
        "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}}}
DOCUMENTS = {
    "list": {"kind": "List", "items": [pod("a", -60), pod("b", -60, 600, owner=("Job", "j")), NODE]},
    "event": {"type": "ADDED", "object": pod("c", 30, 90)},
    "node": {"type": "MODIFIED", "object": NODE},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_value_of_a_document_mutated(tmp_path: Path, name: str) -> None:
    path = tmp_path / "pods.json"
    whole = listed(pod("y", -90), pod("z", 0, 30)) + listed(pod("y", -90), pod("x", HOUR_S))
    for idx, place in enumerate(paths(DOCUMENTS[name])):
        for raw in [None, *in_turn(RAW_KINDS, idx)]:
            renewed(path, whole + with_raw(DOCUMENTS[name], place, raw))
            try:
                check_read_or_refused("kubernetes", path)
            except Exception as error:
                error.add_note(f"{raw and raw[:20]} at {place}")
                raise


@pytest.mark.parametrize("thing", ["x", [1], 5, None])
def test_a_watch_of_what_is_no_object_is_refused_by_rule(tmp_path: Path, thing: Any) -> None:
    whole = listed(pod("a", -60)) + listed(pod("a", -60), pod("b", HOUR_S))
    _, report = read(tmp_path, whole, json.dumps({"type": "ERROR", "object": thing}))
    assert dict(report.refused) == {"document must be a List, a Pod or an event of a watch": 1}
