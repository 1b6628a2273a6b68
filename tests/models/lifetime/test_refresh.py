"""A model for running requests is kept where it gains: on a trace whose truth is known, and not on too few ends."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Roles, Trace
from sojourn.features.creation import FeatureRows, backoff_keys, build_rows, default_encoder
from sojourn.features.refreshed import RefreshedRows, refreshed_rows
from sojourn.features.split import Split, split_by_time
from sojourn.models import FitSettings
from sojourn.models.lifetime import AgeGain, Refresh, fit_refresh
from sojourn.models.lifetime.baselines import KaplanMeierModel
from sojourn.serving.inputs import Encoder

N_BURSTS, N_SIBLINGS = 700, 6


def _bursts(is_alike: bool) -> Trace:
    """Bursts of six requests within 5 minutes, of 30 owners in turns. All six of a burst stay 20 to 80 minutes, or 10
    to 20 hours, with equal chance; not alike: each of the six draws for itself."""
    rng = np.random.default_rng(3)
    n = N_BURSTS * N_SIBLINGS
    burst = np.repeat(np.arange(N_BURSTS), N_SIBLINGS)
    is_long = rng.random(N_BURSTS)[burst] < 0.5 if is_alike else rng.random(n) < 0.5
    lifetime_s = np.where(is_long, rng.integers(36_000, 72_000, n), rng.integers(1_200, 4_800, n))
    arrival_s = np.sort(burst * 7_200 + rng.integers(0, 300, n))
    horizon_s = int(arrival_s[-1]) + 80_000
    return Trace(pd.DataFrame({
        "request_id": [f"r{idx}" for idx in range(n)], "arrival_s": arrival_s,
        "departure_s": pd.array(arrival_s + lifetime_s, "Int64"), "cpu_cores": 1.0, "mem_gib": 1.0,
        "user": [f"u{owner}" for owner in burst % 30],
    }), horizon_s, Roles(owners=("user",)))


def _made(trace: Trace) -> tuple[Encoder, FeatureRows, Split, RefreshedRows, FitSettings]:
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    return (encoder, rows, split_by_time(rows), refreshed_rows(trace, encoder, rows),
            FitSettings(backoff_keys(encoder), n_threads=1, names=rows.names))


def _fitted(is_alike: bool) -> tuple[Refresh, tuple[AgeGain, ...]]:
    encoder, _, split, aged, settings = _made(_bursts(is_alike))
    served = KaplanMeierModel().fit(split.train, split.valid, split.past, settings)
    refresh = fit_refresh(split, aged, settings, served.validation_table_, encoder.history)
    return refresh, refresh.gains_on(split.test, aged, served.curve_table(split.test), encoder.history, 0)


@pytest.mark.slow
def test_what_siblings_did_since_is_learnt() -> None:
    """At 1 h, of a short burst's six on average 4 have ended; of a long one's none: the two kinds can be told apart."""
    refresh, on_test = _fitted(is_alike=True)
    assert 3_600 in refresh.ages_s
    exported = refresh.export()
    assert exported is not None and exported.ages_s == refresh.ages_s
    tested = {gain.age_s: gain for gain in on_test}
    assert list(tested) == [gain.age_s for gain in refresh.gains]
    assert tested[3_600].refreshed < 0.7 * tested[3_600].held
    assert tested[3_600].mae_refreshed < 0.7 * tested[3_600].mae_held
    assert tested[3_600].scores()["refresh_1h.ibs"] == tested[3_600].refreshed
    assert "refreshed at" in refresh.text()
    # nobody was asked about before 10 min: until then a request lives, whatever its owner did
    assert refresh.model is not None
    axis = refresh.model.axis_.intervals
    n_before = int((axis.edges[1:] <= 600.0).sum())
    assert n_before >= 3
    np.testing.assert_allclose(1.0 / (1.0 + np.exp(-axis.offsets[:n_before])), 1e-6)
    assert axis.offsets[n_before] > -8.0


@pytest.mark.slow
def test_nothing_is_served_where_there_is_nothing_to_learn() -> None:
    """Each request drew for itself, so an owner's history tells nothing at 10 min and 1 h. (At 6 h only long ones are
    left, and a lookup table by key is too noisy a curve of them: there even a pooled one is better.)"""
    refresh, _ = _fitted(is_alike=False)
    assert [gain.age_s for gain in refresh.gains][:2] == [600, 3_600]
    assert not {600, 3_600} & {*refresh.ages_s}


def test_a_gain_on_few_ends_is_none() -> None:
    assert AgeGain(600, 120, 100, 0.12, 0.11, 0.002).is_gain
    assert not AgeGain(600, 120, 99, 0.12, 0.11, 0.002).is_gain
    assert not AgeGain(600, 120, 100, 0.12, 0.119, 0.002).is_gain
    assert not AgeGain(600, 120, 100, 0.12, 0.11, float("inf")).is_gain
    assert AgeGain(600, 120, 100, 0.12, 0.11, float("inf")).document()["error"] is None
