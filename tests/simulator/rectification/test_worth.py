"""What migrations are worth, by hand: the chance a day from now, and when a host is first likely empty."""

from __future__ import annotations

import math

import pytest

from made_views import HOUR, pool_of
from sojourn.simulator import Migration
from sojourn.simulator.cluster import DAY_S
from sojourn.simulator.rectification import MigrationGroup, worth
from sojourn.simulator.rectification.pool_view import MIGRATION_S, N_AT_ONCE


def _halving(position: int, after_s: float) -> float:
    """The request at position p ends with a half-life of 12 h times p + 1."""
    return 1.0 - 0.5 ** (after_s / (12 * HOUR * (position + 1)))


def test_migrations_take_as_long_as_in_a_replay() -> None:
    assert (Migration().duration_s, Migration().n_at_once) == (MIGRATION_S, N_AT_ONCE)


def test_the_chance_is_that_of_the_end_of_the_day_and_likely_is_its_first_second() -> None:
    # 0 (half-life 12 h) and 1 (24 h) stay on host 0, 2 leaves it; after 24 h: 1 - 1/4 and 1 - 1/2 of them have ended
    view = pool_of([(0, 1, 9), (0, 1, 9), (0, 1, 900), (1, 1, 900)], 2)
    found = worth(view, [MigrationGroup(0, (2,), (1,), math.nan)], _halving)[0]
    assert found.chance == pytest.approx(0.75 * 0.5)
    # 2 (half-life 36 h) as well: 1 - 2 ** (-24 / 36)
    assert found.chance_without == pytest.approx(0.375 * (1 - 2 ** (-2 / 3)))
    assert math.isnan(found.likely_s)


def test_likely_is_the_first_second_at_which_the_chance_is_a_half() -> None:
    # 0 alone stays: its half-life is 12 h
    view = pool_of([(0, 1, 9), (0, 1, 900), (1, 1, 900)], 2)
    found = worth(view, [MigrationGroup(0, (1,), (1,), math.nan)], _halving)[0]
    assert found.likely_s == 12 * HOUR
    assert _halving(0, found.likely_s - 1) < 0.5


def test_a_host_is_not_empty_before_its_migrations_are_done_three_at_once_in_order() -> None:
    # Four hosts with one request each go to host 4: the first three end after 20 minutes, the fourth after 40.
    view = pool_of([(0, 1, 900), (1, 1, 900), (2, 1, 900), (3, 1, 900), (4, 1, 900)], 5)
    groups = [MigrationGroup(at, (at,), (4,), math.nan) for at in range(4)]
    found = worth(view, groups, lambda position, after_s: 0.0)
    assert [each.likely_s for each in found] == [1_200, 1_200, 1_200, 2_400]
    assert [each.chance for each in found] == [1.0] * 4


def test_a_migration_that_is_not_done_within_the_day_frees_nothing_in_it() -> None:
    # 3 every 20 minutes are 216 a day, the last of them done at its very end; the 217th is not
    n = 217
    view = pool_of([(at, 1, 900) for at in range(n + 1)], n + 1)
    found = worth(view, [MigrationGroup(at, (at,), (n,), math.nan) for at in range(n)], lambda position, after_s: 0.25)
    assert (found[215].likely_s, found[215].chance) == (DAY_S, 1.0)
    assert math.isnan(found[216].likely_s)
    assert found[216].chance == 0.25


def test_the_gain_counts_from_when_the_migrations_are_done() -> None:
    # As above, nothing ends: each of the first three hosts is empty from minute 20 to the end of the day, the fourth
    # from minute 40. Host 4 is in use throughout and loses nothing.
    view = pool_of([(0, 1, 900), (1, 1, 900), (2, 1, 900), (3, 1, 900), (4, 1, 900)], 5)
    found = worth(view, [MigrationGroup(at, (at,), (4,), math.nan) for at in range(4)])
    assert [each.gain_h for each in found] == pytest.approx([24 - 1 / 3] * 3 + [24 - 2 / 3])


def test_the_gain_counts_from_when_migrations_of_another_length_are_done() -> None:
    # 4 h each, two at a time: hosts 0 and 1 are empty from 4 h on, host 2 from 8 h on.
    view = pool_of([(0, 1, 900), (1, 1, 900), (2, 1, 900), (3, 1, 900)], 4, migration_s=4 * HOUR, n_at_once=2)
    found = worth(view, [MigrationGroup(at, (at,), (3,), math.nan) for at in range(3)])
    assert [each.gain_h for each in found] == pytest.approx([20, 20, 16])
    assert [each.likely_s for each in found] == [4 * HOUR, 4 * HOUR, 8 * HOUR]


def test_a_target_loses_from_when_the_migration_begins() -> None:
    # The seventh begins at minute 40, and host 7 is empty on its own from 1 h on: it loses all of the rest, 23 h, and
    # its source gains all but the first hour: 23 - 23. The first six go to host 8, which loses nothing.
    view = pool_of([*((at, 1, 900) for at in range(7)), (7, 1, 1), (8, 1, 900)], 9)
    groups = [MigrationGroup(at, (at,), (8 if at < 6 else 7,), math.nan) for at in range(7)]
    found = worth(view, groups)
    assert found[6].gain_h == pytest.approx(0.0, abs=0.1)
    # were its target empty from the start on, but for the request: it is held from minute 40, so 20 minutes are left
    view = pool_of([*((at, 1, 900) for at in range(7)), (7, 1, 1 / 3), (8, 1, 900)], 9)
    assert worth(view, groups)[6].gain_h == pytest.approx((24 - 1) - (24 - 2 / 3), abs=0.1)


def test_without_a_function_the_chances_are_those_of_the_curves() -> None:
    # 0 ends in 12 h for certain: host 0 is empty then, and was held for 900 h without the migration.
    view = pool_of([(0, 1, 12), (0, 1, 900), (1, 1, 900)], 2)
    found = worth(view, [MigrationGroup(0, (1,), (1,), math.nan)])[0]
    assert (found.chance, found.chance_without, found.likely_s) == (1.0, 0.0, 12 * HOUR)
