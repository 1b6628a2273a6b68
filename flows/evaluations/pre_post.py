"""What a launch on a whole pool brought, against a counterfactual predicted from demand (LAVA, section 5.2, figure 7).

A structural time series as in CausalImpact (Brodersen et al., 2015): the empty hosts before the launch are regressed on
the bound, which is of demand alone and so knows nothing of the launch, now and as a mean over the last day and the last
four (a pool empties behind its demand), with a first-order autoregressive rest. CausalImpact's local level in place of
that rest, a random walk, widens the interval beyond use over half a trace.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sojourn.simulator.page import BOUND_COLOUR, COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DAY_S = 86_400
MEMORY_S = (DAY_S, 4 * DAY_S)
"""Lengths of the trailing means of the bound."""
N_PATHS = 1000


@dataclass(frozen=True, slots=True)
class PrePost:
    """Empty hosts after the warm-up, and what they would have been without the launch; percent, shapes (n,).

    time_s: start of each bin. from_s: the launch. observed_pct. expected_pct: fitted one step ahead before the launch
    (NaN in the first bins, which are too few to fit to), predicted after it; low_pct, high_pct: 95 % of the predicted
    paths, bin by bin (NaN before the launch).
    effect_pp: mean of observed over expected after the launch, percentage points, higher is better; effect_low_pp,
    effect_high_pp: its 95 % interval, from the paths' own means.
    """

    time_s: np.ndarray
    from_s: int
    observed_pct: np.ndarray
    expected_pct: np.ndarray
    low_pct: np.ndarray
    high_pct: np.ndarray
    effect_pp: float
    effect_low_pp: float
    effect_high_pp: float


def pre_post(series: pd.DataFrame, from_s: int, *, warmup_s: int = 0, seed: int = 0) -> PrePost:
    """The effect of a launch at `from_s` on a `Result.series`; bins that begin before `warmup_s` are left out, and the
    one that the launch falls into.

    ValueError where fewer than 20 bins lie on either side.

    >>> rng, time_s = np.random.default_rng(0), np.arange(200) * 7200
    >>> bound = 50 + 10 * np.sin(time_s / 86_400) + rng.normal(size=200)
    >>> series = pd.DataFrame({"time_s": time_s, "bound_empty_hosts_pct": bound,
    ...                        "empty_hosts_pct": bound - 10 + 4 * (time_s >= 720_000) + rng.normal(size=200)})
    >>> found = pre_post(series, 720_000)
    >>> found.effect_low_pp < 4 < found.effect_high_pp, round(found.effect_pp)
    (True, 4)
    """
    from statsmodels.tools.sm_exceptions import ConvergenceWarning
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    bin_s = int(series["time_s"].iloc[1] - series["time_s"].iloc[0])
    bound = series["bound_empty_hosts_pct"]
    control = pd.DataFrame({0: bound} | {
        length_s: bound.rolling(max(round(length_s / bin_s), 1), min_periods=1).mean() for length_s in MEMORY_S})
    time_s = series["time_s"].to_numpy(np.int64)
    is_counted = (time_s >= warmup_s) & ((time_s >= from_s) | (time_s + bin_s <= from_s))
    time_s = time_s[is_counted]
    observed = series["empty_hosts_pct"].to_numpy(np.float64)[is_counted]
    n_pre = int((time_s < from_s).sum())
    if min(n_pre, len(time_s) - n_pre) < 20:
        raise ValueError(f"from_s must leave 20 bins or more on either side, got {n_pre} before and "
                         f"{len(time_s) - n_pre} after it")
    known = control.to_numpy(np.float64)[is_counted]
    spread = known[:n_pre].std(axis=0)
    known = (known - known[:n_pre].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    structure: Any = UnobservedComponents  # its types say less than its pages
    model = structure(observed[:n_pre], level="fixed intercept", autoregressive=1, exog=known[:n_pre],
                      mle_regression=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the rest's two parameters need not be sharp
        fitted = model.fit(disp=0)
    paths = np.asarray(fitted.simulate(len(time_s) - n_pre, anchor="end", exog=known[n_pre:], repetitions=N_PATHS,
                                       rng=np.random.default_rng(seed))).reshape(-1, N_PATHS)
    low, high = np.quantile(paths, (0.025, 0.975), axis=1)
    nothing, before = np.full(n_pre, np.nan), np.array(fitted.fittedvalues)
    before[:2 * model.k_states] = np.nan
    effects = observed[n_pre:].mean() - paths.mean(axis=0)
    effect_low, effect_high = np.quantile(effects, (0.025, 0.975))
    return PrePost(time_s, from_s, observed, np.concatenate([before, paths.mean(axis=1)]),
                   np.concatenate([nothing, low]), np.concatenate([nothing, high]), float(effects.mean()),
                   float(effect_low), float(effect_high))


def pre_post_figure(found: PrePost, title: str, truth_pct: np.ndarray | None = None) -> Figure:
    """Three panels: empty hosts and what they would have been; the difference, bin by bin; and its sum over time.

    truth_pct: what the empty hosts without the launch really are, shape (n,), where another replay gives them.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 8), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    days, is_after = found.time_s / DAY_S, found.time_s >= found.from_s
    bin_days = (found.time_s[1] - found.time_s[0]) / DAY_S
    seen = {"color": COLOURS[0], "linewidth": 1.2}
    guessed = {"color": COLOURS[1], "linewidth": 1.2, "linestyle": "--"}
    true = {"color": COLOURS[2], "linewidth": 1.0}
    top.plot(days, found.observed_pct, label="observed", **seen)
    top.plot(days, found.expected_pct, label="without the launch, predicted", **guessed)
    top.fill_between(days, found.low_pct, found.high_pct, color=COLOURS[1], alpha=0.15, linewidth=0)
    difference = found.observed_pct - found.expected_pct
    middle.plot(days, difference, **seen)
    middle.fill_between(days, found.observed_pct - found.high_pct, found.observed_pct - found.low_pct, color=COLOURS[0],
                        alpha=0.15, linewidth=0)
    bottom.plot(days[is_after], np.cumsum(difference[is_after]) * bin_days, **seen)
    if truth_pct is not None:
        top.plot(days[is_after], truth_pct[is_after], label="without the launch, replayed", **true)
        gained = (found.observed_pct - truth_pct)[is_after]
        middle.plot(days[is_after], gained, **true)
        bottom.plot(days[is_after], np.cumsum(gained) * bin_days, **true)
    top.set(ylabel="empty hosts (%)", title=title)
    middle.set(ylabel="effect (pp)")
    bottom.set(ylabel="effect, summed (pp x days)", xlabel="time since the trace's start (days)")
    for axes in (top, middle, bottom):
        axes.axvline(found.from_s / DAY_S, color=BOUND_COLOUR, linewidth=0.8, linestyle=":")
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0)
    for axes in (middle, bottom):
        axes.axhline(0, color="black", linewidth=0.6)
    top.legend(frameon=False, fontsize="small", ncols=3)
    return figure
