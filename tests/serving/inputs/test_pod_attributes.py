"""What a pod is: its controller by each way that Kubernetes names one, its image, its GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from sojourn.serving.inputs import POD_NAMES, POD_SIZES, controller, main_image, pod_gpus, pod_resource


def made(kind: str = "", name: str = "", labels: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    owners = [{"kind": kind, "name": name, "controller": True}] if kind else []
    return {"metadata": {"ownerReferences": owners, "labels": labels or {}, **metadata}}


@pytest.mark.parametrize(("pod", "found"), [
    (made("ReplicaSet", "web-7d4b9c6f5b", {"pod-template-hash": "7d4b9c6f5b"}), ("Deployment", "web")),
    (made("ReplicaSet", "web-x5-7d4b9", {"rollouts-pod-template-hash": "7d4b9"}), ("Rollout", "web-x5")),
    (made("ReplicaSet", "bare-7d4b9"), ("ReplicaSet", "bare-7d4b9")),
    (made("ReplicaSet", "web-7d4b9", {"pod-template-hash": "other"}), ("ReplicaSet", "web-7d4b9")),
    (made("Job", "etl-29367840"), ("CronJob", "etl")), (made("Job", "etl-1772344800"), ("CronJob", "etl")),
    (made("Job", "train-x7k2p"), ("Job", "train")), (made("Job", "train-model"), ("Job", "train-model")),
    (made("Job", "import-17"), ("Job", "import")), (made("Job", "29367840"), ("Job", "29367840")),
    (made("Job", "run-0b6ff3ae-3a6c-4f5e-9f0a-bc5f2f0a7d11"), ("Job", "run")),
    (made("StatefulSet", "kafka-2"), ("StatefulSet", "kafka-2")),
    (made("DaemonSet", "agent-2"), ("DaemonSet", "agent-2")), (made("Node", "node-17"), ("Node", "node-17")),
    (made("Workflow", "daily-2026-03-01-t9xkz"), ("Workflow", "daily")),
    (made("Pod", "spark-3f2a9c81b7d54e60-driver"), ("Pod", "spark-driver")),
    (made(name="ignored", generateName="load-"), ("Pod", "load")),
    (made(labels={"app": "notebook"}), ("Pod", "notebook")),
    (made(labels={"app": "a", "app.kubernetes.io/name": "b"}), ("Pod", "b")),
    ({"metadata": {"name": "jupyter-ann-4f9c2"}}, ("Pod", "jupyter-ann")),
    ({"metadata": {"name": "dag-extract-x8s0f3k2"}}, ("Pod", "dag-extract")),
    ({"metadata": {"name": "123"}}, ("Pod", "123")), ({}, ("Pod", "none")),
])  # fmt: skip
def test_a_controller_is_what_keeps_making_such_pods(pod: dict[str, Any], found: tuple[str, str]) -> None:
    assert controller(pod) == found


def test_of_several_owners_the_controller_counts() -> None:
    owners = [{"kind": "Backup", "name": "b"}, {"kind": "StatefulSet", "name": "db", "controller": True}]
    assert controller({"metadata": {"ownerReferences": owners}}) == ("StatefulSet", "db")
    assert controller({"metadata": {"ownerReferences": owners[:1]}}) == ("Backup", "b")


@pytest.mark.parametrize(("image", "name"), [
    ("nginx", "nginx"), ("nginx:1.14", "nginx"), ("registry:5000/a/b", "registry:5000/a/b"),
    ("registry:5000/a/b:1@sha256:0a", "registry:5000/a/b"), ("a@sha256:0a", "a"), (":1", "none"), ("", "none"),
])
def test_an_image_has_no_tag(image: str, name: str) -> None:
    assert main_image({"spec": {"containers": [{"image": image}]}}) == name


def test_the_main_container_is_the_one_that_is_named() -> None:
    pod = {"metadata": {"annotations": {"kubectl.kubernetes.io/default-container": "app"}},
           "spec": {"containers": [{"name": "proxy", "image": "envoy"}, {"name": "app", "image": "web:1"}]}}
    assert main_image(pod) == "web"
    pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] = "gone"  # type: ignore[index]
    assert main_image(pod) == "envoy"


@pytest.mark.parametrize(("requests", "gpus"), [
    ({"nvidia.com/gpu": "2"}, 2.0), ({"amd.com/gpu": 1, "cpu": "3"}, 1.0), ({"gpu.intel.com/i915": "1"}, 1.0),
    ({"nvidia.com/gpu.shared": "1"}, 1.0), ({"nvidia.com/mig-1g.5gb": "7"}, 1.0),
    ({"nvidia.com/mig-4g.20gb": 1}, 4 / 7), ({"aliyun.com/gpu-mem": "8"}, 0.0), ({"cpu": "1"}, 0.0), ({}, 0.0),
])  # fmt: skip
def test_gpus_of_any_maker(requests: dict[str, Any], gpus: float) -> None:
    assert pod_gpus({"spec": {"containers": [{"resources": {"requests": requests}}]}}) == pytest.approx(gpus)


def test_what_a_pod_states_for_itself_counts_before_its_containers() -> None:
    pod = {"spec": {"resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "250m"},
                    "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}
    assert pod_resource(pod, "requests", "cpu") == 3.25 and POD_SIZES["mem_gib"](pod) == 1.0


def test_a_pod_that_says_nothing_has_a_value_in_every_column() -> None:
    assert {name: each({}) for name, each in POD_NAMES.items()} == {
        "namespace": "none", "controller": "none/Pod/none", "kind": "Pod", "image": "none", "priority_class": "none",
        "qos": "none", "restart_policy": "none"}  # fmt: skip
    assert {name: each({}) for name, each in POD_SIZES.items()} == {"cpu_cores": 0.0, "mem_gib": 0.0, "gpu": 0.0}


@pytest.mark.parametrize("pod", [
    made("Job", ""), {"metadata": {"ownerReferences": [{"kind": 7, "name": "a"}]}}, {"metadata": {"name": ["a"]}},
    {"metadata": {"labels": {"app": 7}}}, {"metadata": {"ownerReferences": {}}},
])  # fmt: skip
def test_wrong_types_are_refused_or_read_never_worse(pod: dict[str, Any]) -> None:
    try:
        assert all(isinstance(part, str) for part in controller(pod))
    except ValueError as error:
        assert "must be" in str(error)
