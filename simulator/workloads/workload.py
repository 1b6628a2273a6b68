"""What is replayed: a trace, the hosts it runs on, and the truth about its lifetimes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from sojourn.features.trace import Trace
from sojourn.simulator.workloads.amounts import Demand, binding_order, demand, shares, whole_amounts
from sojourn.simulator.workloads.constraints import NO_CONSTRAINTS, Constraints
from sojourn.simulator.workloads.left_out import LEFT_OUT_MAX, NOTHING_LEFT_OUT, LeftOut

MIN_HOSTS = 10
"""With fewer hosts one host is more than 10 pp of the pool, and a placement can save little."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A trace with hosts to replay it on; resources are in order of load, the binding one first.

    name: the recipe. description: one line for tables and figures.
    trace: every request fits on at least one empty host. A replay's clock begins at 0: a dated trace is moved there.
    hosts: `host_id`, `cpu_cores`, `mem_gib`, optional `gpu` and the trace's further resources; one that it lacks is
        absent on every host.
    total_s: int64 (n,), true total lifetimes from the start, past the horizon for censored requests.
    warmup_s: metrics begin here. left_out: requests larger than every host. constraints: rules besides room.
    job_of: int64 (n,), equal for parts of one job, which move together in replicas; None = each request by itself.

    Derived: resources; need (n, n_resources) and capacity (n_hosts, n_resources), int64 milli-cores, MiB,
    milli-GPU and the like; start_s (unknown = 0), placed_s (at least 0) and departure_s, int64 (n,); demand over time;
    load, the whole-trace peak of the binding resource over the cluster's capacity (above 1 = can't all fit).

    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [40], "cpu_cores": [6.0],
    ...                       "mem_gib": [8.0]})
    >>> hosts = pd.DataFrame({"host_id": ["h"], "cpu_cores": [8.0], "mem_gib": [32.0]})
    >>> Workload("trace", Trace(table, 100), hosts, np.array([40])).load
    0.75
    """

    name: str
    trace: Trace
    hosts: pd.DataFrame
    total_s: np.ndarray
    warmup_s: int = 0
    left_out: LeftOut = NOTHING_LEFT_OUT
    description: str = ""
    constraints: Constraints = NO_CONSTRAINTS
    job_of: np.ndarray | None = None
    resources: tuple[str, ...] = field(init=False)
    need: np.ndarray = field(init=False, repr=False)
    capacity: np.ndarray = field(init=False, repr=False)
    start_s: np.ndarray = field(init=False, repr=False)
    placed_s: np.ndarray = field(init=False, repr=False)
    departure_s: np.ndarray = field(init=False, repr=False)
    demand: Demand = field(init=False, repr=False)
    load: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "trace", self.trace.since_begin())
        if len(self.hosts) == 0:
            raise ValueError("hosts must be at least one, got none")
        if len(self.trace) == 0:
            raise ValueError(f"requests must be at least one, got none ({self.left_out.n_requests} larger than every "
                             "host)")
        if not 0 <= self.warmup_s < self.trace.horizon_s:
            raise ValueError(f"warmup_s must be in 0..{self.trace.horizon_s - 1}, got {self.warmup_s!r}")
        start = self.trace.start_s()
        placed = np.maximum(start, 0)
        total = np.asarray(self.total_s, np.int64)
        if total.shape != start.shape or (start + total <= placed).any():
            raise ValueError("total_s must be one per request and end after its placement")
        if self.job_of is not None and self.job_of.shape != start.shape:
            raise ValueError(f"job_of must be one per request, got {self.job_of.shape} for {start.shape}")
        names = self.trace.resources
        need, capacity = whole_amounts(self.trace.requests, names), whole_amounts(self.hosts, names)
        is_too_large = ~fits_somewhere(need, capacity)
        if is_too_large.any():
            bad = self.trace.requests["request_id"].tolist()[int(np.argmax(is_too_large))]
            raise ValueError(f"each request must fit on an empty host, got {bad!r} larger than every host")
        for name, room in zip(names, capacity.sum(axis=0).tolist(), strict=True):
            if room * self.trace.horizon_s >= 2**63:
                raise ValueError(f"{name} of all hosts over the horizon must be below 2^63 units x s, got "
                                 f"{room} x {self.trace.horizon_s}")
        steps = demand(placed, start + total, need, self.trace.horizon_s)
        load = shares(steps.peak(), capacity.sum(axis=0))
        order = binding_order(load)
        derived = {
            "total_s": total, "resources": tuple(names[d] for d in order), "load": float(load[order[0]]),
            "need": np.ascontiguousarray(need[:, order]), "capacity": np.ascontiguousarray(capacity[:, order]),
            "start_s": start, "placed_s": placed, "departure_s": start + total,
            "demand": Demand(steps.time_s, steps.amount[:, order]),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def doubts(self) -> list[str]:
        """What makes gains on this workload hard to read, a line each; none where nothing does."""
        lines = []
        if self.left_out.core_hour_share > LEFT_OUT_MAX:
            lines.append(f"check: {self.left_out.text()}; gains are of the others alone. Give larger hosts with "
                         "--host-cpu-cores and --host-mem-gib")
        if len(self.hosts) < MIN_HOSTS:
            share = 100 / len(self.hosts)
            lines.append(f"check: {len(self.hosts)} hosts are few, so that one of them is {share:.0f} % of the pool. "
                         "Smaller hosts, by --host-cpu-cores and --host-mem-gib, give more of them")
        if self.load > 1.0:
            lines.append(f"check: at some moment requests ask for {self.load:.1f} times the pool; those "
                         "without room then are rejected")
        return lines

    @property
    def request_ids(self) -> pd.Index:
        """The requests' ids in their order."""
        return pd.Index(self.trace.requests["request_id"])


def fits_somewhere(need: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """True where an empty host has room for the request, bool (n,).

    >>> fits_somewhere(np.array([[2, 9], [9, 1]]), np.array([[8, 8], [4, 16]])).tolist()
    [True, False]
    """
    is_fitting = np.zeros(len(need), bool)
    for shape in np.unique(capacity, axis=0):
        is_fitting |= (need <= shape).all(axis=1)
    return is_fitting
