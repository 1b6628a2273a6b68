"""Where the training window begins, and what cannot be one."""

from __future__ import annotations

import pandas as pd
import pytest

from sojourn.features import Trace
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.trace import since_s


def _trace(start_unix_s: int | None = None) -> Trace:
    table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [9], "cpu_cores": [2.0],
                          "mem_gib": [8.0]})
    trace = Trace(table, 10 * 86_400)
    return trace if start_unix_s is None else trace.moved(start_unix_s, start_unix_s)


@pytest.mark.parametrize(("text", "from_s"), [
    (None, 0), ("3d", 7 * 86_400), ("12h", 10 * 86_400 - 43_200), ("10d", 0), ("90d", 0),
])  # fmt: skip
def test_a_span_ends_with_the_trace(text: str | None, from_s: int) -> None:
    assert since_s(text, _trace()) == from_s


@pytest.mark.parametrize(("text", "from_s"), [
    # 1,793,491,200 is 2026-11-01 00:00 UTC.
    ("2026-11-03", 2 * 86_400), ("2026-11-03T06:00", 2 * 86_400 + 21_600), ("2026-11-03T06:00+06:00", 2 * 86_400),
    ("2020-01-01", 0),
])  # fmt: skip
def test_a_date_stands_on_the_traces_calendar(text: str, from_s: int) -> None:
    assert since_s(text, _trace(1_793_491_200)) == 1_793_491_200 + from_s


@pytest.mark.parametrize(("text", "start", "words"), [
    ("2026-11-03", None, "since must be a number of days or hours .* no calendar, got '2026-11-03'"),
    ("2026-11-11", 1_793_491_200, "since must lie before the trace's end, 2026-11-11 00:00 UTC, got '2026-11-11'"),
])  # fmt: skip
def test_an_impossible_window_is_refused(text: str, start: int | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        since_s(text, _trace(start))


@pytest.mark.parametrize("text", ["", "0d", "-3d", "90", "3w", "d", "2026-13-01", "last week", "999999999d"])
def test_a_setting_that_is_none_is_refused_before_any_work(text: str) -> None:
    with pytest.raises(ValueError, match="since must be a number of days or hours"):
        RetrainConfig(since=text)
