"""What migrations are worth, by hand. Hosts have 8 cores; an hour is 3,600 s."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_rectification
from made_views import curve_view, pool_of, worth_of
from sojourn.simulator.rectification import RECTIFIERS, MigrationGroup, PoolView, Refill, edges_s
from sojourn.simulator.rectification.pool_view import HORIZON_S, MIGRATION_S
from sojourn.simulator.rectification.value import LEAST_GAIN_S, _Plan, chances

DAY_S, HOUR = 86_400, 3_600
WHOLE_S = float(HORIZON_S - MIGRATION_S)
"""What a host that is freed now can be empty at most."""


def value(view: PoolView, budget: int = 9) -> list[MigrationGroup]:
    return RECTIFIERS["value"](view, budget, DAY_S)


def test_the_one_that_keeps_a_host_in_use_goes_to_a_host_that_stays_in_use_anyway() -> None:
    # Request 0 holds host 0 beyond the horizon, so that it is never empty; without it, it is all the time from the end
    # of the migration on. Host 1 loses nothing: request 1 holds it as long.
    assert value(pool_of([(0, 2, 900), (1, 4, 900)], 2)) == [MigrationGroup(0, (0,), (1,), WHOLE_S)]


def test_what_a_target_loses_is_taken_off_and_decides_which() -> None:
    # Request 0 stays for 20 h. On host 1, which empties after 10 h, it delays that by 10 h; on host 2, which empties
    # after 15 h, by 5 h. Host 0 would be empty 20 h earlier, less the 20 min of the migration.
    found = value(pool_of([(0, 2, 20), (1, 4, 10), (2, 4, 15)], 3), budget=1)
    assert [(each.source, each.requests, each.targets) for each in found] == [(0, (0,), (2,))]
    # cells are means, and a product of means errs by less than the cells that hold 15 and 20 h, 20 % of that each
    assert found[0].gain_s == pytest.approx(20 * HOUR - MIGRATION_S - 5 * HOUR, abs=4 * HOUR)


def test_one_of_two_long_ones_alone_frees_nothing_so_both_go_or_none() -> None:
    requests = [(0, 2, 900), (0, 2, 900), (1, 4, 900, "fixed")]
    assert value(pool_of(requests, 2), budget=1) == []
    assert value(pool_of(requests, 2), budget=2) == [MigrationGroup(0, (0, 1), (1, 1), WHOLE_S)]


def test_the_gain_of_each_migration_decides_and_not_that_of_the_set() -> None:
    # host 0 needs two migrations to be free, host 1 one, and there is room for two requests on host 2
    requests = [(0, 2, 900), (0, 2, 900), (1, 2, 900), (2, 4, 900, "fixed")]
    assert [each.source for each in value(pool_of(requests, 3), budget=2)] == [1]
    # host 2 is full then, for host 1 has taken 2 of its 4 cores; host 0's two go nowhere
    assert [each.source for each in value(pool_of(requests, 3), budget=9)] == [1]


def test_what_ends_soon_or_cannot_migrate_or_frees_too_little_stays() -> None:
    assert value(pool_of([(0, 2, 1.9), (1, 4, 900, "fixed")], 2)) == []  # ends within 2 h
    assert value(pool_of([(0, 2, 900, "fixed"), (1, 4, 900, "fixed")], 2)) == []
    assert value(pool_of([(0, 2, 900), (0, 1, 900, "fixed"), (1, 4, 900, "fixed")], 2)) == []
    hours = (LEAST_GAIN_S + MIGRATION_S) / HOUR
    assert value(pool_of([(0, 2, max(0.6 * hours, 2.1)), (1, 4, 900, "fixed")], 2)) == []


def test_an_emptied_host_is_no_target_and_a_target_is_not_emptied() -> None:
    # two alike: one goes to the other, and that is all
    assert [(each.source, each.targets) for each in value(pool_of([(0, 2, 900), (1, 2, 900)], 2))] == [(0, (1,))]


def test_of_targets_that_lose_nothing_the_fullest_is_taken() -> None:
    requests = [(0, 2, 900), (1, 2, 900, "fixed"), (2, 5, 900, "fixed"), (3, 4, 900, "fixed")]
    assert [each.targets for each in value(pool_of(requests, 4))] == [(2,)]


def test_what_begins_later_gains_later() -> None:
    # Each request goes to host 0, which is in use throughout. Hosts 1 to 4 have one each; the fourth migration is done
    # at minute 40. So are both of host 5, which is empty 20 minutes later than were it the first.
    requests = [(0, 2, 900, "fixed"), *((at, 1, 900) for at in range(1, 5)), (5, 1, 900), (5, 1, 900)]
    assert [(each.source, each.gain_s) for each in value(pool_of(requests, 6))] == [
        (1, WHOLE_S), (2, WHOLE_S), (3, WHOLE_S), (4, pytest.approx(WHOLE_S - MIGRATION_S)),
        (5, pytest.approx(WHOLE_S - MIGRATION_S))]


def test_long_migrations_one_at_a_time_gain_as_much_later_and_those_that_gain_too_little_are_not_planned() -> None:
    # 4 h each, one at a time: done after 4, 8, 12, 16 and 20 h, which leaves 20, 16, 12, 8 and 4 of the 24 h. The last
    # is less than LEAST_GAIN_S, 7 h.
    requests = [(0, 2, 900, "fixed"), *((at, 1, 900) for at in range(1, 6))]
    found = value(pool_of(requests, 6, migration_s=4 * HOUR, n_at_once=1))
    assert [each.source for each in found] == [1, 2, 3, 4]
    assert [each.gain_s for each in found] == pytest.approx([20 * HOUR, 16 * HOUR, 12 * HOUR, 8 * HOUR])
    # 12 h each: the first leaves 12 h
    found = value(pool_of(requests, 6, migration_s=12 * HOUR, n_at_once=1))
    assert [each.gain_s for each in found] == pytest.approx([12 * HOUR])
    # 4 h each, two at a time: all five by 12 h
    found = value(pool_of(requests, 6, migration_s=4 * HOUR, n_at_once=2))
    assert [each.gain_s for each in found] == pytest.approx([20 * HOUR] * 2 + [16 * HOUR] * 2 + [12 * HOUR])


def test_where_freed_hosts_are_soon_in_use_again_the_time_of_freeing_says_less() -> None:
    # Host 0 is free at once without request 0 (24 h), host 1 after 12 h without request 1 (12 h left of the day).
    requests = [(0, 2, 900), (1, 2, 900), (1, 1, 12), (2, 4, 900, "fixed")]
    nobody = value(pool_of(requests, 3))
    assert [each.gain_s for each in nobody] == pytest.approx([WHOLE_S, 12 * HOUR], rel=0.2)
    # If every host that became empty is in use again within 20 minutes, both free as much.
    soon = Refill(np.ones(25), np.append(1.0, np.zeros(25)))
    both = value(pool_of(requests, 3, refill=soon))
    assert [each.gain_s for each in both] == pytest.approx([MIGRATION_S / 2] * 2)
    # If others always come to a host before it is left, nothing is freed but by the first, and least of all is little.
    never = Refill(np.append(1.0, np.zeros(24)), np.ones(26))
    assert [(each.source, each.gain_s) for each in value(pool_of(requests, 3, refill=never))] == [(0, WHOLE_S)]


@pytest.mark.parametrize("n_hosts", [1, 3])
def test_nothing_runs_or_there_is_nowhere_to_go(n_hosts: int) -> None:
    assert value(pool_of([], n_hosts)) == []
    assert value(pool_of([(0, 2, 900)], n_hosts)) == []
    assert value(pool_of([(0, 2, 900), (0, 2, 900)], n_hosts), budget=0) == []


def test_chances_of_a_whole_distribution() -> None:
    # E[max(T - u, 0)] falls from 100 h by 0.5 h an hour up to 100 h, and is level at 50 h to 200 h: half of them end
    # at once, the other half stay longer than 200 h. Predicted to remain: 100 h.
    view = pool_of([(0, 2, 100)], 1, curve_end=np.array([3]), breakpoint_s=np.array([0, 100, 200]) * HOUR,
                   total_s=np.array([100, 200, 300]) * HOUR, overhang_s=np.array([100, 50, 0]) * HOUR)
    early = np.searchsorted(edges_s(), 100 * HOUR, side="right") - 1
    assert chances(view)[0, :early] == pytest.approx(0.5)


@given(seed=st.integers(0, 2**32 - 1))
def test_kernels_equal_their_slow_twins(seed: int) -> None:
    view = curve_view(seed, 4)
    found = chances(view)
    assert found.tolist() == naive_rectification.ended(view, edges_s().tolist())
    assert ((found >= 0.0) & (found <= 1.0)).all()
    assert (np.diff(found, axis=1) >= 0.0).all()  # who has ended does not run again
    plan = _Plan(view)
    twin, empty = naive_rectification.values(found, plan.order.tolist(), view.host.tolist(), plan.weight_s.tolist(), 4)
    assert plan.values.tolist() == twin
    assert plan.empty.tolist() == empty.tolist()


@given(seed=st.integers(0, 2**32 - 1))
def test_the_gain_that_is_told_is_that_of_the_pool_afterwards(seed: int) -> None:
    view = curve_view(seed, 4)
    found = value(view, 3)  # all at once
    moved = {r: t for each in found for r, t in zip(each.requests, each.targets, strict=True)}
    assert sum(each.gain_s for each in found) == pytest.approx(worth_of(view, moved), rel=1e-9, abs=1e-6)
