"""What a pod is, as a trace's columns name it: its controller, image and sizes. Training and serving both ask here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sojourn.serving.pods.pod_fields import field, mapping, sequence, short_text
from sojourn.serving.pods.quantities import pod_gpus, pod_resource

NONE = "none"
"""Where a pod does not say: pods that no controller made, or without a priority class."""
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_RANDOM = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")
"""What Kubernetes adds to a generated name (apimachinery's `rand.SafeEncodeString`: no vowels, no 0, 1, 3)."""
_GENERATED = re.compile(r"[0-9]+|(?=.*[0-9])[0-9a-f]{6,}|(?=.{5})[a-z0-9]*[0-9][a-z]+[0-9][a-z0-9]*")
_SCHEDULED = re.compile(r"(.+)-[0-9]{8,10}")
"""A CronJob's Job: minutes since 1970 (Kubernetes 1.21 and later), or seconds."""
_TEMPLATE_HASHES = (("pod-template-hash", "Deployment"), ("rollouts-pod-template-hash", "Rollout"))
_LASTING = frozenset({"StatefulSet", "DaemonSet", "Deployment", "Node", "ReplicaSet"})
"""Kinds whose names people give and that live on; names of others may hold what a run added."""
_APP_LABELS = ("app.kubernetes.io/name", "app", "k8s-app")


def controller(pod: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and name of what keeps making such pods: a Deployment, StatefulSet, CronJob, Job, or any other owner.

    A pod names only its nearest owner: a ReplicaSet of a Deployment is told by `pod-template-hash`, a Job of a CronJob
    by its name. Generated parts of names of Jobs and other owners that come and go are left out. A pod without an owner
    goes by its `generateName`, its app label or its name, and its kind is `Pod`. ValueError for a wrong type.

    >>> owner = [{"kind": "ReplicaSet", "name": "web-7d4b9c6f5b", "controller": True}]
    >>> controller({"metadata": {"ownerReferences": owner, "labels": {"pod-template-hash": "7d4b9c6f5b"}}})
    ('Deployment', 'web')
    >>> controller({"metadata": {"ownerReferences": [{"kind": "Job", "name": "etl-29367840", "controller": True}]}})
    ('CronJob', 'etl')
    >>> controller({"metadata": {"name": "notebook-4f9c2"}})
    ('Pod', 'notebook')
    """
    owners = sequence(pod, "metadata", "ownerReferences")
    chosen = next((owner for owner in owners if field(owner, "controller") is True), owners[0] if owners else None)
    if chosen is None:
        return "Pod", _plain(_own_name(pod))
    kind, name = (short_text(field(chosen, key)) for key in ("kind", "name"))
    if kind == "ReplicaSet":
        labels = mapping(pod, "metadata", "labels")
        for label, above in _TEMPLATE_HASHES:
            ending = f"-{labels.get(label)}"
            if name.endswith(ending) and len(name) > len(ending):
                return above, name.removesuffix(ending)
    if kind == "Job":
        scheduled = _SCHEDULED.fullmatch(name)
        if scheduled is not None:
            return "CronJob", scheduled[1]
    return kind, name if kind in _LASTING else _plain(name)


def main_image(pod: Mapping[str, Any]) -> str:
    """Image of the main container without tag and digest, since every release has another; `none` without one.

    The main container is the one that `kubectl.kubernetes.io/default-container` names, else the first.

    >>> main_image({"spec": {"containers": [{"image": "registry:5000/team/web:1.2@sha256:0a"}]}})
    'registry:5000/team/web'
    """
    containers = sequence(pod, "spec", "containers")
    named = mapping(pod, "metadata", "annotations").get("kubectl.kubernetes.io/default-container")
    main = next((each for each in containers if named is not None and field(each, "name") == named),
                containers[0] if containers else None)
    image = None if main is None else field(main, "image")
    if image is None:
        return NONE
    path, _, rest = short_text(image).partition("@")[0].rpartition("/")
    name = rest.partition(":")[0]
    return f"{path}/{name}" if path else name or NONE


def _own_name(pod: Mapping[str, Any]) -> str:
    generated = field(pod, "metadata", "generateName")
    if generated:
        return short_text(generated).rstrip("-.") or NONE
    labels = mapping(pod, "metadata", "labels")
    found = next((labels[label] for label in _APP_LABELS if labels.get(label)), field(pod, "metadata", "name"))
    return short_text(found or NONE)


def _plain(name: str) -> str:
    """The name without the parts that a run added: numbers, dates, hashes, UUIDs."""
    parts = _UUID.sub("0", name).split("-")
    if len(parts) > 1 and _RANDOM.fullmatch(parts[-1]):
        parts.pop()
    return "-".join(part for part in parts if part and not _GENERATED.fullmatch(part)) or name


def _controller_path(pod: Mapping[str, Any]) -> str:
    return short_text("/".join((_text(pod, "metadata", "namespace"), *controller(pod))))


def _text(pod: Mapping[str, Any], *path: str) -> str:
    return short_text(field(pod, *path) or NONE)


def _gib(pod: Mapping[str, Any]) -> float:
    return (pod_resource(pod, "requests", "memory") or 0.0) / 2.0**30


POD_NAMES: Mapping[str, Callable[[Mapping[str, Any]], str]] = MappingProxyType({
    "namespace": lambda pod: _text(pod, "metadata", "namespace"),
    "controller": _controller_path,
    "kind": lambda pod: controller(pod)[0],
    "image": main_image,
    "priority_class": lambda pod: _text(pod, "spec", "priorityClassName"),
    "qos": lambda pod: _text(pod, "status", "qosClass"),
    "restart_policy": lambda pod: _text(pod, "spec", "restartPolicy"),
})
"""Column -> a pod's value: a text, `none` where it does not say. All are set when the pod is created.

controller: NAMESPACE/KIND/NAME.
"""
POD_SIZES: Mapping[str, Callable[[Mapping[str, Any]], float]] = MappingProxyType({
    "cpu_cores": lambda pod: pod_resource(pod, "requests", "cpu") or 0.0,
    "mem_gib": _gib,
    "gpu": pod_gpus,
})
"""Column -> what the whole pod asks for: cores, GiB, GPUs; 0 where it asks for none."""
