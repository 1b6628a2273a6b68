"""Traces that say little or the odd thing: each trains, chooses, is written and answers with survival curves.

No limits, limits shorter than the run, every lifetime 0 or 1 s or the same, one owner, none, each request a new one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from made_curves import check_curve
from sojourn.features import Roles, Trace
from sojourn.features.creation import build_rows, default_encoder
from sojourn.flows.retrain.features import Features
from sojourn.flows.retrain.ingest import Ingested
from sojourn.flows.retrain.judge import Candidate, write_candidate
from sojourn.flows.retrain.train import Training, train
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.models.curve_table import CurveTable
from sojourn.serving import Predictor
from sojourn.serving.inputs import HistoryState

pytestmark = pytest.mark.slow

N = 600
SPAN_S = 6 * 86_400
FAMILIES = ("km", "gbdt-once", "hazard", "mixture")
SPANS_S = (0.0, 1.0, 59.0, 3_600.0, 1e6, 1e9)


@dataclass(frozen=True)
class Case:
    """lifetime_s, limit_s, users: of n requests, from a generator; limit_s None = the trace states none."""

    lifetime_s: Callable[[np.random.Generator], np.ndarray]
    limit_s: Callable[[np.ndarray], np.ndarray] | None = None
    users: Callable[[np.random.Generator], np.ndarray] | None = lambda rng: rng.integers(0, 20, N)


def _usual(rng: np.random.Generator) -> np.ndarray:
    return rng.lognormal(7.0, 1.5, N).astype(np.int64)


CASES = {
    "no limits": Case(_usual),
    "limits shorter than the run": Case(_usual, lambda lifetime_s: np.maximum(lifetime_s // 2, 1)),
    "limits of a second": Case(_usual, np.ones_like),
    "limits of nothing": Case(_usual, np.zeros_like),
    "lifetimes of 0 or 1 s": Case(lambda rng: rng.integers(0, 2, N), lambda lifetime_s: lifetime_s + 60),
    "lifetimes of 0 s": Case(lambda rng: np.zeros(N, np.int64)),
    "one lifetime": Case(lambda rng: np.full(N, 7_200)),
    "one owner": Case(_usual, users=lambda rng: np.zeros(N, np.int64)),
    "no owner": Case(_usual, users=None),
    "each request of a new owner": Case(_usual, users=lambda rng: np.arange(N)),
}


def _trace(case: Case) -> Trace:
    rng = np.random.default_rng(0)
    arrival_s, lifetime_s = np.sort(rng.integers(0, SPAN_S, N)), case.lifetime_s(rng)
    end_s = arrival_s + lifetime_s
    table = pd.DataFrame({"request_id": np.arange(N), "arrival_s": arrival_s, "cpu_cores": 1.0, "mem_gib": 4.0,
                          "departure_s": pd.array(end_s, "Int64")})
    table.loc[end_s > SPAN_S, "departure_s"] = pd.NA
    owners: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    if case.users is not None:
        table["user"] = [f"u{user}" for user in case.users(rng).tolist()]
        owners = ("user",)
    if case.limit_s is not None:
        table["requested_s"] = case.limit_s(lifetime_s).astype(np.float64)
        numbers = ("requested_s",)
    return Trace(table, SPAN_S, Roles(owners=owners, numbers=numbers))


@dataclass(frozen=True)
class Trained:
    features: Features
    training: Training
    candidate: Candidate


@pytest.fixture(scope="module", params=CASES)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    trace = _trace(CASES[request.param])
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    features = Features(trace, encoder, build_rows(trace, encoder, history), history)
    root = tmp_path_factory.mktemp("odd")
    config = RetrainConfig(store=root, families=FAMILIES, n_threads=1)
    training = train.fn(config, features)
    ingested = Ingested(root, "odd", "0" * 64, "")
    return Trained(features, training, write_candidate(root / "candidate", ingested, "0" * 64, features, training))


def _check_table(table: CurveTable, n: int) -> None:
    for uptime_s in (0.0, 600.0, 1e7):
        survival = np.array([table.survival(span_s, uptime_s) for span_s in SPANS_S])
        assert survival.shape == (len(SPANS_S), n)
        assert (survival[0] == 1.0).all() and (survival >= 0.0).all() and (np.diff(survival, axis=0) <= 0.0).all()
        assert np.isfinite(table.remaining(uptime_s)).all() and (table.remaining(uptime_s) >= 0.0).all()


def test_every_family_gives_curves(trained: Trained) -> None:
    test = trained.training.split.test
    assert [one.family for one in trained.training.families] == list(FAMILIES)
    for one in trained.training.families:
        _check_table(one.model.curve_table(test), len(test))


def test_the_choice_is_said_also_where_nothing_can_be_scored(trained: Trained) -> None:
    choice, split = trained.training.choice, trained.training.split
    assert choice.family in FAMILIES and choice.text().startswith(f"{choice.family}: ")
    is_scored = bool((split.valid.lifetime_s > 30.0).any())  # the Brier score begins at 30 s
    assert math.isnan(choice.score) != is_scored
    assert ("the validation window could not be scored" in choice.text()) != is_scored
    if not is_scored:
        assert choice.family == "hazard"  # the simplest in the order of simplicity


def test_the_bundle_answers_known_and_unknown_requests_with_curves(trained: Trained) -> None:
    predictor = Predictor.load(trained.candidate.folder, recalibrate=True)
    table, columns = trained.features.trace.requests, predictor.encoder.columns()
    for idx in (0, N - 1):
        request = {name: table[name].iloc[idx] for name in columns}
        vm = predictor.admit(request, SPAN_S)
        check_curve(vm)
        check_curve(predictor.refresh(vm, SPAN_S + 90_000))
        predictor.ended(vm, SPAN_S + 90_000)
    check_curve(predictor.predict({}, SPAN_S))
    if "user" in columns:
        first = predictor.predict({"user": "nobody", "cpu_cores": 1.0, "mem_gib": 4.0}, SPAN_S)
        assert "user" in first.not_seen
        check_curve(first)


@pytest.mark.parametrize("name", ["lifetimes of 0 or 1 s", "lifetimes of 0 s"])
def test_where_all_end_at_once_the_answer_is_at_once(name: str) -> None:
    """The second curve of the two clocks does not run: no end lies after ten minutes."""
    trace = _trace(CASES[name])
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    features = Features(trace, encoder, build_rows(trace, encoder, history), history)
    training = train.fn(RetrainConfig(families=FAMILIES, n_threads=1), features)
    for one in training.families:
        exported = one.model.export()
        assert exported is not None and exported.kind != "hazard-limit"
        table = one.model.curve_table(training.split.test)
        assert table.quantile(0.9, 0.0).max() <= 2.0
        assert table.survival(60.0, 0.0).max() < 0.01
