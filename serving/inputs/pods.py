"""Pods as Kubernetes writes them: names, times, requested resources, controllers; and workloads of Kueue.

Resources are counted as the scheduler counts them. Each function checks the types that it reads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

TEXT_MAX = 512
"""Longest name or text of a pod, in characters; names in Kubernetes have at most 253."""
FIRST_POD_S = 1_401_580_800
"""2014-06-01, unix seconds, the age of Kubernetes. Earlier times mean "none": Go's zero time (year
1), and 1970 for containers that never ran."""


def pod_uid(pod: Any) -> str:
    """The pod's uid; ValueError if it has none."""
    return _name(pod, "metadata", "uid")


def node_name(node: Any) -> str:
    """A node's name; ValueError if it has none."""
    return _name(node, "metadata", "name")


def is_finished(pod: Any) -> bool:
    """True once all its containers have ended for good."""
    return field(pod, "status", "phase") in ("Succeeded", "Failed")


def is_part_of_node(pod: Any) -> bool:
    """True for pods that run as long as their node: pods of a DaemonSet, and static pods."""
    owners = sequence(pod, "metadata", "ownerReferences")
    return (any(field(owner, "kind") == "DaemonSet" for owner in owners)
            or "kubernetes.io/config.mirror" in mapping(pod, "metadata", "annotations"))


def started_unix_s(pod: Any, now_unix_s: float = math.inf) -> int | None:
    """When its node accepted it (status.startTime), unix seconds; None if missing, see `pod_time_s`.

    At least its creation, since a node's clock may be wrong.

    >>> started_unix_s({"metadata": {"creationTimestamp": "2026-03-01T06:00:00Z"},
    ...                 "status": {"startTime": "2025-01-01T00:00:00Z"}})
    1772344800
    """
    started_s = pod_time_s(field(pod, "status", "startTime"), now_unix_s)
    if started_s is None:
        return None
    created_s = pod_time_s(field(pod, "metadata", "creationTimestamp"), now_unix_s)
    return started_s if created_s is None else max(started_s, created_s)


def finished_unix_s(pod: Any, now_unix_s: float = math.inf) -> int | None:
    """When the last of its containers ended, unix seconds; None if missing, see `pod_time_s`."""
    ends = (pod_time_s(field(status, "state", "terminated", "finishedAt"), now_unix_s)
            for status in sequence(pod, "status", "containerStatuses"))
    return max((end_s for end_s in ends if end_s is not None), default=None)


def pod_time_s(time: Any, now_unix_s: float = math.inf) -> int | None:
    """Unix seconds of a past time of a pod; None if it is missing, before FIRST_POD_S or after now.

    ValueError if it is no RFC 3339 time.

    >>> pod_time_s("2026-03-01T06:00:00Z"), pod_time_s("0001-01-01T00:00:00Z"), pod_time_s("1970-01-01T00:00:00Z")
    (1772344800, None, None)
    >>> pod_time_s("2026-03-01T06:00:00Z", now_unix_s=1_772_344_799)
    """
    if time is None:
        return None
    time_s = unix_s(time)
    return time_s if FIRST_POD_S <= time_s <= now_unix_s else None


def unix_s(time: Any) -> int:
    """Unix seconds, rounded down, of an RFC 3339 time such as 2026-03-01T06:00:00Z.

    >>> unix_s("2026-03-01T06:00:00Z")
    1772344800
    """
    try:
        moment = datetime.fromisoformat(time)
    except (TypeError, ValueError):
        moment = datetime.min
    if moment.tzinfo is None:
        raise ValueError(f"time must be one such as 2026-03-01T06:00:00Z, got {shown_field(time)}")
    return int(moment.timestamp() // 1)


def field(document: Any, *path: str) -> Any:
    """The value at a path of names (or list positions), None if a part is missing; ValueError for a wrong type."""
    for depth, name in enumerate(path):
        if isinstance(document, list) and name.isdecimal():
            document = document[int(name)] if int(name) < len(document) else None
        elif isinstance(document, dict):
            document = document.get(name)
        else:
            raise ValueError(f"{'.'.join(path[:depth]) or 'object'} must be an object, got {shown_field(document)}")
        if document is None:
            return None
    return document


def mapping(document: Any, *path: str) -> Mapping[str, Any]:
    """The object at a path, empty if missing; ValueError for a wrong type."""
    value = field(document, *path)
    if not isinstance(value, dict | None):
        raise ValueError(f"{'.'.join(path)} must be an object, got {shown_field(value)}")
    return value or {}


def sequence(document: Any, *path: str) -> Sequence[Any]:
    """The list at a path, empty if missing; ValueError for a wrong type."""
    value = field(document, *path)
    if not isinstance(value, list | None):
        raise ValueError(f"{'.'.join(path)} must be a list, got {shown_field(value)}")
    return value or ()


def listed_items(document: Any) -> Sequence[Any] | None:
    """The objects of a list, as Kubernetes writes it ({"items": [...]}) or bare ([...]); None for a single object."""
    if isinstance(document, list):
        return document
    return sequence(document, "items") if isinstance(document, dict) and "items" in document else None


def short_text(value: Any) -> str:
    """The value, if it is a text of at most TEXT_MAX characters; else ValueError."""
    if not isinstance(value, str) or len(value) > TEXT_MAX:
        raise ValueError(f"value must be text of at most {TEXT_MAX} characters, got {shown_field(value)}")
    return value


def shown_field(value: Any) -> str:
    """A value of a document for an error message, cut to 80 characters; for a list or an object its type."""
    text = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."


def _name(document: Any, *path: str) -> str:
    value = field(document, *path)
    if not value:
        raise ValueError(f"{'.'.join(path)} must be given, got {shown_field(value)}")
    return short_text(value)


_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,4})?")
_QUANTITY_LENGTH = 64
_LARGEST = 1e24
_SCALES = {"": Decimal(1), **{letter: Decimal(10) ** power for letter, power in zip(
               "numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)},
           **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)}}  # fmt: skip
_GPU = re.compile(r"[^/]+/(?:gpu(?:\.shared)?|i915|xe)")
_MIG = re.compile(r"nvidia\.com/mig-([1-7])g\..*")
_SLICES = 7
"""Compute slices of a GPU under NVIDIA's MIG."""


def quantity(value: Any) -> float:
    """A resource quantity (apimachinery's `resource.Quantity`) as a number: cores, bytes or pieces.

    Signed decimals with a suffix n u m k M G T P E, Ki Mi Gi Ti Pi Ei or an exponent, or numbers.
    Unlike in Kubernetes, not rounded to nanos. ValueError for anything else, and from 1e24 on.

    >>> quantity("500m"), quantity("2Gi"), quantity("1e3"), quantity(".5k"), quantity(2)
    (0.5, 2147483648.0, 1000.0, 500.0, 2.0)
    """
    text = repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    number = _number(text) if isinstance(text, str) and len(text) <= _QUANTITY_LENGTH else None
    if number is None:
        raise ValueError(f"quantity must be one such as 500m, 2Gi or 1e3, below {_LARGEST:g}, got {shown_field(value)}")
    return number


def _amount(value: Any) -> float:
    number = quantity(value)
    if number < 0.0:
        raise ValueError(f"quantity must be from 0 on, got {shown_field(value)}")
    return number


@lru_cache(maxsize=4_096)
def _number(text: str) -> float | None:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    digits, suffix = match.groups(default="")
    number = float(Decimal(digits) * (_SCALES[suffix] if suffix in _SCALES else Decimal("1" + suffix)))
    return number if abs(number) < _LARGEST else None


def pod_resource(pod: Mapping[str, Any], where: str, resource: str) -> float | None:
    """The pod's total amount of a resource, as the scheduler counts it; None if the pod does not mention it.

    It is `spec.resources` if present; else the sum over containers and sidecars, or, if larger, an
    init container plus the sidecars before it. The overhead is added. where: `requests` or
    `limits`. ValueError for a wrong type, and for less than 0.

    >>> pod_resource({"spec": {"containers": [{"resources": {"requests": {"cpu": "500m"}}}]}}, "requests", "cpu")
    0.5
    """
    is_named = False

    def amount(container: Any) -> float:
        nonlocal is_named
        quantities = mapping(container, "resources", where).get(resource)
        is_named |= quantities is not None
        return 0.0 if quantities is None else _amount(quantities)

    sidecars = peak = 0.0
    for container in sequence(pod, "spec", "initContainers"):
        need = amount(container)
        peak = max(peak, sidecars + need)
        if field(container, "restartPolicy") == "Always":
            sidecars += need
    total = max(sidecars + sum(map(amount, sequence(pod, "spec", "containers"))), peak)
    of_pod = mapping(pod, "spec", "resources", where).get(resource)
    if of_pod is not None:
        is_named, total = True, _amount(of_pod)
    return total + _amount(mapping(pod, "spec", "overhead").get(resource, 0)) if is_named else None


def pod_gpus(pod: Mapping[str, Any]) -> float:
    """GPUs of the whole pod, of all vendors: `VENDOR/gpu`, `gpu.intel.com/i915`; a MIG slice is a seventh.

    >>> pod_gpus({"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "2", "cpu": "1"}}}]}})
    2.0
    >>> pod_gpus({"spec": {"containers": [{"resources": {"requests": {"nvidia.com/mig-3g.20gb": 1}}}]}}) * 7
    3.0
    """
    return sum((pod_resource(pod, "requests", name) or 0.0) * gpu_share(name) for name in sorted(set(_gpu_names(pod))))


def gpu_share(resource: str) -> float:
    """The share of a GPU in one unit of a resource; 0 if it is no GPU.

    >>> gpu_share("amd.com/gpu"), gpu_share("cpu")
    (1.0, 0.0)
    """
    slices = _MIG.fullmatch(resource)
    if slices is not None:
        return int(slices[1]) / _SLICES
    return 1.0 if _GPU.fullmatch(resource) else 0.0


def _gpu_names(pod: Mapping[str, Any]) -> Iterator[str]:
    for where in ("containers", "initContainers"):
        for container in sequence(pod, "spec", where):
            yield from (name for name in mapping(container, "resources", "requests") if gpu_share(name))


NONE = "none"
"""The value for pods without a controller or a priority class."""
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_RANDOM = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")
"""The suffix of a generated name in Kubernetes (apimachinery's `rand.SafeEncodeString`: no vowels, no 0, 1, 3)."""
_GENERATED = re.compile(r"[0-9]+|(?=.*[0-9])[0-9a-f]{6,}|(?=.{5})[a-z0-9]*[0-9][a-z]+[0-9][a-z0-9]*")
_SCHEDULED = re.compile(r"(.+)-[0-9]{8,10}")
"""A CronJob's Job: minutes since 1970 (Kubernetes 1.21 and later), or seconds."""
_TEMPLATE_HASHES = (("pod-template-hash", "Deployment"), ("rollouts-pod-template-hash", "Rollout"))
_LASTING = frozenset({"StatefulSet", "DaemonSet", "Deployment", "Node", "ReplicaSet"})
"""Kinds that people name and that stay; names of other kinds may have generated parts."""
_APP_LABELS = ("app.kubernetes.io/name", "app", "k8s-app")


def controller(pod: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and name of the object that creates such pods: a Deployment, StatefulSet, CronJob, Job or other owner.

    A pod names only its nearest owner: `pod-template-hash` identifies a ReplicaSet of a Deployment,
    the name a Job of a CronJob. Generated parts of the names of short-lived owners are removed. A
    pod without an owner has the kind `Pod`, and its `generateName`, app label or name. ValueError
    for a wrong type.

    >>> owner = [{"kind": "ReplicaSet", "name": "web-7d4b9c6f5b", "controller": True}]
    >>> controller({"metadata": {"ownerReferences": owner, "labels": {"pod-template-hash": "7d4b9c6f5b"}}})
    ('Deployment', 'web')
    >>> controller({"metadata": {"ownerReferences": [{"kind": "Job", "name": "etl-29367840", "controller": True}]}})
    ('CronJob', 'etl')
    >>> controller({"metadata": {"name": "notebook-4f9c2"}})
    ('Pod', 'notebook')
    """
    owners = sequence(pod, "metadata", "ownerReferences")
    owner = next((each for each in owners if field(each, "controller") is True), owners[0] if owners else None)
    if owner is None:
        return "Pod", _plain(_own_name(pod))
    kind, name = (short_text(field(owner, key)) for key in ("kind", "name"))
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
    """Image of the main container without tag and digest, which change with releases; `none` without one.

    The annotation `kubectl.kubernetes.io/default-container` names the main container, else it is
    the first.

    >>> main_image({"spec": {"containers": [{"image": "registry:5000/team/web:1.2@sha256:0a"}]}})
    'registry:5000/team/web'
    """
    containers = sequence(pod, "spec", "containers")
    main_name = mapping(pod, "metadata", "annotations").get("kubectl.kubernetes.io/default-container")
    main = next((each for each in containers if main_name is not None and field(each, "name") == main_name),
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
    name = next((labels[label] for label in _APP_LABELS if labels.get(label)), field(pod, "metadata", "name"))
    return short_text(name or NONE)


def _plain(name: str) -> str:
    """The name without generated parts: numbers, dates, hashes, UUIDs."""
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
"""Column -> a pod's value: a text, `none` if missing. All are set when the pod is created.

controller: NAMESPACE/KIND/NAME.
"""
POD_SIZES: Mapping[str, Callable[[Mapping[str, Any]], float]] = MappingProxyType({
    "cpu_cores": lambda pod: pod_resource(pod, "requests", "cpu") or 0.0,
    "mem_gib": _gib,
    "gpu": pod_gpus,
})
"""Column -> the requests of the whole pod: cores, GiB, GPUs; 0 if none."""


KUEUE_VERSIONS = ("kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2")


class Workload(NamedTuple):
    """A workload of Kueue. label: NAMESPACE/NAME. state: waits, runs, reserved, finished or inactive. since_s: of its
    creation, its admission or its reservation, unix seconds; newest_s: its latest time; None = none. cores: of all its
    pods. limit_s: that its next or present run may take; None = none. columns: of a pod of its first set, as training
    reads them, but `qos`, which it lacks; and `queue`, its LocalQueue."""

    label: str
    state: str
    since_s: int | None
    newest_s: int | None
    cores: float
    limit_s: int | None
    columns: Mapping[str, Any]
    labels: Mapping[str, str]


def kueue_workload(workload: Any) -> Workload:
    """What a workload of Kueue asks for, and where it stands; ValueError names the workload, the field and the value.

    A pod set has as many pods as were admitted, without those whose room was given back. Its cores are requests, else
    limits, as `pod_resource` counts them.
    """
    label = "/".join(_name(workload, "metadata", part) for part in ("namespace", "name"))
    with _naming(f"workload {label}"):
        return _workload(label, workload)


def _workload(label: str, workload: Any) -> Workload:
    if field(workload, "apiVersion") not in KUEUE_VERSIONS:
        raise ValueError(f"apiVersion must be {' or '.join(KUEUE_VERSIONS)}, got "
                         f"{shown_field(field(workload, 'apiVersion'))}")
    active = field(workload, "spec", "active")
    if not isinstance(active, bool | None):
        raise ValueError(f"spec.active must be true or false, got {shown_field(active)}")
    created_s = _time_s(workload, "metadata", "creationTimestamp")
    times_s, since_s = [created_s], dict[str, int | None]()
    for condition in sequence(workload, "status", "conditions"):
        times_s.append(_time_s(condition, "lastTransitionTime"))
        if field(condition, "status") == "True":
            since_s[_name(condition, "type")] = times_s[-1]
    state = ("finished" if "Finished" in since_s else "inactive" if active is False else "runs"
             if "Admitted" in since_s else "reserved" if "QuotaReserved" in since_s else "waits")
    pod_sets, cores = sequence(workload, "spec", "podSets"), 0.0
    if not pod_sets:
        raise ValueError("spec.podSets must be at least one, got none")
    admitted = {_text(each, "name"): each for each in sequence(workload, "status", "admission", "podSetAssignments")}
    returned = {_text(each, "name"): each for each in sequence(workload, "status", "reclaimablePods")}
    for pod_set in pod_sets:
        name, pod = _text(pod_set, "name"), mapping(pod_set, "template")
        n_pods = _whole(admitted.get(name, {}), 0, "count")
        n_pods = _whole(pod_set, 0, "count") if n_pods is None else n_pods
        n_left = (1 if n_pods is None else n_pods) - (_whole(returned.get(name, {}), 0, "count") or 0)
        with _naming(f"cpu of pod set {name}"):
            asked = pod_resource(pod, "requests", "cpu")
            cores += max(n_left, 0) * ((pod_resource(pod, "limits", "cpu") if asked is None else asked) or 0.0)
    limit_s = _whole(workload, 1, "spec", "maximumExecutionTimeSeconds")
    if limit_s is not None:  # Kueue counts earlier runs too; v1beta1 has the name with a slip
        past_s = [_whole(workload, 0, "status", f"accumulatedPast{word}TimeSeconds") or 0
                  for word in ("Execution", "Exexcution")]
        limit_s = max(limit_s - max(past_s), 1)
    if cores > 2**31:
        raise ValueError(f"cpu of all pods must be at most {2**31} cores, got {cores:g}")
    begun_s = since_s.get("Admitted" if state == "runs" else "QuotaReserved")
    pod = {"metadata": mapping(workload, "metadata"), "spec": mapping(pod_sets[0], "template", "spec")}
    columns = {name: read(pod) for name, read in {**POD_NAMES, **POD_SIZES}.items() if name != "qos"}
    with _naming("metadata.labels"):
        labels = {name: short_text(value) for name, value in mapping(workload, "metadata", "labels").items()}
    return Workload(label, state, created_s if state == "waits" else begun_s,
                    max((time_s for time_s in times_s if time_s is not None), default=None), cores, limit_s,
                    {**columns, "queue": _text(workload, "spec", "queueName")}, labels)


def _time_s(document: Any, *path: str) -> int | None:
    with _naming(".".join(path)):
        return pod_time_s(field(document, *path))


@contextmanager
def _naming(what: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def _whole(document: Any, least: int, *path: str) -> int | None:
    value = field(document, *path)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**31):
        raise ValueError(f"{'.'.join(path)} must be a whole number in {least}..{2**31 - 1}, got {shown_field(value)}")
    return value
