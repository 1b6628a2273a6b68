"""Seconds and peak memory of the synthetic trace by its number of requests, and of usage series, one core.

    python benchmarks/synthetic.py [PATH.json] [--requests 60000 1000000] [--usage 300] [--runs 3]

Each row is the median of several runs. Peak memory is that of a fresh process at its end, all libraries included,
which alone hold what the row of 1,000 requests shows.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import resource
import statistics
import time
from pathlib import Path
from typing import Any

import pandas as pd

from sojourn.features.synthetic import synthesize
from sojourn.features.synthetic_usage import with_usage

TARGET_S = 20.0
"""Most seconds for 1 M requests."""


def measured(n_requests: int, n_usage: int) -> dict[str, float]:
    """One run: seconds for the trace, seconds and rows of its usage, and this process's peak memory (MiB)."""
    started = time.perf_counter()
    trace = synthesize(n_requests)
    trace_s = time.perf_counter() - started
    n_samples, usage_s = 0, 0.0
    if n_usage:
        started = time.perf_counter()
        trace, _ = with_usage(trace, n_usage)
        usage_s = time.perf_counter() - started
        n_samples = 0 if trace.usage is None else len(trace.usage)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": trace_s, "usage_seconds": usage_s, "usage_rows": n_samples, "peak_mib": peak_kib / 1024}


def row(n_requests: int, n_usage: int, n_runs: int) -> dict[str, Any]:
    """The medians of `n_runs` runs, each in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        runs = [pool.apply(measured, (n_requests, n_usage)) for _ in range(n_runs)]
    middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    return {"requests": n_requests, "seconds": middle["seconds"], "slowest": max(run["seconds"] for run in runs),
            "requests_per_s": n_requests / middle["seconds"], "series": n_usage,
            "usage_rows": int(middle["usage_rows"]), "usage_seconds": middle["usage_seconds"],
            "peak_mib": middle["peak_mib"]}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=Path(".sojourn/benchmarks/synthetic.json"))
    parser.add_argument("--requests", nargs="+", type=int, default=[1_000, 60_000, 1_000_000])
    parser.add_argument("--usage", type=int, default=300, help="series for 60,000 requests, a row of their own")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    rows = [row(n_requests, 0, asked.runs) for n_requests in asked.requests]
    rows.append(row(60_000, asked.usage, asked.runs))
    print(pd.DataFrame(rows).to_string(index=False, float_format=lambda value: f"{value:,.2f}"))
    for seconds in (known["seconds"] for known in rows if known["requests"] == 1_000_000):
        verdict = "met" if seconds <= TARGET_S else "MISSED"
        print(f"1,000,000 requests: {seconds:.1f} s, target {TARGET_S:.0f} s: {verdict}")
    asked.path.parent.mkdir(parents=True, exist_ok=True)
    asked.path.write_text(json.dumps({"python": platform.python_version(), "machine": platform.machine(),
                                      "rows": rows}, indent=2) + "\n")
    print(f"written to {asked.path}")


if __name__ == "__main__":
    main()
