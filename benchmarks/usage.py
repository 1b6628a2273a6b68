"""Seconds and peak memory of usage series: stored, as grids, as profiles, and streamed without a store; one core.

    python benchmarks/usage.py [PATH.json] [--bitbrains FOLDER] [--rows 10000000] [--runs 3]

Rows: made-up series (a 300 s month of 8,640 samples a request, in the order of time, so that every block holds every
request), and the two months of bitbrains where their folder is given. Each is the median of several runs, each in a
process of its own whose peak memory holds all libraries; cpu_s is what it computed, whatever else ran beside it. The
baseline reads the same samples into one pandas table, sorts it and folds it with groupby. The target is for 10 M
samples: store, grids and profiles in 15 s and 1 GiB.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger
from sojourn.features.usage import UsageStream, read_usage, store_usage, streamed_profiles
from sojourn.features.usage.usage_stream import RawSamples, RequestTable
from sojourn.serving.usage import DayClock

N_STEPS, STEP_S, N_SLOTS = 8640, 300, 96
TARGET_S, TARGET_MIB, TARGET_ROWS = 15.0, 1024.0, 10_000_000
WAYS = ("store", "streamed", "pandas")


def made(n_rows: int) -> UsageStream:
    """About `n_rows` samples of n_rows / 8,640 requests, a noisy day each, in the order of time."""
    n_requests = max(n_rows // N_STEPS, 1)
    ids = np.array([f"vm-{k}" for k in range(n_requests)], object)
    table = RequestTable()
    table.add(ids.tolist(), [4.0] * n_requests, [16.0] * n_requests)
    phase = np.random.default_rng(0).random(n_requests)
    steps = max(262_144 // n_requests, 1)

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        rng = np.random.default_rng(1)
        for first in range(0, N_STEPS, steps):
            step = np.repeat(np.arange(first, min(first + steps, N_STEPS)), n_requests)
            row = np.tile(np.arange(n_requests, dtype=np.int32), len(step) // n_requests)
            cpu = 0.4 + 0.3 * np.sin(2 * np.pi * (step / 288 + phase[row])) + 0.05 * rng.random(len(step))
            yield RawSamples("made", first * n_requests + 1, ids[row], row, step * float(STEP_S), cpu)

    return UsageStream("made up", DayClock(), read, table, n_rows=n_requests * N_STEPS)


def stream_of(source: str, n_rows: int) -> UsageStream:
    """The series named by `source`: "made" or the folder of bitbrains."""
    return made(n_rows) if source == "made" else read_usage("bitbrains", source)


def measured(source: str, n_rows: int, way: str) -> dict[str, float]:
    """One run: seconds of each step, samples and this process's peak memory (MiB)."""
    spent: dict[str, float] = {}
    started = last = time.perf_counter()
    started_cpu = time.process_time()

    def lap(name: str) -> None:
        nonlocal last
        spent[name], last = time.perf_counter() - last, time.perf_counter()

    if way == "store":
        with tempfile.TemporaryDirectory() as folder:
            stream = stream_of(source, n_rows)
            store = store_usage(stream, Path(folder) / "usage")
            lap("store_s")
            n = sum(int((~np.isnan(grid.cpu)).sum()) for grid in store.grids(STEP_S))
            lap("grids_s")
            store.profiles(N_SLOTS)
            lap("profiles_s")
            n = stream.report().read.n_kept
    elif way == "streamed":
        n = int(streamed_profiles(stream_of(source, n_rows), N_SLOTS).count.sum())
    else:
        stream = stream_of(source, n_rows)
        table = pd.concat([pd.DataFrame({"request": block.idx_request, "time_s": block.time_s, "cpu": block.cpu})
                           for block in stream.blocks()], ignore_index=True)
        table = table.sort_values(["request", "time_s"], kind="stable")
        table.groupby([table["request"], table["time_s"] // STEP_S])["cpu"].mean()
        table.groupby([table["request"], table["time_s"] % 86_400 // (86_400 // N_SLOTS)])["cpu"].agg(["max", "mean"])
        table.groupby("request")["cpu"].quantile(np.array([0.05, 0.5, 0.95]))
        n = len(table)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"rows": n, "seconds": time.perf_counter() - started,
            "cpu_s": time.process_time() - started_cpu, "peak_mib": peak_kib / 1024, **spent}


def row(source: str, n_rows: int, way: str, n_runs: int) -> dict[str, Any]:
    """The medians of `n_runs` runs."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        runs = [pool.apply(measured, (source, n_rows, way)) for _ in range(n_runs)]
    middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    name = "made" if source == "made" else "bitbrains"
    return {"series": name, "way": way, "rows": int(middle.pop("rows")), **middle,
            "slowest_s": max(run["seconds"] for run in runs)}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=Path(".sojourn/benchmarks/usage.json"))
    parser.add_argument("--bitbrains", help="folder of rnd_<month>.parquet and vm_meta.parquet")
    parser.add_argument("--rows", type=int, default=TARGET_ROWS)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core, for the processes started here too
    sources = ["made", *([asked.bitbrains] if asked.bitbrains else [])]
    rows = [row(source, asked.rows, way, asked.runs) for source in sources for way in WAYS]
    base = {each["series"]: each for each in rows if each["way"] == "pandas"}
    for each in rows:
        each["times_as_fast"] = base[each["series"]]["seconds"] / each["seconds"]
        each["memory_share"] = each["peak_mib"] / base[each["series"]]["peak_mib"]
    print(pd.DataFrame(rows).to_string(index=False, float_format=lambda value: f"{value:,.2f}"))
    for each in rows:
        if each["way"] == "store":
            seconds = each["seconds"] * TARGET_ROWS / each["rows"]
            is_met = seconds <= TARGET_S and each["peak_mib"] <= TARGET_MIB
            print(f"{each['series']}: {seconds:.1f} s for 10 M samples (target {TARGET_S:.0f}), "
                  f"{each['peak_mib']:.0f} MiB (target {TARGET_MIB:.0f}): {'met' if is_met else 'MISSED'}")
    asked.path.parent.mkdir(parents=True, exist_ok=True)
    asked.path.write_text(json.dumps({"python": platform.python_version(), "machine": platform.machine(),
                                      "rows": rows}, indent=2) + "\n")
    print(f"written to {asked.path}")


if __name__ == "__main__":
    main()
