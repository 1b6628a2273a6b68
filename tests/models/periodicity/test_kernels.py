"""Each kernel against its slow twin, and the filter against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal

from made_waves import known_waves
from naive_waves import (
    naive_bridged,
    naive_folded,
    naive_profile,
    naive_scan,
    naive_sums,
    naive_turns,
    naive_window,
)
from sojourn.models.periodicity import LowPass, PeriodicitySettings
from sojourn.models.periodicity import _kernels as kernels
from sojourn.models.periodicity.spectrum import Background, Band, find_periods

PERIODS = (24.0, 37.77, 72.0, 288.0, 301.3)


def gappy(seed: int, n: int = 3, m: int = 600) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.random((n, m)).astype(np.float32)
    values[:, 1:-1][rng.random((n, m - 2)) < 0.2] = np.nan
    values[1, 100:200] = np.inf
    return values


@pytest.mark.parametrize("order", range(1, 9))
@pytest.mark.parametrize("n", [1, 16, 19])
def test_the_filter_equals_scipys(order: int, n: int) -> None:
    rows = np.random.default_rng(order).random((n, 300)).astype(np.float32)
    smoothed = LowPass(order, 3600.0, 300).smooth(rows)
    sos = signal.butter(order, 2 * 300 / 3600, output="sos")
    expected = signal.sosfiltfilt(sos, rows.astype(np.float64))
    assert np.abs(smoothed.values - expected).max() < 1e-7 * np.abs(expected).max() * 2
    assert np.abs(smoothed.detrended - signal.detrend(expected)).max() < 2e-7
    assert smoothed.variance == pytest.approx(signal.detrend(expected).var(axis=1), rel=1e-9)


def test_a_low_cut_off_equals_scipys() -> None:
    rows = known_waves(2, 8640, (400.0, 500.0), 1.0, seed=0).values
    expected = signal.sosfiltfilt(signal.butter(6, 2 * 300 / 86_400, output="sos"), rows.astype(np.float64))
    assert np.abs(LowPass(6, 86_400.0, 300).smooth(rows).values - expected).max() < 1e-6


def test_a_cut_off_of_two_steps_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cutoff_s must .*, got 600\.0"):
        LowPass(4, 600.0, 300)


def test_scans() -> None:
    values = np.concatenate([gappy(0), np.full((1, 600), np.nan, np.float32)])
    values[2, :50] = np.nan
    found = [np.empty(4, np.int64) for _ in range(3)] + [np.empty(4), np.empty(4)]
    kernels.scan(values, *found)
    for row in range(4):
        assert tuple(column[row] for column in found) == naive_scan(values[row])


def test_bridges() -> None:
    values = gappy(1)
    out = np.empty_like(values)
    kernels.bridge_rows(values, out)
    for row in range(3):
        assert out[row] == pytest.approx(naive_bridged(values[row]), abs=1e-7)


@pytest.mark.parametrize(("m", "decimals"), [(1, 6), (2, 6), (7, 6), (600, 6), (600, 1), (601, 0)])
@pytest.mark.parametrize("shares", [(0.05, 0.95), (0.0, 1.0), (0.5, 0.501)])
def test_percentiles(m: int, decimals: int, shares: tuple[float, float]) -> None:
    rows = np.random.default_rng(m).normal(size=(4, m)).round(decimals).astype(np.float32)
    rows[3] = 0.25
    rows[2, -1] = 1e6
    low, high = np.empty(4), np.empty(4)
    kernels.percentile_rows(rows, *shares, low, high)
    expected = np.percentile(rows.astype(np.float64), 100 * np.array(shares), axis=1)
    assert np.stack([low, high]) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("period", PERIODS)
def test_folds(period: float) -> None:
    line = gappy(2)[1]
    sums, counts = np.empty(96), np.empty(96, np.int64)
    squares = kernels.fold(line, period, sums, counts)
    expected_sums, expected_counts = naive_folded(line, period, 96)
    assert np.array_equal(counts, expected_counts)
    assert counts.sum() == np.isfinite(line).sum()
    assert sums == pytest.approx(expected_sums, rel=1e-12)
    assert squares == pytest.approx(float((line[np.isfinite(line)].astype(np.float64) ** 2).sum()), rel=1e-12)
    profile = np.empty(96)
    kernels.profile_of(sums, counts, profile)
    assert profile == pytest.approx(naive_profile(sums, counts), rel=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_busy_windows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    profile = rng.random(24) + 0.4 * ((np.arange(24) - seed) % 24 < 3 + seed)
    assert tuple(kernels.busy_window(profile)) == naive_window(profile)


@pytest.mark.parametrize("period", PERIODS)
def test_joint_phases_and_sums(period: float) -> None:
    rows = np.concatenate([gappy(3, n=2), known_waves(1, 600, (period, period + 1e-9), 3.0, seed=4).values])
    phase, duty, sums = np.empty(3), np.empty(3), np.empty((3, 5))
    kernels.joint_rows(rows, np.full(3, period), 24, phase, duty, sums)
    again = np.empty((3, 5))
    kernels.sums_rows(rows, np.full(3, period), phase, duty, again)
    for row in range(3):
        start, width = naive_window(naive_profile(*naive_folded(rows[row], period, 24)))
        assert (phase[row], duty[row]) == pytest.approx((start * period / 24, width / 24))
        # a window begins a little later than its first bin, so that rounding leaves no step on the other side
        expected = naive_sums(rows[row], period, phase[row] - 1e-9, duty[row])
        assert sums[row] == pytest.approx(expected, rel=1e-9)
    assert again == pytest.approx(np.array([naive_sums(rows[row], period, phase[row], duty[row]) for row in range(3)]))


def test_rows_without_a_period_are_left_alone() -> None:
    rows = gappy(5, n=2)
    phase, duty, sums = np.full(2, 7.0), np.full(2, 7.0), np.full((2, 5), 7.0)
    kernels.joint_rows(rows, np.full(2, np.inf), 24, phase, duty, sums)
    kernels.sums_rows(rows, np.full(2, np.inf), phase, duty, sums)
    assert (phase == 7.0).all()
    assert (sums == 7.0).all()


@pytest.mark.parametrize("share", [0.5, 2.0])
@pytest.mark.parametrize("excluded", [np.nan, 30.0])
@pytest.mark.parametrize("earlier", [np.nan, 12.4])
@pytest.mark.parametrize("chance", [None, 1e-9])
def test_frequencies(share: float, excluded: float, earlier: float, chance: float | None) -> None:
    known = known_waves(24, 1440, (20.0, 300.0), snr=0.5, seed=6, duties=(0.05, 0.95)).values
    known[12:] = np.random.default_rng(7).random((12, 1440))
    low_pass = LowPass(4, 3600.0, 300)
    smoothed = low_pass.smooth(known)
    band = Band.of(1440, 12.0, 0.25)
    settings = PeriodicitySettings(subharmonic_share=share, keep_share=0.2)
    background = None if chance is None else Background.of(low_pass, band, 1440, chance)
    found = find_periods(smoothed, band, settings, background, np.full(24, excluded), np.full(24, earlier))
    reached, one_share = None, 1.0
    if background is not None:
        power = np.abs(np.fft.rfft(smoothed.detrended.astype(np.float64))[:, :band.last + 3]) ** 2
        for multiple in (1, 2, 3):
            power[:, np.abs(np.arange(band.last + 3) - multiple * excluded) < 1.5] = 0.0
        reached, one_share = background.reached(power), background.one_share
        assert 0 < found.is_by_chance.sum() < 24
    for row in range(24):
        turns, peak_power, near = naive_turns(smoothed.detrended[row], band.first, band.last, (share, 0.2), excluded,
                                              earlier, None if reached is None else reached[row], one_share)
        assert found.n_turns[row] == pytest.approx(turns, abs=1e-3)
        assert found.magnitude[row] == pytest.approx(min(100 * np.sqrt(peak_power) / 20_000, 1.0), rel=1e-4)
        strength = 2 * near / (1440 ** 2 * smoothed.detrended[row].astype(np.float64).var())
        assert found.strength[row] == pytest.approx(strength, rel=1e-4)


def test_an_empty_band_finds_nothing() -> None:
    smoothed = LowPass(4, 3600.0, 300).smooth(np.random.default_rng(0).random((2, 40)).astype(np.float32))
    assert np.isnan(find_periods(smoothed, Band.of(40, 12.0, 0.25), PeriodicitySettings()).n_turns).all()


def test_a_sinusoid_between_bins_is_found_to_a_hundredth() -> None:
    turns = 30.0 + np.arange(-0.5, 0.51, 0.1)
    rows = 0.5 + 0.1 * np.sin(2 * np.pi * turns[:, None] * np.arange(8640) / 8640 + 0.7)
    smoothed = LowPass(4, 3600.0, 300).smooth(rows.astype(np.float32))
    found = find_periods(smoothed, Band.of(8640, 12.0, 0.25), PeriodicitySettings(subharmonic_share=2.0))
    assert np.abs(found.n_turns - turns).max() < 0.01
    assert (found.strength > 0.85).all()  # half-way between two bins, 0.856
