"""How honest an A/B in one pool and a pre/post analysis are: what they estimate, beside what is true."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from sojourn.flows.evaluations.pre_post import pre_post
from sojourn.flows.placement.workloads import t_half_width
from sojourn.simulator import Policy, Workload, simulate
from sojourn.simulator.engine import named_policy
from sojourn.simulator.experiments import BASELINE, SourceFor, ab_trial
from sojourn.simulator.policies.wrappers import switched

AB, AB_ADJUSTED, AA, PRE_POST = "A/B", "A/B from the bound", "A/A", "pre/post"


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
