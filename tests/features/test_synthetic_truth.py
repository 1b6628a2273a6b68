"""The generator's true distributions: closed forms against numerical integrals, and the lifetimes drawn from them."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sojourn.features import Trace
from sojourn.features.synthetic import LifetimeMixtures, SyntheticParameters, synthesize, synthesize_with_truth

TWO_WAYS = LifetimeMixtures(np.array([[0.3, 0.7], [1.0, 0.0]]), np.log([[86_400.0, 330.0], [600.0, 600.0]]),
                            np.array([0.7, 0.55]))


def survival_of(mixtures: LifetimeMixtures, row: int, uptime_s: float) -> float:
    ways = zip(mixtures.weight[row], mixtures.log_median[row], strict=True)
    return float(sum(w * norm.sf(np.log(uptime_s), m, mixtures.spread[row]) for w, m in ways))


@pytest.mark.parametrize("uptime_s", [1.0, 100.0, 330.0, 5_000.0, 86_400.0, 400_000.0])
@pytest.mark.parametrize("row", [0, 1])
def test_closed_forms_are_the_integrals(row: int, uptime_s: float) -> None:
    """E[max(T - u, 0)] is the integral of the survival function from u on."""
    survival = survival_of(TWO_WAYS, row, uptime_s)
    edges = np.log(uptime_s) + np.arange(0.0, 30.0, 1.0)
    overhang = sum(quad(lambda x: np.exp(x) * survival_of(TWO_WAYS, row, np.exp(x)), low, low + 1.0)[0]
                   for low in edges)
    assert TWO_WAYS.survival(uptime_s)[row] == pytest.approx(survival, rel=1e-12)
    assert TWO_WAYS.overhang_s(uptime_s)[row] == pytest.approx(overhang, rel=1e-8)
    assert TWO_WAYS.remaining_s(uptime_s)[row] == pytest.approx(overhang / survival, rel=1e-8)


def test_the_means_are_of_the_lognormal() -> None:
    # 0.3 x 86,400 e^(0.7^2 / 2) + 0.7 x 330 e^(0.7^2 / 2) = 26,151 x 1.27762; 600 e^(0.55^2 / 2) = 600 x 1.16329
    assert TWO_WAYS.remaining_s(0.0) == pytest.approx([33_411.0, 697.97], abs=0.5)
    assert TWO_WAYS.survival(0.0).tolist() == [1.0, 1.0]


def test_far_tails_stay_exact() -> None:
    """At z spreads beyond the median u (M(-z + s) / M(-z) - 1) with M(-z) = 1 / (z + 1 / (z + 2 / (z + 3 / ...)))."""
    def mills(z: float) -> float:
        fraction = z
        for k in range(400, 0, -1):
            fraction = z + k / fraction
        return 1.0 / fraction

    for z in (5.0, 12.0, 60.0):
        uptime_s = 600.0 * np.exp(0.55 * z)
        assert TWO_WAYS.remaining_s(uptime_s)[1] == pytest.approx(uptime_s * (mills(z - 0.55) / mills(z) - 1), rel=1e-9)


def test_uptimes_may_be_one_each() -> None:
    both = TWO_WAYS.remaining_s(np.array([100.0, 5_000.0]))
    assert both.tolist() == [TWO_WAYS.remaining_s(100.0)[0], TWO_WAYS.remaining_s(5_000.0)[1]]


@pytest.fixture(scope="module", params=[0, 1])
def made(request: pytest.FixtureRequest) -> tuple[Trace, LifetimeMixtures]:
    # 84 days, so that hardly any of those that arrive in the first 28 is censored
    trace, truth = synthesize_with_truth(60_000, seed=request.param, days=84)
    return trace.since_begin(), truth


def test_lifetimes_are_uniform_in_their_own_distribution(made: tuple[Trace, LifetimeMixtures]) -> None:
    trace, truth = made
    is_asked = trace.is_start_known() & (trace.start_s() >= 0) & (trace.start_s() < 28 * 86_400)
    assert trace.is_event()[is_asked].mean() > 0.9998
    # whole seconds are cut, so the middle of the second
    share = truth.take(np.flatnonzero(is_asked)).survival(trace.lifetime_s()[is_asked] + 0.5)
    n = is_asked.sum()
    found = np.histogram(share, 20, (0.0, 1.0))[0]
    # Binomial(n, 1/20) in each: 4.5 standard deviations, of 20 bins one in 7,000
    assert np.abs(found - n / 20).max() < 4.5 * np.sqrt(n / 20 * 19 / 20)
    for kind in (truth.spread[is_asked] == 0.4, truth.weight[is_asked, 0] < 0.8):
        assert abs(share[kind].mean() - 0.5) < 4.5 / np.sqrt(12 * kind.sum())


def test_what_runs_at_0_is_uniform_above_its_age(made: tuple[Trace, LifetimeMixtures]) -> None:
    trace, truth = made
    idx = np.flatnonzero((trace.start_s() < 0) & trace.is_event())
    age_s = -trace.start_s()[idx]
    ran = truth.take(idx)
    share = ran.survival(trace.lifetime_s()[idx] + 0.5) / ran.survival(age_s.astype(np.float64))
    assert len(idx) > 100
    assert abs(share.mean() - 0.5) < 4.5 / np.sqrt(12 * len(idx))
    # they are survivors: by their distributions at the start they would lie far too low
    assert ran.survival(trace.lifetime_s()[idx] + 0.5).mean() < 0.4


def test_the_trace_is_that_of_synthesize() -> None:
    trace, truth = synthesize_with_truth(3_000, seed=4, days=7)
    assert trace.requests.equals(synthesize(3_000, seed=4, days=7).requests)
    assert len(truth) == len(trace)
    assert (truth.weight.sum(axis=1) == 1.0).all()


def test_rows_follow_their_requests() -> None:
    """Without spread within a deployment each lifetime is one of its two medians, also after sorting and thinning."""
    narrow = SyntheticParameters(within_spread=(1e-9, 1e-9, 1e-9, 1e-9), unknown_start_share=0.5)
    trace, truth = synthesize_with_truth(3_000, seed=4, days=28, parameters=narrow)
    is_asked = trace.is_start_known() & trace.is_event()
    medians = np.exp(truth.log_median[is_asked])
    assert (~trace.is_start_known()).any()
    assert (np.abs(medians - trace.lifetime_s()[is_asked][:, None] - 0.5).min(axis=1) < 0.51).all()
