"""What the page of a comparison is drawn from: tables, time series, maps of hosts, explained placements.

A comparison's answer in hosts, core-hours and money, for a reader who knows the cluster and not the field.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from sojourn.simulator.experiments import BASELINE, knows_the_future
from sojourn.simulator.measures import HostMap

HOURS_A_YEAR = 8_760
_DAY_H = 24


@dataclass(frozen=True, slots=True)
class Pool:
    """The hosts that were replayed, their number a mean over the seeds. cores_per_host: their mean.
    price_per_host_hour: of one, in the reader's currency; None = unknown. fewest, most: hosts of a seed, where seeds
    have different numbers of them.

    >>> Pool(200, 96.0).n_hosts
    200
    """

    n_hosts: int
    cores_per_host: float
    price_per_host_hour: float | None = None
    fewest: int | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        price = self.price_per_host_hour
        if price is not None and not 0 < price < math.inf:
            raise ValueError(f"price_per_host_hour must be finite and above 0, got {price!r}")


def in_hosts(rows: pd.DataFrame, pool: Pool) -> list[str]:
    """Sentences: how many hosts best-fit leaves empty, how many more could be, how many can be had today, and what to
    do next.

    rows: of a summary, one workload and load, best-fit among them; means over time after the warm-up. Intervals are
    over the seeds. No rows but best-fit's: no sentences.

    >>> rows = pd.DataFrame({"policy": ["best-fit", "nilas"], "predictor": ["", "hazard"],
    ...                      "empty_hosts_pct": [30.0, 33.5], "bound_empty_hosts_pct": 36.0,
    ...                      "label": ["best-fit", "nilas (hazard)"],
    ...                      "gain_pp": [0.0, 3.5], "gain_low_pp": [0.0, 2.5], "gain_high_pp": [0.0, 4.5]})
    >>> for line in in_hosts(rows, Pool(200, 96.0, 1.5)):
    ...     print(line)
    Of 200 hosts, best-fit leaves 60 empty, as a mean over time. Perfect placement could empty at most 12 more.
    A scheduler that can be deployed today empties 7.0 more than best-fit: nilas (hazard), 95 % interval 5.0 to 9.0.
    7.0 hosts are 16,128 core-hours a day (11,520 to 20,736), and 91,980 a year at 1.5 per host-hour (65,700 to \
118,260).
    Next: try it on a part of your hosts.
    """
    others = rows[(rows["policy"] != BASELINE) & rows["gain_pp"].notna()]
    if len(others) == 0:
        return []
    baseline = rows[rows["policy"] == BASELINE].iloc[0]
    empty = float(baseline["empty_hosts_pct"])
    seeds = "" if pool.fewest == pool.most else f" (mean of the seeds, which have {pool.fewest:,} to {pool.most:,})"
    noun = "host" if pool.n_hosts == 1 else "hosts"
    first = f"Of {pool.n_hosts:,} {noun}{seeds}, {BASELINE} leaves {_hosts(empty, pool)} empty, as a mean over time."
    most = float(baseline.get("bound_empty_hosts_pct", math.nan)) - empty
    if math.isfinite(most):
        first += f" Perfect placement could empty at most {_hosts(max(most, 0.0), pool)} more."
    is_known = others["predictor"].map(knows_the_future)
    known = [_known(_best(others[is_known]), pool)] if is_known.any() else []
    if is_known.all():
        return [first, *known, "Next: replay what can be deployed: --predictor hazard."]
    return [first, *_today(_best(others[~is_known]), pool, known)]


def _known(best: Mapping[Hashable, Any], pool: Pool) -> str:
    gain, low, high = (float(best[name]) for name in ("gain_pp", "gain_low_pp", "gain_high_pp"))
    if gain <= 0:
        return f"Nothing empties more than {BASELINE} with the trace's own future known, either."
    return (f"With the trace's own future known, {best['label']} would empty {_hosts(gain, pool)} more"
            f"{_between(low, high, pool)}.")


def _today(best: Mapping[Hashable, Any], pool: Pool, known: list[str]) -> list[str]:
    gain, low, high = (float(best[name]) for name in ("gain_pp", "gain_low_pp", "gain_high_pp"))
    if gain <= 0:
        return [f"Nothing that can be deployed today empties more hosts than {BASELINE}.", *known,
                f"Next: keep {BASELINE}."]
    between = _between(low, high, pool)
    if low <= 0:
        lines = [f"Nothing that can be deployed today is proven better than {BASELINE}: the best, {best['label']}, "
                 f"emptied {_hosts(gain, pool)} more{between}, which may be chance."]
        next_step = f"keep {BASELINE}, or replay more seeds (--n-seeds) for a narrower interval."
    else:
        lines = [f"A scheduler that can be deployed today empties {_hosts(gain, pool)} more than {BASELINE}: "
                 f"{best['label']}{between}."]
        next_step = ("try it on a part of your hosts." if math.isfinite(low) else
                     "replay more seeds (--n-seeds): one tells nothing of chance.")
    unit = pool.cores_per_host * _DAY_H
    worth = f"{_hosts(gain, pool)} hosts are {_times(gain, unit, pool)} core-hours a day{_range(low, high, unit, pool)}"
    if pool.price_per_host_hour is not None:
        unit = pool.price_per_host_hour * HOURS_A_YEAR
        worth += (f", and {_times(gain, unit, pool)} a year at {pool.price_per_host_hour:g} per host-hour"
                  f"{_range(low, high, unit, pool)}")
    return [*lines, f"{worth}.", *known, f"Next: {next_step}"]


def _best(rows: pd.DataFrame) -> Mapping[Hashable, Any]:
    return rows.sort_values("gain_pp", ascending=False, kind="stable").to_dict("records")[0]


def _hosts(share_pct: float, pool: Pool) -> str:
    """A share of the pool as a number of hosts: whole from 10 on, tenths below."""
    hosts = share_pct / 100.0 * pool.n_hosts
    return f"{hosts:,.0f}" if abs(hosts) >= 10.0 else f"{hosts:.1f}"


def _times(share_pct: float, unit: float, pool: Pool) -> str:
    """A share of the pool times what one host is worth."""
    return f"{share_pct / 100.0 * pool.n_hosts * unit:,.0f}"


def _between(low: float, high: float, pool: Pool) -> str:
    if not math.isfinite(low):
        return ""
    return f", 95 % interval {_hosts(low, pool)} to {_hosts(high, pool)}"


def _range(low: float, high: float, unit: float, pool: Pool) -> str:
    if not math.isfinite(low):
        return ""
    return f" ({_times(low, unit, pool)} to {_times(high, unit, pool)})"


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
