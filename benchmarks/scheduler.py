"""What a scheduler's inner loop costs: decisions with exact host exits, repredictions in batches and in compiled code.

    python benchmarks/scheduler.py [--json FILE] [--seed N]

A decision strikes a leaving request off its host, brings all hosts' exits up to the clock, chooses a host as NILAS
does and places the request there; the prediction itself (`admit`) is not counted. Hosts are full of requests of all
ages, and each leaves with the same chance, so that as many come as go. Decisions are timed by the clock and batches
by the thread's own time, as a shared machine takes the processor away from whatever lasts; medians of both. The batch
that LightGBM is asked for is smaller (20,000 rows); both are told per row.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

if "--blocked" in sys.argv:
    class _Blocker:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name.split(".")[0] in ("numba", "llvmlite"):
                raise ImportError(name)
    sys.meta_path.insert(0, _Blocker())

import numpy as np

from sojourn.serving import CurvePool, HostExits, Lifetime, load_bundle, remaining_at
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.curves import IS_COMPILED

N_HOSTS, N_PER_HOST = 10_000, 10
N_DECISIONS, N_WARM = 3_000, 500
N_CURVES, N_ASKED = 4_000, 1_000_000
N_RUNS = 9
N_LIGHTGBM = 20_000
GAPS_S = (1, 10)
BUCKET_S = np.array([0, 30, 60, 90, 120, 180, 240, 360, 720, 1_440, 10_080]) * 60.0
CORES = np.array([1, 2, 4, 8], np.int32)
HOST_CORES, HOST_GIB = 64, 256


def choose(free_cores: np.ndarray, free_gib: np.ndarray, exits_s: np.ndarray, cores: int, gib: int,
           exit_s: float) -> int:
    """The host in the least bucket of extended exit, fewest free cores, lowest number; -1 where none fits."""
    fits = (free_cores >= cores) & (free_gib >= gib)
    latest_s = (exits_s * fits).max()  # exits are positive
    if latest_s == 0.0:
        return -1
    bound_s = np.append(BUCKET_S[1:], np.inf)[np.searchsorted(BUCKET_S[1:], exit_s - latest_s, side="right")]
    fits &= exits_s > exit_s - bound_s
    hosts = np.flatnonzero(fits)
    return int(hosts[free_cores[hosts].argmin()])


def choose_compiled(free_cores: Any, free_gib: Any, exits_s: Any, cores: Any, gib: Any, exit_s: Any) -> Any:
    """The same, as loops for numba that the compiler turns into operations on 8 hosts at once.

    It does so for the greatest of whole numbers, not of floats; positive floats have the order of their bits.
    """
    bits, latest = exits_s.view(np.int64), 0
    for host in range(len(exits_s)):
        fits = (free_cores[host] >= cores) & (free_gib[host] >= gib)
        latest = max(latest, bits[host] if fits else 0)
    if latest == 0:
        return -1
    least_s = exit_s - np.int64(latest).view(np.float64)
    bound_s = np.inf
    for idx in range(len(BUCKET_S) - 1, 0, -1):
        if least_s < BUCKET_S[idx]:
            bound_s = BUCKET_S[idx]
    most = np.int32(HOST_CORES + 1)
    fewest = most
    for host in range(len(exits_s)):
        fits = (free_cores[host] >= cores) & (free_gib[host] >= gib) & (exit_s - exits_s[host] < bound_s)
        fewest = min(fewest, free_cores[host] if fits else most)
    for host in range(len(exits_s)):
        if free_cores[host] == fewest and free_gib[host] >= gib and exit_s - exits_s[host] < bound_s:
            return host
    return -1


def sum_of_lookups(curves: Any, slots: Any, uptimes_s: Any) -> Any:
    """A loop of single lookups, for numba."""
    total_s = 0.0
    for idx in range(len(slots)):
        total_s += remaining_at(curves, slots[idx], uptimes_s[idx])
    return total_s


def decisions(curves: list[Any], build: Callable[[], Any], gap_s: int, rng: np.random.Generator) -> dict[str, float]:
    """Median microseconds of a decision and of its parts, with a clock that advances by `gap_s` on average.

    build: the curve of an arriving request, made just before its decision, as `admit` would.
    """
    choosing: Callable[..., int] = choose
    if IS_COMPILED:
        import numba
        choosing = numba.njit(choose_compiled)
    n = N_HOSTS * N_PER_HOST
    now_s = 10**8
    exits = HostExits(N_HOSTS)
    free_cores, free_gib = np.full(N_HOSTS, HOST_CORES, np.int32), np.full(N_HOSTS, HOST_GIB, np.int32)
    cores = rng.choice(CORES, n).tolist()
    host_of = np.repeat(np.arange(N_HOSTS), N_PER_HOST).tolist()
    running = []
    for idx, age_s in enumerate(rng.exponential(n * gap_s, n).astype(np.int64).tolist()):
        running.append(Lifetime(curves[int(rng.integers(len(curves)))], np.empty(0), now_s - age_s, (), "", None))
        exits.place(host_of[idx], running[idx])
        free_cores[host_of[idx]] -= cores[idx]
        free_gib[host_of[idx]] -= 3 * cores[idx]
    exits.at(now_s)
    spent: dict[str, list[float]] = {"leave": [], "at": [], "choose": [], "place": [], "decision": []}
    due = []
    for _ in range(N_WARM + N_DECISIONS):
        now_s += int(rng.poisson(gap_s))
        vm = Lifetime(build(), np.empty(0), now_s, (), "", None)
        leaving, n_cores = int(rng.integers(n)), int(rng.choice(CORES))
        due.append(int((exits._hosts.due_s <= now_s).sum()))
        started = time.perf_counter()
        exits.leave(running[leaving])
        free_cores[host_of[leaving]] += cores[leaving]
        free_gib[host_of[leaving]] += 3 * cores[leaving]
        left = time.perf_counter()
        exits_s = exits.at(now_s)
        known = time.perf_counter()
        host = choosing(free_cores, free_gib, exits_s, n_cores, 3 * n_cores, now_s + vm.remaining(0.0))
        chosen = time.perf_counter()
        exits.place(host, vm)
        free_cores[host] -= n_cores
        free_gib[host] -= 3 * n_cores
        ended = time.perf_counter()
        running[leaving], host_of[leaving], cores[leaving] = vm, host, n_cores
        for name, seconds in zip(spent, (left - started, known - left, chosen - known, ended - chosen,
                                         ended - started), strict=True):
            spent[name].append(seconds * 1e6)
    found = {name: statistics.median(values[N_WARM:]) for name, values in spent.items()}
    found["decision, p99"] = float(np.quantile(spent["decision"][N_WARM:], 0.99))
    found["hosts due"] = statistics.fmean(due[N_WARM:])
    return found


def drawn_curve(builder: Any, rows: list[list[float]], rng: np.random.Generator) -> Any:
    """The curve of one of the rows."""
    return builder.curve(rows[int(rng.integers(len(rows)))])


def per_row_ns(call: Callable[[], object], n: int) -> float:
    """Median nanoseconds of thread time per row of a call over `n` rows."""
    call()
    spent = []
    for _ in range(N_RUNS):
        started = time.thread_time()
        call()
        spent.append(time.thread_time() - started)
    return statistics.median(spent) / n * 1e9


def lookups(curves: list[Any], rng: np.random.Generator) -> dict[str, float]:
    """Median nanoseconds of a reprediction, packed curves by the million and fewer."""
    uptimes_s = np.floor(10.0 ** rng.uniform(0.0, 6.3, N_ASKED))
    vms = [Lifetime(curve, np.empty(0), 0, (), "", None) for curve in curves]
    singly, ages_s = vms[0].remaining, uptimes_s[:10_000].tolist()
    found = {"vm.remaining, one by one": per_row_ns(lambda: list(map(singly, ages_s)), len(ages_s))}
    slot_counts = {"1 curve": 1, "4,000 curves": N_CURVES, "100,000 curves": 100_000, "1,000,000 curves": N_ASKED}
    if not IS_COMPILED:
        del slot_counts["1 curve"], slot_counts["4,000 curves"], slot_counts["1,000,000 curves"]
    for name, n_slots in slot_counts.items():
        pool = CurvePool(n_slots)
        started = time.thread_time()
        for idx in range(n_slots):
            pool.add(vms[idx % len(vms)])
        if n_slots == 100_000:
            found["add"] = (time.thread_time() - started) / n_slots * 1e9
            found["bytes of a curve"] = pool.arrays.numbers.nbytes / n_slots
        slots = rng.permutation(N_ASKED) if n_slots == N_ASKED else rng.integers(0, n_slots, N_ASKED)
        found[f"batch, {name}"] = per_row_ns(partial(pool.remaining, slots, uptimes_s), N_ASKED)
        if IS_COMPILED:
            import numba
            loop, arrays = numba.njit(sum_of_lookups), pool.arrays
            found[f"compiled loop, {name}"] = per_row_ns(partial(loop, arrays, slots, uptimes_s), N_ASKED)
    return found


def work(folder: Path, seed: int) -> dict[str, Any]:
    """Everything that needs only the serving part, in this process."""
    bundle = load_bundle(folder)
    features = np.load(folder.with_suffix(".npy"))
    builder = CurveBuilder(bundle.schema, bundle.model)
    rows = features[-N_CURVES:].tolist()
    curves = [builder.curve(row) for row in rows]
    found: dict[str, Any] = {}
    for gap_s in GAPS_S:
        rng = np.random.default_rng(seed)
        found[f"gap {gap_s} s"] = decisions(curves, partial(drawn_curve, builder, rows, rng), gap_s, rng)
    return found | {"lookups": lookups(curves, np.random.default_rng(seed))}


def train(root: Path, seed: int) -> dict[str, tuple[Path, float]]:
    """A bundle of each kind with its feature rows beside it, and LightGBM's nanoseconds per row of a batch."""
    import lightgbm as lgb

    from sojourn.features.creation import backoff_keys, build_rows, default_encoder
    from sojourn.features.split import split_by_time
    from sojourn.features.synthetic import synthesize
    from sojourn.models import LIFETIME_MODELS, FitSettings, write_bundle
    from sojourn.serving.inputs import HistoryState

    trace = synthesize(20_000, seed=seed)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    rows = build_rows(trace, encoder, history)
    split = split_by_time(rows)
    found = {}
    for family in ("hazard", "gbdt-uptime"):
        print(f"training {family}", file=sys.stderr)
        model: Any = LIFETIME_MODELS[family]().fit(split.train, split.valid, split.past,
                                                   FitSettings(backoff_keys(encoder), n_threads=1))
        folder = write_bundle(root / family, family, model.export(), encoder, history, {})
        np.save(folder.with_suffix(".npy"), rows.features)
        booster = lgb.Booster(model_str=model.boosted_.text)
        missing = booster.num_feature() - rows.features.shape[1]
        full = np.column_stack([rows.features, np.full((len(rows), missing), 3.0)])[:N_LIGHTGBM]
        found[family] = folder, per_row_ns(
            partial(booster.predict, full, raw_score=True, num_threads=1), len(full))
    return found


def report(found: dict[str, dict[str, Any]]) -> str:
    """The figures as aligned tables."""
    names = list(found)
    width = max(len(name) for name in names) + 2
    lines = []
    for gap_s in GAPS_S:
        lines.append(f"{f'decision, clock + {gap_s} s (us)':<34}" + "".join(f"{name:>{width}}" for name in names))
        rows = [found[name]["work"][f"gap {gap_s} s"] for name in names]
        lines += [f"{part:<34}" + "".join(f"{row[part]:>{width}.1f}" for row in rows) for part in rows[0]]
        lines.append("")
    lines.append(f"{'reprediction (ns)':<34}" + "".join(f"{name:>{width}}" for name in names))
    parts = dict.fromkeys(part for name in names for part in found[name]["work"]["lookups"])
    for part in parts:
        cells = [found[name]["work"]["lookups"].get(part) for name in names]
        lines.append(f"{part:<34}" + "".join(f"{'-' if cell is None else f'{cell:.1f}':>{width}}" for cell in cells))
    lines.append(f"{'LightGBM predict, of a batch':<34}"
                 + "".join(f"{found[name]['lightgbm_ns']:>{width}.0f}" for name in names))
    return "\n".join(lines)


def main() -> None:
    """Train, measure in a process with numba and one without, print tables and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/benchmarks/scheduler.json"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--blocked", action="store_true", help="(of a part process) without numba")
    parser.add_argument("--part", type=Path, help="(of a part process) the bundle")
    options = parser.parse_args()
    if options.part is not None:
        print(json.dumps(work(options.part, options.seed)))
        return
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as root:
        for family, (folder, lightgbm_ns) in train(Path(root), options.seed).items():
            for name, blocked in ((family, []), (f"{family}, numpy", ["--blocked"])):
                print(f"measuring {name}", file=sys.stderr)
                command = [sys.executable, __file__, "--part", str(folder), "--seed", str(options.seed), *blocked]
                part = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found[name] = {"work": json.loads(part.stdout), "lightgbm_ns": lightgbm_ns,
                               "load_average": os.getloadavg()[0]}
    print(report(found))
    document = {"machine": {"cpu": platform.processor() or platform.machine(), "n_cpu": os.cpu_count(),
                            "python": platform.python_version(), "numpy": np.__version__},
                "n_hosts": N_HOSTS, "n_requests": N_HOSTS * N_PER_HOST, "found": found}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
