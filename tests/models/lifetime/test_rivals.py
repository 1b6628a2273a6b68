"""Rivals of other papers: their answers by hand, nothing of the future, and a forest's leaves as a curve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Roles, Trace
from sojourn.features.creation import FeatureRows, backoff_keys, build_rows, default_encoder
from sojourn.features.split import Examples, split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models.lifetime import LIFETIME_MODELS, EventLog, FitSettings
from sojourn.models.lifetime.rivals import LastTwoModel, LeavesModel, MedianModel
from sojourn.models.measures import BrierOverAges
from sojourn.serving.inputs import Encoder


def _read(trace: Trace) -> tuple[Encoder, FeatureRows, FitSettings]:
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    return encoder, rows, FitSettings(backoff_keys(encoder), 1, 0, names=rows.names,
                                      log=EventLog.of(rows, encoder.history))


def _jobs(lines: list[tuple[int, int, str, float]]) -> Trace:
    """Of start, end, user and limit."""
    table = pd.DataFrame(lines, columns=["arrival_s", "departure_s", "user", "requested_s"])
    table.insert(0, "request_id", range(len(table)))
    table["cpu_cores"], table["mem_gib"] = 1.0, 1.0
    return Trace(table, 100_000, Roles(owners=("user",), numbers=("requested_s",)))


def test_the_last_ended_lifetimes_by_hand() -> None:
    """Answers at the decision: of the owner and limit, else of the owner, else of all; what still runs is not read."""
    lines = [(0, 100, "ann", 600.0), (10, 310, "ann", 600.0), (20, 9_020, "bob", 600.0), (400, 450, "ann", 600.0),
             (410, 420, "ann", 7_200.0), (500, 510, "ann", 7_200.0), (600, 610, "bob", 600.0)]
    lines += [(1_000 + 100 * idx, 1_050 + 100 * idx, "cat", 600.0) for idx in range(40)]
    trace = _jobs(lines)
    _, rows, settings = _read(trace)
    split = split_by_time(rows, 0.3, 0.2)
    last = LastTwoModel().fit(split.train, split.valid, split.past, settings)
    found = np.round(10.0 ** last.scores_[:7]).tolist()
    # ann: both had ended; with the other limit nothing had, so all of ann's; then the one of that limit; bob: all's
    # last two, 50 (ended at 450) and 10 (at 510)
    assert found[3:] == [200.0, 200.0, 10.0, 30.0]
    assert np.isnan(last.scores_[:3]).all()
    median = MedianModel().fit(split.train, split.valid, split.past, settings)
    assert np.round(10.0 ** median.scores_[5]).tolist() == 75.0  # of 100, 300, 50 and 10, whatever the limit


@pytest.mark.parametrize("name", ["last-two", "median-16"])
def test_the_future_changes_nothing_before_it(name: str) -> None:
    trace = synthesize(2_000, seed=4)
    encoder, rows, settings = _read(trace)
    cut_s = int(np.quantile(rows.decided_s, 0.7))
    rng = np.random.default_rng(2)
    is_later = rows.arrival_s + rows.lifetime_s > cut_s
    other_s = np.maximum(cut_s - rows.arrival_s, 0) + rng.integers(1, 1_000_000, len(rows))
    changed = replace(rows, lifetime_s=np.where(is_later, other_s, rows.lifetime_s))
    split, scores = split_by_time(rows, 0.3, 0.2), []
    for each in (rows, changed):
        model = LIFETIME_MODELS[name]()
        model.fit(split.train, split.valid, split.past, replace(settings, log=EventLog.of(each, encoder.history)))
        assert isinstance(model, LastTwoModel)
        scores.append(model.scores_)
    is_early = rows.decided_s <= cut_s
    np.testing.assert_array_equal(scores[0][is_early], scores[1][is_early])
    assert (scores[0][~is_early] != scores[1][~is_early]).any()


def _brier(model: LeavesModel, rows: Examples) -> float:
    return BrierOverAges.of(model.curve_table(rows), rows).score()


@pytest.mark.slow
def test_leaves_are_curves_that_tell_requests_apart() -> None:
    """Better than one curve for all, the same for any number of threads, and missing features have an answer."""
    _, rows, settings = _read(synthesize(3_000, seed=6))
    split = split_by_time(rows, 0.3, 0.2)
    windows = split.train, split.valid, split.past
    model = LeavesModel().fit(*windows, settings)
    other = LeavesModel().fit(*windows, replace(settings, n_threads=2))
    uptime_s = np.full(len(split.test), 60.0)
    np.testing.assert_array_equal(model.curve_table(split.test).quantile(0.5, uptime_s),
                                  other.curve_table(split.test).quantile(0.5, uptime_s))
    pooled = LIFETIME_MODELS["km"]().fit(*windows, replace(settings, idx_backoff=()))
    assert _brier(model, split.test) < BrierOverAges.of(pooled.curve_table(split.test), split.test).score()
    unknown = replace(split.test, features=np.full_like(split.test.features, np.nan))
    assert np.isfinite(model.curve_table(unknown).quantile(0.9, 0.0)).all()
    assert len(model.curve_table(split.test.take(np.empty(0, np.int64)))) == 0
