"""Starts of waiting jobs: equal to the replay's if no more jobs come, and by hand."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.simulator.queueing import QueueJobs, QueueNow, QueueRules, queue_at, replay_queue, requested, start_times
from sojourn.simulator.queueing import _kernels as kernels

RULES = (QueueRules(), QueueRules(backfill_order="sjf"), QueueRules("wfp3", "saf"), QueueRules(backfilling="none"),
         QueueRules("fcfs", "sjf", "depth:3"), QueueRules("unicef", "sjf", guard_s=60))


@given(seed=st.integers(0, 2**32 - 1), rules=st.sampled_from(RULES), n_processors=st.integers(1, 9))
def test_with_the_true_run_times_starts_are_the_replays(seed: int, rules: QueueRules, n_processors: int) -> None:
    rng, n = np.random.default_rng(seed), 40
    run_s = rng.integers(1, 120, n)
    limit_s = run_s + rng.integers(0, 200, n) * (rng.random(n) < 0.7)
    size = rng.integers(1, n_processors + 1, n)
    jobs = QueueJobs(np.sort(rng.integers(0, 300, n)), run_s, limit_s, size, n_processors)
    schedule = replay_queue(jobs, rules, requested(jobs))
    at_s = int(jobs.submission_s[-1])  # no job comes later
    now, rows = queue_at(schedule, at_s)
    left_s = np.where(now.waits, run_s[rows], schedule.end_s[rows] - at_s)
    other_s = rng.integers(1, 300, len(rows))
    found = start_times(now, rules, np.array([other_s, left_s, left_s]))  # no draw sees the one before
    assert (found[1:] == schedule.start_s[rows[now.waits]] - at_s).all()


NOW: dict[str, Any] = {"now_s": 100, "submission_s": np.array([0, 50, 60]), "begun_s": np.array([90, -1, -1]),
                       "size": np.array([3, 4, 1]), "limit_s": np.array([60, 30, 60]), "n_processors": 4}


def test_by_hand() -> None:
    # 3 of 4 processors are free in 50 s by the limit; the third job would end after that, so it can't pass the second
    now = QueueNow(**NOW)
    assert start_times(now, QueueRules(), now.left_by_limit_s[None]).tolist() == [[50, 80]]
    assert start_times(now, QueueRules(), np.array([[7, 5, 1]])).tolist() == [[7, 12]]  # planned by limits, ended early
    assert start_times(now, QueueRules("sjf"), np.array([[7, 5, 1]])).tolist() == [[7, 12]]
    short = QueueNow(**NOW | {"limit_s": np.array([60, 30, 50])})
    assert start_times(short, QueueRules(), np.array([[7, 5, 9]])).tolist() == [[9, 0]]  # it passes, and runs 9 s
    assert start_times(now, QueueRules(backfilling="none"), np.array([[500, 5, 1]])).tolist() == [[50, 55]]  # killed
    nothing = QueueNow(**NOW | {"begun_s": np.array([90, 95, 95]), "size": np.array([1, 1, 1])})
    assert start_times(nothing, QueueRules(), np.ones((2, 3))).shape == (2, 0)


def test_conservative_makes_reservations_anew() -> None:
    now = QueueNow(**NOW | {"limit_s": np.array([60, 30, 50])})
    assert start_times(now, QueueRules(backfilling="conservative"), now.left_by_limit_s[None]).tolist() == [[50, 0]]


@pytest.mark.parametrize("rules", [*RULES, QueueRules(backfilling="conservative")])
@pytest.mark.parametrize("n_threads", [1, 3, 16])
def test_the_number_of_threads_changes_no_start(monkeypatch: pytest.MonkeyPatch, rules: QueueRules,
                                                n_threads: int) -> None:
    n = 60
    place = np.arange(n)
    begun_s = np.where(place < 3, 100 + place, -1)
    now = QueueNow(900, place * 7, begun_s, place * 5 % 8 + 1, place * 37 % 300 + 900, 20)
    left_s = 1 + np.arange(11)[:, None] * 131 % 97 * (place + 3) % 900
    alone = [start_times(now, rules, left_s[[draw]])[0].tolist() for draw in range(len(left_s))]
    monkeypatch.setattr(os, "cpu_count", lambda: n_threads)
    served: list[int] = []
    serve = kernels.replay_draws

    def counted(*given: Any) -> None:
        served.append(len(given[-1]))
        serve(*given)

    monkeypatch.setattr(kernels, "replay_draws", counted)
    assert start_times(now, rules, left_s).tolist() == alone
    assert (len(served), sum(served)) == (min(n_threads, 11), 11)
    assert len({tuple(starts) for starts in alone}) == 11


def test_a_job_past_its_limit_ends_in_a_second() -> None:
    now = QueueNow(**NOW | {"begun_s": np.array([10, -1, -1])})
    assert now.left_by_limit_s.tolist() == [1, 30, 60]
    assert start_times(now, QueueRules(), np.array([[900, 30, 60]])).tolist() == [[1, 31]]


@pytest.mark.parametrize(("given", "words"), [
    ({"begun_s": np.array([101, -1, -1])}, "at most now_s (100), got 101 (job 0)"),
    ({"submission_s": np.array([0, 101, 0])}, "at most now_s (100), got 101 (job 1)"),
    ({"begun_s": np.array([90, 90, -1])}, "fit on the machine's 4 processors, got 7"),
    ({"size": np.array([3, 5, 1])}, "size must be at most the machine's 4 processors, got 5 (job 1)"),
    ({"limit_s": np.array([60, 2**41, 1])}, "limit_s must be a whole number"),
])
def test_what_cannot_be_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        QueueNow(**NOW | given)


def test_draws_and_order_are_checked() -> None:
    now = QueueNow(**NOW)
    with pytest.raises(ValueError, match="left_s must be at least 1, of shape"):
        start_times(now, QueueRules(), np.array([[0, 1, 1]]))
    with pytest.raises(ValueError, match="order must not be f1"):
        start_times(now, QueueRules("f1"), np.ones((1, 3)))
    with pytest.raises(ValueError, match="overtaken_s must be None, it counts from each submission on, got 5"):
        start_times(now, QueueRules(overtaken_s=5), np.ones((1, 3)))
