"""Curve tables: the answers of many requests at once, with the bits of the single curves in `serving.curves`.

Every family's `curve_table(rows)` has one of three shapes, so measures, export and simulation do
not distinguish families. Times are seconds, float64 (n,), or a scalar for all rows. `online_table`
gives the curves of a predictor with online recalibration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr

from sojourn.features.split import Examples
from sojourn.models import _kernels
from sojourn.serving.curves import LONGEST_S
from sojourn.serving.kernel import in_blocks
from sojourn.serving.live import Recalibration


class CurveTable(Protocol):
    """Lifetime curves of n requests. `uptime_s` and `horizon_s`: float64 (n,) or one number, >= 0."""

    def __len__(self) -> int: ...

    def take(self, idx: np.ndarray) -> CurveTable:
        """The curves at `idx` (positions or a bool mask)."""
        ...

    def remaining(self, uptime_s: np.ndarray | float) -> np.ndarray:
        """E[Tr | Tu], whole seconds (n,); higher = longer-lived."""
        ...

    def quantile(self, q: float, uptime_s: np.ndarray | float) -> np.ndarray:
        """The remaining time that a share `q` does not exceed, whole seconds (n,)."""
        ...

    def survival(self, horizon_s: np.ndarray | float, uptime_s: np.ndarray | float) -> np.ndarray:
        """P(still running after `horizon_s` more seconds), in [0, 1], (n,)."""
        ...

    def held_uptimes(self) -> np.ndarray:
        """Whole-second uptimes, int64 (m,), rising from 0, at which a held exit should be computed again."""
        ...


_N_DRAWN = 100
"""Quantiles of a curve that draws lie between."""


def _per_row(values: np.ndarray | float, n: int) -> np.ndarray:
    """n values of our own: a view that may only be read is another type to numba, compiled once more."""
    return np.full(n, values, np.float64)


def hazards_of(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Cumulative hazards of intervals, float64 (n, J), from raw scores (n, J) and offsets (J,), both log-odds."""
    hazards = np.empty(scores.shape)
    in_blocks(len(scores), lambda block: _kernels.hazards_of(scores[block], offsets, hazards[block]))
    return hazards


def _edges_of(edges: np.ndarray, block: slice) -> np.ndarray:
    return edges if len(edges) == 1 else edges[block]


def drawn_left(quantile: Callable[[float], np.ndarray], n_draws: int, owner: np.ndarray, *, alike: float = 0.9,
               together: float = 0.1, seed: int = 0) -> np.ndarray:
    """Remaining times drawn from curves, from their 0.5 to 99.5 % quantiles; whole seconds, int64 (n_draws, n), >= 1.

    quantile: the remaining times (n,) that a share of the curves does not exceed. owner: numbers (n,), -1 = none.
    alike: correlation, 0..1, of the places of one owner's jobs in their curves (a Gaussian copula): jobs of a batch
    tend to end early together. together: of all jobs, at most `alike`: a model can err one way for days. Both were
    chosen on parts of logs (docs/simulator/start_times.md).
    """
    shares = (np.arange(_N_DRAWN) + 0.5) / _N_DRAWN
    times = np.array([quantile(share) for share in shares.tolist()])
    rng, (owners, place) = np.random.default_rng(seed), np.unique(owner, return_inverse=True)
    own, common = rng.standard_normal((n_draws, times.shape[1])), rng.standard_normal((n_draws, len(owners)))[:, place]
    everyone = np.sqrt(together) * rng.standard_normal((n_draws, 1))
    level = ndtr(everyone + np.where(np.asarray(owner) < 0, np.sqrt(1.0 - together) * own,
                                  np.sqrt(alike - together) * common + np.sqrt(1.0 - alike) * own))
    found = [np.interp(level[:, row], shares, times[:, row]) for row in range(times.shape[1])]
    return np.maximum(np.rint(np.array(found).reshape(-1, n_draws).T), 1.0).astype(np.int64)


@dataclass(frozen=True, slots=True)
class HazardTable:
    """Piecewise constant hazards. edges: (1, J + 1) s for all rows, or (n, J + 1); grid: (m,) s, sampling uptimes.

    rates, cumulative, after, gaps: (n, J + 1), see `serving.curves.fill_hazard`.
    """

    edges: np.ndarray
    grid: np.ndarray
    rates: np.ndarray
    cumulative: np.ndarray
    after: np.ndarray
    gaps: np.ndarray

    @classmethod
    def from_hazards(cls, edges: np.ndarray, hazards: np.ndarray, tail_s: float, grid: np.ndarray) -> HazardTable:
        """Build from interval hazards (n, J) and the tail's mean remaining time. edges: (J + 1,) or (n, J + 1)."""
        axes, (n, k) = np.atleast_2d(edges), hazards.shape
        sums = [np.empty((n, k + 1)) for _ in range(4)]
        in_blocks(n, lambda block: _kernels.hazard_sums(_edges_of(axes, block), hazards[block], tail_s,
                                                        *(part[block] for part in sums)))
        return cls(axes, grid, *sums)

    @classmethod
    def from_scores(cls, edges: np.ndarray, scores: np.ndarray, offsets: np.ndarray, tail_s: float,
                    grid: np.ndarray) -> HazardTable:
        """Build from raw scores (n, J) and offsets (J,), both log-odds."""
        return cls.from_hazards(edges, hazards_of(scores, offsets), tail_s, grid)

    @classmethod
    def from_limits(cls, edges: np.ndarray, shares: np.ndarray, hazards: np.ndarray, limit_s: np.ndarray, tail_s: float,
                    grid: np.ndarray) -> HazardTable:
        """Build with limit axis (`serving.curves.formulas`) from hazards (n, J + K) and limits (n,), NaN = none."""
        own_edges, own_hazards = _kernels.limit_axes(hazards, edges, shares, limit_s, tail_s)
        return cls.from_hazards(own_edges, own_hazards, tail_s, grid)

    def recalibrated(self, factors: np.ndarray, place: np.ndarray) -> HazardTable:
        """The curves recalibrated: row i by factors[place[i]]; the bits of `serving.curves.recalibrated`.

        factors: float64 (m, N_AGES, N_BANDS). place: int64 (n,). The tail stays.
        """
        if len(self) == 0:
            return self
        hazards = _kernels.recalibrated_hazards(self.edges, self.rates, factors, place)
        return HazardTable.from_hazards(self.edges, hazards, float(self.after[0, -1]), self.grid)

    def __len__(self) -> int:
        return len(self.rates)

    def take(self, idx: np.ndarray) -> HazardTable:
        edges = self.edges if len(self.edges) == 1 else self.edges[idx]
        return HazardTable(edges, self.grid, self.rates[idx], self.cumulative[idx], self.after[idx],
                           self.gaps[idx])

    def remaining(self, uptime_s: np.ndarray | float) -> np.ndarray:
        return np.rint(_kernels.hazard_remaining_rows(self.edges, self.rates, self.after, self.gaps,
                                                      _per_row(uptime_s, len(self))))

    def quantile(self, q: float, uptime_s: np.ndarray | float) -> np.ndarray:
        return np.rint(_kernels.hazard_quantile_rows(self.edges, self.rates, self.cumulative, q,
                                                     _per_row(uptime_s, len(self))))

    def survival(self, horizon_s: np.ndarray | float, uptime_s: np.ndarray | float) -> np.ndarray:
        n = len(self)
        answers: np.ndarray = _kernels.hazard_survival_rows(
            self.edges, self.rates, self.cumulative, _per_row(horizon_s, n), _per_row(uptime_s, n))
        return answers

    def held_uptimes(self) -> np.ndarray:
        return np.unique(np.append(0, np.rint(self.grid))).astype(np.int64)

    def held_totals(self, uptimes_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean total lifetimes at each of the uptimes, int64 (m,) rising from 0, and overhangs E[max(T - u, 0)].

        Whole seconds, int64 (n, m) each. No total is outlived before the next uptime; overhangs never rise in a row.
        """
        totals_s, overhangs_s = (np.empty((len(self), len(uptimes_s)), np.int64) for _ in range(2))

        def fill(block: slice) -> None:
            sums = (part[block] for part in (self.rates, self.cumulative, self.after, self.gaps))
            _kernels.hazard_held_rows(_edges_of(self.edges, block), *sums, uptimes_s, totals_s[block],
                                      overhangs_s[block])

        in_blocks(len(self), fill)
        return totals_s, overhangs_s


@dataclass(frozen=True, slots=True)
class PointTable:
    """Step functions of the uptime. thresholds: (K,) s; scores: (n, K + 1), log10 s; residuals: log10 grid."""

    thresholds: np.ndarray
    scores: np.ndarray
    smearing: float
    residuals: np.ndarray

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, idx: np.ndarray) -> PointTable:
        return PointTable(self.thresholds, self.scores[idx], self.smearing, self.residuals)

    def _at(self, uptime_s: np.ndarray | float) -> np.ndarray:
        answers: np.ndarray = _kernels.point_rows(self.thresholds, self.scores, _per_row(uptime_s, len(self)))
        return answers

    def remaining(self, uptime_s: np.ndarray | float) -> np.ndarray:
        return np.rint(_kernels.seconds_rows(self._at(uptime_s), self.smearing))

    def quantile(self, q: float, uptime_s: np.ndarray | float) -> np.ndarray:
        return np.rint(_kernels.point_quantile_rows(self._at(uptime_s), self.residuals, q))

    def survival(self, horizon_s: np.ndarray | float, uptime_s: np.ndarray | float) -> np.ndarray:
        answers: np.ndarray = _kernels.point_survival_rows(self._at(uptime_s), self.residuals,
                                                           _per_row(horizon_s, len(self)))
        return answers

    def held_uptimes(self) -> np.ndarray:
        whole = np.floor(self.thresholds) + 1.0
        return np.unique(np.append(0.0, whole[whole < LONGEST_S])).astype(np.int64)


@dataclass(frozen=True, slots=True)
class OnceTable:
    """One-shot totals, doubled when outlived. scores: (n,), log10 s of the total; residuals: log10 grid."""

    scores: np.ndarray
    smearing: float
    residuals: np.ndarray

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, idx: np.ndarray) -> OnceTable:
        return OnceTable(self.scores[idx], self.smearing, self.residuals)

    def total_s(self) -> np.ndarray:
        """The predicted total lifetime, whole seconds (n,), at least 1."""
        return np.maximum(np.rint(_kernels.seconds_rows(self.scores, self.smearing)), 1.0)

    def remaining(self, uptime_s: np.ndarray | float) -> np.ndarray:
        return np.rint(_kernels.once_remaining_rows(self.total_s(), _per_row(uptime_s, len(self))))

    def quantile(self, q: float, uptime_s: np.ndarray | float) -> np.ndarray:
        return np.rint(_kernels.once_quantile_rows(self.scores, self.residuals, self.total_s(), q,
                                                   _per_row(uptime_s, len(self))))

    def survival(self, horizon_s: np.ndarray | float, uptime_s: np.ndarray | float) -> np.ndarray:
        n = len(self)
        answers: np.ndarray = _kernels.once_survival_rows(
            self.scores, self.residuals, self.total_s(), _per_row(horizon_s, n), _per_row(uptime_s, n))
        return answers

    def held_uptimes(self) -> np.ndarray:
        return np.zeros(1, np.int64)


_DECIDED, _ENDED = range(2)


def online_table(table: HazardTable, rows: Examples, decided_s: np.ndarray) -> HazardTable:
    """The rows' curves, recalibrated online (`serving.live.Recalibration`) from the first row on.

    table: of the rows, by a model that was not trained on them. decided_s: int64 (n,), the second at which each was
    predicted; at one second, predictions come before ends. A censored row counts until its censoring.
    """
    factors, place = online_factors(table, rows, decided_s)
    return table.recalibrated(factors, place)


def online_factors(table: HazardTable, rows: Examples, decided_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The factors in the order of learning, float64 (m, N_AGES, N_BANDS), and each row's index there."""
    n = len(rows)
    recalibration = Recalibration()
    factors, place = [recalibration.factors], np.zeros(n, np.int64)
    start_s = rows.arrival_s.astype(np.int64)
    end_s = start_s + rows.lifetime_s.astype(np.int64)
    times_s = np.concatenate([decided_s, end_s])
    kinds = np.repeat([_DECIDED, _ENDED], n)
    order = np.lexsort((kinds, times_s))
    starts, entries, is_event = start_s.tolist(), rows.entry_s.tolist(), rows.is_event.tolist()

    def numbers_of(row: int) -> np.ndarray:
        return np.array((table.edges[min(row, len(table.edges) - 1)], table.rates[row]))

    for at, now_s in zip(order.tolist(), times_s[order].tolist(), strict=True):
        if at < n:
            recalibration.follow(at, starts[at], entries[at])
            place[at] = len(factors) - 1
            continue
        row = at - n
        recalibration.ended(row, now_s, numbers_of(row), is_end=is_event[row])
        if recalibration.is_due:
            recalibration.count(now_s, numbers_of)
            factors.append(recalibration.factors)
    return np.array(factors), place
