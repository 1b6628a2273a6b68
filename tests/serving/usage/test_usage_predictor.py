"""Answers of a usage section: waves, observations, classes and nothing; threads, forks and memory."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from made_usage import DAY_WORKER, FLAT, made_section
from sojourn.serving import BundleError, UsagePredictor
from sojourn.serving.usage import DayClock

HOUR_S, DAY_S = 3_600, 86_400


@pytest.fixture
def predictor(tmp_path: Path) -> UsagePredictor:
    return UsagePredictor.load(made_section(tmp_path / "section"))


def _feed(predictor: UsagePredictor, name: str, from_s: int, to_s: int, used: float, mem: float | None = None) -> None:
    for time_s in range(from_s, to_s, 300):
        assert predictor.observe(name, time_s, used, mem)


def test_a_request_never_heard_of_uses_its_reservation(predictor: UsagePredictor) -> None:
    answer = predictor.usage("new")
    assert (answer.basis, answer.class_id, answer.at(0), answer.peak(0, 60)) == ("reservation", None, 1.0, 1.0)
    assert answer.next_busy(7) == (7.0, math.inf)
    assert answer.reason == "observed for 0 s of 10800 s"
    assert math.isnan(answer.own_highest)


def test_a_wave_learnt_before_answers_and_observations_raise_its_peak(predictor: UsagePredictor) -> None:
    answer = predictor.usage("vm-1")
    assert (answer.basis, answer.at(36_000), answer.at(0)) == ("wave", 0.7, 0.1)  # mean levels
    assert (answer.peak(0, 3_600), answer.peak(0, DAY_S)) == (0.2, 0.9)  # the upper level
    assert answer.next_busy(0) == (36_000.0, 57_600.0)
    predictor.observe("vm-1", 900, 0.4)
    assert predictor.usage("vm-1").peak(0, 3_600) == pytest.approx(0.4)
    assert predictor.usage("vm-1").peak(7_200, 10_000) == 0.2
    assert predictor.usage("vm-2").at(36_000) == pytest.approx(0.7)  # 0.6 by day and 0.1 by week


def test_a_newcomer_gets_its_class_as_soon_as_it_was_observed_long_enough(predictor: UsagePredictor) -> None:
    _feed(predictor, "a", 0, 11 * 900, 0.1)
    assert predictor.usage("a").class_id is None
    _feed(predictor, "a", 11 * 900, 12 * 900, 0.1)
    answer = predictor.usage("a")
    assert (answer.basis, answer.class_id, answer.reason) == ("class", DAY_WORKER, "")
    assert answer.peak(4 * HOUR_S, 5 * HOUR_S) == pytest.approx(0.1)
    assert answer.peak(4 * HOUR_S, 10 * HOUR_S) == pytest.approx(0.7)  # its own 0.1 and the surplus 0.6
    assert answer.at(12 * HOUR_S) == pytest.approx(0.7)  # the class's mean 0.4, scaled by 0.1 / 0.05, at most the peak
    assert answer.next_busy(4 * HOUR_S) == (9.0 * HOUR_S, 18.0 * HOUR_S)
    assert answer.next_busy(10 * HOUR_S) == (10.0 * HOUR_S, 18.0 * HOUR_S)
    _feed(predictor, "b", 0, 3 * HOUR_S, 0.5)
    assert predictor.usage("b").class_id == FLAT


def test_after_a_day_its_own_use_answers(predictor: UsagePredictor) -> None:
    _feed(predictor, "a", 0, 12 * HOUR_S, 0.2)
    _feed(predictor, "a", 12 * HOUR_S, DAY_S, 0.6)
    answer = predictor.usage("a")
    assert answer.basis == "observed"
    assert answer.own_highest == pytest.approx(0.6)
    assert answer.at(5 * DAY_S) == pytest.approx(0.2)
    assert answer.peak(5 * DAY_S, 5 * DAY_S + 60) == pytest.approx(0.6)
    assert answer.next_busy(DAY_S) == (1.5 * DAY_S, 2.0 * DAY_S)


def test_a_day_of_its_own_comes_before_a_wave_and_the_wave_stays_in_the_peak(predictor: UsagePredictor) -> None:
    _feed(predictor, "vm-1", 0, DAY_S - 900, 0.3)
    assert (predictor.usage("vm-1").basis, predictor.usage("vm-1").at(36_000)) == ("wave", 0.7)
    _feed(predictor, "vm-1", DAY_S - 900, DAY_S, 0.3)
    answer = predictor.usage("vm-1")
    assert answer.basis == "observed"
    assert answer.at(36_000) == answer.at(0) == pytest.approx(0.3)
    assert answer.next_busy(5) == (5.0, math.inf)  # flat, whatever the wave says
    assert answer.peak(0, 3_600) == pytest.approx(0.3)
    assert answer.peak(0, DAY_S) == 0.9


def test_memory_is_observed_beside(predictor: UsagePredictor) -> None:
    _feed(predictor, "a", 0, 3 * HOUR_S, 0.1, mem=0.5)
    assert predictor.usage("a", "mem").class_id == FLAT
    assert predictor.usage("a").class_id == DAY_WORKER
    with pytest.raises(ValueError, match="resource must be cpu or mem, got 'gpu'"):
        predictor.usage("a", "gpu")


def test_local_slots_are_those_of_the_section_s_time_zone(tmp_path: Path) -> None:
    clock = DayClock(1_364_684_400, "Europe/Berlin")  # at 2:00 the clock goes to 3:00
    predictor = UsagePredictor.load(made_section(tmp_path / "section", clock=clock))
    _feed(predictor, "a", 0, 2 * HOUR_S, 0.1)
    _feed(predictor, "a", 2 * HOUR_S, 3 * HOUR_S, 0.3)
    assert predictor.usage("a").at(DAY_S + 2 * HOUR_S) == pytest.approx(0.3)  # the next day at 3:00


def test_what_was_seen_is_forgotten_at_the_end(predictor: UsagePredictor) -> None:
    _feed(predictor, "a", 0, 3 * HOUR_S, 0.1)
    assert predictor.ended("a") and not predictor.ended("a")
    assert predictor.usage("a").basis == "reservation"
    predictor.observe("b", 0, 0.7)  # takes the row
    assert predictor.usage("b").own_highest == pytest.approx(0.7)


def test_a_peak_counts_for_the_week_after_and_no_longer(predictor: UsagePredictor) -> None:
    _feed(predictor, "a", 0, DAY_S, 0.9)
    for day in (6, 8, 13):
        _feed(predictor, "a", day * DAY_S, (day + 1) * DAY_S, 0.2)
        assert predictor.usage("a").own_highest == pytest.approx(0.9)
    predictor.observe("a", 14 * DAY_S, 0.2)  # the third week
    assert predictor.usage("a").own_highest == pytest.approx(0.2)
    assert predictor.usage("a").basis == "observed"
    predictor.observe("a", 10 * DAY_S, 0.5)  # late, of the week before
    assert predictor.usage("a").own_highest == pytest.approx(0.5)
    predictor.observe("a", 10**9, 0.1)  # a wrong stamp ages no more than a week does
    _feed(predictor, "a", 15 * DAY_S, 16 * DAY_S, 0.7)
    assert predictor.usage("a").own_highest == pytest.approx(0.7)


def test_memory_is_bounded_by_requests_and_not_by_samples(predictor: UsagePredictor) -> None:
    predictor.observe("a", 0, 0.5, 0.5)
    before = predictor.info()["n_bytes"]
    for sample in range(100_000):
        predictor.observe("a", sample * 60, 0.5, 0.5)
    assert predictor.info()["n_bytes"] == before
    small = UsagePredictor(predictor._live.section, n_most=3)
    assert [small.observe(name, 0, 0.1) for name in "abcd"] == [True, True, True, False]
    assert (small.info()["n_dropped"], small.info()["n_observed"]) == (1, 3)
    assert small.info()["n_bytes"] == 3 * 96 * 13
    small.ended("b")
    assert small.observe("d", 0, 0.1)


def test_rows_grow_without_losing_what_was_seen(predictor: UsagePredictor) -> None:
    for i in range(300):
        predictor.observe(f"r{i}", 0, i / 300, i / 600)
    found = [predictor.usage(f"r{i}").own_highest for i in range(300)]
    np.testing.assert_allclose(found, np.arange(300) / 300, rtol=1e-6)
    assert predictor.usage("r299", "mem").own_highest == pytest.approx(299 / 600)


@pytest.mark.parametrize("sample", [("a", math.nan, 0.1), ("a", True, 0.1), ("a", 0, math.nan), ("a", 0, -0.1),
                                    ("a", 0, math.inf), ("a", 0, 1e300), ("a", 0, 10**400), ("a", 0, np.True_),
                                    ("a", 0, np.array(0.5)), ("a", 0, "0.1"), ("a", 0, True), ("a", 0, 0.1, "x"),
                                    ("", 0, 0.1), (7, 0, 0.1), ("a" * 513, 0, 0.1)])
def test_what_is_no_sample_is_refused(predictor: UsagePredictor, sample: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="must be"):
        predictor.observe(*sample)  # type: ignore[arg-type]
    assert predictor.info()["n_observed"] == 0


def test_percent_observed_as_shares_are_told(predictor: UsagePredictor) -> None:
    assert predictor.observe("a", 0, 10.0)
    for sample in ((10.1,), (45,), (0.5, 45.0)):
        with pytest.raises(ValueError, match=r"from 0 to 10, got .*\(percent are divided by 100\)"):
            predictor.observe("a", 900, *sample)


def test_a_refused_share_is_shown_as_it_was_given(predictor: UsagePredictor) -> None:
    with pytest.raises(ValueError, match=r"used must .*, got 'much'"):
        predictor.observe("a", 0, "much")  # type: ignore[arg-type]


@pytest.mark.parametrize("interval", [(0, 0), (5, 1), (0, 1e9), (math.nan, 1), (0, math.inf), ("0", 1)])
def test_intervals_are_checked(predictor: UsagePredictor, interval: tuple[object, object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        predictor.usage("a").peak(*interval)  # type: ignore[arg-type]


def test_reload_keeps_what_was_seen_and_refuses_another_clock(predictor: UsagePredictor, tmp_path: Path) -> None:
    _feed(predictor, "a", 0, 3 * HOUR_S, 0.1)
    old = predictor.usage("a")
    made_section(tmp_path / "section", {"metrics": {"x": 1}})
    assert predictor.reload() == predictor.version != old.version
    assert predictor.usage("a").class_id == old.class_id
    made_section(tmp_path / "section", clock=DayClock(5))
    with pytest.raises(BundleError, match="clock must be"):
        predictor.reload()
    with pytest.raises(ValueError, match="folder must be given"):
        UsagePredictor(predictor._live.section).reload()


def test_threads_see_whole_rows(predictor: UsagePredictor) -> None:
    def feed(name: str) -> None:
        for i in range(3_000):
            predictor.observe(name, i * 300, 0.25)
            predictor.usage(name)
            if i % 500 == 499:
                predictor.ended(name)

    threads = [threading.Thread(target=feed, args=(f"r{i}",)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert predictor.info()["n_observed"] == 0
    predictor.observe("r0", 0, 0.5)
    assert predictor.usage("r0").own_highest == 0.5


def test_a_forked_child_goes_on_by_itself(predictor: UsagePredictor) -> None:
    predictor.observe("a", 0, 0.25)
    child = os.fork()
    if not child:
        predictor.observe("a", 60, 0.75)
        os._exit(0 if predictor.usage("a").own_highest == 0.75 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert predictor.usage("a").own_highest == 0.25
