"""Checks that the exported file and the kernels give the learner's bits, on real rows and on and next to thresholds.

Also the time of a lifetime curve, as a share of the learner's call for the same answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sojourn.models.lifetime import Exported, Scores
from sojourn.models.onnx_export import to_onnx
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.curves import LookupTable
from sojourn.serving.forest import Forest, OnnxForest, read_forest, row_scores
from sojourn.serving.kernel import in_blocks

_CHUNK = 20_000


def learner_scores(exported: Exported, lookup: LookupTable | None = None) -> Scores | None:
    """The raw scores of the library that trained a model; None if the family has no such function.

    lookup: of the bundle of the rows; the learner does not read the row of the table.
    """
    scores = exported.scores if exported.text is None else lightgbm_scores(exported.text)
    if lookup is None or scores is None:
        return scores
    place, of_learner = lookup.place, scores
    return lambda rows: of_learner(np.delete(rows, place, axis=1))


def n_different_scores(scores: Scores, forest: Forest, rows: np.ndarray, seed: int = 0) -> tuple[int, int]:
    """How many rows' raw scores differ in any bit from the learner's, and of how many (ONNX Runtime and compiled).

    rows: float64 (n, n_features), real feature rows. Each is scored unchanged, and with half of its
    values replaced by a threshold of their feature, or one ulp above or below it.
    """
    file = to_onnx(forest)
    runtime, compiled = OnnxForest(file, forest.n_features).scores, row_scores(read_forest(file, forest.n_features))
    inputs = np.concatenate([rows, on_thresholds(forest, rows, seed)])
    is_different = np.empty(len(inputs), bool)

    def compare(block: slice) -> None:
        for start in range(block.start, block.stop, _CHUNK):
            rows_of = slice(start, min(start + _CHUNK, block.stop))
            chunk = np.ascontiguousarray(inputs[rows_of])
            expected = np.asarray(scores(chunk), np.float64).view(np.int64)
            is_different[rows_of] = ((expected != runtime(chunk).view(np.int64))
                                     | (expected != compiled(chunk).view(np.int64)))

    in_blocks(len(inputs), compare)
    return int(is_different.sum()), len(inputs)


def lightgbm_scores(text: str) -> Scores:
    """LightGBM's raw scores of a model, given as its text."""
    from sojourn.models.lightgbm_library import lgb

    booster = lgb.Booster(model_str=text)
    return lambda rows: np.asarray(booster.predict(rows, raw_score=True, num_threads=1))


def on_thresholds(forest: Forest, rows: np.ndarray, seed: int) -> np.ndarray:
    """Copies of the rows with about half of the values on a threshold, or one ulp above or below."""
    rng = np.random.default_rng(seed)
    moved = rows.copy()
    for feature in range(forest.n_features):
        thresholds = forest.splits_on(feature)
        if len(thresholds) == 0:
            continue
        picks = rng.choice(thresholds, len(rows))
        kind = rng.integers(0, 3, len(rows))
        above, below = np.nextafter(picks, np.inf), np.nextafter(picks, -np.inf)
        picks = np.select([kind == 1, kind == 2], [above, below], picks)
        moved[:, feature] = np.where(rng.random(len(rows)) < 0.5, picks, moved[:, feature])
    return moved


N_WARM = 5


@dataclass(frozen=True, slots=True)
class CurveCost:
    """Medians in microseconds: of a curve, and of the learner's `predict` for the same n_answers rows."""

    curve_us: float
    learner_us: float
    n_answers: int

    @property
    def ratio(self) -> float:
        """A curve's time as a share of the learner's; lower = faster."""
        return self.curve_us / self.learner_us


def curve_cost(scores: Scores, builder: CurveBuilder, rows: np.ndarray,
               clock: Callable[[], float] = time.perf_counter) -> CurveCost:
    """The two medians over the rows, timed alternately, so that other load affects both.

    scores: of the learner's library. rows: float64 (n, number of the encoder's features), n >= 1. clock: seconds.
    """
    times_s: list[tuple[float, float]] = []
    n_answers = 0
    for row in np.concatenate([rows[:1].repeat(N_WARM, axis=0), rows]):
        features, inputs = row.tolist(), at_all_ages(builder, row)
        n_answers = len(inputs)
        started = clock()
        builder.curve(features)
        built = clock()
        scores(inputs)
        times_s.append((built - started, clock() - built))
    curve_us, learner_us = 1e6 * np.median(times_s[N_WARM:], axis=0)
    return CurveCost(float(curve_us), float(learner_us), n_answers)


def curve_us(builder: CurveBuilder, rows: np.ndarray, clock: Callable[[], float] = time.perf_counter) -> float:
    """The median in microseconds of a curve, for a model without a learner to compare with; see `curve_cost`."""
    times_s = []
    for features in rows.tolist():
        started = clock()
        builder.curve(features)
        times_s.append(clock() - started)
    return 1e6 * float(np.median(times_s))


def at_all_ages(builder: CurveBuilder, row: np.ndarray) -> np.ndarray:
    """One request as the forest reads it, float64 (n_answers, n_features): a row for each age.

    row: float64 (number of the encoder's features,).
    """
    schema, grid = builder.schema, builder.grid
    repeated = np.ascontiguousarray(np.broadcast_to(row, (len(grid), len(row))))
    return np.ascontiguousarray(schema.curves.forest_rows(schema.numbers.age_features, repeated, grid))
