"""Compiled loops: the intervals in which rows with limit axis were at risk; the replay of a trace through habits."""

from __future__ import annotations

import numpy as np

from sojourn.serving.curves import fill_limit_axis
from sojourn.serving.curves.habit_kernels import advance, begin, fill_hazards, fill_weights, finish
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


@kernel
def replay(habits, ones, blend, decided_s, lifetime_s, is_event, seen_s, by_end, is_fresh, is_asked, hazards, weights):
    """Write the cumulative hazards of the rows asked for, each with what was known at its decision, and the weights
    of the model of the blend.

    Rows are in the order of decision; by_end: rows in the order of their ends. is_fresh: bool (n, levels), the node
    begins anew. hazards: float32 (m, J); weights: float32 (m, buckets). At one second ends come before decisions.
    """
    n, n_levels = is_fresh.shape
    first, n_weighed = blend.places[1], len(blend.is_weighed)
    known, weight = np.empty(hazards.shape[1]), np.empty(weights.shape[1])
    n_ended = n_asked = 0
    for row in range(n + 1):
        now_s = decided_s[row] if row < n else np.inf
        while n_ended < n:
            one = by_end[n_ended]
            end_s = ones.start_s[one] + lifetime_s[one]
            if end_s > now_s:
                break
            n_ended += 1
            if ones.serial[one] >= 0:
                advance(habits, ones, blend, end_s)
                finish(habits, ones, blend, one, lifetime_s[one], is_event[one])
        if row == n:
            break
        advance(habits, ones, blend, now_s)
        nodes = ones.nodes[row]
        for level in range(n_levels):
            if is_fresh[row, level]:
                habits.counts[nodes[level]] = 0.0
                blend.sums[nodes[level]] = 0.0
                habits.born[nodes[level]] = row
        is_weighed = first <= row < first + n_weighed
        if is_asked[row] or is_weighed:
            fill_hazards(habits, nodes, known)
            if is_weighed:
                for interval in range(len(known)):
                    blend.known[row - first, interval] = known[interval]
        if is_asked[row]:
            fill_weights(blend, nodes, weight)
            for interval in range(len(known)):
                hazards[n_asked, interval] = known[interval]
            for bucket in range(len(weight)):
                weights[n_asked, bucket] = weight[bucket]
            n_asked += 1
        begin(habits, ones, row, row, seen_s[row])
        if ones.start_s[row] + lifetime_s[row] <= now_s:  # it ended within the second of its decision
            finish(habits, ones, blend, row, lifetime_s[row], is_event[row])
