"""Writes a recording of a cluster that does not exist, in the shape in which kubectl writes pods.

    python examples/kubernetes/made_recording.py FOLDER [--days 1] [--workloads 24] [--list-hours 12] [--seed 0]

FOLDER/watch.json.gz is what `kubectl get pods -A -o json --watch --output-watch-events` would have written (an event a
line), FOLDER/lists/pods-STAMP.json.gz what `kubectl get pods -A -o json` would have, every so many hours.
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

START_S = 1_772_323_200
"""2026-03-01 00:00 UTC: the recording's first second."""
DAY_S, HOUR_S = 86_400, 3_600
GRACE_S = 30
KEPT_S = 2 * HOUR_S
"""A finished Job's pods are kept for so long (`ttlSecondsAfterFinished`)."""
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_TEAMS = ("payments", "search", "ml-training", "reports", "platform")
_CORES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Workload:
    """kind: Deployment, CronJob, Job, StatefulSet, DaemonSet, or Pod for pods that nothing made."""

    kind: str
    namespace: str
    name: str
    cores: float
    mem_mib: int
    gpus: int
    median_s: float
    spread: float


@dataclass(frozen=True)
class Pod:
    """times: Unix seconds at which it was created, given to its node, started, and ended or deleted; ended_s may lie
    after the recording."""

    workload: Workload
    name: str
    uid: str
    owner: tuple[str, str] | None
    template: str
    node: str
    created_s: int
    started_s: int
    ended_s: int
    restarts: int

    @property
    def is_batch(self) -> bool:
        return self.workload.kind in ("Job", "CronJob", "Pod")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=float, default=1.0)
    parser.add_argument("--workloads", type=int, default=24)
    parser.add_argument("--list-hours", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    pods = cluster(asked.days, asked.workloads, asked.seed)
    until_s = START_S + int(asked.days * DAY_S)
    lists = asked.folder / "lists"
    lists.mkdir(parents=True, exist_ok=True)
    with _compressed(asked.folder / "watch.json.gz") as stream:
        for kind, seen in watch(pods, until_s):
            stream.write(event_line(kind, seen).encode())
    for when_s in range(START_S, until_s + 1, asked.list_hours * HOUR_S):
        stamp = datetime.fromtimestamp(when_s, UTC).strftime("%Y%m%dT%H%M%SZ")
        with _compressed(lists / f"pods-{stamp}.json.gz") as stream:
            stream.write(list_text(listed(pods, when_s)).encode())
    print(f"{len(pods):,} pods of {asked.workloads} workloads in {asked.folder}")


def cluster(days: float, n_workloads: int, seed: int) -> list[Pod]:
    """All pods that ran in the recording, by the second of their creation."""
    rng = np.random.default_rng(seed)
    pods: list[Pod] = []
    for idx in range(n_workloads):
        kind = ("Deployment", "CronJob", "Job", "StatefulSet", "CronJob", "Deployment", "Pod", "DaemonSet")[idx % 8]
        is_gpu = kind == "Job" and idx % 16 == 2
        workload = Workload(kind, _TEAMS[idx % len(_TEAMS)], f"{kind.lower()}-{'abcdefgh'[idx % 8]}{'xyz'[idx % 3]}",
                            8.0 if is_gpu else float(rng.choice(_CORES)), int(rng.choice([128, 512, 2048, 8192])),
                            int(is_gpu), float(10 ** rng.uniform(2.0, 4.2)), 0.5)
        pods += _pods_of(workload, days, rng)
    return sorted(pods, key=lambda pod: pod.created_s)


def _pods_of(workload: Workload, days: float, rng: np.random.Generator) -> Iterator[Pod]:
    """A workload's pods: runs of batch work, and replicas between rollouts."""
    first_s, until_s = START_S - DAY_S, START_S + int(days * DAY_S)
    if workload.kind in ("StatefulSet", "DaemonSet"):
        for idx in range(3):
            yield _pod(workload, rng, first_s - int(rng.integers(0, 20 * DAY_S)), 10 * until_s, idx)
    elif workload.kind == "Deployment":
        rollout_s = first_s + int(rng.integers(0, DAY_S // 2))
        while rollout_s < until_s:
            next_s = rollout_s + int(rng.uniform(6, 30) * HOUR_S)
            template = _random(rng, 9)
            for idx in range(4):
                yield _pod(workload, rng, rollout_s + 3 * idx, next_s + 5 * idx, idx, template)
            rollout_s = next_s
    else:
        every_s = int(rng.choice([600, 1_800, 3_600]))
        starts = range(first_s, until_s, every_s) if workload.kind == "CronJob" else sorted(
            rng.integers(first_s, until_s, int(40 * (days + 1))).tolist())
        for start_s in starts:
            run_s = max(2, int(workload.median_s * 10 ** rng.normal(0.0, workload.spread)))
            yield _pod(workload, rng, start_s, start_s + 3 + run_s, 0)


def _pod(workload: Workload, rng: np.random.Generator, created_s: int, ended_s: int, idx: int,
         template: str = "") -> Pod:
    kind, name = workload.kind, workload.name
    owner: tuple[str, str] | None = (kind, name)
    if kind == "Deployment":
        owner = ("ReplicaSet", f"{name}-{template}")
        name = f"{name}-{template}-{_random(rng, 5)}"
    elif kind == "CronJob":
        owner = ("Job", f"{name}-{created_s // 60}")
        name = f"{name}-{created_s // 60}-{_random(rng, 5)}"
    elif kind == "Job":
        owner = ("Job", f"{name}-{_random(rng, 5)}")
        name = f"{owner[1]}-{_random(rng, 5)}"
    elif kind == "StatefulSet":
        name = f"{name}-{idx}"
    elif kind == "DaemonSet":
        name = f"{name}-{_random(rng, 5)}"
    else:
        owner, name = None, f"{name}-{_random(rng, 5)}"
    restarts = int(rng.integers(1, 4)) if rng.random() < 0.1 else 0
    return Pod(workload, name, str(uuid.UUID(bytes=rng.bytes(16), version=4)), owner, template,
               f"node-{int(rng.integers(0, 12)):02d}", int(created_s), int(created_s) + 2, int(ended_s), restarts)


def watch(pods: list[Pod], until_s: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Types and objects of a watch from START_S on: first all pods of then, then each change."""
    for pod in pods:
        if pod.created_s <= START_S < _gone_s(pod):
            yield "ADDED", seen_at(pod, START_S)
    changes = ((when_s, idx, kind, pod) for idx, pod in enumerate(pods) for when_s, kind in _changes(pod)
               if START_S < when_s <= until_s)
    for when_s, _, kind, pod in heapq.merge(sorted(changes, key=lambda change: change[:2])):
        yield kind, seen_at(pod, when_s)


def _changes(pod: Pod) -> Iterator[tuple[int, str]]:
    yield pod.created_s, "ADDED"
    yield pod.created_s + 1, "MODIFIED"
    yield pod.started_s + 1, "MODIFIED"
    if pod.restarts:
        yield (pod.started_s + pod.ended_s) // 2, "MODIFIED"
    if not pod.is_batch:
        yield pod.ended_s - GRACE_S, "MODIFIED"
    yield pod.ended_s, "MODIFIED"
    yield _gone_s(pod), "DELETED"


def _gone_s(pod: Pod) -> int:
    return pod.ended_s + KEPT_S if pod.is_batch else pod.ended_s + 1


def listed(pods: list[Pod], when_s: int) -> list[dict[str, Any]]:
    """All pods as the API server has them at a time."""
    return [seen_at(pod, when_s) for pod in pods if pod.created_s <= when_s < _gone_s(pod)]


def seen_at(pod: Pod, when_s: int) -> dict[str, Any]:
    """The Pod object at a time."""
    workload = pod.workload
    is_bound, has_begun, is_over = when_s > pod.created_s, when_s > pod.started_s, when_s >= pod.ended_s
    is_going = not pod.is_batch and when_s >= pod.ended_s - GRACE_S
    metadata: dict[str, Any] = {
        "creationTimestamp": _stamp(pod.created_s), "labels": {"app.kubernetes.io/name": workload.name},
        "name": pod.name, "namespace": workload.namespace, "resourceVersion": str(when_s - START_S + 10_000_000),
        "uid": pod.uid,
    }  # fmt: skip
    if is_going:
        metadata |= {"deletionGracePeriodSeconds": GRACE_S, "deletionTimestamp": _stamp(pod.ended_s)}
    if pod.owner is not None:
        metadata["generateName"] = f"{pod.owner[1]}-"
        metadata["ownerReferences"] = [{
            "apiVersion": "batch/v1" if pod.owner[0] == "Job" else "apps/v1", "blockOwnerDeletion": True,
            "controller": True, "kind": pod.owner[0], "name": pod.owner[1],
            "uid": str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(pod.owner)))}]
    if pod.template:
        metadata["labels"]["pod-template-hash"] = pod.template
    if workload.kind == "CronJob":
        metadata["labels"] |= {"batch.kubernetes.io/job-name": (pod.owner or ("", ""))[1]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": dict(sorted(metadata.items())),
            "spec": _spec(pod, is_bound), "status": _status(pod, when_s, is_bound, has_begun, is_over)}


def _spec(pod: Pod, is_bound: bool) -> dict[str, Any]:
    workload = pod.workload
    requests = {"cpu": f"{round(workload.cores * 1_000)}m", "memory": f"{workload.mem_mib}Mi"}
    if workload.gpus:
        requests["nvidia.com/gpu"] = str(workload.gpus)
    spec: dict[str, Any] = {
        "containers": [{
            "image": f"registry.example/{workload.namespace}/{workload.name}:{pod.template or '1.4'}",
            "imagePullPolicy": "IfNotPresent", "name": "main", "resources": {"requests": requests},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                              "name": "kube-api-access", "readOnly": True}]}],
        "dnsPolicy": "ClusterFirst", "enableServiceLinks": True,
    }  # fmt: skip
    if is_bound:
        spec["nodeName"] = pod.node
    return spec | {
        "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
        "restartPolicy": "Never" if pod.is_batch else "Always", "schedulerName": "default-scheduler",
        "securityContext": {}, "serviceAccount": "default", "serviceAccountName": "default",
        "terminationGracePeriodSeconds": GRACE_S,
        "tolerations": [{"effect": "NoExecute", "key": f"node.kubernetes.io/{key}", "operator": "Exists",
                         "tolerationSeconds": 300} for key in ("not-ready", "unreachable")],
    }  # fmt: skip


def _status(pod: Pod, when_s: int, is_bound: bool, has_begun: bool, is_over: bool) -> dict[str, Any]:
    if not is_bound:
        return {"phase": "Pending", "qosClass": "Burstable"}
    conditions = [_condition("PodScheduled", pod.created_s + 1, True)]
    if not has_begun:
        return {"conditions": conditions, "phase": "Pending", "qosClass": "Burstable"}
    changed_s = pod.ended_s if is_over else pod.started_s + 1
    conditions = [_condition("Initialized", pod.started_s, True), _condition("Ready", changed_s, not is_over),
                  _condition("ContainersReady", changed_s, not is_over), *conditions]
    state: dict[str, Any] = {"running": {"startedAt": _stamp(pod.started_s + 1)}}
    if is_over:
        state = {"terminated": {
            "containerID": f"containerd://{pod.uid}", "exitCode": 0, "finishedAt": _stamp(pod.ended_s),
            "reason": "Completed", "startedAt": _stamp(pod.started_s + 1)}}
    restarts = pod.restarts if when_s >= (pod.started_s + pod.ended_s) // 2 else 0
    return {
        "conditions": conditions,
        "containerStatuses": [{
            "containerID": f"containerd://{pod.uid}", "image": f"registry.example/{pod.workload.name}",
            "imageID": f"registry.example/{pod.workload.name}@sha256:{pod.uid}", "lastState": {}, "name": "main",
            "ready": not is_over, "restartCount": restarts, "started": not is_over, "state": state}],
        "hostIP": "10.0.0.7", "hostIPs": [{"ip": "10.0.0.7"}],
        "phase": "Succeeded" if is_over and pod.is_batch else "Running",
        "podIP": "10.244.3.9", "podIPs": [{"ip": "10.244.3.9"}], "qosClass": "Burstable",
        "startTime": _stamp(pod.started_s),
    }  # fmt: skip


def list_text(items: list[dict[str, Any]]) -> str:
    """A list as kubectl prints it."""
    return json.dumps({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}},
                      indent=4) + "\n"


def event_line(kind: str, pod: dict[str, Any]) -> str:
    """An event as kubectl prints it."""
    return json.dumps({"type": kind, "object": pod}, separators=(",", ":")) + "\n"


def _condition(kind: str, when_s: int, is_true: bool) -> dict[str, Any]:
    return {"lastProbeTime": None, "lastTransitionTime": _stamp(when_s), "status": "True" if is_true else "False",
            "type": kind}


def _stamp(unix_s: int) -> str:
    return datetime.fromtimestamp(min(unix_s, 4_000_000_000), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _random(rng: np.random.Generator, n: int) -> str:
    return "".join(_LETTERS[idx] for idx in rng.integers(0, len(_LETTERS), n))


def _compressed(path: Path) -> gzip.GzipFile:
    return gzip.GzipFile(path, "wb", mtime=0)


if __name__ == "__main__":
    main()
