"""One of several processes that grow the same trees, each on its share of the rows (LightGBM's data-parallel learner).

It is started by a worker of `dask_boosting`, in a process of its own: a rank whose peer has died waits in LightGBM for
ever, and a process can be killed. `python -m sojourn.flows.workers.boost_shard FOLDER RANK ATTEMPT N_THREADS` ends when
its standard input does."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from pathlib import Path

import numpy as np

from sojourn.models.lifetime import Rows, Trees, grown
from sojourn.publishing import whole_file

SETTINGS = "settings.json"
_NETWORK = re.compile(r"^\[(machines|local_listen_port|num_machines|time_out|num_threads): .*\]\n", re.MULTILINE)
"""Lines of LightGBM's text that say where the trees were grown."""


def write_rows(rows: Rows, file: Path) -> None:
    """Write rows to a file of plain arrays."""
    arrays = {"features": rows.features, "label": rows.label, "weight": rows.weight, "init_score": rows.init_score}
    with whole_file(file) as temporary, temporary.open("wb") as out:
        np.savez(out, allow_pickle=False, **{name: array for name, array in arrays.items() if array is not None})


def read_rows(file: Path) -> Rows:
    """The rows that `write_rows` wrote."""
    with np.load(file, allow_pickle=False) as arrays:
        return Rows(arrays["features"], arrays["label"], arrays.get("weight"), arrays.get("init_score"))


def shard_file(folder: Path, rank: int) -> Path:
    """Where the rows of a rank are."""
    return folder / f"shard-{rank:03d}.npz"


def valid_file(folder: Path) -> Path:
    """Where the validation rows are, of which each rank has all: so all of them stop at the same round."""
    return folder / "valid.npz"


def machines_file(folder: Path, attempt: int) -> Path:
    """Where the addresses of all ranks are, in their order."""
    return folder / f"machines-{attempt}.json"


def trees_file(folder: Path, attempt: int) -> Path:
    """Where rank 0 leaves the trees."""
    return folder / f"trees-{attempt}.npz"


def read_trees(file: Path) -> Trees:
    """The trees of a finished attempt."""
    with np.load(file, allow_pickle=False) as arrays:
        return Trees(str(arrays["text"]), int(arrays["n_rounds"]), arrays["gain"])


def grow_shard(folder: Path, rank: int, attempt: int, n_threads: int) -> None:
    """Grow the trees together with the other ranks; rank 0 writes them."""
    asked = json.loads((folder / SETTINGS).read_text())
    machines = json.loads(machines_file(folder, attempt).read_text())
    settings = {**asked["settings"], "num_threads": n_threads, "tree_learner": "data", "pre_partition": True,
                "num_machines": len(machines), "machines": ",".join(machines), "time_out": 2,
                "local_listen_port": int(machines[rank].rpartition(":")[2])}
    valid = valid_file(folder)
    trees = grown(settings, read_rows(shard_file(folder, rank)), read_rows(valid) if valid.exists() else None,
                  asked["n_rounds"])
    if rank == 0:
        with whole_file(trees_file(folder, attempt)) as temporary, temporary.open("wb") as out:
            np.savez(out, text=np.array(_NETWORK.sub("", trees.text)), n_rounds=trees.n_rounds, gain=trees.gain)


def _end_with_input() -> None:
    while os.read(0, 1):  # sys.stdin would hold a lock at the interpreter's end
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    grow_shard(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
