"""Events per second with the live model in the loop, curve building included, at about 1,000 hosts.

    python benchmarks/live_replay.py [PATH.json] [--copies 22] [--runs 3]
    python benchmarks/live_replay.py [PATH.json] --stream 10_000_000 [--hosts 10_000] [--policy nilas]
        [--budget 5]

A hazard model is trained on the earlier part of the synthetic trace; the later part, side by side so many times, is
replayed. Every request of every copy has its own curve built, as if none were alike: trees walked, hazards summed, held
totals asked at all uptimes. Feature rows are made beforehand. Compile time stands apart.

`--stream`: so many requests, replayed under one policy by a source that builds curves when they are asked for; with the
memory of the process before the replay (trace, workload, model, libraries) and at its peak.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

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


def learnt() -> tuple[sim.Trace, Any, sim.Trace, Any]:
    """The synthetic trace, its feature rows, its later part and a model of the earlier one."""
    trace = synthesize(60_000, seed=0)
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = windows(rows, RetrainConfig().test_share, RetrainConfig().valid_share)
    settings = FitSettings(backoff_keys(encoder), 2, 0, names=rows.names)
    model = fit_family("hazard", split, settings, choose_threshold(split.train)).model
    part = later_part(trace, split.test_from_s)
    known = part.select(part.is_start_known())
    return trace, rows, known, model


def learnt_alone() -> tuple[sim.Trace, Any, Any]:
    """The later part, the model, and the feature rows of each request of the part."""
    trace, rows, known, model = learnt()
    own = asked_rows(sim.build_workload("synthetic", known), trace, rows)
    return known, model, own.rows.take(own.idx)


class Builder:
    """A LifetimeSource that builds a curve for each request that it is asked about, by the features of its original."""

    def __init__(self, model: Any, examples: Any) -> None:
        self.elapsed_s = 0.0
        self._model, self._examples = model, examples

    def curves(self, requests: pd.DataFrame) -> sim.Curves:
        started = time.perf_counter()
        rows = requests["request_id"].to_numpy() % len(self._examples)
        curves = held_curves(self._model.curve_table(self._examples.take(rows)))
        self.elapsed_s += time.perf_counter() - started
        return curves


def stream(base: sim.Trace, n_requests: int, n_hosts: int) -> sim.Workload:
    """The base many times side by side, and lap after lap, until there are so many requests; request i has the row i
    modulo its length."""
    one = sim.build_workload("synthetic", base)
    copies, n = round(n_hosts / len(one.hosts)), len(base)
    n_all = n * copies * -(-n_requests // (n * copies))
    order = np.argsort(arrivals := np.tile(one.placed_s, n_all // n) + np.repeat(
        np.random.default_rng(0).integers(0, 600, n_all // n) + np.arange(n_all // n) // copies * base.horizon_s, n),
        kind="stable")[:n_requests]
    arrival_s = arrivals[order]
    horizon_s, total_s = int(arrival_s[-1]) + 1, one.total_s[order % n]
    is_over = arrival_s + total_s <= horizon_s
    columns = {name: base.requests[name].to_numpy()[order % n] for name in ("cpu_cores", "mem_gib")}
    del arrivals
    table = pd.DataFrame({"request_id": order, "arrival_s": arrival_s, **columns,
                          "departure_s": pd.arrays.IntegerArray(arrival_s + total_s, ~is_over)}, copy=False)
    del order, arrival_s, is_over, columns
    hosts = one.hosts.iloc[[0] * (len(one.hosts) * copies)].assign(host_id=range(len(one.hosts) * copies))
    return sim.Workload("stream", sim.Trace(table, horizon_s), hosts.reset_index(drop=True), total_s)


def used_mib() -> float:
    """Memory that the process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def streamed(base: sim.Trace, source: Builder, asked: argparse.Namespace) -> dict[str, Any]:
    """Speed and memory of a long replay."""
    before_mib = used_mib()
    workload = stream(base, asked.stream, asked.hosts)
    held_mib = used_mib()
    started = time.perf_counter()
    rectify = sim.Rectify("value", asked.budget, every_s=3_600) if asked.budget else None
    result = sim.simulate(workload, asked.policy, source, rectify=rectify)
    took_s = time.perf_counter() - started - result.compile_s
    return {"policy": asked.policy, "hosts": len(workload.hosts), "load": workload.load,
            "running": int(workload.demand.amount[:, 0].max() / workload.need[:, 0].mean()),
            "events": result.metrics.n_events, "curves_s": source.elapsed_s, "loop_s": result.elapsed_s,
            "in_all_s": took_s, "events_per_s": result.metrics.n_events / took_s, "libraries_and_model_mib": before_mib,
            "with_trace_mib": held_mib, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=Path(".sojourn/benchmarks/live_replay.json"))
    parser.add_argument("--copies", type=int, default=22)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--stream", type=int, help="requests of one long replay")
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--policy", default="nilas", help="of the long replay")
    parser.add_argument("--budget", type=int, default=0, help="migrations a day of the long replay, by value")
    asked = parser.parse_args()
    if asked.stream:
        with ProcessPoolExecutor(1, get_context("spawn")) as apart:  # training leaves memory behind
            known, model, examples = apart.submit(learnt_alone).result()
        write(asked.path, [streamed(known, Builder(model, examples), asked)])
        return
    trace, rows, known, model = learnt()
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
    write(asked.path, found)


def write(path: Path, found: list[dict[str, Any]]) -> None:
    """Print the rows and write them."""
    print(pd.DataFrame(found).to_string(index=False, float_format=lambda value: f"{value:,.2f}"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"python": platform.python_version(), "machine": platform.machine(),
                                "rows": found}, indent=2) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
