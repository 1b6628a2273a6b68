"""What requests really use of their hosts, and where they use more than there is, for traces with usage series."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from sojourn.simulator.engine import Result
from sojourn.simulator.measures.host_use import UNITS_PER_MILLI, HostUse, has_usage, host_use
from sojourn.simulator.measures.measure import Column, Measure
from sojourn.simulator.measures.usage_series import VIOLATION_SERIES, usage_series
from sojourn.simulator.workloads import Workload


@dataclass(frozen=True, slots=True)
class UsageMetrics:
    """Use of cores by the requests that have a usage series, from the end of the warm-up to the horizon.

    used_cpu_pct: core-seconds used, of all hosts' capacity; higher is better.
    covered_pct: core-seconds allocated to requests that have a series, of all allocated; the rest counts as using none.
    violation_rate_pct: share of all hosts' time in which a host's requests use more cores than it has (seed paper,
        section III-B); lower is better.
    request_violation_rate_pct: the same share of a request's own time on its host, mean over requests (section IV-B).
    violation_severity_pct: core-seconds above capacity, of those used (section III-B: the aggregate severity over the
        total workload); lower is better.
    """

    used_cpu_pct: float
    covered_pct: float
    violation_rate_pct: float
    request_violation_rate_pct: float
    violation_severity_pct: float


def usage_metrics(workload: Workload, result: Result, usage: pd.DataFrame | None = None) -> UsageMetrics:
    """Use and violations of a replay in which every request stayed on its first host.

    usage: `request_id`, `time_s`, `cpu_frac` (of the request's cores) on the workload's clock; None = the trace's own
        (recipes other than `trace` drop it). A sample holds until the next one of its request, the first also before
        it, the last to the end.

    Refused with ValueError: no usage, or of none of the requests placed; a time twice in one series; a share that is
    negative or not finite; a replay with migrations, waiting or failures, whose placements are not all known.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [50], "cpu_cores": [8.0],
    ...                       "mem_gib": [8.0]})
    >>> usage = pd.DataFrame({"request_id": [1, 1], "time_s": [0, 40], "cpu_frac": [0.5, 2.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 100, usage=usage), cpu_cores=8, mem_gib=8, n_hosts=1)
    >>> found = usage_metrics(workload, sim.simulate(workload))
    >>> found.used_cpu_pct, found.violation_rate_pct, found.violation_severity_pct
    (40.0, 10.0, 25.0)
    """
    from_s, to_s = workload.warmup_s, workload.trace.horizon_s
    span_s = to_s - from_s
    cpu = workload.resources.index("cpu_cores")
    steps = host_use(workload, result, usage)
    held_s = np.clip(steps.end_s(), from_s, to_s) - np.clip(steps.time_s, from_s, to_s)
    excess = steps.excess(workload)
    violated_s = np.where(excess > 0, held_s, 0)
    used = float((steps.load * held_s).sum(dtype=np.float64))  # of all hosts it may pass 2^63
    capacity = int(workload.capacity[:, cpu].sum()) * UNITS_PER_MILLI * span_s
    stay_s = np.maximum(np.clip(workload.departure_s, from_s, to_s) - np.clip(workload.placed_s, from_s, to_s), 0)
    allocated = np.where(result.host >= 0, workload.need[:, cpu] * stay_s, 0)
    is_there = (stay_s > 0) & (result.host >= 0)
    from_start_s, from_end_s = (_violated_before(workload, result, moment_s, steps, violated_s)
                                for moment_s in (workload.placed_s, workload.departure_s))
    suffered = ((from_end_s - from_start_s) / np.maximum(stay_s, 1))[is_there]
    return UsageMetrics(
        used_cpu_pct=100 * used / max(capacity, 1),
        covered_pct=float(100 * allocated[steps.is_covered].sum() / max(allocated.sum(), 1)),
        violation_rate_pct=float(100 * violated_s.sum() / (span_s * len(workload.capacity))),
        request_violation_rate_pct=float(100 * suffered.sum() / max(len(suffered), 1)),
        violation_severity_pct=float(100 * (excess * held_s).sum(dtype=np.float64) / max(used, 1.0)),
    )


def _of_known_usage(workload: Workload, result: Result) -> dict[str, float]:
    """Nothing where the trace has no usage of these requests."""
    return asdict(usage_metrics(workload, result)) if has_usage(workload) else {}


def _over_time(workload: Workload, result: Result) -> dict[str, np.ndarray]:
    """The same over time."""
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
    """Seconds up to a time of each request's own in which its host was above capacity, warm-up left out."""
    host, step_s = steps.host, steps.time_s
    reach = max(int(step_s.max(initial=0)), int(time_s.max(initial=0))) + 1
    upto = np.append(0, np.cumsum(violated_s))
    k = np.searchsorted(host * reach + step_s, np.maximum(result.host, 0) * reach + time_s, side="right") - 1
    is_within = (k >= 0) & (host[k] == result.host) & (violated_s[k] > 0)
    now_s = np.clip(time_s, workload.warmup_s, workload.trace.horizon_s)
    begun_s = np.clip(step_s[k], workload.warmup_s, workload.trace.horizon_s)
    return upto[np.maximum(k, 0)] + np.where(is_within, np.minimum(now_s - begun_s, violated_s[k]), 0)
