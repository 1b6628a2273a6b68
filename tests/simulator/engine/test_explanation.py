"""What is said about a decision is what the replay did."""

import numpy as np
import pandas as pd
import pytest

import naive
import sojourn.simulator as sim
import studies.policies  # noqa: F401  # their names are known then
from sojourn.features.synthetic import synthesize

HOSTS = pd.DataFrame({"host_id": ["h0", "h1", "h2", "h3"], "cpu_cores": [8.0] * 4, "mem_gib": [32.0] * 4,
                      "machine": ["n1", "n1", "n2", "n2"]})


@pytest.mark.parametrize("policy", ["best-fit", "nilas", "nilas-60s", "nilas-one-shot", "lava"])
def test_chosen_host_is_the_replays(policy: str) -> None:
    workload = sim.build_workload("synthetic", synthesize(3_000, seed=1))
    source = sim.NoisyOracle(workload, 1.0)
    result = sim.simulate(workload, policy, source)
    for row in np.random.default_rng(0).integers(0, len(workload.trace), 20).tolist():
        found = sim.explain(workload, policy, source, workload.request_ids[row])
        assert found.host_id == workload.hosts["host_id"][result.host[row]]
        assert found.time_s == workload.placed_s[row]


def test_reasons_scores_and_meanings() -> None:
    # at 50: h0 runs 6 of 8 cores until 1,000 s, h1 2 of 8 until 500 s and one of the group "a"
    rows = [(0, 1_000, 6.0, 8.0), (0, 500, 3.0, 8.0), (50, 4_050, 4.0, 8.0)]
    trace = naive.trace_of(rows, 5_000)
    requests = trace.requests.assign(machine=[None, None, "n1"], group=[None, "a", "a"])
    workload = sim.Workload("test", sim.Trace(requests, 5_000), HOSTS, np.array([1_000, 500, 4_000]),
                            constraints=sim.Constraints(host_type="machine", apart_by="group"))
    found = sim.explain(workload, "nilas", sim.Oracle(workload), 2)
    assert found.table["excluded"].tolist() == [
        "no room: cpu_cores", "another of its group is there", "another type of host", "another type of host"]
    assert (found.host_id, found.remaining_s, found.need) == (None, 4_000, {"cpu_cores": 4.0, "mem_gib": 8.0})

    free = sim.Workload("test", trace, HOSTS, np.array([1_000, 500, 4_000]))
    table = sim.explain(free, "nilas", sim.Oracle(free), 2).table
    # h1 empties at 500: 4,050 - 500 = 3,550 s, [30, 60) min is bucket 1; empty hosts: 4,000 s, [60, 90) min is bucket 2
    assert table["temporal_cost"].tolist()[1:] == [1.0, 2.0, 2.0]
    # 8 - 3 - 4 of 8 cores, and 8 - 4 of 8
    assert table["free_share_left (cpu_cores)"].tolist()[1:] == [0.125, 0.5, 0.5]
    assert np.isnan(table["temporal_cost"][0])


def test_unknown_request_is_refused() -> None:
    workload = sim.Workload("test", naive.trace_of([(0, 9, 1.0, 1.0)], 10), HOSTS, np.array([9]))
    with pytest.raises(KeyError, match=r"request_id must be in the workload, got 'zz'"):
        sim.explain(workload, "best-fit", None, "zz")
