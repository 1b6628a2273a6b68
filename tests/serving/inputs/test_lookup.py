"""The row of a lookup table: found by the finest key, the same from texts and from codes, and read back checked."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from sojourn.features.creation import key_codes
from sojourn.serving.inputs import ROW, Encoder, HistoryDefinition, HistoryKey, Lookup, key_code

KEYS = (HistoryKey("user", ("user",), "owner"), HistoryKey("user+shape", ("user", "cpu_cores"), "owner"),
        HistoryKey("zone", ("zone",), "category"))
LOOKUP = Lookup((2, 0, 1), ({key_code(("eu",)): 1}, {key_code(("ann",)): 2, key_code(("b\x1fc",)): 3},
                            {key_code(("ann", "2.0")): 4}))
ENCODER = Encoder(("cpu_cores",), ("user", "zone"), HistoryDefinition(KEYS), lookup=LOOKUP)


@pytest.mark.parametrize("request_, row", [
    ({"user": "ann", "zone": "eu", "cpu_cores": 2}, 4.0),
    ({"user": "ann", "zone": "eu", "cpu_cores": 3.0}, 2.0),
    ({"user": "bob", "zone": "eu", "cpu_cores": 2.0}, 1.0),
    ({"user": "bob", "zone": "us", "cpu_cores": 2.0}, 0.0),
    ({"user": "ann"}, 2.0),
    ({"user": "\ud800", "zone": "\ud800", "cpu_cores": 2.0}, 0.0),
    ({}, 0.0),
])  # fmt: skip
def test_the_finest_key_that_has_a_row_is_read(request_: dict[str, object], row: float) -> None:
    parsed = ENCODER.parse(request_)
    assert parsed.numbers[-1] == row
    assert len(parsed.numbers) == ENCODER.n_numbers == 2
    codes = [key_codes([key]) for key in parsed.keys]
    assert LOOKUP.rows_of(codes, 1).tolist() == [int(row)]
    without = replace(ENCODER, lookup=None)
    known = without.parse(request_)
    assert (*known.numbers, row) == pytest.approx(parsed.numbers, nan_ok=True)
    assert (known.keys, known.unknown) == (parsed.keys, parsed.unknown)


def test_rows_of_a_training_encoder_get_the_row_and_others_stay() -> None:
    assert ENCODER.feature_names()[:3] == ("cpu_cores", ROW, "hour")
    codes = [key_codes([("ann",), None]), key_codes([("ann", "2.0"), None]), key_codes([("eu",), ("eu",)])]
    features = np.arange(2.0 * (len(ENCODER.feature_names()) - 1)).reshape(2, -1)
    found = ENCODER.with_row(features, codes)
    assert found[:, 1].tolist() == [4.0, 1.0]
    np.testing.assert_array_equal(np.delete(found, 1, axis=1), features)
    assert ENCODER.with_row(found, codes) is found
    assert replace(ENCODER, lookup=None).with_row(features, codes) is features


def test_a_copy_and_what_was_kept_find_the_same_rows() -> None:
    arrays = LOOKUP.to_arrays()
    kept = Lookup.from_arrays(LOOKUP.positions, arrays["places"], arrays["codes"])
    assert kept.rows == LOOKUP.rows and kept.n_rows == 5
    assert copy.deepcopy(ENCODER).parse({"user": "ann", "zone": "eu", "cpu_cores": 2.0}).numbers == (2.0, 4.0)


@pytest.mark.parametrize("places, codes, reason", [
    (np.zeros(2, np.int64), np.array([7, 7]), "codes must name each key once"),
    (np.zeros(2, np.int64), np.array([7]), "codes must be whole numbers, one a row, got int64 of shape"),
    (np.zeros(1), np.array([7]), "places must be whole numbers, one a row, got float64"),
    (np.full(1, 3), np.array([7]), "places must be below 3 and codes of 56 bits"),
    (np.full(1, -1), np.array([7]), "places must be below 3"),
    (np.zeros(1, np.int64), np.array([-1]), "codes of 56 bits"),
    (np.zeros(1, np.int64), np.array([1 << 56]), "codes of 56 bits"),
    (np.zeros(1 << 18, np.int64), np.arange(1 << 18), "rows must be at most 262144, got 262145"),
])  # fmt: skip
def test_arrays_that_are_no_lookup_are_refused(places: np.ndarray, codes: np.ndarray, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Lookup.from_arrays((2, 0, 1), places, codes)
