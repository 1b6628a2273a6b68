"""Seconds and peak memory to read 1 M made lines of `sacct -P` through the reader `slurm`, beside pandas' `read_csv`.

    python -m benchmarks.sacct [--n-rows 1000000] [--json FILE]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.reader_cost import pandas_csv, run


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


if __name__ == "__main__":
    run(__doc__, "slurm", "sacct.txt", pandas_csv("|"), write_export)
