"""Refits: the same as a fit of the window, but for a period that is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from made_waves import known_waves, usage_grid
from sojourn.features.usage import UsageGrid
from sojourn.models.periodicity import PeriodicitySettings, fit_waves, refit_waves

DAY = 288
DAY_S = 86_400


def part(values: np.ndarray, first_day: int, last_day: int, first_id: int = 0) -> UsageGrid:
    return usage_grid(values[:, first_day * DAY:last_day * DAY], start_s=first_day * DAY_S, first_id=first_id)


def test_a_refit_is_a_fit_of_the_moved_window() -> None:
    values = known_waves(5, 12 * DAY, (36.0, 288.0), snr=3.0, seed=1).values
    grid = part(values, 0, 8)
    window, fits = refit_waves(fit_waves(grid), grid, part(values, 8, 12), longest_s=10 * DAY_S)
    assert (window.start_s, window.cpu.shape) == (2 * DAY_S, (5, 10 * DAY))
    anew = fit_waves(part(values, 2, 12))
    for name in ("period_s", "phase_s", "duty", "peak", "trough", "nrmse"):
        assert getattr(fits, name).tobytes() == getattr(anew, name).tobytes()


def test_a_period_is_kept_while_it_is_strong_enough() -> None:
    steps = np.arange(12 * DAY)
    noise = np.random.default_rng(2).normal(0, 0.01, len(steps))
    old, new = np.sin(2 * np.pi * steps / 288), np.sin(2 * np.pi * steps * 22 / 1152)
    before = 0.5 + 0.1 * old + noise
    after = 0.5 + 0.1 * old + 0.11 * new + noise  # the new one has 1.21 times the power
    grid = part(before[None, :], 0, 8)
    fits = fit_waves(grid)
    changed = part(after[None, :], 8, 12)
    assert refit_waves(fits, grid, changed, longest_s=4 * DAY_S)[1].period_s[0] == pytest.approx(DAY_S, rel=0.03)
    bold = PeriodicitySettings(keep_share=0.9)
    _, anew = refit_waves(fits, grid, changed, bold, longest_s=4 * DAY_S)
    assert anew.period_s[0] == pytest.approx(1152 * 300 / 22, rel=0.03)


def test_requests_come_and_go() -> None:
    values = known_waves(6, 12 * DAY, (36.0, 144.0), snr=3.0, seed=3).values
    grid = part(values[:4], 0, 8)
    newer = part(values[2:], 8, 12, first_id=2)
    window, fits = refit_waves(fit_waves(grid), grid, newer, longest_s=4 * DAY_S)
    assert window.request_ids.tolist() == [2, 3, 4, 5]  # 0 and 1 have no sample left
    both, fits = refit_waves(fit_waves(grid), grid, newer)
    assert both.request_ids.tolist() == [0, 1, 2, 3, 4, 5]
    assert np.isnan(both.cpu[4:, :8 * DAY]).all()
    assert np.array_equal(both.cpu[2:4], values[2:4])
    assert fits.is_periodic.all()


def test_a_grid_that_does_not_follow_is_refused() -> None:
    values = known_waves(2, 4 * DAY, (36.0, 72.0), snr=3.0, seed=4).values
    grid = part(values, 0, 2)
    fits = fit_waves(grid)
    with pytest.raises(ValueError, match=r"newer must .*, got 259200"):
        refit_waves(fits, grid, part(values, 3, 4))
    with pytest.raises(ValueError, match="newer must have the step, the clock and the resources of grid"):
        refit_waves(fits, grid, replace(part(values, 2, 4), step_s=600))
