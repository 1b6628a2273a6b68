"""Fitting and judging usage: what a section is made of, gates, and no look at the days that are judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from made_days import made_grid
from made_usage import made_classes
from sojourn.features.usage import UsageGrid
from sojourn.flows.usage.train_usage import (
    GATED_HOURS,
    HOURS,
    SurplusRules,
    choose_rules,
    fit_usage,
    judge_usage,
    served_waves,
    usage_gates,
)
from sojourn.publishing import publish_files
from sojourn.serving import UsagePredictor
from sojourn.serving.usage import BY_HOURS, CLASSES, DayClock, load_usage, usage_files

ALL_CLASSES: SurplusRules = dict.fromkeys(("cpu", "mem"), (CLASSES,) * 3)


def test_a_section_is_made_and_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    grid = made_grid(n_days=6)
    cpu = grid.cpu.copy()
    cpu[5, -20:] = np.nan  # ended before the trace did
    fitted = fit_usage(replace(grid, cpu=cpu), ALL_CLASSES, 3, 0)
    assert sorted(fitted.classes) == ["cpu", "mem"]
    assert "5" not in fitted.waves.request_ids and len(fitted.waves.request_ids) == 23
    folder = tmp_path_factory.mktemp("section")
    files = usage_files(grid.clock, 10_800, fitted.classes, fitted.waves.request_ids, fitted.waves.rows, {})
    for name, content in files.items():
        (folder / name).write_bytes(content)
    section = load_usage(folder)
    waves = section.waves_of("0")
    assert waves is not None and all(wave.is_periodic for wave in waves)
    mean, upper = (wave.waves[0] for wave in waves)
    assert mean.period_s == upper.period_s == pytest.approx(86_400, rel=0.02)
    assert (mean.peak, mean.trough) == pytest.approx((0.725, 0.125), abs=0.02)
    assert mean.peak < upper.peak and upper.trough < mean.trough
    flat = section.waves_of("2")
    assert flat is not None and not any(wave.is_periodic for wave in flat)
    assert flat[0].at(np.array([0.0]))[0] == pytest.approx(0.325, abs=0.01)


def test_a_grid_without_a_whole_day_is_refused() -> None:
    with pytest.raises(ValueError, match="the series must hold a request whose day was seen"):
        fit_usage(replace(made_grid(), cpu=np.full((24, 96), np.nan, np.float32), mem=None), ALL_CLASSES, 3, 0)


@pytest.mark.slow
def test_the_classes_pass_on_workers_by_day_and_night() -> None:
    grid = made_grid(n=60, n_days=9)
    rules = choose_rules(grid, 3, 0)
    assert rules == ALL_CLASSES
    scores = judge_usage(grid, rules, 3, 0)
    assert [gate.is_passed for gate in usage_gates(scores)] == [True] * len(GATED_HOURS)
    assert scores["class.6h.under_served.combined"] < 0.5 * scores["class.6h.under_served.own"]
    assert scores["wave.next_day.nrmse.wave"] < scores["wave.next_day.nrmse.mean"]


def test_what_follows_the_judged_days_changes_nothing_of_the_prediction() -> None:
    grid = made_grid(n=20, n_days=7)
    cpu = grid.cpu.copy()
    cpu[:, -4:] = 0.0  # the last hour of the last day, which no prediction may have read
    scores, other = (judge_usage(each, ALL_CLASSES, 3, 0) for each in (grid, replace(grid, cpu=cpu)))
    name = "class.24h.over_reserved.reservation"
    assert scores[name] < other[name]  # it is judged
    same = "wave.share_periodic"  # of fits that end a day before
    assert scores[same] == other[same]


def test_where_classes_say_nothing_the_class_free_surplus_is_served() -> None:
    """One shape of day for all, and noise: classes split the noise, and have fewer windows each."""
    rng = np.random.default_rng(3)
    day = np.where((np.arange(9 * 96) % 96 >= 36) & (np.arange(9 * 96) % 96 < 72), 0.6, 0.1)
    grid = _grid(day + rng.exponential(0.05, (60, 9 * 96)))
    rules = choose_rules(grid, 5, 0)
    assert rules == {"cpu": (BY_HOURS,) * 3}
    surplus = fit_usage(grid, rules, 5, 0).classes["cpu"].surplus
    assert (surplus == surplus[0]).all() and len(surplus) == 5
    with_classes = fit_usage(grid, {"cpu": (BY_HOURS, CLASSES, BY_HOURS)}, 5, 0).classes["cpu"].surplus
    lengths, of_classes = (each.reshape(5, 3, -1) for each in (surplus, with_classes))
    assert (of_classes[:, ::2] == lengths[:, ::2]).all() and (of_classes[:, 1] != lengths[:, 1]).any()


@pytest.mark.slow
def test_the_days_that_are_judged_choose_nothing() -> None:
    """Classes that would win or lose on the last two days alone change no rule; days before them do."""
    grid = made_grid(n=60, n_days=9)
    noise = np.random.default_rng(0).exponential(0.1, grid.cpu.shape).astype(np.float32)
    last, first = grid.cpu.copy(), noise.copy()
    last[:, -2 * 96:] = noise[:, -2 * 96:]
    first[:, -2 * 96:] = grid.cpu[:, -2 * 96:]
    assert choose_rules(replace(grid, cpu=last), 3, 0) == ALL_CLASSES
    assert choose_rules(replace(grid, cpu=first), 3, 0)["cpu"] == (BY_HOURS,) * 3
    assert choose_rules(made_grid(n_days=5), 3, 0)["cpu"] == (BY_HOURS,) * 3  # three days tell nothing


def _grid(cpu: np.ndarray) -> UsageGrid:
    n = len(cpu)
    return UsageGrid(np.arange(n), np.clip(cpu, 0, None).astype(np.float32), None, np.ones(n), np.ones(n), 0, 900,
                     DayClock())


@pytest.mark.parametrize("kind", ["uniform", "walk", "constants"])
@pytest.mark.slow
def test_no_noise_passes_the_gates(kind: str) -> None:
    """8 draws each; all classes, which are what may win by chance."""
    shape = (60, 9 * 96)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        level = rng.uniform(0.05, 0.6, (60, 1))
        cpu = {"uniform": rng.uniform(0, 1, shape), "constants": np.repeat(level, shape[1], axis=1),
               "walk": np.clip(0.3 + np.cumsum(rng.normal(0, 0.01, shape), axis=1), 0, 1)}[kind]  # fmt: skip
        grid = _grid(cpu)
        for rules in (ALL_CLASSES, choose_rules(grid, 5, 0)):
            assert not all(gate.is_passed for gate in usage_gates(judge_usage(grid, rules, 5, 0)))


@pytest.mark.parametrize("kind", ["uniform", "normal", "exponential", "level", "constants", "one constant"])
def test_the_gates_fail_on_noise_and_on_constants(kind: str) -> None:
    rng = np.random.default_rng(1)
    shape = (40, 9 * 96)
    level = rng.uniform(0.05, 0.6, (40, 1))
    kinds: dict[str, Callable[[], np.ndarray]] = {
        "uniform": lambda: rng.uniform(0, 1, shape), "normal": lambda: rng.normal(0.3, 0.1, shape),
        "exponential": lambda: np.minimum(rng.exponential(0.1, shape), 1.0),
        "level": lambda: level + rng.normal(0, 0.05, shape),
        "constants": lambda: np.repeat(level, shape[1], axis=1),
        "one constant": lambda: np.full(shape, 0.3)}  # fmt: skip
    passed = {gate.name: gate.is_passed for gate in usage_gates(judge_usage(_grid(kinds[kind]()), ALL_CLASSES, 5, 0))}
    assert not passed["under-served after 3 h"] and not passed["under-served after 6 h"]


def test_gates_refuse_what_is_worse_equal_or_not_judged() -> None:
    names = {f"class.{hours}h.under_served.{method}": 0.1 for hours in HOURS for method in ("combined", "margin")}
    names |= {f"class.{hours}h.worst_ratio_to_margin": 0.96 for hours in HOURS}
    passed = {gate.name: gate.is_passed for gate in usage_gates(names)}
    assert passed == {"under-served after 3 h": False, "under-served after 6 h": False, "under-served after 12 h": True}
    win = {"class.3h.worst_ratio_to_margin": 0.95, "class.3h.under_served.combined": 0.09}
    assert usage_gates({**names, **win})[0].is_passed
    assert not usage_gates({**names, **win, "class.3h.under_served.combined": 0.096})[0].is_passed  # 0.4 points
    assert not any(gate.is_passed for gate in usage_gates({**names, "class.12h.under_served.combined": 0.2})[:3])
    assert all("not judged" in gate.finding and not gate.is_passed for gate in usage_gates({}))
    assert judge_usage(made_grid(n_days=2), ALL_CLASSES, 3, 0) == {}


@pytest.mark.parametrize("begin", ["2024-03-22", "2024-10-18"])
def test_a_daily_peak_stays_at_its_local_hour_over_a_change_of_the_clock(begin: str, tmp_path: Path) -> None:
    """Busy from 9:00 to 17:00 in Zurich, two weeks with a change within; on UTC the period is 7 minutes off a day."""
    zurich = DayClock(0, "Europe/Zurich")
    start_s = int(datetime.fromisoformat(begin).replace(tzinfo=ZoneInfo("Europe/Zurich")).timestamp())
    time_s = start_s + 300 * np.arange(28 * 288)
    is_busy = (zurich.local_s(time_s) % 86_400 >= 32_400) & (zurich.local_s(time_s) % 86_400 < 61_200)
    cpu = np.where(is_busy, 0.7, 0.1) + np.random.default_rng(0).normal(0, 0.02, (2, len(time_s)))
    known = cpu[:, :14 * 288].astype(np.float32)
    missed = {}
    for clock in (zurich, DayClock()):
        waves = served_waves(UsageGrid(np.arange(2), known, None, np.ones(2), np.ones(2), start_s, 300, clock))
        assert waves.is_confirmed.all()
        classes = {"cpu": made_classes()}
        publish_files(tmp_path / clock.timezone, usage_files(clock, 10_800, classes, waves.request_ids, waves.rows, {}),
                      "MANIFEST.json")
        answer = UsagePredictor.load(tmp_path / clock.timezone).usage("0")
        found = np.array([answer.at(float(each)) > 0.4 for each in time_s[14 * 288:] + 150])
        missed[clock.timezone] = (is_busy[14 * 288:] & ~found).sum() / is_busy[14 * 288:].sum()
        assert (abs(waves.rows[0, 2] - 86_400) < 30) == (clock == zurich)
        if clock == zurich:  # the day after the window begins at local midnight
            midnight_s = int(time_s[14 * 288]) - int(zurich.local_s(time_s[14 * 288:14 * 288 + 1])[0]) % 86_400 + 86_400
            begin_s, end_s = answer.next_busy(midnight_s)
            assert (begin_s - midnight_s, end_s - midnight_s) == pytest.approx((32_400, 61_200), abs=600)
            assert answer.peak(midnight_s, midnight_s + 28_000) < 0.3 < answer.peak(midnight_s, midnight_s + 40_000)
    assert missed["Europe/Zurich"] < 0.015 and missed["UTC"] > 0.05
