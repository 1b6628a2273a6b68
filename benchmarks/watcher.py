"""What `sojourn serve kubernetes` costs in a large cluster: the first list, memory, an event, the scheduler's calls.

    python benchmarks/watcher.py [--json FILE] [--nodes N] [--pods N] [--events-per-s N]

An API server in a process of its own serves lists in pages and a watch of made events; a pod is about 7 KB of JSON,
with managed fields, as in a real cluster. `both` is one `filter` and one `prioritize` with the names of all nodes, on
one connection: without events, with a steady stream of them, in a burst, and while all is listed again after a 410. A
steady stream binds, changes and deletes pods in turn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.doors import Client, cpu_s, machine, port_of, status_mib, until, write_model
from benchmarks.extender import COLUMNS, pod_of

PAGE_SIZE = 500
PAIR_S = 10.0
N_BURST = 20_000
WITHIN_S = 300.0


def whole_pod(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod with what a real one has besides: some 7 KB."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
    fields: dict[str, Any] = {f"f:field-{number:02d}": {".": {}, "f:name": {}, "f:value": {}} for number in range(40)}
    metadata |= {"resourceVersion": "1", "managedFields": [
        {"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
        for manager in ("kube-controller-manager", "kubelet")]}
    spec["containers"][0] |= {
        "env": [{"name": f"VARIABLE_{number}", "value": "value"} for number in range(12)],
        "volumeMounts": [{"name": f"volume-{number}", "mountPath": f"/mnt/volume-{number}"} for number in range(4)]}
    spec |= {"volumes": [{"name": f"volume-{number}", "configMap": {"name": f"config-{number}", "defaultMode": 420}}
                         for number in range(4)], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
             "tolerations": [{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                             for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")]}
    status |= {"conditions": [{"type": kind, "status": "True", "lastProbeTime": None,
                               "lastTransitionTime": "2026-03-01T06:00:00Z"}
                              for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")],
               "qosClass": "Burstable", "podIP": "10.0.0.1", "hostIP": "10.1.0.1"}  # fmt: skip
    return pod


class Api:
    """The API server: pages that are written once, and events by a rate that `/control` sets."""

    def __init__(self, rows: list[dict[str, Any]], n_nodes: int, n_pods: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        lifetimes_s = np.array([row["lifetime_s"] for row in rows])
        chosen = rng.choice(len(rows), n_pods, p=lifetimes_s / lifetimes_s.sum())
        ages_s = rng.uniform(size=n_pods) * lifetimes_s[chosen]
        now_s = time.time()
        pods = (json.dumps(whole_pod(pod_of(rows[idx], f"pod-{number}", f"node-{rng.integers(n_nodes):05d}",
                                            now_s - ages_s[number])))
                for number, idx in enumerate(chosen.tolist()))
        nodes = (json.dumps({"metadata": {"name": f"node-{number:05d}", "annotations": {
            **({"sojourn/drain-by": "2099-01-01T00:00:00Z"} if number % 10 == 0 else {}),
            "volumes.kubernetes.io/controller-managed-attach-detach": "true"}}}) for number in range(n_nodes))
        self.pages = {"pods": self._pages(pods), "nodes": self._pages(nodes)}
        whole = whole_pod(pod_of(rows[0], "NAME", "NODE", now_s))
        self.bound = json.dumps(whole).replace('"resourceVersion": "1"', '"resourceVersion": "VERSION"')
        self.waits = self.bound.replace('"nodeName": "NODE"', '"schedulerName": "default-scheduler"')
        self.n_nodes, self.rate, self.n_burst, self.n_sent = n_nodes, 0.0, 0, 0
        self.is_expired = False

    def _pages(self, items: Any) -> list[bytes]:
        all_items = list(items)
        firsts = range(0, len(all_items), PAGE_SIZE)
        pages = []
        for first in firsts:
            metadata = {"resourceVersion": "10"} | ({"continue": str(first // PAGE_SIZE + 1)}
                                                    if first + PAGE_SIZE < len(all_items) else {})
            pages.append(f'{{"kind":"List","apiVersion":"v1","metadata":{json.dumps(metadata)},"items":['
                         f'{",".join(all_items[first:first + PAGE_SIZE])}]}}'.encode())
        return pages

    def event(self) -> bytes:
        """The next one: a pod is made, bound, changed, and a quarter of them is deleted later."""
        number, turn = divmod(self.n_sent, 4)
        self.n_sent += 1
        kind, text = ("ADDED", self.waits) if turn == 0 else ("DELETED" if turn == 3 else "MODIFIED", self.bound)
        text = text.replace("NAME", f"new-{number}").replace("NODE", f"node-{number % self.n_nodes:05d}")
        return f'{{"type":"{kind}","object":{text.replace("VERSION", str(10 + self.n_sent))}}}\n'.encode()

    def serve(self) -> None:
        """Answer until the process ends; the first line of the output is the port."""
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(url.query).items()}
                if url.path == "/control":
                    api.rate = float(query.get("rate", api.rate))
                    api.n_burst += int(query.get("burst", 0))
                    api.is_expired = "expire" in query
                    self.whole(str(api.n_sent).encode())
                elif "watch" in query:
                    with suppress(OSError):
                        self.stream(url.path.endswith("pods"))
                else:
                    self.whole(api.pages[url.path.rpartition("/")[2]][int(query.get("continue", "0"))])

            def whole(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def stream(self, is_pods: bool) -> None:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                end_s, owed = time.perf_counter() + 60.0, 0.0
                while time.perf_counter() < end_s:
                    time.sleep(0.01)
                    if is_pods and api.is_expired:
                        api.is_expired = False
                        self.piece(b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}\n')
                        break
                    owed += api.rate * 0.01
                    while is_pods and (owed >= 1.0 or api.n_burst > 0):
                        owed, api.n_burst = max(owed - 1.0, 0.0), max(api.n_burst - 1, 0)
                        self.piece(api.event())
                self.wfile.write(b"0\r\n\r\n")

            def piece(self, data: bytes) -> None:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        print(server.server_port, flush=True)
        server.serve_forever()


class Program:
    """The watcher's process: its memory, CPU and metrics."""

    def __init__(self, folder: Path, mapping: Path, kubeconfig: Path, n_pods: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sojourn.serving.kubernetes", str(folder), "--port", "0", "--epoch-s", "0",
             "--columns", str(mapping), "--kubeconfig", str(kubeconfig), "--pods-max", str(2 * n_pods)],
            stdout=subprocess.PIPE, text=True)
        self.port = port_of(self.process)
        if self.process.stdout is not None:
            threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.client = Client(self.port)

    def is_ready(self) -> bool:
        with suppress(RuntimeError):
            return bool(self.client.get("/readyz"))
        return False

    def metric(self, start: str) -> float:
        """The sum of the samples whose lines start so."""
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.client.get("/metrics").decode().splitlines()
                   if line.startswith(start))



def calls_ms(port: int, bodies: list[bytes], is_over: Callable[[], bool]) -> np.ndarray:
    """Milliseconds of each `filter` and of the `prioritize` after it, (n, 2), until it is over."""
    client = Client(port)
    spent_ms: list[tuple[float, float]] = []
    while not is_over():
        times_s = [time.perf_counter()]
        for path in ("/filter", "/prioritize"):
            client.post(path, bodies[len(spent_ms) % len(bodies)])
            times_s.append(time.perf_counter())
        spent_ms.append(((times_s[1] - times_s[0]) * 1e3, (times_s[2] - times_s[1]) * 1e3))
        time.sleep(0.02)
    client.close()
    return np.array(spent_ms)


def measure(rows: list[dict[str, Any]], program: Program, control: Callable[[str], bytes], n_nodes: int,
            rate: float) -> dict[str, float]:
    """All figures, once the program has started."""
    found: dict[str, float] = {}
    found["first list, s until ready"] = until(program.is_ready, WITHIN_S)
    found["of it pods, s"] = program.metric('sojourn_cluster_list_seconds{resource="pods"}')
    found["CPU until ready, s"] = cpu_s(program.process.pid)
    found["pods"] = program.metric("sojourn_extender_pods ")
    found["peak RSS after the list, MiB"] = status_mib(program.process.pid, "VmHWM")
    names = [f"node-{idx:05d}" for idx in range(n_nodes)]
    bodies = [json.dumps({"Pod": pod_of(rows[idx], f"ask-{idx}", None, time.time()), "NodeNames": names}).encode()
              for idx in range(100)]

    def timed(name: str, is_over: Callable[[], bool]) -> None:
        spent_ms = calls_ms(program.port, bodies, is_over)
        for call, each_ms in (("filter", spent_ms[:, 0]), ("prioritize", spent_ms[:, 1]), ("both", spent_ms.sum(1))):
            for share in (50, 99, 100):
                found[f"{name}, {call}, p{share} ms"] = float(np.percentile(each_ms, share))

    def after(seconds: float) -> Callable[[], bool]:
        end_s = time.perf_counter() + seconds
        return lambda: time.perf_counter() > end_s

    timed("warming", after(2.0))
    timed("no events", after(PAIR_S))
    events = 'sojourn_cluster_events_total{resource="pods"'
    control(f"rate={rate}")
    timed(f"{rate:g} events/s", after(PAIR_S))
    control("rate=0")
    time.sleep(0.5)
    before, before_s = program.metric(events), cpu_s(program.process.pid)
    control(f"burst={N_BURST}")
    burst_s = until(lambda: program.metric(events) - before >= N_BURST, WITHIN_S)
    found["an event of a burst, ms"] = burst_s / N_BURST * 1e3
    found["an event of a burst, CPU ms"] = (cpu_s(program.process.pid) - before_s) / N_BURST * 1e3
    before = program.metric(events)
    control(f"burst={N_BURST}")
    timed("in a burst of events", lambda: program.metric(events) - before >= N_BURST)
    lists = 'sojourn_cluster_lists_total{resource="pods",reason="expired"}'
    control("expire=1")
    until(lambda: program.metric(lists) >= 1.0, WITHIN_S)
    versions = 'sojourn_cluster_events_total{resource="pods",event="LISTED",outcome="known"}'
    timed("while all is listed again", lambda: program.metric(versions) >= found["pods"])
    found["peak RSS in all, MiB"] = status_mib(program.process.pid, "VmHWM")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/benchmarks/watcher.json"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--events-per-s", type=float, default=100.0)
    parser.add_argument("--api", type=Path, help=argparse.SUPPRESS)  # the rows: be the API server
    options = parser.parse_args()
    if options.api is not None:
        Api(json.loads(options.api.read_text()), options.nodes, options.pods, options.seed).serve()
    with tempfile.TemporaryDirectory() as root:
        folder, mapping, rows_file, kubeconfig = (Path(root) / name for name in ("bundle", "columns", "rows", "kube"))
        print("training", file=sys.stderr)
        trace = write_model(folder, options.seed)
        mapping.write_text(json.dumps(COLUMNS))
        table = trace.requests.assign(lifetime_s=(trace.end_s() - trace.start_s()).astype(float))
        rows: list[dict[str, Any]] = table[[*COLUMNS, "lifetime_s"]].to_dict("records")  # type: ignore[assignment]
        rows_file.write_text(json.dumps(rows))
        api = subprocess.Popen([sys.executable, __file__, "--api", str(rows_file), "--nodes", str(options.nodes),
                                "--pods", str(options.pods), "--seed", str(options.seed)],
                               stdout=subprocess.PIPE, text=True)
        program = None
        try:
            if api.stdout is None:
                raise RuntimeError("the API server must have an output")
            port = int(api.stdout.readline())
            kubeconfig.write_text(json.dumps({
                "apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{"name": "u", "user": {}}],
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}))

            def control(words: str) -> bytes:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/control?{words}") as answer:
                    return bytes(answer.read())

            program = Program(folder, mapping, kubeconfig, options.pods)
            print("measuring", file=sys.stderr)
            found = measure(rows, program, control, options.nodes, options.events_per_s)
        finally:
            for process in (api, *([] if program is None else [program.process])):
                process.terminate()
                process.wait(60)
    print("\n".join(f"{name:<50}{value:>12.3f}" for name, value in found.items()))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"machine": machine(), "figures": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
