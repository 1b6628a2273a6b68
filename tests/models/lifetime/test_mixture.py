"""The weights go to who is right, by age, and to one of the two where the window says too little. Trees of `hazard`
get fewer leaves where training stops early and they are level."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.split import Examples, Split, split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models import FitSettings, write_bundle
from sojourn.models.bundle_writer import table_of
from sojourn.models.curve_table import HazardTable
from sojourn.models.lifetime import HazardModel
from sojourn.models.lifetime.baselines import KaplanMeierModel
from sojourn.models.lifetime.hazard import BUCKETS_S, MixtureModel, Weights, buckets_of, choose_weights, is_level
from sojourn.models.lifetime.intervals import Axis, Intervals
from sojourn.models.parity import learner_scores
from sojourn.serving import load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.inputs import Encoder, HistoryState

EDGES = np.concatenate([[0.0], np.floor(np.geomspace(60.0, 200_000.0, 20)) + 0.5])


def _valid(n: int, seed: int = 0) -> tuple[Examples, np.ndarray]:
    """Exponential lifetimes of 40 owners, and their means: 20 minutes and 20 hours in turns."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, 40, n)
    mean_s = np.where(owner % 2 == 0, 1_200.0, 72_000.0)
    lifetime_s = np.ceil(rng.exponential(mean_s))
    return Examples(np.zeros((n, 1)), (owner,), lifetime_s, np.ones(n, bool), np.zeros(n), np.zeros(n, np.int64),
                    np.arange(n)), mean_s


AXIS = Axis(Intervals(EDGES, np.zeros(20), 50_000.0, EDGES))


def _both(mean_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The right hazards, and those that take the two kinds of owners for each other."""
    widths = np.diff(EDGES)
    return widths / mean_s[:, None], widths / np.where(mean_s > 1e4, 1_200.0, 72_000.0)[:, None]


@pytest.mark.parametrize("is_hazard_right", [True, False])
def test_weights_go_to_who_is_right(is_hazard_right: bool) -> None:
    valid, mean_s = _valid(600)
    right, wrong = _both(mean_s)
    own, known = (right, wrong) if is_hazard_right else (wrong, right)
    found = choose_weights(own, known, AXIS, valid, 0)
    assert found.single == ("hazard" if is_hazard_right else "km")
    assert np.abs(found.weights - is_hazard_right).max() <= 0.2
    assert found.low >= -1e-3


@pytest.mark.slow
def test_each_may_be_right_at_some_ages() -> None:
    valid, mean_s = _valid(3_000)
    right, wrong = _both(mean_s)
    early = buckets_of(AXIS) < 2
    own, known = np.where(early, right, wrong), np.where(early, wrong, right)
    found = choose_weights(own, known, AXIS, valid, 0)
    assert (found.weights[:2] >= 0.7).all() and (found.weights[2:] <= 0.3).all()
    assert found.gain > 0.01 and found.low > 0.0
    assert f"{found.weights[0]:.1f} from 0 s on" in found.text() and "95 % interval" in found.text()


def test_a_tiny_window_falls_to_one_of_the_two_and_says_so() -> None:
    valid, mean_s = _valid(12, seed=4)
    widths = np.diff(EDGES)
    factor = np.where(np.arange(12) % 2 == 0, 6.0, 1.0 / 6.0)[:, None]
    own, known = (widths / mean_s[:, None] * each for each in (factor, 1.0 / factor))
    found = choose_weights(own, known, AXIS, valid, 0)
    assert set(found.weights.tolist()) in ({0.0}, {1.0})
    assert found.is_shrunk
    assert found.text() == f"{found.single} alone at every age, as better weights were within one standard error (12 " \
                           "validation requests)."
    nobody = replace(valid, entry_s=np.full(12, 0.5))
    assert choose_weights(np.ones((12, 20)), np.ones((12, 20)), AXIS, nobody, 0).weights.tolist() == [0.0] * 4


@pytest.fixture(scope="module")
def fitted() -> tuple[MixtureModel, Split, Encoder, HistoryState]:
    trace = synthesize(1_500, seed=1)
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder, history := HistoryState(encoder.history))
    split = split_by_time(rows)
    model = MixtureModel().fit(split.train, split.valid, split.past, FitSettings(
        backoff_keys(encoder), 1, 0, {"num_leaves": 7, "learning_rate": 0.4}, rows.names))
    return model, split, encoder, history


@pytest.mark.parametrize("weights", [(0.0, 0.3, 0.7, 1.0), (0.0,) * 4, (1.0,) * 4])
def test_the_bundle_has_the_models_bits(tmp_path: Path, weights: tuple[float, ...],
                                        fitted: tuple[MixtureModel, Split, Encoder, HistoryState]) -> None:
    model, split, encoder, history = fitted
    assert len(model.weights_.weights) == len(BUCKETS_S)
    assert model.validation_table_.remaining(0.0).shape == (len(split.valid),)
    model.weights_ = Weights(np.array(weights), "km", 0.0, 0.0, 0.0, 1, False)
    exported = model.export()
    assert (exported.lookup is None, model.gains() is None) == (min(weights) == 1.0, not any(weights))
    bundle = load_bundle(write_bundle(tmp_path / "b", "mixture", exported, encoder, history, {}))
    builder = CurveBuilder(bundle.schema, bundle.model)
    features = bundle.schema.encoder.with_row(split.test.features, split.test.keys)
    own, served = model.curve_table(split.test), table_of(bundle.schema, builder.forest, features)
    assert isinstance(served, HazardTable)
    assert served.rates.tolist() == own.rates.tolist() and served.after.tolist() == own.after.tolist()
    assert builder.curve(features[0].tolist()).remaining(61.0) == own.remaining(61.0)[0]
    scores = learner_scores(exported, bundle.schema.numbers.lookup)
    if scores is not None:
        asked = bundle.schema.curves.forest_rows(bundle.schema.numbers.age_features, features[:20], np.full(20, 3.0))
        assert scores(asked).tolist() == [builder.scores(row)[3] for row in features[:20].tolist()]


@pytest.mark.slow
def test_models_that_were_fitted_before_are_taken_as_they_are() -> None:
    trace = synthesize(1_200, seed=2)
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = split_by_time(rows)
    settings = FitSettings(backoff_keys(encoder), n_threads=1, names=rows.names)
    windows = (split.train, split.valid, split.past, settings)
    hazard, km = HazardModel().fit(*windows), KaplanMeierModel().fit(*windows)
    alone = MixtureModel().fit(*windows)
    taken = MixtureModel().fit(*windows[:3], replace(settings, fitted={"hazard": hazard, "km": km}))
    assert taken.hazard_ is hazard and taken.km_ is km
    np.testing.assert_array_equal(taken.curve_table(split.test).survival(3_600.0, 0.0),
                                  alone.curve_table(split.test).survival(3_600.0, 0.0))


def _noise(n: int, seed: int) -> Examples:
    """Lifetimes of which ten numbers at random say nothing."""
    rng = np.random.default_rng(seed)
    return replace(_valid(n, seed)[0], features=rng.random((n, 10)), lifetime_s=np.ceil(rng.exponential(3_600.0, n)))


def _fitted(params: dict[str, object] | None, n_rounds: int = 100) -> HazardModel:
    train, valid = _noise(1_500, 1), _noise(500, 2)
    settings = FitSettings(n_threads=1, names=tuple(f"x{k}" for k in range(10)), params=params)
    return HazardModel(n_rounds=n_rounds).fit(train, valid, train, settings)


def test_trees_get_fewer_leaves_if_training_stops_early_and_keep_them_in_the_refit() -> None:
    chosen, stated = _fitted(None), _fitted({"num_leaves": 15})
    assert chosen.boosted_.text == stated.boosted_.text
    assert chosen.boosted_.n_leaves_max == 15 * chosen.boosted_.n_rounds
    np.testing.assert_array_equal(chosen.validation_hazards_, stated.validation_hazards_)


@pytest.mark.parametrize(("params", "n_rounds"), [({"num_leaves": 63}, 100), (None, 10)])
def test_leaves_stay_if_they_are_stated_or_training_goes_on_to_the_end(params: dict[str, object] | None,
                                                                      n_rounds: int) -> None:
    model = _fitted(params, n_rounds)
    assert model.boosted_.n_leaves_max == 63 * model.boosted_.n_rounds


@pytest.mark.parametrize(("n", "factor", "is_taken"), [
    (2_000, 1.0, True),     # the same
    (2_000, 0.98, True),    # worse by 0.03 %, within one standard error
    (2_000, 0.9, False),    # worse by 0.5 %, more than two standard errors
    (40, 1.3, False),       # worse by 1.5 %, half of a standard error
    (60, 0.8, True),        # worse by 0.8 %, a third of a standard error
    (2_000, np.nan, False), # without a score
])  # fmt: skip
def test_smaller_trees_are_level_within_one_standard_error_and_one_percent(n: int, factor: float,
                                                                           is_taken: bool) -> None:
    valid, mean_s = _valid(n)
    right, _ = _both(mean_s)
    assert is_level(AXIS.table(right * factor, valid), AXIS.table(right, valid), valid, 0) == is_taken
    if factor in (0.98, 0.9):  # the other way round they are better
        assert is_level(AXIS.table(right, valid), AXIS.table(right * factor, valid), valid, 0)
