"""How honest an A/B in one pool and a pre/post analysis are: their estimates beside the true effect.

    python -m studies launches [--policy NAME ...] [--load L ...] [--n-seeds N] [--trace PATH --reader NAME]

What a launch on a whole pool brought is held against a counterfactual predicted from demand (LAVA, section 5.2,
figure 7): a structural time series as in CausalImpact (Brodersen et al., 2015). The empty hosts before the launch
are regressed on the bound, which is of demand alone and so knows nothing of the launch, now and as a mean over the
last day and the last four (a pool empties behind its demand), with a first-order autoregressive rest. CausalImpact's
local level in place of that rest, a random walk, widens the interval beyond use over half a trace."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sojourn.flows.compare.cells import workload_of
from sojourn.flows.compare.tables import log_sections
from sojourn.flows.console import console, stage
from sojourn.flows.placement.workloads import WorkloadSpec, t_half_width
from sojourn.flows.reports.section import Section
from sojourn.flows.versions.promotion import open_store
from sojourn.simulator import Oracle, Policy, Workload, simulate
from sojourn.simulator.engine import named_policy
from sojourn.simulator.experiments import BASELINE
from sojourn.simulator.measures import interval_text, signed_text
from sojourn.simulator.page import BOUND_COLOUR, COLOURS
from studies.ab_trial import SourceFor, ab_trial
from studies.policies.switched import switched
from studies.settings import OF_REPLAYS, StudySettings, run_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLES = ("policy", "method", "estimate pp", "truth pp", "error pp", "95 % interval", "spread of one",
           "half width reported", "interval holds truth %")
_LEGEND = ("Estimate and truth: empty hosts over best-fit's, percentage points. Error: estimate minus truth, mean with "
           "95 % interval. Spread of one: standard deviation of the error of a single experiment. Half width reported: "
           "of the 95 % interval that such an experiment reports. Interval holds truth: share of the experiments; 95 "
           "is right.")
AB, AB_ADJUSTED, AA, PRE_POST = "A/B", "A/B from the bound", "A/A", "pre/post"
DAY_S = 86_400
MEMORY_S = (DAY_S, 4 * DAY_S)
"""Lengths of the trailing means of the bound."""
N_PATHS = 1000


def run_launches(config: StudySettings) -> int:
    """Print and log one table for each load; returns 0."""
    for policy in config.policies:
        switched(named_policy(policy), 0)  # refuses one that can't be launched before anything runs
    with stage("open the store"):
        tracker = open_store(config)
    by_load: dict[float, dict[int, WorkloadSpec]] = {}
    for cell in config.cells():
        by_load.setdefault(cell.workload.load, {})[cell.workload.seed] = cell.workload
    parts: list[pd.DataFrame] = []
    sections: list[Section] = []
    figures: dict[str, Figure] = {}
    for load, specs in by_load.items():
        parts.append(_trials(specs, config.policies).assign(load=load))
        first = workload_of(next(iter(specs.values())))
        sections.append(_section(parts[-1], f"{first.description}; load {load:g}", len(specs)))
        console.print()
        console.print(sections[-1])
        figures |= {f"pre-post-{policy}-load-{load:g}": _launch(first, policy) for policy in config.policies}
    with stage("log"):
        trace = next(iter(by_load[config.loads[0]].values())).trace
        log_sections(tracker, config.preset, config.model_dump(mode="json"), trace, sections,
                     {"trials": pd.concat(parts, ignore_index=True)}, figures)
    return 0


def _trials(specs: Mapping[int, WorkloadSpec], policies: Sequence[str]) -> pd.DataFrame:
    """As `run_ab_pool`, with the `policy`. specs: one workload by seed."""
    parts: list[pd.DataFrame] = []
    for policy in policies:
        with stage(f"A/B of {policy}") as report:
            found = run_ab_pool(lambda seed: workload_of(specs[seed]), policy, Oracle, list(specs), report)
        parts.append(found.assign(policy=policy))
    return pd.concat(parts, ignore_index=True)


def _section(trials: pd.DataFrame, description: str, n_seeds: int) -> Section:
    caption = f"{description}; {n_seeds} seeds, perfect lifetimes."
    rows = []
    for policy, own in trials.groupby("policy", sort=False):
        for method, row in ab_summary(own).iterrows():
            rows.append((str(policy), str(method), signed_text(row["effect_pp"]), signed_text(row["true_pp"]),
                         signed_text(row["error_pp"]),
                         interval_text(row["error_low_pp"], row["error_high_pp"], between=" "),
                         f"{row['error_sd_pp']:.2f}", f"{row['half_width_pp']:.2f}", f"{row['covered_pct']:.0f}"))
    return Section("A/B in one pool, and pre/post", caption, _TITLES, tuple(rows), 2, _LEGEND)


def _launch(workload: Workload, policy: str) -> Figure:
    """The pre/post analysis of one launch, with what would have been without it."""
    from_s = (workload.warmup_s + workload.trace.horizon_s) // 2
    source = Oracle(workload)
    series = simulate(workload, switched(named_policy(policy), from_s), source).series
    found = pre_post(series, from_s, warmup_s=workload.warmup_s)
    plain = simulate(workload).series.set_index("time_s")
    truth = plain.loc[found.time_s, "empty_hosts_pct"].to_numpy()
    return pre_post_figure(found, f"{policy} from the middle on; {workload.description}", truth)


def run_ab_pool(workload_for_seed: Callable[[int], Workload], policy: str | Policy, source_for: SourceFor,
                seeds: Sequence[int], progress: Callable[[int, int], None] | None = None) -> pd.DataFrame:
    """One row per seed and method: `seed`, `method`, `effect_pp`, `low_pp`, `high_pp`, `true_pp`, `is_covered`,
    `n_rejected`.

    effect_pp: empty hosts under the policy over best-fit's, percentage points, as the method sees it; low_pp, high_pp:
        the 95 % interval that one such experiment would report; true_pp: the same of two replays of the whole pool.
    method: "A/B", two halves split by the seed, interval from ten blocks of time; "A/B from the bound", each half
        measured from its own bound; "A/A", best-fit in both (true effect 0); "pre/post", the policy in the second half
        of the time after the warm-up, against a counterfactual.
    policy: one that `switched` takes. source_for: its predictions for a workload.

    >>> from sojourn.features.synthetic import synthesize
    >>> from sojourn.simulator import Oracle, build_workload
    >>> made = lambda seed: build_workload("synthetic", synthesize(1_000, seed=seed), n_hosts=9)
    >>> table = run_ab_pool(made, "best-fit", Oracle, [0])
    >>> table["method"].tolist(), table["true_pp"].tolist()
    (['A/B', 'A/B from the bound', 'A/A', 'pre/post'], [0.0, 0.0, 0.0, 0.0])
    """
    chosen = named_policy(policy)
    rows = []
    for done, seed in enumerate(seeds):
        if progress is not None:
            progress(done, len(seeds))
        workload = workload_for_seed(seed)
        source, baseline = source_for(workload), simulate(workload)
        true_pp = simulate(workload, chosen, source).metrics.empty_hosts_pct - baseline.metrics.empty_hosts_pct
        trial, placebo = ab_trial(workload, chosen, source_for, seed), ab_trial(workload, BASELINE, source_for, seed)
        rows += [
            (seed, AB, *_mean_of_blocks(trial.by_block()), true_pp, trial.n_rejected),
            (seed, AB_ADJUSTED, *_mean_of_blocks(trial.by_block(is_adjusted=True)), true_pp, trial.n_rejected),
            (seed, AA, *_mean_of_blocks(placebo.by_block()), 0.0, placebo.n_rejected),
        ]
        from_s = (workload.warmup_s + workload.trace.horizon_s) // 2
        launch = simulate(workload, switched(chosen, from_s), source)
        found = pre_post(launch.series, from_s, warmup_s=workload.warmup_s, seed=seed)
        is_after = launch.series["time_s"] >= from_s
        gained = (launch.series["empty_hosts_pct"] - baseline.series["empty_hosts_pct"])[is_after].mean()
        rows.append((seed, PRE_POST, found.effect_pp, found.effect_low_pp, found.effect_high_pp, float(gained),
                     launch.metrics.n_rejected))
    table = pd.DataFrame(rows, columns=["seed", "method", "effect_pp", "low_pp", "high_pp", "true_pp", "n_rejected"])
    is_covered = (table["low_pp"] <= table["true_pp"]) & (table["true_pp"] <= table["high_pp"])
    table.insert(6, "is_covered", is_covered)
    return table


def ab_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Methods of `run_ab_pool` over its seeds, one row each: error, interval width, and coverage.

    `effect_pp` and `true_pp`: means; `error_pp` with `error_low_pp` and `error_high_pp`: effect less truth, paired,
    95 % t-interval over the seeds; `error_sd_pp`: spread of a single experiment's error; `half_width_pp`: of the
    interval that it reports, mean; `covered_pct`: share of the seeds in which it holds the truth (95 is honest).

    >>> table = pd.DataFrame({"method": ["A/B"] * 2, "effect_pp": [1.0, 3.0], "low_pp": [0.0, 2.5],
    ...                       "high_pp": [2.0, 3.5], "true_pp": [1.5, 1.5], "is_covered": [True, False]})
    >>> ab_summary(table).loc["A/B", ["effect_pp", "error_pp", "covered_pct"]].tolist()
    [2.0, 0.5, 50.0]
    """
    rows = {}
    for method, own in table.groupby("method", sort=False):
        error = (own["effect_pp"] - own["true_pp"]).to_numpy(np.float64)
        spread = float(error.std(ddof=1)) if len(own) > 1 else float("nan")
        half = float(t_half_width(error[:, None])[0])
        rows[str(method)] = {
            "effect_pp": own["effect_pp"].mean(), "true_pp": own["true_pp"].mean(), "error_pp": error.mean(),
            "error_low_pp": error.mean() - half, "error_high_pp": error.mean() + half, "error_sd_pp": spread,
            "half_width_pp": ((own["high_pp"] - own["low_pp"]) / 2).mean(),
            "covered_pct": 100 * own["is_covered"].mean(),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def _mean_of_blocks(blocks: np.ndarray) -> tuple[float, float, float]:
    """Mean and 95 % t-interval, as if blocks of time were independent."""
    mean, half = float(blocks.mean()), float(t_half_width(blocks[:, None])[0])
    return mean, mean - half, mean + half


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


def main() -> None:
    run_study("ab-pool", run_launches, OF_REPLAYS, policies=("nilas",), predictors=("oracle",), seeds=tuple(range(10)))
