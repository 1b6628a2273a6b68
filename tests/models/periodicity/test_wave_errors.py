"""Errors beside a constant's and last week's: by hand, and nothing of the judged day in what it is judged by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from made_waves import known_waves, usage_grid
from sojourn.models.periodicity import PeriodicitySettings, fit_waves, in_sample_errors, next_day_errors

DAY = 288
DAY_S = 86_400


def series(n: int = 4, n_days: int = 12) -> np.ndarray:
    return known_waves(n, n_days * DAY, (36.0, 288.0), snr=2.0, seed=0).values


def nrmse(values: np.ndarray, guesses: np.ndarray, of: np.ndarray) -> float:
    is_kept = np.isfinite(values) & np.isfinite(guesses)
    return float(np.sqrt(np.mean((values[is_kept] - guesses[is_kept]) ** 2)) / (np.nanmax(of) - np.nanmin(of)))


def test_in_sample_errors_are_judged_from_the_eighth_day_on() -> None:
    grid = usage_grid(series())
    grid.cpu[1, 9 * DAY:9 * DAY + 50] = np.nan
    grid.cpu[2, 100:150] = np.nan
    fits = fit_waves(grid)
    errors = in_sample_errors(grid, fits)
    assert errors.label == "in-sample"
    for row in range(4):
        values = grid.cpu[row].astype(np.float64)
        judged, week_ago = values[7 * DAY:].copy(), values[:-7 * DAY]
        judged[~np.isfinite(week_ago)] = np.nan
        wave = fits.waves(row).at((np.arange(7 * DAY, 12 * DAY) + 0.5) * 300)
        assert errors.wave[row] == pytest.approx(nrmse(judged, wave, judged))
        assert errors.constant[row] == pytest.approx(nrmse(judged, np.full(5 * DAY, np.nanmean(values)), judged))
        assert errors.last_week[row] == pytest.approx(nrmse(judged, week_ago, judged))


def test_series_of_a_day_have_no_last_week() -> None:
    grid = usage_grid(series(n_days=1))
    errors = in_sample_errors(grid, fit_waves(grid))
    assert np.isnan(errors.last_week).all()
    assert np.isfinite(errors.wave).all()


def test_next_day_errors_are_divided_by_the_range_of_the_history() -> None:
    grid = usage_grid(series())
    errors = next_day_errors(grid, 10 * DAY_S, PeriodicitySettings(levels="mean"))
    fits = fit_waves(usage_grid(grid.cpu[:, :10 * DAY]), PeriodicitySettings(levels="mean"))
    assert errors.label == "next-day"
    for row in range(4):
        past, day = grid.cpu[row, :10 * DAY].astype(np.float64), grid.cpu[row, 10 * DAY:11 * DAY].astype(np.float64)
        wave = fits.waves(row).at((np.arange(10 * DAY, 11 * DAY) + 0.5) * 300)
        assert errors.wave[row] == pytest.approx(nrmse(day, wave, past))
        assert errors.constant[row] == pytest.approx(nrmse(day, np.full(DAY, past.mean()), past))
        assert errors.last_week[row] == pytest.approx(nrmse(day, past[3 * DAY:4 * DAY], past))


def test_what_follows_the_day_changes_nothing() -> None:
    grid = usage_grid(series())
    changed = grid.cpu.copy()
    changed[:, 11 * DAY:] = 9.0
    before = next_day_errors(grid, 10 * DAY_S)
    after = next_day_errors(replace(grid, cpu=changed), 10 * DAY_S)
    for name in ("wave", "constant", "last_week"):
        assert getattr(after, name).tobytes() == getattr(before, name).tobytes()


def test_the_day_itself_changes_no_guess() -> None:
    """Squared errors of a day are a parabola in a shift of the day: its vertex is the guess, whatever the day was."""
    grid = usage_grid(series())
    spread = np.ptp(grid.cpu[:, :10 * DAY], axis=1).astype(np.float64)

    def squares(shift: float) -> np.ndarray:
        moved = grid.cpu.copy()
        moved[:, 10 * DAY:11 * DAY] += shift
        errors = next_day_errors(replace(grid, cpu=moved), 10 * DAY_S)
        return np.stack([errors.wave, errors.constant, errors.last_week]) ** 2 * spread ** 2

    # (e + s)^2 has the second difference 2 s^2 in s only if the guess does not move with the day
    assert squares(0.5) - 2 * squares(0.0) + squares(-0.5) == pytest.approx(np.full((3, 4), 0.5), rel=1e-4)


def test_a_shorter_history_is_only_that() -> None:
    grid = usage_grid(series())
    changed = grid.cpu.copy()
    changed[:, :2 * DAY] = 5.0
    before = next_day_errors(grid, 10 * DAY_S, history_s=8 * DAY_S)
    after = next_day_errors(replace(grid, cpu=changed), 10 * DAY_S, history_s=8 * DAY_S)
    assert after.wave.tobytes() == before.wave.tobytes()
    assert np.isfinite(before.last_week).all()
    assert np.isnan(next_day_errors(grid, 10 * DAY_S, history_s=6 * DAY_S).last_week).all()


def test_rows_that_cannot_be_judged_have_no_error() -> None:
    values = series()
    values[0] = np.nan
    values[1] = 0.25
    values[2, 10 * DAY:] = np.nan
    errors = next_day_errors(usage_grid(values), 10 * DAY_S)
    assert np.isnan(errors.wave).tolist() == [True, True, True, False]
    assert np.isnan(errors.constant).tolist() == [True, True, True, False]


@pytest.mark.parametrize("day_start_s", [0, -DAY_S, 12 * DAY_S, 11 * DAY_S + 300])
def test_a_day_outside_the_grid_is_refused(day_start_s: int) -> None:
    with pytest.raises(ValueError, match="day_start_s must begin a whole day of the grid after its first step"):
        next_day_errors(usage_grid(series()), day_start_s)
