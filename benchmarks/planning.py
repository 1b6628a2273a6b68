"""Seconds, proofs and gaps of planning: days of 500 jobs, sparse and dense, and projects of the PSPLIB.

The baseline of peaks is `greedy`, one pass over the jobs. On a machine with other work, look at cpu s: seconds of one
core. Sparse: requested starts over 50 s a job, as in the paper.
Dense: over 6, 2 and 1 s a job, so that some 3, 10 and 20 jobs run at once.
"""

from __future__ import annotations

import argparse
import json
import tarfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from sojourn.simulator.planning import Limits, PlanSettings, planner
from studies.planners import least_makespan, read_project, synthetic_day

N_JOBS = 500
SPANS = (50, 6, 2, 1)
SEEDS = (0, 1, 2)
LIMIT_S = 30.0


def days(seeds: tuple[int, ...], spans: tuple[int, ...], limit_s: float) -> list[dict[str, float | str]]:
    """One row for each span and seed."""
    rows: list[dict[str, float | str]] = []
    print(f"{'s a job':>8}{'seed':>6}{'greedy':>9}{'cospis':>9}{'below %':>9}{'bound':>8}{'gap %':>7}{'seconds':>9}"
          f"{'cpu s':>8}  status")
    for span in spans:
        for seed in seeds if span in (50, 1) else seeds[:1]:
            day, _ = synthetic_day(N_JOBS, np.random.default_rng([N_JOBS, seed]), makespan=span * N_JOBS)
            greedy = planner("greedy").plan(day, PlanSettings(limits=Limits(seed=seed)))
            limits = Limits(limit_s=limit_s, seed=seed)
            began_s = time.process_time()
            found = planner("cospis").plan(day, PlanSettings(limits=limits))
            cpu_s = time.process_time() - began_s
            below = 100 * (1 - found.peak[0] / greedy.peak[0])
            rows.append({"span_s": span, "seed": seed, "greedy_peak": float(greedy.peak[0]),
                         "peak": float(found.peak[0]), "below_pct": float(below), "bound": found.bound,
                         "gap_pct": found.gap_pct, "seconds": found.seconds, "cpu_s": cpu_s, "status": found.status})
            print(f"{span:>8}{seed:>6}{greedy.peak[0]:>9.0f}{found.peak[0]:>9.0f}{below:>9.1f}{found.bound:>8.0f}"
                  f"{found.gap_pct:>7.1f}{found.seconds:>9.2f}{cpu_s:>8.2f}  {found.status}", flush=True)
    return rows


def projects(archive: Path, n: int) -> dict[str, float]:
    """How many of the first n files are proved within two seconds, and how long that takes."""
    taken: list[float] = []
    n_proved = 0
    with tarfile.open(archive) as files:
        for name in sorted(files.getnames())[:n]:
            member = files.extractfile(name)
            if member is None:
                continue
            day = read_project(member.read().decode())
            began_s = time.perf_counter()
            n_proved += least_makespan(day, Limits(limit_s=2.0)).status == "optimal"
            taken.append(time.perf_counter() - began_s)
    print(f"{archive.name}: {n_proved} of {len(taken)} proved within 2 s each, median {median(taken):.3f} s")
    return {"n": len(taken), "n_proved": n_proved, "median_s": median(taken)}


def main() -> None:
    """Print tables and write them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(".sojourn/benchmarks/planning.json"))
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--spans", type=int, nargs="+", default=SPANS, help="Seconds a job.")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S)
    parser.add_argument("--psplib", type=Path, help="Folder of the PSPLIB's archives (j30.sm.tar.gz, ...).")
    parser.add_argument("--n-projects", type=int, default=100)
    given = parser.parse_args()
    warm, _ = synthetic_day(10, np.random.default_rng(0), makespan=20)
    for name in ("greedy", "cospis"):
        planner(name).plan(warm)  # compiles
    found = {"days": days(SEEDS[:given.seeds], tuple(given.spans), given.limit_s),
             "projects": {} if given.psplib is None else {
                 path.name: projects(path, given.n_projects) for path in sorted(given.psplib.glob("j[36]0.sm.tar.gz"))}}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    print(f"written to {given.out}")


if __name__ == "__main__":
    main()
