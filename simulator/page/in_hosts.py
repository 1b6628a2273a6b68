"""A comparison's answer in hosts, core-hours and money, for a reader who knows the cluster and not the field."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from sojourn.simulator.experiments import BASELINE, knows_the_future

HOURS_A_YEAR = 8_760
_DAY_H = 24


@dataclass(frozen=True, slots=True)
class Pool:
    """The hosts that were replayed. cores_per_host: their mean. price_per_host_hour: of one, in the reader's currency;
    None = unknown.

    >>> Pool(200, 96.0).n_hosts
    200
    """

    n_hosts: int
    cores_per_host: float
    price_per_host_hour: float | None = None

    def __post_init__(self) -> None:
        price = self.price_per_host_hour
        if price is not None and not 0 < price < math.inf:
            raise ValueError(f"price_per_host_hour must be finite and above 0, got {price!r}")


def in_hosts(rows: pd.DataFrame, pool: Pool) -> list[str]:
    """Sentences: how many hosts best-fit leaves empty, how many more could be, and how many of these can be had today.

    rows: of a summary, one workload and load, best-fit among them; means over time after the warm-up. Empty hosts are
    hosts that could be switched off. No rows but best-fit's: no sentences.

    >>> rows = pd.DataFrame({"policy": ["best-fit", "nilas"], "predictor": ["", "hazard"],
    ...                      "empty_hosts_pct": [30.0, 33.5], "bound_empty_hosts_pct": 36.0,
    ...                      "label": ["best-fit", "nilas (hazard)"],
    ...                      "gain_pp": [0.0, 3.5], "gain_low_pp": [0.0, 2.5], "gain_high_pp": [0.0, 4.5]})
    >>> for line in in_hosts(rows, Pool(200, 96.0, 1.5)):
    ...     print(line)
    Of 200 hosts, best-fit leaves 60 empty on average. At most 12 more could be switched off.
    A scheduler that you can run today frees 7.0 of them, nilas (hazard); 95 % between 5.0 and 9.0.
    That is 16,128 core-hours a day (95 % between 11,520 and 20,736), and 91,980 a year at 1.5 per host-hour (95 % \
between 65,700 and 118,260).
    """
    others = rows[(rows["policy"] != BASELINE) & rows["gain_pp"].notna()]
    if len(others) == 0:
        return []
    baseline = rows[rows["policy"] == BASELINE].iloc[0]
    empty = float(baseline["empty_hosts_pct"])
    first = f"Of {pool.n_hosts:,} hosts, {BASELINE} leaves {_hosts(empty, pool)} empty on average."
    most = float(baseline.get("bound_empty_hosts_pct", math.nan)) - empty
    if math.isfinite(most):
        first += f" At most {_hosts(max(most, 0.0), pool)} more could be switched off."
    is_known = others["predictor"].map(knows_the_future)
    if is_known.all():
        return [first, *_only_known(_best(others), pool)]
    return [first, *_today(_best(others[~is_known]), pool)]


def _only_known(best: Mapping[Hashable, Any], pool: Pool) -> list[str]:
    known = max(float(best["gain_pp"]), 0.0)
    return [f"With lifetimes known in advance, {best['label']} would free {_hosts(known, pool)} of them. What a model "
            "that you can run today frees was not replayed; --predictor hazard does it."]


def _today(best: Mapping[Hashable, Any], pool: Pool) -> list[str]:
    gain, low, high = (float(best[name]) for name in ("gain_pp", "gain_low_pp", "gain_high_pp"))
    if gain <= 0:
        return [f"Nothing that you can run today frees more hosts than {BASELINE}."]
    between = ""
    if math.isfinite(low):
        between = f"; 95 % between {_hosts(low, pool)} and {_hosts(high, pool)}"
        if low <= 0:
            return [f"Nothing that you can run today is shown to free more hosts than {BASELINE}. The best, "
                    f"{best['label']}, frees {_hosts(gain, pool)} of them{between}."]
    lines = [f"A scheduler that you can run today frees {_hosts(gain, pool)} of them, {best['label']}{between}."]
    unit = pool.cores_per_host * _DAY_H
    worth = f"That is {_times(gain, unit, pool)} core-hours a day{_interval(low, high, unit, pool)}"
    if pool.price_per_host_hour is not None:
        unit = pool.price_per_host_hour * HOURS_A_YEAR
        worth += (f", and {_times(gain, unit, pool)} a year at {pool.price_per_host_hour:g} per host-hour"
                  f"{_interval(low, high, unit, pool)}")
    return [*lines, f"{worth}."]


def _best(rows: pd.DataFrame) -> Mapping[Hashable, Any]:
    return rows.sort_values("gain_pp", ascending=False, kind="stable").to_dict("records")[0]


def _hosts(share_pct: float, pool: Pool) -> str:
    """A share of the pool as a number of hosts: whole from 10 on, tenths below."""
    hosts = share_pct / 100.0 * pool.n_hosts
    return f"{hosts:,.0f}" if abs(hosts) >= 10.0 else f"{hosts:.1f}"


def _times(share_pct: float, unit: float, pool: Pool) -> str:
    """A share of the pool times what one host is worth."""
    return f"{share_pct / 100.0 * pool.n_hosts * unit:,.0f}"


def _interval(low: float, high: float, unit: float, pool: Pool) -> str:
    if not math.isfinite(low):
        return ""
    return f" (95 % between {_times(low, unit, pool)} and {_times(high, unit, pool)})"
