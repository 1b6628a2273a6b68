"""The encoder: order of features, missing values, and what is refused."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest

from sojourn.serving.inputs import Encoder, HistoryDefinition, HistoryKey, HistoryState

HISTORY = HistoryDefinition((HistoryKey("user+size", ("user", "cores"), "owner"),
                             HistoryKey("zone", ("zone",), "category")))
ENCODER = Encoder(("cores", "gib"), ("user", "zone"), HISTORY, phase_s=86_400)
REQUEST = {"cores": 2, "gib": 7.5, "user": "ann", "zone": "z1"}


def test_features_in_order() -> None:
    parsed = ENCODER.parse(REQUEST)
    features = ENCODER.encode(parsed, 5_400, HistoryState(HISTORY))
    # the clock's 0 is a Tuesday 00:00 (phase of one day): 01:30 of weekday 1
    assert features[:4] == [2.0, 7.5, 1.5, 1.0]
    assert len(features) == len(ENCODER.feature_names()) == 4 + 15 + 2
    assert parsed.keys == (("ann", "2.0"), ("z1",))
    assert parsed.unknown == ()


def test_the_clock_runs_before_zero_and_over_weeks() -> None:
    parsed = ENCODER.parse(REQUEST)
    clocks = [ENCODER.encode(parsed, now_s, HistoryState(HISTORY))[2:4] for now_s in (-1, 6 * 86_400, -86_401)]
    # 23:59:59 of Monday; a week later minus a day: Monday 00:00; 23:59:59 of Sunday
    assert clocks == [[86_399 / 3_600, 0.0], [0.0, 0.0], [86_399 / 3_600, 6.0]]


@pytest.mark.parametrize("missing", [None, math.nan, np.nan])
def test_missing_values_are_nan_and_reported(missing: Any) -> None:
    parsed = ENCODER.parse({"cores": missing, "user": "ann"})
    assert parsed.unknown == ("cores", "gib", "zone")
    assert parsed.keys == (("ann", "-"), None)
    assert all(math.isnan(value) for value in ENCODER.encode(parsed, 0, HistoryState(HISTORY))[:2])


@pytest.mark.parametrize("value", ["2", b"2", True, np.True_, math.inf, -math.inf, 10**400, [2], 2j,
                                   np.array([1.0, 2.0])], ids=repr)  # fmt: skip
def test_a_number_that_is_none_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ValueError, match="cores must be"):
        ENCODER.parse(REQUEST | {"cores": value})


SIZED = Encoder(("requested_s", "cpu_cores", "mem_gib", "gpu"), (), HistoryDefinition(()))
SIZED_REQUEST: dict[str, Any] = {"requested_s": -1.0, "cpu_cores": 2.0, "mem_gib": 0.0, "gpu": 0.0}


@pytest.mark.parametrize("size", ["cpu_cores", "mem_gib", "gpu"])
@pytest.mark.parametrize("value", [-1, -1e-9, math.nan, math.inf, -math.inf, np.float64("nan"), np.int64(-3)], ids=repr)
@pytest.mark.parametrize("others", [SIZED_REQUEST, {}], ids=["all columns", "one column"])
def test_a_size_is_finite_and_not_below_0(size: str, value: Any, others: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"^{size} must be finite and at least 0, got .*{str(value)[:4]}"):
        SIZED.parse({**others, size: value})


def test_a_size_may_be_0_or_not_given_and_other_numbers_may_be_below_0() -> None:
    assert SIZED.parse(SIZED_REQUEST).numbers == (-1.0, 2.0, 0.0, 0.0)
    assert SIZED.parse({"cpu_cores": None, "gpu": -0.0}).unknown == ("requested_s", "cpu_cores", "mem_gib")


@pytest.mark.parametrize("value", [1.5, b"ann", ["ann"], {"ann": 1}], ids=repr)
def test_a_name_that_is_no_text_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ValueError, match="user must be text or a whole number, got"):
        ENCODER.parse(REQUEST | {"user": value})


@pytest.mark.parametrize(("value", "text"), [(7, "7"), (np.int64(7), "7"), (True, "1"), (np.False_, "0"), ("7", "7")])
def test_whole_numbers_and_booleans_are_names(value: Any, text: str) -> None:
    assert ENCODER.parse(REQUEST | {"zone": value}).keys[1] == (text,)


def test_an_unknown_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"column must .*, got 'colour'"):
        ENCODER.parse(REQUEST | {"colour": "red"})
    with pytest.raises(ValueError, match="request must be a mapping"):
        ENCODER.parse(["cores"])  # type: ignore[arg-type]


def test_a_definition_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="history key 'zone' must use known columns, got 'zone'"):
        Encoder(("cores",), ("user",), HISTORY)
    with pytest.raises(ValueError, match="columns must differ"):
        Encoder(("cores", "gib"), ("user", "zone", "gib"), HISTORY)


def test_equal_numbers_of_other_types_are_read_as_they_are_alone() -> None:
    """What was parsed before is kept. True equals 1, but is refused; -0.0 equals 0.0, and has its text."""
    for first, second in ((1, 1.0), (0.0, -0.0), (-0.0, 0), (np.float64(-0.0), 0), (2, np.float64(2.0))):
        parsed = ENCODER.parse(REQUEST | {"cores": first})
        assert parsed == ENCODER.parse(REQUEST | {"cores": second})
        assert repr(parsed.numbers[0]) == repr(abs(float(second)))  # and no numpy number
    with pytest.raises(ValueError, match="cores must be a number, got True"):
        ENCODER.parse(REQUEST | {"cores": True})
    assert ENCODER.parse(REQUEST | {"user": "1"}) == ENCODER.parse(REQUEST | {"user": 1})


@pytest.mark.parametrize("numbers", [(10**400, 1), (math.inf, -math.inf), (1, 10**400), (1e308, math.inf)], ids=repr)
def test_numbers_that_no_sum_takes_are_named(numbers: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match=r"(cores|gib) must be (a )?finite"):
        ENCODER.parse(REQUEST | dict(zip(("cores", "gib"), numbers, strict=True)))


def test_large_numbers_whose_sum_is_infinite_are_taken() -> None:
    assert ENCODER.parse(REQUEST | {"cores": 1e308, "gib": 1.5e308}).numbers == (1e308, 1.5e308)


def test_encoders_of_few_and_many_columns() -> None:
    one = Encoder((), ("user",), HistoryDefinition((HistoryKey("user", ("user",), "owner"),)))
    assert one.parse({"user": "ann"}) == ((), (("ann",),), ())
    none = Encoder((), (), HistoryDefinition(()))
    assert none.parse({}) == ((), (), ())
    wide = Encoder(tuple(f"n{idx}" for idx in range(9)), (), HistoryDefinition(()))
    for value in (2, 2.0):
        assert wide.parse(dict.fromkeys(wide.numbers, value)).numbers == (2.0,) * 9


def test_an_encoder_is_copied_by_its_definition() -> None:
    copied = copy.deepcopy(ENCODER)
    assert copied == ENCODER
    assert copied.parse(REQUEST) == ENCODER.parse(REQUEST)
    assert copied._parsed is not ENCODER._parsed
