"""The summary of a trace in a few aligned rows of text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sojourn.features.trace import Trace

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
LONG_S = 3600
"""The bound between short and long lifetimes of LAVA, section 2.1."""
_UNITS = {"cpu_cores": "cores", "mem_gib": "GiB", "gpu": "GPUs"}
_UNITS_BY_ENDING = {"_cores": "cores", "_gib": "GiB", "_mib": "MiB", "_tib": "TiB", "_gb": "GB", "_tb": "TB",
                    "_gbps": "Gbit/s", "_mbps": "Mbit/s", "_iops": "IO/s"}


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """Counts, lifetimes and demand of one trace.

    A lifetime is the observed time: of a censored request up to the horizon, of a request with
    unknown start from 0. So quantiles are lower bounds if many requests are censored.

    lifetime_quantiles_s: level -> seconds. long_share, long_core_share: requests that lived 1 h or more, as a share of
    requests and of core-seconds; censored_core_share: the same of censored ones. arrivals_per_h, peak_arrivals_per_h:
    mean and maximum of whole hours from 0 on. owners: owner column -> number of keys; owner_median, owner_top_share:
    requests of the median key, and the share of requests of the largest tenth of the keys. peak, mean: resource -> the
    largest and the time-weighted mean amount in use between 0 and the horizon. capacity: resource -> the sum over the
    hosts, if there is a host table. n_series, n_samples, mean_cpu_frac: of the usage table.
    """

    source: str
    n_requests: int
    n_censored: int
    n_running_at_0: int
    n_unknown_start: int
    n_hosts: int
    span_s: int
    lifetime_quantiles_s: Mapping[float, float]
    long_share: float
    long_core_share: float
    censored_core_share: float
    arrivals_per_h: float
    peak_arrivals_per_h: int
    owners: Mapping[str, int]
    owner_median: Mapping[str, float]
    owner_top_share: Mapping[str, float]
    peak: Mapping[str, float]
    mean: Mapping[str, float]
    capacity: Mapping[str, float]
    n_series: int
    n_samples: int
    mean_cpu_frac: float

    @property
    def binding(self) -> str | None:
        """The resource whose peak is the largest share of the hosts' capacity; None without a host table."""
        return max(self.capacity, key=lambda name: self.peak[name] / self.capacity[name], default=None)

    def lines(self) -> list[str]:
        """Text rows: labels padded to one width, values after them."""
        n = self.n_requests
        rows = [
            ("source", self.source),
            ("requests", f"{n:,}"),
            ("span", f"{self.span_s / 86_400:.1f} days"),
            ("arrivals", f"mean {self.arrivals_per_h:,.1f} per hour, largest hour {self.peak_arrivals_per_h:,}"),
            ("running at the horizon", f"{_share_text(self.n_censored, n)}, "
                                       f"{100 * self.censored_core_share:.1f} % of core-hours so far"),
            ("running at 0", f"{_share_text(self.n_running_at_0, n)}, "
                             f"{self.n_unknown_start:,} of unknown start"),
            ("lifetime, observed", "none: no end was observed" if self.n_censored == n else "  ".join(
                f"q{100 * level:.0f} {duration_text(value)}" for level, value in self.lifetime_quantiles_s.items())),
            ("lived 1 h or more", f"{100 * self.long_share:.1f} % of requests, "
                                  f"{100 * self.long_core_share:.1f} % of core-hours"),
        ]
        rows += [(f"owner {name}", f"{count:,} keys, median {self.owner_median[name]:,.0f} requests, busiest tenth "
                                   f"{100 * self.owner_top_share[name]:.1f} % of requests")
                 for name, count in self.owners.items()]
        rows += [(f"demand {name}", f"mean {_amount_text(self.mean[name])}, peak "
                                    f"{_amount_text(value)}{_unit_text(name)}")
                 for name, value in self.peak.items()]
        if self.n_hosts:
            rows.append(("hosts", f"{self.n_hosts:,}"))
        rows += [(f"utilisation {name}", f"mean {100 * self.mean[name] / total:.1f} %, "
                                         f"peak {100 * self.peak[name] / total:.1f} % of {_amount_text(total)}"
                                         f"{_unit_text(name)}{' (binding)' if name == self.binding else ''}")
                 for name, total in self.capacity.items()]
        if self.n_samples:
            rows.append(("usage", f"{self.n_series:,} series, {self.n_samples:,} samples, "
                                  f"mean {100 * self.mean_cpu_frac:.1f} % of the cores"))
        width = max(len(label) for label, _ in rows)
        return [f"{label:<{width}}  {value}" for label, value in rows]

    def text(self) -> str:
        """The rows of `lines` as one string."""
        return "\n".join(self.lines())


def describe(trace: Trace) -> TraceSummary:
    """The summary of `trace`, which must hold at least one request.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [-60, 600], "departure_s": [30, None],
    ...                       "cpu_cores": [2.0, 4.0], "mem_gib": [8.0, 16.0]})
    >>> print(describe(Trace(table, horizon_s=7800, meta={"source": "by hand"})).text())
    source                  by hand
    requests                2
    span                    0.1 days
    arrivals                mean 0.5 per hour, largest hour 1
    running at the horizon  1 (50.0 %), 99.4 % of core-hours so far
    running at 0            1 (50.0 %), 0 of unknown start
    lifetime, observed      q5 7.4 min  q25 31.1 min  q50 1.0 h  q75 1.5 h  q95 1.9 h  q99 2.0 h
    lived 1 h or more       50.0 % of requests, 99.4 % of core-hours
    demand cpu_cores        mean 3.7, peak 4 cores
    demand mem_gib          mean 14.8, peak 16 GiB
    """
    if not len(trace):
        raise ValueError("trace must hold at least one request, got none")
    lifetime_s = trace.lifetime_s()
    core_s = trace.requests["cpu_cores"].to_numpy() * lifetime_s
    is_long = lifetime_s >= LONG_S
    is_unknown = ~trace.is_start_known()
    inside_s = trace.end_s() - np.maximum(trace.start_s(), trace.begin_s)
    arrivals_s = trace.start_s()[(trace.start_s() >= trace.begin_s) & ~is_unknown] - trace.begin_s
    keys = {name: trace.requests[name].value_counts().to_numpy() for name in trace.roles.owners}
    keys = {name: np.sort(counts[counts > 0])[::-1] for name, counts in keys.items()}
    capacity = {} if trace.hosts is None else {
        name: float(trace.hosts[name].sum()) for name in trace.resources if name in trace.hosts}
    usage = trace.usage
    amounts = {name: trace.requests[name].to_numpy() for name in trace.resources}
    return TraceSummary(
        source=str(trace.meta.get("source", "unknown")),
        n_requests=len(trace),
        n_censored=int((~trace.is_event()).sum()),
        n_running_at_0=int(((trace.start_s() < trace.begin_s) | is_unknown).sum()),
        n_unknown_start=int(is_unknown.sum()),
        n_hosts=0 if trace.hosts is None else len(trace.hosts),
        span_s=trace.span_s,
        lifetime_quantiles_s=dict(zip(QUANTILES, np.quantile(lifetime_s, QUANTILES).tolist(), strict=True)),
        long_share=float(is_long.mean()),
        long_core_share=float(core_s[is_long].sum() / max(core_s.sum(), 1.0)),
        censored_core_share=float(core_s[~trace.is_event()].sum() / max(core_s.sum(), 1.0)),
        arrivals_per_h=len(arrivals_s) / (trace.span_s / 3600),
        peak_arrivals_per_h=int(np.unique(arrivals_s // 3600, return_counts=True)[1].max(initial=0)),
        owners={name: len(counts) for name, counts in keys.items()},
        owner_median={name: float(np.median(counts)) if len(counts) else 0.0 for name, counts in keys.items()},
        owner_top_share={name: float(counts[:-(-len(counts) // 10)].sum()) / len(trace)
                         for name, counts in keys.items()},
        peak={name: peak_demand(trace, name) for name in amounts},
        mean={name: float((amount * inside_s).sum() / trace.span_s) for name, amount in amounts.items()},
        capacity={name: total for name, total in capacity.items() if total > 0},
        n_series=0 if usage is None else int(usage["request_id"].nunique()),
        n_samples=0 if usage is None else len(usage),
        mean_cpu_frac=float("nan") if usage is None or usage.empty else float(usage["cpu_frac"].mean()),
    )


def peak_demand(trace: Trace, resource: str) -> float:
    """The largest amount of `resource` in use at one time between the begin and the horizon.

    At one second departures come before arrivals, as in the simulator.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 30], "departure_s": [30, 60],
    ...                       "cpu_cores": [2.0, 4.0], "mem_gib": [8.0, 16.0]})
    >>> peak_demand(Trace(table, horizon_s=100), "cpu_cores")
    4.0
    """
    return float(demand_steps(trace, resource)[1].max(initial=0.0))


def demand_steps(trace: Trace, resource: str) -> tuple[np.ndarray, np.ndarray]:
    """Times (int64 seconds, rising, some twice) and the amount of `resource` in use from each to the next, float64.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 30], "departure_s": [30, 60],
    ...                       "cpu_cores": [2.0, 4.0], "mem_gib": [8.0, 16.0]})
    >>> [values.tolist() for values in demand_steps(Trace(table, horizon_s=100), "cpu_cores")]
    [[0, 30, 30, 60], [2.0, 0.0, 4.0, 0.0]]
    """
    amount = trace.requests[resource].to_numpy()
    time_s = np.concatenate([np.maximum(trace.start_s(), trace.begin_s), trace.end_s()])
    change = np.concatenate([amount, -amount])
    order = np.lexsort((change > 0, time_s))
    return time_s[order], change[order].cumsum()


def duration_text(seconds: float) -> str:
    """`seconds` in the largest unit that leaves at least 1, such as 1.5 h.

    >>> duration_text(5400), duration_text(40)
    ('1.5 h', '40 s')
    """
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _unit_text(resource: str) -> str:
    """The unit of a resource's column with a blank before it; "" if its name does not end in one.

    >>> [_unit_text(name) for name in ("gpu", "disk_gib", "ports")]
    [' GPUs', ' GiB', '']
    """
    unit = _UNITS.get(resource) or next(
        (unit for ending, unit in _UNITS_BY_ENDING.items() if resource.endswith(ending)), "")
    return f" {unit}" if unit else ""


def _share_text(count: int, n: int) -> str:
    return f"{count:,} ({100 * count / n:.1f} %)"


def _amount_text(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}"
