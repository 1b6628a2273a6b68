"""Boosts of running workloads in a queue that preempts: whom they protect, and why they must not be below 0."""

from __future__ import annotations

import pytest

from studies.kueue_boost import BEFORE, CLASS, N_EVICTED_MAX, Job, by_oracle, by_uptime, replay

HOUR_S = 3_600.0


def equals(n: int) -> list[Job]:
    """Jobs of one class that ask for all cores, each for 2 h, all at once."""
    return [Job(float(idx), 2 * HOUR_S, 4.0) for idx in range(n)]


def test_workloads_of_one_class_never_evict_each_other() -> None:
    for cost in (None, by_uptime, by_oracle):
        outcome = replay(equals(6), 4.0, cost)
        assert (outcome.n_evicted, outcome.lost_core_h, outcome.n_ended) == (0, 0.0, 6)
        assert outcome.wait_h == pytest.approx(sum(2.0 * idx - idx / HOUR_S for idx in range(6)) / 6)


def test_boosts_below_zero_evict_in_a_circle() -> None:
    """The head of the queue outranks whoever began a round before, so nobody ever runs for 2 h."""
    outcome = replay(equals(6), 4.0, by_uptime, BEFORE)
    assert outcome.n_evicted == N_EVICTED_MAX and outcome.n_ended == 0


def test_a_higher_class_evicts_the_cheapest() -> None:
    """At 10 h, the first job has run for 10 h, the second for 9: the latest goes, with or without its boost. A perfect
    prediction says that the second is about to end (9 h over 0.1 h: level 3) and the first is not (10 over 6: 1)."""
    def jobs() -> list[Job]:
        return [Job(0.0, 40 * HOUR_S, 1.0), Job(HOUR_S, 9.1 * HOUR_S, 1.0), Job(10 * HOUR_S, HOUR_S, 1.0, CLASS)]

    assert replay(jobs(), 2.0, None).lost_core_h == replay(jobs(), 2.0, by_uptime).lost_core_h == 9.0
    assert replay(jobs(), 2.0, by_oracle).lost_core_h == 10.0


def test_whoever_need_not_go_stays() -> None:
    """A job of 4 cores: the latest admitted (1 core) is not enough, the one before (4 cores) is, alone."""
    jobs = [Job(0.0, 9 * HOUR_S, 4.0), Job(HOUR_S, 9 * HOUR_S, 1.0), Job(2 * HOUR_S, HOUR_S, 4.0, CLASS)]
    outcome = replay(jobs, 5.0, None)
    assert (outcome.n_evicted, outcome.lost_core_h) == (1, 8.0)
    assert [job.n_runs for job in jobs] == [2, 1, 1]
