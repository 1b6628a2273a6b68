"""The paper's phase filter and its two ways to the duty cycle, and the settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from made_waves import known_waves, usage_grid
from sojourn.models.periodicity import PeriodicitySettings, fit_waves
from sojourn.models.periodicity.spectrum import duty_of_change_points, duty_of_least_error, peak_times, recurring


def naive_recurring(times: list[float], period: float, epsilon: float) -> tuple[float, list[bool]]:
    """Every time as a start, distances round the circle one by one."""
    found: list[tuple[float, int, list[bool]]] = []
    for start in times:
        apart = [abs((time - start + period / 2) % period - period / 2) for time in times]
        kept = [distance <= epsilon * period for distance in apart]
        spread = sum(distance for distance, is_kept in zip(apart, kept, strict=True) if is_kept) / sum(kept)
        found.append((spread, sum(kept), kept))
    most = max(n for _, n, _ in found)
    kept = min((one for one in found if 2 * one[1] >= most), key=lambda one: one[0])[2]
    turn = np.exp(2j * np.pi * np.array(times)[kept] / period).sum()
    return float(np.angle(turn) / (2 * np.pi) * period % period), kept


@pytest.mark.parametrize("seed", range(10))
def test_the_filter_keeps_what_recurs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.sort(np.concatenate([np.arange(20) * 10.0 + 3.0 + rng.normal(0, 0.3, 20), rng.uniform(0, 200, 12)]))
    phase, is_kept = recurring(times, 10.0, 0.1)
    expected, expected_kept = naive_recurring(times.tolist(), 10.0, 0.1)
    assert is_kept.tolist() == expected_kept
    assert phase == pytest.approx(expected)
    assert phase == pytest.approx(3.0, abs=0.3)


def test_a_lone_time_does_not_win_by_its_spread_of_nothing() -> None:
    phase, is_kept = recurring(np.array([0.0, 10.2, 19.9, 30.1, 35.0]), 10.0, 0.05)
    assert is_kept.tolist() == [True, True, True, True, False]
    assert phase == pytest.approx(0.05, abs=1e-6)


def test_phases_meet_at_the_turn_of_the_period() -> None:
    phase, is_kept = recurring(np.array([9.9, 20.1, 29.9, 40.1]), 10.0, 0.1)
    assert is_kept.all()
    assert min(phase, 10.0 - phase) == pytest.approx(0.0, abs=1e-9)


def test_no_times_are_refused() -> None:
    with pytest.raises(ValueError, match="times must be at least one, got none"):
        recurring(np.array([]), 10.0, 0.1)


def test_peak_times_are_the_first_of_each_run() -> None:
    assert peak_times(np.array([3.0, 3.0, 1.0, 2.0, 3.0]), 2.0).tolist() == [0.0, 3.0]


@pytest.mark.parametrize("seed", range(6))
def test_the_duty_of_least_error_is_that_of_every_candidate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    profile, counts = rng.random(24), rng.integers(1, 5, 24)
    start = seed * 3 % 24
    errors = []
    for width in range(1, 24):
        guess = np.where((np.arange(24) - start) % 24 < width, 0.8, 0.2)
        errors.append(float((counts * (profile - guess) ** 2).sum()))
    found = duty_of_least_error(profile, counts, start / 24, 0.8, 0.2)
    assert found == pytest.approx((int(np.argmin(errors)) + 1) / 24)


def test_change_points_that_do_not_alternate_are_left_out() -> None:
    steps = np.arange(1200)
    values = np.where((steps - 10) % 100 < 30, 1.0, 0.0) + np.random.default_rng(0).normal(0, 0.05, 1200)
    values[560:565] += 3.0  # a rise and a fall where none belongs
    found = duty_of_change_points(values, 100.0, 0.1)
    assert found is not None
    assert found[0] == pytest.approx(10.0, abs=1.0)  # the mean of the rises, the spurious one not among them
    assert found[1] == 0.3


@pytest.mark.parametrize("values", [np.zeros(100), np.random.default_rng(1).normal(0, 1, 100),
                                    np.repeat([0.0, 1.0], 50)])
def test_without_a_rise_and_a_fall_there_is_no_duty_cycle(values: np.ndarray) -> None:
    assert duty_of_change_points(values, 20.0, 0.1) is None


METHODS = [("paper", "error"), ("paper", "changepoint"), ("joint", "error"), ("joint", "changepoint")]


@pytest.mark.parametrize(("phase", "duty"), METHODS)
def test_each_method_finds_clear_pulses(phase: Any, duty: Any) -> None:
    known = known_waves(6, 1440, (60.0, 144.0), snr=30.0, seed=3, duties=(0.3, 0.6))
    values = known.values.copy()
    values[0, 500:520] = np.nan
    fits = fit_waves(usage_grid(values), PeriodicitySettings(phase_method=phase, duty_method=duty))
    apart = np.abs(fits.phase_s / fits.period_s - known.phase / known.period)
    assert np.median(np.minimum(apart, 1.0 - apart)) < 0.06
    assert np.median(np.abs(fits.duty - known.duty)) < 0.06


def test_joint_is_nearer_than_times_at_the_peak() -> None:
    known = known_waves(40, 2880, (72.0, 288.0), snr=3.0, seed=4)
    errors = []
    for settings in (PeriodicitySettings(),
                     PeriodicitySettings(phase_method="paper", duty_method="error", close_share=0.0)):
        fits = fit_waves(usage_grid(known.values), settings)
        apart = np.abs(fits.phase_s / fits.period_s - known.phase / known.period)
        errors.append(float(np.median(np.minimum(apart, 1.0 - apart))))
    assert 5 * errors[0] < errors[1]


@pytest.mark.parametrize(("changed", "message"), [
    ({"filter_order": 0}, "filter_order must be from 1 to 8, got 0"),
    ({"cutoff_s": float("nan")}, "cutoff_s must be above 0 and finite, got nan"),
    ({"strength_scale": "log"}, "strength_scale must be variance or magnitude, got 'log'"),
    ({"threshold": 1.5}, "threshold must be from 0 to 1, got 1.5"),
    ({"full_magnitude": 0.0}, "full_magnitude must be above 0 and finite, got 0.0"),
    ({"peak_percentile": 101.0}, "peak_percentile must be from 0 to 100, got 101.0"),
    ({"trough_percentile": 96.0}, "trough_percentile must be from 0 to peak_percentile, got 96.0"),
    ({"levels": "max"}, "levels must be percentile or mean, got 'max'"),
    ({"phase_method": "fft"}, "phase_method must be joint or paper, got 'fft'"),
    ({"phase_method": "paper"}, "duty_method must be error or changepoint, or joint where phase_method is joint"),
    ({"close_share": 1.0}, "close_share must be from 0 to below 1, got 1.0"),
    ({"epsilon": 0.0}, "epsilon must be above 0 and at most 0.5, got 0.0"),
    ({"n_periods": 3}, "n_periods must be 1 or 2, got 3"),
    ({"longest_share": 0.6}, "longest_share must be above 0 and at most 0.5, got 0.6"),
    ({"longest_period_s": 3600.0}, "longest_period_s must be above cutoff_s, got 3600.0"),
    ({"subharmonic_share": 0.0}, "subharmonic_share must be above 0, got 0.0"),
    ({"keep_share": 0.0}, "keep_share must be above 0, got 0.0"),
    ({"most_gaps": 1.0}, "most_gaps must be from 0 to below 1, got 1.0"),
])
def test_settings_that_break_a_rule_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        PeriodicitySettings(**changed)
    assert message in str(refused.value)


def test_strength_by_magnitude_is_the_papers() -> None:
    steps = np.arange(2880)
    swing = 0.5 + 0.04 * np.sin(2 * np.pi * steps / 96)  # 4 points x 2,880 / 2 = 5,760
    grid = usage_grid(np.stack([swing, 0.5 + (swing - 0.5) / 100 + np.random.default_rng(0).normal(0, 1e-4, 2880)]))
    fits = fit_waves(grid, PeriodicitySettings(strength_scale="magnitude"))
    assert fits.magnitude[0] == pytest.approx(5_760 / 20_000, rel=0.01)
    assert fits.is_periodic.tolist() == [True, False]  # the same shape, a hundredth as large
    assert fit_waves(grid).is_periodic.tolist() == [True, True]
