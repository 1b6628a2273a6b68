"""What a second Dask worker brings: features by partition, comparison cells and search trials on one worker and on two.

Each kind of work is done in new stores on one worker process and on two, in turns, after each worker has done a small
piece of it (imports, compiled kernels). Prints a table of medians and writes JSON; the load beside tells how much of
the machine there was.
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
from sojourn.flows.compare.compare_config import CompareConfig
from sojourn.flows.compare.comparison import run_cells
from sojourn.flows.config import RetrainConfig
from sojourn.flows.jobs.trial import TrialTask, trial_code, worker_score
from sojourn.flows.outside.dask_workers import cluster, dask_workers
from sojourn.flows.outside.workers import run_grouped
from sojourn.flows.stages.build_features import stored_features
from sojourn.flows.stages.ingest import Ingested
from sojourn.models.lifetime import SEARCH_SPACES

Work = Callable[[Path, str, int], None]
"""Does a kind of work in a new store on the scheduler at an address, of the given size."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement. load: the machine's over the last minute when it ended."""

    work: str
    n_workers: int
    seconds: float
    load: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-requests", type=int, default=100_000, help="for features; a partition has up to 250,000")
    parser.add_argument("--n-cells", type=int, default=8)
    parser.add_argument("--n-trials", type=int, default=4)
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
                    runs.append(Run(name, n_workers, timed(work, address, size), os.getloadavg()[0]))
                    print(f"{name:<24}{n_workers} {runs[-1].seconds:7.1f} s, load {runs[-1].load:.1f}", flush=True)
                    asked.json.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n")
    print(table(runs))


def timed(work: Work, address: str, size: int) -> float:
    """Seconds of a kind of work in a new store."""
    with tempfile.TemporaryDirectory() as folder:
        began_s = time.perf_counter()
        work(Path(folder), address, size)
        return time.perf_counter() - began_s


def features(store: Path, address: str, n_requests: int) -> None:
    """Feature rows of a synthetic trace by partition; making the trace is part of both times, about a tenth."""
    trace = synthesize(n_requests, seed=0).save(store / "trace")
    stored_features(store, Ingested(trace, "synthetic", "0" * 64, ""), dask=address)


def cells(store: Path, address: str, n_cells: int) -> None:
    """Cells of a comparison of 10,000 requests, a seed each."""
    config = CompareConfig(store=store, n_requests=10_000, policies=("best-fit",), seeds=tuple(range(n_cells)))
    with dask_workers(address) as workers:
        if failed := run_cells(config.cells(), workers):
            raise RuntimeError(f"{len(failed)} cells failed")


def trials(store: Path, address: str, n_trials: int) -> None:
    """Trials of `gbdt-once` with the defaults on 10,000 requests; each worker reads the trace once."""
    config = RetrainConfig(store=store, n_requests=10_000, n_threads=1)
    task = TrialTask("gbdt-once", dict(SEARCH_SPACES["gbdt-once"].defaults), config.ingestion, config.training,
                     trial_code())
    with dask_workers(address) as workers:
        work = [[replace(task, values={**task.values, "lambda_l2": 1.0 + place})] for place in range(n_trials)]
        for _, outcome in run_grouped(work, worker_score, workers):
            if isinstance(outcome, Exception):
                raise outcome


def table(runs: list[Run]) -> str:
    """A Markdown table of medians: seconds on one worker, on two, and how many times as fast that is."""
    lines = ["| work | one worker | two workers | times as fast | load |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(run.work for run in runs):
        one, two = (statistics.median(run.seconds for run in runs if run.work == name and run.n_workers == n)
                    for n in (1, 2))
        loads = [run.load for run in runs if run.work == name]
        lines.append(f"| {name} | {one:.1f} s | {two:.1f} s | {one / two:.2f} | {min(loads):.0f} to {max(loads):.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
