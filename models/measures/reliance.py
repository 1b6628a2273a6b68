"""How much a model relies on one column: its share of the split gain, and the score after shuffling its values.

Shuffling (Breiman 2001, section 10) uses the fitted model, without a further fit. Correlated columns
replace each other: two columns that contain the future hide each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures.brier import BrierOverAges
from sojourn.models.measures.censoring import KaplanMeier

N_ROWS_MAX = 5_000
N_SHUFFLES = 3


@dataclass(frozen=True, slots=True)
class Reliance:
    """The reliance on one column.

    score: Brier over ages; shuffled: the same with the column's values given to other requests. pooled: of one
    Kaplan-Meier curve for all requests, from the earlier window. gain_share: of all splits that are not on the age.
    """

    column: str
    gain_share: float
    score: float
    shuffled: float
    pooled: float

    @property
    def lost_share(self) -> float:
        """The share of the model's gain over the pooled curve that is lost without the column;
        above 1 if the rest misleads."""
        lead = self.pooled - self.score
        return (self.shuffled - self.score) / lead if lead > 0.0 else 0.0

    @property
    def ratio(self) -> float:
        """The score without the column over the score with it."""
        return self.shuffled / self.score if self.score > 0.0 else 1.0


def reliances(curves: Callable[[Examples], CurveTable], past: Examples, test: Examples,
              columns: Sequence[tuple[str, Sequence[int], Sequence[int], float]], seed: int,
              n_threads: int = 1) -> list[Reliance]:
    """The reliance on each column, on up to N_ROWS_MAX test rows.

    curves: the fitted model. columns: name, positions of its features, positions of its history
    keys, share of the gain. Features are shuffled, keys removed: a lookup table then backs off to
    keys without the column. n_threads: so many tables at once; it changes no bit.
    """
    rng = np.random.default_rng(seed)
    rows = test.take(np.sort(rng.permutation(len(test))[:N_ROWS_MAX]))
    score = BrierOverAges.of(curves(rows), rows).score()
    pooled = BrierOverAges.of(_Pooled.of(past, len(rows)), rows).score()
    orders = [(each, rng.permutation(len(rows))) for each in columns for _ in range(N_SHUFFLES)]

    def shuffled(given: tuple[tuple[str, Sequence[int], Sequence[int], float], np.ndarray]) -> float:
        (_, positions, idx_keys, _), order = given
        keys = tuple(np.full_like(codes, -1) if idx in idx_keys else codes for idx, codes in enumerate(rows.keys))
        features = rows.features.copy()
        features[:, positions] = features[order][:, positions]
        return BrierOverAges.of(curves(replace(rows, features=features, keys=keys)), rows).score()

    with ThreadPoolExecutor(n_threads) as threads:
        scores = list(threads.map(shuffled, orders))
    return [Reliance(name, gain_share, score, float(np.mean(scores[N_SHUFFLES * at:N_SHUFFLES * (at + 1)])), pooled)
            for at, (name, _, _, gain_share) in enumerate(columns)]


@dataclass(frozen=True, slots=True)
class _Pooled:
    """One curve for n requests as a curve table: the prediction of a model without features."""

    times_s: np.ndarray
    survival_after: np.ndarray
    n: int

    @classmethod
    def of(cls, past: Examples, n: int) -> _Pooled:
        curve = KaplanMeier.of(past.lifetime_s, past.is_event, past.entry_s)
        return cls(np.append(0.0, curve.values), np.append(1.0, curve.survival()), n)

    def take(self, idx: np.ndarray) -> _Pooled:
        return replace(self, n=len(np.arange(self.n)[idx]))

    def survival(self, horizon_s: float, uptime_s: float) -> np.ndarray:
        alive = self._at(uptime_s)
        return np.full(self.n, self._at(uptime_s + horizon_s) / alive if alive > 0.0 else 0.0)

    def _at(self, time_s: float) -> float:
        return float(self.survival_after[np.searchsorted(self.times_s, time_s, side="right") - 1])
