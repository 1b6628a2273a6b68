"""Placement debt: the cost of long requests spread over many hosts (DVLA, OSDI'26, sections 2.4,
6.1 and 6.4).

We know the paper's formulas only as prose, so these are a reading of them. A request counts as long
while its true remaining time is above the threshold of `long_lived`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from sojourn.simulator.cluster import DAY_S
from sojourn.simulator.engine import Result
from sojourn.simulator.measures.measure import Column, Measure
from sojourn.simulator.workloads import Workload, long_lived

OTHER_TARGET = 0.9
"""Target density of long requests if hosts differ, since the bound's density is then not known."""
FALL_MIN = 0.01
"""The least fall of long requests' share of all cores for a sensitivity."""


@dataclass(frozen=True, slots=True)
class Debt:
    """Placement debt over the samples from the end of the warm-up on; NaN if a figure is not
    defined.

    long_lived_h: a request is long while it really stays longer than this many hours from then on.
    long_lived_core_hours_pct: core-hours of requests with such a lifetime, of all.
    bound_packing_density_pct: the density if at each time the fewest hosts that total demand needs
        were in use; not known if hosts differ.
    long_packing_density_pct: PD_L, cores of long requests, of the cores of hosts that have one;
        higher is better.
    long_debt_hosts: L_debt, the hosts that long requests could leave if PD_L rose to the bound's
        density (to 90 % if hosts differ): hosts with a long request, mean over time, times 1 - PD_L
        / target, at least 0; lower is better.
    stranded_hosts_pct: of the hosts in use, those with long requests that hold less than half of
        the cores; stranded_hosts_whole_pct: those with a long request on which all requests
        together hold less than half. Lower is better, as below.
    single_long_hosts_pct: of the hosts in use, those with exactly one long request.
    density_sensitivity_pct: the fall of the density over the fall of long requests' share of all
        cores: the median over all runs of days on which that share falls, by at least 1 pp in all;
        of daily means.
    density_sensitivity_mean_pct: their mean, weighted by the fall of the share.
    exposed_requests_pct: VRAR, of the requests with an owner those whose owner has more than 2
        requests on their host.
    host_h, bound_host_h: host-hours in use, and those of the bound; lower is better.
    """

    long_lived_h: float
    long_lived_core_hours_pct: float
    bound_packing_density_pct: float
    long_packing_density_pct: float
    long_debt_hosts: float
    stranded_hosts_pct: float
    stranded_hosts_whole_pct: float
    single_long_hosts_pct: float
    density_sensitivity_pct: float
    density_sensitivity_mean_pct: float
    exposed_requests_pct: float
    host_h: float
    bound_host_h: float


def debt(workload: Workload, result: Result) -> Debt:
    """The placement debt of a replay; ValueError for a result of another workload.

    >>> import pandas as pd
    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 0], "departure_s": [None, None],
    ...                       "cpu_cores": [2.0, 8.0], "mem_gib": [4.0, 4.0]}).astype({"departure_s": "Int64"})
    >>> hosts = pd.DataFrame({"host_id": [1, 2, 3], "cpu_cores": 8.0, "mem_gib": 8.0})
    >>> workload = sim.Workload("trace", sim.Trace(table, 200_000), hosts, np.full(2, 900_000))
    >>> result = debt(workload, sim.simulate(workload))  # 10 cores on two hosts of 8, and the bound needs two as well
    >>> result.long_packing_density_pct, result.stranded_hosts_pct, result.long_debt_hosts
    (62.5, 50.0, 0.0)
    """
    samples, cpu = result.samples, workload.resources.index("cpu_cores")
    if samples.n_running.shape[1] != len(workload.capacity):
        raise ValueError(f"result must be of this workload ({len(workload.capacity)} hosts), got "
                         f"{samples.n_running.shape[1]}")
    first = min(int(np.searchsorted(samples.time_s, workload.warmup_s)), len(samples.time_s) - 1)
    cores, long_cpu, n_long = workload.capacity[:, cpu], samples.long_cpu[first:], samples.n_long[first:]
    in_use = samples.n_running[first:] > 0
    used = cores - samples.free[first:, :, cpu]
    has_long = n_long > 0
    bound_density, bound_host_h = _bound(workload, result, cpu)
    density_long = _ratio(long_cpu.sum(), (has_long * cores).sum())
    target = OTHER_TARGET if np.isnan(bound_density) else bound_density
    n_with_long = float(has_long.sum(axis=1).mean())
    n_in_use = in_use.sum()
    median, mean = _sensitivity(samples.time_s[first:], _ratios(used.sum(axis=1), (in_use * cores).sum(axis=1)),
                                long_cpu.sum(axis=1) / cores.sum())
    whole_h = len(workload.capacity) * (workload.trace.horizon_s - workload.warmup_s) / 3600
    threshold = long_lived(workload)
    return Debt(
        long_lived_h=threshold.threshold_s / 3600,
        long_lived_core_hours_pct=threshold.core_hours_pct,
        bound_packing_density_pct=100 * bound_density,
        long_packing_density_pct=100 * density_long,
        long_debt_hosts=n_with_long * max(1.0 - density_long / target, 0.0) if n_with_long else 0.0,
        stranded_hosts_pct=100 * _ratio((has_long & (2 * long_cpu < cores)).sum(), n_in_use),
        stranded_hosts_whole_pct=100 * _ratio((has_long & (2 * used < cores)).sum(), n_in_use),
        single_long_hosts_pct=100 * _ratio((n_long == 1).sum(), n_in_use),
        density_sensitivity_pct=100 * median,
        density_sensitivity_mean_pct=100 * mean,
        exposed_requests_pct=100 * _ratio(samples.n_exposed[first:].sum(), samples.n_owned[first:].sum()),
        host_h=(1.0 - result.metrics.empty_hosts_pct / 100) * whole_h,
        bound_host_h=bound_host_h,
    )


def _bound(workload: Workload, result: Result, cpu: int) -> tuple[float, float]:
    """Density, 0..1 or NaN, and host-hours of the fewest hosts that demand needs."""
    from_s, to_s = workload.warmup_s, workload.trace.horizon_s
    hours = (1.0 - result.bound_empty_hosts_pct / 100) * len(workload.capacity) * (to_s - from_s) / 3600
    if (workload.capacity != workload.capacity[0]).any():
        return float("nan"), hours
    stay_s = np.clip(workload.departure_s, from_s, to_s) - np.clip(workload.placed_s, from_s, to_s)
    demand_h = float((workload.need[:, cpu].astype(np.float64) * stay_s).sum()) / 3600
    return min(_ratio(demand_h, hours * float(workload.capacity[0, cpu])), 1.0), hours


def _sensitivity(time_s: np.ndarray, density: np.ndarray, share: np.ndarray) -> tuple[float, float]:
    """Fall of the density over that of the share, in runs of falling days: median and weighted
    mean."""
    days, day = np.unique(time_s // DAY_S, return_inverse=True)
    n_samples = np.bincount(day, minlength=len(days))
    density, share = (np.round(np.bincount(day, values, len(days)) / n_samples, 12) for values in (density, share))
    falls, ratios, begin = [], [], 0
    for k in range(1, len(days) + 1):
        if k < len(days) and share[k] < share[k - 1]:
            continue
        fall = share[begin] - share[k - 1]
        if fall >= FALL_MIN:
            falls.append(fall)
            ratios.append((density[begin] - density[k - 1]) / fall)
        begin = k
    if not falls:
        return float("nan"), float("nan")
    return float(np.median(ratios)), float(np.average(ratios, weights=falls))


def _ratios(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    return np.divide(parts, wholes, out=np.zeros(len(parts)), where=wholes > 0)


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else float("nan")


DEBT = Measure(lambda workload, result: asdict(debt(workload, result)), {
    "long_lived_h": Column("long from", "h of true remaining time", "", 0, table="debt",
                           words="Long: a request that stays longer than this from the moment on, in truth; and the "
                                 "share of the core-hours of requests with such a lifetime."),
    "long_lived_core_hours_pct": Column("held by long", "% of core-hours", "", 0, table="debt"),
    "bound_packing_density_pct": Column("density of the bound", "% of cores on hosts in use", "", 1, table="debt",
                                        words="Density of the bound: packing density on the fewest hosts."),
    "long_packing_density_pct": Column(
        "long density", "% of cores on hosts with a long request", "higher", 1, table="debt",
        words="Long density: cores of long requests on the hosts that have one, % (higher = better)."),
    "long_debt_hosts": Column(
        "long debt", "hosts", "lower", 1, table="debt",
        words="Long debt: hosts that could go if the long density rose to the density of the bound (lower = better)."),
    "stranded_hosts_pct": Column(
        "stranded hosts", "% of hosts in use", "lower", 1, table="debt",
        words="Stranded hosts: with long requests that hold less than half of the cores; by all use: all requests "
              "together hold less than half (lower = better)."),
    "stranded_hosts_whole_pct": Column("stranded by all use", "% of hosts in use", "lower", 1, table="debt"),
    "single_long_hosts_pct": Column("one long request", "% of hosts in use", "lower", 1, table="debt",
                                    words="One long request: hosts that have just one (lower = better)."),
    "density_sensitivity_pct": Column(
        "density sensitivity", "%, median", "lower", 0, table="debt",
        words="Density sensitivity: the fall of the packing density in that of the share of all cores that long "
              "requests hold, over runs of days on which it falls (lower = better)."),
    "density_sensitivity_mean_pct": Column("mean sensitivity", "%, weighted", "lower", 0, table="debt"),
    "exposed_requests_pct": Column(
        "exposed", "% of requests", "lower", 1, table="debt",
        words="Exposed: requests with at least two more of their owner on the same host (lower = better)."),
    "host_h": Column("host-hours in use", "h", "lower", 0, table="debt",
                     words="Host-hours in use after the warm-up, and those of the bound (lower = better)."),
    "bound_host_h": Column("host-hours of the bound", "h", "", 0, table="debt"),
})
