"""Bounds: never above the best schedule, and exact where jobs cannot move."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_planning import least_peak
from sojourn.simulator.planning import Instance, RecurringJob
from sojourn.simulator.planning.problem import Problem, Samples, drawn_pairs, easiest_windows
from sojourn.simulator.planning.search import energetic_bound
from studies.planners import synthetic_day


@given(st.integers(0, 100_000), st.integers(0, 2))
@settings(max_examples=40)
def test_no_schedule_lies_below_the_bound(seed: int, n_ignored: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = []
    for k in range(4):
        start, flexibility = int(rng.integers(0, 5)), int(rng.integers(0, 5))
        parents = (f"{k - 1}",) if k and rng.random() < 0.4 else ()
        jobs.append(RecurringJob(f"{k}", start + 4 * k * len(parents), flexibility + 6 * len(parents), 40,
                        rng.integers(1, 5, 3), rng.integers(1, 5, 3), parents))
    day = Instance(tuple(jobs))
    samples = drawn_pairs(day, 3, rng)
    bound = energetic_bound(Problem(day, samples, n_ignored))[0]
    assert bound <= least_peak(day, samples.durations, samples.usage[:, :, 0], n_ignored)


@pytest.mark.parametrize(("flexibility", "bound"), [(0, 6), (2, 6), (4, 3), (12, 2)])
def test_work_in_a_window(flexibility: int, bound: int) -> None:
    # three jobs of 4 steps x 2 from step 0. f = 2: all run in [2, 4), 3 x 2 x 2 / 2 = 6.
    # f = 4: 24 within [0, 8), 24 / 8 = 3. f = 12: within [0, 16), 1.5; one job alone is 2
    jobs = tuple(RecurringJob(f"{k}", 0, flexibility, 99, np.array([4]), np.array([2.0])) for k in range(3))
    day = Instance(jobs)
    samples = Samples(np.full((1, 3), 4), np.full((1, 3, 1), 2))
    assert energetic_bound(Problem(day, samples)).tolist() == [bound]


def test_deadlines_count_as_far_as_samples_must_keep_them() -> None:
    # started at 0 or 9; in sample 0 the deadline keeps both at 0, and both use 1: 2 at once
    jobs = tuple(RecurringJob(f"{k}", 0, 9, 9, np.array([1, 9]), np.ones(2)) for k in range(2))
    samples = Samples(np.array([[9, 9], [1, 1]]), np.ones((2, 2, 1), np.int64))
    assert energetic_bound(Problem(Instance(jobs), samples)).tolist() == [2]
    assert energetic_bound(Problem(Instance(jobs), samples, 1)).tolist() == [1]


def test_the_easiest_samples_are_kept_where_some_may_break() -> None:
    day, _ = synthetic_day(20, np.random.default_rng(0), tightness=1.0)
    problem = Problem(day, drawn_pairs(day, 10, np.random.default_rng(0)), 4)
    found = easiest_windows(problem)
    assert len(found.kept) == 6
    assert found.kept.tolist() == sorted(set(found.kept.tolist()))
