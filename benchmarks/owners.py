"""Does a full table of owners stay flat? Streams distinct owners through the history's default bound.

    python benchmarks/owners.py [--owners 10000000] [--ended 1] [--json FILE]

Each owner's requests arrive, some are withdrawn, the others end, the last of them some thousand owners later. Fails
where resident memory at the end lies above that after four times the bound by more than the tolerance, or where a full
table takes more than it may.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path

from sojourn.serving.inputs import HistoryDefinition, HistoryKey, HistoryState, Receipt

DEFINITION = HistoryDefinition((HistoryKey("user", ("user",), "owner"),))
N_ROUNDS = 20
N_RUNNING = 5_000
STEP_S = 30
TOLERANCE_MIB, FULL_MIB = 12.0, 150e6 / 2**20
"""How far memory may rise once the table is full (its dict is made anew now and then: 10 MiB), and what it may take."""
N_FULL = 4
"""Full, and its dict made anew a few times, after so many times the bound."""


@dataclass(frozen=True)
class Round:
    """What stood at the end of one round."""

    n_owners: int
    n_kept: int
    rss_mib: float
    us_per_request: float


def rss_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def stream(state: HistoryState, running: deque[Receipt], first: int, n: int, n_ended: int) -> None:
    for number in range(first, first + n):
        key = ((f"subscription-{number:012d}",),)
        now_s = STEP_S * number
        for _ in range(n_ended):
            running.append(state.admit(key, now_s))
            if len(running) > N_RUNNING:
                state.ended(running.popleft(), now_s)
        if number % 5 == 0:
            state.withdraw(state.admit(key, now_s))


def row(found: Round) -> str:
    return f"{found.n_owners:>12,}  {found.n_kept:>9,}  {found.rss_mib:>8.1f}  {found.us_per_request:>10.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--owners", type=int, default=10_000_000)
    parser.add_argument("--ended", type=int, default=1, help="ended requests of each owner")
    parser.add_argument("--json", type=Path, default=Path(".sojourn/benchmarks/owners.json"))
    options = parser.parse_args()
    n_max = DEFINITION.n_keys_max
    if options.owners < (N_FULL + 1) * n_max or options.ended < 1:
        parser.error(f"--owners must be at least {(N_FULL + 1) * n_max} and --ended at least 1, "
                     f"got {options.owners} and {options.ended}")
    state, running = HistoryState(DEFINITION), deque[Receipt]()
    empty_mib = rss_mib()
    print(f"{'owners':>12}  {'kept':>9}  {'RSS MiB':>8}  {'us/request':>10}")
    n_full = N_FULL * n_max
    bounds = [n_full + (options.owners - n_full) * idx // N_ROUNDS for idx in range(N_ROUNDS + 1)]
    rounds: list[Round] = []
    for first, stop in zip([0, *bounds], bounds, strict=False):
        began_s = time.process_time()
        stream(state, running, first, stop - first, options.ended)
        us = (time.process_time() - began_s) * 1e6 / (stop - first) / (options.ended + 0.2)
        rounds.append(Round(stop, len(state), round(rss_mib(), 1), round(us, 2)))
        print(row(rounds[-1]), flush=True)
    full_mib, end_mib = rounds[0].rss_mib - empty_mib, rounds[-1].rss_mib - empty_mib
    print(f"a full table of {n_max:,} owners: {full_mib:.1f} MiB, {end_mib:.1f} at the end; "
          f"{end_mib * 2**20 / n_max:.0f} bytes per owner")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({
        "n_cpu": os.cpu_count(), "load_average": os.getloadavg()[0], "n_ended": options.ended, "full_mib": full_mib,
        "end_mib": end_mib, "rounds": [asdict(found) for found in rounds],
    }, indent=1) + "\n")  # fmt: skip
    if len(state) != n_max:
        sys.exit(f"the table must be full with {n_max} owners, got {len(state)}")
    if end_mib > min(full_mib + TOLERANCE_MIB, FULL_MIB):
        sys.exit(f"memory must stay flat: at most {min(full_mib + TOLERANCE_MIB, FULL_MIB):.1f} MiB, "
                 f"got {end_mib:.1f}")


if __name__ == "__main__":
    main()
