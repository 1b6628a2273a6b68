"""Online recalibration over rows in the order of events: no future, right after a drift, no harm without one."""

from dataclasses import replace

import numpy as np
import pytest

from sojourn.features.split import Examples
from sojourn.models.curve_table import HazardTable, online_factors, online_table
from sojourn.models.measures import CalibrationByAge, Pit
from sojourn.models.measures.calibration import DECILES, pit_deviation

EDGES = np.unique([0.0, *(np.floor(np.geomspace(2.0, 200_000.0, 30)) + 0.5)])
N = 24_000
MEAN_S = 3_600.0


def _rows(rate: np.ndarray, seed: int = 3) -> Examples:
    """Requests one every 10 s, at hazards of rate / MEAN_S a second."""
    lifetime_s = np.maximum(np.rint(np.random.default_rng(seed).exponential(MEAN_S, len(rate)) / rate), 1.0)
    n = len(rate)
    arrival_s = 10 * np.arange(n)
    return Examples(np.zeros((n, 1)), (), lifetime_s, np.ones(n, bool), np.zeros(n), arrival_s, np.arange(n))


def _table(n: int) -> HazardTable:
    """A constant hazard of 1 / MEAN_S."""
    return HazardTable.from_hazards(EDGES, np.tile(np.diff(EDGES) / MEAN_S, (n, 1)), MEAN_S, EDGES)


def _deviation(table: HazardTable, rows: Examples, idx: np.ndarray) -> float:
    pit = Pit.of(table.take(idx), rows.take(idx), np.random.default_rng(0))
    return pit_deviation(pit.distribution(DECILES))


@pytest.mark.slow
def test_doubled_hazards_are_followed() -> None:
    rows = _rows(np.where(np.arange(N) < N // 2, 1.0, 2.0))
    table = _table(N)
    found = online_table(table, rows, rows.arrival_s)
    before, late = np.arange(N // 4, N // 2), np.arange(N - 4_000, N)
    assert _deviation(table, rows, before) < 0.02
    assert _deviation(found, rows, before) < 0.03
    # of S ** 2 in place of S, F(F^-1(d)) = 1 - (1 - d) ** 2: .25 too much at the median
    assert _deviation(table, rows, late) == pytest.approx(0.25, abs=0.02)
    assert _deviation(found, rows, late) < 0.05


@pytest.mark.slow
def test_a_model_that_is_too_sure_is_put_right_at_each_age() -> None:
    """Half of the requests end at 3 times the predicted hazard, half at a third of it; the model can't tell them."""
    rows = _rows(np.where(np.random.default_rng(8).random(N) < 0.5, 3.0, 1.0 / 3.0))
    table = _table(N)
    names = [f"{prefix}.pit_deviation" for prefix in ("creation", "age_10m", "age_1h", "age_6h")]
    late = np.arange(N // 2, N)
    without, found = ({name: CalibrationByAge.of(one.take(late), rows.take(late)).scores()[name] for name in names}
                      for one in (table, online_table(table, rows, rows.arrival_s)))
    assert all(without[name] > 0.1 for name in names)
    assert all(found[name] < 0.04 for name in names)


def test_what_happens_later_changes_no_earlier_factor() -> None:
    n = 4_000
    rows, table = _rows(np.ones(n)), _table(n)
    cut_s = int(rows.arrival_s[n // 2])
    end_s = rows.arrival_s + rows.lifetime_s
    rng = np.random.default_rng(1)
    is_later = end_s > cut_s
    changed_s = np.maximum(cut_s + 1 - rows.arrival_s, 1) + rng.integers(0, 50_000, n)
    other = Examples(rows.features, (), np.where(is_later, changed_s, rows.lifetime_s), rows.is_event & (
        ~is_later | (rng.random(n) < 0.5)), rows.entry_s, rows.arrival_s, rows.idx_row)
    one, other_one = (online_factors(table, each, rows.arrival_s) for each in (rows, other))
    known = rows.arrival_s <= cut_s
    assert one[1][known].max() > 10  # factors have changed that often
    assert np.array_equal(one[0][one[1][known]], other_one[0][other_one[1][known]])
    assert not np.array_equal(one[0][one[1][-1]], other_one[0][other_one[1][-1]])


def test_who_still_runs_counts() -> None:
    """Right predictions, followed for 40 min only: without what runs, short lifetimes would stand for all."""
    n = 2_000
    rows, table = _rows(np.ones(n)), _table(n)
    horizon_s = int(rows.arrival_s[-1]) // 8
    known = rows.arrival_s < horizon_s
    seen_s = np.minimum(rows.lifetime_s, np.maximum(horizon_s - rows.arrival_s, 1))
    cut = Examples(rows.features, (), seen_s, rows.lifetime_s <= seen_s, rows.entry_s, rows.arrival_s,
                   rows.idx_row).take(known)
    factors, _ = online_factors(table.take(np.flatnonzero(known)), cut, cut.arrival_s)
    assert 0.9 < factors[-1, 0, :3].mean() < 1.1


def test_no_ends_no_change() -> None:
    rows, table = _rows(np.ones(50)), _table(50)
    running = replace(rows, is_event=np.zeros(50, bool))
    assert (online_factors(table, running, rows.arrival_s)[0] == 1.0).all()
    assert len(online_table(table.take(np.arange(0)), rows.take(np.arange(0)), np.arange(0))) == 0
