"""A whole `sojourn gain` of 24 cells of a million events each: minutes from the command to its tables and page.

    python benchmarks/compare.py [PATH.json] [--requests 520000] [--workers 2]

Twice in stores of its own: first every policy's loop is compiled, then it comes out of the cache; the difference is the
time of compiling.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

POLICIES = ("first-fit", "la-binary", "nilas", "nilas-expected")
PREDICTORS = ("oracle", "noise:1")
N_SEEDS = 3


def seconds(folder: Path, cache: Path, n_requests: int, n_workers: int) -> float:
    """Of the whole command, with a fresh store in `folder`."""
    arguments = [sys.executable, "-c", "from sojourn.flows.cli import app; app()", "compare",
                 "--store", str(folder / "store"), "--page", str(folder / "page.html"), "--n-seeds", str(N_SEEDS),
                 "--n-requests", str(n_requests), "--n-workers", str(n_workers)]
    for option, values in (("--policy", POLICIES), ("--predictor", PREDICTORS)):
        arguments += [text for value in values for text in (option, value)]
    started = time.perf_counter()
    subprocess.run(arguments, check=True, env={**os.environ, "NUMBA_CACHE_DIR": str(cache)}, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path", nargs="?", type=Path, default=Path("build/compare.json"))
    parser.add_argument("--requests", type=int, default=520_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        cold_s = seconds(root / "cold", root / "cache", asked.requests, asked.workers)
        warm_s = seconds(root / "warm", root / "cache", asked.requests, asked.workers)
        cells = pd.read_csv(root / "warm" / "page-cells.csv")
    found = {"cells": len(cells), "hosts": int(cells["n_hosts"].median()),
             "events_per_cell": int(cells["n_events"].median()), "workers": asked.workers,
             "whole_s": warm_s, "compile_s": cold_s - warm_s, "loops_s": float(cells["elapsed_s"].sum())}
    print(pd.DataFrame([found]).to_string(index=False, float_format=lambda value: f"{value:,.1f}"))
    asked.path.parent.mkdir(parents=True, exist_ok=True)
    asked.path.write_text(json.dumps({"python": platform.python_version(), "machine": platform.machine(), **found},
                                     indent=2) + "\n")
    print(f"written to {asked.path}")


if __name__ == "__main__":
    main()
