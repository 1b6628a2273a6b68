"""Which of its two times a local time of a repeated hour means, by how long the run took and when it was submitted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_SLACK_S = 1.0
"""Elapsed and suspended time are each cut to whole seconds."""


@dataclass(frozen=True, slots=True)
class ChosenTimes:
    """Starts and ends, float64 (n,), Unix seconds; bool masks (n,) of the rows that had a choice, by what decided it.

    is_left: nothing did, and the first of the two times is taken.
    """

    start_s: np.ndarray
    end_s: np.ndarray
    is_by_spent: np.ndarray
    is_by_submit: np.ndarray
    is_left: np.ndarray


def chosen_times(start_s: np.ndarray, end_s: np.ndarray, later_start_s: np.ndarray, later_end_s: np.ndarray,
                 spent_s: np.ndarray, submit_s: np.ndarray) -> ChosenTimes:
    """Of each run the start and the end that agree with the rest of its row; all arguments float64 (n,), seconds.

    start_s, end_s: the first of the times that a cell can mean; later_...: the second, NaN where there is one only.
    Taken are those whose difference is spent_s. Where two pairs fit, or none does, the start is not before submit_s
    (its first time); then the earlier one. NaN = not known.

    >>> nan, hour = np.array([np.nan]), 3600.0
    >>> at = chosen_times(np.array([0.0]), np.array([2 * hour]), np.array([hour]), nan, np.array([hour]), nan)
    >>> at.start_s.tolist(), at.is_by_spent.tolist()
    ([3600.0], [True])
    """
    start, end = start_s.copy(), end_s.copy()
    by_spent, by_submit, left = (np.zeros(len(start), bool) for _ in range(3))
    for row in np.flatnonzero(~np.isnan(later_start_s) | ~np.isnan(later_end_s)):
        starts = [each for each in (start_s[row], later_start_s[row]) if not math.isnan(each)]
        ends = [each for each in (end_s[row], later_end_s[row]) if not math.isnan(each)] or [math.nan]
        pairs = [(one, other) for one in starts for other in ends if not other < one]
        fitting = [pair for pair in pairs if abs(pair[1] - pair[0] - spent_s[row]) <= _SLACK_S]
        possible = fitting or pairs
        in_order = [pair for pair in possible if not pair[0] < submit_s[row]] or possible
        if not in_order:  # an end before every start, which is refused
            continue
        start[row], end[row] = in_order[0]
        by_spent[row] = len(fitting) == 1
        by_submit[row] = len(fitting) != 1 and len({pair[0] for pair in in_order}) < len({pair[0] for pair in possible})
        left[row] = not (by_spent[row] or by_submit[row])
    return ChosenTimes(start, end, by_spent, by_submit, left)
