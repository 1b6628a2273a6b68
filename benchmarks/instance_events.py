"""What it takes to read instance events of Google's traces of 2019, beside `json.loads` of each line.

    python -m benchmarks.instance_events [--n-rows N] [--n-runs N] [--json PATH]

The file is made: instances that are submitted, enabled, scheduled and finished, in no order of time, as BigQuery's
shards are. Peak memory is that of the whole process.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from benchmarks.reader_cost import Baseline, run

LOADS = Baseline("json.loads", "import json; n = sum(1 for line in open(sys.argv[1]) if json.loads(line))")


def write(path: Path, n_rows: int) -> None:
    """Four events each of n_rows / 4 instances, ten to a collection."""
    rng = np.random.default_rng(0)
    begin_us = 600_000_000 + rng.integers(0, 10**12, n_rows // 4)
    run_us = rng.integers(1, 10**10, n_rows // 4)
    with path.open("w") as file:
        for i, (at, run) in enumerate(zip(begin_us.tolist(), run_us.tolist(), strict=True)):
            for kind, after in ((0, 0), (2, 1), (3, 5_000_000), (6, 5_000_000 + run)):
                file.write(json.dumps({
                    "time": str(at + after), "type": kind, "collection_id": str(10**10 + i // 10),
                    "instance_index": i % 10, "scheduling_class": 2, "collection_type": 0, "priority": 200,
                    "alloc_collection_id": "0",
                    "machine_id": "168846390496", "resource_request": {"cpus": 0.0208, "memory": 0.0144}}) + "\n")


if __name__ == "__main__":
    run(__doc__, "google-2019", "instance_events-000000000000.json", LOADS, write, 400_000)
