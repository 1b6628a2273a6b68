"""Replicas of a workload: the same requests, slightly moved, so that the effect of single placements averages out.

One replay of a small pool wanders by whole percentage points when a single placement changes. Replicas move
arrivals and lifetimes a little, every policy sees the same ones, and gains are paired within a replica.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from sojourn.features.trace import Trace
from sojourn.flows.intervals import t_half_width
from sojourn.simulator import Comparison, Workload, compare
from sojourn.simulator.engine import named_policy
from sojourn.simulator.experiments import BASELINE, Pairing, pairing_label
from sojourn.simulator.measures import gap_closed_pct

SHIFT_S = 300
"""Arrivals move by up to this, uniformly, in seconds."""
STRETCH = 0.02
"""Lifetimes change by up to this share, uniformly."""


def replica(workload: Workload, seed: int) -> Workload:
    """The workload with arrivals moved by up to 5 min and lifetimes by up to 2 %; seed 0 is the workload itself.

    Parts of one job move together. Requests running at 0 keep their start, and what runs on at the horizon does; hosts
    and warm-up stay; usage moves with its request.
    """
    if seed == 0:
        return workload
    rng = np.random.default_rng(seed)
    trace = workload.trace
    start_s = trace.start_s()
    job_of = np.arange(len(trace)) if workload.job_of is None else workload.job_of
    n_jobs = int(job_of.max(initial=-1)) + 1
    shift_s = rng.integers(-SHIFT_S, SHIFT_S + 1, n_jobs)[job_of]
    moved = np.where(start_s > 0, np.maximum(start_s + shift_s, 0), start_s)
    moved = np.minimum(moved, trace.horizon_s - 1)
    stretch = rng.uniform(1.0 - STRETCH, 1.0 + STRETCH, n_jobs)[job_of]
    least_s = np.where(start_s + workload.total_s > trace.horizon_s, trace.horizon_s - moved, np.maximum(-moved, 0)) + 1
    total_s = np.maximum(np.rint(workload.total_s * stretch).astype(np.int64), least_s)
    order = np.argsort(moved, kind="stable")
    end_s = moved + total_s
    departure = pd.array(end_s, "Int64")
    departure[end_s > trace.horizon_s] = pd.NA
    requests = trace.requests.assign(arrival_s=pd.array(moved, "Int64"), departure_s=departure).iloc[order]
    usage = trace.usage
    if usage is not None:
        moved_by_s = pd.Series(moved - start_s, trace.requests["request_id"])
        usage = usage.assign(time_s=usage["time_s"] + usage["request_id"].map(moved_by_s).fillna(0).astype(np.int64))
    moved_trace = Trace(requests.reset_index(drop=True), trace.horizon_s, trace.roles, trace.hosts, usage, trace.meta)
    return replace(workload, trace=moved_trace, total_s=total_s[order],
                   job_of=None if workload.job_of is None else job_of[order])


@dataclass(frozen=True, slots=True)
class Replicated:
    """A comparison over replicas.

    table: as Comparison.table, means over the replicas (`gap_closed_pct`: of those means), with `gain_low_pp` and
        `gain_high_pp`, the 95 % t-interval of the paired gain over best-fit (NaN for one replica), `n_seeds`
        (replicas) and `n_hosts`.
    gain_pp: float64 (n_replicas, n_pairings), the gains of each replica; NaN where a pairing was not replayed on it:
        further replicas have only the pairings that a gate compares (`with_more`).
    first: the unmoved workload's comparison.
    """

    table: pd.DataFrame
    gain_pp: np.ndarray
    first: Comparison

    def difference(self, label: str, other: str) -> tuple[float, float, float]:
        """Mean paired difference of two pairings' gains, pp, and its 95 % t-interval."""
        paired = self._paired(label, other)
        half = float(t_half_width(paired[:, None])[0])
        return float(paired.mean()), float(paired.mean() - half), float(paired.mean() + half)

    def n_pairs(self, label: str, other: str) -> int:
        """On how many replicas two pairings were both replayed: what their difference's interval is of."""
        return len(self._paired(label, other))

    def _paired(self, label: str, other: str) -> np.ndarray:
        columns = list(self.table.index)
        paired = self.gain_pp[:, columns.index(label)] - self.gain_pp[:, columns.index(other)]
        return np.asarray(paired[~np.isnan(paired)])


def compare_replicas(workload: Workload, pairings: Callable[[Workload], Sequence[Pairing]], n_replicas: int,
                     progress: Callable[[int, int], None] | None = None, n_threads: int = 1) -> Replicated:
    """Every pairing on every replica. pairings: those of a workload (an oracle needs its own truth).

    n_threads: so many replicas at once, after the first, which compiles what is not compiled yet.
    """
    if n_replicas < 1:
        raise ValueError(f"n_replicas must be at least 1, got {n_replicas!r}")
    if progress is not None:
        progress(0, n_replicas)
    first = compare(workload, pairings(workload))
    tables, bounds_pct = [first.table], [first.bound_empty_hosts_pct]

    def compared(seed: int) -> tuple[pd.DataFrame, float]:  # only the table: a result holds all hosts at 96 moments
        moved = replica(workload, seed)
        comparison = compare(moved, pairings(moved))
        return comparison.table, comparison.bound_empty_hosts_pct

    with ThreadPoolExecutor(n_threads) as threads:
        for done, (table, bound_pct) in enumerate(threads.map(compared, range(1, n_replicas)), 1):
            if progress is not None:
                progress(done, n_replicas)
            tables.append(table)
            bounds_pct.append(bound_pct)
    numbers = [str(name) for name in tables[0] if tables[0][name].dtype.kind in "if"]
    mean = tables[0].copy()
    mean[numbers] = np.stack([table[numbers].to_numpy(np.float64) for table in tables]).mean(axis=0)
    gain_pp = np.stack([table["gain_pp"].to_numpy(np.float64) for table in tables])
    best_fit_pct = [float(table["empty_hosts_pct"].loc[BASELINE]) for table in tables]
    mean["gap_closed_pct"] = [gap_closed_pct(gains, best_fit_pct, bounds_pct) for gains in gain_pp.T]
    half = t_half_width(gain_pp)
    mean["gain_low_pp"], mean["gain_high_pp"] = mean["gain_pp"] - half, mean["gain_pp"] + half
    mean["n_seeds"], mean["n_hosts"] = n_replicas, len(workload.hosts)
    return Replicated(mean, gain_pp, first)


def with_more(replicated: Replicated, workload: Workload, pairings: Callable[[Workload], Sequence[Pairing]],
              pairs: Sequence[tuple[str, str]], half_width_pp: float, n_max: int,
              progress: Callable[[int, int], None] | None = None) -> Replicated:
    """Further replicas, up to `n_max` in all, until each pair's paired difference is known to +- half_width_pp.

    pairs: labels of pairings; only these are replayed again. Widths alone decide when to stop, not which way a
    difference falls: that would turn chance into differences. The table stays that of the first replicas.
    """
    columns = list(replicated.table.index)
    wanted = {label for pair in pairs for label in pair}
    while len(replicated.gain_pp) < n_max and not all(
            _half_width(replicated, *pair) <= half_width_pp for pair in pairs):
        seed = len(replicated.gain_pp)
        if progress is not None:
            progress(seed, n_max)
        moved = replica(workload, seed)
        compared = [pairing for pairing in pairings(moved) if _label(pairing) in wanted]
        found = compare(moved, compared).table["gain_pp"]
        row = [float(found[label]) if label in found.index else np.nan for label in columns]
        replicated = replace(replicated, gain_pp=np.vstack([replicated.gain_pp, row]))
    return replicated


def _label(pairing: Pairing) -> str:
    return pairing_label(named_policy(pairing[0]).name, pairing[1])


def _half_width(replicated: Replicated, label: str, other: str) -> float:
    mean, low, _ = replicated.difference(label, other)
    return mean - low if np.isfinite(low) else np.inf
