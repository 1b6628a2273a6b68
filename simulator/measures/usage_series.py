"""Hosts above their capacity over time, for traces with usage series."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sojourn.simulator.engine import Result
from sojourn.simulator.measures.host_use import UNITS_PER_MILLI, host_use
from sojourn.simulator.workloads import Workload

VIOLATION_SERIES = ("violated_hosts_pct", "excess_pct")
"""What a comparison keeps of a replay over time."""


def usage_series(workload: Workload, result: Result, usage: pd.DataFrame | None = None) -> pd.DataFrame:
    """Violations of a replay over the bins of `result.series`, warm-up included; means over a bin, lower is better.

    Columns: `time_s` (start of the bin), `violated_hosts_pct` (hosts whose requests use more cores than it has, of all
    hosts), `excess_pct` (cores used above the hosts' capacity, of all hosts' capacity).

    usage, and what is refused: see `usage_metrics`. Requests without a series count as using none.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [60], "cpu_cores": [8.0],
    ...                       "mem_gib": [8.0]})
    >>> usage = pd.DataFrame({"request_id": [1, 1], "time_s": [0, 40], "cpu_frac": [0.5, 2.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 100, usage=usage), cpu_cores=8, mem_gib=8, n_hosts=2)
    >>> found = usage_series(workload, sim.simulate(workload)).set_index("time_s")
    >>> found.loc[[39, 40, 59, 60], "excess_pct"].tolist(), found.at[40, "violated_hosts_pct"].item()
    ([0.0, 50.0, 50.0, 0.0], 50.0)
    """
    steps = host_use(workload, result, usage)
    begin_s = result.series["time_s"].to_numpy(np.int64)
    edges = np.append(begin_s, workload.trace.horizon_s)
    excess, end_s = steps.excess(workload), steps.end_s()
    span_s, cpu = np.diff(edges), workload.resources.index("cpu_cores")
    capacity = int(workload.capacity[:, cpu].sum()) * UNITS_PER_MILLI
    return pd.DataFrame({
        "time_s": begin_s,
        "violated_hosts_pct": 100 * _held(excess > 0, steps.time_s, end_s, edges) / (span_s * len(workload.capacity)),
        "excess_pct": 100 * _held(excess, steps.time_s, end_s, edges) / (span_s * max(capacity, 1)),
    })


def _held(value: np.ndarray, from_s: np.ndarray, to_s: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Sum of value x seconds in each bin; value holds over from_s <= t < to_s. float64 (n_bins,)."""
    is_held = (value > 0) & (to_s > from_s)
    change = value[is_held].astype(np.int64)
    time_s = np.concatenate([edges, from_s[is_held], to_s[is_held]])
    change = np.concatenate([np.zeros(len(edges), np.int64), change, -change])
    order = np.argsort(time_s, kind="stable")
    time_s, level = time_s[order], np.cumsum(change[order])
    # as floats: micro-core-seconds of all hosts may pass 2^63
    sofar = np.append(0.0, np.cumsum(level[:-1].astype(np.float64) * np.diff(time_s)))
    return np.diff(sofar[np.searchsorted(time_s, edges)])
