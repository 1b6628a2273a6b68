"""The oracle with flaws of known size: noise on every lifetime, or long requests taken for short ones."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from sojourn.simulator.predictions.sources import TOTAL_MAX_S, Curves, HasTotals, Oracle

LONG_S = 7_200
"""A request of at least this lifetime is long, unless stated (LAVA, section 2.3: 2 h)."""


class NoisyOracle:
    """True lifetimes times exp(sigma x a standard normal number), right in the median; one number per request.

    The same seed gives the same flaws to every policy. An outlived prediction doubles.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": ["a", "b"], "arrival_s": [5, 6], "departure_s": [1005, 1006],
    ...                       "cpu_cores": [1.0, 1.0], "mem_gib": [4.0, 4.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 2000), cpu_cores=8, mem_gib=32)
    >>> NoisyOracle(workload, sigma=0.0).curves(workload.trace.requests).total_s.tolist()
    [1000, 1000]
    >>> len(set(NoisyOracle(workload, sigma=1.0).curves(workload.trace.requests).total_s.tolist()))
    2
    """

    def __init__(self, workload: HasTotals, sigma: float, seed: int = 0) -> None:
        if not 0.0 <= sigma < math.inf:
            raise ValueError(f"sigma must be finite and >= 0, got {sigma!r}")
        factor = np.exp(sigma * np.random.default_rng(seed).standard_normal(len(workload.total_s)))
        self._oracle = Oracle(_Totals(workload.request_ids, np.maximum(workload.total_s, 1) * factor))

    def curves(self, requests: pd.DataFrame) -> Curves:
        """One step per request; an id that the workload does not have is refused with KeyError."""
        return self._oracle.curves(requests)


class LongAsShort:
    """The oracle, but of the long requests only a share `recall` is known; the others get a short one's lifetime.

    long_s: from which lifetime on a request is long. The lifetimes of the mistaken ones are drawn from the workload's
    short requests; ValueError where it has none. owners: numbers int64 (n,), below 0 = none: whole owners are known or
    mistaken, in a drawn order, as a model knows some owners and not others; the share is then met to within one owner.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": ["a", "b"], "arrival_s": [5, 6], "departure_s": [65, 80_006],
    ...                       "cpu_cores": [1.0, 1.0], "mem_gib": [4.0, 4.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 90_000), cpu_cores=8, mem_gib=32)
    >>> [LongAsShort(workload, recall).curves(workload.trace.requests).total_s.tolist() for recall in (1.0, 0.0)]
    [[60, 80000], [60, 60]]
    """

    def __init__(self, workload: HasTotals, recall: float, *, long_s: int = LONG_S, seed: int = 0,
                 owners: np.ndarray | None = None) -> None:
        if not 0.0 <= recall <= 1.0:
            raise ValueError(f"recall must be in 0..1, got {recall!r}")
        rng, total_s = np.random.default_rng(seed), workload.total_s.copy()
        is_long = total_s >= long_s
        if is_long.all():
            raise ValueError(f"long_s must leave some of the requests short, got {long_s!r}")
        n_long = int(is_long.sum())
        # a higher recall knows all that a lower one does
        ranks = rng.permutation(n_long) if owners is None else _ranks_by_owner(owners[is_long], rng)
        drawn = rng.choice(total_s[~is_long], len(ranks))
        total_s[is_long] = np.where(ranks < round(recall * len(ranks)), total_s[is_long], drawn)
        self._oracle = Oracle(_Totals(workload.request_ids, total_s))

    def curves(self, requests: pd.DataFrame) -> Curves:
        """One step per request; an id that the workload does not have is refused with KeyError."""
        return self._oracle.curves(requests)


def _ranks_by_owner(owners: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each request how many stand before its owner's last one, int64 (n,), owners in a drawn order; a request
    without an owner stands for itself.

    >>> _ranks_by_owner(np.array([4, 4, 9, -1]), np.random.default_rng(0)).tolist()
    [2, 2, 3, 0]
    """
    lone = owners < 0
    units = np.where(lone, owners.max(initial=-1) + np.cumsum(lone), owners)
    _, unit, sizes = np.unique(units, return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    last = np.empty(len(sizes), np.int64)
    last[order] = np.cumsum(sizes[order]) - 1
    return np.asarray(last[unit])


class _Totals:
    """Request ids and whole seconds, as the oracle reads them."""

    def __init__(self, request_ids: pd.Index, total_s: np.ndarray) -> None:
        self.request_ids = request_ids
        self.total_s = np.clip(np.rint(total_s), 1, TOTAL_MAX_S).astype(np.int64)
