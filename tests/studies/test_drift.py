"""A trace served under a rule that says when to retrain (`studies/drift`): nothing of the future in an alarm."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.features import Trace
from sojourn.features.synthetic import Drift, SyntheticParameters, synthesize
from sojourn.models.drift import DAY_S, DETECTORS, MONITOR_DETECTOR
from sojourn.models.lifetime import HazardModel
from studies.drift import retraining


def known_until(trace: Trace, day: int) -> Trace:
    """What was known of a trace at a day's begin."""
    table = trace.requests.loc[trace.start_s() < day * DAY_S].reset_index(drop=True)
    table["departure_s"] = table["departure_s"].mask(table["departure_s"] > day * DAY_S)
    return Trace(table, day * DAY_S, trace.roles, meta=trace.meta)


def model_of(served: retraining.Served, day: int) -> HazardModel:
    model = served.fitted(day)
    assert model is not None
    return model


@pytest.mark.slow
def test_alarms_and_models_are_those_of_a_trace_that_ends_there() -> None:
    trace = synthesize(12_000, seed=4, days=80, parameters=SyntheticParameters(drift_per_week=0.0),
                       drifts=(Drift("step", 60.0, 4.0),)).since_begin()
    whole = retraining.Served.of(trace, 28, 28)
    result = retraining.run(whole, model_of(whole, 28), DETECTORS[MONITOR_DETECTOR](), (3,))
    assert result.alarms and 60 <= result.alarms[0] <= 66
    end_day = result.alarms[0] + 1
    part = retraining.Served.of(known_until(trace, end_day), 28, 28)
    first, again = model_of(whole, 28), model_of(part, 28)
    assert first.boosted_.text == again.boosted_.text
    early = retraining.run(part, again, DETECTORS[MONITOR_DETECTOR](), (3,))
    assert early.alarms == [day for day in result.alarms if day < end_day]
    assert model_of(whole, end_day).boosted_.text == model_of(part, end_day).boosted_.text


@pytest.mark.slow
def test_perfect_knowledge_is_not_beaten_and_covers_what_it_says() -> None:
    from sojourn.features.synthetic import synthesize_with_truth

    trace, truth = synthesize_with_truth(12_000, seed=5, days=60)
    served = retraining.Served.of(trace, 28, 28)
    never = retraining.summary(served, retraining.run(served, model_of(served, 28), None))
    perfect = retraining.summary(served, retraining.truth_run(served, truth))
    assert perfect["brier"] < never["brier"]
    assert perfect["coverage"] == pytest.approx(0.8, abs=0.02)
    assert np.isfinite(perfect["weeks"]["brier"][:4]).all()
