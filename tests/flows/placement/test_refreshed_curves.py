"""Held answers with refreshes: the held ones before an age, the later curve's own from it on."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sojourn.flows.placement.predictors import Anew, TableSource, held_curves, refreshed_curves
from sojourn.models.curve_table import HazardTable

EDGES_S = np.array([0.0, 100.5, 1_000.5, 10_000.5])


def _table(n: int, level: float) -> HazardTable:
    return HazardTable.from_hazards(EDGES_S, np.full((n, 3), level), 20_000.0, EDGES_S)


def test_an_answer_anew_holds_from_its_age_on_and_for_its_request_alone() -> None:
    held, fresh = _table(3, 0.5), _table(2, 0.01)
    curves = refreshed_curves(held, [Anew(600, np.array([0, 2]), fresh)])
    for row, uptime_s, table in ((0, 0, held), (0, 599, held), (1, 600, held), (1, 5_000, held), (0, 600, fresh),
                                 (2, 600, fresh), (2, 1_001, fresh)):
        asked_s = curves.uptime_s[curves.offsets[row]:curves.offsets[row + 1]]
        at_s = int(asked_s[asked_s <= uptime_s][-1])
        total_s = at_s + float(table.remaining(float(at_s))[0])
        following_s = asked_s[asked_s > at_s][:1]
        assert curves.total_at(row, uptime_s) == max(total_s, *following_s)


def test_the_later_of_two_refreshes_counts() -> None:
    held, one, two = _table(1, 0.5), _table(1, 0.2), _table(1, 0.01)
    only = np.array([0])
    both = refreshed_curves(held, [Anew(600, only, one), Anew(3_600, only, two)])
    alone = refreshed_curves(held, [Anew(3_600, only, two)])
    assert both.total_at(0, 4_000) == alone.total_at(0, 4_000)
    assert both.total_at(0, 3_599) != alone.total_at(0, 3_599)


def test_what_is_expected_at_the_start_stays() -> None:
    held = _table(2, 0.5)
    curves, before = refreshed_curves(held, [Anew(600, np.array([1]), _table(1, 0.01))]), held_curves(held)
    assert curves.overhang_s is not None and before.overhang_s is not None
    for row in (0, 1):
        own, old = (slice(one.offsets[row], one.offsets[row + 1]) for one in (curves, before))
        shared = np.isin(curves.uptime_s[own], before.uptime_s[old])
        np.testing.assert_array_equal(curves.overhang_s[own][shared], before.overhang_s[old])


def test_a_source_with_no_refresh_is_the_source_that_it_was() -> None:
    held, ids = _table(2, 0.5), pd.Series(["a", "b"])
    requests = pd.DataFrame({"request_id": ["b", "a"]})
    plain, none = TableSource(held, ids).curves(requests), TableSource(held, ids, ()).curves(requests)
    np.testing.assert_array_equal(plain.total_s, none.total_s)
    fresh = TableSource(held, ids, [Anew(600, np.array([1]), _table(1, 0.01))]).curves(requests)
    assert fresh.total_at(0, 700) > plain.total_at(0, 700) and fresh.total_at(1, 99) == plain.total_at(1, 99)
