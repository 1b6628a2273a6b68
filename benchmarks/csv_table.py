"""Seconds and peak memory to read a table of 1 M made VMs through the reader `csv`, beside pandas' own `read_csv`.

    python -m benchmarks.csv_table [--n-rows 1000000] [--json FILE]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.reader_cost import pandas_csv, run


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


if __name__ == "__main__":
    run(__doc__, "csv", "vms.csv", pandas_csv(","), write_table)
