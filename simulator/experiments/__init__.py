"""Comparisons of several replays: policies and predictors, A/B in one pool, orders of migration;
caveats of a gain.

May import: `measures` and what lies below it.
"""

from sojourn.simulator.experiments.ab_pool import SourceFor, ab_trial, batches, expected_exits, n_carried_out
from sojourn.simulator.experiments.comparison import (
    BASELINE,
    MORE_REJECTED,
    Comparison,
    Pairing,
    caveats,
    compare,
    evidence_of,
    is_rejecting_more,
    knows_the_future,
    pairing_label,
    rejection_words,
)

__all__ = [
    "BASELINE", "MORE_REJECTED", "Comparison", "Pairing", "SourceFor", "ab_trial", "batches", "caveats", "compare",
    "evidence_of", "expected_exits", "is_rejecting_more", "knows_the_future", "n_carried_out", "pairing_label",
    "rejection_words",
]  # fmt: skip
