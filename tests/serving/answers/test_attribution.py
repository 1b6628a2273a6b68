"""Effects add up, unused inputs have none, equal inputs share alike, and the same question has the same answer."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_bundles import Made
from sojourn.models import to_onnx
from sojourn.serving import Bundle, BundleError, Predictor, load_bundle
from sojourn.serving.answers import CurveBuilder, attribute, background_of
from sojourn.serving.answers.attribution import drawn_shapley, exact_shapley, input_groups
from sojourn.serving.curves import HazardCurve
from sojourn.serving.forest import LEQ, Forest
from sojourn.serving.native import NATIVE

KINDS = pytest.mark.parametrize("kind", ["hazard", "hazard-limit", "uptime", "once"])
values_of_three = st.lists(st.floats(-10.0, 10.0), min_size=8, max_size=8)


def _loaded(made: Made, kind: str) -> tuple[Bundle, CurveBuilder]:
    bundle = load_bundle(made.folders[kind])
    return bundle, CurveBuilder(bundle.schema, bundle.model)


def _naive_shapley(values: list[float], n: int) -> list[float]:
    """By definition: the mean over all orders of what each player adds; values by bit mask."""
    effects = [0.0] * n
    for order in permutations(range(n)):
        mask = 0
        for player in order:
            effects[player] += (values[mask | 1 << player] - values[mask]) / math.factorial(n)
            mask |= 1 << player
    return effects


@given(values_of_three)
def test_exact_values_are_the_mean_over_all_orders(values: list[float]) -> None:
    found = exact_shapley(lambda taken: np.array(values)[taken @ [1, 2, 4]], 3)
    np.testing.assert_allclose(found, _naive_shapley(values, 3), atol=1e-12)


@given(values_of_three)
def test_drawn_values_add_up_whatever_the_orders(values: list[float]) -> None:
    found = drawn_shapley(lambda taken: np.array(values)[taken @ [1, 2, 4]], 3, n_orders=2, seed=1)
    assert math.isclose(found.sum(), values[7] - values[0], abs_tol=1e-11)


def test_drawn_values_come_close_to_the_exact_ones() -> None:
    values = np.random.default_rng(3).normal(size=2**6)
    weights = 2 ** np.arange(6)
    drawn = drawn_shapley(lambda taken: values[taken @ weights], 6, n_orders=4_000)
    exact = exact_shapley(lambda taken: values[taken @ weights], 6)
    np.testing.assert_allclose(drawn, exact, atol=0.06)  # sd of a step about 1.4 / sqrt(8000) = 0.016


@KINDS
@pytest.mark.parametrize("uptime_s", [0.0, 3_600.0])
def test_effects_add_up_from_base_to_the_served_answer(made: Made, kind: str, uptime_s: float) -> None:
    bundle, builder = _loaded(made, kind)
    features = made.rows.features[-1].tolist()
    background = made.rows.features[::150]
    found = attribute(builder, features, background, uptime_s)
    assert found.is_exact
    assert math.isclose(found.base + math.fsum(found.effects), found.answer, abs_tol=1e-12)
    assert math.isclose(found.answer, math.log10(max(builder.curve(features).quantile(0.5, uptime_s), 1.0)),
                        abs_tol=1e-12)
    medians = [max(builder.curve(row.tolist()).quantile(0.5, uptime_s), 1.0) for row in background]
    assert math.isclose(found.base, float(np.mean(np.log10(medians))), abs_tol=1e-12)
    assert len(set(found.effects)) > 2
    assert found == attribute(builder, features, background, uptime_s)
    assert bundle.schema.kind == kind


def test_the_answer_is_the_predictors_own(made: Made) -> None:
    bundle, builder = _loaded(made, "hazard")
    request = made.request(5)
    encoder = bundle.schema.encoder
    features = encoder.encode(encoder.parse(request), 4_000, bundle.history)
    found = attribute(builder, features, made.rows.features[:2])
    median_s = Predictor(bundle).predict(request, 4_000).quantile(0.5, 0)
    assert round(10.0**found.answer) == median_s


def test_an_input_that_no_tree_reads_has_no_effect(made: Made) -> None:
    bundle, builder = _loaded(made, "hazard")
    *_, last = input_groups(bundle.schema.encoder)
    read = builder.forest.feature
    assert np.isin(read, last.idx).any()
    # every node on the last group asks the first input instead
    forest = replace(builder.forest, feature=np.where(np.isin(read, last.idx), 0, read))
    found = attribute(CurveBuilder(bundle.schema, to_onnx(forest)), made.rows.features[-1].tolist(),
                    made.rows.features[:8])
    assert found.effects[-1] == 0.0
    assert any(effect != 0.0 for effect in found.effects)


def test_inputs_that_the_model_treats_alike_share_alike(made: Made) -> None:
    """Trees on inputs 0 and 1: each alone 1 -> 2.0, and 0.5 more where both are above 2.5; all others unread."""
    bundle = load_bundle(made.folders["once"])
    n = bundle.schema.n_features
    forest = Forest(
        n, roots=np.array([0, 1, 2]), feature=np.array([0, 1, 0, 1]), split=np.full(4, 2.5),
        mode=np.full(4, LEQ, np.uint8), on_true=np.array([~0, ~2, ~4, ~5]), on_false=np.array([~1, ~3, 3, ~6]),
        is_nan_true=np.zeros(4, bool), leaves=np.array([1.0, 2.0, 1.0, 2.0, 0.0, 0.0, 0.5]),
        member_start=np.zeros(5, np.int64), members=np.empty(0), is_zero_missing=np.zeros(n, bool),
    )  # fmt: skip
    found = attribute(CurveBuilder(bundle.schema, to_onnx(forest)), [5.0] * n, np.zeros((3, n)))
    assert math.isclose(found.effects[0], found.effects[1], abs_tol=1e-12)
    assert all(effect == 0.0 for effect in found.effects[2:])
    # from log10 2.0 to 4.5: (1.0 + 1.0 + 0.5) / 2 each, but for the rounding to whole seconds
    assert math.isclose(found.effects[0], 1.25, abs_tol=0.005)


def test_a_nan_is_an_input_like_any_other(made: Made) -> None:
    _, builder = _loaded(made, "hazard")
    features = [math.nan] * made.rows.features.shape[1]
    found = attribute(builder, features, made.rows.features[:4])
    assert math.isclose(found.base + math.fsum(found.effects), found.answer, abs_tol=1e-12)


def test_a_bad_background_is_refused(made: Made) -> None:
    bundle, builder = _loaded(made, "hazard")
    n = made.rows.features.shape[1]
    with pytest.raises(ValueError, match="background must be at least one row"):
        attribute(builder, [0.0] * n, np.empty((0, n)))
    assert background_of(bundle.schema) is None
    for background in ([[1.0] * (n - 1)], [["a"] * n], 7, [[1.0], [1.0, 2.0]], [[math.inf] * n], []):
        document = {**bundle.schema.document, "background": background}
        with pytest.raises(BundleError, match=r"schema\.json: background must be"):
            background_of(replace(bundle.schema, document=document))
    document = {**bundle.schema.document, "background": [[None] * n, [1.0] * n]}
    found = background_of(replace(bundle.schema, document=document))
    assert found is not None
    assert np.isnan(found[0]).all()
    assert (found[1] == 1.0).all()


@KINDS
def test_a_handle_is_explained_as_it_was_predicted(made: Made, kind: str) -> None:
    bundle, builder = _loaded(made, kind)
    rows = [[None if value != value else value for value in row] for row in made.rows.features[:3].tolist()]
    bundle = replace(bundle, schema=replace(bundle.schema, document={"background": rows}))
    predictor = Predictor(bundle)
    request = made.request(5) | {"subscription": "busy"}
    vm = predictor.admit(request, 4_000)
    encoder = bundle.schema.encoder
    features = encoder.encode(encoder.parse(request), 4_000, load_bundle(made.folders[kind]).history)
    expected = [attribute(builder, features, made.rows.features[:3], uptime_s) for uptime_s in (0.0, 600.0)]
    for step in range(20):  # the owner's history moves on, the explanation does not
        predictor.ended(predictor.admit(request, 5_000 + step), 90_000)
    assert [predictor.explain(vm), predictor.explain(vm, 600.0)] == expected
    with pytest.raises(ValueError, match="uptime_s must be finite and >= 0, got -1"):
        predictor.explain(vm, -1.0)


def test_an_older_bundle_is_explained_against_a_request_of_which_nothing_is_known(made: Made) -> None:
    bundle, builder = _loaded(made, "hazard")
    vm = Predictor(bundle).predict(made.request(5), 4_000)
    encoder = bundle.schema.encoder
    nothing = encoder.encode(encoder.parse({}), 4_000, bundle.history)
    assert Predictor(bundle).explain(vm) == attribute(builder, vm.features, np.array([nothing]))


def test_a_handle_of_a_version_no_longer_served_is_refused(made: Made) -> None:
    predictor = Predictor.load(made.folders["hazard"])
    vm = predictor.predict(made.request(5), 4_000)
    version, found = vm.version, predictor.explain(vm)
    predictor.reload(made.folders["once"])
    message = rf"vm must be of the version that is served \({predictor.version}\), got one of {version}"
    with pytest.raises(ValueError, match=message):
        predictor.explain(vm)
    predictor.reload()
    assert predictor.explain(vm) == found


def test_what_a_handle_keeps_for_its_explanation_is_8_bytes_a_feature(made: Made) -> None:
    vm = Predictor.load(made.folders["hazard"]).predict(made.request(5), 4_000)
    n_features = len(made.encoder.feature_names())
    assert len(vm.features) == n_features
    assert isinstance(vm.curve, HazardCurve)
    assert NATIVE is None or vm._encoded is vm.curve  # one piece of memory for both
    assert memoryview(vm._encoded).nbytes == 8 * (4 * len(vm.curve.edges) * (NATIVE is not None) + n_features)
