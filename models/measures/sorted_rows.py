"""What the compiled sweep over pairs reads and gives: rows sorted by time, and sums of pair weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class SortedRows(NamedTuple):
    """Rows (n,) latest first, in blocks of one time, the censored of a block before its ends: an end compares with all
    rows that are in by then.

    block: int64 (k + 1,), where each block begins. is_event: bool (n,). rank: int64 (n,), of the score, from 0; there
    are n_ranks. idx_leave: int64 (n,), rows in the order in which their entry is reached; n_leave: int64 (k,), how many
    of them have been reached at a block's time. uno: float64 (n,), squared inverse probabilities.
    """

    block: np.ndarray
    is_event: np.ndarray
    rank: np.ndarray
    n_ranks: int
    idx_leave: np.ndarray
    n_leave: np.ndarray
    uno: np.ndarray


class PairSums(NamedTuple):
    """Weights of the pairs that are ordered as scored, and of all that can be ordered; then both with Uno's weights."""

    concordant: float
    comparable: float
    uno_concordant: float
    uno_comparable: float
