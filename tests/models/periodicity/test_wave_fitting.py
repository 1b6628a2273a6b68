"""Fits of whole grids: known waves, reasons of those without a period, and the same bytes however they are made."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from made_waves import Known, known_waves, usage_grid
from sojourn.models.periodicity import REASONS, PeriodicitySettings, WaveFits, fit_waves

STEP_S = 300


def phase_errors(fits: WaveFits, known: Known) -> np.ndarray:
    """Distance of the phases round the circle as a share of the period; the first step begins at 0."""
    apart = np.abs(fits.phase_s / fits.period_s - known.phase / known.period)
    return np.minimum(apart, 1.0 - apart)


def bytes_of(fits: WaveFits) -> bytes:
    arrays = [getattr(fits, field.name) for field in fields(fits) if field.name != "second"]
    return b"".join(array.tobytes() for array in arrays) + (bytes_of(fits.second) if fits.second else b"")


@pytest.mark.parametrize("snr", [0.1, 1.0, 3.0])
def test_the_period_is_found_within_a_bin(snr: float) -> None:
    known = known_waves(64, 8640, (24.0, 2016.0), snr, seed=1)
    fits = fit_waves(usage_grid(known.values))
    assert np.abs(8640 / (fits.period_s / STEP_S) - 8640 / known.period).max() <= 1.0


def test_phases_are_found_to_half_a_percent() -> None:
    known = known_waves(64, 8640, (24.0, 288.0), snr=3.0, seed=2)
    assert np.median(phase_errors(fit_waves(usage_grid(known.values)), known)) <= 0.005


def test_duty_cycles_are_found_to_half_a_point() -> None:
    known = known_waves(64, 8640, (72.0, 2016.0), snr=1.0, seed=3)
    fits = fit_waves(usage_grid(known.values))
    assert np.median(np.abs(fits.duty - known.duty)) <= 0.005


def test_gaps_are_bridged_up_to_a_share() -> None:
    known = known_waves(8, 8640, (72.0, 288.0), snr=10.0, seed=4, duties=(0.3, 0.6))
    rng = np.random.default_rng(0)
    values = known.values.copy()
    values[:, rng.random(8640) < 0.15] = np.nan
    values[4:, 1000:2000] = np.nan  # 15 and 12 % together: more than a fifth
    fits = fit_waves(usage_grid(values))
    assert fits.reason_text()[4:].tolist() == ["aperiodic because too many samples are missing"] * 4
    assert fits.is_periodic[:4].all()
    assert np.abs(8640 / (fits.period_s[:4] / STEP_S) - 8640 / known.period[:4]).max() < 0.05
    assert np.abs(fits.duty[:4] - known.duty[:4]).max() < 0.01


def test_what_is_not_finite_is_missing() -> None:
    values = known_waves(2, 1440, (72.0, 144.0), snr=10.0, seed=11).values
    values[:, 100:103] = np.nan
    odd = values.copy()
    odd[0, 100:103], odd[1, 101] = np.inf, -np.inf
    for settings in (PeriodicitySettings(), PeriodicitySettings(n_periods=2, levels="mean")):
        assert bytes_of(fit_waves(usage_grid(odd), settings)) == bytes_of(fit_waves(usage_grid(values), settings))


@pytest.mark.parametrize("shape", [(0, 100), (3, 0), (2, 1)])
def test_a_grid_without_series_or_steps_has_no_period(shape: tuple[int, int]) -> None:
    fits = fit_waves(usage_grid(np.zeros(shape)), PeriodicitySettings(n_periods=2))
    assert len(fits) == shape[0]
    assert not fits.is_periodic.any()


def test_each_reason_is_given() -> None:
    known = known_waves(1, 2016, (72.0, 73.0), snr=10.0, seed=5).values[0]
    rng = np.random.default_rng(6)
    values = np.full((10, 2016), np.nan, np.float32)
    values[0] = known
    values[2, ::2] = known[::2]
    values[3] = 0.25
    values[4] = np.linspace(0.0, 1.0, 2016)
    values[5, 100:123] = rng.random(23)
    values[6, 500:540] = rng.random(40)  # 40 steps: longest period 10 steps, shortest 12
    values[7] = rng.random(2016)
    values[8, 77] = 0.5
    values[9] = rng.random(2016) + 0.1 * np.sin(np.arange(2016) / 16)
    fits = fit_waves(usage_grid(values), PeriodicitySettings(threshold=0.5))
    start = "aperiodic because "
    assert fits.reason_text().tolist() == [
        "periodic", start + "it has no samples", start + "too many samples are missing",
        start + "it is constant or a straight line", start + "it is constant or a straight line",
        start + "it is shorter than two of the shortest periods",
        start + "no frequency between the longest and the shortest period stands out from its neighbours",
        start + "no frequency is stronger than chance", start + "it is constant or a straight line",
        start + "the strength is below the threshold"]
    assert np.isinf(fits.period_s[1:]).all()
    assert np.isnan(fits.peak).tolist() == [False, True] + [False] * 8
    assert (fits.peak[3], fits.trough[3], fits.peak[8]) == (0.25, 0.25, 0.5)
    assert set(REASONS) == set(fits.reason.tolist())
    with pytest.raises(ValueError, match="peak and trough must be finite"):
        fits.wave(1)


def test_a_series_that_begins_late_has_its_phase_on_the_clock_of_the_trace() -> None:
    busy = (np.arange(2016) - 30) % 96 < 24
    values = np.where(busy, 0.75, 0.25) + np.random.default_rng(7).normal(0, 0.02, 2016)
    late = values.copy()
    late[:700] = np.nan
    fits = fit_waves(usage_grid(np.stack([values, late]), start_s=90_000))
    begin_s = 90_000 + 30 * STEP_S  # of one busy window; others follow every 96 steps
    apart = (fits.phase_s - begin_s + fits.period_s / 2) % fits.period_s - fits.period_s / 2
    drift = np.abs(fits.period_s - 96 * STEP_S) * 15  # over the windows between the trace's second 0 and the series
    assert (np.abs(apart) <= drift + 1.5 * STEP_S).all()
    later_s = 90_000 + STEP_S * 1900
    assert all(abs(fits.wave(row).next_busy(later_s)[0] - (begin_s + 96 * 20 * STEP_S)) <= 2 * STEP_S for row in (0, 1))


@pytest.mark.parametrize("settings", [PeriodicitySettings(), PeriodicitySettings(n_periods=2)])
def test_the_same_bytes_whatever_the_threads_and_the_split(settings: PeriodicitySettings) -> None:
    known = known_waves(150, 1152, (24.0, 288.0), snr=0.5, seed=8).values
    known[::7, :200] = np.nan
    known[::5, 300:330] = np.nan
    whole = fit_waves(usage_grid(known), settings)
    assert bytes_of(fit_waves(usage_grid(known), settings, n_threads=3)) == bytes_of(whole)
    for n in (1, 3, 17):
        parts = [fit_waves(usage_grid(known[at:at + n], first_id=at), settings) for at in range(0, 150, n)]
        for field in fields(WaveFits):
            if field.name != "second":
                joined = np.concatenate([getattr(part, field.name) for part in parts])
                assert joined.tobytes() == getattr(whole, field.name).tobytes(), field.name
        if whole.second is not None:
            joined = np.concatenate([part.second.phase_s for part in parts if part.second])
            assert joined.tobytes() == whole.second.phase_s.tobytes()


def test_two_periods_are_a_day_and_a_week() -> None:
    steps = np.arange(8640)
    day, week = steps % 288 < 100, steps % 2016 < 1440
    values = 0.1 + 0.4 * day + 0.2 * week + np.random.default_rng(9).normal(0, 0.05, 8640)
    settings = PeriodicitySettings(n_periods=2, levels="mean")
    fits = fit_waves(usage_grid(values[None, :]), settings)
    assert fits.second is not None
    assert fits.period_s[0] == pytest.approx(86_400, rel=2e-3)
    assert fits.second.period_s[0] == pytest.approx(7 * 86_400, rel=2e-2)
    assert fits.second.duty[0] == pytest.approx(5 / 7, abs=0.01)
    assert fits.second.peak[0] - fits.second.trough[0] == pytest.approx(0.2, abs=0.02)
    alone = fit_waves(usage_grid(values[None, :]), PeriodicitySettings(levels="mean"))
    assert fits.nrmse[0] < 0.7 * alone.nrmse[0]
    predicted = fits.waves(0).at((steps + 0.5) * STEP_S)
    nrmse = np.sqrt(np.mean((values.astype(np.float32) - predicted) ** 2)) / np.ptp(values.astype(np.float32))
    assert fits.nrmse[0] == pytest.approx(nrmse, rel=1e-3)


def test_a_longest_period_leaves_longer_ones_out() -> None:
    steps = np.arange(8640)
    values = 0.5 + 0.2 * np.sin(2 * np.pi * steps / 1000) + 0.1 * np.sin(2 * np.pi * steps / 288)
    grid = usage_grid(values[None, :])
    assert fit_waves(grid).period_s[0] == pytest.approx(300_000, rel=0.01)
    shorter = fit_waves(grid, PeriodicitySettings(longest_period_s=90_000.0))
    assert shorter.period_s[0] == pytest.approx(86_400, rel=0.01)


def test_the_error_is_that_of_equation_4() -> None:
    known = known_waves(6, 2016, (24.0, 288.0), snr=1.0, seed=10).values
    known[2, 50:80] = np.nan
    known[5] = np.random.default_rng(0).random(2016)
    fits = fit_waves(usage_grid(known), PeriodicitySettings(threshold=0.1))
    assert not fits.is_periodic[5]
    times = (np.arange(2016) + 0.5) * STEP_S
    for row in range(6):
        errors = known[row].astype(np.float64) - fits.waves(row).at(times)
        spread = float(np.nanmax(known[row]) - np.nanmin(known[row]))
        assert fits.nrmse[row] == pytest.approx(np.sqrt(np.nanmean(errors ** 2)) / spread, rel=1e-6)


def test_memory_is_fitted_where_the_grid_has_it() -> None:
    grid = usage_grid(np.zeros((1, 30)))
    with pytest.raises(ValueError, match=r"resource must .*, got 'mem'"):
        fit_waves(grid, resource="mem")


@pytest.mark.parametrize(("n_days", "is_weekly"), [(14, False), (20, False), (21, True), (28, True)])
def test_a_weekly_pattern_needs_three_weeks(n_days: int, is_weekly: bool) -> None:
    step = np.arange(n_days * 288)
    busy = np.where((step // 288) % 7 < 2, 0.6, 0.2) + 0.01 * np.random.default_rng(3).normal(size=len(step))
    fits = fit_waves(usage_grid(busy[None, :]), PeriodicitySettings(longest_share=0.5))
    assert (abs(fits.period_s[0] / (7 * 86_400) - 1) < 0.1) == is_weekly  # NaN where nothing is periodic
