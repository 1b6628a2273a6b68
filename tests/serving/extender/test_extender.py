"""The extender over HTTP: the scheduler's documents, reports of pods, wrong input, threads, and the program."""

from __future__ import annotations

import copy
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from made_bundles import Made
from made_extender import HOUR_S, SIX_OCLOCK_S, Clock, ask, connect, example, fixed_calls, pod, serving
from made_prometheus import parsed
from sojourn.flows.cli import app
from sojourn.serving import Predictor, load_bundle
from sojourn.serving.extender import main
from sojourn.serving.extender.calls import ExtenderCalls
from sojourn.serving.extender.extender import Settings, bind
from sojourn.serving.http import JsonServer
from sojourn.serving.inputs import UNIX_PHASE_S, clock_zero_s

POSTS = ("/filter", "/prioritize", "/placed", "/ended", "/running", "/nodes")
# train-5 began at 05:00 and train-6 at 04:00; it is 06:00
TOTALS_S = {"train-7-x2x9q": 3.0 * HOUR_S, "train-5-aaaaa": 5.0 * HOUR_S, "train-6-bbbbb": 3.0 * HOUR_S + 50 * 60}


@pytest.fixture
def server(made: Made) -> Iterator[JsonServer]:
    """A real bundle's extender; the clock stands at the end of its trace."""
    clock = Clock(made.trace.horizon_s)
    with serving(bind(Predictor.load(made.folders["hazard"]), "127.0.0.1", 0, Settings(epoch_s=0), clock)) as running:
        yield running


def test_the_examples_over_http() -> None:
    calls, predictor, clock = fixed_calls(TOTALS_S)
    with serving(JsonServer("127.0.0.1", 0, calls.posts, {})) as server:
        connection = connect(server)
        arguments = example("filter_args_node_names")
        # nothing is known of any node yet: all pass, all are empty
        assert ask(connection, "/filter", arguments) == (200, {
            "Nodes": None, "NodeNames": ["node-1", "node-2", "node-3"], "FailedNodes": {},
            "FailedAndUnresolvableNodes": {}, "Error": ""})  # fmt: skip
        assert {each["Score"] for each in ask(connection, "/prioritize", arguments)[1]} == {0}
        assert ask(connection, "/nodes", example("node_list")) == (200, {"nodes": 2, "draining": 1})
        # two run; one pends, and two belong to their node; one has finished, before we knew it
        assert ask(connection, "/running", example("pod_list")) == (200, {
            "placed": 2, "ignored": 3, "finished": 1, "absent": 0})  # fmt: skip
        assert [name for name, _ in predictor.admitted] == ["train-6-bbbbb", "train-5-aaaaa"]  # by their starts
        # the pod stays for 3 h (10800 s, at any quantile), node-2 is to be empty in 2 h
        assert ask(connection, "/filter", arguments) == (200, example("filter_result_node_names"))
        # the pod would end at 09:00. node-1 is up until 05:00 + 5 h = 10:00: nothing to pay. node-2 until 04:00 +
        # 3 h 50 = 07:50: 70 min more, cost 2. node-3 has none but what is part of it.
        assert ask(connection, "/prioritize", arguments) == (200, example("host_priority_list"))
        clock.now_s += 2 * HOUR_S
        # 08:00, end at 11:00. node-1: 60 min more, cost 2. train-6 outlived 3 h 50 and doubled to 7 h 40: 11:40.
        assert [each["Score"] for each in ask(connection, "/prioritize", arguments)[1]] == [8, 10, 0]
        connection.close()


def test_node_objects_carry_their_own_deadline_and_come_back_as_given() -> None:
    calls, _, _ = fixed_calls(TOTALS_S)
    arguments = example("filter_args_nodes")
    status, result = calls.filter(arguments)
    kept = [node for node in arguments["Nodes"]["items"] if node["metadata"]["name"] != "node-2"]
    assert (status, result["NodeNames"], result["Nodes"]) == (200, None, {"metadata": {}, "items": kept})
    assert list(result["FailedAndUnresolvableNodes"]) == ["node-2"]
    assert calls._drains.n_unreadable == 1  # node-3 says "tomorrow", and passes
    assert [each["Host"] for each in calls.prioritize(arguments)[1]] == ["node-1", "node-2", "node-3"]


def test_names_of_fields_are_read_in_any_case() -> None:
    calls, _, _ = fixed_calls({"a": 60.0})
    older = {"pod": pod("a"), "nodenames": ["n"]}
    assert calls.filter(older)[1]["NodeNames"] == ["n"]
    assert calls.prioritize(older) == (200, [{"Host": "n", "Score": 0}])


@pytest.mark.parametrize(("drain_by", "is_refused"), [("06:01:00", False), ("06:00:59", True), ("05:00:00", True)])
def test_a_pod_of_one_minute_is_refused_only_beyond_the_deadline(drain_by: str, is_refused: bool) -> None:
    calls, _, _ = fixed_calls({"a": 60.0})
    calls.nodes({"metadata": {"name": "n", "annotations": {"sojourn/drain-by": f"2026-03-01T{drain_by}Z"}}})
    assert bool(calls.filter({"Pod": pod("a"), "NodeNames": ["n", "m"]})[1]["FailedAndUnresolvableNodes"]) == is_refused


@pytest.mark.parametrize(("document", "message"), [
    ([], "ExtenderArgs must be an object, got list"),
    ({"Pod": None, "NodeNames": []}, "Pod must be an object, got None"),
    ({"Pod": {}}, "Nodes or NodeNames must be given, got None"),
    ({"Pod": {}, "NodeNames": [1]}, "value must be text of at most 512 characters, got 1"),
    ({"Pod": {}, "Nodes": {"items": [{}]}}, "metadata.name must be given, got None"),
    ({"Pod": {}, "Nodes": {"items": {}}}, "items must be a list, got dict"),
])  # fmt: skip
def test_wrong_arguments_are_told_in_the_way_that_the_scheduler_reads(document: Any, message: str) -> None:
    calls, _, _ = fixed_calls({})
    assert calls.filter(document) == (200, {"Error": message})
    with pytest.raises(ValueError, match=re.escape(message)):
        calls.prioritize(document)


def test_reports_say_what_came_of_each_pod() -> None:
    calls, predictor, clock = fixed_calls({"a": 60.0, "b": 60.0})
    assert calls.placed({"items": [pod("a", "n"), {"spec": {}}, pod("b", "n")]}) == (200, {
        "placed": 2, "refused": 1, "reasons": ["metadata.uid must be given, got None"]})  # fmt: skip
    assert calls.placed({"metadata": 3})[0] == 422
    assert calls.ended({"metadata": {"uid": "uid-a"}}) == (200, {"ended": 1})
    clock.now_s += 120
    assert calls.running({"items": []}) == (200, {"absent": 1})
    assert [name for name, _ in predictor.ends] == ["a", "b"]
    with pytest.raises(ValueError, match="document must be a list of all pods"):
        calls.running(pod("a", "n"))
    status, counts = calls.running({"items": [{}]})
    assert (status, counts["refused"], counts["absent"]) == (422, 1, 0)


@pytest.mark.parametrize("is_bare", [False, True])
def test_a_list_is_an_object_with_items_or_an_array(is_bare: bool) -> None:
    def listed(*items: Any) -> Any:
        return list(items) if is_bare else {"kind": "List", "items": list(items)}

    calls, predictor, clock = fixed_calls(dict.fromkeys("abc", 1e5))
    assert calls.placed(listed(pod("a", "n"), pod("b", "n"))) == (200, {"placed": 2})
    clock.now_s += 120
    assert calls.running(listed(pod("a", "n"), pod("c", "n"))) == (200, {"known": 1, "placed": 1, "absent": 1})
    assert predictor.ends == [("b", clock.now_s)]
    assert calls.ended(listed(pod("a"), pod("c"))) == (200, {"ended": 2})
    nodes = listed({"metadata": {"name": "n"}}, {"metadata": {"name": "m"}})
    assert calls.nodes(nodes) == (200, {"nodes": 2, "draining": 0})
    assert calls.running(listed()) == (200, {"absent": 0})



def test_a_list_with_a_pod_without_uid_takes_in_the_others_and_ends_none() -> None:
    calls, _, clock = fixed_calls(dict.fromkeys("abc", 1e5))
    assert calls.running({"items": [{"metadata": {"name": "x"}}]})[0] == 422
    assert not calls.has_pods
    calls.placed(pod("a", "n"))
    clock.now_s += HOUR_S
    listed = [pod("b", "n"), {"metadata": {"name": "x"}}, None, pod("c", "n")]
    assert calls.running({"items": listed}) == (200, {
        "placed": 2, "refused": 2, "absent": 0,
        "reasons": ["metadata.uid must be given, got None", "object must be an object, got None"]})  # fmt: skip
    assert calls.has_pods
    assert calls.running({"items": [pod("b", "n"), pod("c", "n")]}) == (200, {"known": 2, "absent": 1})


def test_nodes_of_a_call_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.serving.extender.calls.N_NODES_MAX", 2)
    calls, _, _ = fixed_calls({"a": 60.0})
    for nodes in ({"NodeNames": ["n"] * 3}, {"Nodes": {"items": [{"metadata": {"name": "n"}}] * 3}}):
        assert calls.filter({"Pod": pod("a"), **nodes}) == (200, {"Error": "nodes must be at most 2, got 3"})
        with pytest.raises(ValueError, match="nodes must be at most 2, got 3"):
            calls.prioritize({"Pod": pod("a"), **nodes})
    assert calls.prioritize({"Pod": pod("a"), "NodeNames": ["n", "m"]})[0] == 200

def test_questions_are_answered_amid_a_long_list() -> None:
    """In each pause of it, on what was taken in so far; the list's own pods are counted once."""
    names = [f"pod-{idx}" for idx in range(300)]
    calls, predictor, clock = fixed_calls(dict.fromkeys([*names, "asked"], 1e5), n_pods_max=300)
    calls.running({"items": [pod(name, f"node-{name}") for name in names[:100]]})
    clock.now_s += 120
    answers = []

    def asking() -> None:
        found = calls.prioritize({"Pod": pod("asked"), "NodeNames": ["node-pod-0", "node-pod-299"]})[1]
        answers.append([each["Score"] for each in found])

    calls._pause = asking
    assert calls.running({"items": [pod(name, f"node-{name}") for name in names[100:]]}) == (200, {
        "placed": 200, "absent": 100})  # fmt: skip
    # 200 pods are looked at three times (uid, start, placing) in pieces of 64, 100 are ended: 3 + 3 + 3 + 1 pauses
    assert len(answers) == 10
    assert answers[0] == answers[5] == [10, 0]
    assert answers[-1] == [0, 10]
    assert len(predictor.ends) == 100


def test_a_bundle_is_served_with_health_and_metrics(made: Made, server: JsonServer) -> None:
    connection = connect(server)
    report = example("pod_list")["items"][0]
    assert ask(connection, "/placed", report) == (200, {"placed": 1})
    status, scores = ask(connection, "/prioritize", example("filter_args_node_names"))
    assert (status, [each["Host"] for each in scores]) == (200, ["node-1", "node-2", "node-3"])
    assert scores[0]["Score"] > 0 == scores[1]["Score"]
    assert ask(connection, "/ended", b"{")[0] == 400
    assert ask(connection, "/filter", [])[0] == 200
    version = load_bundle(made.folders["hazard"]).version
    assert ask(connection, "/healthz") == (200, {"status": "ok", "version": version})
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    samples, types, helps = parsed(response.read().decode())
    assert samples["sojourn_predictions_total", ()] == 2
    assert samples["sojourn_extender_pods", ()] == samples["sojourn_extender_nodes_in_use", ()] == 1
    for verb, outcome in [("placed", "ok"), ("ended", "refused"), ("filter", "refused")]:
        assert samples["sojourn_extender_requests_total", (("verb", verb), ("outcome", outcome))] == 1
    assert samples["sojourn_bundle_info", (("version", version), ("family", "made-hazard"), ("kind", "hazard"))] == 1
    assert types["sojourn_extender_requests_total"] == "counter"
    assert types["sojourn_request_seconds"] == "histogram"
    for verb in ("placed", "prioritize", "ended", "filter"):
        assert samples["sojourn_request_seconds_count", (("verb", verb),)] == 1
        assert samples["sojourn_request_seconds_bucket", (("verb", verb), ("le", "+Inf"))] == 1
        assert samples["sojourn_request_seconds_bucket", (("verb", verb), ("le", "10.0"))] == 1
        assert 0 < samples["sojourn_request_seconds_sum", (("verb", verb),)] < 10
    assert set(helps) == set(types)
    connection.close()


def test_eight_threads_leave_what_one_would(server: JsonServer) -> None:
    n_pods, failures = 25, []

    def report(thread: int) -> None:
        connection = connect(server)
        try:
            for idx in range(n_pods):
                name = f"{thread}-{idx}"
                found = [ask(connection, "/placed", pod(name, f"node-{idx}")),
                         ask(connection, "/prioritize", {"Pod": pod("new"), "NodeNames": [f"node-{idx}"]}),
                         ask(connection, "/placed", pod(name, f"node-{idx}"))]  # fmt: skip
                if idx % 2:
                    found.append(ask(connection, "/ended", pod(name)))
                assert [status for status, _ in found] == [200] * len(found)
                assert [found[0][1], found[2][1]] == [{"placed": 1}, {"known": 1}]
                assert found[1][1][0]["Score"] >= 1
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=report, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    # in each thread 13 of 25 are left, on the 13 nodes of even number
    connection = connect(server)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    assert f"sojourn_extender_pods {8 * 13}\n" in text
    assert "sojourn_extender_nodes_in_use 13\n" in text
    assert f"sojourn_ended_total {8 * 12}\n" in text


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
                    max_leaves=12)
EXAMPLES = st.sampled_from(["filter_args_node_names", "filter_args_nodes", "pod_list", "node_list"])


@pytest.fixture(scope="module")
def calls_of_bundle(made: Made) -> Iterator[JsonServer]:
    """A bound server that is asked without the network."""
    server = bind(Predictor.load(made.folders["hazard"]), "127.0.0.1", 0, Settings(n_pods_max=50))
    yield server
    server.server_close()


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(POSTS), JSON | st.binary(max_size=40))
def test_no_document_makes_the_service_fail(calls_of_bundle: JsonServer, path: str, document: Any) -> None:
    _is_answered(calls_of_bundle, path, document if isinstance(document, bytes) else json.dumps(document).encode())


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(POSTS), EXAMPLES, JSON, st.data())
def test_no_change_to_an_example_makes_the_service_fail(calls_of_bundle: JsonServer, path: str, name: str, value: Any,
                                                       data: st.DataObject) -> None:
    document = copy.deepcopy(example(name))
    places = list(_places(document))
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = value
    _is_answered(calls_of_bundle, path, json.dumps(document).encode())


@pytest.mark.parametrize("body", [
    b"", b"[" * 100_000, b'{"a":' * 50_000, b"NaN", b'{"Pod": -Infinity}', b"\xff\xfe", b"9" * 5_000, b'"\\ud800"',
    b'{"Pod":{"metadata":{"namespace":"\\ud800"}},"NodeNames":["\\udfff"]}',
    b'{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"n"},"x":1e999}]}}',
])  # fmt: skip
@pytest.mark.parametrize("path", POSTS)
def test_odd_bodies_are_answered(calls_of_bundle: JsonServer, path: str, body: bytes) -> None:
    _is_answered(calls_of_bundle, path, body)


def _is_answered(server: JsonServer, path: str, body: bytes) -> None:
    status, answer = server.post(path, body)
    assert status in (200, 400, 422)
    assert "Traceback" not in answer.decode()
    document = json.loads(answer)
    if status == 400:
        assert list(document) == ["Error"]


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(document) if isinstance(document, dict) else range(len(document)):
        yield document, key
        if isinstance(document[key], dict | list):
            yield from _places(document[key])


@pytest.mark.parametrize("unix_epoch_s", [0, 86_400, 1_772_344_800])
def test_the_default_epoch_keeps_hours_and_weekdays(unix_epoch_s: int) -> None:
    # the phase of a trace that began at that unix time, as training computes it
    phase_s = (unix_epoch_s - 4 * 86_400) % (7 * 86_400)
    assert (clock_zero_s(phase_s) - unix_epoch_s) % (7 * 86_400) == 0
    assert 0 <= clock_zero_s(phase_s) < 7 * 86_400
    assert clock_zero_s(UNIX_PHASE_S) == 0  # a dated bundle counts Unix seconds itself


def test_a_wrong_setting_is_refused(made: Made) -> None:
    predictor = Predictor.load(made.folders["hazard"])
    for settings_, message in [(Settings({"x": "requests.cpu"}), "columns must be of cpu_cores"),
                               (Settings(drain_quantile=1.0), "drain_quantile must be between 0 and 1, got 1.0"),
                               (Settings(n_pods_max=0), "n_pods_max must be from 1 to 500000, got 0")]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            bind(predictor, "127.0.0.1", 0, settings_)


def test_the_program_says_what_is_wrong_in_one_line(made: Made, tmp_path: Path,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    mapping = tmp_path / "columns.json"
    mapping.write_text('{"zone": 1}')
    text = tmp_path / "columns.yaml"
    text.write_text("zone: label:zone")
    for arguments, message in [
        ([str(tmp_path / "none")], "MANIFEST.json must be a readable file"),
        ([str(made.folders["hazard"]), "--columns", str(mapping)], "zone must come from requests.R"),
        ([str(made.folders["hazard"]), "--columns", str(tmp_path)], "Is a directory"),
        ([str(made.folders["hazard"]), "--columns", str(text)], f"--columns must be a file of JSON, got {text}: "),
        ([str(made.folders["hazard"]), "--log-to", str(text)], f"--log-to must be a folder that can be written to, "
                                                               f"got {text}: "),
        ([str(made.folders["hazard"]), "--port", "70000"], "port must be 0-65535"),
        ([str(made.folders["hazard"]), "--body-mib", "0"], "body_bytes must be above 0, got 0"),
    ]:  # fmt: skip
        assert main([*arguments, "--epoch-s", "0"]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_a_bundle_without_dates_needs_a_clock(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(made.folders["hazard"]), "--port", "0"]) == 2
    assert capsys.readouterr().err == "error: --epoch-s must be given, since the bundle's training trace had no dates\n"


def test_the_command_line_hands_its_arguments_on(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["serve", "extender", str(tmp_path / "none"), "--port", "0"])
    assert result.exit_code == 2
    assert "MANIFEST.json must be a readable file" in result.stderr


def test_the_program_serves_and_ends_on_sigterm(made: Made) -> None:
    code = ("import sys; from sojourn.serving.extender.extender import main; status = main(sys.argv[1:]); "
            "print([n for n in ('pandas', 'lightgbm', 'mlflow', 'typer') if n in sys.modules]); sys.exit(status)")
    program = subprocess.Popen([sys.executable, "-c", code, str(made.folders["once"]), "--port", "0",
                                "--recalibrate", "--epoch-s", "0"],
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
    assert program.stdout is not None
    assert program.stdout.readline() == "recalibration off: the version's curves are not of hazards\n"
    line = program.stdout.readline()
    url = urlsplit(line.split()[2].rstrip(","))
    assert (url.hostname, line.split()[-3:]) == ("127.0.0.1", ["SIGTERM", "ends", "it"])
    connection = http.client.HTTPConnection("127.0.0.1", url.port or 0, timeout=30)
    assert ask(connection, "/healthz")[0] == 200
    program.send_signal(signal.SIGTERM)  # with a connection open and idle
    out, error = program.communicate(timeout=60)
    connection.close()
    assert (program.returncode, out, error) == (0, "[]\n", "")


def test_it_recalibrates_only_where_it_is_asked_to(made: Made, monkeypatch: pytest.MonkeyPatch,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Predictor] = []

    def not_bound(predictor: Predictor, *_: object, **options: object) -> None:
        asked.append(predictor)
        raise OSError("no port")

    monkeypatch.setattr("sojourn.serving.extender.extender.bind", not_bound)
    for more in ([], ["--recalibrate"]):
        assert main([str(made.folders["hazard"]), "--epoch-s", "0", *more]) == 2
    assert [each.info()["recalibration"] for each in asked] == ["off", "on"]


def test_every_call_has_its_path() -> None:
    calls, _, _ = fixed_calls({})
    assert tuple(calls.posts) == POSTS
    assert isinstance(calls, ExtenderCalls)
    assert SIX_OCLOCK_S % 86_400 == 6 * HOUR_S
