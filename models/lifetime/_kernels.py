"""Compiled loop over rows with limit axis: the intervals in which each row was at risk."""

from __future__ import annotations

import numpy as np

from sojourn.serving.curves import fill_limit_axis
from sojourn.serving.inputs import has_limit
from sojourn.serving.kernel import kernel


@kernel
def fill_limit_periods(edges, shares, limit_s, entry_s, lifetime_s, is_event, idx, interval, is_end, weight):
    """Write the rows as far as there is room; returns how many there are."""
    n_ages, n_shares = len(edges) - 1, len(shares) - 1
    whole = np.ones(n_ages + n_shares)
    own_edges, parts = np.empty(n_ages + n_shares + 1), np.empty(n_ages + n_shares)
    at = 0
    for row in range(len(limit_s)):
        n_of_age = fill_limit_axis(whole, edges, shares, limit_s[row], 1.0, own_edges, parts)
        n = n_of_age + (n_shares if has_limit(limit_s[row]) else 0)
        for place in range(n):
            lower_s, upper_s = own_edges[place], own_edges[place + 1]
            if lower_s >= lifetime_s[row]:
                break
            if upper_s <= entry_s[row]:
                continue
            if len(idx):
                seen_s = min(upper_s, lifetime_s[row]) - max(lower_s, entry_s[row])
                is_last = is_event[row] and lifetime_s[row] <= upper_s
                idx[at] = row
                interval[at] = place if place < n_of_age else n_ages + place - n_of_age
                is_end[at] = is_last
                weight[at] = 1.0 if is_last else seen_s / (upper_s - lower_s) * parts[place]
            at += 1
    return at
