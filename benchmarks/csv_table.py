"""Seconds and peak memory to read a table of 1 M made VMs through the reader `csv`, beside pandas' own `read_csv`.

    python -m benchmarks.csv_table [--n-rows 1000000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd


def write_table(path: Path, n_rows: int) -> None:
    """VMs of 50 projects and 3,000 users over 90 days; those that outlive the last day have no end."""
    rng = np.random.default_rng(0)
    start = 1_700_000_000 + np.sort(rng.integers(0, 90 * 86_400, n_rows))
    end = start + rng.lognormal(7, 2, n_rows).astype(np.int64)
    stamps = [pd.Series(pd.to_datetime(each, unit="s").strftime("%Y-%m-%d %H:%M:%S")) for each in (start, end)]
    pd.DataFrame({
        "vm_id": [f"vm-{idx:07d}" for idx in range(n_rows)],
        "project": [f"p{idx}" for idx in rng.integers(0, 50, n_rows)],
        "user": [f"u{idx}" for idx in rng.integers(0, 3_000, n_rows)],
        "created_at": stamps[0], "deleted_at": stamps[1].where(end < 1_700_000_000 + 90 * 86_400, ""),
        "vcpus": rng.choice([1, 2, 4, 8], n_rows), "memory_mb": rng.choice([2048, 4096, 8192], n_rows),
        "zone": rng.choice(["a", "b"], n_rows), "status": "DELETED",
    }).to_csv(path, index=False)  # fmt: skip


_READS = {
    "csv": "from sojourn.features.readers import read_trace; trace, _ = read_trace('csv', sys.argv[1]); n = len(trace)",
    "pandas": "import pandas as pd; n = len(pd.read_csv(sys.argv[1]))",
}


def measured(what: str, path: Path) -> dict[str, float]:
    """CPU and wall seconds and peak MiB of one read in a process of its own, imports included."""
    program = ("import sys, time, resource; at = time.perf_counter(); " + _READS[what] +
               "; used = resource.getrusage(resource.RUSAGE_SELF)"
               "; print(n, time.perf_counter() - at, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)")
    found = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    n_rows, wall_s, cpu_s, peak_mib = map(float, found.stdout.split())
    return {"rows": n_rows, "wall_s": wall_s, "cpu_s": cpu_s, "peak_mib": peak_mib}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-rows", type=int, default=1_000_000)
    parser.add_argument("--n-runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vms.csv"
        write_table(path, asked.n_rows)
        print(f"{asked.n_rows:,} rows, {path.stat().st_size / 1e6:.0f} MB")
        for what in _READS:
            runs = [measured(what, path) for _ in range(asked.n_runs)]
            found[what] = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    for what, row in found.items():
        ratio = row["cpu_s"] / found["pandas"]["cpu_s"]
        print(f"{what:<8}{row['cpu_s']:>8.1f} s CPU{row['wall_s']:>8.1f} s{row['peak_mib']:>8.0f} MiB{ratio:>8.1f} x")
    if asked.json is not None:
        asked.json.write_text(json.dumps({"machine": sys.version, "at": time.strftime("%Y-%m-%d"), **found}, indent=2))


if __name__ == "__main__":
    main()
