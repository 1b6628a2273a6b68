"""Use by slots of local days: maxima, means, gaps and daylight saving."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.features.usage import UsageGrid, profiles_of
from sojourn.models.workload_class import slot_maxima
from sojourn.serving.usage import DayClock


def _grid(cpu: np.ndarray, start_s: int = 0, step_s: int = 300, clock: DayClock | None = None) -> UsageGrid:
    return UsageGrid(np.arange(len(cpu)), cpu.astype(np.float32), None, np.ones(len(cpu)), np.ones(len(cpu)), start_s,
                     step_s, clock or DayClock())


def test_slots_hold_the_highest_and_the_mean_of_what_was_seen() -> None:
    nan = np.nan
    seen = slot_maxima(_grid(np.array([[0.1, nan, 0.3, nan, nan, nan, -1.0, np.inf, 0.5]])))
    assert seen.highest[0, :3].tolist() == pytest.approx([0.3, nan, 0.5], nan_ok=True)
    assert seen.mean[0, :3].tolist() == pytest.approx([0.2, nan, 0.5], nan_ok=True)


def test_profiles_are_those_of_features() -> None:
    rng = np.random.default_rng(3)
    cpu = np.where(rng.random((5, 700)) < 0.2, np.nan, rng.random((5, 700)))
    grid = _grid(cpu, start_s=40_000, clock=DayClock(1_364_684_400, "Europe/Berlin"))
    np.testing.assert_array_equal(slot_maxima(grid).profiles(), profiles_of(grid).maximum)


def test_on_the_day_that_daylight_saving_begins_an_hour_has_no_slots() -> None:
    clock = DayClock(1_364_684_400, "Europe/Berlin")  # Sunday, 31 March 2013, 0:00
    seen = slot_maxima(_grid(np.ones((1, 23 * 12)), clock=clock))
    assert np.flatnonzero(np.isnan(seen.highest[0])).tolist() == [8, 9, 10, 11]


def test_before_hides_a_column_and_all_later_ones() -> None:
    seen = slot_maxima(_grid(np.ones((2, 2 * 288))))
    past = seen.before(100, np.array([1]))
    assert past.request_ids.tolist() == [1]
    assert past.n_days == 2
    assert np.isnan(past.highest[0, 100:]).all() and not np.isnan(past.highest[0, :100]).any()


def test_a_grid_without_memory_has_none() -> None:
    with pytest.raises(ValueError, match="resource must be one that the grid has"):
        slot_maxima(_grid(np.ones((1, 3))), "mem")
    with pytest.raises(ValueError, match="resource must be one of cpu, mem, got 'gpu'"):
        slot_maxima(_grid(np.ones((1, 3))), "gpu")
