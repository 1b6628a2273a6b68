"""What the scheduler extender costs: `filter` and `prioritize` over loopback, node names only, as kube-scheduler asks.

    python benchmarks/extender.py [--json FILE] [--seed N] [--nodes N ...] [--pods-per-node N]

The server is a process of its own, filled through `/placed` and `/nodes`; one node in ten has a drain deadline, so that
`filter` predicts, too. Pods are those that run at a moment of a steady trace: drawn in proportion to their lifetimes,
at a random share of it. A pair is one `filter` and one `prioritize` of the same pod, on one connection one after the
other. `x healthz` is the ratio of medians to `GET /healthz`, the floor of a round trip, in the same run. `first` is
the first `prioritize`, when exits that changed while pods were placed are asked again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.doors import Client, machine, port_of, status_mib, write_model

N_CONNECTIONS = 4
LIST_SIZE = 2_000
SPAN_S = 4.0
"""How long each call is repeated."""
LABELS = {"subscription": "subscription", "deployment": "deployment", "zone": "zone", "vm_category": "category"}
COLUMNS = {"cpu_cores": "requests.cpu", "mem_gib": "requests.memory", "disk_gib": "requests.ephemeral-storage",
           **{column: f"label:{label}" for column, label in LABELS.items()}}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """One call at one size: percentiles on one connection, and the rate on several."""

    nodes: int
    pods: int
    call: str
    p50_ms: float
    p99_ms: float
    x_healthz: float
    per_s_1: float
    per_s_4: float


@dataclass(frozen=True)
class Filling:
    """What filling one server took."""

    nodes: int
    pods: int
    placed_per_s: float
    kib_per_pod: float
    rss_mib: float
    first_ms: float


def pod_of(row: dict[str, Any], name: str, node: str | None, started_unix_s: float) -> dict[str, Any]:
    """A pod of a trace's request, with what the mapping reads and a little that it does not."""
    start = datetime.fromtimestamp(started_unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    requests = {"cpu": f"{row['cpu_cores'] * 1000:.0f}m", "memory": f"{row['mem_gib'] * 1024:.0f}Mi",
                "ephemeral-storage": f"{row['disk_gib']:.0f}Gi"}  # fmt: skip
    return {
        "metadata": {"name": name, "namespace": "bench", "uid": f"uid-of-{name}", "creationTimestamp": start,
                     "labels": {label: str(row[column]) for column, label in LABELS.items()}},
        "spec": {"containers": [{"name": "main", "image": "main:1", "resources": {"requests": requests}}],
                 "schedulerName": "default-scheduler"} | ({"nodeName": node} if node else {}),
        "status": {"phase": "Running", "startTime": start} if node else {"phase": "Pending"},
    }  # fmt: skip


Call = Callable[[Client, int], object]


def measure_calls(port: int, call: Call) -> tuple[list[float], float]:
    """Milliseconds of each call on one connection, and calls a second on several."""
    client = Client(port)
    call(client, 0)
    spent_ms: list[float] = []
    until_s = time.perf_counter() + SPAN_S
    while (started_s := time.perf_counter()) < until_s:
        call(client, len(spent_ms))
        spent_ms.append((time.perf_counter() - started_s) * 1e3)
    client.close()
    counts = [0] * N_CONNECTIONS

    def repeat(idx: int) -> None:
        own = Client(port)
        while time.perf_counter() < until_s:
            call(own, idx + counts[idx] * N_CONNECTIONS)
            counts[idx] += 1
        own.close()

    until_s = time.perf_counter() + SPAN_S
    threads = [threading.Thread(target=repeat, args=(idx,)) for idx in range(N_CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return spent_ms, sum(counts) / SPAN_S


def fill(client: Client, pid: int, rows: list[dict[str, Any]], n_nodes: int, n_pods: int,
         rng: np.random.Generator) -> tuple[float, float, float]:
    """Place pods at random nodes; pods a second of the server's work, KiB a pod and MiB in all."""
    now_s = time.time()
    lifetimes_s = np.array([row["lifetime_s"] for row in rows])
    shares = lifetimes_s / lifetimes_s.sum()
    before_mib = status_mib(pid, "VmRSS")
    chosen = rng.choice(len(rows), n_pods, p=shares)
    ages_s = rng.uniform(size=n_pods) * lifetimes_s[chosen]
    by_start = np.argsort(-ages_s).tolist()
    spent_s = 0.0
    for first in range(0, n_pods, LIST_SIZE):
        pods = [pod_of(rows[chosen[idx]], f"pod-{idx}", f"node-{rng.integers(n_nodes):05d}", now_s - ages_s[idx])
                for idx in by_start[first:first + LIST_SIZE]]
        body = json.dumps({"kind": "List", "items": pods}).encode()
        started_s = time.perf_counter()
        answer = json.loads(client.post("/placed", body))
        spent_s += time.perf_counter() - started_s
        if answer != {"placed": len(pods)}:
            raise RuntimeError(f"all pods must be placed, got {answer}")
    nodes = [{"metadata": {"name": f"node-{idx:05d}", "annotations": {"sojourn/drain-by": "2099-01-01T00:00:00Z"}}}
             for idx in range(0, n_nodes, 10)]
    client.post("/nodes", json.dumps({"items": nodes}).encode())
    taken_mib = status_mib(pid, "VmRSS")
    return n_pods / spent_s, (taken_mib - before_mib) * 1024 / n_pods, taken_mib


def measure_size(folder: Path, mapping: Path, rows: list[dict[str, Any]], n_nodes: int, per_node: int,
                 rng: np.random.Generator) -> tuple[list[Figure], Filling]:
    """All figures of one cluster size, from a server of its own."""
    n_pods = n_nodes * per_node
    server = subprocess.Popen([sys.executable, "-m", "sojourn.serving.extender", str(folder), "--port", "0",
                               "--epoch-s", "0", "--columns", str(mapping)], stdout=subprocess.PIPE, text=True)
    try:
        port = port_of(server)
        client = Client(port)
        filling = fill(client, server.pid, rows, n_nodes, n_pods, rng)
        names = [f"node-{idx:05d}" for idx in range(n_nodes)]
        bodies = [json.dumps({"Pod": pod_of(rows[idx], f"new-{place}", None, time.time()), "Nodes": None,
                              "NodeNames": names}).encode()
                  for place, idx in enumerate(rng.integers(0, len(rows), 200).tolist())]
        started_s = time.perf_counter()
        client.post("/prioritize", bodies[0])
        first_ms = (time.perf_counter() - started_s) * 1e3
        client.close()

        def pair(own: Client, number: int) -> None:
            own.post("/filter", bodies[number % len(bodies)])
            own.post("/prioritize", bodies[number % len(bodies)])

        calls: dict[str, Call] = {
            "GET healthz": lambda own, _: own.get("/healthz"),
            "filter": lambda own, number: own.post("/filter", bodies[number % len(bodies)]),
            "prioritize": lambda own, number: own.post("/prioritize", bodies[number % len(bodies)]),
            "filter + prioritize": pair,
        }
        figures: list[Figure] = []
        for name, call in calls.items():
            spent_ms, rate = measure_calls(port, call)
            p50_ms = statistics.median(spent_ms)
            floor_ms = figures[0].p50_ms if figures else p50_ms
            figures.append(Figure(n_nodes, n_pods, name, round(p50_ms, 3), round(float(np.quantile(spent_ms, 0.99)), 3),
                                  round(p50_ms / floor_ms, 2), round(1e3 / statistics.fmean(spent_ms), 1),
                                  round(rate, 1)))  # fmt: skip
        return figures, Filling(n_nodes, n_pods, *(round(each, 2) for each in (*filling, first_ms)))
    finally:
        server.terminate()
        server.communicate(timeout=60)


def report(figures: list[Figure], fillings: list[Filling]) -> str:
    lines = [f"{'nodes':>6}  {'pods':>7}  {'call':<20}  {'p50 ms':>8}  {'p99 ms':>8}  {'x healthz':>9}  "
             f"{'1 conn /s':>9}  {f'{N_CONNECTIONS} conn /s':>9}"]
    lines += [f"{figure.nodes:>6}  {figure.pods:>7}  {figure.call:<20}  {figure.p50_ms:>8.2f}  {figure.p99_ms:>8.2f}  "
              f"{figure.x_healthz:>9.1f}  {figure.per_s_1:>9.0f}  {figure.per_s_4:>9.0f}" for figure in figures]
    lines += ["", f"{'nodes':>6}  {'pods':>7}  {'placed /s':>9}  {'KiB a pod':>9}  {'RSS MiB':>8}  {'first ms':>8}"]
    lines += [f"{filling.nodes:>6}  {filling.pods:>7}  {filling.placed_per_s:>9.0f}  {filling.kib_per_pod:>9.2f}  "
              f"{filling.rss_mib:>8.0f}  {filling.first_ms:>8.1f}" for filling in fillings]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/benchmarks/extender.json"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1_000, 5_000])
    parser.add_argument("--pods-per-node", type=int, default=20)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    figures: list[Figure] = []
    fillings: list[Filling] = []
    with tempfile.TemporaryDirectory() as root:
        folder, mapping = Path(root) / "bundle", Path(root) / "columns.json"
        print("training", file=sys.stderr)
        trace = write_model(folder, options.seed)
        mapping.write_text(json.dumps(COLUMNS))
        table = trace.requests.assign(lifetime_s=(trace.end_s() - trace.start_s()).astype(float))
        rows: list[dict[str, Any]] = table[[*COLUMNS, "lifetime_s"]].to_dict("records")  # type: ignore[assignment]
        for n_nodes in options.nodes:
            print(f"measuring {n_nodes} nodes", file=sys.stderr)
            found, filling = measure_size(folder, mapping, rows, n_nodes, options.pods_per_node, rng)
            figures += found
            fillings.append(filling)
    print(report(figures, fillings))
    document = {
        "machine": machine(),
        "figures": [asdict(figure) for figure in figures],
        "fillings": [asdict(filling) for filling in fillings],
    }  # fmt: skip
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
