"""Jobs that span hosts, replayed as parts that each fit on one host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from sojourn.features.trace import Trace
from sojourn.simulator.workloads.amounts import whole_amounts
from sojourn.simulator.workloads.workload import fits_somewhere

SPANS_HOSTS = "spans_hosts"
"""Key of a trace's `meta`: true where a request may run on several hosts at once, as the jobs of a batch system do."""

HOSTS_COLUMN = "hosts_column"
"""Key of such a trace's `meta`: the column that says on how many hosts each request ran; missing = not known."""

_LAST_BITS = 1e-6
"""A rest of less than this share of a host comes from rounding, and is no part of its own."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A trace in which every request fits on one host. job_of: int64 (n,), the row that each part had before.

    n_divided: requests that became more than one part.
    """

    trace: Trace
    job_of: np.ndarray
    n_divided: int


def n_hosts_of(trace: Trace) -> np.ndarray:
    """On how many hosts each request ran, float64 (n,), 1 or more; NaN where the trace does not say.

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
    """What each request takes of one of its hosts, by resource; of all of them where their number is not known."""
    n_hosts = np.nan_to_num(n_hosts_of(trace), nan=1.0)
    return pd.DataFrame({name: trace.requests[name].to_numpy(np.float64) / n_hosts for name in trace.resources})


def fits_in_parts(trace: Trace, sizes: Mapping[str, float]) -> np.ndarray:
    """Whether each request can be replayed on such hosts, bool (n,); always where its number of hosts is not known.

    sizes: of one host, by resource.
    """
    room = whole_amounts(pd.DataFrame([dict(sizes)]), trace.resources)
    return fits_somewhere(whole_amounts(on_one_host(trace), trace.resources), room) | np.isnan(n_hosts_of(trace))


def in_parts(trace: Trace, sizes: Mapping[str, float]) -> Parts:
    """The trace with requests divided, so that each part fits on a host.

    A request that ran on n hosts (`n_hosts_of`) is n equal parts. Where that is not known, one that is larger than a
    host is divided: parts that fill a host, and one of the rest. All parts of a request arrive and leave together, and
    take the same share of each of its resources. They are named `ID#1`, `ID#2` and so on. A host is full when its
    scarcest resource is. sizes: of one host, by resource, above 0 for all that requests ask for; those of known numbers
    of hosts must fit (`fits_in_parts`). Usage is dropped where a request is divided.

    >>> table = pd.DataFrame({"request_id": ["a", "b"], "arrival_s": 0, "departure_s": 9, "cpu_cores": [4.0, 10.0],
    ...                       "mem_gib": [1.0, 5.0]})
    >>> parts = in_parts(Trace(table, 10), {"cpu_cores": 4.0, "mem_gib": 8.0})
    >>> parts.trace.requests[["request_id", "cpu_cores", "mem_gib"]].to_numpy().tolist()
    [['a', 4.0, 1.0], ['b#1', 4.0, 2.0], ['b#2', 4.0, 2.0], ['b#3', 2.0, 1.0]]
    """
    names = tuple(name for name in trace.resources if sizes.get(name, 0.0) > 0)
    n_hosts = np.zeros(len(trace))  # as many as it fills, with a fraction
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
    is_last = part == n_parts[job_of] - 1  # with what is below _LAST_BITS, clipped away below
    filled = np.maximum(n_hosts[job_of], 1.0)
    share = np.where(is_last, filled - part, 1.0) / filled
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
