"""Recipes that turn a trace into a workload, seeded and named."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.trace import RESOURCES, Trace
from sojourn.simulator.cluster import DAY_S
from sojourn.simulator.workloads.host_shape import SPANS_HOSTS, USUAL, fits_in_parts, host_shape, in_parts
from sojourn.simulator.workloads.workload import (
    UNITS_PER,
    Constraints,
    LeftOut,
    Workload,
    demand,
    fits_somewhere,
    n_hosts_for,
    true_totals,
    whole_amounts,
)

OPENB_START_S = 10_065_600
"""Day 116.5 of the openb trace; 98 % of its pods come after it."""
OPENB_COPIES = 10
AZURE_WARMUP_S = 151_200
DLRM_WARMUP_S = 15 * DAY_S


def from_trace(
    trace: Trace,
    *,
    cpu_cores: float | None = None,
    mem_gib: float | None = None,
    gpu: float | None = None,
    is_fitted: bool = False,
    load: float = 0.8,
    n_hosts: int | None = None,
    warmup_s: int = 0,
    seed: int = 0,
) -> Workload:
    """Any trace on hosts of a given shape, of a shape that fits it, or on its own hosts.

    cpu_cores, mem_gib, gpu: the shape of every host. Without them the trace's hosts table is used,
        and `load` and `n_hosts` do not apply; or, with is_fitted, `host_shape` chooses the shape.
    load: whole-trace peak of the binding resource over capacity. It fixes the number of hosts
        unless `n_hosts` does. Demand of less than a minute that is above twice the rest is not a
        peak.
    Requests larger than every host are left out and counted. If requests may span hosts (the
    trace's `meta`), they are replayed in parts (`in_parts`), and left out if a part is larger than
    a host. A given shape has no further resources (those that the trace's roles declare), so they
    are not replayed; the description states this.

    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 0], "departure_s": [40, 40],
    ...                       "cpu_cores": [64.0, 200.0], "mem_gib": [8.0, 8.0]})
    >>> workload = from_trace(Trace(table, 100), cpu_cores=96, mem_gib=384, load=0.4)
    >>> len(workload.hosts), workload.left_out.n_requests
    (2, 1)
    """
    shape = {"cpu_cores": cpu_cores, "mem_gib": mem_gib, "gpu": gpu}
    sizes = {name: float(value) for name, value in shape.items() if value is not None}
    why = ""
    if is_fitted and not sizes:
        fitted = host_shape(trace, load)
        sizes, why = dict(fitted.sizes), fitted.why
    if not sizes and trace.hosts is None:
        raise ValueError("cpu_cores and mem_gib must be given for a trace without hosts, got none")
    for name, size in sizes.items():
        if not 0 <= size < math.inf or (name == "cpu_cores" and size == 0):
            raise ValueError(f"a host's {name} must be finite and above 0, got {size!r}")
    if sizes and not {"cpu_cores", "mem_gib"} <= sizes.keys():
        raise ValueError(f"a host shape must have cpu_cores and mem_gib, got {', '.join(sizes)}")
    rng = np.random.default_rng(seed)
    table = trace.hosts if trace.hosts is not None and not sizes else pd.DataFrame([sizes])
    not_replayed = tuple(name for name in trace.roles.resources if sizes and name not in sizes)
    whole = _without(trace, not_replayed)
    if sizes and trace.meta.get(SPANS_HOSTS):
        is_fitting = fits_in_parts(whole, sizes)
        fitting, left_out = whole.select(is_fitting), LeftOut.of(whole, is_fitting)
        parts = in_parts(fitting, sizes)
        total_s = true_totals(fitting, rng)[parts.job_of]
        hosts = _alike(parts.trace, total_s, sizes, load, n_hosts)
        description = _description("trace", parts.trace, hosts, left_out, why)
        if parts.n_divided:
            description += f"; {parts.n_divided:,} of {len(trace):,} jobs span hosts and are replayed in parts"
        return Workload("trace", parts.trace, hosts, total_s, warmup_s, left_out, description, job_of=parts.job_of)
    fitting, left_out = _fitting(whole, table)
    total_s = true_totals(fitting, rng)
    hosts = _alike(fitting, total_s, sizes, load, n_hosts) if sizes else table
    description = _description("trace", fitting, hosts, left_out, why)
    if not_replayed:
        description += f"; {', '.join(not_replayed)} not replayed, since the hosts' shape has none"
    return Workload("trace", fitting, hosts, total_s, warmup_s, left_out, description)


def synthetic(trace: Trace, *, load: float = 0.8, n_hosts: int | None = None, warmup_s: int | None = None,
              seed: int = 0) -> Workload:
    """A generated trace on hosts of 96 cores and 384 GiB, its first tenth (at most a week) as warm-up.

    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [90], "cpu_cores": [64.0],
    ...                       "mem_gib": [8.0]})
    >>> synthetic(Trace(table, 1000)).warmup_s
    100
    """
    warmup_s = min(trace.horizon_s // 10, 7 * DAY_S) if warmup_s is None else warmup_s
    return _one_shape("synthetic", trace, USUAL, load, n_hosts, warmup_s, seed)


def azure_flavors(trace: Trace, *, load: float = 0.8, n_hosts: int | None = None, warmup_s: int = AZURE_WARMUP_S,
                  seed: int = 0) -> Workload:
    """Azure's VMs of 2017 by flavor (the part with lifetimes) on hosts of 64 cores and 256 GiB; 1.75 days of warm-up.

    The trace lacks VMs that ran before it, so the pool starts empty.
    """
    shape = {"cpu_cores": 64.0, "mem_gib": 256.0}
    return _one_shape("azure-flavors", trace, shape, load, n_hosts, warmup_s, seed)


def dlrm(trace: Trace, *, load: float = 0.8, n_hosts: int | None = None, warmup_s: int = DLRM_WARMUP_S,
         seed: int = 0) -> Workload:
    """Alibaba's inference instances, CPU and memory only, on hosts of 192 cores and 1 TiB; 15 days of warm-up."""
    return _one_shape("dlrm", trace, {"cpu_cores": 192.0, "mem_gib": 1024.0}, load, n_hosts, warmup_s, seed)


def _one_shape(name: str, trace: Trace, shape: Mapping[str, float], load: float, n_hosts: int | None, warmup_s: int,
               seed: int) -> Workload:
    plain = _cpu_and_memory(trace)
    fitting, left_out = _fitting(plain, pd.DataFrame([shape]))
    total_s = true_totals(fitting, np.random.default_rng(seed))
    hosts = _alike(fitting, total_s, shape, load, n_hosts)
    return Workload(name, fitting, hosts, total_s, warmup_s, left_out, _description(name, fitting, hosts, left_out))


def openb(trace: Trace, *, load: float = 0.8, n_hosts: int | None = None, n_copies: int = OPENB_COPIES,
          n_laps: int = 3, seed: int = 0) -> Workload:
    """The busy end of the openb trace, multiplied: pods after day 116.5, CPU and memory only.

    Each lap of 32.8 days holds ten copies of the pods, each shifted cyclically by another time and
    with lifetimes times U(0.9, 1.1); hosts have 96 cores and 384 GiB; the first lap is the warm-up.
    On its own nodes the trace peaks under 1 % of the CPU, so no gain is possible. A pod that runs
    to the trace's end counts as leaving there: a lap's end is not the workload's, and drawn
    completions of these few (0.5 %) would outweigh all others.

    trace: from the openb reader: `arrival_s` scheduled, without pods that never ran.

    >>> table = pd.DataFrame({"request_id": ["a"], "arrival_s": [OPENB_START_S], "departure_s":
    ...                       [OPENB_START_S + 100], "cpu_cores": [64.0], "mem_gib": [8.0]})
    >>> workload = openb(Trace(table, OPENB_START_S + 1000), n_copies=1, n_laps=3)
    >>> (np.diff(workload.start_s)).tolist(), workload.warmup_s
    ([1000, 1000], 1000)
    """
    repeated, total_s = _laps(_cpu_and_memory(_busy_end(trace)), n_copies, n_laps, np.random.default_rng(seed))
    is_fitting = _is_fitting(repeated, pd.DataFrame([USUAL]))
    fitting, total_s = repeated.select(is_fitting), total_s[is_fitting]
    hosts = _alike(fitting, total_s, USUAL, load, n_hosts)
    left_out = LeftOut.of(repeated, is_fitting)
    return Workload("openb", fitting, hosts, total_s, repeated.horizon_s // n_laps if n_laps > 1 else 0, left_out,
                    _description("openb", fitting, hosts, left_out))


def openb_gpu(trace: Trace, *, load: float = 0.8, n_copies: int = OPENB_COPIES, n_laps: int = 3,
              seed: int = 0) -> Workload:
    """As `openb`, with GPUs: shares, whole ones and types, on nodes drawn from the trace's own.

    Nodes are drawn without replacement, as many as keep the peak of GPUs at `load`. A pod with a
    `gpu_spec` needs a node of one of these models. Pods that fit on no drawn node are left out.

    trace: as for `openb`, with its node list.
    """
    if trace.hosts is None or "model" not in trace.hosts:
        raise ValueError("trace must have the hosts of openb's node list, with the column 'model', got none")
    rng = np.random.default_rng(seed)
    busy = _busy_end(trace)
    model = busy.requests["gpu_spec"] if "gpu_spec" in busy.requests else pd.Series("any", busy.requests.index)
    model = model.astype("str").where(model.astype("str") != "any", None)
    repeated, total_s = _laps(replace(busy, requests=busy.requests.assign(model=model)), n_copies, n_laps, rng)
    start, gpu = repeated.start_s(), repeated.resources.index("gpu")
    need = whole_amounts(repeated.requests, repeated.resources)
    steps = demand(start, start + total_s, need, repeated.horizon_s)
    most = steps.lasting_peak(repeated.horizon_s)[gpu] / UNITS_PER["gpu"]
    drawn = trace.hosts.iloc[rng.permutation(len(trace.hosts))]
    n_hosts = int(np.searchsorted(drawn["gpu"].cumsum().to_numpy(), most / load)) + 1
    if n_hosts > len(drawn):
        raise ValueError(f"n_copies must leave a peak of at most {load * drawn['gpu'].sum():g} GPUs, got {most:g}")
    hosts = drawn.iloc[:n_hosts].reset_index(drop=True)
    is_fitting = np.zeros(len(repeated), bool)
    for wanted, rows in repeated.requests.groupby(repeated.requests["model"].fillna(""), sort=False).indices.items():
        is_named = hosts["model"].isin(str(wanted).split("|")).to_numpy() | (wanted == "")
        is_fitting[rows] = fits_somewhere(need[rows], whole_amounts(hosts[is_named], repeated.resources))
    fitting, left_out = repeated.select(is_fitting), LeftOut.of(repeated, is_fitting)
    return Workload("openb-gpu", fitting, hosts, total_s[is_fitting],
                    repeated.horizon_s // n_laps if n_laps > 1 else 0, left_out,
                    _description("openb-gpu", fitting, hosts, left_out), constraints=Constraints(host_type="model"))


def _busy_end(trace: Trace) -> Trace:
    """The pods of the openb trace after day 116.5."""
    is_after = trace.is_start_known() & (trace.start_s() >= OPENB_START_S)
    if trace.horizon_s <= OPENB_START_S or not is_after.any():
        raise ValueError(f"trace must have requests after {OPENB_START_S} s, got a horizon of {trace.horizon_s}")
    return trace.select(is_after)


def _laps(base: Trace, n_copies: int, n_laps: int, rng: np.random.Generator) -> tuple[Trace, np.ndarray]:
    """Laps of shifted and stretched copies of openb's busy end, with the lifetime of each, seconds."""
    lap_s = base.horizon_s - OPENB_START_S
    horizon_s, tables = n_laps * lap_s, []
    for copy in range(n_copies):
        start = (base.start_s() - OPENB_START_S + rng.integers(lap_s)) % lap_s
        for lap in range(n_laps):
            stretched = np.rint(base.lifetime_s() * rng.uniform(0.9, 1.1, len(base))).astype(np.int64)
            tables.append(base.requests.assign(
                request_id=base.requests["request_id"].astype(str) + f"#{copy}.{lap}",
                arrival_s=start + lap * lap_s, departure_s=start + lap * lap_s + np.maximum(stretched, 1)))
    table = pd.concat(tables, ignore_index=True).sort_values("arrival_s", kind="stable", ignore_index=True)
    total_s = (table["departure_s"] - table["arrival_s"]).to_numpy(np.int64)
    table["departure_s"] = table["departure_s"].astype("Int64").mask(table["departure_s"] > horizon_s)
    return Trace(table, horizon_s, base.roles, meta=base.meta), total_s


@dataclass(frozen=True, slots=True)
class Recipe:
    """A function of a trace and options. is_drawn: its seed draws copies of the trace's requests,
    so that each seed is another workload and each begins with an empty pool."""

    make: Callable[..., Workload]
    is_drawn: bool = False

    def __call__(self, trace: Trace, **options: Any) -> Workload:
        return self.make(trace.since_begin(), **options)


WORKLOADS: Mapping[str, Recipe] = MappingProxyType({
    "azure-flavors": Recipe(azure_flavors),
    "dlrm": Recipe(dlrm),
    "openb": Recipe(openb, is_drawn=True),
    "openb-gpu": Recipe(openb_gpu, is_drawn=True),
    "synthetic": Recipe(synthetic),
    "trace": Recipe(from_trace),
})
"""Every recipe by name."""


def build_workload(name: str, trace: Trace, **options: Any) -> Workload:
    """The workload that the named recipe makes of a trace; ValueError lists the known names.

    >>> build_workload("borg", None)
    Traceback (most recent call last):
    ValueError: workload must be one of azure-flavors, dlrm, openb, openb-gpu, synthetic, trace, got 'borg'
    """
    if name not in WORKLOADS:
        raise ValueError(f"workload must be one of {', '.join(sorted(WORKLOADS))}, got {name!r}")
    return WORKLOADS[name](trace, **options)


def _is_fitting(trace: Trace, hosts: pd.DataFrame) -> np.ndarray:
    return fits_somewhere(whole_amounts(trace.requests, trace.resources), whole_amounts(hosts, trace.resources))


def _fitting(trace: Trace, hosts: pd.DataFrame) -> tuple[Trace, LeftOut]:
    is_fitting = _is_fitting(trace, hosts)
    return trace.select(is_fitting), LeftOut.of(trace, is_fitting)


def _alike(trace: Trace, total_s: np.ndarray, shape: Mapping[str, float], load: float,
           n_hosts: int | None) -> pd.DataFrame:
    """Hosts of one shape, as many as keep the peak at `load`; a short demand is no peak
    (`Demand.lasting_peak`)."""
    if n_hosts is None:
        if not 0 < load < math.inf:
            raise ValueError(f"load must be finite and above 0, got {load!r}")
        start = trace.start_s()
        steps = demand(np.maximum(start, 0), start + total_s, whole_amounts(trace.requests, trace.resources),
                       trace.horizon_s)
        capacity = whole_amounts(pd.DataFrame([shape]), trace.resources)[0]
        n_hosts = n_hosts_for(steps.lasting_peak(trace.horizon_s), capacity, load)
    if n_hosts < 1:
        raise ValueError(f"n_hosts must be at least 1, got {n_hosts!r}")
    sizes = {name: np.full(n_hosts, size) for name, size in shape.items()}
    return pd.DataFrame({"host_id": np.arange(n_hosts), **sizes})


def _without(trace: Trace, resources: tuple[str, ...]) -> Trace:
    """The trace without these further resources."""
    if not resources:
        return trace
    roles = replace(trace.roles, resources=tuple(name for name in trace.roles.resources if name not in resources))
    hosts = None if trace.hosts is None else trace.hosts.drop(columns=list(resources), errors="ignore")
    return replace(trace, requests=trace.requests.drop(columns=list(resources)), roles=roles, hosts=hosts)


def _cpu_and_memory(trace: Trace) -> Trace:
    """The trace with CPU and memory only, without usage and hosts, which a replay does not read."""
    requests = trace.requests.drop(columns=[name for name in trace.resources if name not in RESOURCES[:2]])
    return Trace(requests, trace.horizon_s, replace(trace.roles, resources=()), meta=trace.meta)


def _description(name: str, trace: Trace, hosts: pd.DataFrame, left_out: LeftOut, why: str = "") -> str:
    days = trace.horizon_s / DAY_S
    shapes = hosts[[column for column in UNITS_PER if column in hosts]].drop_duplicates()
    text = f"{name}: {len(trace):,} requests over {days:.1f} days on {len(hosts):,} hosts"
    if len(shapes) == 1:
        text += f" of {shapes['cpu_cores'].iloc[0]:g} cores / {shapes['mem_gib'].iloc[0]:g} GiB"
        if "gpu" in shapes:
            text += f" / {shapes['gpu'].iloc[0]:g} GPUs"
    if why:
        text += f" ({why})"
    if left_out.n_requests:  # the comparison is then not of the whole trace
        text += f"; {left_out.text()}"
    return text
