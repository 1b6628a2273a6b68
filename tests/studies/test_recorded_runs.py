"""What a trace did itself: machines in use, evictions and their cost, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sojourn.simulator.mixed import BatchRequests, MixedWorkload, Services
from sojourn.simulator.pool import MachineType
from studies.recorded_runs import RecordedRuns, replay_recorded

TEN = MachineType("ten", {"cpu_cores": 0.01, "mem_gib": 10 / 1024}, 2.0)
"""Of 10 milli-cores and 10 MiB."""


def workload(n_batch: int) -> MixedWorkload:
    """One service on machine 0 that uses 4 of 10, two intervals of 100 s; three machines."""
    zeros, two = np.zeros(n_batch, np.int64), np.ones((n_batch, 2), np.int64)
    return MixedWorkload(
        Services(np.array([[8, 8]]), np.full((1, 2, 2), 4), np.array([0]), np.array([2]), np.array([0])),
        BatchRequests(zeros, zeros, two, two, two, zeros, zeros, zeros), 100, "made", n_machines=3)


def runs(*rows: tuple[int, int, int, int, int]) -> RecordedRuns:
    """Request, machine, start s, end s (-1 = runs), used in both resources."""
    request, machine, start, end, used = np.array(rows, np.int64).T
    return RecordedRuns(request, machine, start * 1000, np.where(end < 0, -1, end * 1000), np.stack([used, used], 1))


def test_use_machines_and_overload() -> None:
    # machine 0: 4, and 6 more from 50 s to 150 s: a mean of 7 in both intervals; machine 2: 9 of 10 for the second
    result = replay_recorded(workload(2), runs((0, 0, 50, 150, 6), (1, 2, 100, -1, 9)), TEN)
    assert result.series["n_machines"].tolist() == [1, 2]
    assert result.series["cpu_pct"].tolist() == pytest.approx([70, 80])
    assert result.series["overloaded_pct"].tolist() == pytest.approx([0, 50])
    assert (result.n_machines, result.most_machines) == (1.5, 2)
    assert result.price == pytest.approx(2.0 * 3 * 100 / 3600)
    assert result.outcomes()["ended"] == result.outcomes()["running"] == 1
    assert result.batch_host.tolist() == [-1, 2]


def test_a_run_that_another_follows_was_rescheduled() -> None:
    # 0: runs of 10 s, 20 s, then to its end; from start to start 15 s and 30 s. 1 is placed once and fails
    result = replay_recorded(workload(2), runs((0, 1, 0, 10, 1), (0, 1, 15, 35, 1), (0, 2, 45, 60, 1),
                                               (1, 1, 20, 30, 1)), TEN)
    assert result.n_evicted.tolist() == [2, 0]
    assert result.cost_ms.tolist() == [45_000, 0]
    assert (result.n_rescheduled, result.n_multi_rescheduled, result.mean_cost_s) == (1, 1, 45.0)
    assert result.started_ms.tolist() == [45_000, 20_000]


def test_use_above_the_capacity_is_overload_and_not_counted() -> None:
    result = replay_recorded(workload(1), runs((0, 0, 0, 200, 16)), TEN)
    assert (result.cpu_pct, result.above_capacity_pct) == (100.0, 100.0)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"machine must .*, got 3 to 3"):
        replay_recorded(workload(1), runs((0, 3, 0, 10, 1)), TEN)
    unknown = replace(workload(1), services=replace(workload(1).services, machine=np.array([-1])))
    with pytest.raises(ValueError, match="machine must be"):
        replay_recorded(unknown, runs((0, 1, 0, 10, 1)), TEN)
    with pytest.raises(ValueError, match="runs must be in the order"):
        runs((1, 0, 0, 10, 1), (0, 0, 0, 10, 1))
    with pytest.raises(ValueError, match="end_ms must not be before start_ms"):
        runs((0, 0, 10, 5, 1))
    with pytest.raises(ValueError, match=r"request must .*, got 1"):
        replay_recorded(workload(1), runs((1, 1, 0, 10, 1)), TEN)
    with pytest.raises(ValueError, match="machine must be whole numbers"):
        replace(runs((0, 1, 0, 10, 1)), machine=np.array([0.5]))
