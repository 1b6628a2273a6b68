"""The gates on the candidate's bundle: its bits, its size and its speed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sojourn.flows.gates.gate import Gate
from sojourn.models.bundle_writer import table_of
from sojourn.models.curve_table import CurveTable
from sojourn.models.lifetime import Scores
from sojourn.models.parity import curve_cost, curve_us, n_different_scores
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import Bundle, load_bundle
from sojourn.serving.errors import BundleError
from sojourn.serving.forest import Forest
from sojourn.serving.inputs import HistoryTerms

N_PARITY_ROWS = 50_000
N_CURVES = 200
"""Curves timed by the latency gate."""
_PARITY_UPTIMES_S = (0.0, 600.0, 21_600.0, 1e6)
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


def table_parity_gate(own: CurveTable, builder: CurveBuilder, features: np.ndarray) -> Gate:
    """The bundle of a model without trees gives the model's own answers to the bit, all at once and one by one.

    own: the model's curves. features: the same requests as the bundle's encoder gives them.
    """
    served = table_of(builder.schema, builder.forest, features)
    alone = [builder.curve(row) for row in features[:N_CURVES].tolist()]
    is_different = np.zeros(len(features), bool)
    for uptime_s in _PARITY_UPTIMES_S:
        left_s = own.remaining(uptime_s)
        is_different |= served.remaining(uptime_s) != left_s
        is_different |= served.survival(3_600.0, uptime_s) != own.survival(3_600.0, uptime_s)
        is_different[:N_CURVES] |= [curve.remaining(uptime_s) for curve in alone] != left_s[:N_CURVES]
    return Gate("bit parity of the export", not is_different.any(),
                f"{int(is_different.sum())} of {len(features):,} curves differ from the model's own")


def following_gate(served: Path, bundle: Bundle) -> Gate | None:
    """A predictor that watches the folder of the champion goes on with the candidate; None if there is none to follow.

    Its live owner history goes on, so both must read it alike: the same keys, of the same columns, on the same clock.
    """
    try:
        champion = load_bundle(served)
    except BundleError:  # nothing is served, or nothing that this release reads
        return None
    name = "predictors that watch the served folder"
    clash = HistoryTerms.of(champion.schema.encoder).clash(HistoryTerms.of(bundle.schema.encoder),
                                                           f"version {champion.version}")
    found = (f"would refuse the candidate: {clash}. Retrain under another --model-name, or serve this version by "
             "`sojourn rollback NAME --to NUMBER --despite-gates` and restart them" if clash else "take the candidate")
    return Gate(name, not clash, found)


def table_latency_gate(builder: CurveBuilder, features: np.ndarray) -> Gate:
    """What a curve of a model without trees costs. There is no learner's call to compare with, so it always passes."""
    return Gate("time to build a curve", True, f"no trees: a row of the lookup table, median "
                                               f"{curve_us(builder, features[:N_CURVES]):.0f} us; no learner to "
                                               "compare with")
