"""Jobs and slacks: what is refused, and that deadlines are what section 1.1 says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sojourn.simulator.admission import AdmissionJobs, deadlines_of, drawn_slacks


def _jobs(submission: Sequence[float] = (0, 0), processing: Sequence[float] = (5, 5), cores: Sequence[float] = (1, 1),
          deadline: Sequence[float] = (9, 9), names: tuple[str, ...] = ()) -> AdmissionJobs:
    return AdmissionJobs(np.array(submission), np.array(processing), np.array(cores), np.array(deadline), names)


@pytest.mark.parametrize(("given", "words"), [
    ({"processing": (5, 0)}, r"processing_s must be a whole number of at least 1 and below 2\*\*40, got 0 \(job b\)"),
    ({"processing": (-3, 5)}, r"processing_s .* got -3 \(job a\)"),
    ({"submission": (0, -1)}, r"submission_s .* at least 0 .* got -1 \(job b\)"),
    ({"deadline": (9, -2)}, r"deadline_s .* got -2 \(job b\)"),
    ({"cores": (0, 1)}, r"cores .* at least 1 .* got 0 \(job a\)"),
    ({"cores": (1, float("nan"))}, r"cores .* got nan \(job b\)"),
    ({"processing": (5, 2.5)}, r"processing_s must be a whole number .* got 2.5 \(job b\)"),
    ({"deadline": (9, float("inf"))}, r"deadline_s .* got inf \(job b\)"),
    ({"deadline": (9, 2**40)}, r"deadline_s .* got 1099511627776 \(job b\)"),
    ({"deadline": (9,)}, r"deadline_s must be one number a job, got shape \(1,\) for 2 jobs"),
    ({"names": ("a",)}, "names must be one a job, got 1 for 2 jobs"),
])
def test_a_bad_job_is_named_with_the_rule_and_the_value(given: dict[str, tuple[float, ...]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _jobs(**{"names": ("a", "b"), **given})  # type: ignore[arg-type]


def test_text_is_no_time() -> None:
    with pytest.raises(ValueError, match="submission_s must be numbers, got <U1"):
        AdmissionJobs(np.array(["0"]), np.array([1]), np.array([1]), np.array([1]))


def test_whole_floats_are_taken_and_jobs_are_ordered_by_submission_then_index() -> None:
    jobs = _jobs((7.0, 0.0, 7.0), (5, 5, 5), (1, 1, 1), (20, 20, 20))
    assert jobs.submission_s.dtype == np.int64
    assert jobs.order().tolist() == [1, 0, 2]
    assert jobs.take(np.array([2, 1])).submission_s.tolist() == [7, 0]


def test_no_jobs_have_no_load_and_no_frame() -> None:
    nothing = _jobs((), (), (), ())
    assert (len(nothing), nothing.load_s, nothing.frame_s) == (0, 0, 0)


def test_a_slack_of_0_gives_the_earliest_deadline_exactly_at_any_length() -> None:
    processing = np.array([1, 7, 10**6 + 1, 2**39 - 1])
    assert deadlines_of(np.arange(4), processing, np.zeros(4)).tolist() == (np.arange(4) + processing).tolist()
    assert deadlines_of(np.array([10]), np.array([60]), np.array([1.5])).tolist() == [160]


def test_both_means_are_of_the_slacks_themselves() -> None:
    geometric = drawn_slacks(200_000, 0.5, 0.25, np.random.default_rng(1))
    arithmetic = drawn_slacks(200_000, 0.5, 0.25, np.random.default_rng(1), mean="arithmetic")
    assert np.exp(np.log(geometric).mean()) == pytest.approx(0.5, rel=0.002)
    assert arithmetic.mean() == pytest.approx(0.5, rel=0.002)
    assert np.log(arithmetic).std() == pytest.approx(0.25, rel=0.005)


def test_a_target_of_0_draws_slacks_of_0_and_one_above_1_is_taken() -> None:
    assert drawn_slacks(3, 0.0, 0.5, np.random.default_rng(0)).tolist() == [0.0] * 3
    assert drawn_slacks(3, 2.5, 0.0, np.random.default_rng(0)).tolist() == [2.5] * 3


@pytest.mark.parametrize(("target", "sigma", "mean", "words"), [
    (-0.1, 0.2, "geometric", "slack must be finite and at least 0, got -0.1"),
    (float("nan"), 0.2, "geometric", "slack must be finite"),
    (0.5, -1.0, "geometric", "sigma must be finite and at least 0, got -1.0"),
    (0.5, 0.2, "harmonic", "mean must be geometric or arithmetic, got 'harmonic'"),
])
def test_what_is_no_slack_is_refused(target: float, sigma: float, mean: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        drawn_slacks(2, target, sigma, np.random.default_rng(0), mean=mean)
    with pytest.raises(ValueError, match=r"slack must .*, got -0.5"):
        deadlines_of(np.zeros(1), np.ones(1), np.array([-0.5]))
