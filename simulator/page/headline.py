"""What the page says first: what was compared, what can be deployed and gains most, and the interval of that gain."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from sojourn.simulator.experiments import BASELINE, evidence_of, is_rejecting_more, knows_the_future, rejection_words
from sojourn.simulator.page.comparison_data import ComparisonData, Pool, in_hosts
from sojourn.simulator.page.figures import bound_gain_pp, gain_text

_MOST_LISTED = 5
"""Labels in a sentence."""


def compared(data: ComparisonData) -> str:
    """What was compared, in one sentence."""
    summary = data.summary
    policies = [policy for policy in dict.fromkeys(summary["policy"]) if policy != BASELINE]
    predictors = [predictor for predictor in dict.fromkeys(summary["predictor"]) if predictor]
    loads = ", ".join(f"{100 * load:g}" for load in sorted(set(summary["load"])))
    n_seeds = sorted(set(summary["n_seeds"]))
    parts = [f"{count(len(policies), 'policy', 'policies')} against {BASELINE}"]
    parts += [f"with {count(len(predictors), 'predictor')}"] if predictors else []
    parts += [f"on {' and '.join(dict.fromkeys(summary['workload']))} at {loads} % peak load"]
    seeds = " to ".join(dict.fromkeys(str(n) for n in (n_seeds[0], n_seeds[-1])))
    return " ".join(parts) + f", {seeds} seed{'s' if seeds != '1' else ''} each."


def headline(rows: pd.DataFrame, pool: Pool | None = None) -> list[str]:
    """The answer in hosts; the best that can be deployed in pp, with its interval; what knowing lifetimes would bring;
    what to hold against them.

    rows: of a summary, one workload and load. pool: its hosts; None = nothing is said in hosts.
    """
    others = rows[(rows["policy"] != BASELINE) & rows["gain_pp"].notna()]
    others = others.sort_values("gain_pp", ascending=False, kind="stable")
    ranked = others.to_dict("records")
    if not ranked:
        return [f"Only {BASELINE} was replayed: nothing to compare it with."]
    deployable = [row for row in ranked if not knows_the_future(row["predictor"])]
    knowing = [row for row in ranked if knows_the_future(row["predictor"])]
    bound_pp = bound_gain_pp(rows)
    lines = []
    if pool is not None:
        first, verdict, *worth, next_step = in_hosts(rows, pool)
        lines += [" ".join((first, verdict, next_step)), " ".join(worth),
                  f"1 pp (percentage point) is 1 % of the hosts, here {pool.n_hosts / 100:g}. Intervals are over the "
                  "seeds: other arrangements of the requests. The bound is what perfect placement could empty: total "
                  "demand needs the other hosts at each moment. Hosts empty and fill again, so a mean of empty hosts "
                  f"is no number that may be switched off for good. Peak load: at the busiest moment demand fills "
                  f"{100 * float(rows['load'].iloc[0]):g} % of the hosts. An oracle knows every lifetime in advance, "
                  "which no scheduler does."]
    lines += [_verdict(deployable[0], bound_pp)] if deployable else [
        "Nothing here can be deployed: every predictor is made from the trace's own future."]
    if knowing:
        share = _share(knowing[0]["gain_pp"], bound_pp)
        lines.append(f"With the trace's own future known: {knowing[0]['label']}, {_gain(knowing[0])}{share}.")
    is_more = is_rejecting_more(rows)
    lines.append(rejection_words(_listed(rows.loc[is_more, "label"].tolist())))
    lines.append(evidence_of(rows))
    if len(deployable) > 1:
        lines.append(f"Chosen as the best of {len(deployable)} by these same replays: the interval does not allow for "
                     "it.")
    return [line for line in lines if line]


def _listed(labels: list[str]) -> list[str]:
    return labels if len(labels) <= _MOST_LISTED else [*labels[:_MOST_LISTED], f"{len(labels) - _MOST_LISTED} more"]


def _share(gain_pp: float, bound_pp: float) -> str:
    return f", {100 * gain_pp / bound_pp:.0f} % of the way to the bound" if bound_pp > 0 and gain_pp > 0 else ""


def _verdict(best: Mapping[Hashable, Any], bound_pp: float) -> str:
    gain, low = best["gain_pp"], best["gain_low_pp"]
    share = _share(gain, bound_pp)
    where = f"on {best['workload']} at {100 * best['load']:g} % peak load"
    if gain <= 0:
        return (f"Nothing deployable beats {BASELINE} in empty hosts {where}; {best['label']} comes closest, at "
                f"{_gain(best)}.")
    if not math.isfinite(low):
        return (f"{best['label']} gains {_gain(best)} in empty hosts over {BASELINE} {where}{share}, in one replay: "
                "without further seeds there is no interval.")
    if low <= 0:
        return (f"Nothing deployable is significantly better than {BASELINE} {where}: {best['label']} comes out best "
                f"in empty hosts, at {_gain(best)}, and that interval includes 0.")
    return f"{best['label']} gains {_gain(best)} in empty hosts over {BASELINE} {where}{share}."


def _gain(row: Mapping[Hashable, Any]) -> str:
    return gain_text(row["gain_pp"], row["gain_low_pp"], row["gain_high_pp"])


def count(n: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> count(1, "policy", "policies"), count(2000, "seed")
    ('1 policy', '2,000 seeds')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"
