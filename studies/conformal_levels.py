"""Recalibration by online conformal prediction: at each age, which level of a curve to read for each wanted one.

A quantile q is answered by the curve's own quantile at level p. When it is known if an end was within p, p moves by
rate x (q - 1 if it was, else q): adaptive conformal inference (Gibbs and Candes 2021). Levels of several rates are
averaged by exponential weights of their pinball losses, with a share that goes back to all of them (Gibbs and Candes
2022, without their learnt rate of the weights). Each age has its own levels. A request that is asked later reads newer
levels, although its curve is that of its admission.

The outcome counts when the request's quantile has passed, for ends and for others alike. An end that counted as soon as
it is known would come before the others of the same moment, and the levels fall: `is_early` shows this.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import HazardTable
from sojourn.models.measures.calibration import NEAR_LIMIT

WANTED = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])
"""The levels that are learnt; between them, and to 0 and 1, the map is linear."""
RATES = 0.001 * 2.0 ** np.arange(7)
LOSS_RATE, SHARED = 2.0, 0.001
"""How much a loss lowers a weight, and the share of the weights that goes back to all rates at each outcome."""
LEAST = 0.002
"""Levels stay within this and 1 less it."""


class Levels:
    """The levels of one age. served: float64 (7,), for each of `WANTED` the level to read now.

    >>> levels = Levels()
    >>> for _ in range(200):  # all ends come at 40 % of the curve
    ...     levels.learn(3, 0.4, 0.4)
    >>> round(float(levels.served[3]), 2)
    0.4
    """

    def __init__(self) -> None:
        self.served = WANTED.copy()
        self.highest = WANTED.copy()
        """Of each wanted level the highest of all rates: an outcome beyond it is a miss at every rate."""
        self._at_rate = np.tile(WANTED[:, None], (1, len(RATES)))
        self._weight = np.full(self._at_rate.shape, 1.0 / len(RATES))

    def learn(self, idx: int, low: float, high: float, *, is_end: bool = True) -> None:
        """Count an outcome for `WANTED[idx]`: an end, over which the curve rises from low to high; is_end False: it
        still runs at the level low = high, which was `highest` when the request was asked."""
        wanted, at_rate, weight = WANTED[idx], self._at_rate[idx], self._weight[idx]
        is_covered = np.clip((at_rate - low) / (high - low), 0.0, 1.0) if high > low else is_end & (at_rate >= low)
        beyond = (low + high) / 2.0 - at_rate
        weight = weight * np.exp(-LOSS_RATE * np.where(beyond > 0.0, wanted * beyond, (wanted - 1.0) * beyond))
        weight = (1.0 - SHARED) * weight / weight.sum() + SHARED / len(RATES)
        at_rate = np.clip(at_rate + RATES * (wanted - is_covered), LEAST, 1.0 - LEAST)
        self._at_rate[idx], self._weight[idx] = at_rate, weight
        self.served[idx], self.highest[idx] = float((weight * at_rate).sum()), at_rate.max()


@dataclass(frozen=True, slots=True)
class LevelTable:
    """Curves read at other levels. levels: float64 (n, 7), of each row, for `WANTED`."""

    table: HazardTable
    levels: np.ndarray

    def __len__(self) -> int:
        return len(self.table)

    def take(self, idx: np.ndarray) -> Self:
        return type(self)(self.table.take(idx), self.levels[idx])

    def survival(self, horizon_s: np.ndarray | float, uptime_s: np.ndarray | float) -> np.ndarray:
        """As `CurveTable.survival`, at the age for which the levels are."""
        ended = 1.0 - self.table.survival(horizon_s, uptime_s)
        n = len(WANTED)
        rising = np.maximum.accumulate(np.sort(self.levels, axis=1) + 1e-9 * np.arange(n), axis=1)
        known = np.concatenate([np.zeros((len(self), 1)), rising, np.ones((len(self), 1))], axis=1)
        wanted = np.concatenate([[0.0], WANTED, [1.0]])
        at = np.minimum((known[:, 1:-1] <= ended[:, None]).sum(axis=1), n)
        each = np.arange(len(self))
        share = np.clip((ended - known[each, at]) / (known[each, at + 1] - known[each, at]), 0.0, 1.0)
        answers: np.ndarray = 1.0 - (wanted[at] + share * (wanted[at + 1] - wanted[at]))
        return answers


def levelled(table: HazardTable, rows: Examples, decided_s: np.ndarray, limit_s: np.ndarray, ages_s: Sequence[int], *,
             is_early: bool = False) -> dict[int, LevelTable]:
    """The table that answers at each age, learnt in the order of events from the first row on.

    table: of the rows, by a model that was not trained on them. decided_s: int64 (n,). limit_s: float64 (n,), NaN =
    none; ends within 2 % of it are one instant, and a quantile in it is judged at its end. is_early: ends count when
    they happen.
    """
    start_s = rows.arrival_s.astype(np.int64)
    end_s = start_s + rows.lifetime_s.astype(np.int64)
    first_s, last_s = (1.0 - NEAR_LIMIT) * limit_s, (1.0 + NEAR_LIMIT) * limit_s
    entered_s = start_s + rows.entry_s.astype(np.int64)
    asked_s = np.stack([np.maximum(start_s + age_s if age_s else decided_s, entered_s) for age_s in ages_s], axis=1)
    is_asked = np.stack([(rows.lifetime_s > age_s) & (rows.entry_s <= age_s) for age_s in ages_s], axis=1)
    rises = [_rise(table, rows, first_s, last_s, age_s) for age_s in ages_s]
    learners, levels = [Levels() for _ in ages_s], np.empty((*asked_s.shape, len(WANTED)))
    last_known_s, due = int(end_s.max(initial=0)), list[tuple[float, int, int, int, float]]()

    def learn_until(now_s: float) -> None:
        while due and due[0][0] < now_s:
            known_s, row, age, idx, level = heapq.heappop(due)
            if end_s[row] > known_s:
                learners[age].learn(idx, level, level, is_end=False)
            elif rows.is_event[row]:
                learners[age].learn(idx, float(rises[age][0][row]), float(rises[age][1][row]))

    for at in np.argsort(asked_s, axis=None, kind="stable").tolist():
        row, age = divmod(at, len(ages_s))
        learn_until(float(asked_s[row, age]))
        levels[row, age] = learners[age].served
        if is_asked[row, age]:
            passed_s = _quantiles(table, row, learners[age].highest, float(ages_s[age]))
            passed_s = np.where((passed_s >= first_s[row]) & (passed_s <= last_s[row]), last_s[row], passed_s)
            known_s = np.ceil(start_s[row] + passed_s)
            known_s = np.minimum(known_s, end_s[row]) if is_early else known_s
            for idx in np.flatnonzero(known_s <= last_known_s).tolist():
                heapq.heappush(due, (float(known_s[idx]), row, age, idx, float(learners[age].highest[idx])))
    return {age_s: LevelTable(table, levels[:, age]) for age, age_s in enumerate(ages_s)}


def _quantiles(table: HazardTable, row: int, levels: np.ndarray, age_s: float) -> np.ndarray:
    """The total lifetimes at levels of one curve, s, float64 (7,), of what outlived the age."""
    edges, sums = table.edges[min(row, len(table.edges) - 1)], table.cumulative[row]
    rate = table.rates[row, -1]
    begun = np.interp(age_s, edges, sums) + rate * max(age_s - edges[-1], 0.0)
    wanted = begun - np.log1p(-levels)
    answers: np.ndarray = np.interp(wanted, sums, edges) + np.maximum(wanted - sums[-1], 0.0) / rate
    return answers


def _rise(table: HazardTable, rows: Examples, first_s: np.ndarray, last_s: np.ndarray,
          age_s: int) -> tuple[np.ndarray, np.ndarray]:
    """F before and after each end's second, or its limit's instant: float64 (n,), given the age."""
    is_near = (rows.lifetime_s >= first_s) & (rows.lifetime_s <= last_s)
    low_s, high_s = (np.maximum(np.where(is_near, each, rows.lifetime_s) - age_s, 0.0) for each in (first_s, last_s))
    return (1.0 - table.survival(np.where(low_s > 1.0, low_s - 0.5, 0.0), age_s),
            1.0 - table.survival(high_s + 0.5, age_s))


WAYS: Mapping[str, bool] = {"levels": False, "levels-early": True}
"""Ways of `studies.recalibration_ways`: whether ends count when they happen."""
