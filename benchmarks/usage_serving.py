"""Microseconds of observe, usage and the answers of a usage section; median of rounds, ratio to a dict lookup.

    python benchmarks/usage_serving.py SECTION [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sojourn.serving import UsagePredictor

N_ROUNDS, N_CALLS = 9, 2_000
DAY_S = 86_400


def median_us(call: Callable[[int], object]) -> float:
    """Median over rounds of the mean time of a call, microseconds."""
    rounds = []
    for _ in range(N_ROUNDS):
        started = time.perf_counter()
        for i in range(N_CALLS):
            call(i)
        rounds.append((time.perf_counter() - started) / N_CALLS * 1e6)
    return float(np.median(rounds))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("section", type=Path, help="folder of a usage section")
    parser.add_argument("--json", type=Path, help="file for the figures")
    given = parser.parse_args()
    started = time.perf_counter()
    predictor = UsagePredictor.load(given.section)
    load_ms = (time.perf_counter() - started) * 1e3
    for time_s in range(0, 2 * DAY_S, 300):
        predictor.observe("old", time_s, 0.3)
        if time_s < 4 * 3600:
            predictor.observe("new", time_s, 0.3)
    names = {str(i): i for i in range(1_000)}
    old, new = predictor.usage("old"), predictor.usage("new")
    found = {
        "dict lookup": median_us(lambda i: names["7"]),
        "observe": median_us(lambda i: predictor.observe("old", i * 300, 0.3)),
        "usage, after a day": median_us(lambda i: predictor.usage("old")),
        "usage, newcomer with a class": median_us(lambda i: predictor.usage("new")),
        "usage, never heard of": median_us(lambda i: predictor.usage("nobody")),
        "at": median_us(lambda i: old.at(i * 300)),
        "peak of the next hour": median_us(lambda i: new.peak(i * 300, i * 300 + 3_600)),
        "next_busy": median_us(lambda i: new.next_busy(i * 300)),
    }
    print(f"load {load_ms:.0f} ms\n\n| call | us | times a dict lookup |\n|---|---|---|")
    for name, value in found.items():
        print(f"| {name} | {value:.2f} | {value / found['dict lookup']:.0f} |")
    if given.json:
        given.json.write_text(json.dumps({"load_ms": load_ms, "us": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
