"""The map of hosts against classes worked out by hand, and LAVA's own state beside it."""

import numpy as np
import pandas as pd
import pytest

import naive
import sojourn.simulator as sim

HOUR = 3600


def workload_of(n_hosts: int = 2) -> sim.Workload:
    # Two requests share host 0 for their first hour; the longer stays for 150 h, and has a class less at 100 h and 10 h
    # and 1 h before its end.
    trace = naive.trace_of([(0, 150 * HOUR, 2.0, 2.0), (0, HOUR, 2.0, 2.0)], 200 * HOUR)
    hosts = pd.DataFrame({"host_id": range(n_hosts), "cpu_cores": 8.0, "mem_gib": 8.0})
    return sim.Workload("test", trace, hosts, trace.lifetime_s())


def test_classes_are_those_of_the_longest_true_remaining_time() -> None:
    workload = workload_of()
    found = sim.host_map(workload, sim.simulate(workload))
    left = 150 * HOUR - found.time_s
    expected = np.select([left >= 100 * HOUR, left >= 10 * HOUR, left >= HOUR, left > 0], [4, 3, 2, 1], 0)
    assert found.lifetime_class[:, 0].tolist() == expected.tolist()
    assert set(expected.tolist()) == {0, 2, 3, 4}  # samples are 2 h apart: none is in the last hour
    assert (found.lifetime_class[:, 1] == 0).all()
    assert found.state is None


def test_lava_has_its_modes_beside() -> None:
    # Host 0 opens with class 4 for 1.1 x 1,000 h at most; a quarter of it is in use, so it never recycles.
    workload = workload_of()
    found = sim.host_map(workload, sim.simulate(workload, "lava", sim.Oracle(workload)))
    assert found.state is not None
    assert found.state[:, 0].tolist() == (found.lifetime_class[:, 0] > 0).astype(int).tolist()
    assert found.state_names == ("empty", "open", "recycling")


def test_lava_recycles_where_a_host_is_full() -> None:
    trace = naive.trace_of([(0, 150 * HOUR, 8.0, 2.0)], 200 * HOUR)
    hosts = pd.DataFrame({"host_id": [0], "cpu_cores": [8.0], "mem_gib": [8.0]})
    workload = sim.Workload("test", trace, hosts, trace.lifetime_s())
    state = sim.simulate(workload, "lava", sim.Oracle(workload)).samples.state
    assert state is not None
    assert set(state[:, 0].tolist()) == {0, 2}


def test_a_result_of_other_hosts_is_refused() -> None:
    with pytest.raises(ValueError, match=r"result must .*, got 2"):
        sim.host_map(workload_of(3), sim.simulate(workload_of()))
