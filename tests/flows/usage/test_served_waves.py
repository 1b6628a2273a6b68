"""Served waves: confirmed by the last day, of two levels, and judged on a day that they have not seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from made_days import made_grid
from sojourn.features.usage import UsageGrid
from sojourn.flows.usage.train_usage import judge_waves, served_waves

N_DAY = 96


def with_last_days(grid: UsageGrid, n_days: int, value: float) -> UsageGrid:
    cpu = grid.cpu.copy()
    cpu[:, -n_days * N_DAY:] = value
    return replace(grid, cpu=cpu)


def test_a_period_that_the_last_day_breaks_is_not_served() -> None:
    grid = made_grid(n=6, n_days=8)
    assert served_waves(grid).is_confirmed.tolist() == [True, True, False] * 2
    broken = served_waves(with_last_days(grid, 1, 0.3))  # flat, near the mean
    assert not broken.is_confirmed[0] and np.isinf(broken.rows[0, [2, 12]]).all()
    assert broken.rows[0, 0] == pytest.approx(float(np.mean(with_last_days(grid, 1, 0.3).cpu[0])), rel=1e-6)
    assert broken.rows[0, 10] > broken.rows[0, 0]  # the upper level stays


def test_a_grid_of_one_day_has_no_confirmed_wave() -> None:
    assert not served_waves(made_grid(n=6, n_days=1)).is_confirmed.any()
    assert judge_waves(made_grid(n=6, n_days=2)) == {}


def test_the_judged_day_neither_fits_nor_confirms() -> None:
    grid = made_grid(n=12, n_days=9)
    scores, other = judge_waves(grid), judge_waves(with_last_days(grid, 1, 0.9))
    assert scores["wave.share_confirmed"] == other["wave.share_confirmed"] == pytest.approx(2 / 3)
    assert scores["wave.next_day.ratio"] < 0.5 < other["wave.next_day.ratio"]  # the day is judged
    assert {"wave.next_day.nrmse.wave", "wave.next_day.nrmse.mean", "wave.next_day.nrmse.week_before"} < set(scores)


def test_requests_without_samples_or_that_ended_are_left_out() -> None:
    grid = made_grid(n=6, n_days=6)
    cpu = grid.cpu.copy()
    cpu[0], cpu[1, -10:] = np.nan, np.nan
    assert served_waves(replace(grid, cpu=cpu)).request_ids == ["2", "3", "4", "5"]
    assert len(served_waves(replace(grid, cpu=np.full_like(cpu, np.nan))).rows) == 0
