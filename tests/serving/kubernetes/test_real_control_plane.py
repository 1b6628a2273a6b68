"""The watcher in a real control plane: etcd, kube-apiserver, kube-scheduler. SOJOURN_KUBE names the folder of `bin`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from benchmarks.control_plane import ControlPlane, plain_pod
from benchmarks.doors import until

from learnt_bundle import learn
from sojourn.serving.kubernetes import ask, open_cluster

KUBE = os.environ.get("SOJOURN_KUBE", "")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(
    not KUBE, reason="SOJOURN_KUBE must name a folder with bin/kube-apiserver and bin/kube-scheduler (make kube)")]


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    plane = ControlPlane(Path(KUBE), tmp_path)
    try:
        plane.start_etcd()
        plane.start_api()
        yield plane
    finally:
        print(plane.extender("/metrics")[1], (tmp_path / "extender.log").read_text())
        plane.down()


def is_equal(plane: ControlPlane) -> bool:
    """The extender knows as many pods as are bound, and is ready."""
    return plane.extender("/readyz")[0] == 200 and plane.sample("sojourn_extender_pods ") == len(plane.bound())


def test_no_pod_waits_and_the_view_is_right_soon_after_a_kill(plane: ControlPlane, tmp_path: Path) -> None:
    bundle = learn(tmp_path).folder
    plane.start_extender(bundle)
    until(lambda: plane.sample('sojourn_cluster_failures_total{resource="pods",reason="forbidden"}') >= 1)
    assert "nodes is forbidden" in plane.extender("/readyz")[1]
    plane.end("extender")
    plane.grant()
    until(lambda: not forbidden(plane))
    for number in range(30):
        plane.add_node(f"node-{number:02d}", "16", "64Gi")
    plane.start_extender(bundle)
    until(lambda: plane.extender("/readyz")[0] == 200)
    plane.start_scheduler(has_extender=True)
    n_pods = 0

    def more(n: int) -> float:
        """Seconds until n further pods are bound."""
        nonlocal n_pods
        for number in range(n_pods, n_pods + n):
            plane.create(plain_pod(f"pod-{number}"))
        n_pods += n
        return until(lambda: len(plane.bound()) == n_pods)

    more(120)
    until(lambda: is_equal(plane), 10.0)
    assert plane.sample('sojourn_extender_requests_total{verb="filter",outcome="ok"}') >= 120
    spent_s = {}
    # killed: pods are placed without it; then it lists what was missed
    plane.end("extender", signal.SIGKILL)
    spent_s["40 pods without the extender"] = more(40)
    plane.start_extender(bundle)
    spent_s["right after the extender's start"] = until(lambda: is_equal(plane))
    # the API server is killed while pods are made; pods end while nobody watches
    plane.end("api", signal.SIGKILL)
    until(lambda: plane.sample("sojourn_cluster_failures_total") >= 2)
    assert plane.extender("/readyz")[0] == 200  # stale, but useful
    plane.start_api()
    for number in range(10):
        plane.delete(f"pod-{number}")
    n_pods -= 10
    spent_s["right after the API server's return"] = until(lambda: is_equal(plane))
    names = len(plane.bound())
    assert names == n_pods
    # nodes vanish; a deadline comes and goes with its node
    plane.patch("/api/v1/nodes/node-29", {"metadata": {"annotations": {"sojourn/drain-by": "2099-01-01T00:00:00Z"}}})
    draining = 'sojourn_cluster_events_total{resource="nodes",event="MODIFIED",outcome="draining"}'
    until(lambda: plane.sample(draining) == 1)
    plane.call("DELETE", "/api/v1/nodes/node-29")
    until(lambda: plane.sample('sojourn_cluster_events_total{resource="nodes",event="DELETED",outcome="ended"}') == 1)
    # all at once: killed again in the middle
    for number in range(1_000, 1_060):
        plane.create(plain_pod(f"pod-{number}"))
        if number == 1_020:
            plane.end("extender", signal.SIGKILL)
        if number == 1_040:
            plane.start_extender(bundle)
    spent_s["60 pods around a kill"] = until(lambda: len(plane.bound()) == n_pods + 60)
    spent_s["right after that"] = until(lambda: is_equal(plane))
    print({name: round(seconds, 2) for name, seconds in spent_s.items()})
    assert plane.sample("sojourn_cluster_refused_total") == 0


def test_ten_thousand_pods_at_once_and_what_breaks_below_the_api_server(plane: ControlPlane, tmp_path: Path) -> None:
    plane.grant()
    until(lambda: not forbidden(plane))
    for number in range(60):
        plane.add_node(f"node-{number:02d}", "256", "1Ti", n_pods_max=250)
    plane.start_extender(learn(tmp_path).folder)
    until(lambda: plane.extender("/readyz")[0] == 200)
    plane.start_scheduler(has_extender=True)
    spent_s, n_pods, started_s = {}, 10_000, time.monotonic()
    with ThreadPoolExecutor(4) as workers:
        list(workers.map(plane.create, [plain_pod(f"pod-{number}", "100m", "64Mi") for number in range(n_pods)]))
    spent_s["10,000 pods are created"] = time.monotonic() - started_s
    spent_s["all are bound after that"] = until(lambda: not plane.is_any_waiting(), 900.0, 1.0)
    spent_s["right after that"] = until(lambda: plane.sample("sojourn_extender_pods ") == n_pods)
    # the scheduler waits for 2 s for us, and then goes on without us
    asked = 'sojourn_extender_requests_total{verb="prioritize",outcome="ok"}'
    in_time = plane.sample('sojourn_request_seconds_bucket{verb="prioritize",le="1.0"')
    assert in_time == plane.sample(asked) >= n_pods
    print({each: plane.sample(f'sojourn_request_seconds_bucket{{verb="prioritize",le="{each}"')
           for each in ("0.005", "0.01", "0.025", "0.05", "0.1", "1.0")})
    # etcd is killed: no API server answers for it, and the view stays as it is; then pods come and go
    plane.end("etcd", signal.SIGKILL)
    time.sleep(10.0)
    assert plane.extender("/readyz")[0] == 200 and plane.sample("sojourn_extender_pods ") == n_pods
    plane.start_etcd()
    until(lambda: ready(plane), 120.0)
    for number in range(30):
        plane.create(plain_pod(f"later-{number}", "100m", "64Mi"))
    for number in range(20):
        plane.delete(f"pod-{number}")
    n_pods += 30 - 20
    spent_s["bound after etcd's return"] = until(lambda: not plane.is_any_waiting(), 120.0)
    spent_s["right after that, too"] = until(lambda: plane.sample("sojourn_extender_pods ") == n_pods)
    # versions are dropped while the API server is away, and it keeps none of its own: the watch is told 410
    expired = 'sojourn_cluster_lists_total{resource="pods",reason="expired"}'
    n_lists = plane.sample(expired)
    plane.end("api", signal.SIGKILL)
    plane.compact()
    plane.start_api("--watch-cache=false")
    for number in range(20, 40):
        plane.delete(f"pod-{number}")
    spent_s["right after versions were dropped"] = until(
        lambda: plane.sample(expired) > n_lists and plane.sample("sojourn_extender_pods ") == n_pods - 20)
    assert plane.sample('sojourn_cluster_failures_total{resource="pods",reason="expired"}') > 0
    assert len(plane.bound()) == n_pods - 20 and plane.sample("sojourn_cluster_refused_total") == 0
    print({name: round(seconds, 2) for name, seconds in spent_s.items()})


def ready(plane: ControlPlane) -> bool:
    client = open_cluster(plane.kubeconfig("admin"))
    try:
        return ask(client, "GET", "/readyz").data == b"ok"
    finally:
        client.close()


def forbidden(plane: ControlPlane) -> bool:
    client = open_cluster(plane.kubeconfig("watcher"))
    try:
        return ask(client, "GET", "/api/v1/pods", {"limit": 1}).status == 403
    finally:
        client.close()
        time.sleep(0.1)
