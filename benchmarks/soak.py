"""Does memory stay flat? Threads admit, end and look up for millions of operations while new versions are published.

    python benchmarks/soak.py [--operations 10000000] [--threads 2] [--json FILE]

Two bundles, a hazard and a point model, take turns in a folder that the predictor watches; every round publishes the
other one while the threads work. Fails where resident memory at the end lies above that after warming up by more than
the tolerance, or where a count is lost. Of ten operations one is an admission, one an end, eight are lookups.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.split import split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models import LIFETIME_MODELS, FitSettings, write_bundle
from sojourn.publishing import publish_folder
from sojourn.serving import Lifetime, Predictor, WatchEvent
from sojourn.serving.inputs import HistoryState

FAMILIES = ("hazard", "gbdt-uptime")
N_ROUNDS, N_WARM = 20, 4
"""Rounds in all, and those after which memory is taken to be warm."""
N_RUNNING = 1_000
"""Requests that each thread keeps running."""
N_OWNERS = 50
STEP_S = 400
"""Seconds between a thread's admissions: longer than a batch's gap, so that every batch ends."""
TOLERANCE_MIB, TOLERANCE_SHARE = 8.0, 0.03
DEADLINE_S = 120.0


@dataclass(frozen=True)
class Round:
    """What stood at the end of one round."""

    n_operations: int
    seconds: float
    rss_mib: float
    n_reloads: int
    n_owners: int


def rss_mib() -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


def bundles(root: Path) -> tuple[list[Path], list[dict[str, Any]]]:
    """A bundle of each family, and requests."""
    trace = synthesize(5_000, seed=0)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    split = split_by_time(build_rows(trace, encoder, history))
    settings = FitSettings(backoff_keys(encoder), n_threads=1, params={"num_leaves": 15, "learning_rate": 0.3})
    folders = []
    for family in FAMILIES:
        exported = LIFETIME_MODELS[family]().fit(split.train, split.valid, split.past, settings).export()
        if exported is None:
            raise ValueError(f"a family of the soak must be one that is served, got {family!r}")
        folders.append(write_bundle(root / family, family, exported, encoder, history, {}))
    names = list(encoder.columns())
    rows = trace.requests[names].tail(N_OWNERS).astype(object).itertuples(index=False)
    return folders, [dict(zip(names, values, strict=True)) for values in rows]


class Worker:
    """One thread's requests, of owners of its own, so that it keeps their time order."""

    def __init__(self, predictor: Predictor, requests: list[dict[str, Any]], number: int) -> None:
        self._predictor = predictor
        self._requests = [request | {"subscription": f"s{number}-{idx}", "deployment": f"d{number}-{idx}"}
                          for idx, request in enumerate(requests)]
        self._running: deque[Lifetime] = deque()
        self._n_admitted = 0

    def run(self, n_operations: int) -> None:
        predictor, running = self._predictor, self._running
        for _ in range(n_operations // 10):
            now_s = 10**8 + STEP_S * self._n_admitted
            vm = predictor.admit(self._requests[self._n_admitted % len(self._requests)], now_s)
            self._n_admitted += 1
            running.append(vm)
            vm.quantile(0.9, 0.0)
            vm.next_change(0.0)
            for uptime_s in (0.0, 60.0, 600.0, 6_000.0, 60_000.0, 600_000.0):
                vm.remaining(uptime_s)
            if len(running) > N_RUNNING:
                predictor.ended(running.popleft(), now_s)

    def drain(self) -> None:
        while self._running:
            self._predictor.ended(self._running.popleft(), 10**8 + STEP_S * self._n_admitted)

    @property
    def n_admitted(self) -> int:
        return self._n_admitted


def publish(source: Path, target: Path) -> None:
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    shutil.copytree(source, fresh, dirs_exist_ok=True)
    publish_folder(fresh, target, "MANIFEST.json")


def soak(n_operations: int, n_threads: int, root: Path) -> list[Round]:
    """All rounds, printed as they end."""
    folders, requests = bundles(root)
    served = root / "served"
    publish(folders[0], served)
    predictor = Predictor.load(served)
    workers = [Worker(predictor, requests, number) for number in range(n_threads)]
    n_each = n_operations // (N_ROUNDS * n_threads) // 10 * 10
    told = threading.Semaphore(0)
    refused: list[WatchEvent] = []

    def tell(event: WatchEvent) -> None:
        if not event.is_served:
            refused.append(event)
        told.release()

    rounds: list[Round] = []
    started = time.perf_counter()
    with predictor.watch(interval_s=0.01, on_event=tell):
        for number in range(1, N_ROUNDS + 1):
            threads = [threading.Thread(target=worker.run, args=(n_each,)) for worker in workers]
            for thread in threads:
                thread.start()
            publish(folders[number % 2], served)
            for thread in threads:
                thread.join()
            if not told.acquire(timeout=DEADLINE_S) or refused:
                sys.exit(f"every round must serve a new version, got {refused or 'none'} in round {number}")
            rounds.append(Round(number * n_each * n_threads, round(time.perf_counter() - started, 1),
                                round(rss_mib(), 1), predictor.counters["reloads"], len(predictor._open.history)))
            print(row(rounds[-1]), flush=True)
    for worker in workers:
        worker.drain()
    n_admitted = sum(worker.n_admitted for worker in workers)
    counters = predictor.counters
    expected = {"predictions": n_admitted, "ended": n_admitted, "reloads": N_ROUNDS, "errors": 0, "reload_errors": 0}
    found = {name: counters[name] for name in expected}
    if found != expected:
        sys.exit(f"counters must be {expected}, got {found}")
    return rounds


def row(found: Round) -> str:
    return (f"{found.n_operations:>12,}  {found.seconds:>8.1f}  {found.rss_mib:>8.1f}  {found.n_reloads:>8}  "
            f"{found.n_owners:>8,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=10_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/benchmarks/soak.json"))
    options = parser.parse_args()
    if options.operations < 10 * N_ROUNDS * options.threads:
        parser.error(f"--operations must be at least {10 * N_ROUNDS * options.threads}, got {options.operations}")
    print(f"{'operations':>12}  {'s':>8}  {'RSS MiB':>8}  {'reloads':>8}  {'keys':>8}")
    with tempfile.TemporaryDirectory() as root:
        rounds = soak(options.operations, options.threads, Path(root))
    warm, end = rounds[N_WARM - 1].rss_mib, rounds[-1].rss_mib
    limit = warm + max(TOLERANCE_MIB, TOLERANCE_SHARE * warm)
    print(f"resident memory: {warm:.1f} MiB warm, {end:.1f} MiB at the end ({end - warm:+.1f}); at most {limit:.1f}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({
        "n_cpu": os.cpu_count(), "load_average": os.getloadavg()[0], "n_threads": options.threads, "warm_mib": warm,
        "end_mib": end, "limit_mib": limit, "rounds": [asdict(found) for found in rounds],
    }, indent=1) + "\n")  # fmt: skip
    if end > limit:
        sys.exit(f"memory must stay flat: at most {limit:.1f} MiB at the end, got {end:.1f}")


if __name__ == "__main__":
    main()
