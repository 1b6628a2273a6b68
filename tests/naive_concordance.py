"""Slow twin of the concordance sweep: every pair, in plain Python; and both concordances, one at a time."""

from __future__ import annotations

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.measures import Concordance
from sojourn.models.outcomes import CensoringCurve


def concordance_sums(time: list[float], is_event: list[bool], entry: list[float], score: list[float],
                     weight: list[float], uno: list[float]) -> list[float]:
    """Concordant and comparable pair weights, then both with each leading row's `uno`."""
    sums = [0.0, 0.0, 0.0, 0.0]
    for i in range(len(time)):
        for j in range(len(time)):
            is_first = time[i] < time[j] or (time[i] == time[j] and not is_event[j])
            if is_event[i] and is_first and entry[j] < time[i] and i != j:
                share = 1.0 if score[i] < score[j] else 0.5 if score[i] == score[j] else 0.0
                pair = weight[i] * weight[j]
                for at, amount in enumerate((share * pair, pair, uno[i] * share * pair, uno[i] * pair)):
                    sums[at] += amount
    return sums


def harrell_c(rows: Examples, score: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Harrell's C (Harrell et al. 1996), in [0, 1]. It is biased by the pairs that censoring removes.

    score: float (n,), higher = longer-lived. weight: float64 (n,), how often a row counts.
    """
    return Concordance.of(rows, score).both(weight)[0]


def uno_c(rows: Examples, score: np.ndarray, weight: np.ndarray | None = None, *,
          curve: CensoringCurve | None = None, tau_s: float | None = None) -> float:
    """Uno's C (Uno et al. 2011), in [0, 1]: a pair led by an end at L < tau weighs 1 / G(L-)^2.

    Arguments as in `Concordance.of`. scikit-survival takes G(L): the same unless a row is censored
    at the second of another's end; here events come first.
    """
    return Concordance.of(rows, score, curve, tau_s).both(weight)[1]
