"""Predictions as a replay takes them: curves of predicted total lifetime, from oracles,
held answers and flawed oracles.

May import: `workloads`. Imports no model: whoever has one wraps it in a `LifetimeSource`.
"""

from sojourn.simulator.predictions.sources import (
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
    "Curves", "Held", "LifetimeSource", "LongAsShort", "NoisyOracle", "OneShot", "Oracle", "asked_curves", "one_step",
]  # fmt: skip
