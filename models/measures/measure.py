"""Measures of a study, thresholds of "long-lived", ages of repeated predictions, and the bootstrap by owner.

Requests of one owner are not independent, so owners are resampled as a whole (Davison and Hinkley
1997, section 3.8). A draw is a weight per row, so a prepared measure is only reweighed. The same
seed and owners give the same draws, so differences of two models stay paired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.serving.inputs import HistoryDefinition

Reweighed = Callable[[np.ndarray | None], float]
"""A prepared measure: row weights (n,), None = each row once, to its value; NaN where it is undefined."""


@dataclass(frozen=True, slots=True)
class Measure:
    """How tables of a study show a measure, and how it is computed if `assessment` does not do it.

    title: two lines; `{long}` in it is the trace's threshold of "long-lived". better: the direction; "80 %" = the
    nearest to 0.8. table: one of the four of a study. words: a sentence of the table's caption. is_paired: it compares
    the chosen family with the baselines. is_shown: whether tables show it, given the threshold in seconds. of: prepares
    it for the curves of n test rows; None = in `assessment`.
    """

    title: str
    better: Literal["higher", "lower", "10 %", "50 %", "80 %", "90 %"] = "higher"
    digits: int = 3
    table: Literal["accuracy", "distribution", "calibration by age", "classes"] = "distribution"
    words: str = ""
    is_paired: bool = False
    is_shown: Callable[[int], bool] = lambda threshold_s: True
    of: Callable[[CurveTable, Examples], Reweighed] | None = None


AGES_S = (600, 3_600, 21_600)
"""Absolute ages at which remaining times are scored: 10 min, 1 h, 6 h."""
CLASS_THRESHOLDS_S: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "dvla": (3_600, 86_400, 604_800, 2_592_000), "lava": (3_600, 36_000, 360_000),
})  # fmt: skip
"""Thresholds between the lifetime classes of two schedulers: DVLA's 1 h, 1 d, 7 d, 30 d; LAVA's 1 h, 10 h, 100 h."""
UPTIME_SHARES = tuple(step / 20.0 for step in range(20))
"""Shares of each request's lifetime (LAVA, figure 9)."""
_LADDER_S = (600, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800, 604_800)
_N_LONG_SHARE = 0.04


def time_label(seconds: float) -> str:
    """A short name of a time: `10m`, `12h`, `7d`.

    >>> [time_label(s) for s in (600, 43_200, 86_400, 604_800)]
    ['10m', '12h', '1d', '7d']
    """
    if seconds % 86_400 == 0 and seconds > 0:
        return f"{int(seconds // 86_400)}d"
    if seconds % 3_600 == 0:
        return f"{int(seconds // 3_600)}h"
    return f"{int(seconds // 60)}m"


def choose_threshold(train: Examples) -> int:
    """The trace's threshold of "long-lived", s: the longest of a ladder (10 min to 7 d) that at least 4 % outlive.

    Uses training labels only; a censored request counts with its time so far.
    """
    shares = [(train.lifetime_s > bound).mean() for bound in _LADDER_S]
    fitting = [bound for bound, share in zip(_LADDER_S, shares, strict=True) if share >= _N_LONG_SHARE]
    return fitting[-1] if fitting else _LADDER_S[0]


def alive_at(rows: Examples, age_s: float) -> np.ndarray:
    """bool (n,): observed alive at that age."""
    return (rows.lifetime_s > age_s) & (rows.entry_s <= age_s)


MIN_OWNERS = 20
"""Owners are resampled at the coarsest level with so many, since fewer give no useful interval."""
N_DRAWS = 200


@dataclass(frozen=True, slots=True)
class OwnerDraws:
    """Draws of owners with replacement, as many as there are. Iteration gives float64 row weights (n,), whole numbers.

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
        """Number of units to draw from: owners, and rows without known owner."""
        return int(self._clusters().max()) + 1

    def _clusters(self) -> np.ndarray:
        """int64 (n,), from 0 on: the unit of each row."""
        is_known = self.owner_codes >= 0
        owners, inverse = np.unique(self.owner_codes[is_known], return_inverse=True)
        cluster = np.empty(len(self.owner_codes), np.int64)
        cluster[is_known] = inverse
        cluster[~is_known] = len(owners) + np.arange(len(cluster) - len(inverse))
        return cluster

    def __iter__(self) -> Iterator[np.ndarray]:
        cluster = self._clusters()
        n = int(cluster.max()) + 1
        rng = np.random.default_rng(self.seed)
        for _ in range(self.n_draws):
            times_drawn = np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)
            yield times_drawn[cluster]


def coarsest_owner(owners: Sequence[np.ndarray], n: int) -> np.ndarray:
    """Codes int64 (n,) of the coarsest key with at least MIN_OWNERS known owners; else each row alone.

    owners: codes (n,) of each owner key, coarsest first; below 0 = unknown.

    >>> coarsest_owner([np.zeros(40, int), np.arange(40) // 2], 40)[:4].tolist()
    [0, 0, 1, 1]
    """
    for codes in owners:
        if len(np.unique(codes[codes >= 0])) >= MIN_OWNERS:
            return codes
    return np.arange(n)


def drawn_owners(rows: Examples, history: HistoryDefinition) -> tuple[np.ndarray, int]:
    """`coarsest_owner` of rows by their owner keys, and its number of known owners: 0 if each row is alone."""
    owners = [rows.keys[idx] for idx, key in enumerate(history.keys) if key.kind == "owner"]
    codes = coarsest_owner(owners, len(rows))
    is_named = any(codes is each for each in owners)
    return codes, len(np.unique(codes[codes >= 0])) if is_named else 0


def interval(replicates: np.ndarray | Sequence[float]) -> tuple[float, float]:
    """2.5 and 97.5 % of the replicates (the percentile interval) that are not NaN; NaN if there are none.

    >>> low, high = interval([*range(41), float("nan")])
    >>> round(low, 9), round(high, 9)
    (1.0, 39.0)
    """
    finite = np.asarray(replicates, np.float64)
    finite = finite[~np.isnan(finite)]
    if len(finite) == 0:
        return float("nan"), float("nan")
    low, high = np.quantile(finite, (0.025, 0.975))
    return float(low), float(high)


def standard_error(values: np.ndarray, n_units: int) -> float:
    """The standard error from bootstrap values of n_units owners or requests; infinite with too few.

    Draws of n units vary too little, by (n - 1) / n in the variance. Values that are not finite do not count.

    >>> standard_error(np.array([1.0, 3.0, np.nan]), 2)
    1.4142135623730951
    """
    finite = values[np.isfinite(values)]
    return float(finite.std()) * math.sqrt(n_units / (n_units - 1.0)) if n_units > 1 and len(finite) > 1 else math.inf


class SortedRows(NamedTuple):
    """Rows (n,) for the compiled sweep, latest first, in blocks of one time. In a block, censored
    rows come before ends: an end is compared with all rows before it.

    block: int64 (k + 1,), the start of each block. is_event: bool (n,). rank: int64 (n,), of the score, from 0; there
    are n_ranks. idx_leave: int64 (n,), rows in the order of leaving at their entry; n_leave: int64
    (k,), how many have left at a block's time. uno: float64 (n,), squared inverse probabilities.
    """

    block: np.ndarray
    is_event: np.ndarray
    rank: np.ndarray
    n_ranks: int
    idx_leave: np.ndarray
    n_leave: np.ndarray
    uno: np.ndarray


class PairSums(NamedTuple):
    """Weights of the pairs in the order of the scores, and of all comparable pairs; then both with Uno's weights."""

    concordant: float
    comparable: float
    uno_concordant: float
    uno_comparable: float
