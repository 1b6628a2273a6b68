"""Which hosts a trace is replayed on where the user names none: a shape that holds its core-hours, and not too few."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.features.trace import RESOURCES, Trace
from sojourn.simulator.workloads.amounts import demand, n_hosts_for, whole_amounts
from sojourn.simulator.workloads.left_out import LEFT_OUT_MAX, LeftOut, core_hours, hours
from sojourn.simulator.workloads.parts import SPANS_HOSTS, fits_in_parts, n_hosts_of, on_one_host
from sojourn.simulator.workloads.workload import MIN_HOSTS, fits_somewhere

USUAL = {"cpu_cores": 96.0, "mem_gib": 384.0}
"""A common server of today's clouds, which the recipes of synthetic and openb have as well."""
USUAL_GPUS = 8.0
GIB_PER_CORE = 4.0
"""Memory of a host where the trace records none."""
_HELD = ((8, 0.99), (4, 0.99), (2, 0.99), (1, 0.99), (0, 0.96))
"""How many of the median request a host holds at least, and the share of the core-hours of those that it holds."""
_HELD_IN_PARTS = ((0, 0.99), (0, 0.96))
"""Likewise, where requests say on how many hosts they ran: a host is then as large as what ran on one."""
_PARTS_OF_USUAL = (2, 4, 8, 16, 32, 96)


@dataclass(frozen=True, slots=True)
class HostShape:
    """Size of one host by resource (cores, GiB, GPUs), and why it was chosen, for people to read."""

    sizes: Mapping[str, float]
    why: str


def host_shape(trace: Trace, load: float = 0.8) -> HostShape:
    """The first of these shapes that holds 95 % of the core-hours and gives at least 10 hosts at `load`.

    1. The shapes of the trace's own hosts, the commonest first.
    2. 96 cores and 384 GiB; with 8 GPUs where requests have any.
    3. From the requests: for each resource the round size (1, 1.5, 2, 3, 4, 6, ...) that holds requests with 99 % of
       the core-hours, and 8 of the median request by core-hours (4, 2 or 1 where 8 leave fewer than 10 hosts, and
       then the size that holds 96 %).

    The last one is taken whatever it gives. Where requests may span hosts (`parts`), a shape holds those whose part on
    one host it holds, and all of which the number of hosts is not known. After the first two come halves, quarters and
    so on of the second, and where numbers of hosts are known, the size that holds parts with 99 % (96 %).

    load: peak of the binding resource over capacity, above 0.

    >>> table = pd.DataFrame({"request_id": range(40), "arrival_s": 0, "departure_s": 90, "cpu_cores": 3000.0,
    ...                       "mem_gib": 0.0})
    >>> host_shape(Trace(table, 100)).sizes
    {'cpu_cores': 12288.0, 'mem_gib': 49152.0}
    """
    if not 0 < load < math.inf:
        raise ValueError(f"load must be finite and above 0, got {load!r}")
    trace = trace.since_begin()
    names = tuple(name for name in RESOURCES if name in trace.requests)
    need = whole_amounts(trace.requests, names)
    spans_hosts = bool(trace.meta.get(SPANS_HOSTS))
    shape = HostShape(USUAL, "")
    for shape in _candidates(trace, names):
        capacity = whole_amounts(pd.DataFrame([dict(shape.sizes)]), names)
        is_kept = fits_in_parts(trace, shape.sizes) if spans_hosts else fits_somewhere(need, capacity)
        if LeftOut.of(trace, is_kept).core_hour_share > LEFT_OUT_MAX:
            continue
        if _n_hosts(trace, need, is_kept, capacity[0], load) >= MIN_HOSTS:
            return shape
    return shape


def _candidates(trace: Trace, names: tuple[str, ...]) -> Iterator[HostShape]:
    if trace.hosts is not None:
        own = trace.hosts[[name for name in names if name in trace.hosts]].value_counts()  # commonest first
        for values in own.index:
            sizes = {str(name): float(value) for name, value in zip(own.index.names, values, strict=True)}
            yield HostShape(sizes, "a shape of the trace's own hosts")
    usual = dict(USUAL)
    if "gpu" in names and (trace.requests["gpu"] > 0).any():
        usual["gpu"] = USUAL_GPUS
    yield HostShape(usual, "the usual host")
    spans_hosts = bool(trace.meta.get(SPANS_HOSTS))
    if spans_hosts:
        for part in _PARTS_OF_USUAL:
            yield HostShape({name: size / part for name, size in usual.items()}, "small, so that there are enough")
    is_sized = ~np.isnan(n_hosts_of(trace)) if spans_hosts else np.ones(len(trace), bool)
    if not is_sized.any():
        return
    amounts, weight = on_one_host(trace)[is_sized], _weight(trace)[is_sized]
    for n_requests, held in _HELD_IN_PARTS if spans_hosts else _HELD:
        sizes = {}
        for name in names:
            size = amounts[name].to_numpy()
            if (size > 0).any():
                least = max(_weighted_quantile(size, weight, held),
                            n_requests * _weighted_quantile(size, weight * (size > 0), 0.5))
                sizes[name] = _round_size(max(least, size[size > 0].min()))
        sizes.setdefault("cpu_cores", 1.0)
        sizes.setdefault("mem_gib", GIB_PER_CORE * sizes["cpu_cores"])
        yield HostShape({name: sizes[name] for name in RESOURCES if name in sizes},
                        f"chosen to hold requests with {held:.0%} of the core-hours")


def _round_size(least: float) -> float:
    """The first of ..., 1, 1.5, 2, 3, 4, 6, ... that is not below; sizes that servers have."""
    power = 2.0 ** math.floor(math.log2(least))
    return next(size for size in (power, 1.5 * power, 2.0 * power) if size >= least)


def _weight(trace: Trace) -> np.ndarray:
    """What weighs a request: its core-hours; its hours alone where no request has a core."""
    return core_hours(trace) if (trace.requests["cpu_cores"] > 0).any() else hours(trace)


def _weighted_quantile(value: np.ndarray, weight: np.ndarray, share: float) -> float:
    order = np.argsort(value, kind="stable")
    total = np.cumsum(weight[order])
    if total[-1] <= 0:
        return float(value.max())
    return float(value[order][min(int(np.searchsorted(total, share * total[-1])), len(order) - 1)])


def _n_hosts(trace: Trace, need: np.ndarray, is_kept: np.ndarray, capacity: np.ndarray, load: float) -> int:
    """Hosts that keep the peak of what the trace shows at `load`."""
    start = np.maximum(trace.start_s()[is_kept], 0)
    peak = demand(start, trace.end_s()[is_kept], need[is_kept], trace.horizon_s).lasting_peak(trace.horizon_s)
    return n_hosts_for(peak, capacity, load)
