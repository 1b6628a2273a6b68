"""Answers against a brute force of their definition: every clock, odd starts, and days when the clock changes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from made_usage import FLAT, made_section
from sojourn.serving import UsageAnswer, UsagePredictor
from sojourn.serving.usage import DayClock

HOUR_S, DAY_S = 3_600, 86_400
SPRING_S, AUTUMN_S = 1_364_684_400, 1_382_824_800  # 00:00 in Berlin, the days of the two changes (UTC + 1 and + 2)
STEP_S = 300


def _observed(folder: Path, clock: DayClock, days: int = 3) -> UsagePredictor:
    """A request whose use differs in every slot of the local day, seen for some days up to second 0."""
    predictor = UsagePredictor.load(made_section(folder, clock=clock))
    times = np.arange(-days * DAY_S, 0, STEP_S)
    for time_s, slot in zip(times.tolist(), clock.slot(times, 96).tolist(), strict=True):
        predictor.observe("a", time_s, (1 + slot * 37 % 96) / 100)
    for time_s in range(-4 * HOUR_S, 0, STEP_S):
        predictor.observe("class", time_s, 0.1)
        predictor.observe("vm-2", time_s, 0.95)
    return predictor


def _brute_busy(answer: UsageAnswer, from_s: float) -> tuple[float, float]:
    """The next busy interval, found by asking every minute for four days."""
    day = [answer.at(minute * 60.0) for minute in range(-2_880, 0)]
    middle = (min(day) + max(day)) / 2
    if max(day) - min(day) <= max(day) / 10:
        return from_s, math.inf
    minutes = [from_s, *range(math.floor(from_s / 60) * 60 + 60, math.floor(from_s) + 4 * DAY_S, 60)]
    is_busy = [answer.at(minute) > middle for minute in minutes]
    begin = is_busy.index(True)
    return float(minutes[begin]), float(minutes[is_busy.index(False, begin)])


@pytest.mark.parametrize(("start_unix_s", "timezone"), [
    (0, "UTC"), (420, "UTC"), (SPRING_S - 10 * HOUR_S, "Europe/Berlin"), (AUTUMN_S + 480, "Europe/Berlin"),
    (SPRING_S + 60, "Asia/Kathmandu"),
])  # fmt: skip
def test_peaks_and_busy_intervals_are_those_of_all_times(tmp_path: Path, start_unix_s: int, timezone: str) -> None:
    predictor = _observed(tmp_path / "section", DayClock(start_unix_s, timezone))
    wave, own, newcomer = (predictor.usage(name) for name in ("vm-2", "a", "class"))
    assert (wave.basis, own.basis, newcomer.basis) == ("wave", "observed", "class")
    for from_s in (0.0, 59.5, 5_000.0, 40_000.0, 90_000.0):
        for length_s in (1.0, 600.0, 5_000.0, 80_000.0, DAY_S, 2.5 * DAY_S):
            times = np.append(np.arange(from_s, from_s + length_s, 97.0), from_s + length_s - 1e-3)
            for answer in (wave, own, newcomer):
                assert answer.peak(from_s, from_s + length_s) >= max(map(answer.at, times.tolist()))
    for from_s in (0.0, 60.0, 5_040.0, 39_960.0, 90_000.0):
        assert own.next_busy(from_s) == _brute_busy(own, from_s)
        assert newcomer.next_busy(from_s) == _brute_busy(newcomer, from_s)


@pytest.mark.parametrize("start_unix_s", [SPRING_S, AUTUMN_S])
def test_a_long_interval_has_every_slot_though_the_clock_changes(tmp_path: Path, start_unix_s: int) -> None:
    clock = DayClock(start_unix_s, "Europe/Berlin")
    predictor = UsagePredictor.load(made_section(tmp_path / "section", clock=clock))
    for hour in (2, 11):  # 2:00 is left out in spring; 11:00 comes after 24 hours from noon of the day before in autumn
        time_s = (10 * 24 + hour - (start_unix_s == SPRING_S)) * HOUR_S + (start_unix_s == AUTUMN_S) * HOUR_S
        predictor.observe("vm-1", time_s, 3.0)
        assert clock.slot(np.array([time_s]), 24).tolist() == [hour]
        assert predictor.usage("vm-1").peak(-12 * HOUR_S, 3 * DAY_S) == 3.0
        predictor.ended("vm-1")


@pytest.mark.parametrize(("every_s", "class_after_s"), [(60, 10_740), (300, 10_500), (1_800, 10_800), (3_600, 10_800)])
def test_a_newcomer_gets_its_class_however_often_it_is_sampled(tmp_path: Path, every_s: int,
                                                               class_after_s: int) -> None:
    predictor = UsagePredictor.load(made_section(tmp_path / "section"))
    bases: dict[str, int] = {}
    for time_s in range(0, 2 * DAY_S, every_s):
        predictor.observe("a", time_s, 0.5)
        bases.setdefault(predictor.usage("a").basis, time_s)
    assert abs(bases["class"] - class_after_s) < 900
    assert abs(bases["observed"] - DAY_S) <= 900
    assert predictor.usage("a").class_id == FLAT


def test_two_samples_far_apart_are_no_observation(tmp_path: Path) -> None:
    predictor = UsagePredictor.load(made_section(tmp_path / "section"))
    for time_s in (0, 10**12):
        predictor.observe("a", time_s, 0.5)
    assert predictor.usage("a").basis == "reservation"
    assert predictor.usage("a").reason == "observed for 7200 s of 10800 s"


def test_sixty_days_are_answered_like_one(tmp_path: Path) -> None:
    predictor = UsagePredictor.load(made_section(tmp_path / "section", clock=DayClock(SPRING_S, "Europe/Berlin")))
    for time_s in range(0, 60 * DAY_S, 900):
        predictor.observe("a", time_s, 0.75 if 50 * DAY_S <= time_s < 51 * DAY_S else 0.25)
    answer = predictor.usage("a")
    assert (answer.basis, answer.peak(60 * DAY_S, 61 * DAY_S)) == ("observed", 0.75)  # within two weeks
    assert answer.at(60 * DAY_S) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("timezone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("time_s", [2**53 - 1, -(2**53) + 1, 10**12, -(10**11)])
def test_times_beyond_the_calendar_have_an_answer(tmp_path: Path, timezone: str, time_s: int) -> None:
    predictor = UsagePredictor.load(made_section(tmp_path / "section", clock=DayClock(SPRING_S, timezone)))
    assert predictor.observe("a", time_s, 0.5)
    assert predictor.usage("a").at(time_s) == 1.0
    assert predictor.usage("vm-1").peak(time_s // 2, time_s // 2 + 1) >= 0.2
