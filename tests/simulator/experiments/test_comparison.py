"""A comparison names policies as they call themselves, registered or not."""

from __future__ import annotations

import pandas as pd
import pytest

import sojourn.simulator as sim
from sojourn.simulator import POLICIES


def test_a_policy_that_is_not_registered_stands_under_its_own_name() -> None:
    table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 0], "departure_s": [40, 90],
                          "cpu_cores": [4.0, 4.0], "mem_gib": [8.0, 8.0]})
    workload = sim.build_workload("trace", sim.Trace(table, 100), cpu_cores=8, mem_gib=32, n_hosts=2)
    mine = sim.Policy("mine", POLICIES["first-fit"].scorers)
    found = sim.compare(workload, [(mine, "", None), ("first-fit", "", None)])
    assert found.table["policy"].tolist() == found.table.index.tolist() == ["best-fit", "mine", "first-fit"]
    with pytest.raises(ValueError, match=r"pairings must .*, got 'mine' twice"):
        sim.compare(workload, [(mine, "", None), (mine, "", None)])
