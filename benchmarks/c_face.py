"""What a prediction costs in exported C, beside the same bundle asked from Python. All in one run.

    python benchmarks/c_face.py [--json FILE] [--seed N]

Each figure is the median over batches of calls, in processor time of one thread; both sides take turns. In C the loop
is C, too, and its cost is part of the figure. `x Python` is the ratio to the curve builder and the curve as the
predictor uses them (compiled walk).

The last table compares a whole curve with LightGBM's single-row-fast C call, which scores one row at one age: p50 and
p99 of single calls from C on one core, by the wall clock less the clock's own cost; calls take turns by the row, and
figures are medians of 15 such series. Rows are each at an age at random, or all at the first age. If treelite and
tl2cgen are installed, their C of the same model is in it, too. The 1,000,000 rows of `--rows` are scored at every age
by the C and by the compiled walk, and must have the same bits.
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
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Any

import lightgbm as lgb
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.serving import fast_function, hazard_model, rows_at

from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.split import known_at, split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models import LIFETIME_MODELS, FitSettings, write_bundle
from sojourn.models.lifetime import Exported
from sojourn.models.lifetime.gbdt import Boosted
from sojourn.serving import Bundle, load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.c import c_source
from sojourn.serving.forest import varying_walk
from sojourn.serving.inputs import HistoryState

FAMILIES = ("hazard", "gbdt-uptime", "gbdt-once")
N_REQUESTS = 12_000
N_ASKED = 4_096
BATCH_S = 0.004
N_BATCHES = 60
N_SINGLE, N_TURNS = 4_000, 15
SIZES = ((100, 63), (200, 32))
LOOKUPS = {"remaining": "", "quantile": "0.9, ", "survival": "3600.0, ", "next_change": "", "lifetime_class": ""}
"""Calls on a curve, with what they take before the uptime."""
FILL_C = """#define M_IMPLEMENTATION
#include "m.h"
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
SINGLE_C = """
#include <time.h>
static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}
typedef int (*fast_call)(void *, const void *, int64_t *, double *);
typedef double (*other_call)(const double *);
/* Nanoseconds of a curve, of LightGBM's call, of another function and of the clock, for each of n_calls rows. */
double single(const double *features, const double *rows, int n_row, int n, int n_calls, fast_call fast, void *config,
              other_call other, double *ns)
{
    m_curve curve;
    double sum = 0.0, score = 0.0;
    int64_t length;
    for (int idx = 0; idx < n_calls; idx++) {
        const double *row = rows + (long)(idx % n) * n_row;
        double at[5];
        at[0] = now_ns();
        m_curve_fill(&curve, features + (long)(idx % n) * M_N_FEATURES);
        at[1] = now_ns();
        fast(config, row, &length, &score);
        at[2] = now_ns();
        sum += score + curve.rates[0] + (other ? other(row) : 0.0);
        at[3] = now_ns();
        at[4] = now_ns();
        for (int part = 0; part < 4; part++) {
            ns[(long)part * n_calls + idx] = at[part + 1] - at[part];
        }
    }
    return sum;
}
void curves(const double *features, long n, double *rates)
{
    m_curve curve;
    for (long idx = 0; idx < n; idx++) {
        m_curve_fill(&curve, features + idx * M_N_FEATURES);
        memcpy(rates + idx * (M_N_STEPS + 1), curve.rates, sizeof curve.rates);
    }
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


def compiled(bundle: Bundle, folder: Path, more: str = "") -> tuple[ctypes.CDLL, int]:
    """The exported model with its loops, and the size of its object code in bytes."""
    c_source(bundle, "m").write(folder)
    calls = [LOOKUP_C.substitute(call=call, before=before) for call, before in LOOKUPS.items()]
    (folder / "loops.c").write_text("".join([FILL_C, *calls, more]))
    target = folder / "m.so"
    subprocess.run(["gcc", "-std=gnu99", "-O2", "-fPIC", "-shared", str(folder / "loops.c"), "-o", str(target), "-lm"],
                   check=True)
    return ctypes.CDLL(str(target)), target.stat().st_size


OTHER_C = Template("""#include <math.h>
#include "header.h"
double other(const double *row)
{
    union Entry entries[$n_row];
    double score = 0.0;
    for (int idx = 0; idx < $n_row; idx++) {
        if (isnan(row[idx])) {
            entries[idx].missing = -1;
        } else {
            entries[idx].fvalue = row[idx];
        }
    }
    predict(entries, 1, &score);
    return score;
}
""")


def other_function(text: str, n_row: int, folder: Path) -> Any:
    """The raw score of a row by tl2cgen's C of a LightGBM model; None if treelite and tl2cgen are not installed."""
    try:
        import tl2cgen
        import treelite
    except ImportError:
        return None
    tl2cgen.generate_c_code(treelite.frontend.from_lightgbm(lgb.Booster(model_str=text)), str(folder / "other"), {})
    (folder / "other" / "adapter.c").write_text(OTHER_C.substitute(n_row=n_row))
    target = folder / "other.so"
    sources = sorted(map(str, (folder / "other").glob("*.c")))
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", *sources, "-o", str(target), "-lm"], check=True)
    return ctypes.cast(ctypes.CDLL(str(target)).other, ctypes.c_void_p)


def against_lightgbm(exported: Exported, boosted: Boosted, bundle: Bundle, folder: Path, features: np.ndarray,
                     n_rows: int) -> None:
    """Print p50 and p99 of a whole curve beside LightGBM's fast call, and check the bits of n_rows rows."""
    library, n_bytes = compiled(bundle, folder, SINGLE_C)
    width = bundle.schema.n_features - features.shape[1]
    booster = lgb.Booster(model_str=boosted.text)  # kept: the function's argument points into it
    function, config = fast_function(booster, bundle.schema.n_features)
    other = other_function(boosted.text, bundle.schema.n_features, folder)
    forest = exported.forest
    print(f"\n{len(forest.roots)} trees, {len(forest.feature)} nodes, {len(forest.leaves)} leaves, object code of "
          f"{n_bytes / 1024:.0f} KiB{'':10}{'p50 ns':>10}{'p99 ns':>10}")
    for ages, at_random in (("an age at random", np.random.default_rng(0)), ("the first age", None)):
        rows = np.ascontiguousarray(rows_at(bundle, features, at_random))
        turns = []
        for _ in range(N_TURNS):
            ns = np.empty((4, N_SINGLE))
            library.single(at(features), at(rows), ctypes.c_int(rows.shape[1]), ctypes.c_int(len(rows)),
                           ctypes.c_int(N_SINGLE), ctypes.cast(function, ctypes.c_void_p), config, other, at(ns))
            turns.append(np.quantile(ns[:3], (0.5, 0.99), axis=1).T - statistics.median(ns[3]))
        quantiles = np.median(turns, axis=0)
        costs = [("curve, all ages", quantiles[0]), (f"LightGBM's fast call, {ages}", quantiles[1]),
                 *([(f"tl2cgen's C, {ages}", quantiles[2])] if other else []),
                 ("curve over the fast call", np.median([turn[0] / turn[1] for turn in turns], axis=0))]
        for what, found in costs:
            print(f"{what:<48}{found[0]:>10.4g}{found[1]:>10.4g}")
    rng = np.random.default_rng(0)
    many = np.ascontiguousarray(features[rng.integers(0, len(features), n_rows)])
    many = many + np.where(rng.random(many.shape) < 0.5, 0.0, rng.normal(0.0, 1.0, many.shape))
    rates = np.empty((n_rows, len(bundle.schema.numbers.offsets) + 1))
    library.curves(at(many), ctypes.c_long(n_rows), at(rates))
    builder = CurveBuilder(bundle.schema, bundle.model)
    walk = varying_walk(builder.forest, builder.grid, bundle.schema.numbers.age_features)
    scores = walk.scores(np.column_stack([many, np.zeros((n_rows, width))]))
    n_rates = rates.shape[1]
    for found, each, row in zip(rates, scores, many.tolist(), strict=True):
        if found.tobytes() != builder._curve_of_scores(each, row).numbers[:n_rates].tobytes():  # type: ignore[union-attr]
            raise ValueError(f"rates must have the bits of Python's, got others for {row!r}")
    print(f"{n_rows} rows at {scores.shape[1]} ages: the bits of Python")


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
    parser.add_argument("--rows", type=int, default=20_000)
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
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
    examples = known_at(rows, np.ones(len(rows), bool), None)
    with tempfile.TemporaryDirectory() as root:
        for n_trees, n_leaves in SIZES:
            boosted, exported = hazard_model(examples, rows.names, n_trees, n_leaves, rng)
            folder = write_bundle(Path(root) / f"{n_trees}", "hazard", exported, encoder, history, {})
            against_lightgbm(exported, boosted, load_bundle(folder), folder, features, options.rows)
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
