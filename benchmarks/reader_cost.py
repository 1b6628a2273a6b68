"""Seconds and peak memory to read a made file through a reader, beside a baseline: for readers' benchmarks."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Baseline:
    """What a reader is compared with. program: Python that reads `sys.argv[1]` and sets n to its number of rows."""

    name: str
    program: str


def pandas_csv(separator: str) -> Baseline:
    """pandas' `read_csv`."""
    return Baseline("pandas", f"import pandas as pd; n = len(pd.read_csv(sys.argv[1], sep={separator!r}))")


def run(about: str | None, reader: str, file: str, baseline: Baseline, write: Callable[[Path, int], None],
        n_rows: int = 1_000_000) -> None:
    """Read the command line, write the file with `write(path, n_rows)`, read it several times each way, print a table.

    reader: a key of READERS. file: the file's name. n_rows: unless --n-rows says otherwise.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--n-rows", type=int, default=n_rows)
    parser.add_argument("--n-runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    reads = {
        reader: f"from sojourn.features.readers import read_trace; n = len(read_trace({reader!r}, sys.argv[1])[0])",
        baseline.name: baseline.program,
    }
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file
        # in a process of its own: a child's peak memory counts what its parent held when it was started
        writer = multiprocessing.get_context("spawn").Process(target=write, args=(path, asked.n_rows))
        writer.start()
        writer.join()
        print(f"{asked.n_rows:,} rows, {path.stat().st_size / 1e6:.0f} MB")
        for what, program in reads.items():
            runs = [_measured(program, path) for _ in range(asked.n_runs)]
            found[what] = {name: statistics.median(one[name] for one in runs) for name in runs[0]}
    for what, row in found.items():
        ratio = row["cpu_s"] / found[baseline.name]["cpu_s"]
        print(f"{what:<11}{row['cpu_s']:>8.1f} s CPU{row['wall_s']:>8.1f} s{row['peak_mib']:>8.0f} MiB{ratio:>8.1f} x"
              f"{row['rows']:>12,.0f} rows, load {row['load']:.1f}")
    if asked.json is not None:
        asked.json.write_text(json.dumps({"machine": sys.version, "at": time.strftime("%Y-%m-%d"), **found}, indent=2))


def _measured(read: str, path: Path) -> dict[str, float]:
    """CPU and wall seconds and peak MiB of one read in a process of its own, imports included."""
    program = ("import sys, time, resource; at = time.perf_counter(); " + read +
               "; used = resource.getrusage(resource.RUSAGE_SELF)"
               "; print(n, time.perf_counter() - at, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)")
    found = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    n_rows, wall_s, cpu_s, peak_mib = map(float, found.stdout.split())
    return {"rows": n_rows, "wall_s": wall_s, "cpu_s": cpu_s, "peak_mib": peak_mib, "load": os.getloadavg()[0]}
