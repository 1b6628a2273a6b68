"""One model's scores at creation, by share of each request's own lifetime, and at absolute ages.

Shares are LAVA's figure 9; they know the lifetime that is asked for. A scheduler asks at an absolute age, among
the requests still alive: that is what decides.
"""

from __future__ import annotations

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures.errors import bias_log10, mae_log10
from sojourn.models.measures.ranking import average_precision, f1, recall_at_precision

WEEK_S = 604_800
AGES_S = (600, 3_600, 21_600)
"""Absolute ages at which remaining times are scored: 10 min, 1 h, 6 h."""
UPTIME_SHARES = tuple(step / 20.0 for step in range(20))
_LADDER_S = (600, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800, 604_800)
_N_LONG_SHARE = 0.04


def label_of(seconds: float) -> str:
    """A short name of a time: `10m`, `12h`, `7d`.

    >>> [label_of(s) for s in (600, 43_200, 86_400, 604_800)]
    ['10m', '12h', '24h', '7d']
    """
    if seconds % 86_400 == 0 and seconds > 86_400:
        return f"{int(seconds // 86_400)}d"
    if seconds % 3_600 == 0:
        return f"{int(seconds // 3_600)}h"
    return f"{int(seconds // 60)}m"


def choose_threshold(train: Examples) -> int:
    """The trace's own "long-lived", in seconds: the longest of a ladder (10 min to 7 d) that at least 4 % outlive.

    Looks at training labels only; a censored request counts with its time so far.
    """
    shares = [(train.lifetime_s > bound).mean() for bound in _LADDER_S]
    fitting = [bound for bound, share in zip(_LADDER_S, shares, strict=True) if share >= _N_LONG_SHARE]
    return fitting[-1] if fitting else _LADDER_S[0]


def score_model(table: CurveTable, test: Examples, threshold_s: int) -> dict[str, float]:
    """All scores of one model on test rows, by name.

    `creation.*` at uptime 0; `age_10m.*` among requests alive at that age; `share_50.*` at 50 % of each own
    lifetime. `*_1h`, `*_7d` and `*_long` are of "outlives" 1 h, 7 d and the trace's own threshold: names do not
    depend on the trace, so that versions compare. ap, f1 and recall (higher is better) leave out rows censored
    before the threshold; mae and bias are of log10 seconds, median against observed (lower and nearer 0 is better).
    """
    scores: dict[str, float] = {}
    for bound_s, name in ((3_600, "1h"), (WEEK_S, "7d"), (threshold_s, "long")):
        scores |= _outlives(table, test, 0.0, bound_s, "creation", name)
    scores |= _errors(table, test, 0.0, "creation", "lifetime")
    for age_s in AGES_S:
        is_alive = (test.lifetime_s > age_s) & (test.entry_s <= age_s)
        if not is_alive.any():
            continue
        alive, curves = test.take(is_alive), table.take(is_alive)
        prefix = f"age_{label_of(age_s)}"
        scores[f"{prefix}.n_alive"] = float(len(alive))
        scores |= _errors(curves, alive, float(age_s), prefix, "remaining")
        if threshold_s > age_s:
            scores |= _outlives(curves, alive, float(age_s), threshold_s, prefix, "long")
    observed = test.take(test.is_event)
    curves = table.take(test.is_event)
    for share in UPTIME_SHARES:
        uptime_s = np.floor(observed.lifetime_s * share)
        prefix = f"share_{round(100 * share):02d}"
        scores[f"{prefix}.f1_long"] = f1(
            observed.lifetime_s > threshold_s, _is_called_long(curves, uptime_s, threshold_s))
        if round(100 * share) % 25 == 0:
            scores[f"{prefix}.mae_log10_remaining"] = mae_log10(
                curves.quantile(0.5, uptime_s), observed.lifetime_s - uptime_s)
    return {name: value for name, value in scores.items() if np.isfinite(value)}


def _is_called_long(table: CurveTable, uptime_s: np.ndarray | float, threshold_s: int) -> np.ndarray:
    """True where the median total lifetime exceeds the threshold, or the uptime already does."""
    left_s = np.maximum(threshold_s - np.asarray(uptime_s, np.float64), 0.0)
    return table.survival(left_s, uptime_s) > 0.5


def _outlives(table: CurveTable, test: Examples, age_s: float, threshold_s: int, prefix: str,
              name: str) -> dict[str, float]:
    is_known = test.is_event | (test.lifetime_s >= threshold_s)
    rows, curves = test.take(is_known), table.take(is_known)
    if len(rows) == 0:
        return {}
    is_long = rows.lifetime_s > threshold_s
    score = curves.survival(threshold_s - age_s, age_s)
    return {
        f"{prefix}.ap_{name}": average_precision(is_long, score),
        f"{prefix}.base_rate_{name}": float(is_long.mean()),
        f"{prefix}.f1_{name}": f1(is_long, score > 0.5),
        f"{prefix}.recall_at_p99_{name}": recall_at_precision(is_long, score, 0.99),
        f"{prefix}.recall_at_p95_{name}": recall_at_precision(is_long, score, 0.95),
    }


def _errors(table: CurveTable, test: Examples, age_s: float, prefix: str, what: str) -> dict[str, float]:
    rows, curves = test.take(test.is_event), table.take(test.is_event)
    predicted_s, observed_s = curves.quantile(0.5, age_s), rows.lifetime_s - age_s
    return {
        f"{prefix}.mae_log10_{what}": mae_log10(predicted_s, observed_s),
        f"{prefix}.bias_log10_{what}": bias_log10(predicted_s, observed_s),
    }
