"""Injected drifts: nothing changes before them, and lifetimes change as stated after."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Trace
from sojourn.features.synthetic import Drift, LifetimeMixtures, log_factor
from sojourn.features.synthetic import synthesize_with_truth as dated_with_truth
from sojourn.features.trace import DAY_S


def synthesize_with_truth(n_requests: int, **settings: Any) -> tuple[Trace, LifetimeMixtures]:
    """The synthetic trace with its times from 0, and its truth."""
    trace, truth = dated_with_truth(n_requests, **settings)
    return trace.since_begin(), truth


def synthesize(n_requests: int, **settings: Any) -> Trace:
    return synthesize_with_truth(n_requests, **settings)[0]


def by_arrival(trace: Trace) -> pd.DataFrame:
    table = trace.requests[["arrival_s", "subscription", "departure_s"]].astype({"subscription": str})
    return table[trace.is_start_known()]


@pytest.mark.parametrize("drift", [Drift("step", 10.0), Drift("ramp", 10.0, 0.5, 5.0), Drift("spike", 10.0, days=2.0),
                                   Drift("owners", 10.0)], ids=lambda drift: str(drift.shape))
def test_before_a_drift_the_trace_is_the_one_without(drift: Drift) -> None:
    plain, drifted = (by_arrival(synthesize(6_000, seed=3, days=20, drifts=drifts)) for drifts in ((), (drift,)))
    is_before = [table["arrival_s"] < 9.9 * DAY_S for table in (plain, drifted)]
    # which requests are thinned may differ by those that a drift lets live to time 0
    pd.testing.assert_frame_equal(plain[is_before[0]].reset_index(drop=True),
                                  drifted[is_before[1]].reset_index(drop=True))
    assert not plain[~is_before[0]].reset_index(drop=True).equals(drifted[~is_before[1]].reset_index(drop=True))


def test_a_step_multiplies_lifetimes() -> None:
    plain, drifted = (synthesize_with_truth(6_000, seed=3, days=20, drifts=drifts)
                      for drifts in ((), (Drift("step", 10.0, 3.0),)))
    is_after = drifted[0].start_s() >= 10 * DAY_S
    np.testing.assert_allclose((drifted[1].log_median - plain[1].log_median)[is_after], np.log(3.0))
    both = is_after & plain[0].is_event() & drifted[0].is_event() & (plain[0].lifetime_s() > 300)
    ratio = drifted[0].lifetime_s()[both] / plain[0].lifetime_s()[both]
    np.testing.assert_allclose(ratio, 3.0, rtol=0.01)
    assert drifted[0].meta["drifts"][0]["factor"] == 3.0 and "drifts" not in plain[0].meta


def test_new_owners_bring_long_requests() -> None:
    drifted = synthesize(12_000, seed=3, days=20, drifts=(Drift("owners", 10.0, share=0.5),))
    is_known = drifted.is_start_known()
    names = drifted.requests["subscription"].astype(str)
    is_after = is_known & (drifted.start_s() >= 10 * DAY_S)
    is_new = is_after & ~names.isin(names[~is_after])
    assert 0.25 < is_new.sum() / is_after.sum() < 0.5
    assert (drifted.lifetime_s()[is_new] > 3_600).mean() > 0.5


def test_a_spike_passes() -> None:
    found = log_factor([Drift("spike", 1.0, 4.0, 2.0)], np.array([0.99, 1.0, 2.99, 3.0]) * DAY_S)
    np.testing.assert_allclose(np.exp(found), [1.0, 4.0, 4.0, 1.0])


@pytest.mark.parametrize(("given", "message"), [
    ({"shape": "jump"}, "shape must be one of step, ramp, spike, owners, got 'jump'"),
    ({"shape": "step", "factor": 0.0}, "factor must be above 0 and finite, got 0.0"),
    ({"shape": "step", "factor": np.inf}, "factor must be above 0 and finite, got inf"),
    ({"shape": "ramp"}, "days of a ramp must be above 0, got 0.0"),
    ({"shape": "owners", "share": 1.0}, "share must be between 0 and 1, got 1.0"),
])
def test_impossible_drifts_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Drift(from_day=1.0, **given)  # type: ignore[arg-type]
