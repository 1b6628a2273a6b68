"""One replay in plain Python: checks its input, composes and compiles the loop with the policy, runs it, measures it.

May import: `loop` and what lies below it.
"""

from sojourn.simulator.engine.explanation import Explanation, explain
from sojourn.simulator.engine.metrics import Metrics
from sojourn.simulator.engine.simulate import Result, Samples, named_policy, simulate
from sojourn.simulator.engine.upkeep import Defragmentation, Drain, Failure, Maintenance, Migration

__all__ = [
    "Defragmentation", "Drain", "Explanation", "Failure", "Maintenance", "Metrics", "Migration", "Result", "Samples",
    "explain", "named_policy", "simulate",
]  # fmt: skip
