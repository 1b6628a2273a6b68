"""Runs of admission as a table: means over draws and days, and paired differences to the first entry."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.reports.section import Section

_MEANS = ("n_jobs", "n_cores", "ratio", "accepted_load_pct", "accepted_jobs_pct", "used_pct", "kwh_per_core_h", "bound",
          "took_s")
LEGEND = ("Ratio: the least of submitted load and cores x frame over the accepted load, 1 = the best (lower = better). "
          "Diff.: of the ratio to the first row, paired on days and draws, with the 95 % t-interval over days of the "
          "means over draws; level = it holds 0. Load: accepted, % of the submitted load. Used: % of cores x frame "
          "(both higher = better). kWh: per accepted core-hour by the linear model (lower = better). Theorem 1: the "
          "optimum is at most so many times the accepted load; greedy best-fit and sequential jobs only.")


def day_means(runs: pd.DataFrame, keys: tuple[str, ...] = ("slack", "label")) -> pd.DataFrame:
    """Means over the draws of each day, a row per `keys`, trace and day."""
    numbers = [name for name in (*_MEANS, "limit_core_h", "accepted_core_h") if name in runs]
    return runs.groupby([*keys, "trace", "day"], sort=False)[numbers].mean().reset_index()


def summary_of(runs: pd.DataFrame, within: tuple[str, ...] = ("slack",)) -> pd.DataFrame:
    """A row per `within` and entry: means over days; `difference` of the ratio to the entry that comes first, with
    `low` and `high`, the paired 95 % t-interval over days (NaN for one day).

    >>> runs = pd.DataFrame({"slack": 0.5, "label": ["a", "b"] * 2, "trace": "t", "day": [0, 0, 1, 1],
    ...                      "ratio": [2.0, 1.5, 2.0, 1.7]})
    >>> summary_of(runs)[["label", "ratio", "difference"]].round(3).values.tolist()
    [['a', 2.0, 0.0], ['b', 1.6, -0.4]]
    """
    days = day_means(runs, (*within, "label"))
    numbers = [name for name in _MEANS if name in days]
    return paired_summary(days, within, ("trace", "day"), str(days["label"].iloc[0]), "ratio", "difference", numbers)


def paired_summary(days: pd.DataFrame, within: Sequence[str], pair: Sequence[str], baseline: str, of: str, name: str,
                   numbers: Sequence[str]) -> pd.DataFrame:
    """A row per `within` and label: `n_days`, means of `numbers`, and `name`, the difference of `of` to the baseline's
    on the same `pair`, with `low` and `high`, the 95 % t-interval over rows of `days` (NaN for one)."""
    same = [*within, *pair]
    base = days[days["label"] == baseline].set_index(same)[of]
    days[name] = days[of].to_numpy() - base.reindex(pd.MultiIndex.from_frame(days[same])).to_numpy()
    groups = days.groupby([*within, "label"], sort=False)
    summary = groups[[*numbers, name]].mean()
    half = groups[name].apply(lambda own: float(t_half_width(own.to_numpy()[:, None])[0]))
    summary["low"], summary["high"] = summary[name] - half, summary[name] + half
    summary.insert(0, "n_days", groups.size())
    return summary.reset_index()


def admission_section(summary: pd.DataFrame, title: str, caption: str) -> Section:
    """The summary for the terminal and the results page."""
    titles = ("slack", "rule", "ratio", "diff.", "interval", "verdict", "load %", "used %", "kWh", "theorem 1")
    baseline = str(summary["label"].iloc[0])
    rows = tuple(_shown(row, baseline) for row in summary.to_dict("records"))
    return Section(title, caption, titles, rows, 2, LEGEND)


def verdict(low: float, high: float) -> str:
    """Of a difference of ratios, where lower is better.

    >>> verdict(-0.2, -0.1), verdict(-0.1, 0.1), verdict(0.1, 0.2), verdict(float("nan"), float("nan"))
    ('better', 'level', 'worse', '-')
    """
    return "-" if np.isnan(low) else "better" if high < 0 else "worse" if low > 0 else "level"


def _shown(row: Mapping[Hashable, Any], baseline: str) -> tuple[str, ...]:
    is_base = row["label"] == baseline
    has_interval = not is_base and not np.isnan(row["low"])
    return (f"{row['slack']:g}", row["label"], f"{row['ratio']:.3f}", "-" if is_base else f"{row['difference']:+.3f}",
            f"{row['low']:+.3f} {row['high']:+.3f}" if has_interval else "-",
            "baseline" if is_base else verdict(row["low"], row["high"]), f"{row['accepted_load_pct']:.1f}",
            f"{row['used_pct']:.1f}", f"{row['kwh_per_core_h']:.3f}",
            "-" if np.isnan(row["bound"]) else f"{row['bound']:.2f}")
