"""Instant ends apart: habits by hand, the same bits by both ways, and nothing of the future."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from made_instants import instant_trace
from made_limits import limited_trace
from sojourn.features import Trace
from sojourn.features.creation import FeatureRows, build_rows, default_encoder
from sojourn.features.refreshed import apart_rows, with_instants_apart
from sojourn.features.synthetic import synthesize
from sojourn.serving.inputs import Encoder, HistoryDefinition, HistoryKey, HistoryState

USER = HistoryKey("user", ("user",), "owner")
ANN = (("ann",),)


def _ended(definition: HistoryDefinition, lifetimes_s: list[int]) -> dict[str, float]:
    """Features of ann at second 10,000, after requests that came and ended one after the other."""
    state = HistoryState(definition)
    for number, lifetime_s in enumerate(lifetimes_s):
        state.ended(state.admit(ANN, 1_000 * number), 1_000 * number + lifetime_s)
    values = state.features(ANN, 10_000)
    return {name.removeprefix("user:"): value for name, value in zip(definition.feature_names(), values, strict=True)}


def test_habits_are_of_the_others_and_the_share_is_known() -> None:
    found = _ended(HistoryDefinition((USER,), window=5, instant_s=1), [10, 0, 100, 1, 4_000, 1])
    # the last five: 0, 100, 1, 4,000, 1 s; apart are 0 and both of 1 s: 3 / 5. Of 100 and 4,000 s: log10 2 and 3.602
    logs = [2.0, math.log10(4_000.0)]
    assert found["instant"] == 3 / 5 and found["ended"] == math.log1p(2) and found["arrived"] == math.log1p(5)
    assert found["mean"] == sum(logs) / 2 and found["last"] == found["longest"] == logs[1]
    assert found["spread"] == pytest.approx((logs[1] - 2.0) / 2)
    assert (found["share_1h"], found["share_1d"]) == (0.5, 0.0)
    assert "mean_2" not in found


def test_of_an_owner_whose_requests_all_ended_at_once_no_habit_is_known() -> None:
    found = _ended(HistoryDefinition((USER,), instant_s=1), [0, 1])
    assert (found["instant"], found["ended"]) == (1.0, 0.0)
    assert all(math.isnan(found[name]) for name in ("mean", "spread", "last", "longest", "share_1h", "share_7d"))
    fresh = HistoryDefinition((USER,), instant_s=1)
    never = dict(zip(fresh.feature_names(), HistoryState(fresh).features(ANN, 0), strict=True))
    assert math.isnan(never["user:instant"])


def test_without_instant_ends_the_two_readings_differ_in_one_number() -> None:
    together, apart = _ended(HistoryDefinition((USER,)), [10, 20]), _ended(HistoryDefinition((USER,), instant_s=1),
                                                                           [10, 20])
    assert together.pop("mean_2") == (1.0 + math.log10(20.0)) / 2 and apart.pop("instant") == 0.0
    assert str(together) == str(apart)  # NaN as text, for it does not equal itself


@pytest.mark.parametrize("instant_s", [True, -1, 1.0, 2**31, "1"])
def test_a_wrong_bound_is_named(instant_s: object) -> None:
    with pytest.raises(ValueError, match="instant_s must be None or a whole number of seconds >= 0, got"):
        HistoryDefinition((USER,), instant_s=instant_s)  # type: ignore[arg-type]


def test_the_json_form_has_it_only_where_it_is_set() -> None:
    plain, apart = HistoryDefinition((USER,)), HistoryDefinition((USER,), instant_s=1)
    assert "instant_s" not in plain.as_dict() and apart.as_dict()["instant_s"] == 1
    for each in (plain, apart):
        assert HistoryDefinition.from_dict(each.as_dict()) == each


def test_a_history_read_anew_is_what_it_would_have_been() -> None:
    trace = instant_trace(400, 0.2, 0)
    encoder = default_encoder(trace)
    apart = with_instants_apart(encoder, 1)
    state, other = HistoryState(encoder.history), HistoryState(apart.history)
    build_rows(trace, encoder, state)
    build_rows(trace, apart, other)
    before = state.rows.values.tobytes()
    state.read_as(apart.history)
    assert state.rows.values.tobytes() == other.rows.values.tobytes() != before
    state.read_as(encoder.history)
    assert state.rows.values.tobytes() == before
    with pytest.raises(ValueError, match=r"definition must differ from .* in instant_s at most"):
        state.read_as(replace(encoder.history, window=3))


def _mixed(trace: Trace, seed: int) -> Trace:
    """One request in ten ends in the second in which it began or in the next one."""
    rng = np.random.default_rng(seed)
    start_s, known = trace.start_s(), trace.is_start_known()
    is_instant = known & (start_s >= 0) & (rng.random(len(trace.requests)) < 0.1) & (start_s < trace.horizon_s - 1)
    departure_s = trace.requests["departure_s"].copy()
    departure_s[is_instant] = start_s[is_instant] + rng.integers(0, 2, int(is_instant.sum()))
    return replace(trace, requests=trace.requests.assign(departure_s=departure_s))


def _both(trace: Trace, window: int = 16) -> tuple[FeatureRows, FeatureRows, Encoder]:
    plain = default_encoder(trace)
    plain = replace(plain, history=replace(plain.history, window=window))
    encoder = with_instants_apart(plain, 1)
    return apart_rows(build_rows(trace, plain), encoder), build_rows(trace, encoder), encoder


@pytest.mark.parametrize("window", [1, 3, 16])
@pytest.mark.parametrize("kind", ["synthetic", "with limits", "one second"])
def test_rows_read_anew_have_the_bits_of_a_replay(kind: str, window: int) -> None:
    trace = {"synthetic": lambda: _mixed(synthesize(1_200, seed=2).since_begin(), 0),
             "with limits": lambda: _mixed(limited_trace(1_200, 3), 1),
             "one second": lambda: _crowded(300)}[kind]()
    fast, whole, encoder = _both(trace, window)
    assert fast.names == whole.names == encoder.feature_names()
    assert fast.features.tobytes() == whole.features.tobytes()
    shares = whole.features[:, [name.endswith(":instant") for name in whole.names]]
    assert 0.0 < np.nanmean(shares) < 1.0


def _crowded(n: int) -> Trace:
    """Many requests in the same few seconds: within one, ends come first, and own ends are seen from the next on."""
    trace = instant_trace(n, 0.5, 4)
    start_s = trace.requests["arrival_s"].to_numpy() // 130_000
    lifetime_s = np.random.default_rng(0).integers(0, 6, n)
    return replace(trace, requests=trace.requests.assign(
        arrival_s=start_s, departure_s=pd.array(start_s + lifetime_s, "Int64"), user="ann"))


def test_nothing_that_ends_later_is_known() -> None:
    trace = _mixed(synthesize(1_200, seed=2).since_begin(), 0)
    cut_s = trace.horizon_s // 2
    end_s = trace.end_s()
    rng = np.random.default_rng(1)
    later = trace.is_start_known() & (end_s > cut_s)
    moved = np.where(later, np.maximum(trace.start_s(), cut_s) + rng.integers(0, 3, len(end_s)), end_s)
    departure_s = trace.requests["departure_s"].copy()
    departure_s[later] = moved[later]
    departure_s[departure_s > trace.horizon_s] = pd.NA
    other = replace(trace, requests=trace.requests.assign(departure_s=departure_s))
    before, after = _both(trace)[0], _both(other)[0]
    is_early = before.decided_s < cut_s
    assert before.features[is_early].tobytes() == after.features[is_early].tobytes()
    assert before.features[~is_early].tobytes() != after.features[~is_early].tobytes()


def test_what_cannot_be_told_from_the_rows_is_refused() -> None:
    trace = instant_trace(300, 0.2, 0)
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    with pytest.raises(ValueError, match=r"instant_s of the encoder's history must .*, got None"):
        apart_rows(rows, encoder)
    small = with_instants_apart(replace(encoder, history=replace(encoder.history, n_keys_max=10)), 1)
    with pytest.raises(ValueError, match="owners of 'user' must be at most 10, got 60"):
        apart_rows(rows, small)
