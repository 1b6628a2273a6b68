"""The shape of hosts for a trace if the user names none, and parts of jobs that span hosts.

The shape holds most of the trace's core-hours and gives enough hosts. A job that spans hosts is
divided into parts that each fit on one host.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from sojourn.features.trace import RESOURCES, Trace
from sojourn.simulator.workloads.workload import (
    LEFT_OUT_MAX,
    MIN_HOSTS,
    LeftOut,
    core_hours,
    demand,
    fits_somewhere,
    hours,
    n_hosts_for,
    whole_amounts,
)

USUAL = {"cpu_cores": 96.0, "mem_gib": 384.0}
"""A common server of today's clouds; the recipes of synthetic and openb use it as well."""
USUAL_GPUS = 8.0
GIB_PER_CORE = 4.0
"""Memory of a host if the trace records none."""
_HELD = ((8, 0.99), (4, 0.99), (2, 0.99), (1, 0.99), (0, 0.96))
"""The least number of median requests that a host holds, and the share of core-hours of the
requests that fit on it."""
_HELD_IN_PARTS = ((0, 0.99), (0, 0.96))
"""The same if requests have a number of hosts: a host then holds a request's part on one host."""
_PARTS_OF_USUAL = (2, 4, 8, 16, 32, 96)


@dataclass(frozen=True, slots=True)
class HostShape:
    """Size of one host by resource (cores, GiB, GPUs), and the reason of the choice in words."""

    sizes: Mapping[str, float]
    why: str


def host_shape(trace: Trace, load: float = 0.8) -> HostShape:
    """The first of these shapes that holds 95 % of the core-hours and gives at least 10 hosts at
    `load`.

    1. The shapes of the trace's own hosts, the commonest first. 2. 96 cores and 384 GiB; with 8
    GPUs if requests have any. 3. From the requests: for each resource the round size (1, 1.5, 2, 3,
    4, 6, ...) that holds requests
       with 99 % of the core-hours, and 8 of the median request by core-hours (4, 2 or 1 if 8 give
       fewer than 10 hosts, and then the size that holds 96 %).

    The last one is taken in any case. If requests may span hosts, a request fits if its part on one
    host does, or if its number of hosts is not known. Then the first two shapes are followed by a
    half, a quarter and so on of the second, and, if numbers of hosts are known, by the size that
    holds parts with 99 % (96 %) of the core-hours.

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
        is_fitting = fits_in_parts(trace, shape.sizes) if spans_hosts else fits_somewhere(need, capacity)
        if LeftOut.of(trace, is_fitting).core_hour_share > LEFT_OUT_MAX:
            continue
        if _n_hosts(trace, need, is_fitting, capacity[0], load) >= MIN_HOSTS:
            return shape
    return shape


def _candidates(trace: Trace, names: tuple[str, ...]) -> Iterator[HostShape]:
    if trace.hosts is not None:
        shapes = trace.hosts[[name for name in names if name in trace.hosts]].value_counts()  # commonest first
        for values in shapes.index:
            sizes = {str(name): float(value) for name, value in zip(shapes.index.names, values, strict=True)}
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
    for n_requests, share in _HELD_IN_PARTS if spans_hosts else _HELD:
        sizes = {}
        for name in names:
            size = amounts[name].to_numpy()
            if (size > 0).any():
                least = max(_weighted_quantile(size, weight, share),
                            n_requests * _weighted_quantile(size, weight * (size > 0), 0.5))
                sizes[name] = _round_size(max(least, size[size > 0].min()))
        sizes.setdefault("cpu_cores", 1.0)
        sizes.setdefault("mem_gib", GIB_PER_CORE * sizes["cpu_cores"])
        yield HostShape({name: sizes[name] for name in RESOURCES if name in sizes},
                        f"chosen to hold requests with {share:.0%} of the core-hours")


def _round_size(least: float) -> float:
    """The first of ..., 1, 1.5, 2, 3, 4, 6, ... that is not below; servers have such sizes."""
    power = 2.0 ** math.floor(math.log2(least))
    return next(size for size in (power, 1.5 * power, 2.0 * power) if size >= least)


def _weight(trace: Trace) -> np.ndarray:
    """The weight of each request: its core-hours, or its hours if no request has a core."""
    return core_hours(trace) if (trace.requests["cpu_cores"] > 0).any() else hours(trace)


def _weighted_quantile(value: np.ndarray, weight: np.ndarray, share: float) -> float:
    order = np.argsort(value, kind="stable")
    total = np.cumsum(weight[order])
    if total[-1] <= 0:
        return float(value.max())
    return float(value[order][min(int(np.searchsorted(total, share * total[-1])), len(order) - 1)])


def _n_hosts(trace: Trace, need: np.ndarray, is_fitting: np.ndarray, capacity: np.ndarray, load: float) -> int:
    """The number of hosts at which the trace's peak is `load` of their capacity."""
    start = np.maximum(trace.start_s()[is_fitting], 0)
    peak = demand(start, trace.end_s()[is_fitting], need[is_fitting], trace.horizon_s).lasting_peak(trace.horizon_s)
    return n_hosts_for(peak, capacity, load)


SPANS_HOSTS = "spans_hosts"
"""Key of a trace's `meta`: true if a request may run on several hosts at once, as batch jobs."""

HOSTS_COLUMN = "hosts_column"
"""Key of such a trace's `meta`: the column with each request's number of hosts; may be missing."""

_LAST_BITS = 1e-6
"""A rest of less than this share of a host is an effect of rounding, and not a part."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A trace in which every request fits on one host. job_of: int64 (n,), each part's row in the
    trace before.

    n_divided: requests with more than one part.
    """

    trace: Trace
    job_of: np.ndarray
    n_divided: int


def n_hosts_of(trace: Trace) -> np.ndarray:
    """The number of hosts of each request, float64 (n,), 1 or more; NaN if it is not known.

    >>> table = pd.DataFrame({"request_id": ["a", "b"], "arrival_s": 0, "departure_s": 9, "cpu_cores": 4.0,
    ...                       "mem_gib": 1.0, "n_nodes": [2.0, None]})
    >>> n_hosts_of(Trace(table, 10, meta={"spans_hosts": True, "hosts_column": "n_nodes"})).tolist()
    [2.0, nan]
    """
    name = trace.meta.get(HOSTS_COLUMN)
    if not trace.meta.get(SPANS_HOSTS) or name not in trace.requests:
        return np.full(len(trace), np.nan)
    n_hosts = np.rint(trace.requests[name].to_numpy(np.float64, na_value=np.nan))
    return np.where(n_hosts >= 1, n_hosts, np.nan)


def on_one_host(trace: Trace) -> pd.DataFrame:
    """What each request uses of one of its hosts, by resource; of all if their number is not
    known."""
    n_hosts = np.nan_to_num(n_hosts_of(trace), nan=1.0)
    return pd.DataFrame({name: trace.requests[name].to_numpy(np.float64) / n_hosts for name in trace.resources})


def fits_in_parts(trace: Trace, sizes: Mapping[str, float]) -> np.ndarray:
    """Whether each request can be replayed on such hosts, bool (n,); True for an unknown number.

    sizes: of one host, by resource.
    """
    room = whole_amounts(pd.DataFrame([dict(sizes)]), trace.resources)
    return fits_somewhere(whole_amounts(on_one_host(trace), trace.resources), room) | np.isnan(n_hosts_of(trace))


def in_parts(trace: Trace, sizes: Mapping[str, float]) -> Parts:
    """The trace with requests divided, so that each part fits on a host.

    A request that ran on n hosts (`n_hosts_of`) becomes n equal parts. If n is not known, a request
    larger than a host becomes parts that fill a host, and one for the rest. All parts of a request
    arrive and leave together, and have the same share of each of its resources. Their ids are
    `ID#1`, `ID#2` and so on. A host is full when one of its resources is. sizes: of one host, by
    resource, above 0 for all that requests need; requests with a known number of hosts must fit
    (`fits_in_parts`). If a request is divided, the trace loses its usage.

    >>> table = pd.DataFrame({"request_id": ["a", "b"], "arrival_s": 0, "departure_s": 9, "cpu_cores": [4.0, 10.0],
    ...                       "mem_gib": [1.0, 5.0]})
    >>> parts = in_parts(Trace(table, 10), {"cpu_cores": 4.0, "mem_gib": 8.0})
    >>> parts.trace.requests[["request_id", "cpu_cores", "mem_gib"]].to_numpy().tolist()
    [['a', 4.0, 1.0], ['b#1', 4.0, 2.0], ['b#2', 4.0, 2.0], ['b#3', 2.0, 1.0]]
    """
    names = tuple(name for name in trace.resources if sizes.get(name, 0.0) > 0)
    n_hosts = np.zeros(len(trace))  # hosts that it fills, with a fraction
    for name in names:
        n_hosts = np.maximum(n_hosts, trace.requests[name].to_numpy() / sizes[name])
    n_known = n_hosts_of(trace)
    is_known = ~np.isnan(n_known)
    n_parts = np.where(is_known, n_known, np.maximum(np.ceil(n_hosts - _LAST_BITS), 1)).astype(np.int64)
    is_divided = n_parts > 1
    job_of = np.repeat(np.arange(len(trace)), n_parts)
    if not is_divided.any():
        return Parts(trace, job_of, 0)
    part = np.arange(len(job_of)) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
    is_last = part == n_parts[job_of] - 1  # with a rest of _LAST_BITS, which `clip` removes
    n_filled = np.maximum(n_hosts[job_of], 1.0)
    share = np.where(is_last, n_filled - part, 1.0) / n_filled
    requests = trace.requests.iloc[job_of].reset_index(drop=True)
    equal = on_one_host(trace)
    for name in trace.resources:
        filling = requests[name].to_numpy() * np.where(is_divided[job_of], share, 1.0)
        requests[name] = np.where(is_known[job_of], equal[name].to_numpy()[job_of], filling)
        if name in names:  # a product of floats may lie above the host by a last bit
            requests[name] = requests[name].clip(upper=sizes[name])
    text = requests["request_id"].astype(str)
    requests["request_id"] = text.where(~is_divided[job_of], text + "#" + pd.Series(part + 1).astype(str))
    return Parts(replace(trace, requests=requests, usage=None), job_of, int(is_divided.sum()))
