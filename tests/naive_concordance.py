"""Slow twin of the concordance sweep: every pair, in plain Python."""

from __future__ import annotations


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
