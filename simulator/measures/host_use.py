"""Use of each host over time by what its requests really use, as a step function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.simulator.engine import Result
from sojourn.simulator.workloads import Workload

UNITS_PER_MILLI = 1000
"""Use is counted in whole micro-cores, so that sums are exact."""


@dataclass(frozen=True, slots=True)
class HostUse:
    """Steps of all hosts, ordered by host and time; int64 (n_steps,).

    host: row. time_s: from when. load: micro-cores in use from then until the host's next step; 0 at its last.
    is_covered: bool (n_requests,), which requests have a usage series and were placed.
    """

    host: np.ndarray
    time_s: np.ndarray
    load: np.ndarray
    is_covered: np.ndarray

    def end_s(self) -> np.ndarray:
        """When each step ends; a host's last ends when it begins."""
        is_followed = np.append(self.host[1:] == self.host[:-1], False)
        return np.where(is_followed, np.append(self.time_s[1:], 0), self.time_s)

    def excess(self, workload: Workload) -> np.ndarray:
        """Micro-cores above the host's capacity in each step."""
        capacity = workload.capacity[self.host, workload.resources.index("cpu_cores")] * UNITS_PER_MILLI
        return np.maximum(self.load - capacity, 0)


def host_use(workload: Workload, result: Result, usage: pd.DataFrame | None) -> HostUse:
    """Steps of a replay in which every request stayed on its first host; `usage_metrics` says what is refused."""
    if result.is_disturbed:
        raise ValueError("result must be of a replay in which requests are placed when they arrive and stay there, got "
                         f"one of policy {result.policy!r} with migrations, waiting or failures")
    row, start_s, end_s, use = _segments(workload, result, workload.trace.usage if usage is None else usage)
    is_used = end_s > start_s
    steps = _levels(result.host[row[is_used]], start_s[is_used], end_s[is_used], use[is_used])
    return HostUse(*steps, np.isin(np.arange(len(workload.placed_s)), row))


def has_usage(workload: Workload) -> bool:
    """Whether the trace has usage of any of these requests."""
    usage = workload.trace.usage
    return usage is not None and bool(workload.request_ids.isin(usage["request_id"]).any())


def _segments(workload: Workload, result: Result,
              usage: pd.DataFrame | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Row, start, end and use (micro-cores) of every sample of a placed request; int64 (n_samples,)."""
    if usage is None:
        raise ValueError("usage must be given for a workload whose trace has none, got None")
    row = workload.request_ids.get_indexer(pd.Index(usage["request_id"]))
    is_placed = (row >= 0) & (result.host[row] >= 0)
    if not is_placed.any():
        raise ValueError(f"usage must be of requests that are placed, got {len(usage)} samples of none of them")
    row, time_s = row[is_placed], usage["time_s"].to_numpy(np.int64)[is_placed]
    share = usage["cpu_frac"].to_numpy(np.float64)[is_placed]
    is_bad = ~np.isfinite(share) | (share < 0)
    if is_bad.any():
        k = int(np.argmax(is_bad))
        raise ValueError(f"cpu_frac must be finite and >= 0, got {share[k]} "
                         f"(request {_name(workload, row[k])} at {time_s[k]} s)")
    order = np.lexsort((time_s, row))
    row, time_s, share = row[order], time_s[order], share[order]
    is_first = np.append(True, row[1:] != row[:-1])
    if (~is_first[1:] & (time_s[1:] == time_s[:-1])).any():
        k = int(np.argmax(~is_first[1:] & (time_s[1:] == time_s[:-1])))
        raise ValueError(f"time_s must rise within a series, got {time_s[k]} twice "
                         f"(request {_name(workload, row[k])})")
    from_s, to_s = workload.placed_s[row], workload.departure_s[row]
    start_s = np.clip(np.where(is_first, from_s, time_s), from_s, to_s)
    end_s = np.clip(np.where(np.append(is_first[1:], True), to_s, np.append(time_s[1:], 0)), from_s, to_s)
    need = workload.need[row, workload.resources.index("cpu_cores")]
    use = np.rint(share * need * UNITS_PER_MILLI).astype(np.int64)
    return row, start_s, end_s, use


def _name(workload: Workload, row: int) -> str:
    return repr(workload.request_ids[[row]].tolist()[0])


def _levels(host: np.ndarray, start_s: np.ndarray, end_s: np.ndarray,
            use: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Use of each host as a step function: host, time, and use from then on (0 at a host's last step)."""
    hosts, times = np.concatenate([host, host]), np.concatenate([start_s, end_s])
    order = np.lexsort((times, hosts))
    hosts, times, level = hosts[order], times[order], np.cumsum(np.concatenate([use, -use])[order])
    is_last = np.append((hosts[1:] != hosts[:-1]) | (times[1:] != times[:-1]), True)
    return hosts[is_last], times[is_last], level[is_last]
