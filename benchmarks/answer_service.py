"""What the answer service costs: single answers and batches over loopback, from a client in a process of its own.

    python benchmarks/answer_service.py [--json FILE] [--seed N] [--running N] [--seconds S] [--core N]

The server gets core N, the client another one, if there are two. Of a call: answers a second and percentiles of the
round trip, on several connections that are kept alive, one request after the other on each. `cpu us` is the server's
processor time for one answer, with the system's, and `/cpu s` is how many fit into a second of it: the rate of a core
of its own, whatever else the machine does. `beside batches`: single answers while another connection asks for all
running requests again and again. `snapshots`: while snapshots are written all the time.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.doors import Client, cpu_s, machine, port_of, status_mib, write_model

COLUMNS = ["cpu_cores", "mem_gib", "disk_gib", "subscription", "deployment", "zone", "vm_category"]
N_CONNECTIONS = 4
N_BATCH = 1_000
CLIENT = "client"


@dataclass(frozen=True)
class Figure:
    """One call: rate and latency at the client, processor time at the server."""

    call: str
    items: int
    per_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    cpu_us: float
    per_cpu_s: float


def ask_again(port: int, bodies: list[tuple[str, str]], n_connections: int, span_s: float) -> list[float]:
    """Milliseconds of each request, as fast as answers come, on each connection one after the other."""
    requests = [f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
                f"{len(body.encode())}\r\n\r\n{body}".encode() for path, body in bodies]
    selector = selectors.DefaultSelector()
    place, spent_ms, connections = 0, [], {}
    for _ in range(n_connections):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connections[connection.fileno()] = connection
        selector.register(connection, selectors.EVENT_READ, [b"", time.perf_counter()])
        connection.sendall(requests[place % len(requests)])
        place += 1
    until_s = time.perf_counter() + span_s
    while time.perf_counter() < until_s:
        for key, _ in selector.select():
            state, connection = key.data, connections[key.fd]
            state[0] += connection.recv(1 << 20)
            head, _, body = state[0].partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or b"-1")
            if len(body) != length:
                continue
            if not head.startswith(b"HTTP/1.1 200 ") or b'"error"' in body:
                raise RuntimeError(f"an answer must be without error, got {state[0][:300]!r}")
            spent_ms.append((time.perf_counter() - state[1]) * 1e3)
            state[:] = b"", time.perf_counter()
            connection.sendall(requests[place % len(requests)])
            place += 1
    return spent_ms


def measure(name: str, pid: int, port: int, bodies: list[tuple[str, str]], n_items: int, options: argparse.Namespace,
            n_connections: int = N_CONNECTIONS) -> Figure:
    """One call's figures, its client in a process of its own."""
    with tempfile.NamedTemporaryFile("w+", suffix=".json") as file:
        json.dump(bodies, file)
        file.flush()
        command = [sys.executable, __file__, CLIENT, str(port), file.name, str(n_connections), str(options.seconds),
                   str(options.core)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            if client.stdin is None or client.stdout is None:
                raise RuntimeError("the client must have pipes")
            client.stdout.readline()
            before_s = cpu_s(pid)
            client.stdin.write("\n")
            client.stdin.flush()
            line = client.stdout.readline()
            spent_s = cpu_s(pid) - before_s
    n, p50, p99, longest = json.loads(line)
    each_s = spent_s / (n * n_items)
    return Figure(name, n_items, round(n * n_items / options.seconds, 1), round(p50, 3), round(p99, 3),
                  round(longest, 2), round(each_s * 1e6, 2), round(1.0 / each_s))


def ask_for(port: str, file: str, n_connections: str, span_s: str, core: str) -> None:
    """The client's process: waits for a line, asks, and prints count and percentiles."""
    others = os.sched_getaffinity(0) - {int(core)}
    os.sched_setaffinity(0, others or {int(core)})
    bodies = [(path, body) for path, body in json.loads(Path(file).read_text())]
    print("ready", flush=True)
    sys.stdin.readline()
    spent_ms = ask_again(int(port), bodies, int(n_connections), float(span_s))
    print(json.dumps([len(spent_ms), *np.quantile(spent_ms, (0.5, 0.99, 1.0)).tolist()]), flush=True)


@contextmanager
def service(folder: Path, core: int, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A service of its own, on one core."""
    command = [sys.executable, "-m", "sojourn.serving.http", str(folder), "--port", "0", "--epoch-s", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = port_of(server)
            os.sched_setaffinity(server.pid, {core})
            yield server, port
        finally:
            server.terminate()


@contextmanager
def repeated(work: Callable[[], object]) -> Iterator[None]:
    """The work again and again in a thread, until the block is left."""
    is_over = threading.Event()

    def again() -> None:
        while not is_over.is_set():
            work()

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def all_figures(folder: Path, rows: list[dict[str, Any]], options: argparse.Namespace, state: Path) -> list[Figure]:
    rng = np.random.default_rng(options.seed)
    now_s = 1_000_000
    fresh = iter(range(10**9))
    pick = rng.integers(0, len(rows), 20_000).tolist()

    def admission(idx: int) -> dict[str, Any]:
        return {"request_id": f"vm-{next(fresh)}", "request": rows[pick[idx % len(pick)]], "now_s": now_s}

    def bodies(path: str, items: list[Any]) -> list[tuple[str, str]]:
        return [(path, json.dumps(item)) for item in items]

    figures = []
    with service(folder, options.core, "--requests-max", "500000", "--snapshot", str(state),
                 "--snapshot-s", "900000") as (server, port):
        client, before_mib = Client(port), status_mib(server.pid, "VmRSS")
        for _ in range(0, options.running, N_BATCH):
            client.post("/admit", json.dumps([admission(idx) for idx in range(N_BATCH)]).encode())
        ids = [f"vm-{idx}" for idx in range(options.running)]
        taken_mib = status_mib(server.pid, "VmRSS") - before_mib
        print(f"{taken_mib * 1024 / options.running:.2f} KiB a running request", file=sys.stderr)
        single = [{"request_id": ids[idx], "now_s": now_s + 3_600} for idx in rng.integers(0, len(ids), 5_000)]
        quantiled = [{**item, "quantiles": [0.5, 0.9]} for item in single]
        batches = [{"items": [ids[idx] for idx in rng.integers(0, len(ids), N_BATCH)], "now_s": now_s + 3_600}
                   for _ in range(50)]
        every = json.dumps({"all": True, "now_s": now_s + 3_600}).encode()
        plans: list[tuple[str, list[tuple[str, str]], int]] = [
            ("remaining", bodies("/remaining", single), 1),
            ("remaining, 2 quantiles", bodies("/remaining", quantiled), 1),
            ("predict", bodies("/predict", [{"request": rows[idx], "now_s": now_s} for idx in pick[:5_000]]), 1),
            ("refresh", bodies("/refresh", single), 1),
            ("remaining, batch", bodies("/remaining", batches), N_BATCH),
            ("remaining, batch, 2 quantiles",
             bodies("/remaining", [{**each, "quantiles": [0.5, 0.9]} for each in batches]), N_BATCH),
            ("predict, batch", bodies("/predict", [
                {"items": [{"request": rows[pick[idx + start]]} for idx in range(N_BATCH)], "now_s": now_s}
                for start in range(0, 10_000, N_BATCH)]), N_BATCH),
        ]
        for name, each, n_items in plans:
            print(f"measuring {name}", file=sys.stderr)
            figures.append(measure(name, server.pid, port, each, n_items, options, 1 if n_items > 1 else N_CONNECTIONS))
        with repeated(lambda: client.post("/remaining", every)):
            figures.append(measure("remaining, beside batches", server.pid, port, bodies("/remaining", single), 1,
                                   options))
        n_new = int(options.seconds * 20_000)
        figures.append(measure("admit", server.pid, port,
                               bodies("/admit", [admission(idx) for idx in range(n_new)]), 1, options))
    return figures


def while_snapshots(folder: Path, rows: list[dict[str, Any]], options: argparse.Namespace, state: Path) -> Figure:
    """Single answers while one snapshot after another is written, of the requests that were restored."""
    with service(folder, options.core, "--requests-max", "500000", "--snapshot", str(state),
                 "--snapshot-s", "0.01") as (server, port):
        single = [("/predict", json.dumps({"request": row, "now_s": 1_000_000})) for row in rows[:5_000]]
        return measure("predict, beside snapshots", server.pid, port, single, 1, options)


def report(figures: list[Figure]) -> str:
    lines = [f"{'call':<30}  {'items':>5}  {'/s':>9}  {'p50 ms':>7}  {'p99 ms':>7}  {'max ms':>7}  {'cpu us':>7}  "
             f"{'/cpu s':>8}"]
    lines += [f"{each.call:<30}  {each.items:>5}  {each.per_s:>9.0f}  {each.p50_ms:>7.2f}  {each.p99_ms:>7.2f}  "
              f"{each.max_ms:>7.1f}  {each.cpu_us:>7.1f}  {each.per_cpu_s:>8.0f}" for each in figures]
    return "\n".join(lines)


def main() -> None:
    if sys.argv[1:2] == [CLIENT]:
        ask_for(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/benchmarks/answer_service.json"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--running", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--core", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        folder, state = Path(root) / "bundle", Path(root) / "state"
        print("training", file=sys.stderr)
        table = write_model(folder, options.seed).requests
        rows = [dict(zip(COLUMNS, each, strict=True)) for each in table[COLUMNS].to_numpy(object).tolist()]
        figures = all_figures(folder, rows, options, state)
        figures.append(while_snapshots(folder, rows, options, state))
    print(report(figures))
    document = {"machine": machine(), "figures": [asdict(each) for each in figures]}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
