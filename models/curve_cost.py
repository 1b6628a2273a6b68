"""What building a lifetime curve costs, as a share of the learner's own call for the same answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sojourn.models.lifetime import Scores
from sojourn.serving.answers import CurveBuilder

N_WARM = 5


@dataclass(frozen=True, slots=True)
class CurveCost:
    """Medians in microseconds: of a curve, and of the learner's `predict` of the n_answers rows that it answers."""

    curve_us: float
    learner_us: float
    n_answers: int

    @property
    def ratio(self) -> float:
        """A curve's time as a share of the learner's; lower = faster."""
        return self.curve_us / self.learner_us


def curve_cost(scores: Scores, builder: CurveBuilder, rows: np.ndarray,
               clock: Callable[[], float] = time.perf_counter) -> CurveCost:
    """The two medians over the rows, timed in turns, so that what else runs on the machine meets both.

    scores: of the learner's own library. rows: float64 (n, number of the encoder's features), n >= 1. clock: seconds.
    """
    times_s: list[tuple[float, float]] = []
    n_answers = 0
    for row in np.concatenate([rows[:1].repeat(N_WARM, axis=0), rows]):
        features, asked = row.tolist(), at_all_ages(builder, row)
        n_answers = len(asked)
        started = clock()
        builder.curve(features)
        built = clock()
        scores(asked)
        times_s.append((built - started, clock() - built))
    curve_us, learner_us = 1e6 * np.median(times_s[N_WARM:], axis=0)
    return CurveCost(float(curve_us), float(learner_us), n_answers)


def curve_us(builder: CurveBuilder, rows: np.ndarray, clock: Callable[[], float] = time.perf_counter) -> float:
    """The median in microseconds of a curve alone, of a model without a learner to compare with; see `curve_cost`."""
    times_s = []
    for features in rows.tolist():
        started = clock()
        builder.curve(features)
        times_s.append(clock() - started)
    return 1e6 * float(np.median(times_s))


def at_all_ages(builder: CurveBuilder, row: np.ndarray) -> np.ndarray:
    """One request as the forest reads it, float64 (n_answers, n_features): a row per age that it is asked at.

    row: float64 (number of the encoder's features,).
    """
    schema, grid = builder.schema, builder.grid
    repeated = np.ascontiguousarray(np.broadcast_to(row, (len(grid), len(row))))
    return np.ascontiguousarray(schema.curves.forest_rows(schema.numbers.age_features, repeated, grid))
