"""One request at every value of what varies with the age, through ONNX Runtime, in buffers that are bound once.

For installations without numba. Each thread has its own buffers; binding them saves a third of a run's fixed cost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from sojourn.serving.forest.age_features import AgeFeatures
from sojourn.serving.runtime import OnnxForest


class BoundRows:
    """Scores single requests on a grid; safe to use from several threads.

    forest: takes the encoder's features, then what is set against the age, then the grid's value. grid: float64 (K,).
    """

    def __init__(self, forest: OnnxForest, grid: np.ndarray, age_features: AgeFeatures, n_features: int) -> None:
        self._forest = forest
        self._grid = grid
        self._n_fixed = n_features - 1 - len(age_features)
        self._sources = age_features.sources
        ages_s, log_ages = np.array(age_features.ages_s), np.array(age_features.log_ages)
        is_log = np.array(age_features.is_log, np.bool_)
        self._less = np.where(is_log, log_ages[:, None], 0.0)  # x - 0 and x / 1 are x, to the bit
        self._by = np.where(is_log, 1.0, ages_s[:, None])
        self._own = threading.local()

    def scores(self, features: Sequence[float]) -> np.ndarray:
        """Raw scores float64 (K,) of a request's encoded features."""
        own = self._own
        try:
            rows, run = own.rows, own.run
        except AttributeError:
            rows, run = own.rows, own.run = self._bound()
        rows[:, :self._n_fixed] = features
        if self._sources:
            with np.errstate(over="ignore"):  # infinity is where compiled code ends, too
                aged = np.array([features[source] for source in self._sources]) - self._less
                np.divide(aged, self._by, out=rows[:, self._n_fixed:-1])
        return run()

    def _bound(self) -> tuple[np.ndarray, Callable[[], np.ndarray]]:
        rows = np.empty((len(self._grid), self._n_fixed + len(self._sources) + 1))
        rows[:, -1] = self._grid
        return rows, self._forest.bound(rows)
