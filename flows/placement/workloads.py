"""Workloads of a replay: the later part of a trace by a recipe, as text for a worker, and in slightly moved copies.

One replay of a small pool wanders by whole percentage points when a single placement changes. Replicas move arrivals
and lifetimes a little, every policy sees the same ones, and gains are paired within a replica."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.trace import SEEN_FROM, SEEN_TO, Trace
from sojourn.flows.settings.retrain import PlacementSettings
from sojourn.flows.settings.trace import Start, TraceSource
from sojourn.simulator import WORKLOADS, Comparison, Workload, build_workload, compare
from sojourn.simulator.engine import named_policy
from sojourn.simulator.experiments import BASELINE, Pairing, pairing_label
from sojourn.simulator.measures import gap_closed_pct

SHIFT_S = 300
"""Arrivals move by up to this, uniformly, in seconds."""
STRETCH = 0.02
"""Lifetimes change by up to this share, uniformly."""


def later_part(trace: Trace, from_s: int) -> Trace:
    """The trace from `from_s` on: requests still running then, or arriving later; times count from there.

    What was running keeps its age as a negative arrival.
    """
    is_kept = (trace.end_s() > from_s) & (np.maximum(trace.start_s(), trace.begin_s) < trace.horizon_s)
    requests = trace.requests.loc[is_kept].drop(columns=[SEEN_FROM, SEEN_TO], errors="ignore")
    usage = trace.usage
    if usage is not None:
        usage = usage[usage["request_id"].isin(requests["request_id"])]
    return replace(trace, requests=requests, usage=usage).moved(-from_s, None)


def later_workload(recipe: str, settings: PlacementSettings, trace: Trace, from_s: int) -> Workload:
    """The workload on which the model is judged: the later part of the trace by a recipe that draws, or as it is."""
    if recipe in WORKLOADS and WORKLOADS[recipe].is_drawn:
        return later_workload_of(recipe, trace, from_s, load=settings.load, seed=settings.seed)
    return later_workload_of("trace", trace, from_s, load=settings.load, seed=settings.seed,
                             **settings.shape)


def later_workload_of(recipe: str, trace: Trace, from_s: int, **options: Any) -> Workload:
    """What a recipe makes of the part of a trace from `from_s` on; nothing that was decided before arrives in it.

    A recipe that draws repeats the requests of the later part; else the later part runs once, starting warm with what
    was running, and its first tenth is not measured. Requests with an unknown start are left out.
    """
    if WORKLOADS[recipe].is_drawn:
        is_later = trace.is_start_known() & (trace.start_s() >= from_s)
        return build_workload(recipe, trace.select(is_later), **options)
    part = later_part(trace, from_s)
    known = part.select(part.is_start_known())
    return build_workload(recipe, known, warmup_s=part.horizon_s // 10, **options)


def positions_of(request_ids: pd.Series, known_ids: pd.Series) -> np.ndarray:
    """The place of each request among the known ones, int64 (n,), -1 for a stranger.

    A recipe's copy `ID#...` of a request (copies and laps of openb) has its original's.

    >>> positions_of(pd.Series(["b", "a#0.1", "c"]), pd.Series(["a", "b"])).tolist()
    [1, 0, -1]
    """
    known = pd.Index(known_ids.astype(str))
    text = request_ids.astype(str)
    idx = known.get_indexer(pd.Index(text))
    is_copy = idx < 0
    idx[is_copy] = known.get_indexer(pd.Index(text[is_copy].str.rsplit("#", n=1).str[0]))
    return np.asarray(idx, np.int64)


def known_by(trace: Trace, until_s: int) -> Trace:
    """What was known of a trace by a time: requests that had begun, without ends that were still to come."""
    until_s = min(until_s, trace.horizon_s)
    is_begun = trace.start_s() < until_s
    if SEEN_FROM in trace.requests:
        is_begun &= trace.requests[SEEN_FROM].fillna(0).to_numpy() < until_s
    table = trace.requests.loc[is_begun].reset_index(drop=True)
    table["departure_s"] = table["departure_s"].mask(table["departure_s"] > until_s)
    if SEEN_TO in table:
        table[SEEN_TO] = table[SEEN_TO].clip(upper=until_s)
    return Trace(table, until_s, trace.roles, trace.hosts, meta=trace.meta)


@dataclass(frozen=True, slots=True)
class TraceSpec:
    """One trace in a store: a file's, or a seed's of the generator.

    data_hash: see `flows.retrain.ingest.input_hash`. store: the folder of all that is kept. test_share, valid_share: of
    the requests, where predictors are learnt. The source's seed is also that of what is fitted. is_past: only what was
    known of it when its later part began, which has an earlier and a later part of its own.
    """

    source: TraceSource
    data_hash: str
    store: Path
    test_share: float
    valid_share: float
    is_past: bool = False

    @property
    def whole(self) -> TraceSpec:
        """The same with its later part."""
        return replace(self, is_past=False)

    @property
    def name(self) -> str:
        """The file's name, or `synthetic`."""
        return self.source.name


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """One workload: what a recipe makes of a trace at a load and a seed.

    start: warm = of the part of the trace that came after what predictors are fitted on. options: the recipe's own.
    """

    trace: TraceSpec
    recipe: str
    load: float
    seed: int
    start: Start = "cold"
    options: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """As in tables."""
        return f"{self.recipe}, {self.begins}"

    @property
    def begins(self) -> str:
        """The start in words. What is drawn begins empty whatever the trace's requests are: not called warm."""
        is_drawn = WORKLOADS[self.recipe].is_drawn
        begins = "later part" if is_drawn and self.start == "warm" else f"{self.start} start"
        return f"{begins} of the past" if self.trace.is_past else begins


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


def t_half_width(values: np.ndarray) -> np.ndarray:
    """Half of the 95 % t-interval of each column's mean, float64 (n_columns,); NaN where there is one row.

    values: float64 (n_rows, n_columns), one independent draw a row.

    >>> t_half_width(np.array([[1.0], [2.0], [3.0]])).round(3).tolist()
    [2.484]
    """
    from scipy.stats import t

    n = len(values)
    if n < 2:
        return np.full(values.shape[1], np.nan)
    return np.asarray(t.ppf(0.975, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n))
