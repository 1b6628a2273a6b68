"""Several replays beside each other: policies and predictors, A/B in one pool, orders of migration; caveats of a gain.

May import: `measures` and what lies below it.
"""

from sojourn.simulator.experiments.ab_pool import SourceFor, ab_trial
from sojourn.simulator.experiments.caveats import (
    MORE_REJECTED,
    caveats,
    evidence_of,
    is_rejecting_more,
    knows_the_future,
    rejection_words,
)
from sojourn.simulator.experiments.comparison import BASELINE, Comparison, Pairing, compare, pairing_label
from sojourn.simulator.experiments.move_orders import batches, expected_exits, n_carried_out

__all__ = [
    "BASELINE", "MORE_REJECTED", "Comparison", "Pairing", "SourceFor", "ab_trial", "batches", "caveats", "compare",
    "evidence_of", "expected_exits", "is_rejecting_more", "knows_the_future", "n_carried_out", "pairing_label",
    "rejection_words",
]  # fmt: skip
