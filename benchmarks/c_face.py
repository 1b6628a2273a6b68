"""What a prediction costs in exported C, beside the same bundle asked from Python. All in one run.

    python benchmarks/c_face.py [--json FILE] [--seed N]

Each figure is the median over batches of calls, in processor time of one thread; both sides take turns. In C the loop
is C, too, and its cost is part of the figure. `x Python` is the ratio to the curve builder and the curve as the
predictor uses them (compiled walk).
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.split import split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models import LIFETIME_MODELS, FitSettings, write_bundle
from sojourn.serving import Bundle, load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.c import c_source
from sojourn.serving.inputs import HistoryState

FAMILIES = ("hazard", "gbdt-uptime", "gbdt-once")
N_REQUESTS = 12_000
N_ASKED = 4_096
BATCH_S = 0.004
N_BATCHES = 60
LOOKUPS = {"remaining": "", "quantile": "0.9, ", "survival": "3600.0, ", "next_change": "", "lifetime_class": ""}
"""Calls on a curve, with what they take before the uptime."""
FILL_C = """#include "m.h"
unsigned long curve_bytes(void) { return sizeof(m_curve); }
double fill(const double *features, int n, int n_calls)
{
    m_curve curve;
    double sum = 0.0;
    for (int idx = 0; idx < n_calls; idx++) {
        m_curve_fill(&curve, features + (long)(idx % n) * M_N_FEATURES);
        sum += m_remaining(&curve, 0.0);
    }
    return sum;
}
"""
LOOKUP_C = Template("""
double $call(const double *features, const double *uptimes_s, int n, int n_calls)
{
    m_curve curve;
    double sum = 0.0;
    m_curve_fill(&curve, features);
    for (int idx = 0; idx < n_calls; idx++) {
        sum += m_$call(&curve, ${before}uptimes_s[idx % n]);
    }
    return sum;
}
""")


@dataclass(frozen=True)
class Figure:
    """One measured cost: median nanoseconds of a call in C and, where Python has the same, its ratio to that."""

    model: str
    what: str
    p50_ns: float
    x_python: float | None


def medians_ns(*batches: Callable[[int], object]) -> list[float]:
    """Median cost in nanoseconds of one of the calls of each batch(number of calls); batches take turns."""
    def timed(batch: Callable[[int], object], n: int) -> float:
        started = time.thread_time()
        batch(n)
        return (time.thread_time() - started) / n

    def enough(batch: Callable[[int], object], n: int = 16) -> int:
        return n if timed(batch, n) * n >= BATCH_S else enough(batch, 2 * n)

    n_calls = [enough(batch) for batch in batches]
    turns = [[timed(batch, n) for batch, n in zip(batches, n_calls, strict=True)] for _ in range(N_BATCHES)]
    return [statistics.median(times) * 1e9 for times in zip(*turns, strict=True)]


def compiled(bundle: Bundle, folder: Path) -> tuple[ctypes.CDLL, int]:
    """The exported model with its loops, and the size of its object code in bytes."""
    c_source(bundle, "m").write(folder)
    calls = [LOOKUP_C.substitute(call=call, before=before) for call, before in LOOKUPS.items()]
    (folder / "loops.c").write_text("".join([FILL_C, *calls]))
    flags = ["gcc", "-std=c99", "-O2", "-ffp-contract=off", "-fPIC"]
    for part in ("m", "loops"):
        subprocess.run([*flags, "-c", str(folder / f"{part}.c"), "-o", str(folder / f"{part}.o")], check=True)
    target, model = folder / "m.so", folder / "m.o"
    subprocess.run(["gcc", "-shared", str(model), str(folder / "loops.o"), "-o", str(target), "-lm"], check=True)
    return ctypes.CDLL(str(target)), model.stat().st_size


def measure(family: str, bundle: Bundle, folder: Path, features: np.ndarray, uptimes_s: np.ndarray) -> list[Figure]:
    """All figures of one model."""
    library, n_bytes = compiled(bundle, folder)
    builder = CurveBuilder(bundle.schema, bundle.model)
    rows, asked = features.tolist(), uptimes_s.tolist()
    curve = builder.curve(rows[0])
    n = ctypes.c_int(len(rows))
    costs = {"curve built": medians_ns(lambda calls: library.fill(at(features), n, calls),
                                       lambda calls: [builder.curve(row) for row in cycled(rows, calls)])}
    for call, before in LOOKUPS.items():
        batches: list[Callable[[int], object]] = [lambda calls, function=library[call]: function(  # type: ignore[misc]
            at(features), at(uptimes_s), ctypes.c_int(len(asked)), calls)]  # fmt: skip
        if call != "lifetime_class":  # in Python a method of the handle, not of the curve
            given = tuple(float(text) for text in before.split(",") if text.strip())
            method = getattr(curve, call)
            batches.append(lambda calls, method=method, given=given: [  # type: ignore[misc]
                method(*given, uptime_s) for uptime_s in cycled(asked, calls)])  # fmt: skip
        costs[call] = medians_ns(*batches)
    forest = builder.forest
    name = f"{family}, {len(forest.roots)} trees, {len(forest.leaves)} leaves"
    print(f"{name}: a curve of {library.curve_bytes()} bytes, object code of {n_bytes / 1024:.0f} KiB")
    return [Figure(name, what, round(cost, 1), round(cost / python[0], 5) if python else None)
            for what, (cost, *python) in costs.items()]


def cycled(values: list[Any], n: int) -> Iterator[Any]:
    """The first n of the values, begun again as often as needed."""
    return itertools.islice(itertools.cycle(values), n)


def at(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def main() -> None:
    """Train each family on a synthetic trace, export it, print a table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/benchmarks/c_face.json"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    trace = synthesize(N_REQUESTS, seed=options.seed)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    rows = build_rows(trace, encoder, history)
    split = split_by_time(rows)
    settings = FitSettings(backoff_keys(encoder), n_threads=1, seed=options.seed, names=rows.names)
    features = np.ascontiguousarray(split.test.features[rng.integers(0, len(split.test), 500)])
    uptimes_s = np.floor(10.0 ** rng.uniform(0.0, 6.3, N_ASKED))
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as root:
        for family in FAMILIES:
            exported = LIFETIME_MODELS[family]().fit(split.train, split.valid, split.past, settings).export()
            if exported is None:
                raise ValueError(f"families must be ones that are served, got {family!r}")
            folder = write_bundle(Path(root) / family, family, exported, encoder, history, {})
            work = Path(root) / f"{family}-c"
            work.mkdir()
            figures += measure(family, load_bundle(folder), work, features, uptimes_s)
    for model in dict.fromkeys(figure.model for figure in figures):
        print(f"\n{model:<48}{'p50 ns':>10}{'x Python':>10}")
        for figure in figures:
            if figure.model == model:
                ratio = "-" if figure.x_python is None else f"{figure.x_python:.4f}"
                print(f"{figure.what:<48}{figure.p50_ns:>10.1f}{ratio:>10}")
    document = {
        "machine": {"cpu": platform.processor() or platform.machine(), "n_cpu": os.cpu_count(),
                    "load_average": os.getloadavg()[0], "python": platform.python_version()},
        "figures": [asdict(figure) for figure in figures],
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1) + "\n")
    print(f"\nwritten to {options.json}")


if __name__ == "__main__":
    main()
