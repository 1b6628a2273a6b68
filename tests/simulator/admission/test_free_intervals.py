"""Backfilling and power: the kernel against its slow twin, schedules against an independent check, rules by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_admission import answers, faults, naive_free
from sojourn.simulator.admission import (
    ALLOCATIONS,
    REASONS,
    AdmissionJobs,
    CoreEnds,
    FreeIntervals,
    PowerProfile,
    deadlines_of,
    drawn_slacks,
)

Steps = list[tuple[int, int, int]]


def drawn(seed: int, n: int, widest: int, span: int = 60) -> AdmissionJobs:
    """Jobs of few lengths, so that there are ties; some deadlines cannot be met."""
    rng = np.random.default_rng(seed)
    submission, processing = rng.integers(0, span, n), rng.integers(1, 12, n)
    deadline = submission + processing + rng.integers(-1, 14, n)
    return AdmissionJobs(submission, processing, rng.integers(1, widest + 1, n), np.maximum(deadline, 0))


def drawn_power(seed: int, n_cores: int) -> Steps:
    """Steps of 15 s with any number of cores, also more than there are."""
    counts = np.random.default_rng(seed).integers(0, n_cores + 2, 6).tolist()
    return [(15 * k, 15 * k + 15, count) for k, count in enumerate(counts)]


def profile_of(steps: Steps) -> PowerProfile:
    return PowerProfile(np.array([step[0] for step in steps]), np.array([step[2] for step in steps]), steps[-1][1])


def _of(*rows: Sequence[int]) -> AdmissionJobs:
    """Jobs as (submission, processing, cores, deadline)."""
    return AdmissionJobs(*np.array(rows).reshape(-1, 4).T)


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(0, 60), n_cores=st.sampled_from([1, 2, 3, 8, 20]),
       widest=st.sampled_from([1, 2, 5, 9]), allocation=st.sampled_from(sorted(ALLOCATIONS)),
       is_backfilling=st.booleans(), has_power=st.booleans())
def test_the_kernel_decides_as_its_slow_twin(seed: int, n: int, n_cores: int, widest: int, allocation: str,
                                             is_backfilling: bool, has_power: bool) -> None:
    jobs, steps = drawn(seed, n, widest), drawn_power(seed, n_cores) if has_power else []
    free = FreeIntervals(n_cores, allocation, is_backfilling=is_backfilling, power=profile_of(steps) if steps else None)
    decisions = free.offer(jobs)
    assert answers(decisions) == naive_free(jobs, n_cores, allocation, is_backfilling, steps)
    assert faults(jobs, decisions, n_cores, steps) == []


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n_cores=st.sampled_from([1, 4, 12]), allocation=st.sampled_from(sorted(ALLOCATIONS)))
def test_without_holes_it_decides_as_the_ends_of_cores(seed: int, n_cores: int, allocation: str) -> None:
    """Also with a profile that holds everything always on."""
    jobs = drawn(seed, 80, 6)
    ends = answers(CoreEnds(n_cores, allocation).offer(jobs))
    assert answers(FreeIntervals(n_cores, allocation, is_backfilling=False).offer(jobs)) == ends
    power = PowerProfile(np.array([0]), np.array([n_cores]), 10**9)
    with_power = FreeIntervals(n_cores, allocation, is_backfilling=False, power=power).offer(jobs)
    assert answers(with_power) == ends


@pytest.mark.parametrize("allocation", sorted(ALLOCATIONS))
def test_a_larger_schedule_is_valid_and_the_table_grows(allocation: str) -> None:
    rng = np.random.default_rng(1)
    n = 2_000
    processing, cores = rng.integers(1, 500, n), 2 ** rng.integers(0, 6, n)
    submission = rng.integers(0, int((processing * cores).sum() / 64), n)
    jobs = AdmissionJobs(submission, processing, cores,
                         deadlines_of(submission, processing, drawn_slacks(n, 0.8, 0.4, rng)))
    decisions = FreeIntervals(64, allocation).offer(jobs)
    assert faults(jobs, decisions, 64) == []
    assert 0 < decisions.is_accepted.sum() < n


def test_order_holes_then_ends_then_a_mix() -> None:
    """Two cores. A takes one until 10, B both from 10 to 20: the other has a hole from 0 to 10. C (10 s) fills it.
    Then D (5 s, until 99) finds no hole and goes to the end, 20."""
    jobs = _of((0, 10, 1, 10), (0, 10, 2, 20), (0, 10, 1, 99), (0, 5, 1, 99))
    decisions = FreeIntervals(2, "best-fit").offer(jobs)
    assert decisions.start_s.tolist() == [0, 10, 0, 20]
    """Three cores. A: one until 10; B: two from 10 (the one that ends at 10, and one more), so that one has a hole of
    10 s. C (2 cores, 10 s, deadline 10) needs the hole and the core that never ran: a mix."""
    jobs = _of((0, 10, 1, 10), (0, 10, 2, 20), (0, 10, 2, 10))
    mixed = FreeIntervals(3, "best-fit").offer(jobs)
    assert mixed.start_s.tolist() == [0, 10, 0]
    assert not CoreEnds(3, "best-fit").offer(jobs).is_accepted[2]


def test_a_job_that_is_free_to_wait_does_not_take_a_part_hole() -> None:
    """The hole takes 5 of 10 s only: the end takes the job whole. A run is on one set of cores."""
    jobs = _of((0, 5, 1, 5), (0, 10, 2, 15), (0, 10, 1, 99))
    assert FreeIntervals(2, "balanced").offer(jobs).start_s.tolist() == [0, 5, 15]


@pytest.mark.parametrize("is_backfilling", [True, False])
@pytest.mark.parametrize("allocation", sorted(ALLOCATIONS))
def test_the_offered_deadline_is_accepted_and_one_second_less_is_not(allocation: str, is_backfilling: bool) -> None:
    jobs, power = drawn(11, 90, 4, span=50), profile_of([(0, 30, 4), (30, 45, 2), (45, 120, 4)])

    def decided(asked: AdmissionJobs) -> tuple[bool, int]:
        free = FreeIntervals(4, allocation, is_backfilling=is_backfilling, power=power)
        decisions = free.offer(asked)
        return bool(decisions.is_accepted[-1]), int(decisions.offer_s[-1])

    order, n_tried = jobs.order(), 0
    for place in range(len(order)):
        earlier = jobs.take(order[: place + 1])
        is_accepted, offer = decided(earlier)
        if is_accepted or offer < 0:
            continue
        n_tried += 1
        for deadline, expected in ((offer, True), (offer - 1, False)):
            asked = AdmissionJobs(earlier.submission_s, earlier.processing_s, earlier.cores,
                                  np.append(earlier.deadline_s[:-1], deadline))
            assert decided(asked)[0] == expected
    assert n_tried > 10


def test_power_that_is_off_is_not_used_and_jobs_wait_for_it() -> None:
    """One core, on from 0 to 10 and from 20 to 40. A job of 12 s waits until 20; then one of 8 s fits before it, one
    of 9 s after it not any more; one of 25 s never does."""
    power = PowerProfile(np.array([0, 10, 20]), np.array([1, 0, 1]), 40)
    jobs = _of((0, 12, 1, 99), (0, 8, 1, 99), (0, 9, 1, 99), (0, 25, 1, 99))
    decisions = FreeIntervals(1, "best-fit", power=power).offer(jobs)
    assert decisions.start_s.tolist() == [20, 0, -1, -1]
    assert [REASONS[code] for code in decisions.reason[2:].tolist()] == ["no room before the power ends"] * 2
    assert decisions.offer_s[2:].tolist() == [-1, -1]


def test_cores_that_are_never_on_take_nothing() -> None:
    power = PowerProfile(np.array([0]), np.array([0]), 50)
    decisions = FreeIntervals(3, "balanced", power=power).offer(_of((0, 5, 1, 40), (0, 5, 9, 40)))
    assert [REASONS[code] for code in decisions.reason.tolist()] == [
        "no room before the power ends", "wider than the machine"]


def test_equal_submissions_by_the_thousand_and_parts_decide_as_at_once() -> None:
    n = 4_000
    jobs = AdmissionJobs(np.full(n, 9), np.full(n, 10), np.tile([1, 2], n // 2), np.full(n, 59))
    free = FreeIntervals(100, "balanced")
    halves = [answers(free.offer(jobs.take(rows))) for rows in (np.arange(n // 2), np.arange(n // 2, n))]
    whole = FreeIntervals(100, "balanced").offer(jobs)
    assert [*halves[0], *halves[1]] == answers(whole)
    assert faults(jobs, whole, 100) == []
    assert int((jobs.cores * whole.is_accepted).sum()) == 500  # 50 s on 100 cores, 10 s each


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="n_cores must be a whole number of at least 1"):
        FreeIntervals(0, "best-fit")
    with pytest.raises(ValueError, match=r"allocation must .*, got 'worst'"):
        FreeIntervals(1, "worst")
