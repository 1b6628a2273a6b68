"""The extender in a real control plane: etcd, kube-apiserver and kube-scheduler, without containers and kubelets.

    python benchmarks/control_plane.py KUBE [--pods N] [--nodes N] [--seconds S] [--seed N] [--json FILE]

KUBE is a folder whose `bin` has kube-apiserver and kube-scheduler (1.20 was tried); etcd and openssl are found in PATH.
The pods of a made trace come and go as it says, a day of it in S seconds, once under the stock scheduler
(MostAllocated) and once with the extender before it, whose clock runs as fast as the trace. Printed: the share of nodes
that are empty, mean over the later half of the day, beside what the simulator forecasts for the same pods and nodes:
the mean of replays whose arrivals are up to 5 minutes later, and twice their standard deviation.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.doors import learn, until

from sojourn.features import Trace
from sojourn.features.trace import Roles
from sojourn.serving import Predictor
from sojourn.serving.extender.extender import Settings, bind
from sojourn.serving.kubernetes import CONNECTION_ERRORS, ask, open_cluster
from sojourn.serving.kubernetes.watcher import Watcher
from sojourn.simulator import Curves, build_workload, simulate

ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "sojourn-watcher"},
        "rules": [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]}]}
BINDING = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
           "metadata": {"name": "sojourn-watcher"}, "subjects": [{"kind": "User", "name": "watcher"}],
           "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sojourn-watcher"}}
ASKED = 'sojourn_extender_requests_total{verb="prioritize",outcome="ok"}'
DAY_S = 86_400


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def stamp(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ControlPlane:
    """Processes by name: etcd, api, scheduler, and the extender. Users: admin, watcher (lists and watches), nobody."""

    def __init__(self, kube: Path, folder: Path) -> None:
        self.kube, self.folder = kube, folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.etcd_port, self.peer_port, self.api_port, self.extender_port = (free_port() for _ in range(4))
        (folder / "tokens.csv").write_text('admin,admin,1,"system:masters"\nwatcher,watcher,2\nnobody,nobody,3\n')
        for command in ("genrsa -out sa.key 2048", "rsa -in sa.key -pubout -out sa.pub"):
            subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)

    def kubeconfig(self, user: str) -> Path:
        file = self.folder / f"kubeconfig-{user}"
        file.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "users": [{"name": "u", "user": {"token": user}}],
            "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{self.api_port}",
                                                   "certificate-authority": str(self.folder / "certs/apiserver.crt")}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}))
        return file

    def start(self, name: str, command: list[str | Path]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)

    def end(self, name: str, number: int = signal.SIGTERM) -> None:
        process = self.processes.pop(name)
        process.send_signal(number)
        process.wait(30)

    def start_etcd(self) -> None:
        own, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.peer_port}"
        self.start("etcd", ["etcd", "--data-dir", "etcd", "--listen-client-urls", own, "--advertise-client-urls", own,
                            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                            "--initial-cluster", f"default={peer}", "--unsafe-no-fsync"])

    def compact(self) -> None:
        """Drop all versions before the present one from etcd, which must run."""
        def asked(call: str, **document: Any) -> Any:
            body = json.dumps(document).encode()
            with urllib.request.urlopen(f"http://127.0.0.1:{self.etcd_port}/v3/kv/{call}", body) as answer:
                return json.load(answer)

        key = base64.b64encode(b"/versions").decode()
        for _ in range(5):  # some more, that no version that a client knows is the present one
            revision = asked("put", key=key, value=key)["header"]["revision"]
        asked("compaction", revision=revision, physical=True)

    def start_api(self, *options: str) -> None:
        """Returns once it answers."""
        self.start("api", [
            self.kube / "bin/kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self.api_port}",
            "--cert-dir=certs", "--token-auth-file=tokens.csv", "--authorization-mode=RBAC",
            "--service-account-issuer=https://test", "--service-account-signing-key-file=sa.key",
            "--service-account-key-file=sa.pub", "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition", *options])
        until((self.folder / "certs/apiserver.crt").exists)
        self.admin = open_cluster(self.kubeconfig("admin"))

        def is_healthy() -> bool:
            with suppress(*CONNECTION_ERRORS):
                return ask(self.admin, "GET", "/readyz").data == b"ok"
            return False

        until(is_healthy)

    def start_scheduler(self, has_extender: bool) -> None:
        extender = {"urlPrefix": f"http://127.0.0.1:{self.extender_port}", "filterVerb": "filter", "weight": 121,
                    "prioritizeVerb": "prioritize", "nodeCacheCapable": True, "ignorable": True, "httpTimeout": "2s"}
        scores = {"enabled": [{"name": "NodeResourcesMostAllocated", "weight": 1}],
                  "disabled": [{"name": "NodeResourcesLeastAllocated"}, {"name": "NodeResourcesBalancedAllocation"}]}
        probes = f"127.0.0.1:{free_port()}"
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False}, "percentageOfNodesToScore": 100,
            "healthzBindAddress": probes, "metricsBindAddress": probes,
            "clientConnection": {"kubeconfig": str(self.kubeconfig("admin")), "qps": 1000, "burst": 1000},
            "profiles": [{"schedulerName": "default-scheduler", "plugins": {"score": scores}}],
            **({"extenders": [extender]} if has_extender else {})}
        file = self.folder / "scheduler.json"
        file.write_text(json.dumps(config))
        self.start("scheduler", [self.kube / "bin/kube-scheduler", f"--config={file}", "--port=0", "--secure-port=0",
                                 "--authentication-skip-lookup=true"])

    def start_extender(self, bundle: Path, columns: Path | None = None, user: str = "watcher") -> None:
        self.start("extender", [sys.executable, "-m", "sojourn.serving.kubernetes", bundle, "--port",
                                str(self.extender_port), "--epoch-s", "0", "--kubeconfig", self.kubeconfig(user),
                                *(() if columns is None else ("--columns", columns))])

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The parsed answer; RuntimeError if it is a refusal."""
        response = ask(self.admin, method, path, body=body, headers=headers)
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {response.data[:300]!r}")
        return json.loads(response.data)

    def grant(self) -> None:
        for kind, item in (("clusterroles", ROLE), ("clusterrolebindings", BINDING)):
            self.call("POST", f"/apis/rbac.authorization.k8s.io/v1/{kind}", item)

    def add_node(self, name: str, cpu: str, memory: str, n_pods_max: int = 110) -> None:
        self.call("POST", "/api/v1/nodes", {"metadata": {"name": name}})
        room = {"cpu": cpu, "memory": memory, "pods": str(n_pods_max), "ephemeral-storage": "100Ti"}
        ready = {"type": "Ready", "status": "True", "reason": "made", "lastHeartbeatTime": stamp(time.time()),
                 "lastTransitionTime": stamp(time.time())}
        self.patch(f"/api/v1/nodes/{name}/status", {"status": {"capacity": room, "allocatable": room,
                                                               "conditions": [ready]}})

    def patch(self, path: str, body: Any) -> None:
        self.call("PATCH", path, body, **{"Content-Type": "application/strategic-merge-patch+json"})

    def create(self, pod: Mapping[str, Any]) -> None:
        self.call("POST", "/api/v1/namespaces/default/pods", pod)

    def run(self, name: str, started_s: float) -> None:
        self.patch(f"/api/v1/namespaces/default/pods/{name}/status",
                   {"status": {"phase": "Running", "startTime": stamp(started_s)}})

    def delete(self, name: str) -> None:
        self.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})

    def is_any_waiting(self) -> bool:
        """Whether a pod is not bound, or the server cannot tell."""
        response = ask(self.admin, "GET", "/api/v1/namespaces/default/pods",
                       {"fieldSelector": "spec.nodeName=", "limit": 1})
        return response.status != 200 or bool(json.loads(response.data)["items"])

    def bound(self) -> dict[str, str]:
        """Node of each bound pod, by name."""
        items = self.call("GET", "/api/v1/namespaces/default/pods")["items"]
        return {item["metadata"]["name"]: item["spec"]["nodeName"] for item in items if "nodeName" in item["spec"]}

    def extender(self, path: str) -> tuple[int, str]:
        """Status and text of the extender's answer; 0 while it is away."""
        connection = http.client.HTTPConnection("127.0.0.1", self.extender_port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def sample(self, start: str) -> float:
        """The sum of the extender's samples whose lines start so."""
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.extender("/metrics")[1].splitlines()
                   if line.startswith(start))

    def down(self) -> None:
        for name in ("extender", "scheduler", "api", "etcd"):
            if name in self.processes:
                self.end(name, signal.SIGKILL)
        if hasattr(self, "admin"):
            self.admin.close()


def plain_pod(name: str, cpu: str = "500m", memory: str = "1Gi",
              labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": {"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}]}}


CPU_CORES, MEM_GIB, N_OWNERS, DAYS = 16.0, 64.0, 40, 8
COLUMNS = {"cpu_cores": "requests.cpu", "mem_gib": "requests.memory", "deployment": "label:owner"}


@dataclass(frozen=True)
class Day:
    """Pods of one day. table: request_id, arrival_s, departure_s (from the day's begin on, both known), cpu_cores,
    mem_gib, deployment. begin_s: on the trace's clock."""

    table: pd.DataFrame
    begin_s: int

    def empty_pct(self, host: np.ndarray, n_nodes: int) -> float:
        """The share of nodes without a pod, mean over the later half. host: -1 = nowhere."""
        times_s = np.arange(DAY_S // 2, DAY_S, 60)
        starts_s, ends_s = (self.table[name].to_numpy()[:, None] for name in ("arrival_s", "departure_s"))
        is_there = (starts_s <= times_s) & (times_s < ends_s) & (host >= 0)[:, None]
        used = np.zeros((n_nodes, len(times_s)), bool)
        np.logical_or.at(used, host.clip(0), is_there)
        return float(100.0 * (1.0 - used.mean()))


def made_trace(n_requests: int, seed: int) -> pd.DataFrame:
    """Pods of 40 owners; an owner's pods live for about as long as each other, from a quarter hour to two days."""
    rng = np.random.default_rng(seed)
    medians_s = np.exp(rng.uniform(np.log(900.0), np.log(2.0 * DAY_S), N_OWNERS))
    weights = medians_s ** -0.7
    owner = rng.choice(N_OWNERS, n_requests, p=weights / weights.sum())
    arrival_s = np.sort(rng.integers(0, DAYS * DAY_S, n_requests))
    lifetime_s = np.maximum(medians_s[owner] * np.exp(rng.normal(0.0, 0.4, n_requests)), 300.0).astype(np.int64)
    return pd.DataFrame({
        "request_id": [f"r{number}" for number in range(n_requests)], "arrival_s": arrival_s,
        "departure_s": (arrival_s + lifetime_s).astype(float),
        "cpu_cores": rng.choice([1.0, 2.0, 4.0], n_requests, p=[0.5, 0.3, 0.2]),
        "mem_gib": rng.choice([2.0, 4.0, 8.0], n_requests), "deployment": [f"owner-{number:02d}" for number in owner]})


def learnt(folder: Path, n_pods: int, seed: int) -> Day:
    """The last day of a made trace; a bundle in the folder is learnt from the days before."""
    table = made_trace(n_pods * DAYS, seed)
    begin_s = (DAYS - 1) * DAY_S
    known = table[table["arrival_s"] < begin_s].copy()
    known.loc[known["departure_s"] > begin_s, "departure_s"] = np.nan
    trace = Trace(known, begin_s, Roles(owners=("deployment",)))
    learn(folder, trace)
    # what runs at the day's begin comes then, as new, for the rest of its life
    later = table[(table["departure_s"] > begin_s) & (table["arrival_s"] < DAYS * DAY_S)].copy()
    later["arrival_s"] = (later["arrival_s"] - begin_s).clip(lower=0)
    later["departure_s"] = (later["departure_s"] - begin_s).astype(np.int64)
    return Day(later.sort_values("arrival_s", kind="stable").reset_index(drop=True), begin_s)


class Served:
    """A bundle's curves for the pods of a day, with the owner history going on as the extender's does."""

    def __init__(self, folder: Path, day: Day) -> None:
        self._folder, self._day = folder, day

    def curves(self, requests: pd.DataFrame) -> Curves:
        predictor, table = Predictor.load(self._folder), self._day.table
        by_id = table.set_index("request_id")
        names: list[str] = table["request_id"].tolist()
        events = sorted([*zip(table["arrival_s"].tolist(), [1] * len(names), names, strict=True),
                         *zip(table["departure_s"].tolist(), [0] * len(names), names, strict=True)])
        lives: dict[str, Any] = {}
        for time_s, is_arrival, name in events:
            if is_arrival:
                row = by_id.loc[name]
                lives[name] = predictor.admit({column: row[column] for column in COLUMNS}, self._day.begin_s + time_s)
            elif name in lives and time_s < DAY_S:
                predictor.ended(lives[name], self._day.begin_s + time_s)
        offsets, uptimes_s, totals_s = [0], list[int](), list[int]()
        for name in requests["request_id"].tolist():
            uptime_s = 0
            while uptime_s < 4 * DAY_S:
                total_s = max(int(uptime_s + lives[name].remaining(float(uptime_s))), uptime_s + 1)
                uptimes_s.append(uptime_s)
                totals_s.append(total_s)
                uptime_s = max(int(min(lives[name].next_change(float(uptime_s)), total_s)), uptime_s + 1)
            offsets.append(len(uptimes_s))
        return Curves(np.array(offsets), np.array(uptimes_s), np.array(totals_s))


def forecast(folder: Path, day: Day, n_nodes: int, n_replays: int, seed: int) -> dict[str, list[float]]:
    """Empty nodes in percent, of each replay, by policy."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {"best-fit": [], "nilas": []}
    for replay in range(n_replays):
        table = day.table.copy()
        if replay:
            later_s = rng.integers(0, 300, len(table))
            table["arrival_s"] += later_s
            table["departure_s"] += later_s
            table = table.sort_values("arrival_s", kind="stable").reset_index(drop=True)
        varied = Day(table, day.begin_s)
        departure_s = table["departure_s"].where(table["departure_s"] <= DAY_S)
        inside = table.assign(departure_s=departure_s)[table["arrival_s"] < DAY_S]
        workload = build_workload("trace", Trace(inside, DAY_S), cpu_cores=CPU_CORES, mem_gib=MEM_GIB, n_hosts=n_nodes)
        for policy in found:
            result = simulate(workload, policy, Served(folder, varied) if policy == "nilas" else None)
            host = np.full(len(table), -1)
            host[table["arrival_s"].to_numpy() < DAY_S] = result.host
            found[policy].append(varied.empty_pct(host, n_nodes))
    return found


def serve_fast(bundle: str, columns: str, port: str, kubeconfig: str, zero_s: str, begin_s: str, factor: str) -> None:
    """Serve as `sojourn serve kubernetes` does, with a clock that has run `factor` times as fast since `zero_s`."""
    zero = float(zero_s)
    watcher = Watcher(open_cluster(Path(kubeconfig)))
    server = bind(Predictor.load(Path(bundle)), "127.0.0.1", int(port),
                  Settings(json.loads(Path(columns).read_text()), int(zero) - int(begin_s)),
                  lambda: zero + (time.time() - zero) * float(factor), watcher)
    watcher.start()
    server.serve_forever()


def replayed(kube: Path, bundle: Path, day: Day, n_nodes: int, seconds: float, has_extender: bool) -> dict[str, float]:
    """A run of the day in a control plane of its own: empty nodes, pods that no node was seen for, failed asks."""
    with tempfile.TemporaryDirectory() as root:
        plane = ControlPlane(kube, Path(root))
        try:
            plane.start_etcd()
            plane.start_api()
            plane.grant()
            for number in range(n_nodes):
                plane.add_node(f"node-{number}", f"{CPU_CORES:g}", f"{MEM_GIB:g}Gi")
            columns = Path(root) / "columns.json"
            columns.write_text(json.dumps(COLUMNS))
            factor, zero_s = DAY_S / seconds, time.time()
            if has_extender:
                plane.start("extender", [sys.executable, __file__, "--clock", str(bundle), str(columns),
                                         str(plane.extender_port), str(plane.kubeconfig("watcher")), str(zero_s + 15.0),
                                         str(day.begin_s), str(factor)])
                until(lambda: plane.extender("/readyz")[0] == 200)
            plane.start_scheduler(has_extender)
            time.sleep(max(zero_s + 15.0 - time.time(), 0.0))
            host, is_over = dict[str, str](), threading.Event()

            def look() -> None:
                while not is_over.wait(0.1):
                    host.update(plane.bound())

            looking = threading.Thread(target=look)
            looking.start()
            begun_s = time.time()
            rows: list[dict[str, Any]] = day.table.to_dict("records")  # type: ignore[assignment]
            plan = sorted([(int(row["arrival_s"]), 1, idx) for idx, row in enumerate(rows)]
                          + [(int(row["departure_s"]), 0, idx) for idx, row in enumerate(rows)])
            late_s = 0.0
            for time_s, is_arrival, idx in plan:
                if time_s >= DAY_S:
                    break
                wait_s = begun_s + time_s / factor - time.time()
                late_s = max(late_s, -wait_s)
                time.sleep(max(wait_s, 0.0))
                row = rows[idx]
                if is_arrival:
                    plane.create(plain_pod(row["request_id"], f"{row['cpu_cores']:g}", f"{row['mem_gib']:g}Gi",
                                           {"owner": row["deployment"]}))
                else:
                    plane.delete(row["request_id"])
            time.sleep(1.0)
            is_over.set()
            looking.join()
            hosts = np.array([int(host.get(row["request_id"], "node--1").partition("-")[2]) for row in rows])
            came = day.table["arrival_s"].to_numpy() < DAY_S
            return {"empty nodes, %": day.empty_pct(hosts, n_nodes), "pods": float(came.sum()),
                    "pods seen on no node": float((hosts[came] < 0).sum()), "driver late at most, s": late_s,
                    **({"extender asked": plane.sample(ASKED)} if has_extender else {})}
        finally:
            plane.down()


def main() -> None:
    if sys.argv[1:2] == ["--clock"]:
        serve_fast(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kube", type=Path)
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--replays", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/benchmarks/control_plane.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        bundle = Path(root) / "bundle"
        day = learnt(bundle, options.pods, options.seed)
        cores = [float(day.table["cpu_cores"][(day.table["arrival_s"] <= time_s) & (day.table["departure_s"] > time_s)]
                       .sum()) for time_s in range(0, DAY_S, 600)]
        print(f"{len(day.table)} pods, {max(cores):.0f} cores at the peak of {options.nodes * CPU_CORES:.0f}")
        forecasts = forecast(bundle, day, options.nodes, options.replays, options.seed)
        for policy, values in forecasts.items():
            print(f"forecast {policy:<10} {np.mean(values):6.2f} +- {2.0 * np.std(values, ddof=1):.2f} % empty")
        gains = np.subtract(forecasts["nilas"], forecasts["best-fit"])
        print(f"forecast gain       {gains.mean():6.2f} +- {2.0 * gains.std(ddof=1):.2f}", flush=True)
        runs = {}
        for name, has_extender in (("stock", False), ("extender", True)):
            runs[name] = replayed(options.kube.resolve(), bundle, day, options.nodes, options.seconds, has_extender)
            print(name, {key: round(value, 2) for key, value in runs[name].items()}, flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"forecasts": forecasts, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
