"""Compiled sweep over pairs for concordance, from sorted rows to four sums."""

from __future__ import annotations

import numpy as np

from sojourn.models.measures.measure import PairSums
from sojourn.serving.kernel import kernel


@kernel
def concordance_sums(rows, weight):
    """The sums over all pairs. rows: see `SortedRows`. weight: float64 (n,), how often each row counts."""
    block, is_event, rank, uno = rows.block, rows.is_event, rows.rank, rows.uno
    idx_leave, n_leave = rows.idx_leave, rows.n_leave
    tree = np.zeros(rows.n_ranks + 1)  # Fenwick 1994: sums of weight by rank
    tied = np.zeros(rows.n_ranks)
    all_concordant = all_comparable = uno_concordant = uno_comparable = 0.0
    inside = 0.0
    idx_next = 0
    for at in range(len(block) - 1):
        first_end = block[at + 1]
        for row in range(block[at], block[at + 1]):
            if is_event[row]:
                first_end = row
                break
            if weight[row] > 0.0:
                inside += weight[row]
                _add(tree, tied, rank[row], weight[row])
        while idx_next < n_leave[at]:
            row = idx_leave[idx_next]
            if weight[row] > 0.0:
                inside -= weight[row]
                _add(tree, tied, rank[row], -weight[row])
            idx_next += 1
        for row in range(first_end, block[at + 1]):
            if weight[row] > 0.0:
                below = 0.0
                idx = rank[row]
                while idx > 0:
                    below += tree[idx]
                    idx -= idx & -idx
                concordant = weight[row] * (inside - below - 0.5 * tied[rank[row]])
                comparable = weight[row] * inside
                all_concordant += concordant
                all_comparable += comparable
                uno_concordant += uno[row] * concordant
                uno_comparable += uno[row] * comparable
        for row in range(first_end, block[at + 1]):
            if weight[row] > 0.0:
                inside += weight[row]
                _add(tree, tied, rank[row], weight[row])
    return PairSums(all_concordant, all_comparable, uno_concordant, uno_comparable)


@kernel
def _add(tree, tied, rank, amount):
    tied[rank] += amount
    idx = rank + 1
    while idx < len(tree):
        tree[idx] += amount
        idx += idx & -idx
