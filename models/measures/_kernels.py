"""Compiled sweep over pairs for concordance; arrays in, two ratios out."""

from __future__ import annotations

import numpy as np

from sojourn.serving.kernel import kernel


@kernel
def concordance_sums(block, is_event, rank, n_ranks, idx_leave, n_leave, weight, uno):
    """Concordant and comparable pair weights, then both for Uno: (4,).

    Rows latest first, in blocks of one time (block: (k + 1,) starts), the censored of a block before its ends: an end
    compares with all rows that are in by then. idx_leave: rows in the order in which their entry is reached;
    n_leave: (k,) how many of them have been reached at a block's time. rank: score ranks from 0. uno: squared
    inverse probabilities.
    """
    tree = np.zeros(n_ranks + 1)  # Fenwick 1994: sums of weight by rank
    tied = np.zeros(n_ranks)
    sums = np.zeros(4)
    inside = 0.0
    left = 0
    for at in range(len(block) - 1):
        first_end = block[at + 1]
        for row in range(block[at], block[at + 1]):
            if is_event[row]:
                first_end = row
                break
            if weight[row] > 0.0:
                inside += weight[row]
                _add(tree, tied, rank[row], weight[row])
        while left < n_leave[at]:
            row = idx_leave[left]
            if weight[row] > 0.0:
                inside -= weight[row]
                _add(tree, tied, rank[row], -weight[row])
            left += 1
        for row in range(first_end, block[at + 1]):
            if weight[row] > 0.0:
                below = 0.0
                idx = rank[row]
                while idx > 0:
                    below += tree[idx]
                    idx -= idx & -idx
                concordant = weight[row] * (inside - below - 0.5 * tied[rank[row]])
                comparable = weight[row] * inside
                sums[0] += concordant
                sums[1] += comparable
                sums[2] += uno[row] * concordant
                sums[3] += uno[row] * comparable
        for row in range(first_end, block[at + 1]):
            if weight[row] > 0.0:
                inside += weight[row]
                _add(tree, tied, rank[row], weight[row])
    return sums


@kernel
def _add(tree, tied, rank, amount):
    tied[rank] += amount
    idx = rank + 1
    while idx < len(tree):
        tree[idx] += amount
        idx += idx & -idx
