"""Cases of placement by usage: gaps, days, made pulses, and that no model of the history reads the judged day."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sojourn.features.usage import UsageGrid
from sojourn.serving.usage import DayClock
from studies.usage_cases import N_SLOTS, USAGE_MODELS, PulseRecipe, UsageCase, day_cases, pooled, pulse_case

OF_DAY = {"peak-of-day", "wave-of-day", "true-peak", "true-wave"}


def _grid(cpu: np.ndarray, start_s: int = 0, step_s: int = 300) -> UsageGrid:
    n = len(cpu)
    return UsageGrid(np.arange(n), cpu.astype(np.float32), None, np.ones(n), np.ones(n), start_s, step_s, DayClock())


def _real(seed: int = 0, n: int = 6, n_days: int = 15) -> np.ndarray:
    return np.random.default_rng(seed).random((n, n_days * N_SLOTS)).astype(np.float32)


def test_days_begin_at_local_midnight_and_need_their_history() -> None:
    values = np.arange(17 * N_SLOTS, dtype=np.float32)[None, :]
    found = day_cases(_grid(values, start_s=86_400 - 600), "made")  # two slots before midnight
    assert [case.name for case in found] == ["made, day 14", "made, day 15"]
    assert found[0].day[0, 0] == 2 + 14 * N_SLOTS
    assert found[0].history is not None and found[0].history[0, 0, 0] == 2
    assert len(day_cases(_grid(values), "made", history_days=0)) == 17
    assert day_cases(_grid(values[:, :14 * N_SLOTS]), "made") == []


def test_gaps_hold_the_value_before_and_a_series_with_many_is_left_out() -> None:
    cpu = _real(n=3)
    cpu[0, 14 * N_SLOTS + 5:14 * N_SLOTS + 7] = np.nan
    cpu[1, :100] = np.nan  # not yet there: uses nothing
    cpu[2, 14 * N_SLOTS:14 * N_SLOTS + 60] = np.nan  # 21 % of the judged day
    (case,) = day_cases(_grid(cpu), "made")
    assert len(case) == 2 and case.history is not None
    assert case.day[0, 4:7].tolist() == [cpu[0, 14 * N_SLOTS + 4]] * 3
    assert case.history[1, 0, :100].tolist() == [0.0] * 100
    with pytest.raises(ValueError, match="step_s of the grid must be 300"):
        day_cases(_grid(cpu, step_s=600), "made")


def test_no_model_of_the_history_reads_the_judged_day() -> None:
    """Another future changes no answer; a model that is fitted to the day must change, or this would prove nothing."""
    (case,) = day_cases(_grid(_real()), "made")
    waves = _real(3, 6, 1)
    case = replace(case, waves=waves)
    other = replace(case, day=case.day[::-1].copy(), waves=waves[::-1].copy())
    for name, model in USAGE_MODELS.items():
        is_same = np.array_equal(model(case), model(other))
        assert is_same is (name not in OF_DAY), name


def test_models_have_their_shapes_and_values() -> None:
    (case,) = day_cases(_grid(_real()), "made")
    assert case.history is not None
    shapes = {name: model(case).shape[1] for name, model in USAGE_MODELS.items() if not name.startswith("true")}
    assert shapes == {"peak": 1, "peak-of-day": 1, "wave": N_SLOTS, "wave-of-day": N_SLOTS, "last-day": N_SLOTS,
                      "mean-7": N_SLOTS, "max-7": N_SLOTS, "past-3": 3 * N_SLOTS, "past-7": 7 * N_SLOTS,
                      "past-14": 14 * N_SLOTS}
    assert USAGE_MODELS["max-7"](case)[2, 9] == case.history[2, 7:, 9].max()
    assert USAGE_MODELS["past-3"](case)[1, N_SLOTS] == case.history[1, 12, 0]


def test_the_wave_of_a_clean_history_is_right_on_the_next_day() -> None:
    made = pulse_case(30, 4, PulseRecipe(periods=(144, 288), duty=(0.2, 0.5)))
    history = np.repeat(made.day[:, None, :], 14, axis=1)
    wave = USAGE_MODELS["wave"](replace(made, history=history))
    assert made.waves is not None
    assert float(np.abs(wave - made.waves).mean()) < 0.1 * float(made.waves.mean())


def test_models_without_what_they_read_are_refused() -> None:
    case = UsageCase("bare", _real(n_days=1))
    for name in ("peak", "past-7", "wave"):
        with pytest.raises(ValueError, match="history must be given"):
            USAGE_MODELS[name](case)
    with pytest.raises(ValueError, match="waves must be given"):
        USAGE_MODELS["true-wave"](case)
    with pytest.raises(ValueError, match="cases must be at least one"):
        pooled([], "none")


def test_pooled_days_keep_their_histories() -> None:
    cases = day_cases(_grid(_real(n_days=16)), "made")
    both = pooled(cases, "both")
    assert len(both) == 12 and both.history is not None
    assert cases[1].history is not None and np.array_equal(both.history[6:], cases[1].history)
