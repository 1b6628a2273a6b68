"""Needs by interval: causal, not before the observation, never below the own maximum."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from made_days import made_grid
from made_usage import made_section
from sojourn.serving import UsagePredictor
from studies.mixes import RULES, usage_needs


def test_nothing_of_an_interval_or_later_is_used() -> None:
    grid = made_grid(n_days=3)
    now = 2 * 96 + 50
    cpu = grid.cpu.copy()
    cpu[:, now:] = 5.0
    for rule in RULES:
        one, other = (usage_needs(each, n_classes=3, rule=rule) for each in (grid, replace(grid, cpu=cpu)))
        np.testing.assert_array_equal(one.cpu[:, :now + 1], other.cpu[:, :now + 1])
        np.testing.assert_array_equal(one.class_ids[:, :now + 1], other.class_ids[:, :now + 1])


def test_a_service_has_a_need_from_its_observation_on() -> None:
    grid = made_grid(n_days=3)
    cpu = grid.cpu.copy()
    cpu[0, :100] = np.nan  # begins at column 100
    needs = usage_needs(replace(grid, cpu=cpu), n_classes=3, observed_s=6 * 3600, ahead_s=86_400)
    assert np.isnan(needs.cpu[0, :124]).all() and not np.isnan(needs.cpu[0, 124:]).any()
    assert np.isnan(needs.cpu[1:, :96]).all()  # no classes on the first day
    assert not np.isnan(needs.cpu[1:, 96:]).any()
    assert (needs.class_ids[0, :124] == -1).all() and needs.class_ids[0, 200] == needs.class_ids[3, 200]
    own = np.fmax.accumulate(cpu, axis=1)[:, :-1]
    assert (needs.cpu[1:, 97:] >= own[1:, 96:]).all()
    assert needs.mem is not None and needs.mem.shape == needs.cpu.shape


def test_time_is_counted_as_for_a_served_request(tmp_path: Path) -> None:
    grid = made_grid(n_days=3)
    cpu = grid.cpu.copy()
    cpu[0, :100] = np.nan
    cpu[0, 101:130] = np.nan  # one sample, and others from 7 hours later on
    cpu[1, :] = np.where(np.arange(cpu.shape[1]) % 4 == 3, cpu[1], np.nan)  # once an hour
    needs = usage_needs(replace(grid, cpu=cpu), n_classes=3, observed_s=10_800)
    predictor = UsagePredictor.load(made_section(tmp_path / "section"))
    for row in (0, 1):
        for column, time_s in enumerate(grid.time_s().tolist()):
            is_identified = predictor.usage(str(row)).class_id is not None
            assert np.isnan(needs.cpu[row, column]) == (not is_identified or column < 96)
            if not np.isnan(cpu[row, column]):
                predictor.observe(str(row), time_s, float(cpu[row, column]))
    assert np.isnan(needs.cpu[0, :133]).all() and not np.isnan(needs.cpu[0, 133:]).any()


def test_the_rule_own_is_the_maximum_so_far() -> None:
    grid = made_grid(n=3, n_days=2)
    needs = usage_needs(grid, rule="own", observed_s=10_800)
    assert np.isnan(needs.cpu[:, :12]).all()
    np.testing.assert_array_equal(needs.cpu[:, 12:], np.maximum.accumulate(grid.cpu, axis=1)[:, 11:-1])


def test_a_grid_that_begins_in_the_day_starts_at_its_midnight() -> None:
    needs = usage_needs(replace(made_grid(n_days=2), start_s=7200), n_classes=3)
    assert (needs.start_s, needs.interval_s, needs.cpu.shape[1]) == (0, 900, 3 * 96)


@pytest.mark.parametrize(("setting", "rule"), [({"rule": "mean"}, "rule must be one of"),
                                               ({"observed_s": 60}, "observed_s must be at least 10800"),
                                               ({"ahead_s": 1}, "ahead_s must be from 900 to 86400")])
def test_settings_are_checked(setting: dict[str, object], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        usage_needs(made_grid(n=3, n_days=1), **setting)  # type: ignore[arg-type]
