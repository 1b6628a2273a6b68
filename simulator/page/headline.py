"""The first page: the answer, one picture, what the answer covers and what it does not."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from types import MappingProxyType

import pandas as pd

from sojourn.simulator.experiments import (
    BASELINE,
    RIVALS,
    evidence_of,
    is_rejecting_more,
    knows_the_future,
    rejection_words,
)
from sojourn.simulator.measures import number_text
from sojourn.simulator.page.comparison_data import ComparisonData, Pool, answer

_MOST_LISTED = 5
"""Labels in a sentence."""


def compared(data: ComparisonData) -> str:
    """What was compared, in one sentence."""
    summary = data.summary
    rivals = [policy for policy in RIVALS if policy in set(summary["policy"])]
    policies = [policy for policy in dict.fromkeys(summary["policy"]) if policy not in rivals]
    predictors = [predictor for predictor in dict.fromkeys(summary["predictor"]) if predictor]
    loads = ", ".join(f"{100 * load:g}" for load in sorted(set(summary["load"])))
    n_seeds = sorted(set(summary["n_seeds"]))
    parts = [f"{count(len(policies), 'policy', 'policies')} against {' and '.join(rivals)}"]
    parts += [f"with {count(len(predictors), 'predictor')}"] if predictors else []
    parts += [f"on {' and '.join(dict.fromkeys(summary['workload']))} at {loads} % peak load"]
    seeds = " to ".join(dict.fromkeys(str(n) for n in (n_seeds[0], n_seeds[-1])))
    return " ".join(parts) + f", {seeds} seed{'s' if seeds != '1' else ''} each."


def covers(data: ComparisonData) -> list[str]:
    """What the answer covers, a sentence each."""
    lines = [compared(data), f"{data.description.rstrip('.')}." if data.description else "",
             "Means over time after the warm-up. 95 % intervals are over the seeds: other arrangements of the same "
             "requests."]
    return [line for line in lines if line]


def leaves_out(rows: pd.DataFrame) -> list[str]:
    """What the answer does not cover, a sentence each. rows: of a summary, one workload and load."""
    others = rows[~rows["policy"].isin(RIVALS) & rows["gain_pp"].notna()]
    is_known = others["predictor"].map(knows_the_future).astype(bool)
    n_deployable = int((~is_known).sum())
    lines = [
        evidence_of(rows),
        rejection_words(_listed(rows.loc[is_rejecting_more(rows), "label"].tolist())),
        f"Chosen as the best of {n_deployable} by these same replays: the interval does not allow for it."
        if n_deployable > 1 else "",
        "Another month or another cluster: replay its own trace.",
        "How many hosts may be switched off for good: hosts empty and fill again.",
        f"Other loads: at the busiest moment demand fills {100 * float(rows['load'].iloc[0]):g} % of the hosts.",
    ]
    return [line for line in lines if line]


def _listed(labels: list[str]) -> list[str]:
    return labels if len(labels) <= _MOST_LISTED else [*labels[:_MOST_LISTED], f"{len(labels) - _MOST_LISTED} more"]


WORDS_OF_PAGE: Mapping[str, str] = MappingProxyType({
    "pp": "Percentage point: 1 % of the hosts.",
    "bound": "What perfect placement could empty: total demand needs the other hosts at each moment.",
    "oracle": "Knows every lifetime in advance, which no scheduler does. So do noise, recall and truth.",
    "peak load": "The share of the hosts that demand fills at the busiest moment.",
    "host-hour": "One host for one hour; 730 are one host for a month. Others call it a node-hour.",
})
"""Words that a reader of the page may not know."""


def answer_html(rows: pd.DataFrame, pool: Pool | None) -> str:
    """The answer as a box: its line, its worth with a price that the reader may change, and the reasons."""
    result = answer(rows, pool)
    parts = [f'<p class="line">{html.escape(result.line)}</p>']
    if result.host_hours is not None:
        parts.append(f'<p class="worth">{html.escape(result.worth(None))}</p>')
    if result.host_hours is not None and pool is not None and result.label:
        price = pool.price_per_host_hour
        month = " ".join(f"{hours:.10g}" for hours in result.host_hours if math.isfinite(hours))
        shown = "" if price is None else f"{price:g}"
        parts.append(
            f'<p class="worth money{" unset" * (price is None)}" data-month="{month}">In money: <output id="money">'
            f'{html.escape(result.money(price)) if price else "–"}</output> a month at <input id="price" type="number" '
            f'min="0" step="any" value="{shown}" aria-label="price of a host-hour"> per host-hour</p>')
    parts.append(f"<p>{html.escape(' '.join((*result.why, f'Next: {result.next_step}')))}</p>")
    return "\n".join(parts)


def picture_html(rows: pd.DataFrame, pool: Pool | None) -> str:
    """Bars of the empty hosts: best-fit and its best rival, the best that can be deployed, the best that knows the
    future, the bound."""
    baseline = rows[rows["policy"] == BASELINE].iloc[0]
    empty = float(baseline["empty_hosts_pct"])
    others = rows[(rows["policy"] != BASELINE) & rows["gain_pp"].notna()]
    rivals = others[others["policy"].isin(RIVALS)]
    others = others.drop(rivals.index).sort_values("gain_pp", ascending=False, kind="stable")
    is_known = others["predictor"].map(knows_the_future).astype(bool)
    result = answer(rows, pool)
    deployable = others[~is_known]
    deployable = deployable[deployable["label"] == result.label] if result.label else deployable
    bars = [(BASELINE, empty, "")]
    bars += [(str(row["label"]), empty + float(row["gain_pp"]), kind)
             for part, kind in ((rivals, "without lifetimes"), (deployable, "best that can be deployed"),
                                (others[is_known], "knows the future"))
             for row in part[:1].to_dict("records")]
    bound = float(baseline.get("bound_empty_hosts_pct", math.nan))
    bars += [("perfect placement", bound, "the bound")] if math.isfinite(bound) else []
    whole = f"of {pool.n_hosts:,} hosts" if pool else "% of the hosts"
    lines = "".join(
        f'<dt>{html.escape(label)}{f" <small>{kind}</small>" if kind else ""}</dt>'
        f'<dd><span class="bar"><i style="width:{min(max(share_pct, 0.0), 100.0):.2f}%"></i></span>'
        f"{number_text(share_pct * (pool.n_hosts / 100 if pool else 1), 1)}</dd>" for label, share_pct, kind in bars)
    return f'<h2>Empty hosts, {whole}</h2><dl class="bars">{lines}</dl>'


def count(n: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> count(1, "policy", "policies"), count(2000, "seed")
    ('1 policy', '2,000 seeds')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"
