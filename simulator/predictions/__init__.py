"""Predictions for a replay: curves of total lifetime, from oracles, tables and flawed oracles.

May import: `workloads`. It imports no model: a `LifetimeSource` wraps one.
"""

from sojourn.simulator.predictions.sources import (
    TOTAL_MAX_S,
    Curves,
    Held,
    LifetimeSource,
    LongAsShort,
    NoisyOracle,
    OneShot,
    Oracle,
    asked_curves,
    one_step,
)

__all__ = [
    "TOTAL_MAX_S", "Curves", "Held", "LifetimeSource", "LongAsShort", "NoisyOracle", "OneShot", "Oracle",
    "asked_curves", "one_step",
]  # fmt: skip
