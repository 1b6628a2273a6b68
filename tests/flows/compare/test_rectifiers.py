"""Rectification by text: one form of each, and errors that name what is wrong."""

from __future__ import annotations

import pytest

from sojourn.flows.compare.grid import parse_rectifier, rectifier_name
from sojourn.flows.compare.settings import CompareConfig
from sojourn.simulator import Rectify


def test_every_option_is_read() -> None:
    assert parse_rectifier("pdre:7,pinned=0.25,by-owner,long=12,hour=3,every=0.5", seed=9) == Rectify(
        "pdre", 7, 3, 0.25, True, 43_200, 9, 1_800)
    assert parse_rectifier("none") is None


@pytest.mark.parametrize("text", ["pdre:5", "pdre:0", "pdre:7,pinned=0.25,by-owner,long=12,hour=3", "value:5,every=1",
                                  "none"])
def test_the_one_form_names_itself(text: str) -> None:
    assert rectifier_name(text) == text


@pytest.mark.parametrize(("text", "words"), [
    ("lars:5", "begin with one of"),
    ("pdre:two", "got 'two' for a whole number"),
    ("pdre:-1", "0 to 1,000,000 migrations a day, got '-1'"), ("pdre:5,pinned=2", "pinned must be a share in 0..1"),
    ("pdre", "how many migrations a day, as in pdre:5, got 'pdre'"), ("pdre:99999999", "got '99999999'"),
    ("pdre:5,pinned=.1,pinned=.9", "pinned must be given once, got 2 times"),
    ("pdre:5,pinned=nan", "pinned must be a share in 0..1"),
    ("pdre:5,long=0", "long must be a finite number of hours above 0"),
    ("pdre:5,long=inf", "long must be a finite number"), ("pdre:5,hour=24", "hour must be in 0..23"),
    ("pdre:5,every=0", "every must be a finite number of hours above 0"),
    ("pdre:5,every=7", "divides a day, got 25200"),
    ("pdre:5,now", "got 'now'"), ("pdre:5,by-owner=1", "got 'by-owner=1'"),
])
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_rectifier(text)


def test_the_settings_keep_the_one_form_and_leave_none_out() -> None:
    assert CompareConfig(rectifiers=("none", "pdre:5,hour=0", "pdre:5")).rectifiers == ("pdre:5",)
