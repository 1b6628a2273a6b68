"""The best plan of a small pool against a search of all plans, and `value` against it."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from made_views import HOUR, curve_view, pool_of, worth_of
from sojourn.simulator.rectification import RECTIFIERS, MigrationGroup, PoolView
from studies.greedy_share import exact_plan


def best_worth(view: PoolView, budget: int) -> float:
    """The most that any plan of so many migrations gains: all are tried."""
    able = np.flatnonzero(~view.is_fixed & (view.remaining_s() >= 2 * HOUR)).tolist()
    hosts, best = np.unique(view.host).tolist(), 0.0
    for n in range(1, budget + 1):
        for chosen in combinations(able, n):
            for targets in product(hosts, repeat=n):
                moved = dict(zip(chosen, targets, strict=True))
                free = view.free.copy()
                for request, target in moved.items():
                    free[target] -= view.need[request]
                sources = {int(view.host[request]) for request in chosen}
                if (free >= 0).all() and not sources & set(targets):
                    best = max(best, worth_of(view, moved))
    return best


def moved_of(groups: list[MigrationGroup]) -> dict[int, int]:
    return {r: t for each in groups for r, t in zip(each.requests, each.targets, strict=True)}


def test_what_the_greedy_choice_misses_is_found() -> None:
    # Host 3 has 7 cores free, which are enough for request 0 alone or for 1 and 3. Without 0 host 0 is empty from
    # minute 20 on; without 1 or 3 hosts 1 and 2 are when 2 and 4 have ended, after 1 h. The greedy choice begins with
    # host 0.
    requests = [(0, 7, 900), (1, 2, 900), (1, 5, 1), (2, 2, 900), (2, 5, 1), (3, 1, 900, "fixed")]
    view = pool_of(requests, 4)
    assert [each.source for each in RECTIFIERS["value"](view, 2, 24 * HOUR)] == [0]
    best = exact_plan(view, 2)
    assert [(each.source, each.requests, each.targets) for each in best] == [(1, (1,), (3,)), (2, (3,), (3,))]
    assert [each.gain_s for each in best] == pytest.approx([23 * HOUR] * 2, abs=0.2 * HOUR)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_no_plan_is_better(seed: int) -> None:
    view = curve_view(seed, 3)
    best = exact_plan(view, 2)
    assert sum(each.gain_s for each in best) == pytest.approx(worth_of(view, moved_of(best)), abs=1e-3)
    assert worth_of(view, moved_of(best)) == pytest.approx(best_worth(view, 2), rel=1e-6, abs=1e-3)
    found = RECTIFIERS["value"](view, 2, 24 * HOUR)
    assert worth_of(view, moved_of(found)) <= worth_of(view, moved_of(best)) + 1e-3


def test_nothing_to_gain_or_to_move() -> None:
    assert exact_plan(pool_of([], 2), 2) == []
    assert exact_plan(pool_of([(0, 2, 900, "fixed"), (1, 2, 900, "fixed")], 2), 2) == []
    assert exact_plan(pool_of([(0, 2, 900), (1, 2, 900)], 2), 0) == []


@pytest.mark.parametrize(("n_hosts", "n", "budget", "words"), [
    (9, 1, 1, "hosts must be at most 8, got 9"), (8, 25, 1, "requests must be at most 24, got 25"),
    (2, 1, 5, "budget must be at most 4, got 5")])
def test_large_pools_are_refused(n_hosts: int, n: int, budget: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        exact_plan(pool_of([(at % n_hosts, 0, 9) for at in range(n)], n_hosts), budget)
