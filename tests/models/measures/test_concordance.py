"""Concordance against scikit-survival's, every pair by hand, and rows that are repeated."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sksurv.metrics import concordance_index_censored, concordance_index_ipcw
from sksurv.util import Surv

from naive_concordance import concordance_sums, harrell_c, uno_c
from sojourn.features.split import Examples
from sojourn.models.measures import Concordance, censoring_curve
from sojourn.models.measures.censoring import follow_up_s
from sojourn.models.outcomes import CensoringCurve


def _rows(lifetime_s: np.ndarray, is_event: np.ndarray, entry_s: np.ndarray | None = None) -> Examples:
    n = len(lifetime_s)
    return Examples(np.zeros((n, 1)), (), lifetime_s.astype(float), is_event,
                    np.zeros(n) if entry_s is None else entry_s, np.zeros(n, np.int64), np.arange(n))


def _drawn(seed: int, n: int = 300, levels: int = 20) -> tuple[Examples, np.ndarray]:
    """Whole seconds with many ties, a third censored, scores of few levels."""
    rng = np.random.default_rng(seed)
    true_s, censor_s = rng.integers(1, 30, n), rng.integers(1, 60, n)
    rows = _rows(np.minimum(true_s, censor_s), true_s <= censor_s)
    return rows, np.floor(true_s / 30 * levels / 2 + rng.integers(0, levels, n) / 2)


@pytest.mark.parametrize("seed", range(5))
def test_harrell_is_scikit_survivals(seed: int) -> None:
    rows, score = _drawn(seed)
    expected = concordance_index_censored(rows.is_event, rows.lifetime_s, -score)[0]
    assert harrell_c(rows, score) == pytest.approx(expected, abs=1e-12)
    assert 0.55 < expected < 0.95


@pytest.mark.parametrize("seed", range(5))
def test_uno_is_scikit_survivals(seed: int) -> None:
    rows, score = _drawn(seed)
    # censored half a second later: many ties, but none of an end with one censored, where the two differ
    rows = dataclasses.replace(rows, lifetime_s=rows.lifetime_s + 0.5 * ~rows.is_event)
    tau_s = follow_up_s(rows)
    known = Surv.from_arrays(rows.is_event, rows.lifetime_s)
    assert uno_c(rows, score) == pytest.approx(concordance_index_ipcw(known, known, -score, tau_s)[0], abs=1e-12)
    assert abs(uno_c(rows, score) - harrell_c(rows, score)) > 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_uno_at_equal_times_is_scikit_survivals_but_for_its_curve(seed: int) -> None:
    rows, score = _drawn(seed)
    known = Surv.from_arrays(rows.is_event, rows.lifetime_s)
    curve = censoring_curve(rows)
    late = CensoringCurve(curve.times_s - 0.5, curve.probability)  # its G(t-) is G(t)
    tau_s = follow_up_s(rows)
    expected = concordance_index_ipcw(known, known, -score, tau_s)[0]
    assert uno_c(rows, score, curve=late, tau_s=tau_s) == pytest.approx(expected, abs=1e-12)


def test_an_end_and_one_censored_at_the_same_second_by_hand() -> None:
    # G(2-) = 1: the end at 2 comes before the other is censored, one of the three left: G(3-) = 2/3
    rows = _rows(np.array([2, 2, 3, 4]), np.array([True, False, True, True]))
    score = np.array([1.0, 0.0, 3.0, 2.0])
    # led by the end at 2: 0 below (wrong), 3 and 2 above (right); by the end at 3: 2 is below (wrong)
    assert harrell_c(rows, score) == pytest.approx(2 / 4)
    assert uno_c(rows, score, tau_s=9.0) == pytest.approx(2 / (3 + (3 / 2) ** 2))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.integers(0, 5), st.integers(0, 4), st.integers(0, 3)),
                min_size=1, max_size=25))
def test_the_sweep_is_what_every_pair_gives(cells: list[tuple[int, bool, int, int, int]]) -> None:
    time_s, is_event, entry_s, score, weight = (np.array(column) for column in zip(*cells, strict=True))
    rows = _rows(time_s, is_event, np.minimum(entry_s, time_s - 1).astype(float))
    prepared = Concordance.of(rows, score.astype(float), tau_s=5.0)
    uno = np.empty(len(rows))
    uno[prepared.order] = prepared.rows.uno
    sums = concordance_sums(rows.lifetime_s.tolist(), is_event.tolist(), rows.entry_s.tolist(), score.tolist(),
                            weight.tolist(), uno.tolist())
    expected = (sums[0] / sums[1] if sums[1] else np.nan, sums[2] / sums[3] if sums[3] else np.nan)
    assert prepared.both(weight) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("seed", range(3))
def test_a_weight_is_that_many_rows(seed: int) -> None:
    rows, score = _drawn(seed, 120)
    times = np.random.default_rng(seed).integers(0, 4, 120)
    repeated = np.repeat(np.arange(120), times)
    curve, tau_s = censoring_curve(rows), follow_up_s(rows)
    assert harrell_c(rows, score, times) == pytest.approx(
        concordance_index_censored(rows.is_event[repeated], rows.lifetime_s[repeated], -score[repeated])[0])
    assert uno_c(rows, score, times, curve=curve, tau_s=tau_s) == pytest.approx(
        uno_c(rows.take(repeated), score[repeated], curve=curve, tau_s=tau_s))


def test_a_late_entry_is_compared_from_its_entry_on() -> None:
    # the second came under observation at 3: the end at 2 says nothing of it, that at 4 does
    rows = _rows(np.array([2, 5, 4]), np.ones(3, bool), np.array([0.0, 3.0, 0.0]))
    assert harrell_c(rows, np.array([9.0, 5.0, 4.0])) == pytest.approx(1 / 2)  # 2 < 4 wrong, 4 < 5 right


def test_uno_recovers_what_no_censoring_would_have_shown() -> None:
    rng = np.random.default_rng(4)
    n = 40_000
    group = rng.integers(0, 2, n)  # early ends are easy to tell, late ones are not
    true_s = np.where(rng.random(n) < 0.4, rng.exponential(np.where(group == 0, 20.0, 200.0)),
                      rng.uniform(50.0, 300.0, n))
    censor_s = rng.exponential(80.0, n)
    rows = _rows(np.minimum(true_s, censor_s), true_s <= censor_s)
    whole = _rows(true_s, np.ones(n, bool))
    score = group + 0.001 * np.minimum(true_s, 50.0)
    truth = uno_c(whole, score, tau_s=150.0)
    assert uno_c(rows, score, tau_s=150.0) == pytest.approx(truth, abs=0.01)
    assert abs(harrell_c(rows, score) - truth) > 0.05


def test_nothing_to_compare_is_nan() -> None:
    rows = _rows(np.array([2, 3]), np.zeros(2, bool))
    assert np.isnan(Concordance.of(rows, np.zeros(2)).both()).all()
    assert np.isnan(Concordance.of(rows.take(np.empty(0, np.int64)), np.empty(0)).both()).all()
