"""The summary of a trace, by hand-made numbers."""

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Roles, Trace
from sojourn.features.describe import demand_steps, describe, peak_demand


def small(hosts: pd.DataFrame | None = None, usage: pd.DataFrame | None = None) -> Trace:
    table = pd.DataFrame({
        "request_id": [1, 2, 3, 4],
        "arrival_s": [None, -3600, 0, 1800], "departure_s": [1800, 3600, 1800, None],
        "cpu_cores": [1.0, 2.0, 4.0, 8.0], "mem_gib": [1.0, 1.0, 1.0, 1.0], "user": ["a", "a", "b", "c"]})
    return Trace(table, 7200, Roles(owners=("user",)), hosts, usage, meta={"source": "by hand"})


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
    # 43200 of the 66600 core-seconds are of the last request.
    assert "running at the horizon  1 (25.0 %), 64.9 % of core-hours so far" in lines
    # The user a has 2 of 4 requests; the middle of 2, 1 and 1 is 1; a tenth of 3 keys is rounded up to 1.
    assert "owner user              3 keys, median 1 requests, busiest tenth 50.0 % of requests" in lines
    # Two arrive from 0 on, in the first of two hours.
    assert "arrivals                mean 1.0 per hour, largest hour 2" in lines
    # The longest label is "running at the horizon": 22 letters and two blanks before every value.
    assert all(line[22:24] == "  " and line[24] != " " for line in lines)


def test_utilisation_names_the_binding_resource() -> None:
    hosts = pd.DataFrame({"host_id": [1, 2], "cpu_cores": [8.0, 8.0], "mem_gib": [2.0, 2.0], "gpu": [1.0, 0.0]})
    summary = describe(small(hosts))
    # Cores: peak 10 of 16, mean 59400 / 7200 = 8.25. Memory: peak 3 of 4 until 1800 s, mean (3 + 2 + 1 + 1) / 4.
    assert summary.capacity == {"cpu_cores": 16.0, "mem_gib": 4.0}
    assert summary.binding == "mem_gib"
    assert summary.lines()[-3:] == [
        "hosts                   2",
        "utilisation cpu_cores   mean 51.6 %, peak 62.5 % of 16 cores",
        "utilisation mem_gib     mean 43.8 %, peak 75.0 % of 4 GiB (binding)"]
    assert describe(small()).binding is None


def test_further_resources_are_described_in_their_own_units() -> None:
    table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 0], "departure_s": [100, 50], "cpu_cores": [1.0, 1.0],
                          "mem_gib": [1.0, 1.0], "disk_gib": [10.0, 30.0], "net_gbps": [0.5, 0.25],
                          "slots": [1.0, 2.0]})
    hosts = pd.DataFrame({"host_id": [1], "cpu_cores": [8.0], "mem_gib": [8.0], "disk_gib": [50.0], "slots": [4.0]})
    summary = describe(Trace(table, 100, Roles(resources=("disk_gib", "net_gbps", "slots")), hosts))
    # Disk: 40 GiB until 50 s, then 10; of 50. The hosts do not say how fast their network is.
    assert [line for line in summary.lines() if line.startswith(("demand", "utilisation"))][2:] == [
        "demand disk_gib         mean 25, peak 40 GiB",
        "demand net_gbps         mean 0.625, peak 0.75 Gbit/s",
        "demand slots            mean 2, peak 3",
        "utilisation cpu_cores   mean 18.8 %, peak 25.0 % of 8 cores",
        "utilisation mem_gib     mean 18.8 %, peak 25.0 % of 8 GiB",
        "utilisation disk_gib    mean 50.0 %, peak 80.0 % of 50 GiB (binding)",
        "utilisation slots       mean 50.0 %, peak 75.0 % of 4"]


def test_usage_counts() -> None:
    usage = pd.DataFrame({"request_id": [2, 2, 4], "time_s": [0, 300, 1800], "cpu_frac": [0.2, 0.3, 0.4]})
    assert describe(small(usage=usage)).lines()[-1] == \
        "usage                   2 series, 3 samples, mean 30.0 % of the cores"
    assert not any(line.startswith("usage") for line in describe(small()).lines())


def test_machine_shares_below_one_are_told() -> None:
    table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [100], "cpu_cores": [0.0625],
                          "mem_gib": [0.25]})
    assert "demand cpu_cores        mean 0.0625, peak 0.0625 cores" in describe(Trace(table, 100)).lines()


def test_demand_steps_lose_nothing() -> None:
    trace = small()
    time_s, amount = demand_steps(trace, "cpu_cores")
    assert (np.diff(time_s) >= 0).all() and amount[-1] == 0
    assert (amount[:-1] * np.diff(time_s)).sum() == pytest.approx(describe(trace).mean["cpu_cores"] * 7200)


def test_an_empty_trace_is_refused() -> None:
    empty = small().select(np.zeros(4, bool))
    with pytest.raises(ValueError, match="trace must hold at least one request"):
        describe(empty)
