"""Series sampled more coarsely than the shortest period: fitted at their own interval, beside finer ones."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from made_waves import usage_grid
from sojourn.features.usage import UsageGrid
from sojourn.models.periodicity import PeriodicitySettings, WaveFits, fit_waves
from sojourn.models.periodicity.wave_fitting import by_interval

DAY = 288


def held(values: np.ndarray, k: int) -> UsageGrid:
    """Samples that each fill k steps of 300 s."""
    grid = usage_grid(np.repeat(values, k, axis=1).astype(np.float32))
    return replace(grid, interval_s=np.full(len(grid), 300.0 * k))


@pytest.mark.parametrize("hours", [2, 6])
def test_white_noise_of_coarse_samples_has_no_period(hours: int) -> None:
    noise = np.random.default_rng(1).normal(0.4, 0.08, (200, 30 * 24 // hours))
    grid = held(noise, 12 * hours)
    assert fit_waves(grid).is_periodic.mean() <= 0.03
    if hours == 6:  # what the rule is for
        assert fit_waves(replace(grid, interval_s=None)).is_periodic.mean() > 0.2


def test_a_day_is_found_in_samples_of_two_hours() -> None:
    time_h = np.arange(0, 30 * 24, 2)
    noise = np.random.default_rng(2).normal(0.0, 0.05, (5, len(time_h)))
    fits = fit_waves(held(np.where((time_h - 8) % 24 < 10, 0.7, 0.2) + noise, 24))
    assert fits.is_periodic.all()
    assert fits.period_s == pytest.approx(np.full(5, 86_400.0), rel=0.02)
    assert fits.phase_s == pytest.approx(np.full(5, 8 * 3600.0), abs=2 * 3600)
    assert fits.duty == pytest.approx(np.full(5, 10 / 24), abs=1 / 12)


def test_mixed_intervals_fit_as_each_would_alone() -> None:
    rng = np.random.default_rng(3)
    fine = usage_grid((rng.normal(0.4, 0.1, (4, 8 * DAY))
                       + 0.3 * (np.arange(8 * DAY) % DAY < 100)).astype(np.float32))
    coarse = held(rng.normal(0.4, 0.1, (3, 8 * 12)) + 0.3 * (np.arange(96) % 12 < 5), 24)
    both = replace(fine, request_ids=np.arange(7), cpu=np.concatenate([fine.cpu, coarse.cpu]), cpu_cores=np.ones(7),
                   mem_gib=np.ones(7), interval_s=np.array([np.nan, 300.0, 300.0, 3600.0, 7200.0, 7200.0, 7200.0]))
    settings = PeriodicitySettings(n_periods=2)
    joined, parts = fit_waves(both, settings), (fit_waves(fine, settings), fit_waves(coarse, settings))
    for found, first, other in ((joined, *parts), (joined.second, *(part.second for part in parts))):
        for field in fields(WaveFits):
            if field.name not in ("request_ids", "second"):
                alone = np.concatenate([getattr(first, field.name), getattr(other, field.name)])
                assert getattr(found, field.name).tobytes() == alone.tobytes(), field.name
    assert joined.request_ids.tolist() == list(range(7))


def test_intervals_longer_than_the_longest_period_and_than_the_grid() -> None:
    noise = np.random.default_rng(4).normal(0.4, 0.1, (2, 20))
    grid = held(noise, 144)
    fits = fit_waves(grid, PeriodicitySettings(longest_period_s=90_000.0))
    assert not fits.is_periodic.any()
    long = replace(grid, interval_s=np.full(2, 1e9))
    assert [part.step_s for _, part in by_interval(long, 3600.0)] == [300]
    assert len(fit_waves(replace(grid, request_ids=np.arange(0), cpu=grid.cpu[:0], cpu_cores=np.ones(0),
                                 mem_gib=np.ones(0), interval_s=np.ones(0)))) == 0
