"""Profiles for the loop: an owner's past only, by hand and against another future."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sojourn.simulator as sim
from sojourn.features import Roles, Trace
from studies.lifetime_period import N_SLOTS, overcommitted, own_profile, owner_profile

DAY_S = 86_400


def _workload(late: float = 0.5) -> sim.Workload:
    """Owner a has a request on day 0 and one on day 1; b only on day 1. late: what is used from day 1 on."""
    table = pd.DataFrame({"request_id": [1, 2, 3], "arrival_s": [0, DAY_S, DAY_S + 60], "departure_s": [2 * DAY_S] * 3,
                          "cpu_cores": 2.0, "mem_gib": 1.0, "user": ["a", "a", "b"]})
    usage = pd.DataFrame({"request_id": [1, 1, 1, 2, 3], "time_s": [0, 1800, DAY_S, DAY_S, DAY_S + 300],
                          "cpu_frac": [0.2, 0.4, late, late, late]})
    trace = Trace(table, 2 * DAY_S, Roles(owners=("user",)), usage=usage)
    return sim.build_workload("trace", trace, cpu_cores=8, mem_gib=32, n_hosts=2)


def test_owners_past_by_hand() -> None:
    """Day 0: nothing is known, all is reserved. Day 1: a has .2 and .4, mean .3; b takes the mean of all requests."""
    found = owner_profile(_workload()).milli_cores
    assert found.shape == (3, N_SLOTS)
    assert found[0].tolist() == [2000] * N_SLOTS
    assert found[1, :3].tolist() == [400, 800, 600]
    assert found[2].tolist() == [600] * N_SLOTS


def test_another_future_changes_no_owners_profile_but_the_own_one() -> None:
    some, other = _workload(0.5), _workload(0.9)
    assert np.array_equal(owner_profile(some).milli_cores, owner_profile(other).milli_cores)
    assert not np.array_equal(own_profile(some).milli_cores, own_profile(other).milli_cores)


def test_own_profile_by_hand() -> None:
    found = own_profile(_workload()).milli_cores
    assert found[0, :3].tolist() == [700, 800, 733]  # (.2 + .5) / 2, .4, mean of three, of 2 cores
    assert found[2].tolist() == [1000] * N_SLOTS


def test_overcommit_below_one_and_traces_without_usage_are_refused() -> None:
    trace = _workload().trace
    with pytest.raises(ValueError, match="factor must be at least 1"):
        overcommitted(trace, 0.5)
    with pytest.raises(ValueError, match="trace must carry usage"):
        overcommitted(Trace(trace.requests, trace.horizon_s), 2.0)
