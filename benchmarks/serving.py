"""What a prediction costs: single-row calls, curves built and looked up, import and load. All in one run.

    python benchmarks/serving.py [--json FILE] [--seed N] [--sizes 40x63 100x63 300x63]

Every figure is the median of many batches of calls on one thread, in processor time; the batches of all rows take
turns, so that a busy spell of the machine meets all of them. `x predict` is the ratio to LightGBM's own `predict`
of one row with the same model, `x fast` to its single-row-fast C call (what a C++ scheduler would make), `x empty` to
ONNX Runtime's `run` of a graph that does nothing. Loop overhead is measured and subtracted. LightGBM and ONNX Runtime
score a request at one age, each at another one; with the same age for all, a processor foresees more of their branches.

Rows called "distinct" ask requests of which each differs from all others in its numbers, so that none was parsed
before. In rows called "cold" another program's data fills the processor's caches before each call; each call is timed
by itself, with the clock's own cost subtracted.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lightgbm as lgb
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from sojourn.features.creation import FeatureRows, augment_uptime, build_rows, default_encoder
from sojourn.features.split import Examples, known_at
from sojourn.features.synthetic import synthesize
from sojourn.models import write_bundle
from sojourn.models.lifetime import Exported, Rows, person_periods
from sojourn.models.lifetime.gbdt import Boosted, boost
from sojourn.models.lifetime.intervals import fit_intervals
from sojourn.serving import Bundle, Predictor, load_bundle
from sojourn.serving.answers import CurveBuilder, curve_builder
from sojourn.serving.curves import HazardCurve, plain_curves
from sojourn.serving.forest import AgeFeatures, row_scores, varying_walk
from sojourn.serving.inputs import HistoryState
from sojourn.serving.native import NATIVE

SIZES = ((40, 63), (100, 63), (300, 63))
N_REQUESTS = 12_000
N_ROWS_MAX = 80_000
N_ROWS = 2_000
N_MANY = 10_000
N_AGED = 500
N_ENDED = 200
N_COLD, FLUSH_BYTES = 300, 64 << 20
BATCH_S = 0.001
N_BATCHES = 60
Call = tuple[Callable[[Any], object], Sequence[Any]]
"""A function, and the arguments of its calls in turn."""


@dataclass(frozen=True)
class Figure:
    """One measured cost: median microseconds of a call, and its ratios to the yardsticks.

    A cold row's yardsticks are LightGBM's calls after the same flush.
    """

    model: str
    what: str
    p50_us: float
    x_predict: float
    x_fast: float
    x_empty: float


def medians_us(calls: dict[str, Call]) -> dict[str, float]:
    """Median cost of each call in microseconds, the loop's own cost subtracted; each batch takes the next arguments."""
    firsts = dict.fromkeys(calls, 0)

    def loop(name: str, n: int) -> tuple[float, float]:
        function, arguments = calls[name]
        chosen = [arguments[(firsts[name] + idx) % len(arguments)] for idx in range(n)]
        firsts[name] += n
        started = time.thread_time()
        for argument in chosen:
            function(argument)
        ended = time.thread_time()
        for _ in chosen:
            pass
        return (ended - started) / n, (time.thread_time() - ended) / n

    sizes = {name: max(int(BATCH_S / max(min(loop(name, 20)[0] for _ in range(3)), 1e-8)), 20) for name in calls}
    batches = [{name: loop(name, n) for name, n in sizes.items()} for _ in range(N_BATCHES)]
    return {name: (statistics.median(batch[name][0] for batch in batches)
                   - statistics.median(batch[name][1] for batch in batches)) * 1e6 for name in calls}


def cold_us(call: Callable[[Any], object], arguments: Sequence[Any]) -> float:
    """Median cost of call(argument) in microseconds when the processor's caches hold other data; the clock's is off."""
    other = np.ones(FLUSH_BYTES // 8)
    spent, empty = [], []
    for argument in arguments[:N_COLD]:
        other += 1.0  # reads and writes more than any cache holds
        started = time.perf_counter()
        call(argument)
        spent.append(time.perf_counter() - started)
        started = time.perf_counter()
        empty.append(time.perf_counter() - started)
    return (statistics.median(spent) - statistics.median(empty)) * 1e6


def distinct(requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The requests with numbers that no other has: none was parsed before, and the owner key with the shape is new."""
    column = next(name for name, value in requests[0].items() if isinstance(value, float))
    return [request | {column: request[column] + 1e-9 * (idx + 1)} for idx, request in enumerate(requests)]


def batch_us(call: Callable[[], object], n_rows: int = N_MANY) -> float:
    """Median cost of a call on so many rows, in microseconds a row."""
    seconds = []
    for _ in range(7):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) / n_rows * 1e6


def empty_graph() -> Call:
    graph = helper.make_graph([helper.make_node("Identity", ["rows"], ["scores"])], "empty",
                              [helper.make_tensor_value_info("rows", TensorProto.DOUBLE, [1, 1])],
                              [helper.make_tensor_value_info("scores", TensorProto.DOUBLE, [1, 1])])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    row = np.zeros((1, 1))
    return (lambda _: session.run(["scores"], {"rows": row})), [None]


def fast_function(booster: lgb.Booster, n_features: int) -> tuple[Any, ctypes.c_void_p]:
    """LightGBM's single-row-fast C function, and its prepared first argument."""
    library = lgb.basic._LIB  # type: ignore[attr-defined]
    config = ctypes.c_void_p()
    raw_score, is_double = 1, 1
    code = library.LGBM_BoosterPredictForMatSingleRowFastInit(
        booster._handle, ctypes.c_int(raw_score), ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_int(is_double),
        ctypes.c_int32(n_features), ctypes.c_char_p(b"num_threads=1"), ctypes.byref(config))
    if code:
        raise RuntimeError(library.LGBM_GetLastError().decode())
    return library.LGBM_BoosterPredictForMatSingleRowFast, config


def fast_call(booster: lgb.Booster, n_features: int) -> Callable[[np.ndarray], object]:
    """LightGBM's single-row-fast C call, through ctypes."""
    function, config = fast_function(booster, n_features)
    length, score = ctypes.c_int64(), ctypes.c_double()
    length_at, score_at = ctypes.byref(length), ctypes.byref(score)
    return lambda row: function(config, ctypes.c_void_p(row.ctypes.data), length_at, score_at)


def rows_at(bundle: Bundle, features: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    """The requests as the forest reads them, each at an age at random; without rng all at the first age."""
    n, numbers = len(features), bundle.schema.numbers
    if bundle.schema.curves.has_hazards:
        return numbers.age_features.rows(features, np.zeros(n, int) if rng is None else
                                         rng.integers(0, len(numbers.offsets), n))
    return np.column_stack([features, np.zeros(n) if rng is None else np.floor(10.0 ** rng.uniform(0.0, 6.3, n))])


def hazard_model(examples: Examples, names: Sequence[str], n_trees: int, n_leaves: int,
                 rng: np.random.Generator) -> tuple[Boosted, Exported]:
    intervals = fit_intervals(examples)
    ages = AgeFeatures.of(names, intervals.edges)
    periods = person_periods(examples, intervals.edges)
    kept = np.sort(rng.permutation(len(periods.idx))[:N_ROWS_MAX])
    features = ages.rows(examples.features[periods.idx[kept]], periods.interval[kept])
    rows = Rows(features, periods.is_end[kept].astype(float), None, intervals.offsets[periods.interval[kept]])
    boosted = boost("binary", rows, None, n_varying=len(ages) + 1, n_rounds=n_trees, n_threads=1, params={
        "num_leaves": n_leaves, "min_data_in_leaf": 5})
    return boosted, Exported("hazard", boosted.forest, {
        "edges": intervals.edges.tolist(), "offsets": intervals.offsets.tolist(), "tail_s": intervals.tail_s,
        "grid": intervals.grid.tolist()}, ages)


def point_model(examples: Examples, names: Sequence[str], n_trees: int, n_leaves: int,
                rng: np.random.Generator) -> tuple[Boosted, Exported]:
    idx, uptime_s = augment_uptime(examples.lifetime_s, examples.entry_s)
    kept = np.sort(rng.permutation(len(idx))[:N_ROWS_MAX])
    left_s = np.maximum(examples.lifetime_s[idx[kept]] - uptime_s[kept], 1.0)
    rows = Rows(np.column_stack([examples.features[idx[kept]], uptime_s[kept]]), np.log10(left_s))
    boosted = boost("regression", rows, None, n_varying=1, n_rounds=n_trees, n_threads=1, params={
        "num_leaves": n_leaves, "min_data_in_leaf": 5})
    return boosted, Exported("uptime", boosted.forest, {
        "smearing": 1.5, "residuals": np.linspace(-1.5, 1.5, 201).tolist()})


def measure(name: str, boosted: Boosted, folder: Path, rows: FeatureRows, requests: list[dict[str, Any]], now_s: int,
            rng: np.random.Generator) -> list[Figure]:
    """All figures of one model."""
    bundle = load_bundle(folder)
    booster = lgb.Booster(model_str=boosted.text)
    features = rows.features[rng.integers(0, len(rows), N_ROWS)]
    full, young = (list(rows_at(bundle, features, at)[:, None, :]) for at in (rng, None))
    many = np.repeat(np.concatenate(full), N_MANY // N_ROWS, axis=0)[rng.permutation(N_MANY)]
    plain = features.tolist()
    compiled = CurveBuilder(bundle.schema, bundle.model)
    if NATIVE is None or compiled.first is None:
        raise RuntimeError("the extension must be built, got an installation without it: pip install -e .")
    with patch.object(curve_builder, "NATIVE", None):
        numba_alone = CurveBuilder(bundle.schema, bundle.model)
    portable = CurveBuilder(bundle.schema, bundle.model, is_compiled=False)
    predictor = Predictor(bundle)
    curve: Any = compiled.curve(plain[0])
    axis = plain_curves.Axis(curve.axis.first, curve.axis.second, curve.axis.smearing)
    plain_curve = (plain_curves.Hazard if isinstance(curve, HazardCurve) else plain_curves.Steps)(axis, curve.numbers)
    vm = predictor.predict(requests[0], now_s)
    uptimes_s = np.floor(10.0 ** rng.uniform(0.0, 6.3, 5_000)).tolist()
    scored = row_scores(compiled.forest)
    walk = varying_walk(compiled.forest, compiled.grid, bundle.schema.numbers.age_features)
    aged = np.repeat(many[:N_AGED], len(compiled.grid), axis=0)
    aged[:, -1] = np.tile(compiled.grid, N_AGED)
    fast = fast_call(booster, full[0].shape[1])

    def predict_row(row: np.ndarray) -> object:
        return booster.predict(row, raw_score=True, num_threads=1)

    def first(request: dict[str, Any]) -> object:
        return predictor.predict(request, now_s)

    recalibrating = Predictor(bundle, recalibrate=True) if bundle.schema.curves.has_hazards else None
    if recalibrating is not None:
        for k, request in enumerate(requests[:N_ENDED]):  # so that factors are learnt
            recalibrating.ended(recalibrating.admit(request, now_s), now_s + 60 * (k + 1))
    no_two = distinct(requests)
    vms = [predictor.predict(request, now_s) for request in requests[:N_COLD]]
    history, first_in_c = predictor._open.history, predictor._current.served.builder.first
    costs = medians_us({
        "LightGBM predict, one row": (predict_row, full),
        "LightGBM single-row-fast C call": (fast, full),
        "LightGBM single-row-fast C call, first age": (fast, young),
        "ONNX Runtime run, one row": (portable._onnx.scores, full),
        "ONNX Runtime run, empty graph": empty_graph(),
        "scores at all ages, extension": (compiled.first.scores, list(features)),
        "scores at all ages, numba": (numba_alone.scores, plain),
        "curve from features, extension": (compiled.first.of_features, list(features)),
        "curve from features, numba and Python": (numba_alone.curve, plain),
        "curve from features, ONNX Runtime": (portable.curve, plain),
        "curve from the raw dict, extension": (lambda request: first_in_c.first(
            request, now_s, history.moments, history.tables, history.rows.view), requests),
        "predict from the raw dict": (first, requests),
        **({"predict from the raw dict, recalibrated": (
            lambda request: recalibrating.predict(request, now_s), requests)} if recalibrating else {}),
        "predict from the raw dict, distinct": (first, no_two),
        "admit + withdraw, raw dict": (lambda request: predictor.withdraw(predictor.admit(request, now_s)), requests),
        "predict and remaining(0)": (lambda request: predictor.predict(request, now_s).remaining(0), requests),
        "remaining, float uptime": (vm.remaining, uptimes_s),
        "remaining, int uptime": (vm.remaining, [int(uptime_s) for uptime_s in uptimes_s]),
        "remaining, float uptime, plain Python": (plain_curve.remaining, uptimes_s),
        "next_change": (vm.next_change, uptimes_s),
        "survival": (lambda uptime_s: curve.survival(3_600.0, uptime_s), uptimes_s),
    }) | {
        "batch, a request: remaining_many, raw dicts": batch_us(
            lambda: predictor.remaining_many(requests, [0.0] * len(requests), now_s), len(requests)),
        "batch, a row: LightGBM predict": batch_us(lambda: booster.predict(many, raw_score=True, num_threads=1)),
        "batch, a row: compiled scores": batch_us(lambda: scored(many)),
        "batch, a row: LightGBM predict, all ages": batch_us(
            lambda: booster.predict(aged, raw_score=True, num_threads=1), N_AGED),
        "batch, a row: compiled, all ages": batch_us(lambda: walk.scores(many)),
        "cold: LightGBM predict, one row": cold_us(predict_row, full),
        "cold: LightGBM single-row-fast C call": cold_us(fast, full),
        "cold: predict from the raw dict": cold_us(first, requests),
        "cold: predict from the raw dict, distinct": cold_us(first, no_two[-N_COLD:]),
        "cold: remaining, another request each time": cold_us(lambda one: one.remaining(5_000.0), vms),
    }
    figures = []
    for what, cost in costs.items():
        cold = "cold: " if what.startswith("cold: ") else ""
        predict_us, fast_us = (costs[f"{cold}LightGBM {call}"] for call in ("predict, one row",
                                                                            "single-row-fast C call"))
        figures.append(Figure(name, what, round(cost, 3), round(cost / predict_us, 4), round(cost / fast_us, 4),
                              round(cost / costs["ONNX Runtime run, empty graph"], 3)))
    return figures


WAYS = {
    "extension": (), "numba alone": ("sojourn.serving.native.compiled",),
    "ONNX Runtime alone": ("sojourn.serving.native.compiled", "numba", "llvmlite"),
}
"""How first answers may be computed, by the modules that are missing."""
LOADING = """
import sys, time
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in sys.argv[2:]:
            raise ImportError(name)
sys.meta_path.insert(0, Blocker())
started = time.process_time()
from sojourn.serving import Predictor
imported = time.process_time()
predictor = Predictor.load(sys.argv[1])
loaded = time.process_time()
predictor.predict({}, 0).remaining(0.0)
import json, pathlib, resource
status = pathlib.Path("/proc/self/status")  # ru_maxrss may count the parent's memory, too
peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if status.exists():
    peak_kib = int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1])
print(json.dumps({"import_s": imported - started, "load_s": loaded - imported,
                  "first_answer_s": time.process_time() - loaded,
                  "peak_rss_mib": peak_kib / 1024}))
"""


def loading(folder: Path, blocked: Sequence[str]) -> dict[str, float]:
    """Import, load and first answer in a fresh process, s of CPU; the median of five after one that fills the caches.

    blocked: modules that cannot be imported. Byte code is cached, as pip leaves it, whatever this process's environment
    says; compiled code is, too.
    """
    with tempfile.TemporaryDirectory() as byte_code:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": byte_code}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        runs = [json.loads(subprocess.run([sys.executable, "-c", LOADING, str(folder), *blocked], capture_output=True,
                                          text=True, check=True, env=environment).stdout) for _ in range(6)][1:]
    return {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}


def report(figures: list[Figure], loads: dict[str, dict[str, float]]) -> str:
    width = max(len(figure.what) for figure in figures)
    lines = []
    for model in dict.fromkeys(figure.model for figure in figures):
        lines.append(f"{model:<{width}}  {'p50 us':>10}  {'x predict':>10}  {'x fast':>10}  {'x empty':>9}")
        lines += [f"{figure.what:<{width}}  {figure.p50_us:>10.3f}  {figure.x_predict:>10.4f}  {figure.x_fast:>10.4f}  "
                  f"{figure.x_empty:>9.3f}" for figure in figures if figure.model == model]
        lines.append("")
    lines.append(f"{'fresh process':<{width}}  {'import s':>10}  {'load s':>10}  {'first s':>9}  {'RSS MiB':>8}")
    lines += [f"{name:<{width}}  {load['import_s']:>10.2f}  {load['load_s']:>10.2f}  {load['first_answer_s']:>9.3f}  "
              f"{load['peak_rss_mib']:>8.0f}" for name, load in loads.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/benchmarks/serving.json"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sizes", nargs="+", default=[f"{n_trees}x{n_leaves}" for n_trees, n_leaves in SIZES])
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    trace = synthesize(N_REQUESTS, seed=options.seed)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    rows = build_rows(trace, encoder, history)
    examples = known_at(rows, np.ones(len(rows), bool), None)
    last = trace.requests.iloc[rows.idx_request]  # in order of arrival, with as many repetitions as there are
    requests = [dict(zip(encoder.columns(), values, strict=True))
                for values in last[list(encoder.columns())].astype(object).itertuples(index=False)]
    figures: list[Figure] = []
    loads: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as root:
        for n_trees, n_leaves in (map(int, size.split("x")) for size in options.sizes):
            for kind, train in (("hazard", hazard_model), ("point", point_model)):
                name = f"{kind} {n_trees}x{n_leaves}"
                print(f"training and measuring {name}", file=sys.stderr)
                boosted, exported = train(examples, rows.names, n_trees, n_leaves, rng)
                folder = write_bundle(Path(root) / name.replace(" ", "-"), kind, exported, encoder, history, {})
                figures += measure(name, boosted, folder, rows, requests, trace.horizon_s, rng)
                if kind == "hazard":
                    for what, blocked in WAYS.items():
                        loads[f"{name}, {what}"] = loading(folder, blocked)
    print(report(figures, loads))
    document = {
        "machine": {"cpu": platform.processor() or platform.machine(), "n_cpu": os.cpu_count(),
                    "load_average": os.getloadavg()[0], "python": platform.python_version(),
                    "lightgbm": lgb.__version__, "onnxruntime": ort.__version__, "numpy": np.__version__},
        "figures": [asdict(figure) for figure in figures],
        "fresh_process": loads,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
