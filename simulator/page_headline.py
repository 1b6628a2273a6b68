"""What the page says first: what was compared, which policy came out best, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from sojourn.simulator.compare import BASELINE
from sojourn.simulator.comparison_data import ComparisonData
from sojourn.simulator.page_figures import bound_gain_pp, gain_text

_KNOWING = ("oracle", "noise", "recall", "truth")
"""Predictors made from a trace's own future, or from what drew it; nobody can deploy them."""


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


def headline(rows: pd.DataFrame) -> list[str]:
    """The best policy with its interval; the best that could be deployed, if another; what to hold against them.

    rows: of a summary, one workload and load.
    """
    others = rows[(rows["policy"] != BASELINE) & rows["gain_pp"].notna()]
    others = others.sort_values("gain_pp", ascending=False, kind="stable")
    ranked = others.to_dict("records")
    if not ranked:
        return [f"Only {BASELINE} was replayed: nothing to compare it with."]
    knows = [_knows_the_future(row["predictor"]) for row in ranked]
    lines = [_verdict(ranked[0], bound_gain_pp(rows))]
    if knows[0] and not all(knows):
        deployable = ranked[knows.index(False)]
        lines.append(f"Best of those that need no knowledge of the future: {deployable['label']}, {_gain(deployable)}"
                     f"{', which includes 0' if deployable['gain_low_pp'] <= 0 <= deployable['gain_high_pp'] else ''}.")
    elif knows[0]:
        lines.append("Its predictor is made from the trace's own future: this is what predictions could bring at most.")
    baseline_pct = rows[rows["policy"] == BASELINE].iloc[0].get("rejected_pct", math.nan)
    rejected_pct = ranked[0].get("rejected_pct", math.nan)
    if rejected_pct > baseline_pct:
        lines.append(f"It rejects {rejected_pct:.2f} % of the requests, {BASELINE} {baseline_pct:.2f} %: part of its "
                     "empty hosts may be work that it did not take.")
    if len(ranked) > 1:
        lines.append(f"Chosen as the best of {len(ranked)} by these same replays: the interval does not allow for it.")
    return lines


def _verdict(best: Mapping[Hashable, Any], bound_pp: float) -> str:
    gain, low = best["gain_pp"], best["gain_low_pp"]
    share = f", {100 * gain / bound_pp:.0f} % of the way to the bound" if bound_pp > 0 and gain > 0 else ""
    where = f"on {best['workload']} at {100 * best['load']:g} % peak load"
    if gain <= 0:
        return f"Nothing beats {BASELINE} in empty hosts {where}; {best['label']} comes closest, at {_gain(best)}."
    if not math.isfinite(low):
        return (f"{best['label']} gains {_gain(best)} in empty hosts over {BASELINE} {where}{share}, in one replay: "
                "without further seeds there is no interval.")
    if low <= 0:
        return (f"No gain is certain {where}: {best['label']} comes out best in empty hosts, at {_gain(best)} over "
                f"{BASELINE}, and that interval includes 0.")
    return f"{best['label']} gains {_gain(best)} in empty hosts over {BASELINE} {where}{share}."


def _gain(row: Mapping[Hashable, Any]) -> str:
    return gain_text(row["gain_pp"], row["gain_low_pp"], row["gain_high_pp"])


def _knows_the_future(predictor: str) -> bool:
    return predictor.removeprefix("one-shot:").replace(" ", ":").split(":")[0] in _KNOWING


def count(n: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> count(1, "policy", "policies"), count(2000, "seed")
    ('1 policy', '2,000 seeds')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"
