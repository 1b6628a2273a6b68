"""Real use of hosts, and hosts above their capacity, for traces with usage series."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from sojourn.simulator.engine import Result
from sojourn.simulator.measures.measure import Column, Measure
from sojourn.simulator.workloads import Workload


@dataclass(frozen=True, slots=True)
class UsageMetrics:
    """Use of cores by the requests with a usage series, from the end of the warm-up to the horizon.

    used_cpu_pct: core-seconds used, of all hosts' capacity; higher is better.
    covered_pct: core-seconds allocated to requests with a series, of all allocated; the others
        count as using none.
    violation_rate_pct: share of all hosts' time in which a host's requests use more cores than it
        has (seed paper, section III-B); lower is better.
    request_violation_rate_pct: this share of a request's time on its host, mean over requests
        (section IV-B).
    violation_severity_pct: core-seconds above capacity, of those used (section III-B: the aggregate
        severity over the total workload); lower is better.
    """

    used_cpu_pct: float
    covered_pct: float
    violation_rate_pct: float
    request_violation_rate_pct: float
    violation_severity_pct: float


def usage_metrics(workload: Workload, result: Result, usage: pd.DataFrame | None = None) -> UsageMetrics:
    """Use and violations of a replay in which every request stayed on its first host.

    usage: `request_id`, `time_s`, `cpu_frac` (of the request's cores) on the workload's clock; None
        = the usage of the trace (recipes other than `trace` drop it). A sample holds until the next
        one of its request, the first also before it, the last to the end.

    Refused with ValueError: no usage of placed requests; a time twice in one series; a share that
    is negative or not finite; a replay with migrations, waiting or failures, as its result does not
    hold all placements.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [50], "cpu_cores": [8.0],
    ...                       "mem_gib": [8.0]})
    >>> usage = pd.DataFrame({"request_id": [1, 1], "time_s": [0, 40], "cpu_frac": [0.5, 2.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 100, usage=usage), cpu_cores=8, mem_gib=8, n_hosts=1)
    >>> use = usage_metrics(workload, sim.simulate(workload))
    >>> use.used_cpu_pct, use.violation_rate_pct, use.violation_severity_pct
    (40.0, 10.0, 25.0)
    """
    from_s, to_s = workload.warmup_s, workload.trace.horizon_s
    span_s = to_s - from_s
    cpu = workload.resources.index("cpu_cores")
    steps = host_use(workload, result, usage)
    step_s = np.clip(steps.end_s(), from_s, to_s) - np.clip(steps.time_s, from_s, to_s)
    excess = steps.excess(workload)
    violated_s = np.where(excess > 0, step_s, 0)
    used = float((steps.load * step_s).sum(dtype=np.float64))  # of all hosts it may pass 2^63
    capacity = int(workload.capacity[:, cpu].sum()) * UNITS_PER_MILLI * span_s
    stay_s = np.maximum(np.clip(workload.departure_s, from_s, to_s) - np.clip(workload.placed_s, from_s, to_s), 0)
    allocated = np.where(result.host >= 0, workload.need[:, cpu] * stay_s, 0)
    is_there = (stay_s > 0) & (result.host >= 0)
    from_start_s, from_end_s = (_violated_before(workload, result, moment_s, steps, violated_s)
                                for moment_s in (workload.placed_s, workload.departure_s))
    violated_share = ((from_end_s - from_start_s) / np.maximum(stay_s, 1))[is_there]
    return UsageMetrics(
        used_cpu_pct=100 * used / max(capacity, 1),
        covered_pct=float(100 * allocated[steps.is_covered].sum() / max(allocated.sum(), 1)),
        violation_rate_pct=float(100 * violated_s.sum() / (span_s * len(workload.capacity))),
        request_violation_rate_pct=float(100 * violated_share.sum() / max(len(violated_share), 1)),
        violation_severity_pct=float(100 * (excess * step_s).sum(dtype=np.float64) / max(used, 1.0)),
    )


def _of_known_usage(workload: Workload, result: Result) -> dict[str, float]:
    """The usage metrics; {} if the trace has no usage of these requests."""
    return asdict(usage_metrics(workload, result)) if has_usage(workload) else {}


def _over_time(workload: Workload, result: Result) -> dict[str, np.ndarray]:
    """Violations over time; {} if the trace has no usage of these requests."""
    if not has_usage(workload):
        return {}
    series = usage_series(workload, result)
    return {name: series[name].to_numpy() for name in VIOLATION_SERIES}


USAGE = Measure(_of_known_usage, {
    "used_cpu_pct": Column("CPU used", "% of all", "higher", 1, table="where known", text_digits=2,
                           words="CPU used: % of all hosts' cores, where the trace has usage."),
    "violation_rate_pct": Column(
        "violation rate", "% of hosts' time", "lower", table="where known", text_digits=3,
        words="Violation: a host's requests use more cores than it has. Rate: % of the hosts' time; severity: % of the "
              "core-seconds used (lower = better)."),
    "violation_severity_pct": Column("violation severity", "% of core-seconds used", "lower", table="where known",
                                     text_digits=3),
}, _over_time)


def _violated_before(workload: Workload, result: Result, time_s: np.ndarray, steps: HostUse,
                     violated_s: np.ndarray) -> np.ndarray:
    """Seconds up to one time per request in which its host was above capacity, without the
    warm-up."""
    host, step_s = steps.host, steps.time_s
    reach = max(int(step_s.max(initial=0)), int(time_s.max(initial=0))) + 1
    upto = np.append(0, np.cumsum(violated_s))
    k = np.searchsorted(host * reach + step_s, np.maximum(result.host, 0) * reach + time_s, side="right") - 1
    is_within = (k >= 0) & (host[k] == result.host) & (violated_s[k] > 0)
    now_s = np.clip(time_s, workload.warmup_s, workload.trace.horizon_s)
    begun_s = np.clip(step_s[k], workload.warmup_s, workload.trace.horizon_s)
    return upto[np.maximum(k, 0)] + np.where(is_within, np.minimum(now_s - begun_s, violated_s[k]), 0)


VIOLATION_SERIES = ("violated_hosts_pct", "excess_pct")
"""The series over time that a comparison keeps of a replay."""


def usage_series(workload: Workload, result: Result, usage: pd.DataFrame | None = None) -> pd.DataFrame:
    """Violations over the bins of `result.series`, warm-up included; means, lower is better.

    Columns: `time_s` (start of the bin), `violated_hosts_pct` (hosts whose requests use more cores
    than it has, of all hosts), `excess_pct` (cores used above the hosts' capacity, of all hosts'
    capacity).

    For usage and for refusals see `usage_metrics`. Requests without a series count as using none.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [60], "cpu_cores": [8.0],
    ...                       "mem_gib": [8.0]})
    >>> usage = pd.DataFrame({"request_id": [1, 1], "time_s": [0, 40], "cpu_frac": [0.5, 2.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 100, usage=usage), cpu_cores=8, mem_gib=8, n_hosts=2)
    >>> series = usage_series(workload, sim.simulate(workload)).set_index("time_s")
    >>> series.loc[[39, 40, 59, 60], "excess_pct"].tolist(), series.at[40, "violated_hosts_pct"].item()
    ([0.0, 50.0, 50.0, 0.0], 50.0)
    """
    steps = host_use(workload, result, usage)
    begin_s = result.series["time_s"].to_numpy(np.int64)
    edges = np.append(begin_s, workload.trace.horizon_s)
    excess, end_s = steps.excess(workload), steps.end_s()
    span_s, cpu = np.diff(edges), workload.resources.index("cpu_cores")
    capacity = int(workload.capacity[:, cpu].sum()) * UNITS_PER_MILLI
    return pd.DataFrame({
        "time_s": begin_s,
        "violated_hosts_pct": 100 * _binned(excess > 0, steps.time_s, end_s, edges) / (span_s * len(workload.capacity)),
        "excess_pct": 100 * _binned(excess, steps.time_s, end_s, edges) / (span_s * max(capacity, 1)),
    })


def _binned(value: np.ndarray, from_s: np.ndarray, to_s: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Sum of value x seconds in each bin; value holds over from_s <= t < to_s. float64 (n_bins,)."""
    is_positive = (value > 0) & (to_s > from_s)
    change = value[is_positive].astype(np.int64)
    time_s = np.concatenate([edges, from_s[is_positive], to_s[is_positive]])
    change = np.concatenate([np.zeros(len(edges), np.int64), change, -change])
    order = np.argsort(time_s, kind="stable")
    time_s, level = time_s[order], np.cumsum(change[order])
    # as floats: micro-core-seconds of all hosts may pass 2^63
    sofar = np.append(0.0, np.cumsum(level[:-1].astype(np.float64) * np.diff(time_s)))
    return np.diff(sofar[np.searchsorted(time_s, edges)])


UNITS_PER_MILLI = 1000
"""Use is counted in whole micro-cores, so that sums are exact."""


@dataclass(frozen=True, slots=True)
class HostUse:
    """Steps of all hosts, ordered by host and time; int64 (n_steps,).

    host: row. time_s: begin. load: micro-cores in use until the host's next step; 0 at its last.
    is_covered: bool (n_requests,), placed requests with a usage series.
    """

    host: np.ndarray
    time_s: np.ndarray
    load: np.ndarray
    is_covered: np.ndarray

    def end_s(self) -> np.ndarray:
        """The end of each step; a host's last step ends when it begins."""
        is_followed = np.append(self.host[1:] == self.host[:-1], False)
        return np.where(is_followed, np.append(self.time_s[1:], 0), self.time_s)

    def excess(self, workload: Workload) -> np.ndarray:
        """Micro-cores above the host's capacity in each step."""
        capacity = workload.capacity[self.host, workload.resources.index("cpu_cores")] * UNITS_PER_MILLI
        return np.maximum(self.load - capacity, 0)


def host_use(workload: Workload, result: Result, usage: pd.DataFrame | None) -> HostUse:
    """Steps of a replay in which every request stayed on its first host; for refusals see
    `usage_metrics`."""
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
