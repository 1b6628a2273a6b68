"""What a snapshot of the live history costs: how long the lock is held, and what packing, writing and loading take.

    python benchmarks/snapshot.py [--owners 1000000] [--running 10000]

Owners of one key with a few ended requests each, and some that run. The lock's times are those for which no admission
can go on: while the cut is taken, and when it is given back.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from sojourn.serving.inputs import Encoder, HistoryDefinition, HistoryKey, HistoryState
from sojourn.serving.live import Admitted, LiveRequests, content_of, live_history, read_snapshot, write_snapshot

N_CUTS = 7
N_FEATURES = 54


def filled(n_owners: int, n_running: int) -> tuple[Encoder, HistoryState, LiveRequests]:
    """A history of so many owners, each with two ended requests, the last `n_running` of them with one that runs."""
    definition = HistoryDefinition((HistoryKey("owner", ("owner",), "owner"),), n_keys_max=max(n_owners, 1))
    encoder = Encoder((), ("owner",), definition)
    history, live = HistoryState(definition), LiveRequests()
    for idx in range(n_owners):
        keys = ((f"owner-{idx}",),)
        for _ in range(2):
            history.ended(history.admit(keys, idx), idx + 100)
        if idx >= n_owners - n_running:
            live.enter(Admitted(history.admit(keys, idx + 200), np.zeros(N_FEATURES), 0, (), "v1"))
    return encoder, history, live


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--owners", type=int, default=1_000_000)
    parser.add_argument("--running", type=int, default=10_000)
    options = parser.parse_args()
    encoder, history, live = filled(options.owners, options.running)
    held = []
    for _ in range(N_CUTS):
        started = time.perf_counter()
        cut, running = history.cut(), live.all()
        cut_s = time.perf_counter()
        history.release()
        held.append((cut_s - started) * 1e3)
    names = {"v1": tuple(f"f{idx}" for idx in range(N_FEATURES))}
    started = time.perf_counter()
    content = content_of(cut, encoder, running, names, 0)
    packed_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as root:
        write_snapshot(Path(root) / "snapshot", content)
        written_s = time.perf_counter()
        n_bytes = sum(path.stat().st_size for path in (Path(root) / "snapshot").iterdir())
        found = read_snapshot(Path(root) / "snapshot")
        if found is None:
            raise ValueError("the snapshot must be there, got none")
        again = live_history(found, encoder, "v1")
        loaded_s = time.perf_counter()
    if len(again.history) != len(history):
        raise ValueError(f"the history must come back whole, {len(history)} owners, got {len(again.history)}")
    print(f"{options.owners:,} owners, {options.running:,} running: lock held {statistics.median(held):.1f} ms "
          f"(median of {N_CUTS}, at most {max(held):.1f}); packed in {packed_s - started:.1f} s, written and synced in "
          f"{written_s - packed_s:.1f} s ({n_bytes / 2**20:.0f} MiB), read and checked in {loaded_s - written_s:.1f} s")


if __name__ == "__main__":
    main()
