"""Measures of a queue against their plain arithmetic, and paired intervals that cover what they should."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sojourn.simulator import Oracle
from sojourn.simulator.queueing import (
    QueueJobs,
    QueueRules,
    compare_queues,
    last_two,
    measures_by_class,
    queue_measures,
    replay_queue,
    requested,
)

WEEK_S = 7 * 86_400


def drawn_jobs(n: int, n_weeks: int, seed: int, n_processors: int = 16) -> QueueJobs:
    """A busy machine whose users ask for several times what they need."""
    rng = np.random.default_rng(seed)
    submission_s = np.sort(rng.integers(0, n_weeks * WEEK_S, n))
    run_s = np.maximum(rng.lognormal(9.0, 1.5, n).astype(np.int64), 1)
    return QueueJobs(submission_s, run_s, run_s * rng.integers(1, 20, n), rng.integers(1, n_processors // 2, n),
                     n_processors, rng.integers(0, 9, n))


def test_measures_are_their_arithmetic() -> None:
    # One processor, first come: starts 0, 40, 45, 145. Waits 0, 40, 40, 135; slowdowns 1, 45/10, 140/100, 136/10.
    jobs = QueueJobs(np.array([0, 0, 5, 10]), np.array([40, 5, 100, 1]), np.array([40, 5, 100, 1]), np.ones(4, int), 1)
    schedule = replay_queue(jobs, QueueRules(), requested(jobs))
    assert schedule.start_s.tolist() == [0, 40, 45, 145]
    measures = queue_measures(schedule)
    assert measures["mean_wait_s"] == pytest.approx((0 + 40 + 40 + 135) / 4)
    assert measures["mean_slowdown"] == pytest.approx((1 + 4.5 + 1.4 + 13.6) / 4)
    assert (measures["max_wait_s"], measures["n_jobs"]) == (135, 4)
    # each was at the head in turn: job 1 from 0 on (promised 40), job 2 at 40 (45), job 3 at 45 (145)
    assert (measures["promised_pct"], measures["broken_pct"], measures["mean_delay_s"]) == (75.0, 0.0, 0.0)
    late = queue_measures(schedule, warmup_s=5)
    assert (late["n_jobs"], late["mean_wait_s"]) == (2, 87.5)


def test_an_outlived_prediction_breaks_a_reservation() -> None:
    # Job 1 is promised 60, the last-two prediction of job 0's owner after runs of 60 s; job 0 takes 100.
    jobs = QueueJobs(np.array([0, 200, 210]), np.array([60, 100, 5]), np.array([500, 500, 500]), np.array([1, 1, 1]), 1,
                     np.array([3, 3, -1]))
    measures = queue_measures(replay_queue(jobs, QueueRules(), last_two(jobs)))
    assert (measures["broken_pct"], measures["mean_delay_s"]) == (100.0, 40.0)


def test_classes_hold_every_counted_job_once() -> None:
    jobs = drawn_jobs(800, 3, 1)
    schedule = replay_queue(jobs, QueueRules(), Oracle(jobs))
    table, measures = measures_by_class(schedule, WEEK_S), queue_measures(schedule, WEEK_S)
    for by in ("size", "length"):
        own = table[table.index.get_level_values("by") == by]
        assert own["n_jobs"].sum() == measures["n_jobs"]
        weights = own["n_jobs"].to_numpy(np.float64)
        for name in ("mean_wait_s", "mean_slowdown"):
            assert np.average(own[name].to_numpy(), weights=weights) == pytest.approx(measures[name])


def test_nothing_counted_has_no_measures() -> None:
    jobs = drawn_jobs(5, 1, 1)
    measures = queue_measures(replay_queue(jobs, QueueRules(), Oracle(jobs)), 9 * WEEK_S)
    assert measures["n_jobs"] == 0
    assert math.isnan(measures["mean_wait_s"])


def test_a_comparison_is_paired_with_its_first_row() -> None:
    jobs = drawn_jobs(3_000, 12, 2)
    rules = [QueueRules(), QueueRules(backfill_order="sjf"), QueueRules("wfp3", "saf", "depth:5", 2 * 86_400)]
    table = compare_queues(jobs, rules, {"requested": requested(jobs), "oracle": Oracle(jobs)})
    assert table["source"].tolist() == ["requested", "oracle"] * 3
    first, best = table.iloc[0], table.iloc[3]
    assert (first["slowdown_ratio"], first["saved_wait_s"]) == (1.0, 0.0)
    assert math.isnan(first["slowdown_ratio_low"])
    assert best["slowdown_ratio"] == pytest.approx(best["mean_slowdown"] / first["mean_slowdown"])
    assert best["saved_wait_s"] == pytest.approx(first["mean_wait_s"] - best["mean_wait_s"])
    assert best["slowdown_ratio_low"] < best["slowdown_ratio"] < best["slowdown_ratio_high"] < 1
    assert 0 < best["saved_wait_s_low"] < best["saved_wait_s"] < best["saved_wait_s_high"]
    assert table["order_ratio"].iloc[::2].tolist() == [1.0] * 3 and table["order_ratio_low"].iloc[::2].isna().all()
    own, same = table.iloc[5], table.iloc[4]
    assert own["order_ratio"] == pytest.approx(own["mean_slowdown"] / same["mean_slowdown"])
    assert own["order_ratio_low"] < own["order_ratio"] < own["order_ratio_high"]
    again = compare_queues(jobs, rules, {"requested": requested(jobs), "oracle": Oracle(jobs)})
    assert again.equals(table)


def test_an_interval_of_equal_queues_holds_no_difference() -> None:
    jobs = drawn_jobs(500, 6, 3)
    table = compare_queues(jobs, [QueueRules()], {"one": Oracle(jobs), "same": Oracle(jobs)})
    for name, value in (("slowdown_ratio", 1.0), ("saved_wait_s", 0.0)):
        assert [table[f"{name}_{end}"].iloc[1] for end in ("low", "high")] == [value, value]


@pytest.mark.parametrize(("days", "n_weeks"), [(7, 1), (26, 3), (28, 4), (33, 4)])
def test_less_than_four_weeks_have_no_interval(days: int, n_weeks: int) -> None:
    """However the weeks lie: a cut week at either end counts for none."""
    jobs = drawn_jobs(300, 1, 3)
    jobs = replace(jobs, submission_s=jobs.submission_s * days // 7, recorded_end_s=None)
    table = compare_queues(jobs, [QueueRules()], {"requested": requested(jobs), "oracle": Oracle(jobs)}, warmup_s=0)
    assert table["n_weeks"].tolist() == [n_weeks] * 2
    assert table[["slowdown_ratio_low", "saved_wait_s_high"]].iloc[1].isna().all() == (n_weeks < 4)
    with pytest.raises(ValueError, match="rules and sources must not be empty, got 0 and 0"):
        compare_queues(jobs, [], {})


def test_owners_who_wait_longer_are_counted() -> None:
    # One processor. Shortest first, owner 2 passes owner 1.
    jobs = QueueJobs(np.array([0, 1, 2]), np.array([100, 100, 1]), np.array([100, 100, 1]), np.ones(3, int), 1,
                     np.array([0, 1, 2]))
    table = compare_queues(jobs, [QueueRules(), QueueRules("sjf", "sjf")], {"requested": requested(jobs)}, warmup_s=0)
    # of the three only owner 1 waits longer, by 1 s: too little to count; with a longer job by 200 s it counts
    assert table["later_owners_pct"].tolist() == [0.0, 0.0]
    jobs = replace(jobs, run_s=np.array([100, 400, 200]), limit_s=np.array([100, 400, 200]), recorded_end_s=None)
    table = compare_queues(jobs, [QueueRules(), QueueRules("sjf", "sjf")], {"requested": requested(jobs)}, warmup_s=0)
    assert table["later_owners_pct"].tolist() == [0.0, pytest.approx(100 / 3)]
    nobody = replace(jobs, owner=None)
    assert compare_queues(nobody, [QueueRules()], {"a": requested(nobody)})["later_owners_pct"].isna().all()
