"""Curves of the generator's true distributions."""

import numpy as np
import pytest

import sojourn.simulator as sim
from sojourn.features.synthetic import LifetimeMixtures, synthesize_with_truth
from sojourn.flows.placement.predictors import UPTIMES_S, mixture_curves, truth_source


def test_curves_hold_the_closed_forms() -> None:
    mixtures = LifetimeMixtures(np.array([[0.3, 0.7]]), np.log([[86_400.0, 330.0]]), np.array([0.7]))
    curves = mixture_curves(mixtures)
    assert curves.overhang_s is not None
    for k, uptime_s in enumerate(UPTIMES_S[:-1].tolist()):
        total_s = uptime_s + int(mixtures.remaining_s(float(uptime_s))[0])
        assert curves.total_s[k] == max(total_s, UPTIMES_S[k + 1])
        assert curves.overhang_s[k] == pytest.approx(mixtures.overhang_s(float(uptime_s))[0], abs=0.51)
    # the mean at the start, 0.3 x 86,400 e^(0.7^2 / 2) + 0.7 x 330 e^(0.7^2 / 2) s
    assert curves.total_at(0, 0) == 33_411


def test_a_workload_gets_the_curves_of_its_requests() -> None:
    trace, mixtures = synthesize_with_truth(2_000, seed=3, days=7)
    workload = sim.build_workload("synthetic", trace)
    curves = truth_source(trace, mixtures).curves(workload.trace.requests)
    row = 1_234
    original = int(np.flatnonzero(trace.requests["request_id"] == workload.request_ids[row])[0])
    assert curves.total_at(row, 600) >= 600
    k = int(np.searchsorted(UPTIMES_S, 600, side="right")) - 1
    expected_s = int(UPTIMES_S[k]) + int(mixtures.take(np.array([original])).remaining_s(float(UPTIMES_S[k]))[0])
    assert curves.total_at(row, 600) == max(expected_s, int(UPTIMES_S[k + 1]))
    assert sim.simulate(workload, "nilas-expected", truth_source(trace, mixtures)).metrics.n_rejected == 0
