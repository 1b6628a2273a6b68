"""Settings of rectification: the planner, moves a day, the hour, and requests that can't be moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.simulator.cluster import DAY_S
from sojourn.simulator.whole_numbers import is_whole
from sojourn.simulator.workloads import Workload, owner_numbers

BUDGET_MAX = 1_000_000
"""The most migrations a day."""


@dataclass(frozen=True, slots=True)
class Rectify:
    """A few live migrations a day that free hosts.

    planner: a name in RECTIFIERS. budget: moves a day in the whole pool, from `hour` to `hour`; 0 =
    none. hour: hour of the trace's days at which moves are planned first, 0..23. every_s: they are
    planned again so often, a part of a day; a plan has what is left of the budget, and what was
    planned before and has not begun is struck off. non_migratable_share: share of all
    requests, drawn by `seed`, that can't be moved; in DVLA's clusters 40 % (OSDI'26, section 4.4).
    is_by_owner: whole owners are drawn instead of single requests. long_s: a request that is
    predicted to stay longer is long, for planners that use it.

    >>> Rectify("pdre", 5).hour
    0
    >>> Rectify("pdre", -1)
    Traceback (most recent call last):
    ValueError: budget must be a whole number of moves a day, 0 to 1,000,000, got -1
    """

    planner: str = "pdre"
    budget: int = 5
    hour: int = 0
    non_migratable_share: float = 0.4
    is_by_owner: bool = False
    long_s: int = DAY_S
    seed: int = 0
    every_s: int = DAY_S

    def __post_init__(self) -> None:
        from sojourn.simulator.rectification.planners import RECTIFIERS

        if self.planner not in RECTIFIERS:
            raise ValueError(f"planner must be one of {', '.join(RECTIFIERS)}, got {self.planner!r}")
        if not is_whole(self.budget, 0, BUDGET_MAX + 1):
            raise ValueError(f"budget must be a whole number of moves a day, 0 to {BUDGET_MAX:,}, got {self.budget!r}")
        if not is_whole(self.hour, 0, 24):
            raise ValueError(f"hour must be in 0..23, got {self.hour!r}")
        if not is_whole(self.every_s, 1, DAY_S + 1) or DAY_S % self.every_s:
            raise ValueError(f"every_s must be a whole number of seconds that divides a day, got {self.every_s!r}")
        if not 0.0 <= self.non_migratable_share <= 1.0:
            raise ValueError(f"non_migratable_share must be in 0..1, got {self.non_migratable_share!r}")
        if not is_whole(self.long_s, 1):
            raise ValueError(f"long_s must be a whole number of seconds, 1 or more, got {self.long_s!r}")

    def times_s(self, horizon_s: int) -> list[int]:
        """When moves are planned, up to the horizon.

        >>> Rectify(hour=2).times_s(200_000)
        [7200, 93600, 180000]
        """
        return list(range(3_600 * self.hour, horizon_s + 1, self.every_s)) if self.budget else []

    def day_from_s(self, now_s: int) -> int:
        """When the day of the budget began."""
        return now_s - (now_s - 3_600 * self.hour) % DAY_S


def non_migratable(workload: Workload, rectify: Rectify) -> np.ndarray:
    """Drawn requests that can't be moved, bool (n,); the same for every policy and planner.

    By owner, owners are drawn until they have the share of the requests; a request without an owner
    is its own.
    """
    n, rng = len(workload.placed_s), np.random.default_rng(rectify.seed)
    if not rectify.is_by_owner:
        return np.asarray(rng.random(n) < rectify.non_migratable_share)
    owners = owner_numbers(workload)
    n_owners = int(owners.max(initial=-1)) + 1
    of_lone = np.cumsum(owners < 0) - 1 + n_owners
    _, unit, sizes = np.unique(np.where(owners < 0, of_lone, owners), return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order]
    is_drawn = np.zeros(len(sizes), bool)
    is_drawn[order] = before < rectify.non_migratable_share * n
    return np.asarray(is_drawn[unit])
