"""What chance reaches: the background against its slow twin, false alarms of noise, and what must still be found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.special import gammaincc

from made_waves import known_waves, usage_grid
from naive_waves import naive_background
from sojourn.models.periodicity import LowPass, PeriodicitySettings, fit_waves
from sojourn.models.periodicity._background_kernels import background_rows, power_rows
from sojourn.models.periodicity.spectrum import Background, Band

HOURLY = LowPass(4, 3600.0, 300)


def noise(kind: str, n: int, n_steps: int, seed: int = 0) -> np.ndarray:
    """White, AR(1) of a coefficient, or a random walk, float32 (n, n_steps)."""
    steps = np.random.default_rng(seed).normal(size=(n, n_steps + 500))
    if kind == "white":
        return steps[:, 500:].astype(np.float32)
    if kind == "walk":
        return steps[:, 500:].cumsum(axis=1).astype(np.float32)
    return lfilter([1.0], [1.0, -float(kind)], steps, axis=1)[:, 500:].astype(np.float32)


@pytest.mark.parametrize("n_steps", [60, 288, 2016])
def test_backgrounds(n_steps: int) -> None:
    band = Band.of(n_steps, 12.0, 0.25)
    background = Background.of(HOURLY, band, n_steps, 0.01)
    spectra = np.random.default_rng(1).normal(size=(5, band.last + 3, 2)) @ [1.0, 1j]
    power, found = np.empty(spectra.shape), np.empty(spectra.shape)
    power_rows(spectra, np.array([np.nan, 4.2, np.nan, 5.0, np.nan]), power)
    power[4] = 0.0
    background_rows(power, background.gain, background.bounds, background.middles, background.shapes, found)
    for row in range(4):
        assert found[row] == pytest.approx(
            naive_background(power[row], background.gain, background.bounds.tolist(), background.shapes), rel=1e-6)
    assert np.isinf(found[4]).all()


def test_groups_cover_the_bins_from_the_first_to_the_end_of_the_band() -> None:
    for n_steps in (48, 60, 100, 288, 1000, 8640):
        band = Band.of(n_steps, 12.0, 0.25)
        bounds = Background.of(HOURLY, band, n_steps, 0.01).bounds
        assert (bounds[0], bounds[-1]) == (1, band.last + 1)
        assert (np.diff(bounds) >= min(5, band.last)).all()


def test_the_limit_is_that_of_three_bins_of_noise_anywhere_in_the_band() -> None:
    background = Background.of(HOURLY, Band(4, 103), 10_000, 0.02)
    # 100 bins share 2 %, so 0.0002 each; raised by 4 / 100
    assert gammaincc(3.0, background.limit / 1.04) == pytest.approx(0.0002)


def test_the_gain_is_what_both_passes_leave() -> None:
    assert HOURLY.power_gain(np.array([0.0, 1 / 12])) == pytest.approx([1.0, 0.25])


@pytest.mark.parametrize("n_days", [1, 7])
@pytest.mark.parametrize("kind", ["white", "0.9", "0.99", "walk"])
def test_noise_is_called_periodic_as_seldom_as_asked_for(kind: str, n_days: int) -> None:
    fits = fit_waves(usage_grid(noise(kind, 500, 288 * n_days, seed=2)))
    # of 500 at 1 % more than 10 come with probability 1.3 %
    assert fits.is_periodic.sum() <= 10
    without = fit_waves(usage_grid(noise(kind, 50, 288 * n_days, seed=2)), PeriodicitySettings(chance=1.0))
    assert n_days == 7 or without.is_periodic.mean() > 0.6


def test_chance_is_a_setting() -> None:
    grid = usage_grid(noise("white", 400, 2016, seed=3))
    shares = [fit_waves(grid, PeriodicitySettings(threshold=0.0, chance=chance)).is_periodic.mean()
              for chance in (0.001, 0.1, 0.3)]
    assert shares[0] <= 0.01 and 0.03 <= shares[1] <= 0.12 and 0.08 <= shares[2] <= 0.3


def test_a_day_is_found_beside_a_drift_that_is_stronger() -> None:
    rng = np.random.default_rng(4)
    walk = noise("walk", 20, 8640, seed=4)
    day = (np.arange(8640) + rng.integers(0, 288, (20, 1))) % 288 < 100
    grid = usage_grid(walk / walk.std(axis=1, keepdims=True) + 0.5 * day)
    asked = fit_waves(grid, PeriodicitySettings(threshold=0.01))
    assert (np.abs(asked.period_s - 86_400) < 1500).sum() >= 19
    as_in_the_paper = fit_waves(grid, PeriodicitySettings(threshold=0.01, chance=1.0))
    assert np.median(as_in_the_paper.period_s) > 2 * 86_400


@pytest.mark.parametrize("shape", ["step", "spike", "trend", "two spikes"])
def test_what_happens_once_or_twice_is_no_period(shape: str) -> None:
    at = np.arange(2016)
    values = {"step": at > 700, "spike": at == 700, "trend": at / 500, "two spikes": (at == 700) | (at == 1100)}[shape]
    values = values + np.random.default_rng(5).normal(0, 0.02, (50, 2016))
    assert fit_waves(usage_grid(values)).is_periodic.sum() <= 2


def test_the_strength_that_chance_reaches_stands_beside_the_strength() -> None:
    values = np.concatenate([known_waves(20, 2016, (36.0, 288.0), snr=0.3, seed=6).values,
                             noise("0.9", 20, 2016, seed=6)])
    fits = fit_waves(usage_grid(values), PeriodicitySettings(threshold=0.0))
    assert (fits.is_periodic == (fits.strength > fits.by_chance)).all()
    assert (fits.by_chance > 0.0).all() and fits.is_periodic[:20].sum() >= 19 and not fits.is_periodic[20:].any()
    assert (fit_waves(usage_grid(values), PeriodicitySettings(chance=1.0)).by_chance == 0.0).all()


def test_the_scale_of_usage_changes_nothing() -> None:
    values = known_waves(30, 576, (24.0, 140.0), snr=0.3, seed=7).values
    plain, scaled = fit_waves(usage_grid(values)), fit_waves(usage_grid(values * 0.0625))
    assert 0 < plain.is_periodic.sum() < 30
    assert plain.reason.tolist() == scaled.reason.tolist()
    assert scaled.by_chance == pytest.approx(plain.by_chance, rel=1e-5)
