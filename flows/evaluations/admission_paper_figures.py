"""Figures 2 to 8 of the paper, of one trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sojourn.flows.evaluations.admission_figures import curves, heat_map, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BF, BAL, THRESHOLD = "greedy best-fit", "greedy balanced", "threshold best-fit"
_RATIO = "performance ratio (lower = better)"
_LIMITS = {1: "sequential", 30: "up to 30 cores", 120: "up to 120 cores", 5_000: "up to 5,000 cores"}


def paper_figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """Those that the rows of `sweep_figures` have jobs for, by name."""
    found: dict[str, Figure] = {}
    limits = sorted(set(rows["limit"].astype(int)))
    if 1 in limits:
        one = rows[rows["limit"] == 1]
        found |= {"figure-2": _load(one), "figure-3": _days(one), "figure-4": _maps_of_sequential(one),
                  "figure-5": _small_slack(one)}
    wide = [limit for limit in limits if limit > 1]
    if wide:
        found |= {"figure-6-7": _maps(rows, wide), "figure-8": _backfilling(rows, wide)}
    return found


def _of(rows: pd.DataFrame, slack: float, part: int = 0, sigma_share: float = 2.5) -> pd.DataFrame:
    return rows[(rows["slack"] == slack) & (rows["part"] == part) & (rows["sigma_share"] == sigma_share)]


def _means(rows: pd.DataFrame, value: str = "ratio") -> pd.DataFrame:
    """Mean, least and most over draws, by rule and cores."""
    own = rows[np.isfinite(rows["ratio"])].groupby(["label", "n_cores"], sort=False)[value]
    return pd.DataFrame({value: own.mean(), "least": own.min(), "most": own.max()}).reset_index()


def _titled(axes: Axes, words: str) -> None:
    axes.set_title(words, fontsize=9, loc="left")


def _load(one: pd.DataFrame) -> Figure:
    figure, (axes,) = panels(1, 6.2, 3.8)
    rows = _of(one, 0.8)
    curves(axes, _means(rows, "accepted_core_h"), "accepted_core_h", "accepted load, core-hours (higher = better)")
    limit = rows.groupby("n_cores")["limit_core_h"].mean()
    axes.plot(limit.index, limit, color="#222222", lw=1.2, ls=":", label="upper load limit")
    axes.legend(frameon=False, fontsize=8)
    _titled(axes, f"Day {rows['day'].iloc[0]:.0f}, sequential, slack 0.8; bars: least and most of the draws")
    return figure


def _days(one: pd.DataFrame) -> Figure:
    words = ("most jobs", "most load", "more jobs than 3/4 of the days")
    parts = [part for part in range(3) if len(_of(one, 0.5, part))]
    figure, every = panels(len(parts), 4.0, 3.4)
    for axes, part in zip(every, parts, strict=True):
        rows = _of(one, 0.5, part)
        curves(axes, _means(rows)[["label", "n_cores", "ratio"]], "ratio", _RATIO)
        _titled(axes, f"Day {rows['day'].iloc[0]:.0f}, {rows['n_jobs'].iloc[0]:,.0f} jobs:\n{words[part]}; slack 0.5")
    every[-1].legend(frameon=False, fontsize=8)
    return figure


def _differences(rows: pd.DataFrame, row: str, worse: str) -> pd.DataFrame:
    means = rows[np.isfinite(rows["ratio"])].groupby(["label", row, "n_cores"])["ratio"].mean()
    return (means[worse] - means[BF]).rename("difference").reset_index()


def _map(figure: Figure, axes: Axes, table: pd.DataFrame, row: str, words: str, title: str) -> None:
    limit = max(float(table["difference"].abs().max()), 0.01)
    figure.colorbar(heat_map(axes, table, row, words, limit), ax=axes)
    _titled(axes, title)


def _maps_of_sequential(one: pd.DataFrame) -> Figure:
    figure, (left, right) = panels(2, 4.8, 3.4)
    sigmas = one[one["part"] == 3].assign(sigma=lambda rows: rows["slack"] / rows["sigma_share"])
    _map(figure, left, _differences(sigmas, "sigma", BAL), "sigma", "sigma of the logarithm",
         "Ratio of balanced minus best-fit, slack 0.8")
    slacks = one[(one["part"] == 0) & (one["sigma_share"] == 2.5)]
    _map(figure, right, _differences(slacks, "slack", THRESHOLD), "slack", "slack",
         "Ratio of threshold minus best-fit")
    return figure


def _small_slack(one: pd.DataFrame) -> Figure:
    figure, (left, right) = panels(2, 4.8, 3.4)
    curves(left, _means(_of(one, 0.01, 0, 2.0))[["label", "n_cores", "ratio"]], "ratio", _RATIO)
    left.legend(frameon=False, fontsize=8)
    _titled(left, "Slack 0.01, sigma = slack / 2")
    slacks = one[(one["part"] == 0) & (one["sigma_share"] == 2.5)]
    _map(figure, right, _differences(slacks, "slack", BAL), "slack", "slack", "Ratio of balanced minus best-fit")
    return figure


def _maps(rows: pd.DataFrame, limits: list[int]) -> Figure:
    figure, every = panels(len(limits), 4.4, 3.4)
    for axes, limit in zip(every, limits, strict=True):
        own = rows[(rows["limit"] == limit) & (rows["part"] == 0)]
        _map(figure, axes, _differences(own, "slack", BAL), "slack", "slack",
             f"Balanced minus best-fit, {_LIMITS[limit]}")
    return figure


def _backfilling(rows: pd.DataFrame, limits: list[int]) -> Figure:
    figure, every = panels(len(limits), 4.4, 3.6)
    for axes, limit in zip(every, limits, strict=True):
        own = _of(rows[rows["limit"] == limit], 0.5)
        curves(axes, _means(own)[["label", "n_cores", "ratio"]], "ratio", _RATIO)
        _titled(axes, f"{_LIMITS[limit].capitalize()}, slack 0.5")
    fullest = max(every, key=lambda axes: len(axes.get_legend_handles_labels()[1]))
    fullest.legend(frameon=False, fontsize=7, handlelength=3.5)  # long enough to tell dashes from lines
    return figure
