"""What a second Dask worker brings: features by partition, comparison cells and search trials on one worker and on two.

Each kind of work is done in new stores on one worker process and on two, in turns, after each worker has done a small
piece of it (imports, compiled kernels). Prints a table of medians and writes JSON. On a busy machine a second process
gets no more of it, so beside the seconds stands the CPU time of the main process and the busiest worker, one after the
other: what the work would take if each had a core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sojourn.features.synthetic import synthesize
from sojourn.flows.compare.comparison import run_cells
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.retrain.features import stored_features
from sojourn.flows.retrain.ingest import Ingested, read_into
from sojourn.flows.settings.retrain import RetrainConfig, TrainSettings
from sojourn.flows.study.search import TrialTask, trial_code, worker_score
from sojourn.flows.workers.dask import cluster, dask_client, dask_workers, run_grouped
from sojourn.models.lifetime import SEARCH_SPACES

Work = Callable[[Path, str, int], Callable[[], None]]
"""Prepares a kind of work of the given size in a new store; what it gives does it on the scheduler at an address."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement. cpu_s: of the main process and the busiest worker. load: the machine's over the last minute."""

    work: str
    n_workers: int
    seconds: float
    cpu_s: float
    load: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-requests", type=int, default=400_000, help="for features; a partition has up to 250,000")
    parser.add_argument("--n-cells", type=int, default=8)
    parser.add_argument("--n-trials", type=int, default=6)
    parser.add_argument("--n-repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("dask_scaling.json"), help="where the numbers are written")
    asked = parser.parse_args()
    works: dict[str, tuple[Work, int, int]] = {
        "features by partition": (features, asked.n_requests, 2_000),
        "comparison cells": (cells, asked.n_cells, 2), "search trials": (trials, asked.n_trials, 2)}
    runs: list[Run] = []
    with cluster("local:1") as one, cluster("local:2") as two:
        for name, (work, size, small) in works.items():
            for address in (one, two):
                timed(work, address, small)
            for _ in range(asked.n_repeats):
                for n_workers, address in ((1, one), (2, two)):
                    runs.append(Run(name, n_workers, *timed(work, address, size), os.getloadavg()[0]))
                    print(runs[-1], flush=True)
                    asked.json.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n")
    print(table(runs))


def timed(work: Work, address: str, size: int) -> tuple[float, float]:
    """Seconds and CPU seconds of a kind of work in a new store, without what prepares it."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = work(Path(folder), address, size)
        with dask_client(address) as (client, _):
            before = client.run(time.process_time)
            began_s, cpu_s = time.perf_counter(), time.process_time()
            prepared()
            seconds, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
            after = client.run(time.process_time)
        return seconds, cpu_s + max(after[name] - before[name] for name in after)


def features(store: Path, address: str, n_requests: int) -> Callable[[], None]:
    """Feature rows of a synthetic trace by partition, the pass over all requests included."""
    trace = synthesize(n_requests, seed=0).save(store / "trace")

    def run() -> None:
        stored_features(store, Ingested(trace, "synthetic", "0" * 64, ""), dask=address)

    return run


def cells(store: Path, address: str, n_cells: int) -> Callable[[], None]:
    """Cells of a comparison on 100,000 requests, a seed each; a worker makes the trace of its cell."""
    config = CompareConfig(store=store, n_requests=100_000, policies=("best-fit",), seeds=tuple(range(n_cells)))

    def run() -> None:
        with dask_workers(address) as workers:
            if failed := run_cells(config.cells(), workers):
                raise RuntimeError(f"{len(failed)} cells failed")

    return run


def trials(store: Path, address: str, n_trials: int) -> Callable[[], None]:
    """Trials of `gbdt-once` on 50,000 requests whose features are in the store; each worker reads them once."""
    config = RetrainConfig(store=store, n_requests=50_000, n_threads=1)
    stored_features(store, read_into(store, config.source))
    task = TrialTask("gbdt-once", dict(SEARCH_SPACES["gbdt-once"].defaults), config.store, config.source,
                     config.group(TrainSettings),
                     trial_code())

    def run() -> None:
        with dask_workers(address) as workers:
            work = [[replace(task, values={**task.values, "lambda_l2": 1.0 + place})] for place in range(n_trials)]
            for _, outcome in run_grouped(work, worker_score, workers):
                if isinstance(outcome, Exception):
                    raise outcome

    return run


def table(runs: list[Run]) -> str:
    """A Markdown table of medians: seconds and CPU seconds on one worker and on two, and their ratios."""
    lines = ["| work | one worker | two workers | ratio | CPU, one worker | CPU, two workers | ratio | load |",
             "|---|---|---|---|---|---|---|---|"]
    for name in dict.fromkeys(run.work for run in runs):
        of = {n: [run for run in runs if run.work == name and run.n_workers == n] for n in (1, 2)}
        wall = {n: statistics.median(run.seconds for run in of[n]) for n in of}
        cpu = {n: statistics.median(run.cpu_s for run in of[n]) for n in of}
        loads = [run.load for run in runs if run.work == name]
        lines.append(f"| {name} | {wall[1]:.1f} s | {wall[2]:.1f} s | {wall[1] / wall[2]:.2f} | {cpu[1]:.1f} s | "
                     f"{cpu[2]:.1f} s | {cpu[1] / cpu[2]:.2f} | {min(loads):.0f} to {max(loads):.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
