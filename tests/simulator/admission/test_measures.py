"""Ratio, energy, and theorem 1 against a bound on the optimum."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sojourn.simulator.admission import (
    AdmissionJobs,
    CoreEnds,
    accepted_load_s,
    competitive_bound,
    deadlines_of,
    energy_kwh,
    load_limit_s,
    performance_ratio,
)


def nested_bound_s(jobs: AdmissionJobs, n_cores: int) -> int:
    """Core-seconds that no schedule exceeds, at or below `load_limit_s`: jobs with a deadline of at most t have at
    most n_cores x (t - first submission), for every t at once; and the same from the end, with submissions.

    >>> jobs = AdmissionJobs(np.array([0, 0, 90]), np.array([10, 10, 10]), np.array([1, 1, 1]),
    ...                      np.array([12, 12, 100]))
    >>> load_limit_s(jobs, 1), nested_bound_s(jobs, 1)
    (30, 22)
    """
    if len(jobs) == 0:
        return 0
    load = jobs.processing_s * jobs.cores
    from_start = _nested(jobs.deadline_s - jobs.submission_s.min(), load, n_cores)
    from_end = _nested(jobs.deadline_s.max() - jobs.submission_s, load, n_cores)
    return min(from_start, from_end)


def _nested(spans: np.ndarray, load: np.ndarray, n_cores: int) -> int:
    most = 0
    for row in np.argsort(spans, kind="stable").tolist():
        most = min(most + int(load[row]), n_cores * int(spans[row]))
    return most


def sequential(rng: np.random.Generator) -> tuple[AdmissionJobs, int, float]:
    """Sequential jobs with a common least slack, on few cores: bursts, and lengths that differ by up to a thousand."""
    n, n_cores, slack = int(rng.integers(2, 40)), int(rng.integers(1, 9)), float(rng.uniform(0.05, 1.0))
    processing = np.ceil(rng.choice([1, 10, 100, 1_000], n) * rng.uniform(0.5, 1.5, n)).astype(np.int64) * 20
    submission = rng.choice(rng.integers(0, rng.integers(1, 30_000), 6), n)
    slacks = slack * rng.choice([1.0, 1.0, 1.0, 3.0], n)
    return AdmissionJobs(submission, processing, np.ones(n, np.int64),
                         deadlines_of(submission, processing, slacks)), n_cores, slack


def test_theorem_1_holds_against_the_nested_bound_on_the_optimum() -> None:
    worst, n_loaded = 0.0, 0
    for seed in range(3_000):
        jobs, n_cores, slack = sequential(np.random.default_rng(seed))
        accepted = accepted_load_s(jobs, CoreEnds(n_cores, "best-fit").offer(jobs, with_cores=False))
        used = nested_bound_s(jobs, n_cores) / accepted / competitive_bound(n_cores, slack)
        worst, n_loaded = max(worst, used), n_loaded + (accepted < jobs.load_s)
    assert worst <= 1.0
    assert n_loaded > 1_500 and worst > 0.7  # the instances are not too easy to show a fault


def test_the_nested_bound_is_above_the_best_choice_of_jobs() -> None:
    """The best of all subsets that could be run by preemptive earliest deadline first on one core."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        submission, processing = rng.integers(0, 12, 6), rng.integers(1, 9, 6)
        jobs = AdmissionJobs(submission, processing, np.ones(6, np.int64), submission + processing + rng.integers(0, 5))
        best = max(sum(int(processing[k]) for k in rows) for size in range(7) for rows in combinations(range(6), size)
                   if _fits(jobs, rows))
        assert best <= nested_bound_s(jobs, 1) <= load_limit_s(jobs, 1)


def _fits(jobs: AdmissionJobs, rows: tuple[int, ...]) -> bool:
    """Whether no interval holds more work than time: necessary, and with preemption enough, on one core."""
    return all(sum(int(jobs.processing_s[k]) for k in rows
                   if jobs.submission_s[k] >= start and jobs.deadline_s[k] <= end) <= end - start
               for start in jobs.submission_s[list(rows)].tolist() for end in jobs.deadline_s[list(rows)].tolist())


def test_the_ratio_is_of_the_lesser_limit() -> None:
    """Two jobs of 10 s on one core, frame 0 to 15: limit 15, accepted 10. Far apart: limit 20, accepted 20."""
    near = AdmissionJobs(np.array([0, 0]), np.array([10, 10]), np.ones(2), np.array([15, 15]))
    far = AdmissionJobs(np.array([0, 50]), np.array([10, 10]), np.ones(2), np.array([15, 65]))
    assert performance_ratio(near, CoreEnds(1, "balanced").offer(near), 1) == 1.5
    assert performance_ratio(far, CoreEnds(1, "balanced").offer(far), 1) == 1.0


def test_the_ratio_of_nothing() -> None:
    nothing = AdmissionJobs(*np.empty((4, 0)))
    wide = AdmissionJobs(np.array([0]), np.array([10]), np.array([2]), np.array([15]))
    assert performance_ratio(nothing, CoreEnds(1, "balanced").offer(nothing), 1) == 1.0
    assert nested_bound_s(nothing, 1) == 0
    assert performance_ratio(wide, CoreEnds(1, "balanced").offer(wide), 1) == float("inf")


def test_energy_is_linear_between_idle_and_busy() -> None:
    """One core for an hour: 50 W idle, 100 W busy, 75 W half the time busy."""
    watt_hours = [1_000 * energy_kwh(busy, 3_600, idle_w=50, busy_w=100) for busy in (0, 1_800, 3_600)]
    assert watt_hours == pytest.approx([50, 75, 100])
    with pytest.raises(ValueError, match=r"idle_w must .*, got 80 and 70"):
        energy_kwh(0, 1, idle_w=80, busy_w=70)
    with pytest.raises(ValueError, match=r"busy_s must .*, got 2 and 1"):
        energy_kwh(2, 1)


def test_the_bound_of_theorem_1() -> None:
    assert competitive_bound(1, 1.0) == pytest.approx(3.3095)
    with pytest.raises(ValueError, match=r"slack must .*, got 1.5"):
        competitive_bound(3, 1.5)
    with pytest.raises(ValueError, match="n_cores must be at least 1, got 0"):
        competitive_bound(0, 0.5)
