"""A bundle as MLflow's python_function: the predictor's own answers, whatever types a table's columns have."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from made_bundles import Made, make
from sojourn.serving import BundleError, Predictor
from sojourn.serving.pyfunc import HORIZONS_S, QUANTILES, PyfuncModel, _load_pyfunc

KINDS = ("hazard", "hazard-limit", "uptime", "once")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("made"))


def _expected(predictor: Predictor, request: dict[str, Any], uptime_s: float, now_s: int,
              quantiles: tuple[float, ...] = QUANTILES, horizons_s: tuple[float, ...] = HORIZONS_S) -> dict[str, Any]:
    life = predictor.predict(request, now_s)
    return {"remaining_s": life.remaining(uptime_s), "quantiles_s": [life.quantile(q, uptime_s) for q in quantiles],
            "survival": [life.survival(h, uptime_s) for h in horizons_s], "unknown": list(life.unknown)}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_have_the_predictors_bits(made: Made, kind: str) -> None:
    model, predictor = _load_pyfunc(str(made.folders[kind])), Predictor.load(made.folders[kind])
    requests = [made.request(idx) for idx in range(60)]
    uptimes_s = [float(37 * idx * idx) for idx in range(60)]
    end_s = made.trace.horizon_s
    found = model.predict(pd.DataFrame([{**request, "uptime_s": uptime_s}
                                        for request, uptime_s in zip(requests, uptimes_s, strict=True)]))
    assert found.to_dict("records") == [_expected(predictor, request, uptime_s, end_s)
                                        for request, uptime_s in zip(requests, uptimes_s, strict=True)]
    at = [end_s - 1_000 * idx for idx in range(60)]
    found = model.predict(pd.DataFrame(requests).assign(uptime_s=uptimes_s, now_s=at, other="not read"),
                          {"quantiles": np.array([0.25]), "horizons_s": [60]})
    assert found.to_dict("records") == [_expected(predictor, request, uptime_s, now_s, (0.25,), (60.0,)) for
                                        request, uptime_s, now_s in zip(requests, uptimes_s, at, strict=True)]


@pytest.mark.parametrize(("column", "values", "same_as"), [
    ("cpu_cores", pd.array([4, None], "Int64"), [4, None]),
    ("cpu_cores", np.array([4, 8], np.int64), [4.0, 8.0]),
    ("cpu_cores", [4.0, float("nan")], [4.0, None]),
    ("cpu_cores", [None, None], [None, None]),
    ("subscription", [17.0, None], [17, None]),  # what pandas makes of numbers with a missing one
    ("subscription", np.array([17, 18]), ["17", "18"]),
    ("subscription", pd.array(["s1", pd.NA], "string"), ["s1", None]),
    ("subscription", pd.Categorical(["nobody", "s1"]), ["nobody", "s1"]),
    ("uptime_s", np.array([0, 7_200], np.int64), [0.0, 7_200.0]),
    ("now_s", [86_400.0, float("nan")], [86_400, None]),
])  # fmt: skip
def test_types_of_columns_do_not_matter(made: Made, column: str, values: Any, same_as: list[Any]) -> None:
    folder = made.folders["hazard"]
    predictor = Predictor.load(folder)
    base = {**made.request(3), "uptime_s": 60.0}
    table = pd.DataFrame([base, base]).assign(**{column: values})
    expected = []
    for value in same_as:
        request = {**base, column: value}
        uptime_s, now_s = request.pop("uptime_s"), request.pop("now_s", None)
        expected.append(_expected(predictor, request, uptime_s, made.trace.horizon_s if now_s is None else now_s))
    assert _load_pyfunc(str(folder)).predict(table).to_dict("records") == expected


def test_missing_columns_and_strange_indexes(made: Made) -> None:
    model, predictor = _load_pyfunc(str(made.folders["once"])), Predictor.load(made.folders["once"])
    found = model.predict(pd.DataFrame({"uptime_s": [0.0, 5.0]}, index=["b", "a"]))
    assert list(found.index) == ["b", "a"]
    assert found.to_dict("records") == [_expected(predictor, {}, up, made.trace.horizon_s) for up in (0.0, 5.0)]
    assert found["unknown"].iloc[0]
    assert len(model.predict(pd.DataFrame({"uptime_s": []}))) == 0


@pytest.mark.parametrize(("table", "params", "message"), [
    ({"cpu_cores": [1]}, None, r"uptime_s must be a column of the input, got \['cpu_cores'\]"),
    ({"uptime_s": [-1.0]}, None, "uptime_s must be"),
    ({"uptime_s": [None]}, None, "uptime_s must be"),
    ({"uptime_s": [0.0], "now_s": [math.inf]}, None, "now_s must be seconds or a datetime"),
    ({"uptime_s": [0.0], "cpu_cores": ["four"]}, None, "cpu_cores must be a number, got 'four'"),
    ({"uptime_s": [0.0]}, {"quantiles": [1.5]}, "got 1.5"),
    ({"uptime_s": [0.0]}, {"quantiles": 0.5}, "quantiles must be a list of numbers, got 0.5"),
    ({"uptime_s": [0.0]}, {"horizons_s": ["far"]}, r"horizons_s must be a list of numbers, got \['far'\]"),
])  # fmt: skip
def test_what_cannot_be_answered_is_named(made: Made, table: dict[str, Any], params: dict[str, Any] | None,
                                          message: str) -> None:
    model: PyfuncModel = _load_pyfunc(str(made.folders["hazard"]))
    with pytest.raises(ValueError, match=message):
        model.predict(pd.DataFrame(table), params)


def test_a_bundle_that_its_manifest_does_not_vouch_for_is_refused(made: Made, tmp_path: Path) -> None:
    for file in made.folders["once"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with (tmp_path / "schema.json").open("a") as schema:
        schema.write(" ")
    with pytest.raises(BundleError, match="sha256 must be"):
        _load_pyfunc(str(tmp_path))
