"""Levels put a wrong model right, read no future, and are not drawn to early ends."""

from dataclasses import replace

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import HazardTable
from studies.conformal_levels import WANTED, levelled

EDGES = np.unique([0.0, *(np.floor(np.geomspace(2.0, 200_000.0, 30)) + 0.5)])
N, MEAN_S, EVERY_S = 1_000, 3_600.0, 60
ARRIVAL_S, NO_LIMITS = EVERY_S * np.arange(N), np.full(N, np.nan)


def _rows(factor: float) -> Examples:
    """Requests, one a minute, that live so many times as long as the model says."""
    lifetime_s = np.maximum(np.rint(np.random.default_rng(3).exponential(MEAN_S * factor, N)), 1.0)
    return Examples(np.zeros((N, 1)), (), lifetime_s, np.ones(N, bool), np.zeros(N), ARRIVAL_S, np.arange(N))


TABLE = HazardTable.from_hazards(EDGES, np.tile(np.diff(EDGES) / MEAN_S, (N, 1)), MEAN_S, EDGES)


def test_levels_find_doubled_hazards() -> None:
    """Half of the ends come by half of the model's median, which is its 29 % quantile: 1 - 0.5 ** 0.5."""
    tables = levelled(TABLE, _rows(0.5), ARRIVAL_S, NO_LIMITS, (0,))
    levels, right = tables[0].levels[-200:], 1.0 - (1.0 - WANTED) ** 0.5
    np.testing.assert_allclose(levels.mean(axis=0), right, atol=0.06)
    assert abs(tables[0].survival(MEAN_S * np.log(2.0) / 2.0, 0.0)[-200:].mean() - 0.5) < 0.06


def test_ends_that_count_early_draw_the_levels_down() -> None:
    """The model is right. After 2 h no request is older than the 90 % quantile, 2.3 h, but many have ended."""
    late, early = (levelled(TABLE, _rows(1.0), ARRIVAL_S, NO_LIMITS, (0,), is_early=is_early)[0].levels[120]
                   for is_early in (False, True))
    np.testing.assert_array_equal(late[-2:], WANTED[-2:])
    assert (early[-2:] < WANTED[-2:] - 0.02).all()


def test_no_level_reads_what_ends_later() -> None:
    rows, cut_s = _rows(0.5), EVERY_S * (N // 2)
    end_s = rows.arrival_s + rows.lifetime_s
    drawn_s = np.random.default_rng(4).exponential(9_000.0, N).round() + 1.0
    other = replace(rows, lifetime_s=np.where(end_s < cut_s, rows.lifetime_s,
                                              np.maximum(cut_s - rows.arrival_s, 0.0) + drawn_s))
    one, two = (levelled(TABLE, each, ARRIVAL_S, NO_LIMITS, (0, 600)) for each in (rows, other))
    is_before = cut_s >= ARRIVAL_S
    np.testing.assert_array_equal(one[0].levels[is_before], two[0].levels[is_before])
    is_before = (cut_s >= ARRIVAL_S + 600) & (rows.lifetime_s > 600) & (other.lifetime_s > 600)
    np.testing.assert_array_equal(one[600].levels[is_before], two[600].levels[is_before])
    assert (one[0].levels[-1] != two[0].levels[-1]).any()
