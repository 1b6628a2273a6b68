"""The summary of a trace, by hand-made numbers, and its picture."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import StepPatch

from sojourn.features.describe import describe, lifetime_figure, peak_demand
from sojourn.features.synthetic import synthesize
from sojourn.features.trace import Roles, Trace


def small() -> Trace:
    table = pd.DataFrame({
        "request_id": [1, 2, 3, 4],
        "arrival_s": [None, -3600, 0, 1800], "departure_s": [1800, 3600, 1800, None],
        "cpu_cores": [1.0, 2.0, 4.0, 8.0], "mem_gib": [1.0, 1.0, 1.0, 1.0], "user": ["a", "a", "b", "c"]})
    return Trace(table, 7200, Roles(owners=("user",)), meta={"source": "by hand"})


def test_counts() -> None:
    summary = describe(small())
    assert (summary.n_requests, summary.n_censored) == (4, 1)
    assert (summary.n_running_at_0, summary.n_unknown_start) == (2, 1)
    assert summary.owners == {"user": 3}


def test_long_shares() -> None:
    summary = describe(small())
    # Lifetimes 1800, 7200, 1800, 5400 s; core-seconds 1800, 14400, 7200, 43200: long = 57600 of 66600.
    assert summary.long_share == 0.5
    assert summary.long_core_share == pytest.approx(57600 / 66600)


def test_demand() -> None:
    summary = describe(small())
    # Until 1800 s: 1 + 2 + 4 cores; until 3600 s: 2 + 8 (the departures at 1800 come first); then 8.
    assert summary.peak["cpu_cores"] == peak_demand(small(), "cpu_cores") == 10.0
    assert summary.mean["cpu_cores"] == pytest.approx((7 * 1800 + 10 * 1800 + 8 * 3600) / 7200)


def test_text_is_aligned_and_names_the_share_still_running() -> None:
    lines = describe(small()).lines()
    assert "running at the horizon  1 (25.0 %)" in lines
    # The longest label is "running at the horizon": 22 letters and two blanks before every value.
    assert all(line[22:24] == "  " and line[24] != " " for line in lines)


def test_an_empty_trace_is_refused() -> None:
    empty = small().select(np.zeros(4, bool))
    for function in (describe, lifetime_figure):
        with pytest.raises(ValueError, match="trace must hold at least one request"):
            function(empty)


def test_the_picture_shows_the_share_of_requests_that_live_an_hour() -> None:
    trace = synthesize(3000, seed=3, days=7)
    left, right = lifetime_figure(trace).axes
    requests, cores = left.get_lines()[:2]
    at = np.searchsorted(np.asarray(requests.get_xdata()), 3600)
    summary = describe(trace)
    assert np.asarray(requests.get_ydata())[at] == pytest.approx(100 * summary.long_share)
    assert np.asarray(cores.get_ydata())[at] == pytest.approx(100 * summary.long_core_share, abs=0.01)
    assert right.get_ylabel() == "arrivals per hour"


def test_a_century_is_drawn_in_few_bars() -> None:
    table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [3_000_000_000],
                          "cpu_cores": [1.0], "mem_gib": [1.0]})
    right = lifetime_figure(Trace(table, 3_000_000_000)).axes[1]
    bars = right.patches[0]
    assert isinstance(bars, StepPatch)
    assert len(bars.get_data()[0]) <= 1501
