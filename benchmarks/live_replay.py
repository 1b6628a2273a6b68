"""Events per second with the live model in the loop, curve building included, at about 1,000 hosts.

    python benchmarks/live_replay.py [PATH.json] [--copies 22] [--runs 3]

A hazard model is trained on the earlier part of the synthetic trace; the later part, side by side so many times, is
replayed. Every request of every copy has its own curve built, as if none were alike: trees walked, hazards summed, held
totals asked at all uptimes. Feature rows are made beforehand. Compile time stands apart.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import pandas as pd

import sojourn.simulator as sim
from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.synthetic import synthesize
from sojourn.flows.placement.predictors import asked_rows, held_curves
from sojourn.flows.placement.workloads import later_part
from sojourn.flows.retrain.train import fit_family, windows
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.models import FitSettings
from sojourn.models.measures import choose_threshold

CHUNK = 100_000
"""Requests whose curves are built at once, so that memory stays flat."""


def beside(part: sim.Trace, copies: int) -> sim.Trace:
    """The trace so many times side by side, each copy up to 10 min later."""
    rng, tables = np.random.default_rng(0), []
    base = part.requests
    for copy in range(copies):
        shift = rng.integers(0, 600, len(part))
        arrival = (base["arrival_s"] + shift).clip(upper=part.horizon_s - 1)
        departure = (base["departure_s"] + shift).clip(upper=part.horizon_s)
        tables.append(base.assign(request_id=base["request_id"].astype(str) + f"#{copy}", arrival_s=arrival,
                                  departure_s=np.maximum(departure, arrival)))
    table = pd.concat(tables).sort_values("arrival_s", kind="stable", ignore_index=True)
    return sim.Trace(table, part.horizon_s)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=Path(".sojourn/benchmarks/live_replay.json"))
    parser.add_argument("--copies", type=int, default=22)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    trace = synthesize(60_000, seed=0)
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = windows(rows, RetrainConfig().test_share, RetrainConfig().valid_share)
    settings = FitSettings(backoff_keys(encoder), 2, 0, names=rows.names)
    model = fit_family("hazard", split, settings, choose_threshold(split.train)).model
    part = later_part(trace, split.test_from_s)
    known = part.select(part.is_start_known())
    workload = sim.build_workload("synthetic", beside(known, asked.copies))
    asked_of = asked_rows(workload, trace, rows)
    examples, ids = asked_of.rows.take(asked_of.idx), asked_of.request_ids  # each request asks, as it would live
    n = len(workload.trace)
    print(f"{workload.description}, load {workload.load:.3f}")
    build_s, curves = [], None
    for _ in range(asked.runs):
        started, parts = time.perf_counter(), []
        for first in range(0, n, CHUNK):
            taken = examples.take(np.arange(first, min(first + CHUNK, n)))
            parts.append(held_curves(model.curve_table(taken)))
        build_s.append(time.perf_counter() - started)
        ends = np.cumsum([0, *(len(one.uptime_s) for one in parts)])
        flat = {name: np.concatenate([getattr(one, name) for one in parts])
                for name in ("uptime_s", "total_s", "overhang_s")}
        offsets = [one.offsets[1:] + end for one, end in zip(parts, ends[:-1], strict=True)]
        curves = sim.Curves(np.concatenate([[0], *offsets]), **flat)
    assert curves is not None
    source = sim.Held(ids, curves)
    found = []
    for policy in ("nilas", "nilas-expected", "joint-fit", "lava"):
        results = [sim.simulate(workload, policy, source) for _ in range(asked.runs)]
        n_events = results[0].metrics.n_events
        loop_s, built_s = statistics.median(one.elapsed_s for one in results), statistics.median(build_s)
        found.append({"policy": policy, "hosts": len(workload.hosts), "events": n_events, "curves_s": built_s,
                      "loop_s": loop_s, "loop_events_per_s": n_events / loop_s,
                      "events_per_s": n_events / (loop_s + built_s), "compile_s": results[0].compile_s,
                      "rescores_per_placement": results[0].metrics.n_rescores / results[0].metrics.n_requests})
    print(pd.DataFrame(found).to_string(index=False, float_format=lambda value: f"{value:,.2f}"))
    asked.path.parent.mkdir(parents=True, exist_ok=True)
    asked.path.write_text(json.dumps({"python": platform.python_version(), "machine": platform.machine(),
                                      "rows": found}, indent=2) + "\n")
    print(f"written to {asked.path}")


if __name__ == "__main__":
    main()
