"""Coverage of bounds: by hand, of a model whose coverage is known in closed form, under censoring and at an age."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.features.split import Examples
from sojourn.models.curve_table import HazardTable
from sojourn.models.measures import BoundedRows, OwnerDraws

N = 40_000


def _rows(lifetime_s: np.ndarray, is_event: np.ndarray) -> Examples:
    n = len(lifetime_s)
    return Examples(np.zeros((n, 1)), (), lifetime_s, is_event, np.zeros(n), np.zeros(n, np.int64), np.arange(n))


def _exponential(mean_s: np.ndarray) -> HazardTable:
    """Curves exp(-t / mean)."""
    edges = np.array([0.0, 1.0])
    return HazardTable(edges[None], edges, np.tile(1.0 / mean_s[:, None], 2),
                       np.stack([np.zeros(len(mean_s)), 1.0 / mean_s], axis=1), np.tile(mean_s[:, None], 2),
                       np.zeros((len(mean_s), 2)))


def _drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    mean_s = np.exp(rng.uniform(np.log(1e3), np.log(1e6), N))
    return mean_s, np.maximum(np.rint(rng.exponential(mean_s)), 1.0)


def test_without_censoring_it_is_the_share_of_ends_up_to_the_bound() -> None:
    lifetime_s = np.array([1.0, 10.0, 11.0, 40.0])  # 2 of 4 end by 10 s, one of them at 10 s
    found = BoundedRows.of(_exponential(np.full(4, 20.0)), _rows(lifetime_s, np.ones(4, bool)), np.full(4, 10.0), 0.9)
    assert found.share() == 0.5
    assert found.coverage().unfollowed == 0.0


def test_a_row_censored_at_its_bound_outlasts_it() -> None:
    rows = _rows(np.array([10.0, 5.0]), np.array([False, True]))  # the first may only end after 10 s
    assert BoundedRows.of(_exponential(np.full(2, 20.0)), rows, np.full(2, 10.0), 0.9).share() == 0.5


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_censoring_that_depends_on_the_prediction_does_not_move_it(level: float) -> None:
    """Long-lived rows are censored most; counted as within or beyond, coverage would be off by 10 points or more."""
    mean_s, lifetime_s = _drawn(3)
    table = _exponential(mean_s)
    follow_s = np.random.default_rng(4).uniform(0.0, 6e5, N)
    seen = _rows(np.maximum(np.minimum(lifetime_s, np.rint(follow_s)), 1.0), lifetime_s <= follow_s)
    bound_s = table.quantile(level, 0.0)
    found = BoundedRows.of(table, seen, bound_s, level)
    assert 0.1 < found.coverage().unfollowed < 0.5
    assert found.share() == pytest.approx(np.mean(lifetime_s <= bound_s), abs=0.01)
    assert np.mean(seen.lifetime_s <= bound_s) > level + 0.03  # as if the censored had ended


def test_half_the_bound_covers_what_the_formula_says() -> None:
    """P(T <= B / 2) = 1 - exp(-b / 2) where P(T <= B) = 1 - exp(-b) = 0.9: 1 - sqrt(0.1) = 0.684."""
    mean_s, lifetime_s = _drawn(5)
    table = _exponential(mean_s)
    found = BoundedRows.of(table, _rows(lifetime_s, np.ones(N, bool)), table.quantile(0.9, 0.0) / 2.0, 0.9)
    assert found.share() == pytest.approx(1.0 - np.sqrt(0.1), abs=0.01)


def test_at_an_age_the_bound_is_of_those_that_reached_it() -> None:
    mean_s, lifetime_s = _drawn(6)
    is_old = lifetime_s > 3_600.0
    table, rows = _exponential(mean_s[is_old]), _rows(lifetime_s[is_old], np.ones(int(is_old.sum()), bool))
    aged = BoundedRows.of(table, rows, 3_600.0 + table.quantile(0.9, 3_600.0), 0.9, 3_600.0)
    assert aged.share() == pytest.approx(0.9, abs=0.01)
    assert BoundedRows.of(table, rows, table.quantile(0.9, 0.0), 0.9, 3_600.0).share() < 0.88  # as if they were young


def test_a_row_that_is_younger_than_the_age_is_refused() -> None:
    with pytest.raises(ValueError, match=r"age_s must be outlived .* got 10\.0 for 2 rows, 1 of them not"):
        BoundedRows.of(_exponential(np.ones(2)), _rows(np.array([5.0, 20.0]), np.ones(2, bool)), np.ones(2), 0.9, 10.0)
    with pytest.raises(ValueError, match=r"level must .*, got 1"):
        BoundedRows.of(_exponential(np.ones(1)), _rows(np.ones(1), np.ones(1, bool)), np.ones(1), 1)


def test_a_tenth_that_is_wrong_shows() -> None:
    mean_s, lifetime_s = _drawn(7)
    table = _exponential(mean_s)
    bound_s = np.where(mean_s > np.quantile(mean_s, 0.9), 0.0, table.quantile(0.9, 0.0))
    found = BoundedRows.of(table, _rows(lifetime_s, np.ones(N, bool)), bound_s, 0.9).by_decile(mean_s)
    assert len(found) == 10
    assert [round(each.share, 1) for _, each in found] == [0.9] * 9 + [0.0]
    assert found[-1][0] == mean_s.max()


def test_equal_predictions_stay_in_one_tenth() -> None:
    table = _exponential(np.full(50, 20.0))
    found = BoundedRows.of(table, _rows(np.arange(1.0, 51.0), np.ones(50, bool)), np.full(50, 25.0), 0.9)
    (edge, only), = found.by_decile(np.full(50, 7.0))
    assert (edge, only.n_rows, round(only.share, 9)) == (7.0, 50, 0.5)


def test_the_interval_is_over_owners_not_rows() -> None:
    """20 owners of 100 equal rows each, half of them within: the share of 20 coins has a standard error of 0.11."""
    is_within = np.repeat(np.arange(20) % 2 == 0, 100)
    rows = _rows(np.where(is_within, 5.0, 50.0), np.ones(2_000, bool))
    found = BoundedRows.of(_exponential(np.full(2_000, 20.0)), rows, np.full(2_000, 10.0), 0.9)
    owners = found.coverage(OwnerDraws(np.repeat(np.arange(20), 100), seed=0))
    each = found.coverage(OwnerDraws(np.arange(2_000), seed=0))
    assert owners.share == each.share == pytest.approx(0.5)
    assert 0.3 < owners.high - owners.low < 0.6
    assert each.high - each.low < 0.06
