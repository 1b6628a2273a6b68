"""Bootstrap by owner: requests of one owner are not independent, so owners are resampled, not requests.

A draw is a weight per row, so that a measure prepared once is only reweighed. Owners are drawn whole (Davison and
Hinkley 1997, section 3.8). The same seed and owners give the same draws, so differences of two models stay paired.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sojourn.features.split import Examples
from sojourn.serving.inputs import HistoryDefinition

MIN_OWNERS = 20
"""Owners are resampled at the coarsest level that has this many: an interval from a handful says nothing."""
N_DRAWS = 200


@dataclass(frozen=True, slots=True)
class OwnerDraws:
    """Draws of owners with replacement, as many as there are. Iterating gives float64 row weights (n,), whole numbers.

    owner_codes: int64 (n,), equal = same owner; below 0 = unknown, each such row on its own.

    >>> [weight.tolist() for weight in OwnerDraws(np.array([7, 7, 9]), 3, seed=1)]
    [[1.0, 1.0, 1.0], [0.0, 0.0, 2.0], [2.0, 2.0, 0.0]]
    """

    owner_codes: np.ndarray
    n_draws: int = N_DRAWS
    seed: int = field(kw_only=True)

    def __post_init__(self) -> None:
        if len(self.owner_codes) == 0:
            raise ValueError("owner_codes must hold at least one row, got none")

    def __len__(self) -> int:
        return self.n_draws

    @property
    def n_units(self) -> int:
        """How many are drawn from: owners, and rows of no known owner."""
        return int(self._clusters().max()) + 1

    def _clusters(self) -> np.ndarray:
        """int64 (n,), from 0 on: the unit of each row."""
        is_known = self.owner_codes >= 0
        known, inverse = np.unique(self.owner_codes[is_known], return_inverse=True)
        cluster = np.empty(len(self.owner_codes), np.int64)
        cluster[is_known] = inverse
        cluster[~is_known] = len(known) + np.arange(len(cluster) - len(inverse))
        return cluster

    def __iter__(self) -> Iterator[np.ndarray]:
        cluster = self._clusters()
        n = int(cluster.max()) + 1
        rng = np.random.default_rng(self.seed)
        for _ in range(self.n_draws):
            times_drawn = np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)
            yield times_drawn[cluster]


def coarsest_owner(owners: Sequence[np.ndarray], n: int) -> np.ndarray:
    """Codes int64 (n,) of the coarsest key with at least MIN_OWNERS known owners; each row alone where none has.

    owners: codes (n,) of each owner key, coarsest first; below 0 = unknown.

    >>> coarsest_owner([np.zeros(40, int), np.arange(40) // 2], 40)[:4].tolist()
    [0, 0, 1, 1]
    """
    for codes in owners:
        if len(np.unique(codes[codes >= 0])) >= MIN_OWNERS:
            return codes
    return np.arange(n)


def drawn_owners(rows: Examples, history: HistoryDefinition) -> tuple[np.ndarray, int]:
    """`coarsest_owner` of rows by their owner keys, and how many known owners it names: 0 where rows stand alone."""
    owners = [rows.keys[idx] for idx, key in enumerate(history.keys) if key.kind == "owner"]
    codes = coarsest_owner(owners, len(rows))
    is_named = any(codes is each for each in owners)
    return codes, len(np.unique(codes[codes >= 0])) if is_named else 0


def interval(replicates: np.ndarray | Sequence[float]) -> tuple[float, float]:
    """2.5 and 97.5 % of the replicates (the percentile interval), NaN ones left out; NaN where none is left.

    >>> low, high = interval([*range(41), float("nan")])
    >>> round(low, 9), round(high, 9)
    (1.0, 39.0)
    """
    found = np.asarray(replicates, np.float64)
    found = found[~np.isnan(found)]
    if len(found) == 0:
        return float("nan"), float("nan")
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)


def standard_error(drawn: np.ndarray, n_units: int) -> float:
    """The standard error from drawn values of n_units owners or requests; infinite where these say nothing of it.

    Draws of a few vary too little, by (n - 1) / n in the variance. Values that are not finite are left out.

    >>> standard_error(np.array([1.0, 3.0, np.nan]), 2)
    1.4142135623730951
    """
    known = drawn[np.isfinite(drawn)]
    return float(known.std()) * math.sqrt(n_units / (n_units - 1.0)) if n_units > 1 and len(known) > 1 else math.inf
