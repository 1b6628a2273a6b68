"""Reads recordings of a Kubernetes cluster's pods: by kubectl or by the scheduler extender."""

from __future__ import annotations

from pathlib import Path

from sojourn.features.read_report import ReadReport
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Trace


def read_kubernetes(path: str | Path, *, timezone: str | None = None, seed: int = 0,
                    horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of kubectl's files, one or a folder: lists of pods, and watches. A pod is a request.

    Arrival is the time when the pod's node accepted it (`status.startTime`) and reserved its room. Departure is the end
    of its last container, or its deletion in a watch. If a pod is in a list and not in the next one, its end is drawn
    uniformly between the two. Pods of DaemonSets and static pods belong to their node and are no requests. A log folder
    of the extender (`--log-to`) is read, too. See docs/traces/kubernetes.md for details.

    timezone: IANA name of the zone of stamps in file names; None = UTC. seed: of drawn times.
    horizon_s: end of observation, seconds on the trace's clock.

    Raises OSError if a file cannot be opened, and ValueError with the commands to type if it is no recording.

    >>> import json, tempfile
    >>> pods = [{"metadata": {"uid": name, "name": name, "namespace": "a"}, "spec": {"nodeName": "n"}, "status": {
    ...     "phase": "Running", "startTime": f"2026-03-01T0{idx}:00:00Z"}} for idx, name in enumerate("xyz")]
    >>> file = Path(tempfile.mkdtemp()) / "pods.json"
    >>> _ = file.write_text(json.dumps({"items": pods[:2]}) + json.dumps({"items": pods[1:]}))
    >>> trace, report = read_kubernetes(file)
    >>> trace.requests[["request_id", "arrival_s", "ended_after_s", "ended_by_s"]].values.tolist()
    [['x', 1772323200, 1772326800, 1772330400], ['y', 1772326800, <NA>, <NA>], ['z', 1772330400, <NA>, <NA>]]
    """
    from sojourn.features.readers._pod_trace import pod_trace  # pods are in serving, which loads numba

    return pod_trace(Path(path), timezone, seed, horizon_s)


KUBERNETES = Reader(
    read_kubernetes,
    path="what `kubectl get pods -A -o json` writes: a list or several, a watch, or a folder of such files; the folder "
         "that the extender logs to",
    arrival="start of the pod (`status.startTime`)",
    departure="end of its last container, or its deletion; drawn between two lists where only they tell; none where it "
              "still runs",
    owners="`namespace`, `controller`",
    categories="`kind`, `image`, `priority_class`, `qos`, `restart_policy`, where used",
    numbers="`requested_s` (`activeDeadlineSeconds`) where used",
    no_role="`creation_s`, `pod` (NAMESPACE/POD), `phase`, `n_restarts`, `ended_after_s`, `ended_by_s`",
    is_stamped=True,
)
