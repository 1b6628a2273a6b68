"""One replay: checks its input, composes and compiles the loop with the policy, runs it, measures it.

May import: `loop` and what lies below it.
"""

from sojourn.simulator.engine.compilation import Loop, compile_ahead, compiled_source, missing_ahead, state_of
from sojourn.simulator.engine.composition import composed, is_packing_last
from sojourn.simulator.engine.explanation import Explanation, explain
from sojourn.simulator.engine.metrics import Metrics
from sojourn.simulator.engine.policy_check import check_form
from sojourn.simulator.engine.simulate import Result, Samples, named_policy, simulate
from sojourn.simulator.engine.upkeep import Defragmentation, Drain, Failure, Maintenance, Migration
from sojourn.simulator.engine.world import PREDICTIONS, Run, curves_for, tables_of

__all__ = [
    "PREDICTIONS", "Defragmentation", "Drain", "Explanation", "Failure", "Loop", "Maintenance", "Metrics", "Migration",
    "Result", "Run", "Samples", "check_form", "compile_ahead", "compiled_source", "composed", "curves_for", "explain",
    "is_packing_last", "missing_ahead", "named_policy", "simulate", "state_of", "tables_of",
]  # fmt: skip
