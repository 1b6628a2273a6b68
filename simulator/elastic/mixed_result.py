"""What a replay of services and batch requests gives: utilisation, cluster size and reschedulings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

OUTCOMES = ("waiting", "pending", "running", "ended", "too large")
"""Of a request at the horizon, by number: not arrived, in the queue, running, ended, larger than every machine type
(as it was asked for, or because what it was seen to use would overload each of them alone)."""


@dataclass(frozen=True, slots=True)
class MixedResult:
    """One replay. `series` has a row for each interval; requests are in the workload's order.

    series: `time_s`, `cpu_pct`, `mem_pct` (use over capacity of the machines that are ready, of a fixed pool of those
        that hold a request; a host's use counts up to its capacity), `n_machines` (mean), `most_machines`,
        `overloaded_pct` and `above_capacity_pct` (of these machines' time), `n_pending` (mean).
    n_ordered: machines over the whole time, 0 of a fixed pool. type_hours: machine-hours by type; price: of them.
    service_outcome, batch_outcome: int64, an index of OUTCOMES. started_ms: of its last run; ended_ms: -1 where not.
    n_evicted: int64 (n_batch,). cost_ms: int64 (n_batch,), lost progress and reallocation over all evictions.
    """

    series: pd.DataFrame
    cpu_pct: float
    mem_pct: float
    n_machines: float
    most_machines: int
    n_ordered: int
    type_hours: tuple[float, ...]
    price: float
    overloaded_pct: float
    above_capacity_pct: float
    service_outcome: np.ndarray
    batch_outcome: np.ndarray
    batch_host: np.ndarray
    started_ms: np.ndarray
    ended_ms: np.ndarray
    n_evicted: np.ndarray
    cost_ms: np.ndarray

    @property
    def n_rescheduled(self) -> int:
        """Batch requests that were evicted at least once."""
        return int((self.n_evicted > 0).sum())

    @property
    def n_multi_rescheduled(self) -> int:
        """Batch requests that were evicted more than once."""
        return int((self.n_evicted > 1).sum())

    @property
    def mean_cost_s(self) -> float:
        """Mean cost of those rescheduled, seconds; 0 where none was. An eviction whose request has no place yet at the
        horizon counts its lost progress only."""
        cost_ms = self.cost_ms[self.n_evicted > 0]
        return float(cost_ms.mean() / 1000) if len(cost_ms) else 0.0

    def outcomes(self) -> dict[str, int]:
        """How many batch requests came to each end."""
        counts = np.bincount(self.batch_outcome, minlength=len(OUTCOMES))
        return dict(zip(OUTCOMES, counts.tolist(), strict=True))
