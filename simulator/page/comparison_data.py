"""What the page of a comparison is drawn from: tables, time series, maps of hosts, explained placements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from sojourn.simulator.measures import HostMap
from sojourn.simulator.page.in_hosts import Pool


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
        gain as a share of best-fit's mean distance to the bound). The gain, its interval and the gap are of the
        `n_pairs` seeds at which best-fit was replayed too, the other means of all `n_seeds`.
    series: by label, of the first seed and the main load: `time_s`, `empty_hosts_pct`, `bound_empty_hosts_pct`;
        where usage is known also `violated_hosts_pct` and `excess_pct` (see `measures.usage_series`).
    host_maps: by label, of the same replays; may be empty.
    decisions: explained placements, one mapping each; may be empty. `policy`, `predictor`, `request` (its plain
        values), `time_s`, `chosen` (host id or None), `columns` (a `name` and a `meaning` per scorer, in order),
        `hosts` (each host's id, why it is excluded or "", then its scores, lower is better).
    warmup_s: seconds at the start of the series that metrics leave out.
    main_load: the load of the series and of what is shown first; None = the first in `summary`.
    migrations: by label, of the same replays, those of a rectifier as `Result.migrations` with ids as text; may be
        empty.
    pool: its hosts, in which the page says the answer first; None = in percentage points alone.

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
    main_load: float | None = None
    pool: Pool | None = None
    migrations: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def at_main_load(self, workload: str | None = None) -> pd.DataFrame:
        """Rows of `summary` of one workload (None = the first) at the main load, or the first load that it has.

        >>> summary = pd.DataFrame({"workload": ["trace"] * 2, "load": [0.6, 0.8], "gain_pp": [1.0, 2.0]})
        >>> data = ComparisonData("two loads", "", summary, summary, {}, {}, [], 0, main_load=0.8)
        >>> data.at_main_load()["gain_pp"].tolist()
        [2.0]
        """
        rows = self.summary[self.summary["workload"] == (workload or self.summary["workload"].iloc[0])]
        loads = rows["load"].tolist()
        return rows[rows["load"] == (self.main_load if self.main_load in loads else loads[0])]
