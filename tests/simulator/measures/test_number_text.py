"""One text for each number: no sign on what rounds to zero, one mark for what is not known."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sojourn
from sojourn.simulator.measures import MISSING, interval_text, number_text

ROOT = Path(sojourn.__file__).parent
SIGNED_FORMAT = re.compile(r":\+,?\.(?:\d|\{[^}]+\})f\}")
READ_BY_PERSONS = ("simulator/page", "simulator/experiments", "flows/reports", "flows/retrain", "flows/admission")


@pytest.mark.parametrize(("value", "digits", "sign", "text"), [
    (-0.04, 1, "", "0.0"), (-0.04, 1, "+", "0.0"), (0.04, 1, "+", "0.0"), (-0.04, 2, "+", "-0.04"),
    (0.0, 2, "+", "0.00"), (-0.0, 2, "", "0.00"), (-0.4, 0, "", "0"), (-0.6, 0, "", "-1"),
    (1.5, 1, "+", "+1.5"), (1.5, 1, "", "1.5"), (-1234.5, 1, "", "-1,234.5"),
    (math.nan, 2, "+", MISSING), (math.inf, 2, "", MISSING), (-math.inf, 2, "", MISSING),
])  # fmt: skip
def test_a_number_and_its_text(value: float, digits: int, sign: str, text: str) -> None:
    assert number_text(value, digits, sign) == text


def test_another_mark_for_what_is_not_known() -> None:
    assert number_text(math.nan, missing="-") == "-"


@given(st.floats(-1e12, 1e12), st.integers(0, 6))
def test_a_sign_stands_only_before_a_number_that_is_not_zero(value: float, digits: int) -> None:
    text = number_text(value, digits, "+")
    shown = float(text.replace(",", ""))
    assert (text[0] in "+-") == (shown != 0.0)
    assert shown == pytest.approx(value, abs=0.5000001 * 10.0**-digits, rel=1e-12)


def test_no_file_that_writes_for_persons_formats_signed_numbers_itself() -> None:
    found = [f"{path.relative_to(ROOT)}: {match[0]}" for room in READ_BY_PERSONS
             for path in sorted((ROOT / room).rglob("*.py")) for match in SIGNED_FORMAT.finditer(path.read_text())]
    assert found == []


def test_an_interval_with_an_end_that_is_not_known_is_missing() -> None:
    assert interval_text(-0.4, 0.04, 1, " ") == "-0.4 0.0"
    assert interval_text(math.nan, 1.0) == interval_text(1.0, math.nan) == "-"
