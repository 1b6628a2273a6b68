"""The gates on the candidate's bundle: its bits, its size and its speed."""

from __future__ import annotations

import numpy as np

from sojourn.flows.gates.gate import Gate
from sojourn.models.curve_cost import curve_cost
from sojourn.models.lifetime import Scores
from sojourn.models.parity import n_different_scores
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.forest import Forest

N_PARITY_ROWS = 50_000
N_CURVES = 200
"""Curves timed by the latency gate."""
_NO_LEARNER = "the family must export `text` or `scores`, by which its learner can be asked; got neither"


def parity_gate(scores: Scores | None, forest: Forest, rows: np.ndarray, seed: int) -> Gate:
    """The export gives the learner's own bits, on real rows and on and beside every threshold."""
    name = "bit parity of the export"
    if scores is None:
        return Gate(name, False, _NO_LEARNER)
    drawn = np.random.default_rng(seed).integers(0, len(rows), N_PARITY_ROWS)
    n_different, n_asked = n_different_scores(scores, forest, rows[drawn], seed)
    return Gate(name, n_different == 0, f"{n_different} of {n_asked:,} rows differ")


def size_gate(max_mb: float, n_bytes: int) -> Gate:
    """The forest's file is no larger than configured."""
    return Gate("size of the forest", n_bytes <= max_mb * 1e6,
                f"{n_bytes / 1e6:.2f} MB of at most {max_mb:g}")


def latency_gate(max_ratio: float, scores: Scores | None, builder: CurveBuilder, rows: np.ndarray) -> Gate:
    """A curve costs no more than configured of what the learner's own `predict` takes for the same answers.

    A share of another call in the same run, timed in turns: another machine or a busy one moves both.
    """
    name = "time to build a curve"
    if scores is None:
        return Gate(name, False, _NO_LEARNER)
    cost = curve_cost(scores, builder, rows[:N_CURVES])
    return Gate(name, cost.ratio <= max_ratio,
                f"{cost.ratio:.2f} of the learner's own predict of the same {cost.n_answers} rows, of at most "
                f"{max_ratio:g} (medians {cost.curve_us:.0f} and {cost.learner_us:.0f} us)")
