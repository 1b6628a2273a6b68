"""The encoder and the owner history of exported C beside Python's: what a call costs, and how many rows differ.

    python benchmarks/c_history.py [--rows N]

Of the installed example bundle. Costs are the least of several batches in processor time, both sides in turns: 20,000
requests of 2,000 deployments arrive, and each ends 5,000 arrivals later. Then N rows of four drawn streams (arrivals,
waits, ends, withdrawals, clocks that go back, missing values, full tables) are compared bit by bit.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from made_c_history import CHistory, changed, replayed
from sojourn.serving import example_bundle, load_bundle
from sojourn.serving.c import c_source
from sojourn.serving.inputs import Encoder, Parsed, Receipt

N, N_OPEN, FIRST_S = 20_000, 5_000, 1_700_000_000
CALLS = ("parse", "encode", "admit", "ended")
LOOP_C = """
#define M_IMPLEMENTATION
#include "m.h"
static m_parsed parsed[N];
static int64_t ids[N];
void begin(void *memory) { m_state_begin(memory, 150000, N_OPEN + 1000); }
size_t size(void) { return m_state_size(150000, N_OPEN + 1000); }
void parse(m_state *state, const m_request *requests, int from)
{
    (void)state;
    for (int idx = from; idx < from + 1000; idx++) m_parse(&parsed[idx], &requests[idx]);
}
double encode(m_state *state, const m_request *requests, int from)
{
    double features[M_N_FEATURES], sum = 0.0;
    (void)requests;
    for (int idx = from; idx < from + 1000; idx++) {
        m_encode(state, &parsed[idx], FIRST_S + idx, features);
        sum += features[M_N_FEATURES - 1];
    }
    return sum;
}
void admit(m_state *state, const m_request *requests, int from)
{
    (void)requests;
    for (int idx = from; idx < from + 1000; idx++) ids[idx] = m_admit(state, &parsed[idx], FIRST_S + idx);
}
void ended(m_state *state, const m_request *requests, int from)
{
    (void)requests;
    for (int idx = from - N_OPEN; idx >= 0 && idx < from + 1000 - N_OPEN; idx++) {
        m_ended(state, ids[idx], FIRST_S + from + 1000.0);
    }
}
"""


def requests_of(encoder: Encoder) -> list[dict[str, float | str]]:
    """Requests of 200 subscriptions with ten deployments each."""
    rng = random.Random(1)
    drawn = []
    for _ in range(N):
        one = rng.randrange(2_000)
        names = {"subscription": f"s{one % 200}", "deployment": f"deployment-{one}", "zone": "eu-1"}
        drawn.append({column: names.get(column, "batch") for column in encoder.names}
                     | {column: rng.choice((1.0, 2.0, 3.75)) for column in encoder.numbers})
    return drawn


def in_c_loop(folder: Path) -> tuple[ctypes.CDLL, Any]:
    """The loops over the calls, and the requests."""
    bundle = load_bundle(example_bundle())
    encoder = bundle.schema.encoder
    c_source(bundle, "m").write(folder)
    (folder / "loop.c").write_text(LOOP_C)
    subprocess.run(["gcc", "-std=c99", "-O2", "-shared", "-fPIC", f"-DN={N}", f"-DN_OPEN={N_OPEN}",
                    f"-DFIRST_S={FIRST_S}.0", str(folder / "loop.c"), "-o", str(folder / "loop.so"), "-lm"], check=True)
    library = ctypes.CDLL(str(folder / "loop.so"))
    library.size.restype = ctypes.c_size_t

    class Request(ctypes.Structure):
        _fields_ = (("numbers", ctypes.c_double * len(encoder.numbers)),
                    ("texts", ctypes.c_char_p * len(encoder.names)), ("n_bytes", ctypes.c_size_t * len(encoder.names)))

    requests = (Request * N)()
    for at, given in zip(requests, requests_of(encoder), strict=True):
        for idx, column in enumerate(encoder.numbers):
            at.numbers[idx] = given[column]
        for idx, column in enumerate(encoder.names):
            at.texts[idx] = str(given[column]).encode()
            at.n_bytes[idx] = len(str(given[column]))
    return library, requests


def costs_in_c(library: ctypes.CDLL, requests: Any) -> list[float]:
    """Nanoseconds of each call."""
    memory = np.zeros(library.size() // 8 + 2)
    state = ctypes.c_void_p(memory.ctypes.data)
    library.begin(state)
    return spent_ns([partial(library[call], state, requests) for call in CALLS])


def costs_in_python() -> list[float]:
    """Nanoseconds of each call."""
    bundle = load_bundle(example_bundle())
    encoder, state = bundle.schema.encoder, bundle.history
    given, parsed, receipts = requests_of(encoder), dict[int, Parsed](), dict[int, Receipt]()

    def parse(start: int) -> None:
        for idx in range(start, start + 1_000):
            parsed[idx] = encoder.parse(given[idx])

    def encode(start: int) -> None:
        for idx in range(start, start + 1_000):
            encoder.encode(parsed[idx], FIRST_S + idx, state)

    def admit(start: int) -> None:
        for idx in range(start, start + 1_000):
            receipts[idx] = state.admit(parsed[idx].keys, FIRST_S + idx)

    def ended(start: int) -> None:
        for idx in range(max(start - N_OPEN, 0), max(start + 1_000 - N_OPEN, 0)):
            state.ended(receipts.pop(idx), FIRST_S + start + 1_000)

    return spent_ns([parse, encode, admit, ended])


def spent_ns(calls: list[Callable[[int], object]]) -> list[float]:
    """The least processor time of a call over batches of 1,000, after the first 6,000."""
    least = [float("inf")] * len(calls)
    for start in range(0, N, 1_000):
        for idx, call in enumerate(calls):
            begun = time.thread_time()
            call(start)
            if start > N_OPEN:
                least[idx] = min(least[idx], (time.thread_time() - begun) * 1e6)
    return least


def compare(n: int, folder: Path) -> int:
    """How many rows of four streams were compared; AssertionError at the first that differs."""
    streams: tuple[tuple[int, int, int, int, dict[str, Any]], ...] = (
        (1, 150_000, 3_000, 300, {}), (2, 150_000, 30, 200, {}), (3, 500, 3_000, 100, {"instant_s": 60}),
        (4, 450, 2_000, 60, {"category_memory": 5, "prior_strength": 0.5, "batch_gap_s": 0, "window": 1}))
    for seed, n_keys, n_owners, n_open, changes in streams:
        bundle = changed(load_bundle(example_bundle()), **changes)
        own = folder / f"stream{seed}"  # a loader takes a file of the same path for the one that it has
        own.mkdir()
        in_c = CHistory(own, bundle, n_keys, n_open)
        counts = replayed(random.Random(seed), changed(bundle, n_keys_max=n_keys), in_c, n // len(streams), FIRST_S,
                          n_owners, n_open)
        print(f"stream {seed}: {n // len(streams):,} rows, 0 differ; {counts}", flush=True)
    return n // len(streams) * len(streams)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        loaded = in_c_loop(Path(root))
        rounds = [(costs_in_c(*loaded), costs_in_python()) for _ in range(3)]
        in_c, in_python = (np.min([each[side] for each in rounds], axis=0) for side in (0, 1))
        print(f"{'':10}{'C, ns':>10}{'Python, ns':>12}{'ratio':>8}")
        for call, own, other in zip(CALLS, in_c.tolist(), in_python.tolist(), strict=True):
            print(f"{call:10}{own:>10.0f}{other:>12.0f}{own / other:>8.3f}")
        n_rows, n_features = compare(options.rows, Path(root)), len(load_bundle(example_bundle()).schema.feature_names)
        print(f"{n_rows:,} rows compared, of {n_features} features")


if __name__ == "__main__":
    main()
