"""The extension's model: what it reads by itself, what it leaves to Python, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from made_bundles import Made
from sojourn.serving import Predictor, load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.native import NATIVE

pytestmark = pytest.mark.skipif(NATIVE is None, reason="the extension is not built")
NOW_S = 4_000_000


@pytest.fixture
def predictor(made: Made) -> Predictor:
    return Predictor.load(made.folders["hazard"])


def asked(predictor: Predictor, request: Any) -> Any:
    """The curve, keys and unknown inputs of a request, or None if Python must read it."""
    history = predictor._open.history
    builder = predictor._current.served.builder
    return builder.first.first(request, NOW_S, history.moments, history.tables, history.rows.view)


def test_plain_requests_are_read_in_c_and_others_by_python(made: Made, predictor: Predictor) -> None:
    changed: dict[str, Any]
    plain = made.request(3)
    number, name = predictor.encoder.numbers[0], predictor.encoder.names[0]
    for changed in ({}, {number: 2}, {number: np.float64(2.0)}, {number: -0.0}, {number: 1e300}, {number: None},
                    {name: None}, {name: ""}, {name: "\ud800 \0"}):
        request = plain | changed
        curve, keys, unknown = asked(predictor, request)
        parsed = predictor.encoder.parse(request)
        assert (keys, unknown[:len(parsed.unknown)]) == (parsed.keys, parsed.unknown)
        features = predictor.encoder.encode(parsed, NOW_S, predictor._open.history)
        assert np.frombuffer(curve)[-len(features):].tobytes() == np.array(features).tobytes()
    for changed in ({number: True}, {number: math.nan}, {number: math.inf}, {number: -1.0}, {number: "2"},
                    {number: 10**400}, {number: np.float32(2.0)}, {name: 5}, {name: b"a"}, {name: np.str_("a")},
                    {name: math.nan}, {"stranger": 1}):
        assert asked(predictor, plain | changed) is None
    for other in (None, [], [*plain.items()], plain.items()):
        assert asked(predictor, other) is None


def test_missing_columns_that_are_rare_are_not_named(made: Made) -> None:
    bundle = load_bundle(made.folders["hazard"])
    columns = bundle.schema.encoder.columns()
    builder = CurveBuilder(bundle.schema, bundle.model, rare={columns[0]})
    history = bundle.history
    _, _, unknown = builder.first.first({}, NOW_S, history.moments, history.tables, history.rows.view)
    assert unknown == columns[1:]


def test_what_is_no_history_is_refused(made: Made, predictor: Predictor) -> None:
    history, first = predictor._open.history, predictor._current.served.builder.first
    request, parsed = made.request(3), predictor.encoder.parse(made.request(3))
    good = (NOW_S, history.moments, history.tables, history.rows.view)
    for wrong in ((1.5, *good[1:]), (2**70, *good[1:]), (*good[:1], [0.0], *good[2:]), (NOW_S, (0.0, 0.0), *good[2:]),
                  (*good[:2], (), good[3]), (*good[:3], None), (*good[:3], b"12345678"), good[:3], (*good, 1)):
        with pytest.raises((TypeError, IndexError, OverflowError)):
            first.first(request, *wrong)
        with pytest.raises((TypeError, IndexError, OverflowError)):
            first.answer(parsed.numbers, parsed.keys, *wrong)
    for numbers, keys in (((), parsed.keys), (parsed.numbers, ()), ([*parsed.numbers], parsed.keys), (None, None),
                          (("a",) * len(parsed.numbers), parsed.keys)):
        with pytest.raises(TypeError):
            first.answer(numbers, keys, *good)
    for features in (np.zeros(3), np.zeros(3, np.int64), None, "text", [0.0] * 54):
        for call in (first.of_features, first.scores):
            with pytest.raises((ValueError, TypeError)):
                call(features)


def test_tables_that_do_not_fit_together_make_no_model(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is cut or of another type: C reads by the sizes that it was given."""
    given: list[tuple[Any, ...]] = []

    class Recorded:
        Hazard, Steps, Numbers, TABLES = NATIVE.Hazard, NATIVE.Steps, NATIVE.Numbers, NATIVE.TABLES

        @staticmethod
        def Model(*arguments: Any) -> Any:
            given.append(arguments)
            return NATIVE.Model(*arguments)

    monkeypatch.setattr("sojourn.serving.answers.curve_builder.NATIVE", Recorded)
    bundle = load_bundle(made.folders["hazard"])
    CurveBuilder(bundle.schema, bundle.model)
    arguments = given[0]
    for place in (0, 1, 2, 3, 7):
        with pytest.raises((ValueError, TypeError, IndexError)):
            NATIVE.Model(*arguments[:place], arguments[place][:-1], *arguments[place + 1:])
    tables = arguments[7]
    for place in (-5, -4):  # offsets, edges
        for changed in (tables[place].astype(np.float32), np.append(tables[place], 1.0)):
            other = [*tables]
            other[place] = changed
            with pytest.raises(ValueError, match="table"):
                NATIVE.Model(*arguments[:7], tuple(other), *arguments[8:])
    for place, value in ((4, b""), (8, None), (9, dict), (9, NATIVE.Steps), (10, arguments[10][:-1]), (11, ())):
        with pytest.raises((ValueError, TypeError)):
            NATIVE.Model(*arguments[:place], value, *arguments[place + 1:])


def test_a_history_is_found_by_equal_keys(made: Made, predictor: Predictor) -> None:
    """Strings that are equal and not the same object find one history."""
    request = made.request(3)
    predictor.admit(request, NOW_S)
    copied = {"".join(list(column)): "".join(list(value)) if isinstance(value, str) else value
              for column, value in request.items()}
    assert predictor.predict(copied, NOW_S).features == predictor.predict(request, NOW_S).features
