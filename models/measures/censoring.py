"""Inverse-probability-of-censoring weights of test rows, and how far the test can be followed.

One censoring curve G for all test rows, as scikit-survival has it. Training weights have one per week of arrival
(models.outcomes), but a test window ends with the trace: nothing of its last week can be followed past a week, so
that week's own G is 0 at the thresholds asked about, and no weight makes up for it. Pooled, earlier rows stand for
them, which supposes that lifetimes do not drift within the window.
"""

from __future__ import annotations

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.outcomes import WEIGHT_LIMIT, CensoringCurve


def censoring_curve(rows: Examples) -> CensoringCurve:
    """The pooled G of test rows (reverse Kaplan-Meier, late entries at risk from their entry)."""
    return CensoringCurve.fit(rows.lifetime_s, rows.is_event, rows.entry_s)


def follow_up_s(rows: Examples, share: float = 0.95) -> float:
    """The time, seconds, by which `share` of the rows have ended or are censored; NaN for no rows.

    With 5 % of all rows still under observation, none of them late, G is at least 0.05 there: weights up to it
    never reach WEIGHT_LIMIT.
    """
    return float(np.quantile(rows.lifetime_s, share, method="lower")) if len(rows) else float("nan")


def outliving_weights(curve: CensoringCurve, rows: Examples, threshold_s: float, age_s: float = 0.0,
                      before: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """Weights float64 (n,) for "outlives the threshold" among those alive at an age, and the share clipped.

    Cumulative/dynamic: rows seen beyond the threshold weigh G(u) / G(T), ends at L <= T weigh G(u) / G(L-), at most
    WEIGHT_LIMIT; rows censored by T, and rows not under observation at the age u, weigh 0. The share is of the
    rows with a weight. before: G(L-) of each row, (n,), where it is at hand; None = found here.
    Source: Uno, Cai, Tian and Wei 2007; Blanche, Dartigues and Jacqmin-Gadda 2013.

    >>> curve = CensoringCurve(np.array([5.0]), np.array([0.5]))
    >>> rows = Examples(np.zeros((3, 1)), (), np.array([4.0, 5.0, 9.0]), np.array([True, False, True]), np.zeros(3),
    ...                 np.zeros(3, np.int64), np.arange(3))
    >>> outliving_weights(curve, rows, 8.0)
    (array([1., 0., 2.]), 0.0)
    """
    _check_age(threshold_s, age_s)
    is_asked = (rows.lifetime_s > age_s) & (rows.entry_s <= age_s)
    is_long = is_asked & (rows.lifetime_s > threshold_s)
    is_short = is_asked & rows.is_event & ~is_long
    before = curve.before(rows.lifetime_s) if before is None else before
    followed = np.where(is_long, curve.at(np.array([threshold_s])), before)
    return _inverse(curve, is_long | is_short, followed, age_s)


def end_weights(curve: CensoringCurve, rows: Examples, age_s: float = 0.0) -> tuple[np.ndarray, float]:
    """Weights G(u) / G(L-) of observed ends among those alive at an age, float64 (n,), and the share clipped.

    Censored rows, and rows not under observation at the age u, weigh 0; at most WEIGHT_LIMIT. Lifetimes longer than
    any row could be followed have no one to stand for them.
    """
    is_asked = (rows.lifetime_s > age_s) & (rows.entry_s <= age_s)
    return _inverse(curve, is_asked & rows.is_event, curve.before(rows.lifetime_s), age_s)


def _check_age(threshold_s: float, age_s: float) -> None:
    if not 0.0 <= age_s < threshold_s:
        raise ValueError(f"age_s must be from 0 to below threshold_s {threshold_s!r}, got {age_s!r}")


def _inverse(curve: CensoringCurve, is_counted: np.ndarray, followed: np.ndarray,
             age_s: float) -> tuple[np.ndarray, float]:
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.nan_to_num(curve.at(np.array([age_s])) / followed, nan=WEIGHT_LIMIT, posinf=WEIGHT_LIMIT + 1.0)
    weight = np.where(is_counted, weight, 0.0)
    is_clipped = weight > WEIGHT_LIMIT
    return np.minimum(weight, WEIGHT_LIMIT), float(is_clipped.sum() / max(int(is_counted.sum()), 1))
