"""Admission by predicted processing times: the slow twin, exact predictions, nothing of the future, rules by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_admission import naive_predicted
from sojourn.simulator.admission import ALLOCATIONS, AdmissionJobs, CoreEnds, admit_predicted


def drawn(seed: int, n: int, widest: int) -> tuple[AdmissionJobs, np.ndarray]:
    """Jobs and plans between a third and three times the truth."""
    rng = np.random.default_rng(seed)
    submission, processing = rng.integers(0, 60, n), rng.integers(1, 15, n)
    jobs = AdmissionJobs(submission, processing, rng.integers(1, widest + 1, n),
                         submission + processing + rng.integers(0, 15, n))
    return jobs, np.maximum(np.rint(processing * rng.choice([0.34, 1.0, 1.0, 3.0], n)), 1).astype(np.int64)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(0, 60), n_cores=st.sampled_from([1, 2, 6, 15]),
       widest=st.sampled_from([1, 3, 7]), allocation=st.sampled_from(sorted(ALLOCATIONS)))
def test_the_kernel_decides_as_its_slow_twin(seed: int, n: int, n_cores: int, widest: int, allocation: str) -> None:
    jobs, planned = drawn(seed, n, widest)
    run = admit_predicted(jobs, planned, n_cores, allocation)
    found = list(zip(run.start_s.tolist(), run.end_s.tolist(), strict=True))
    assert found == naive_predicted(jobs, planned.tolist(), n_cores, allocation)
    assert run.is_late.tolist() == [end > deadline for (_, end), deadline in zip(found, jobs.deadline_s, strict=True)]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n_cores=st.sampled_from([1, 4, 12]), allocation=st.sampled_from(sorted(ALLOCATIONS)))
def test_exact_plans_decide_as_the_ends_of_cores_and_nothing_is_late(seed: int, n_cores: int, allocation: str) -> None:
    jobs, _ = drawn(seed, 90, 5)
    run = admit_predicted(jobs, jobs.processing_s, n_cores, allocation)
    known = CoreEnds(n_cores, allocation).offer(jobs)
    assert run.start_s.tolist() == known.start_s.tolist()
    assert run.reason.tolist() == known.reason.tolist()
    assert not run.is_late.any()


@pytest.mark.parametrize("allocation", sorted(ALLOCATIONS))
def test_the_future_changes_no_decision(allocation: str) -> None:
    """Jobs that have not ended by a time take longer: what was decided until then stays. Later they do matter."""
    jobs, planned = drawn(5, 90, 3)
    before = admit_predicted(jobs, planned, 4, allocation)
    n_changed = 0
    for time in (10, 20, 30, 40, 50):
        running = (before.end_s > time) | (jobs.submission_s > time)
        longer = AdmissionJobs(jobs.submission_s, np.where(running, jobs.processing_s + 50, jobs.processing_s),
                               jobs.cores, jobs.deadline_s)
        after = admit_predicted(longer, planned, 4, allocation)
        is_decided = jobs.submission_s <= time
        assert (after.is_accepted == before.is_accepted)[is_decided].all()
        n_changed += int((after.is_accepted != before.is_accepted)[~is_decided].sum())
    assert n_changed > 0


def test_plans_that_are_too_short_make_late_and_too_long_ones_reject() -> None:
    """One core; two jobs of 10 s at 0 and 1 with deadlines 10 and 20."""
    jobs = AdmissionJobs(np.array([0, 1]), np.array([10, 10]), np.array([1, 1]), np.array([10, 20]))
    for planned, ends, late in ((10, [10, 20], [False] * 2), (9, [10, 20], [False] * 2), (11, [-1, 11], [False] * 2)):
        run = admit_predicted(jobs, np.full(2, planned), 1)
        assert (run.end_s.tolist(), run.is_late.tolist()) == (ends, late)
    tight = AdmissionJobs(jobs.submission_s, jobs.processing_s, jobs.cores, np.array([10, 18]))
    run = admit_predicted(tight, np.array([4, 4]), 1)
    assert (run.end_s.tolist(), run.is_late.tolist()) == ([10, 20], [False, True])


def test_an_outlived_plan_doubles_and_an_early_end_is_used_at_once() -> None:
    """Planned 4 s, still running at 5: expected until 8, so that 4 more seconds end at 12. One that ends at 2 instead
    of 8 leaves its core: the next begins at 3."""
    late = AdmissionJobs(np.array([0, 5, 5]), np.array([9, 4, 4]), np.ones(3, np.int64), np.array([99, 11, 12]))
    assert admit_predicted(late, np.full(3, 4), 1).start_s.tolist() == [0, -1, 9]
    early = AdmissionJobs(np.array([0, 3]), np.array([2, 4]), np.ones(2, np.int64), np.array([99, 7]))
    assert admit_predicted(early, np.array([8, 4]), 1).start_s.tolist() == [0, 3]


def test_what_is_refused() -> None:
    jobs, planned = drawn(0, 3, 1)
    for bad, words in ((planned[:2], "planned_s must be one number a job"), (np.array([1, 0, 1]), r"got 0 \(job 1\)"),
                       (np.array([1, np.nan, 1]), r"got nan \(job 1\)")):
        with pytest.raises(ValueError, match=words):
            admit_predicted(jobs, bad, 2)
    with pytest.raises(ValueError, match="n_cores must be a whole number of at least 1"):
        admit_predicted(jobs, planned, 0)
