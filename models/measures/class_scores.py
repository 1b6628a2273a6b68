"""How well the classes of a scheduler are told, at creation and of what remains at 1 h, off any lifetime curve.

A request's class is how many thresholds it outlives; the predicted one how many it outlives with more than 0.5. DVLA
reports plain accuracy over classes of which one holds most requests: macro-recall is the mean of each class's recall,
and weighted by core-hours each request counts with its cores and observed lifetime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures.censoring import censoring_curve, outliving_weights
from sojourn.models.measures.thresholds import CLASS_THRESHOLDS_S, time_label
from sojourn.models.outcomes import CensoringCurve

N_EACH_MIN = 20
"""A threshold that fewer rows are seen to outlive, or not to, is left out: of the classes, and by the classifiers."""
CLASS_AGES_S = (0, 3_600)


def has_each(outlives: np.ndarray) -> bool:
    """Whether enough rows outlive a threshold, and enough do not. outlives: bool (n,).

    >>> has_each(np.arange(40) < 20), has_each(np.arange(40) < 19)
    (True, False)
    """
    n_long = int(outlives.sum())
    return min(n_long, len(outlives) - n_long) >= N_EACH_MIN


def shown_thresholds(past: Examples, test: Examples) -> Mapping[str, tuple[int, ...]]:
    """Of each scheduler the thresholds, s, that both windows show, at creation and at 1 h; one without any is left out.

    A window shows one if at least 20 rows are seen to outlive it, and 20 are seen not to.
    """
    windows = [(rows, censoring_curve(rows)) for rows in (past, test)]
    shown = {name: tuple(each for each in thresholds_s
                         if all(_is_shown(*window, each, age_s) for window in windows for age_s in CLASS_AGES_S))
             for name, thresholds_s in CLASS_THRESHOLDS_S.items()}
    return {name: thresholds_s for name, thresholds_s in shown.items() if thresholds_s}


def class_scores(table: CurveTable, test: Examples, cores: np.ndarray,
                 shown: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """`dvla.accuracy`, `dvla.macro_recall`, `dvla.core_hours` and the same at 1 h (`dvla.age_1h.*`), of each scheduler.

    cores: float64 (n,), of the test rows. shown: what `shown_thresholds` gives. Higher is better, in [0, 1]. Rows
    censored below the last threshold, whose class is not known, are stood for by inverse probability of censoring.
    """
    curve = censoring_curve(test)
    found: dict[str, float] = {}
    for name, thresholds_s in shown.items():
        for age_s in CLASS_AGES_S:
            weight, _ = outliving_weights(curve, test, age_s + thresholds_s[-1], age_s)
            idx = np.flatnonzero(weight > 0.0)
            if len(idx) == 0:
                continue
            rows, curves, weight = test.take(idx), table.take(idx), weight[idx]
            left_s = rows.lifetime_s - age_s
            truth = sum(((left_s > each).astype(np.int64) for each in thresholds_s), np.zeros(len(idx), np.int64))
            called = sum(((curves.survival(float(each), float(age_s)) > 0.5).astype(np.int64) for each in thresholds_s),
                         np.zeros(len(idx), np.int64))
            prefix = name if age_s == 0 else f"{name}.age_{time_label(age_s)}"
            is_right = (truth == called).astype(np.float64)
            recalls = [np.average(is_right[truth == each], weights=weight[truth == each]) for each in np.unique(truth)]
            hours = weight * np.maximum(cores[idx], 0.0) * left_s
            found[f"{prefix}.accuracy"] = float(np.average(is_right, weights=weight))
            found[f"{prefix}.macro_recall"] = float(np.mean(recalls))
            if hours.sum() > 0.0:
                found[f"{prefix}.core_hours"] = float(np.average(is_right, weights=hours))
    return found


def _is_shown(rows: Examples, curve: CensoringCurve, threshold_s: int, age_s: int) -> bool:
    weight, _ = outliving_weights(curve, rows, age_s + threshold_s, age_s)
    return has_each(rows.lifetime_s[weight > 0.0] > age_s + threshold_s)
