"""The distributions that the generator draws lifetimes from: mixtures of two lognormals, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class LifetimeMixtures:
    """What can be known of each lifetime when its request is made: a mixture of two lognormal distributions.

    weight: float64 (n, 2), of a request's two ways to end; rows sum to 1. log_median: float64 (n, 2), of seconds.
    spread: float64 (n,), log units, above 0, the same for both ways.

    The generator cuts what it draws to whole seconds, at least 1; these distributions are those of before the cut.

    >>> one = LifetimeMixtures(np.array([[1.0, 0.0]]), np.log([[60.0, 60.0]]), np.array([0.5]))
    >>> one.survival(60.0).round(3).tolist(), one.remaining_s(0.0).round(2).tolist()
    ([0.5], [67.99])
    """

    weight: np.ndarray
    log_median: np.ndarray
    spread: np.ndarray

    def __len__(self) -> int:
        return len(self.spread)

    def take(self, idx: np.ndarray) -> LifetimeMixtures:
        """Those of the rows `idx`, in that order."""
        return LifetimeMixtures(self.weight[idx], self.log_median[idx], self.spread[idx])

    def survival(self, uptime_s: np.ndarray | float) -> np.ndarray:
        """P(T > u), float64 (n,). uptime_s: at least 0, one for all or one each."""
        return np.asarray(np.exp(self._log_reached(uptime_s)).sum(axis=1))

    def remaining_s(self, uptime_s: np.ndarray | float) -> np.ndarray:
        """E[T - u | T > u], float64 seconds (n,), however unlikely it is to get that far."""
        log_reached = self._log_reached(uptime_s)
        reached = np.exp(log_reached - log_reached.max(axis=1, keepdims=True))
        return np.asarray((reached * self._remaining_of_ways(uptime_s)).sum(axis=1) / reached.sum(axis=1))

    def overhang_s(self, uptime_s: np.ndarray | float) -> np.ndarray:
        """E[max(T - u, 0)], float64 seconds (n,): not rising in u."""
        return self.survival(uptime_s) * self.remaining_s(uptime_s)

    def _log_reached(self, uptime_s: np.ndarray | float) -> np.ndarray:
        """Log probability, (n, 2), that a request ends this way and only after the uptime."""
        from scipy.special import log_ndtr

        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weight) + log_ndtr(self._standard(uptime_s)))

    def _remaining_of_ways(self, uptime_s: np.ndarray | float) -> np.ndarray:
        """E[T - u | T > u] of each way to end, (n, 2).

        With d = (m - log u) / s it is u (M(d + s) / M(d) - 1), M(x) = Phi(x) / phi(x), from the partial expectation of
        the lognormal, e^(m + s^2 / 2) Phi(d + s). Beyond the median both M are of ordinary size, where Phi alone
        would come to 0 / 0; before it they grow beyond all bounds, and the partial expectation is used itself.
        """
        from scipy.special import erfcx, ndtr

        uptime = _column(uptime_s)
        standard, spread = self._standard(uptime_s), self.spread[:, None]
        is_late = standard < 0.0
        early, late = np.where(is_late, 0.0, standard), np.where(is_late, standard, -1.0)
        mean = np.exp(self.log_median + spread**2 / 2)
        before = mean * ndtr(early + spread) / ndtr(early) - uptime
        after = uptime * (erfcx(-(late + spread) / np.sqrt(2)) / erfcx(-late / np.sqrt(2)) - 1.0)
        return np.asarray(np.where(is_late, after, before))

    def _standard(self, uptime_s: np.ndarray | float) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.asarray((self.log_median - np.log(_column(uptime_s))) / self.spread[:, None])


def _column(uptime_s: np.ndarray | float) -> np.ndarray:
    uptimes = np.asarray(uptime_s, np.float64)
    return uptimes[:, None] if uptimes.ndim else uptimes
