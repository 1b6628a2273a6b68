"""Steps: mean or maximum of what falls in, coarse series held, gaps bridged only where asked and by the past alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_usage_grid import naive_grid
from sojourn.features.usage.usage_grid import Series, Take, gridded, median_intervals_s

NAN = float("nan")


def made(*series: list[tuple[int, float]]) -> Series:
    """A series per request, in order."""
    row = np.repeat(np.arange(len(series)), [len(each) for each in series])
    time_s = np.array([time for each in series for time, _ in each], np.int64)
    cpu = np.array([value for each in series for _, value in each], np.float32)
    return Series(row, time_s, cpu, None, median_intervals_s(row, time_s, len(series)))


def steps(series: Series, n_steps: int, step_s: int = 300, take: Take = "mean", bridge_steps: int = 0) -> list[float]:
    return np.round(gridded(series, series.cpu, 0, step_s, n_steps, take, bridge_steps)[0].astype(float), 3).tolist()


def test_finer_samples_are_averaged_and_the_peak_is_taken_where_asked() -> None:
    fine = made([(0, 0.125), (100, 0.25), (200, 0.75), (300, 0.5)])
    assert steps(fine, 2) == [0.375, 0.5]  # (0.125 + 0.25 + 0.75) / 3
    assert steps(fine, 2, take="max") == [0.75, 0.5]


def test_coarser_samples_hold_for_their_own_interval_or_to_the_next_sample() -> None:
    coarse = made([(0, 0.25), (900, 0.5), (1200, 0.75), (2100, 1.0)])  # gaps 900, 300, 900: median 900
    np.testing.assert_equal(steps(coarse, 12), [0.25, 0.25, 0.25, 0.5, 0.75, 0.75, 0.75, 1.0, 1.0, 1.0, NAN, NAN])


def test_in_a_series_of_mixed_intervals_the_median_decides() -> None:
    """Mostly 300 s with one gap of 1,500 s: the gap stays a gap."""
    mixed = made([(0, 0.25), (300, 0.25), (600, 0.25), (2100, 0.5), (2400, 0.5), (2700, 0.5)])
    np.testing.assert_equal(steps(mixed, 10), [0.25] * 3 + [NAN] * 4 + [0.5] * 3)


def test_gaps_are_bridged_up_to_the_length_asked_for_with_the_value_before() -> None:
    gaps = made([(300, 0.25), (600, 0.25), (1200, 0.5), (1500, 0.5), (2400, 0.75), (2700, 0.75)])
    np.testing.assert_equal(steps(gaps, 11), [NAN, 0.25, 0.25, NAN, 0.5, 0.5, NAN, NAN, 0.75, 0.75, NAN])
    np.testing.assert_equal(steps(gaps, 11, bridge_steps=1), [NAN, 0.25, 0.25, 0.25, 0.5, 0.5, NAN, NAN, 0.75, 0.75,
                                                             NAN])
    np.testing.assert_equal(steps(gaps, 11, bridge_steps=2), [NAN, 0.25, 0.25, 0.25, 0.5, 0.5, 0.5, 0.5, 0.75, 0.75,
                                                             NAN])


@pytest.mark.parametrize("bridge_steps", [0, 3])
def test_a_step_does_not_depend_on_what_comes_after_it(bridge_steps: int) -> None:
    """Up to the last sample that both have; whether a gap is bridged is known when the next sample comes."""
    past = [(0, 0.25), (300, 0.5), (900, 0.25), (1200, 0.5)]
    one, other = made([*past, (1500, 0.1)]), made([*past, (1500, 9.0), (1800, 7.0)])
    np.testing.assert_equal(steps(one, 5, bridge_steps=bridge_steps), steps(other, 5, bridge_steps=bridge_steps))


def test_constant_empty_single_and_year_long_idle_series() -> None:
    day = 86_400
    idle = made([(k * day, 0.0) for k in range(366)], [], [(600, 0.5)])
    assert np.isnan(idle.interval_s[1:]).all() and idle.interval_s[0] == day
    grid = gridded(idle, idle.cpu, 0, 3600, 365 * 24)
    assert (grid[0] == 0.0).all() and np.isnan(grid[1]).all()
    assert np.flatnonzero(~np.isnan(grid[2])).tolist() == [0]


def test_missing_memory_is_no_sample_of_the_memory() -> None:
    series = made([(0, 0.5), (300, 0.5), (600, 0.5)])
    mem = np.array([0.25, np.nan, 0.75], np.float32)
    np.testing.assert_equal(gridded(series, mem, 0, 300, 3)[0], np.array([0.25, np.nan, 0.75], np.float32))


SERIES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=12, unique_by=lambda sample: sample[0])


@settings(max_examples=60, deadline=None)
@given(series=st.lists(SERIES, min_size=1, max_size=3), step_s=st.integers(1, 9), take=st.sampled_from(["mean", "max"]),
       bridge_steps=st.integers(0, 3), start_s=st.integers(-5, 10))
def test_the_grid_equals_its_slow_twin(series: list[list[tuple[int, int]]], step_s: int, take: Take, bridge_steps: int,
                                       start_s: int) -> None:
    ordered = [[(time, value / 8) for time, value in sorted(each)] for each in series]
    fast = made(*ordered)
    found = gridded(fast, fast.cpu, start_s, step_s, 12, take, bridge_steps)
    expected = naive_grid(dict(enumerate(ordered)), start_s, step_s, 12, take, bridge_steps)
    np.testing.assert_allclose(found, np.array(expected, np.float32), rtol=1e-6)
