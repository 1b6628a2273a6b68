"""What the page of a comparison is drawn from: tables, time series, maps of hosts, explained placements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True, slots=True)
class HostMap:
    """The hosts of one replay at k moments.

    time_s: int64 (k,), seconds from the replay's start, warm-up included.
    lifetime_class: int8 (k, n_hosts), 0 = empty, 1..4 = LC1..LC4 of the request that stays longest from then on.
    state: int8 (k, n_hosts), the policy's own state of each host, or None where it keeps none.
    """

    time_s: np.ndarray
    lifetime_class: np.ndarray
    state: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name, array in (("lifetime_class", self.lifetime_class), ("state", self.state)):
            if array is not None and (array.ndim != 2 or len(array) != len(self.time_s)):
                raise ValueError(f"{name} must have {len(self.time_s)} rows, got shape {array.shape!r}")


@dataclass(frozen=True, slots=True)
class ComparisonData:
    """Policies and predictors on the same workloads, as a page shows them.

    title: a line. description: the main workload's, one line.
    cells: one row per replay, in this order: `workload`, `load`, `seed`, `policy`, `predictor` ("" = none), `label`,
        then its metrics (`empty_hosts_pct`, `bound_empty_hosts_pct`, `gain_pp`, `packing_density_pct`,
        `rejected_pct`, ...).
    summary: one row per workload, load, policy and predictor: `label`, `n_seeds`, the mean of each metric,
        `gain_pp` with `gain_low_pp` and `gain_high_pp` (empty hosts over best-fit's of the same seed, percentage
        points, higher is better; paired 95 % t-interval over the seeds, NaN for one seed), `gap_closed_pct` (mean
        gain as a share of best-fit's mean distance to the bound).
    series: by label, of the first seed and the main load: `time_s`, `empty_hosts_pct`, `bound_empty_hosts_pct`.
    host_maps: by label, of the same replays; may be empty.
    decisions: explained placements, one mapping each; may be empty.
    warmup_s: seconds at the start of the series that metrics leave out.

    >>> nothing = pd.DataFrame()
    >>> ComparisonData("two policies", "none", nothing, nothing, {}, {}, [], 0).title
    'two policies'
    """

    title: str
    description: str
    cells: pd.DataFrame
    summary: pd.DataFrame
    series: Mapping[str, pd.DataFrame]
    host_maps: Mapping[str, HostMap]
    decisions: list[dict[str, Any]]
    warmup_s: int
