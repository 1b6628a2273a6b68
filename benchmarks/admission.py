"""Seconds that admission takes for one run, on one core, without and with backfilling, and one job at a time.

    python benchmarks/admission.py [--out PATH.json] [--jobs 100000] [--cores 1000] [--runs 5]

The baseline is greedy balanced on sequential jobs. `twin` is the slow twin of the tests on the first 300 of the same
jobs and a twentieth of the cores; `ratio` is how much faster the compiled run is on those. A target stands beside the
rows that have one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from sojourn.simulator.admission import (
    Admission,
    AdmissionJobs,
    CoreEnds,
    Decisions,
    FreeIntervals,
    OfferedJob,
    admit_predicted,
    deadlines_of,
    drawn_slacks,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from naive_admission import naive_ends, naive_free  # the twins stand with the tests

ALLOCATIONS = ("balanced", "best-fit", "min-idle")


def made(n: int, n_cores: int, widest: int) -> AdmissionJobs:
    """Lognormal run times of a minute to days; slack 0.5; the cores are offered nine tenths more than they can do."""
    rng = np.random.default_rng(0)
    processing = np.maximum(rng.lognormal(6, 1.5, n), 60).astype(np.int64)
    cores = rng.integers(1, widest + 1, n)
    submission = np.sort(rng.integers(0, int((processing * cores).sum() / n_cores / 1.9), n))
    return AdmissionJobs(submission, processing, cores,
                         deadlines_of(submission, processing, drawn_slacks(n, 0.5, 0.2, rng)))


def at_ends(n_cores: int, name: str, jobs: AdmissionJobs) -> Decisions:
    """Without backfilling."""
    return CoreEnds(n_cores, name).offer(jobs)


def in_holes(n_cores: int, name: str, jobs: AdmissionJobs) -> Decisions:
    """With backfilling."""
    return FreeIntervals(n_cores, name).offer(jobs)


def seconds(run: Callable[[], object], n_runs: int) -> float:
    """Median over runs, after one that compiles."""
    run()
    taken = []
    for _ in range(n_runs):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return median(taken)


def main() -> None:
    """Print a table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(".sojourn/benchmarks/admission.json"))
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--cores", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    n, m = given.jobs, given.cores
    rows: list[dict[str, object]] = []
    first: list[float] = []

    def measured(what: str, run: Callable[[], object], target_s: float | None = None, ratio: float | None = None,
                 n_runs: int = given.runs) -> None:
        took_s = seconds(run, n_runs)
        first.append(took_s)
        rows.append({"what": what, "seconds": took_s, "of_baseline": took_s / first[0], "target_s": target_s,
                     "ratio_to_twin": ratio})
        shown = "" if target_s is None else f"{target_s:g}"
        faster = "" if ratio is None else f"{ratio:,.0f}"
        print(f"{what:<46}{took_s:>9.3g}{took_s / first[0]:>10.3g}{shown:>9}{faster:>9}", flush=True)

    def against_twin(run: Callable[[AdmissionJobs], object], twin: Callable[[AdmissionJobs], object],
                     jobs: AdmissionJobs) -> float:
        few = jobs.take(np.arange(300))
        return seconds(lambda: twin(few), 1) / seconds(lambda: run(few), given.runs)

    print(f"{n:,} jobs, {m:,} cores")
    print(f"{'':<46}{'seconds':>9}{'of first':>10}{'target':>9}{'x twin':>9}")
    sequential, wide = made(n, m, 1), made(n, m, 30)
    few = max(m // 20, 30)
    for name in ALLOCATIONS[:2]:
        ratio = against_twin(partial(at_ends, few, name), partial(naive_ends, n_cores=few, allocation=name), sequential)
        measured(f"sequential, greedy {name}", partial(at_ends, m, name, sequential), 0.1, ratio)
    for name in ALLOCATIONS:
        measured(f"up to 30 cores, greedy {name}", partial(at_ends, m, name, wide))
    for name in ALLOCATIONS:
        twin = partial(naive_free, n_cores=few, allocation=name, is_backfilling=True)
        ratio = against_twin(partial(in_holes, few, name), twin, wide)
        measured(f"up to 30 cores, greedy {name}, backfilling", partial(in_holes, m, name, wide), 60.0, ratio, 3)
    measured("up to 30 cores, by predicted times", lambda: admit_predicted(wide, wide.processing_s, m), None, None, 1)
    machine, at = Admission(m, "best-fit", is_backfilling=True), iter(range(n))

    def one() -> None:
        row = next(at)
        machine.offer(OfferedJob(int(wide.submission_s[row]), int(wide.processing_s[row]), int(wide.cores[row]),
                          int(wide.deadline_s[row])))

    measured("one offer of a gateway, backfilling", one, None, None, 2_000)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"n_jobs": n, "n_cores": m, "rows": rows}, indent=1) + "\n")
    print(f"written to {given.out}")


if __name__ == "__main__":
    main()
