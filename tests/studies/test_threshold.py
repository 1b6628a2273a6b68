"""Threshold acceptance: against its slow twin, by hand; golden constants and the equations that define them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_admission import answers, faults, naive_ends
from sojourn.simulator.admission import ALLOCATIONS, AdmissionJobs
from studies.threshold import THRESHOLD_REASONS, admit_threshold, threshold_constants


def _drawn(seed: int, n: int, span: int = 60) -> AdmissionJobs:
    """Sequential jobs of few lengths, so that there are ties; some deadlines cannot be met."""
    rng = np.random.default_rng(seed)
    submission, processing = rng.integers(0, span, n), rng.integers(1, 12, n)
    deadline = submission + processing + rng.integers(-1, 9, n)
    return AdmissionJobs(submission, processing, np.ones(n, np.int64), np.maximum(deadline, 0))


def _of(*rows: tuple[int, int, int, int]) -> AdmissionJobs:
    """Jobs as (submission, processing, cores, deadline)."""
    return AdmissionJobs(*np.array(rows).reshape(-1, 4).T)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n_cores=st.sampled_from([1, 2, 5, 20]), slack=st.sampled_from([0.1, 0.5, 1.0]),
       allocation=st.sampled_from(sorted(ALLOCATIONS)))
def test_it_decides_as_its_slow_twin(seed: int, n_cores: int, slack: float, allocation: str) -> None:
    jobs = _drawn(seed, 60)
    decisions = admit_threshold(jobs, n_cores, allocation, slack)
    factors = threshold_constants(n_cores, slack).factors.tolist()
    assert answers(decisions) == naive_ends(jobs, n_cores, allocation, factors)
    assert faults(jobs, decisions, n_cores) == []


def test_it_rejects_what_greedy_accepts() -> None:
    """One core, slack 0.5: f = 3. Load 10 at time 0: deadlines below 30 are rejected, although 10 + 5 fits in 29."""
    jobs = _of((0, 10, 1, 10), (0, 5, 1, 29), (0, 5, 1, 30))
    decisions = admit_threshold(jobs, 1, "best-fit", 0.5)
    assert decisions.is_accepted.tolist() == [True, False, True]
    assert THRESHOLD_REASONS[int(decisions.reason[1])] == "its deadline is below the threshold"
    assert decisions.offer_s[1] == 30


@pytest.mark.parametrize("allocation", sorted(ALLOCATIONS))
def test_the_offered_deadline_is_accepted_and_one_second_less_is_not(allocation: str) -> None:
    jobs = _drawn(7, 80, span=40)
    rows = np.flatnonzero(admit_threshold(jobs, 4, allocation, 0.5).offer_s >= 0).tolist()
    assert len(rows) > 10
    for row in rows:
        before = jobs.order()[: jobs.order().tolist().index(row) + 1]
        earlier = jobs.take(before)
        offer = int(admit_threshold(earlier, 4, allocation, 0.5).offer_s[-1])
        for deadline, is_accepted in ((offer, True), (offer - 1, False)):
            asked = AdmissionJobs(earlier.submission_s, earlier.processing_s, earlier.cores,
                                  np.append(earlier.deadline_s[:-1], deadline))
            assert admit_threshold(asked, 4, allocation, 0.5).is_accepted[-1] == is_accepted


def test_what_is_refused() -> None:
    jobs = _of((0, 1, 1, 9), (0, 1, 2, 9))
    with pytest.raises(ValueError, match=r"cores must .*, got 2 \(job 1\)"):
        admit_threshold(jobs, 2, "balanced", 0.5)
    with pytest.raises(ValueError, match=r"slack must .*, got 2.5"):
        admit_threshold(jobs.take(np.array([0])), 1, "best-fit", 2.5)
    with pytest.raises(ValueError, match=r"allocation must .*, got 'worst'"):
        admit_threshold(jobs.take(np.array([0])), 1, "worst", 0.5)



def _by_definition(factor: float, first: int, m: int) -> list[float]:
    """f_k .. f_m by the sums of the paper."""
    ratio, factors = (m * factor + 1) / first, [factor]
    for _ in range(first + 1, m + 1):
        factors.append((ratio * (first + sum(f - 1 for f in factors)) - 1) / m)
    return factors


@pytest.mark.parametrize("slack", [0.01, 0.1, 0.25, 2 / 7, 0.3, 0.5, 0.9, 1.0])
def test_closed_forms_of_one_and_two_cores(slack: float) -> None:
    assert threshold_constants(1, slack).ratio == pytest.approx(2 + 1 / slack, abs=1e-9)
    two = 1.5 + 1 / slack if slack >= 2 / 7 else 0.5 + 2 * math.sqrt(25 / 16 + 1 / slack)
    assert threshold_constants(2, slack).ratio == pytest.approx(two, abs=1e-6)


@pytest.mark.parametrize(("m", "first", "ratio"), [(3, 2, 6.658911), (10, 5, 4.912199), (100, 47, 4.362387)])
def test_golden_constants_at_a_tenth(m: int, first: int, ratio: float) -> None:
    found = threshold_constants(m, 0.1)
    assert found.first == first
    assert found.ratio == pytest.approx(ratio, abs=1e-6)


@pytest.mark.parametrize("m", [1, 2, 3, 7, 30, 200])
@pytest.mark.parametrize("slack", [1e-9, 1e-3, 0.07, 0.33, 0.77, 1.0])
def test_the_constants_solve_the_equations_with_the_smallest_k(m: int, slack: float) -> None:
    found = threshold_constants(m, slack)
    factors = _by_definition(float(found.factors[0]), found.first, m)
    assert found.factors[0] >= 2.0
    assert factors == pytest.approx(found.factors.tolist(), rel=1e-6)
    assert found.factors[-1] == pytest.approx((1 + slack) / slack)
    assert (np.diff(found.factors) > 0).all()
    if found.first > 1:  # already the least factor, 2, gives too much
        assert _by_definition(2.0, found.first - 1, m)[-1] > (1 + slack) / slack


def test_a_slack_of_1_counts_the_least_loaded_core_alone() -> None:
    found = threshold_constants(5, 1.0)
    assert (found.first, found.factors.tolist()) == (5, [2.0])


@pytest.mark.parametrize("slack", [0.0, -0.5, 1.001, float("nan")])
def test_other_slacks_are_refused(slack: float) -> None:
    with pytest.raises(ValueError, match=f"slack must be above 0 and at most 1 with threshold acceptance, got {slack}"):
        threshold_constants(5, slack)
    with pytest.raises(ValueError, match=r"n_cores must .*, got 0"):
        threshold_constants(0, 0.5)
