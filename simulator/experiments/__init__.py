"""Comparisons of several replays: policies and predictors; caveats of a gain.

May import: `measures` and what lies below it.
"""

from sojourn.simulator.experiments.comparison import (
    BASELINE,
    MORE_REJECTED,
    RIVALS,
    Comparison,
    Pairing,
    best_rival,
    caveats,
    compare,
    evidence_of,
    is_rejecting_more,
    knows_the_future,
    over_rival,
    pairing_label,
    rejection_words,
)

__all__ = [
    "BASELINE", "MORE_REJECTED", "RIVALS", "Comparison", "Pairing", "best_rival", "caveats", "compare",
    "evidence_of", "is_rejecting_more", "knows_the_future", "over_rival", "pairing_label", "rejection_words",
]  # fmt: skip
