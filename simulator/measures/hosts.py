"""A replay's hosts over time, by lifetime class and the policy's state; figures of a rectifier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.simulator.cluster import DAY_S
from sojourn.simulator.engine import Result
from sojourn.simulator.measures.measure import Measure
from sojourn.simulator.policies import UPPER_S
from sojourn.simulator.workloads import Workload


def host_map(workload: Workload, result: Result) -> HostMap:
    """Each host's lifetime class by the longest true remaining time on it, at the result's samples.

    0 on an empty host, else 1 to 4 as in LAVA (section 4.3): below 1 h, 10 h, 100 h, and longer.
    With the policy's state if the result has it. ValueError for a result of another workload.

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
    number = 1 + np.searchsorted(UPPER_S[:-1], remaining_s, side="right")
    classes = np.where(samples.n_running > 0, number, 0).astype(np.int8)
    if samples.state is None:
        return HostMap(samples.time_s, classes)
    return HostMap(samples.time_s, classes, samples.state.astype(np.int8), samples.state_names)


@dataclass(frozen=True, slots=True)
class HostMap:
    """The hosts of one replay at k times.

    time_s: int64 (k,), seconds from the replay's start, warm-up included.
    lifetime_class: int8 (k, n_hosts), 0 = empty, 1..4 = LC1..LC4 of the request that stays longest.
    state: int8 (k, n_hosts), the policy's state of each host as an index into state_names; None if
        it has none. state_names: by default LAVA's (section 4.3).

    >>> HostMap(np.array([0, 60]), np.array([[0, 3], [4, 0], [1, 1]], np.int8))
    Traceback (most recent call last):
    ValueError: lifetime_class must have 2 rows, got shape (3, 2)
    """

    time_s: np.ndarray
    lifetime_class: np.ndarray
    state: np.ndarray | None = None
    state_names: tuple[str, ...] = ("empty", "open", "recycling")

    def __post_init__(self) -> None:
        for name, array in (("lifetime_class", self.lifetime_class), ("state", self.state)):
            if array is not None and (array.ndim != 2 or len(array) != len(self.time_s)):
                raise ValueError(f"{name} must have {len(self.time_s)} rows, got shape {array.shape!r}")

    def by_use(self) -> np.ndarray:
        """The hosts' indices, the least often empty first, int64 (n_hosts,).

        >>> HostMap(np.array([0, 60]), np.array([[0, 3, 0], [4, 1, 0]], np.int8)).by_use().tolist()
        [1, 0, 2]
        """
        return np.argsort((self.lifetime_class == 0).sum(axis=0), kind="stable")


def migration_figures(workload: Workload, result: Result) -> dict[str, float]:
    """Figures of a rectifier's migrations planned after the warm-up; {} without a rectifier.

    migrations_a_day: those that began, a day. n_dropped: planned, and never begun. n_freed_host,
    n_freed_none: begun, and the source became empty within a day, or not. moved_expected_h,
    moved_freed_h: host-hours that groups with a begun migration were expected to free, and freed
    (see `Result.migrations`).
    """
    if result.migrations is None or result.rectifier is None:
        return {}
    migrations = result.migrations[result.migrations["planner"] == result.rectifier]
    table = migrations[migrations["planned_s"] >= workload.warmup_s]
    begun = table[table["begun_s"].notna()]
    groups = begun.drop_duplicates("group")
    days = (workload.trace.horizon_s - workload.warmup_s) / DAY_S
    return {
        "migrations_a_day": len(begun) / days,
        "n_dropped": float(len(table) - len(begun)),
        "n_freed_host": float(begun["empty_s"].notna().sum()),
        "n_freed_none": float(begun["empty_s"].isna().sum()),
        "moved_expected_h": float(groups["expected_h"].sum()),
        "moved_freed_h": float(groups["freed_h"].sum()),
    }


MIGRATIONS = Measure(migration_figures, {})
"""The page of a comparison shows its figures in a separate section."""
