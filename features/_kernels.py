"""Compiled loop over a trace's rows in the order of decision: features of the owner's ended requests."""

from __future__ import annotations

import math

import numpy as np

from sojourn.serving.kernel import kernel


@kernel
def fill_habits(codes, decided_s, end_s, is_event, by_end, log_lifetime, window, instant_log10, counts_log1p,
                longer_log10, habits):
    """Write `OwnerState.ended_part` at each row to habits, float64 (n, 9).

    codes: int64 (n,) from 0, -1 = none. by_end: ended rows, in the order of their ends.
    counts_log1p: float64 (window + 1,). longer_log10: of the three shares. The order of ends is
    that of `creation.replayed_rows`.
    """
    n = len(codes)
    n_codes = codes.max() + 1 if n else 0
    recent = np.empty((n_codes, window))
    n_ended = np.zeros(n_codes, np.int64)
    is_done = np.zeros(n, np.bool_)
    longer = np.empty(3, np.int64)
    position = 0
    for row in range(n + 1):
        while row < n and position < len(by_end) and end_s[by_end[position]] <= decided_s[row]:
            row_ended = by_end[position]
            position += 1
            if row_ended < row and not is_done[row_ended]:
                is_done[row_ended] = True
                if codes[row_ended] >= 0:
                    recent[codes[row_ended], n_ended[codes[row_ended]] % window] = log_lifetime[row_ended]
                    n_ended[codes[row_ended]] += 1
        if row == n:
            break
        code = codes[row]
        n_known = min(n_ended[code], window) if code >= 0 else 0
        habits[row] = np.nan
        habits[row, 0] = 0.0
        if n_known > 0:
            first = n_ended[code] - n_known
            n_rest = 0
            total, last = 0.0, 0.0
            for idx in range(first, first + n_known):
                value = recent[code, idx % window]
                if value > instant_log10:
                    n_rest += 1
                    total += value
                    last = value
            habits[row, 4] = (n_known - n_rest) / n_known
            if n_rest > 0:
                mean, squares, longest = total / n_rest, 0.0, -1.0
                longer[:] = 0
                for idx in range(first, first + n_known):
                    value = recent[code, idx % window]
                    if value > instant_log10:
                        deviation = value - mean
                        squares += deviation * deviation
                        longest = max(longest, value)
                        for at in range(3):
                            longer[at] += value >= longer_log10[at]
                habits[row, 0] = counts_log1p[n_rest]
                habits[row, 1] = mean
                habits[row, 2] = math.sqrt(squares / n_rest)
                habits[row, 3] = last
                habits[row, 5] = longest
                for at in range(3):
                    habits[row, 6 + at] = longer[at] / n_rest
        if is_event[row] and end_s[row] <= decided_s[row]:  # ended within the second of its decision
            is_done[row] = True
            if code >= 0:
                recent[code, n_ended[code] % window] = log_lifetime[row]
                n_ended[code] += 1
