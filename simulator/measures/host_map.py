"""The hosts of a replay over time, by lifetime class and by the policy's own state."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.engine import Result
from sojourn.simulator.measures.host_classes import HostMap
from sojourn.simulator.policies import UPPER_S
from sojourn.simulator.workloads import Workload


def host_map(workload: Workload, result: Result) -> HostMap:
    """Each host's lifetime class by the longest true remaining time on it, at the result's samples.

    0 on an empty host, else 1 to 4 as in LAVA (section 4.3): below 1 h, 10 h, 100 h, and longer. With the policy's own
    state where it names one. ValueError for a result of another workload.

    >>> import pandas as pd
    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [7_000], "cpu_cores": [4.0],
    ...                       "mem_gib": [8.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 10_000), cpu_cores=8, mem_gib=32, n_hosts=2)
    >>> classes = host_map(workload, sim.simulate(workload)).lifetime_class
    >>> classes[0].tolist(), np.unique(classes[:, 0]).tolist()
    ([2, 0], [0, 1, 2])
    """
    samples = result.samples
    if samples.n_running.shape[1] != len(workload.capacity):
        raise ValueError(f"result must be of this workload ({len(workload.capacity)} hosts), got "
                         f"{samples.n_running.shape[1]}")
    remaining_s = samples.last_end_s - samples.time_s[:, None]
    found = 1 + np.searchsorted(UPPER_S[:-1], remaining_s, side="right")
    classes = np.where(samples.n_running > 0, found, 0).astype(np.int8)
    if samples.state is None:
        return HostMap(samples.time_s, classes)
    return HostMap(samples.time_s, classes, samples.state.astype(np.int8), samples.state_names)
