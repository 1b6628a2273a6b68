"""Seconds and peak memory to read 1 M made lines of `sacct -P` through the reader `slurm`, beside pandas' `read_csv`.

    python -m benchmarks.sacct [--n-rows 1000000] [--json FILE]
"""

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
from pathlib import Path

import numpy as np
import pandas as pd


def write_export(path: Path, n_rows: int) -> None:
    """Jobs of 40 accounts and 1,500 users over 180 days: 4 % requeued once, 3 % never ran, the last ones still run."""
    rng = np.random.default_rng(0)
    submit = 1_750_000_000 + np.sort(rng.integers(0, 180 * 86_400, n_rows))
    start = submit + rng.lognormal(5, 2, n_rows).astype(np.int64)
    run = rng.lognormal(7, 2, n_rows).astype(np.int64)
    made = 1_750_000_000 + 180 * 86_400
    is_pending = rng.random(n_rows) < 0.03
    is_running = (start + run > made) & ~is_pending
    start = np.minimum(start, made)
    elapsed = np.where(is_pending, 0, np.where(is_running, made - start, run))
    stamps = [pd.Series(pd.to_datetime(each, unit="s").strftime("%Y-%m-%dT%H:%M:%S")) for each in (
        submit, start, start + run)]
    days, rest = elapsed // 86_400, elapsed % 86_400
    clock = [f"{day}-" * (day > 0) + f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}" for day, s in zip(
        days.tolist(), rest.tolist(), strict=True)]
    cores = 2 ** rng.integers(0, 8, n_rows)
    user = rng.integers(0, 1_500, n_rows)
    requeued = rng.random(n_rows) < 0.04  # the next line is the job's second run
    state = np.where(requeued, "REQUEUED", rng.choice(["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 1001"], n_rows))
    pd.DataFrame({
        "JobID": [str(idx + again) for idx, again in enumerate(requeued.tolist())],
        "JobName": [f"sim-{idx}" for idx in rng.integers(0, 9_000, n_rows)],
        "User": [f"u{idx}" for idx in user], "Account": [f"a{idx % 40}" for idx in user],
        "Partition": rng.choice(["short", "long", "gpu"], n_rows), "QOS": "normal", "Submit": stamps[0],
        "Start": stamps[1].mask(is_pending, "Unknown"), "End": stamps[2].mask(is_pending | is_running, "Unknown"),
        "Elapsed": clock, "Suspended": "00:00:00",
        "State": np.where(is_pending, "PENDING", np.where(is_running, "RUNNING", state)), "ExitCode": "0:0",
        "Timelimit": rng.choice(["01:00:00", "1-00:00:00", "UNLIMITED"], n_rows), "ReqCPUS": cores, "AllocCPUS": cores,
        "ReqMem": [f"{2 * each}G" for each in cores.tolist()], "NNodes": 1,
        "AllocTRES": [f"billing={each},cpu={each},mem={2 * each}G,node=1" for each in cores.tolist()],
    }).to_csv(path, index=False, sep="|")  # fmt: skip


_READS = {
    "slurm": "from sojourn.features.readers import read_trace; n = len(read_trace('slurm', sys.argv[1])[0])",
    "pandas": "import pandas as pd; n = len(pd.read_csv(sys.argv[1], sep='|'))",
}


def measured(what: str, path: Path) -> dict[str, float]:
    """CPU and wall seconds and peak MiB of one read in a process of its own, imports included."""
    program = ("import sys, time, resource; at = time.perf_counter(); " + _READS[what] +
               "; used = resource.getrusage(resource.RUSAGE_SELF)"
               "; print(n, time.perf_counter() - at, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)")
    found = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    n_rows, wall_s, cpu_s, peak_mib = map(float, found.stdout.split())
    return {"rows": n_rows, "wall_s": wall_s, "cpu_s": cpu_s, "peak_mib": peak_mib, "load": os.getloadavg()[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-rows", type=int, default=1_000_000)
    parser.add_argument("--n-runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sacct.txt"
        # in a process of its own: a child's peak memory counts what its parent held when it was started
        writer = multiprocessing.get_context("spawn").Process(target=write_export, args=(path, asked.n_rows))
        writer.start()
        writer.join()
        print(f"{asked.n_rows:,} rows, {path.stat().st_size / 1e6:.0f} MB")
        for what in _READS:
            runs = [measured(what, path) for _ in range(asked.n_runs)]
            found[what] = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    for what, row in found.items():
        ratio = row["cpu_s"] / found["pandas"]["cpu_s"]
        print(f"{what:<8}{row['cpu_s']:>8.1f} s CPU{row['wall_s']:>8.1f} s{row['peak_mib']:>8.0f} MiB{ratio:>8.1f} x"
              f"{row['rows']:>12,.0f} rows, load {row['load']:.1f}")
    if asked.json is not None:
        asked.json.write_text(json.dumps({"machine": sys.version, "at": time.strftime("%Y-%m-%d"), **found}, indent=2))


if __name__ == "__main__":
    main()
