"""Resource quantities and the mapping from a pod to the columns of a request."""

from __future__ import annotations

from typing import Any

import pytest

from made_extender import example
from sojourn.serving.extender.nodes import PodColumns
from sojourn.serving.inputs import Encoder, HistoryDefinition, pod_resource, quantity

ENCODER = Encoder(("cpu_cores", "mem_gib"), ("user", "deployment"), HistoryDefinition(()))


@pytest.mark.parametrize(("text", "number"), [
    # rows of apimachinery's TestQuantityParse
    ("0", 0.0), ("0n", 0.0), ("0Ki", 0.0), ("1", 1.0), ("1Ki", 1_024.0), ("8Ki", 8_192.0), ("7Mi", 7.0 * 2**20),
    ("6Gi", 6.0 * 2**30), ("5Ti", 5.0 * 2**40), ("4Pi", 4.0 * 2**50), ("3Ei", 3.0 * 2**60), ("5n", 5e-9), ("4u", 4e-6),
    ("3m", 0.003), ("8k", 8e3), ("7M", 7e6), ("6G", 6e9), ("5T", 5e12), ("2P", 2e15), ("1E", 1e18), ("1E-3", 0.001),
    ("1e3", 1e3), ("1E6", 1e6), ("1e18", 1e18), ("100.035k", 100_035.0), ("0.0005k", 0.5), ("0.5e-1", 0.05),
    ("1.3E+6", 1.3e6), ("7.123456M", 7_123_456.0), ("12E", 1.2e19), ("0.5Mi", 524_288.0), ("0.05Gi", 53_687_091.2),
    (".001", 0.001), ("1.", 1.0), ("1.G", 1e9),
    ("500m", 0.5), ("+2", 2.0), ("-1.5Gi", -1.5 * 2**30), ("007", 7.0), (2, 2.0), (0.25, 0.25), (1e-7, 1e-7),
])  # fmt: skip
def test_quantities(text: Any, number: float) -> None:
    assert quantity(text) == number


@pytest.mark.parametrize("text", [
    "", " 1", "1 ", "1.1.1", "1+1", "1ki", "1KI", "1Gb", "Gi", "1e", "1e3m", "0x10", "1_0", "-", ".", "NaN", "inf",
    "1e400", "9" * 65, "\u0661", "1\n", None, True, [], {}, float("nan"), float("inf"), 10**30,
])  # fmt: skip
def test_what_is_no_quantity_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="quantity must be one such as"):
        quantity(text)


def _container(cpu: str, **more: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(("spec", "cores"), [
    ({"containers": [_container("1500m"), _container("500m")]}, 2.0),  # 1.5 + 0.5
    ({"containers": [_container("1")], "initContainers": [_container("3")]}, 3.0),  # max(1, 3)
    ({"containers": [_container("1")],  # 0.5 + 2 > 1 + 0.5
      "initContainers": [_container("500m", restartPolicy="Always"), _container("2"), _container("250m")]}, 2.5),
    ({"containers": [_container("2")],  # 2 + 1
      "initContainers": [_container("1"), _container("1", restartPolicy="Always")]}, 3.0),
    ({"containers": [_container("1")], "overhead": {"cpu": "250m"}}, 1.25),
    ({"containers": [{"resources": {}}, {}], "overhead": {"cpu": "1"}}, None),
    ({}, None),
])  # fmt: skip
def test_a_pod_asks_for_what_the_scheduler_counts(spec: dict[str, Any], cores: float | None) -> None:
    assert pod_resource({"spec": spec}, "requests", "cpu") == cores


def test_an_example_pod_by_the_default_mapping() -> None:
    pod = example("filter_args_node_names")["Pod"]
    assert PodColumns.of(ENCODER).request(pod) == {  # 6 Gi + 2 Gi
        "cpu_cores": 2.0, "mem_gib": 8.0, "user": "team-a", "deployment": "train"}  # fmt: skip


def test_every_kind_of_source() -> None:
    pod = example("filter_args_node_names")["Pod"]
    sources = {"cpu_cores": "annotation:team/cost-centre", "mem_gib": "limits.memory",
               "user": "metadata.ownerReferences.0.name", "deployment": "label:batch.kubernetes.io/job-name"}
    assert PodColumns.of(ENCODER, sources).request(pod) == {
        "cpu_cores": 17.0, "mem_gib": 6.0, "user": "train-7", "deployment": "train-7"}  # fmt: skip
    assert PodColumns.of(ENCODER, {"user": "spec.priority"}).request(pod) == {"user": 0}


def test_what_a_pod_does_not_say_is_left_out() -> None:
    assert PodColumns.of(ENCODER).request({}) == {}
    assert PodColumns.of(ENCODER, {"user": "metadata.ownerReferences.7.name"}).request(
        {"metadata": {"ownerReferences": [], "labels": None}}) == {}  # fmt: skip


@pytest.mark.parametrize(("sources", "message"), [
    ([], "columns must be a JSON object"),
    ({"cores": "requests.cpu"}, "columns must be of cpu_cores, mem_gib, user, deployment, got 'cores'"),
    ({"user": "status.phase"}, "user must come from requests.R"),
    ({"user": 3}, "user must come from requests.R"),
])  # fmt: skip
def test_a_wrong_mapping_is_refused(sources: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PodColumns.of(ENCODER, sources)


@pytest.mark.parametrize(("pod", "message"), [
    ({"spec": {"containers": [_container("two")]}}, r"cpu_cores \(from requests.cpu\): quantity must be"),
    ({"spec": {"containers": {}}}, r"cpu_cores .*spec.containers must be a list, got dict"),
    ({"spec": {"containers": [7]}}, r"cpu_cores .*must be an object, got 7"),
    ({"metadata": {"labels": []}}, r"deployment .*metadata.labels must be an object, got list"),
    ({"metadata": {"namespace": ["a"]}}, r"user .*value must be text of at most 512 characters, got list"),
    ({"metadata": {"namespace": "a" * 513}}, r"user .*value must be text of at most 512 characters"),
    ({"metadata": "a"}, r"user .*metadata must be an object, got 'a'"),
])  # fmt: skip
def test_a_wrong_type_in_a_pod_is_refused_by_column(pod: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PodColumns.of(ENCODER).request(pod)
