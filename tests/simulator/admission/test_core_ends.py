"""Admission at the ends of cores: the kernel against its slow twin, the rules by hand, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_admission import answers, faults, naive_ends
from sojourn.simulator.admission import (
    ALLOCATIONS,
    REASONS,
    AdmissionJobs,
    CoreEnds,
    deadlines_of,
    drawn_slacks,
)


def drawn(seed: int, n: int, widest: int, span: int = 60) -> AdmissionJobs:
    """Jobs of few lengths, so that there are ties; some deadlines cannot be met."""
    rng = np.random.default_rng(seed)
    submission, processing = rng.integers(0, span, n), rng.integers(1, 12, n)
    deadline = submission + processing + rng.integers(-1, 9, n)
    return AdmissionJobs(submission, processing, rng.integers(1, widest + 1, n), np.maximum(deadline, 0))


def _of(*rows: tuple[int, int, int, int]) -> AdmissionJobs:
    """Jobs as (submission, processing, cores, deadline)."""
    return AdmissionJobs(*np.array(rows).reshape(-1, 4).T)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(0, 60), n_cores=st.sampled_from([1, 2, 3, 8, 20]),
       widest=st.sampled_from([1, 2, 5, 9]), allocation=st.sampled_from(sorted(ALLOCATIONS)))
def test_the_kernel_decides_as_its_slow_twin(seed: int, n: int, n_cores: int, widest: int, allocation: str) -> None:
    jobs = drawn(seed, n, widest)
    decisions = CoreEnds(n_cores, allocation).offer(jobs)
    assert answers(decisions) == naive_ends(jobs, n_cores, allocation)
    assert faults(jobs, decisions, n_cores) == []


def test_allocations_by_hand() -> None:
    """Two cores end at 10 and 4. A job of 5 s with deadline 15 takes the one that ends at 10 by best-fit, the other
    one by balanced; with deadline 14 only the other one is left."""
    first = [(0, 10, 1, 10), (0, 4, 1, 4)]
    for allocation, deadline, start in (("best-fit", 15, 10), ("balanced", 15, 4), ("best-fit", 14, 4),
                                        ("min-idle", 15, 10)):
        decisions = CoreEnds(2, allocation).offer(_of(*first, (1, 5, 1, deadline)))
        assert decisions.start_s.tolist() == [0, 0, start]


def test_min_idle_takes_cores_that_end_together() -> None:
    """Cores end at 9, 6, 6, 1. Two of them: best-fit waits until 9 (3 s idle), min-idle until 6 (none), balanced too
    (5 s idle)."""
    jobs = _of((0, 9, 1, 9), (0, 6, 2, 6), (0, 1, 1, 1), (0, 5, 2, 20))
    chosen = {allocation: CoreEnds(4, allocation).offer(jobs) for allocation in ALLOCATIONS}
    assert {name: int(found.start_s[3]) for name, found in chosen.items()} == {
        "best-fit": 9, "min-idle": 6, "balanced": 6}
    assert chosen["min-idle"].cores_of(3).tolist() == chosen["min-idle"].cores_of(1).tolist()
    assert chosen["balanced"].cores_of(3).tolist() != chosen["min-idle"].cores_of(3).tolist()


def test_each_rejection_has_its_reason_and_what_would_have_been_accepted() -> None:
    """One core is busy until 10. Wider than 1 core: no deadline helps. Deadline before the earliest end, and before
    the free core: 10 + 5."""
    jobs = _of((0, 10, 1, 10), (1, 5, 2, 99), (1, 5, 1, 5), (1, 5, 1, 14), (1, 5, 1, 15))
    decisions = CoreEnds(1, "best-fit").offer(jobs)
    assert [REASONS[code] for code in decisions.reason.tolist()] == [
        "accepted", "wider than the machine", "its deadline is before its earliest end", "no room before its deadline",
        "accepted"]
    assert decisions.offer_s.tolist() == [-1, -1, 15, 15, -1]
    assert decisions.n_by_reason()["accepted"] == 2
    assert sum(decisions.n_by_reason().values()) == len(jobs)


@pytest.mark.parametrize("allocation", sorted(ALLOCATIONS))
def test_the_offered_deadline_is_accepted_and_one_second_less_is_not(allocation: str) -> None:
    jobs = drawn(7, 80, 4, span=40)
    rows = np.flatnonzero(CoreEnds(4, allocation).offer(jobs).offer_s >= 0).tolist()
    assert len(rows) > 10
    for row in rows:
        before = jobs.order()[: jobs.order().tolist().index(row) + 1]
        earlier = jobs.take(before)
        offer = int(CoreEnds(4, allocation).offer(earlier).offer_s[-1])
        for deadline, is_accepted in ((offer, True), (offer - 1, False)):
            asked = AdmissionJobs(earlier.submission_s, earlier.processing_s, earlier.cores,
                                  np.append(earlier.deadline_s[:-1], deadline))
            assert CoreEnds(4, allocation).offer(asked).is_accepted[-1] == is_accepted


def test_offering_in_two_parts_decides_as_at_once() -> None:
    jobs = drawn(3, 80, 4)
    order = jobs.order()
    whole = CoreEnds(6, "best-fit").offer(jobs)
    ends = CoreEnds(6, "best-fit")
    parts = [answers(ends.offer(jobs.take(rows))) for rows in (order[:33], order[33:])]
    assert [*parts[0], *parts[1]] == [answers(whole)[row] for row in order.tolist()]


def test_equal_submissions_by_the_thousand_are_decided_by_index() -> None:
    n = 5_000
    jobs = AdmissionJobs(np.full(n, 9), np.full(n, 10), np.ones(n, np.int64), np.full(n, 39))
    for allocation in ALLOCATIONS:
        decisions = CoreEnds(100, allocation).offer(jobs)
        assert decisions.is_accepted.tolist() == [True] * 300 + [False] * 4_700
        assert faults(jobs, decisions, 100) == []


def test_slacks_of_0_start_at_once_or_not_at_all_and_slacks_above_1_wait() -> None:
    submission, processing = np.array([0, 0, 5]), np.array([10, 10, 10])
    for slack, starts in ((0.0, [0, -1, -1]), (2.5, [0, 10, 20])):
        deadline = deadlines_of(submission, processing, drawn_slacks(3, slack, 0.0, np.random.default_rng(0)))
        jobs = AdmissionJobs(submission, processing, np.ones(3, np.int64), deadline)
        assert CoreEnds(1, "best-fit").offer(jobs).start_s.tolist() == starts


def test_without_cores_the_decisions_are_the_same() -> None:
    jobs = drawn(5, 60, 3)
    with_cores, without = (CoreEnds(5, "min-idle").offer(jobs, with_cores=each) for each in (True, False))
    assert without.start_s.tolist() == with_cores.start_s.tolist()
    assert len(without.core_numbers) == 0 < len(with_cores.core_numbers)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="n_cores must be a whole number of at least 1"):
        CoreEnds(0, "best-fit")
    with pytest.raises(ValueError, match=r"allocation must .*, got 'worst'"):
        CoreEnds(1, "worst")
