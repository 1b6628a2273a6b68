"""A workload: a trace, the hosts it runs on, and the true lifetimes.

Amounts are whole numbers. Constraints bind requests to hosts, keep them apart or pin them. Censored
lifetimes get seeded completions, so that oracle and replay use the same lifetimes. Requests larger
than every host are left out, so a gain is of the others only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from sojourn.features.trace import Trace

UNITS_PER = {"cpu_cores": 1000, "mem_gib": 1024, "gpu": 1000}
"""Milli-cores, MiB and milli-GPU in one of the trace's units; thousandths of all other resources."""
MOMENT_S = 60
"""Demand that lasts for less does not count as a peak."""
MOST_KINDS = 62
"""Kinds of hosts, if requests name several: each has a bit."""
LARGEST = 2**40
"""The largest amount of one request or host; no sum overflows up to it."""


def whole_amounts(table: pd.DataFrame, resources: tuple[str, ...]) -> np.ndarray:
    """Amounts of the table's rows, int64 (n, n_resources): milli-cores, MiB, milli-GPU or the like, to nearest.

    A resource that the table does not have counts as 0. ValueError for one that is not in 0..LARGEST.

    >>> table = pd.DataFrame({"cpu_cores": [0.5], "mem_gib": [2.0]})
    >>> whole_amounts(table, ("cpu_cores", "mem_gib", "gpu")).tolist()
    [[500, 2048, 0]]
    """
    columns = [
        np.rint(table[name].to_numpy(np.float64) * UNITS_PER.get(name, 1000)) if name in table else np.zeros(len(table))
        for name in resources
    ]
    for name, column in zip(resources, columns, strict=True):
        is_bad = ~((column >= 0) & (column <= LARGEST))  # NaN as well: hosts need not come from a Trace
        if is_bad.any():
            raise ValueError(f"{name} must be in 0..{LARGEST / UNITS_PER.get(name, 1000):g}, got "
                             f"{table[name].tolist()[int(np.argmax(is_bad))]!r}")
    return np.asarray(np.stack(columns, axis=1), np.int64)


@dataclass(frozen=True, slots=True)
class Demand:
    """Total demand as a step function: amount[i] from time_s[i] on; int64 (n,) and (n, n_resources)."""

    time_s: np.ndarray
    amount: np.ndarray

    def peak(self) -> np.ndarray:
        """Highest demand of each resource, int64 (n_resources,)."""
        return self.amount.max(axis=0, initial=0)

    def lasting_peak(self, horizon_s: int) -> np.ndarray:
        """The peak without very short and very high demand, int64 (n_resources,).

        If the peak is more than twice the highest demand that lasts for a minute in all, the result
        is that demand. In logs of real jobs dozens that each need the whole machine start in one
        second and fail.

        >>> Demand(np.array([0, 50, 51]), np.array([[3], [90], [3]])).lasting_peak(500).tolist()
        [3]
        """
        lasting_s = np.diff(np.append(self.time_s, horizon_s))
        peaks = self.peak()
        for idx, peak in enumerate(peaks.tolist()):
            order = np.argsort(-self.amount[:, idx], kind="stable")
            upto_s = np.cumsum(lasting_s[order])
            if len(order) and upto_s[-1] >= MOMENT_S:
                lasting = int(self.amount[order[int(np.searchsorted(upto_s, MOMENT_S))], idx])
                peaks[idx] = lasting if 0 < lasting * 2 < peak else peak
        return peaks


def demand(arrival_s: np.ndarray, departure_s: np.ndarray, need: np.ndarray, horizon_s: int) -> Demand:
    """The demand of all requests together, from 0 up to and including the horizon.

    >>> steps = demand(np.array([0, 10]), np.array([20, 99]), np.array([[2], [3]]), 60)
    >>> steps.time_s.tolist(), steps.amount[:, 0].tolist()
    ([0, 10, 20], [2, 5, 3])
    """
    within = [_distinct(np.sort(each[each <= horizon_s])) for each in (arrival_s, departure_s)]
    time_s = _distinct(np.sort(np.concatenate(within)))
    amount, level = np.zeros((len(time_s), need.shape[1]), np.int64), np.zeros(len(need) + 1, np.int64)
    for sign, each in ((1, arrival_s), (-1, departure_s)):  # one by one: ten million requests take 80 MB an array
        order = np.argsort(each, kind="stable")
        n_until = np.searchsorted(each[order], time_s, side="right")
        for d in range(need.shape[1]):
            np.cumsum(need[order, d], out=level[1:])
            amount[:, d] += sign * level[n_until]
    return Demand(time_s, amount)


def _distinct(times: np.ndarray) -> np.ndarray:
    """Rising times without repetition. np.unique would hash them, which takes four times as long."""
    return times[np.append(True, times[1:] > times[:-1])[:len(times)]]


def n_hosts_for(peak: np.ndarray, room: np.ndarray, load: float) -> int:
    """Hosts of one shape that keep a peak at `load`, at least 1, by the resources that a host has.

    peak, room: int64 (n_resources,), of all requests and of one host. load: above 0.

    >>> n_hosts_for(np.array([40_000, 10]), np.array([8_000, 0]), 0.8)
    7
    """
    return max(1, *(math.ceil(int(most) / (load * int(one))) for most, one in zip(peak, room, strict=True) if one))


def binding_order(load: np.ndarray) -> np.ndarray:
    """Resource dimensions by falling whole-trace load, the binding one first; equal loads keep their order.

    >>> binding_order(np.array([0.5, 0.8])).tolist()
    [1, 0]
    """
    return np.argsort(-load, kind="stable")


def shares(amount: np.ndarray, total: np.ndarray) -> np.ndarray:
    """amount / total, 0 if the total is 0; float64.

    >>> shares(np.array([1, 0]), np.array([4, 0])).tolist()
    [0.25, 0.0]
    """
    return np.asarray(np.divide(amount, total, out=np.zeros(np.shape(amount)), where=np.asarray(total) > 0))


class ConstraintArrays(NamedTuple):
    """Constraints as whole numbers; int64, None if there is no such rule.

    host_kind (n_hosts,) and kind (n,): a request of kind k >= 0 needs a host of that kind, of -1 any, and
    of less one of the kinds whose bits -2 - k has. group
    (n,): a host never holds two requests of a group >= 0. is_pinned (n,): 1 for a request that
    can't migrate.
    """

    host_kind: np.ndarray | None
    kind: np.ndarray | None
    group: np.ndarray | None
    is_pinned: np.ndarray | None


@dataclass(frozen=True, slots=True)
class Constraints:
    """Columns of a workload that restrict its placements; None = no such rule.

    host_type: a column of requests and of hosts; a request with a value needs a host with the same
    value, or with one of several, as in `T4|P100`. apart_by: a column of requests; two with the same
    value are never on one host. pinned_by: a boolean column of requests; if True, the request can't
    migrate. A missing value sets no rule.

    >>> hosts = pd.DataFrame({"host_id": [0, 1], "machine": ["n1", "n2"]})
    >>> requests = pd.DataFrame({"request_id": [7, 8], "machine": ["n2", None]})
    >>> rules = Constraints(host_type="machine").rules(requests, hosts)
    >>> rules.host_kind.tolist(), rules.kind.tolist()
    ([0, 1], [1, -1])
    """

    host_type: str | None = None
    apart_by: str | None = None
    pinned_by: str | None = None

    def rules(self, requests: pd.DataFrame, hosts: pd.DataFrame) -> ConstraintArrays:
        """The rules as whole numbers; ValueError names a column that is not there."""
        for name, table, owner in ((self.host_type, requests, "requests"), (self.host_type, hosts, "hosts"),
                                   (self.apart_by, requests, "requests"), (self.pinned_by, requests, "requests")):
            if name is not None and name not in table:
                raise ValueError(f"{owner} must have the column {name!r} that constraints name, got "
                                 f"{', '.join(map(str, table.columns))}")
        host_kind = kind = group = is_pinned = None
        if self.host_type is not None:
            host_kind, known = pd.factorize(hosts[self.host_type].astype("string"))
            wanted = requests[self.host_type].astype("string")
            kind = pd.Index(known).get_indexer(pd.Index(wanted))
            kind = np.where(wanted.isna(), -1, np.where(kind < 0, len(known), kind))
            several = wanted[(kind == len(known)) & wanted.str.contains("|", regex=False).fillna(False)]
            if len(several) and len(known) >= MOST_KINDS:
                raise ValueError(f"hosts must have fewer than {MOST_KINDS} values of {self.host_type!r} if requests "
                                 f"name several, got {len(known)} and {several.iloc[0]!r}")
            for text in several.unique():
                bits = sum(1 << k for k, name in enumerate(known) if name in text.split("|"))
                kind[(wanted == text).fillna(False).to_numpy(bool)] = -2 - bits if bits else len(known)
        if self.apart_by is not None:
            group = pd.factorize(requests[self.apart_by].astype("string"))[0]
        if self.pinned_by is not None:
            is_pinned = requests[self.pinned_by].fillna(False).to_numpy(bool)
        return ConstraintArrays(host_kind, kind, group, is_pinned)


NO_CONSTRAINTS = Constraints()


def true_totals(trace: Trace, rng: np.random.Generator) -> np.ndarray:
    """Total lifetime of each request from its start, int64 seconds, shape (n,).

    Observed lifetimes stay; a request is on its host for at least 1 s, so a shorter one counts up
    to 1 s after its placement. A request that still runs at the horizon gets a completion past it,
    drawn from the trace's Kaplan-Meier curve given its age.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 70], "departure_s": [50, None],
    ...                       "cpu_cores": [1.0, 1.0], "mem_gib": [1.0, 1.0]})
    >>> true_totals(Trace(table, 100), np.random.default_rng(0)).tolist()
    [50, 50]
    """
    start = trace.start_s()
    total = np.maximum(trace.lifetime_s(), np.maximum(start, 0) + 1 - start)
    is_event = trace.is_event()
    if is_event.all():
        return np.asarray(total)
    is_known = trace.is_start_known()
    time_s, survival = kaplan_meier(total[is_known], is_event[is_known], np.maximum(-start[is_known], 0))
    age = trace.horizon_s - start[~is_event]
    total[~is_event] = draw_beyond(age, time_s, survival, rng)
    return np.asarray(total)


def kaplan_meier(total_s: np.ndarray, is_event: np.ndarray, entry_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Event times (ascending) and the survival just after each (Kaplan and Meier 1958).

    entry_s: age at which the observation of each request began; it is at risk only above (left
    truncation).

    >>> times, survival = kaplan_meier(np.array([1, 2, 3]), np.array([True, False, True]), np.zeros(3))
    >>> times.tolist(), survival.round(3).tolist()
    ([1, 3], [0.667, 0.0])
    """
    times, n_events = np.unique(total_s[is_event], return_counts=True)
    n_left = np.searchsorted(np.sort(total_s), times, side="left")
    n_entered = np.searchsorted(np.sort(entry_s), times, side="left")
    n_at_risk = np.maximum(n_entered - n_left, n_events)
    return times, np.cumprod(1.0 - n_events / n_at_risk)


def draw_beyond(
    age_s: np.ndarray, time_s: np.ndarray, survival: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """One total lifetime above each age, int64 seconds, drawn from the curve given that age.

    If the draw or the age is beyond the last event, where Kaplan-Meier is not defined, the total is
    twice the larger of the two, as for an outlived prediction.

    >>> draw_beyond(np.array([2, 9]), np.array([1, 3]), np.array([0.7, 0.0]), np.random.default_rng(0)).tolist()
    [3, 18]
    """
    uniform = rng.random(len(age_s))
    beyond = 2 * np.maximum(np.maximum(age_s, time_s[-1] if len(time_s) else 0), 1)
    if len(time_s) == 0:
        return np.asarray(beyond, np.int64)
    idx_next = np.searchsorted(time_s, age_s, side="right")
    survival_now = np.append(1.0, survival)[idx_next]
    # survival falls along time_s; the draw is the first event time where it is at most uniform * S(age)
    idx_drawn = np.searchsorted(-survival, -uniform * survival_now, side="left")
    idx_drawn = np.maximum(idx_drawn, idx_next)
    is_inside = idx_drawn < len(time_s)
    drawn = np.where(is_inside, time_s[np.minimum(idx_drawn, len(time_s) - 1)], beyond)
    return np.asarray(drawn, np.int64)


THRESHOLDS_S = (2_592_000, 604_800, 86_400)
"""A month (DVLA, OSDI'26, section 2), and for shorter traces a week and a day; the last is the default."""
SHARE_MIN = 0.9
"""The least share of the core-hours that long requests hold; in DVLA's clusters it is 93 %."""
_KINDS_OF_WORK = ("shape", "batch", "vm", "job", "job_name", "executable", "controller", "deployment", "task_name")
"""Owners that name a program, and not a user."""


@dataclass(frozen=True, slots=True)
class LongLived:
    """threshold_s: the least lifetime of a long request. core_hours_pct: core-hours of such
    requests after the warm-up, % of all."""

    threshold_s: int
    core_hours_pct: float


def long_lived(workload: Workload) -> LongLived:
    """The longest of THRESHOLDS_S above which requests hold SHARE_MIN of the core-hours, or a day.

    By true lifetimes, and by demand between warm-up and horizon, placed or not.

    >>> import pandas as pd
    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 0], "departure_s": [700_000, 70_000],
    ...                       "cpu_cores": [4.0, 4.0], "mem_gib": [4.0, 4.0]})
    >>> long = long_lived(sim.build_workload("trace", sim.Trace(table, 800_000), cpu_cores=8, mem_gib=8, n_hosts=1))
    >>> long.threshold_s, round(long.core_hours_pct, 1)
    (604800, 90.9)
    """
    from_s, to_s = workload.warmup_s, workload.trace.horizon_s
    stay_s = np.clip(workload.departure_s, from_s, to_s) - np.clip(workload.placed_s, from_s, to_s)
    core_s = workload.need[:, workload.resources.index("cpu_cores")].astype(np.float64) * stay_s
    whole = max(float(core_s.sum()), 1.0)
    share = [float(core_s[workload.total_s >= threshold].sum()) / whole for threshold in THRESHOLDS_S]
    k = next((k for k, each in enumerate(share) if each >= SHARE_MIN), len(share) - 1)
    return LongLived(THRESHOLDS_S[k], 100.0 * share[k])


def owner_numbers(workload: Workload) -> np.ndarray:
    """Each request's owner as a number from 0, int64 (n,); -1 for none, or without owners.

    The owner is `user` if the trace has it, else the coarsest that is not a kind of work: the
    failure of a host hits such an owner.
    """
    table, owners = workload.trace.requests, workload.trace.roles.owners
    named = [name for name in owners if name not in _KINDS_OF_WORK]
    if not named:
        return np.full(len(table), -1, np.int64)
    codes, _ = table["user" if "user" in named else named[0]].factorize()
    return np.asarray(codes, np.int64)


LEFT_OUT_MAX = 0.05
"""Above this share of the core-hours the replay does not represent the trace, and commands warn."""


def hours(trace: Trace) -> np.ndarray:
    """Hours that each request runs between 0 and the horizon, float64 (n,)."""
    return np.asarray((trace.end_s() - np.maximum(trace.start_s(), 0)) / 3600.0)


def core_hours(trace: Trace) -> np.ndarray:
    """Cores of each request times its hours, float64, shape (n,)."""
    return np.asarray(trace.requests["cpu_cores"].to_numpy() * hours(trace))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Requests larger than every host, and their core-hours up to the horizon; and those of all.

    >>> LeftOut(1, 4, 30.0, 120.0).text()
    '1 (25.0%) of the requests with 25.0% of the core-hours are larger than every host and left out'
    """

    n_requests: int = 0
    n_all: int = 0
    core_hours: float = 0.0
    core_hours_all: float = 0.0

    @classmethod
    def of(cls, trace: Trace, is_kept: np.ndarray) -> LeftOut:
        """is_kept: bool (n,), the trace's requests that are replayed."""
        each = core_hours(trace)
        return cls(int((~is_kept).sum()), len(trace), float(each[~is_kept].sum()), float(each.sum()))

    @property
    def core_hour_share(self) -> float:
        """Share of all core-hours, or of the requests if there are no core-hours; 0 to 1."""
        if self.core_hours_all > 0:
            return self.core_hours / self.core_hours_all
        return self.request_share

    @property
    def request_share(self) -> float:
        """Share of all requests, 0 to 1."""
        return self.n_requests / self.n_all if self.n_all else 0.0

    def text(self) -> str:
        """A sentence; "" if nothing is left out."""
        if not self.n_requests:
            return ""
        return (f"{self.n_requests:,} ({_percent(self.request_share)}) of the requests with "
                f"{_percent(self.core_hour_share)} of the core-hours are larger than every host and left out")


NOTHING_LEFT_OUT = LeftOut()


def _percent(share: float) -> str:
    """The share in %; one above 0 is never written as 0."""
    return f"{share:.1%}" if share >= 0.0005 else "under 0.1%"


MIN_HOSTS = 10
"""With fewer hosts one host is more than 10 pp of the pool, and a policy can save little."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A trace with hosts to replay it on; resources are in order of load, the binding one first.

    name: the recipe. description: one line for tables and figures.
    trace: every request fits on at least one empty host. A replay's clock begins at 0, so a dated
        trace is shifted.
    hosts: `host_id`, `cpu_cores`, `mem_gib`, optional `gpu` and the trace's further resources;
        every host has 0 of a missing one.
    total_s: int64 (n,), true total lifetimes from the start, past the horizon for censored
        requests.
    warmup_s: metrics begin here. left_out: requests larger than every host. constraints: rules
        besides room.
    job_of: int64 (n,), equal for parts of one job, which move together in replicas; None = no
        parts.

    Derived: resources; need (n, n_resources) and capacity (n_hosts, n_resources), int64
    milli-cores, MiB, milli-GPU and the like; start_s (unknown = 0), placed_s (at least 0) and
    departure_s, int64 (n,); demand over time; load, the whole-trace peak of the binding resource
    over the cluster's capacity (above 1 = not all requests fit).

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
        placed = np.maximum(start, 0) if (start < 0).any() else start
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
        """Reasons to doubt gains on this workload, a line each; [] if there are none."""
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
    """Whether some empty host has room for each request, bool (n,).

    >>> fits_somewhere(np.array([[2, 9], [9, 1]]), np.array([[8, 8], [4, 16]])).tolist()
    [True, False]
    """
    is_fitting = np.zeros(len(need), bool)
    for shape in np.unique(capacity, axis=0):
        is_fitting |= (need <= shape).all(axis=1)
    return is_fitting
