"""Predicted processing times: nothing of the day or later changes them, the past does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from made_bundles import make, rewrite
from made_jobs import swf_log
from sojourn.features import Trace
from sojourn.features.readers import read_trace
from sojourn.features.synthetic import synthesize
from sojourn.flows.admission.predicted import (
    ProcessingPredictor,
    as_known,
    bundle_predictor,
    fitted_predictor,
)
from sojourn.flows.admission.runs import DAY_S, jobs_by_day, submitted_jobs

DAY = 3


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return read_trace("swf", swf_log(tmp_path / "log.swf", 900, days=6))[0]


def _quantiles(trace: Trace, family: str = "km") -> np.ndarray:
    rows = np.flatnonzero(trace.requests["submit_s"].to_numpy() // DAY_S == DAY)
    return fitted_predictor(trace, family, DAY * DAY_S).quantiles(rows, DAY * DAY_S, (0.5, 0.9))


def _with_other_ends(trace: Trace, is_changed: np.ndarray) -> Trace:
    """Those requests run three times as long."""
    table = trace.requests.copy()
    longer = table["arrival_s"] + 3 * (table["departure_s"] - table["arrival_s"])
    table["departure_s"] = table["departure_s"].where(~is_changed, longer)
    return Trace(table, int(table["departure_s"].max()), trace.roles, meta=trace.meta)


@pytest.mark.parametrize("family", ["km", pytest.param("hazard", marks=pytest.mark.slow)])
def test_what_ends_after_the_day_began_changes_no_prediction(trace: Trace, family: str) -> None:
    is_later = trace.end_s() > DAY * DAY_S
    changed = _with_other_ends(trace, is_later)
    assert (changed.end_s() != trace.end_s()).sum() > 200
    assert (_quantiles(changed, family) == _quantiles(trace, family)).all()


def test_later_submissions_change_no_prediction(trace: Trace) -> None:
    is_kept = trace.requests["submit_s"].to_numpy() < (DAY + 1) * DAY_S
    assert (_quantiles(trace.select(is_kept)) == _quantiles(trace)).all()


def test_the_past_changes_predictions_and_quantiles_rise(trace: Trace) -> None:
    found = _quantiles(trace)
    assert (found[1] >= found[0]).all() and (found >= 1).all()
    other = _quantiles(_with_other_ends(trace, trace.end_s() <= DAY * DAY_S - 30_000))
    assert other.mean() > 1.5 * found.mean()


def test_what_was_not_known_is_not_there(trace: Trace) -> None:
    cut = DAY * DAY_S
    rows = jobs_by_day(submitted_jobs(trace))[DAY].row
    known = as_known(trace, cut, rows)
    assert known.requests["departure_s"].max() <= cut
    submitted = known.requests["submit_s"].to_numpy()
    assert ((submitted < cut) | known.requests["request_id"].isin(trace.requests["request_id"].iloc[rows])).all()
    begun_later = known.requests[known.requests["arrival_s"] > cut]
    assert (begun_later["arrival_s"] == begun_later["submit_s"]).all() and len(begun_later) > 50


def test_what_is_refused(trace: Trace, tmp_path: Path) -> None:
    predictor = fitted_predictor(trace, "km", DAY * DAY_S)
    rows = jobs_by_day(submitted_jobs(trace))
    with pytest.raises(ValueError, match=f"day_start_s must be at least {DAY * DAY_S}"):
        predictor.quantiles(rows[DAY - 1].row, (DAY - 1) * DAY_S, (0.5,))
    with pytest.raises(ValueError, match="rows must be submitted at"):
        predictor.quantiles(rows[DAY - 1].row, DAY * DAY_S, (0.5,))
    with pytest.raises(ValueError, match="predict must be estimate, bundle:FOLDER or one of km"):
        fitted_predictor(trace, "crystal", DAY * DAY_S)
    with pytest.raises(ValueError, match="at least 100 requests before second 60, got"):
        fitted_predictor(trace, "km", 60)
    with pytest.raises((FileNotFoundError, ValueError)):
        bundle_predictor(trace, str(tmp_path / "none"), DAY * DAY_S, "")


def test_order_of_rows_is_that_of_the_answers(trace: Trace) -> None:
    rows = jobs_by_day(submitted_jobs(trace))[DAY].row
    predictor = fitted_predictor(trace, "km", DAY * DAY_S)
    found = predictor.quantiles(rows, DAY * DAY_S, (0.5,))[0]
    by_row = pd.Series(found, rows)
    back = predictor.quantiles(rows[::-1].copy(), DAY * DAY_S, (0.5,))[0]
    assert back.tolist() == by_row.loc[rows[::-1]].tolist()


def test_a_bundle_answers_about_days_after_its_training_only(tmp_path: Path) -> None:
    trace = synthesize(1_500, seed=3).since_begin()  # as the made bundle, which has no dates
    folder, day = make(tmp_path, has_limits=False).folders["hazard"], 20
    rows = np.flatnonzero(trace.requests["arrival_s"].fillna(0).to_numpy(np.int64) // DAY_S == day)

    def trained(to_s: int, content_hash: str = "own") -> ProcessingPredictor:
        schema = json.loads((folder / "schema.json").read_bytes())
        training = {"content_hash": content_hash, "to_s": to_s}
        rewrite(folder, "schema.json", json.dumps({**schema, "training": training}, sort_keys=True).encode())
        return bundle_predictor(trace, str(folder), day * DAY_S, "own")

    found = trained(day * DAY_S).quantiles(rows, day * DAY_S, (0.5, 0.9))
    assert found.shape == (2, len(rows)) and len(rows) > 10 and (found[1] >= found[0]).all()
    assert (trained(30 * DAY_S, "another").quantiles(rows, day * DAY_S, (0.5, 0.9)) == found).all()
    with pytest.raises(ValueError, match=f"must be trained on requests before second {day * DAY_S}"):
        trained(day * DAY_S + 1)
