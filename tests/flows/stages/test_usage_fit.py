"""Fitting and judging usage: what a section is made of, gates, and no look at the days that are judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from made_days import made_grid
from sojourn.features.usage import UsageGrid
from sojourn.flows.stages.usage_fit import GATED_HOURS, HOURS, fit_usage, judge_usage, usage_gates
from sojourn.serving.usage import DayClock, load_usage, usage_files


def test_a_section_is_made_and_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    grid = made_grid(n_days=6)
    cpu = grid.cpu.copy()
    cpu[5, -20:] = np.nan  # ended before the trace did
    fitted = fit_usage(replace(grid, cpu=cpu), 3, 0)
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
        fit_usage(replace(made_grid(), cpu=np.full((24, 96), np.nan, np.float32), mem=None), 3, 0)


def test_the_classes_pass_on_workers_by_day_and_night() -> None:
    scores = judge_usage(made_grid(n=60, n_days=9), 3, 0)
    assert [gate.is_passed for gate in usage_gates(scores)] == [True] * len(GATED_HOURS)
    assert scores["class.6h.under_served.combined"] < 0.5 * scores["class.6h.under_served.own"]
    assert scores["wave.next_day.nrmse.wave"] < scores["wave.next_day.nrmse.mean"]


def test_what_follows_the_judged_days_changes_nothing_of_the_prediction() -> None:
    grid = made_grid(n=20, n_days=7)
    cpu = grid.cpu.copy()
    cpu[:, -4:] = 0.0  # the last hour of the last day, which no prediction may have read
    scores, other = (judge_usage(each, 3, 0) for each in (grid, replace(grid, cpu=cpu)))
    name = "class.24h.over_reserved.reservation"
    assert scores[name] < other[name]  # it is judged
    same = "wave.share_periodic"  # of fits that end a day before
    assert scores[same] == other[same]


@pytest.mark.parametrize("kind", ["uniform", "normal", "exponential", "level", "constants", "one constant"])
def test_the_gates_fail_on_noise_and_on_constants(kind: str) -> None:
    rng = np.random.default_rng(1)
    shape = (100, 9 * 96)
    level = rng.uniform(0.05, 0.6, (100, 1))
    kinds: dict[str, Callable[[], np.ndarray]] = {
        "uniform": lambda: rng.uniform(0, 1, shape), "normal": lambda: rng.normal(0.3, 0.1, shape),
        "exponential": lambda: np.minimum(rng.exponential(0.1, shape), 1.0),
        "level": lambda: level + rng.normal(0, 0.05, shape),
        "constants": lambda: np.repeat(level, shape[1], axis=1),
        "one constant": lambda: np.full(shape, 0.3)}  # fmt: skip
    cpu = kinds[kind]()
    grid = UsageGrid(np.arange(100), np.clip(cpu, 0, None).astype(np.float32), None, np.ones(100), np.ones(100), 0,
                     900, DayClock())
    passed = {gate.name: gate.is_passed for gate in usage_gates(judge_usage(grid, 5, 0))}
    assert not passed["under-served after 3 h"] and not passed["under-served after 6 h"]


def test_gates_refuse_what_is_worse_equal_or_not_judged() -> None:
    names = {f"class.{hours}h.under_served.{method}": 0.1 for hours in HOURS for method in ("combined", "margin")}
    names |= {f"class.{hours}h.worst_ratio_to_margin": 0.96 for hours in HOURS}
    passed = {gate.name: gate.is_passed for gate in usage_gates(names)}
    assert passed == {"under-served after 3 h": False, "under-served after 6 h": False, "under-served after 12 h": True}
    assert usage_gates({**names, "class.3h.worst_ratio_to_margin": 0.95})[0].is_passed
    assert not any(gate.is_passed for gate in usage_gates({**names, "class.12h.under_served.combined": 0.2})[:3])
    assert all("not judged" in gate.found and not gate.is_passed for gate in usage_gates({}))
    assert judge_usage(made_grid(n_days=2), 3, 0) == {}
