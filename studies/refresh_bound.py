"""How many empty hosts better predictions of running requests can bring at most: held, refreshed, exits known.

    python -m studies refresh-bound [--trace FILE --reader READER] [--policy joint-fit] [--n-seeds 5]

A request's placement needs two predictions: how long it will stay itself, and when the hosts' requests leave. Refresh
mends only the second, and only from an age on. `exits known from AGE` is its bound: from that age on the simulator is
told the true exit, and the request that arrives still has its learnt curve. `own length known` is the other half: the
request that arrives has its true length, and the hosts' exits are the held curves'. `oracle` knows both.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.flows.compare.cells import learnt_source, workload_of
from sojourn.flows.compare.comparison import learn
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.placement.predictors import parse_predictor
from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.retrain.ingest import ingested_trace
from sojourn.models.measures import time_label
from sojourn.simulator import Curves, Held, LifetimeSource, Oracle, simulate

AGES_S = (0, 600, 3600, 21600)


def known_from(curves: Curves, total_s: np.ndarray, age_s: int) -> Curves:
    """The curves, and from an age on the true total of each request that reaches it. What was expected of a request at
    its start (overhang) stays, so that only the exits of running requests change. total_s: int64, one per row."""
    def told(end_s: int, uptime: np.ndarray, held: np.ndarray, over: np.ndarray) -> tuple[np.ndarray, ...]:
        if end_s <= age_s:
            return uptime, held, over
        grid, held = _cut(uptime, held, (age_s, end_s))
        held = np.maximum(np.where(grid >= age_s, end_s, held), np.append(grid[1:], 0))
        return grid, held, np.round(np.interp(grid, uptime, over)).astype(np.int64)

    return _each(curves, total_s, told)


def own_known(curves: Curves, total_s: np.ndarray) -> Curves:
    """The curves with the true total in place of what was expected of a request at its start. total_s: int64, a row."""
    def told(end_s: int, uptime: np.ndarray, held: np.ndarray, _: np.ndarray) -> tuple[np.ndarray, ...]:
        grid, held = _cut(uptime, held, (end_s, end_s + 1))
        return grid, held, np.maximum(end_s - grid, 0)

    return _each(curves, total_s, told)


def _each(curves: Curves, total_s: np.ndarray, told: Callable[..., tuple[np.ndarray, ...]]) -> Curves:
    """Curves of what is told of each row's true total, uptimes, totals and overhangs: the three anew."""
    if curves.overhang_s is None:
        raise ValueError("curves must have overhangs, got those of a predictor that tells one lifetime")
    own = [told(int(end_s), *(array[curves.offsets[curve]:curves.offsets[curve + 1]] for array in (
        curves.uptime_s, curves.total_s, curves.overhang_s)))
        for end_s, curve in zip(total_s, curves.curve_of(), strict=True)]
    uptimes, totals, overhangs = (np.concatenate(parts) for parts in zip(*own, strict=True))
    lengths = [len(uptime) for uptime, _, _ in own]
    return Curves(np.append(0, np.cumsum(lengths)), uptimes, totals, overhang_s=overhangs)


def _cut(uptime: np.ndarray, held: np.ndarray, at_s: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """A curve's uptimes with more breakpoints, those below its last one; the totals say the same."""
    grid = np.union1d(uptime, np.array([each for each in at_s if each < uptime[-1]], np.int64))
    return grid, np.maximum(held[np.searchsorted(uptime, grid, side="right") - 1], np.append(grid[1:], 0))


def rows_of(config: CompareConfig, policy: str) -> list[dict[str, float | str]]:
    """Gain over best-fit of every source, a row a workload."""
    held, anew = parse_predictor("hazard"), parse_predictor("refreshed:hazard")
    rows: list[dict[str, float | str]] = []
    for spec in dict.fromkeys(cell.workload for cell in config.cells()):
        if spec.trace.source.file is not None:
            ingested_trace(spec.trace.store, spec.trace.source, spec.trace.data_hash)
        if failed := learn((spec.trace, [held, anew]), 2):
            raise ValueError(f"models must be learnt, got {failed}")
        workload = workload_of(spec)
        learnt = learnt_source(workload, spec.trace, held)
        curves = learnt.curves(workload.trace.requests)
        sources: dict[str, LifetimeSource] = {"held": learnt, "refreshed": learnt_source(workload, spec.trace, anew)}
        for age_s in AGES_S:
            name = f"exits known from {time_label(age_s) if age_s else 'the start'}"
            sources[name] = Held(workload.request_ids, known_from(curves, workload.total_s, age_s))
        sources["own length known"] = Held(workload.request_ids, own_known(curves, workload.total_s))
        sources["oracle"] = Oracle(workload)
        base = simulate(workload, "best-fit").metrics.empty_hosts_pct
        for name, source in sources.items():
            found = simulate(workload, policy, source).metrics.empty_hosts_pct
            rows.append({"trace": spec.trace.name, "load": spec.load, "seed": spec.seed, "source": name,
                         "gain_pp": found - base})
    return rows


def main() -> None:
    """Print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--reader")
    parser.add_argument("--policy", default="joint-fit")
    parser.add_argument("--n-seeds", type=int, default=5)
    parser.add_argument("--store", type=Path, default=Path(".sojourn"))
    parser.add_argument("--json", type=Path, default=Path(".sojourn/studies/refresh_bound.json"))
    asked = parser.parse_args()
    given = {"trace": asked.trace, "reader": asked.reader} if asked.trace else {}
    config = CompareConfig(policies=(asked.policy,), predictors=("hazard",), seeds=tuple(range(asked.n_seeds)),
                           store=asked.store, **given)
    table = pd.DataFrame(rows_of(config, asked.policy))
    wide = table.pivot_table(index="seed", columns="source", values="gain_pp")[table["source"].unique()]
    print("| running requests | gain over best-fit, pp | over held, pp [95 % over seeds] |")
    print("|---|---:|---:|")
    for name in wide:
        more = wide[name] - wide["held"]
        half = float(t_half_width(more.to_numpy()[:, None])[0])
        print(f"| {name} | {wide[name].mean():+.2f} | {more.mean():+.2f} [{more.mean() - half:+.2f} to "
              f"{more.mean() + half:+.2f}] |")
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(table.to_dict("records"), indent=1) + "\n")


if __name__ == "__main__":
    main()
