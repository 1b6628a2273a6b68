"""Schedulers of services and batch requests on one pool, as settings; workloads; needs of services.

The schedulers are `trace`, `k8s`, `demand-blind` and `ctcl`. Needs without classes are a service's
maximum so far, and its true use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np

from sojourn.simulator.mixed.rules import RESOURCES, Autoscaler, Evictor, greedy, homogeneous
from sojourn.simulator.pool import DEFAULT_TYPE, MachineType
from sojourn.simulator.whole_numbers import check_setting, is_whole

Reading = Literal["idle", "vertical", "none"]
"""The use of predicted needs: batch requests get a service's idle room; its reservation becomes its
need; no use."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Decision times of the CTCL paper (table III) and the scheduling cycle, which the paper does
    not give.

    Decisions follow one another: with 20 ms each, 50 fit in a cycle of a second; the others wait
    for the next. Evictions at the begin of a cycle delay its placements.

    >>> Timing().decision_ms
    20
    """

    cycle_ms: int = 1000
    decision_ms: int = 20
    start_ms: int = 300
    eviction_ms: int = 2

    def __post_init__(self) -> None:
        for name, least in (("cycle_ms", 1), ("decision_ms", 0), ("start_ms", 0), ("eviction_ms", 0)):
            if not is_whole(getattr(self, name), least):
                raise ValueError(f"{name} must be a whole number, {least} or more, got {getattr(self, name)!r}")


@dataclass(frozen=True, slots=True)
class MixedScheduler:
    """A scheduler. about: one line.

    autoscaler: None = a fixed pool, of `n_machines` of `fixed_type`.
    needs: the use of predicted needs. is_first_fit: the first host instead of the least requested.
    is_by_use: the free room for a batch request is capacity less use, instead of less allocation,
        and the host must stay below the evictor's threshold.
    is_raised: eviction raises the demand to the highest use so far. is_long: a rescheduled request
        needs room for the longest time of requests like it. is_by_trace: requests go to their
        recorded machines.
    fill: share of a host that batch requests may fill in each resource.
    """

    about: str
    autoscaler: Autoscaler | None = field(default_factory=greedy)
    evictor: Evictor = field(default_factory=Evictor)
    timing: Timing = field(default_factory=Timing)
    needs: Reading = "none"
    is_first_fit: bool = False
    is_by_use: bool = False
    is_raised: bool = True
    is_long: bool = True
    is_by_trace: bool = False
    fill: float = 1.0
    fixed_type: MachineType = DEFAULT_TYPE

    def __post_init__(self) -> None:
        if not 0 < self.fill <= 1 or math.isnan(self.fill):
            raise ValueError(f"fill must be above 0 and at most 1, got {self.fill!r}")
        if len(self.evictor.weights) != len(RESOURCES):
            raise ValueError(f"weights of the evictor must be one of each of {', '.join(RESOURCES)}, got "
                             f"{self.evictor.weights!r}")
        scaler = self.autoscaler
        if scaler is not None and (scaler.resources, scaler.weights) != (RESOURCES, self.evictor.weights):
            raise ValueError(f"resources and weights of the autoscaler must be {RESOURCES!r} and those of the evictor, "
                             f"{self.evictor.weights!r}, got {scaler.resources!r} and {scaler.weights!r}")


SCHEDULERS: Mapping[str, MixedScheduler] = MappingProxyType({
    "trace": MixedScheduler(
        "the trace's own machines where it names them, else first fit on a fixed pool: services by their reservation, "
        "batch requests by what is used now; an evicted one is placed again with the same demand",
        autoscaler=None, evictor=Evictor(order="random"), is_first_fit=True, is_by_use=True, is_raised=False,
        is_long=False, is_by_trace=True),
    "k8s": MixedScheduler(
        "least requested without classes; reservations of services follow what they used (vertical autoscaling); one "
        "machine of the default type a cycle",
        autoscaler=homogeneous(), evictor=Evictor(order="largest-excess"), needs="vertical", is_long=False),
    "demand-blind": MixedScheduler(
        "as ctcl, but without predictions: batch requests get free room only, by what they asked for, evicted or not",
        is_raised=False, is_long=False),
    "ctcl": MixedScheduler(
        "batch requests may use the room that classes of services are predicted to leave idle", needs="idle"),
})
"""By name: the CTCL paper's two baselines, scheduling without predictions, and CTCL."""

N_RESOURCES = 2
"""CPU and memory, in this order: whole milli-cores and MiB."""
BELOW = 2**40
"""Bound of amounts and times; sums fit into 64 bits: 10^9 cores, 1 EiB, 34 years in ms."""


@dataclass(frozen=True, slots=True)
class Services:
    """Requests that stay, and reserve more than they use most of the time.

    reserved: int64 (n, 2). used: int64 (n, n_intervals, 2), in each interval; may exceed reserved.
    first, last: int64 (n,), the interval of its arrival, and one past its last; n_intervals = it
    stays. machine: int64 (n,), its machine in the trace, -1 = not known.

    Refused with ValueError: other shapes, values that are not whole, amounts below 0 or from 2^40
    on, first above last, last above n_intervals.

    >>> one = Services(np.array([[4000, 8192]]), np.full((1, 3, 2), 1000), np.array([0]), np.array([3]), np.array([-1]))
    >>> len(one), one.n_intervals
    (1, 3)
    """

    reserved: np.ndarray
    used: np.ndarray
    first: np.ndarray
    last: np.ndarray
    machine: np.ndarray

    def __post_init__(self) -> None:
        n, shape = n_rows(self.reserved), np.shape(self.used)
        if len(shape) != 3 or shape[0] != n or shape[2] != N_RESOURCES:
            raise ValueError(f"used must have the shape ({n}, n_intervals, 2), got {shape}")
        check_whole(("reserved", self.reserved, (n, 2)), ("used", self.used, shape),
                    ("first", self.first, (n,)), ("last", self.last, (n,)))
        check_whole(("machine", self.machine, (n,)), least=-1)
        for k in np.flatnonzero((self.first > self.last) | (self.last > shape[1])).tolist():
            raise ValueError(f"first and last must be in this order and at most n_intervals, {shape[1]}, got "
                             f"{int(self.first[k])!r} and {int(self.last[k])!r} of service {k}")

    def __len__(self) -> int:
        return len(self.reserved)

    @property
    def n_intervals(self) -> int:
        """Intervals of the series."""
        return int(self.used.shape[1])


@dataclass(frozen=True, slots=True)
class BatchRequests:
    """Requests with a limited lifetime and a low priority, in the order of their arrival.

    arrival_ms, duration_ms: int64 (n,); the duration is from its start to its end, if it is not
    evicted. requested: int64 (n, 2), its demand. used: int64 (n, 2), its use from its start; peak:
    its use from
        `peak_ms` of its runtime on. Both may exceed the demand.
    longest_ms: int64 (n,), the longest time of requests like it in earlier runs.
    machine: int64 (n,), as in `Services`.

    >>> one = BatchRequests(np.array([0]), np.array([9000]), np.array([[500, 256]]), np.array([[600, 256]]),
    ...                     np.array([[600, 256]]), np.array([0]), np.array([9000]), np.array([-1]))
    >>> len(one)
    1
    """

    arrival_ms: np.ndarray
    duration_ms: np.ndarray
    requested: np.ndarray
    used: np.ndarray
    peak: np.ndarray
    peak_ms: np.ndarray
    longest_ms: np.ndarray
    machine: np.ndarray

    def __post_init__(self) -> None:
        n = n_rows(self.requested)
        check_whole(*((name, getattr(self, name), (n, 2)) for name in ("requested", "used", "peak")))
        check_whole(*((name, getattr(self, name), (n,))
                      for name in ("arrival_ms", "duration_ms", "peak_ms", "longest_ms")))
        check_whole(("machine", self.machine, (n,)), least=-1)
        if n and (np.diff(self.arrival_ms) < 0).any():
            raise ValueError(f"arrival_ms must not fall, got {self.arrival_ms[:3].tolist()}..")

    def __len__(self) -> int:
        return len(self.requested)


@dataclass(frozen=True, slots=True)
class MixedWorkload:
    """Services and batch requests of one pool. interval_s: of the services' series, whole seconds.

    description: one line. n_machines: of the trace's pool, 0 = not known.
    """

    services: Services
    batch: BatchRequests
    interval_s: int
    description: str
    n_machines: int = 0

    def __post_init__(self) -> None:
        check_setting(self.interval_s, 1, "interval_s")
        if self.services.n_intervals < 1:
            raise ValueError(f"n_intervals of services must be at least 1, got {self.services.n_intervals!r}")
        if not is_whole(self.n_machines, 0):
            raise ValueError(f"n_machines must be a whole number, 0 or more, got {self.n_machines!r}")

    @property
    def horizon_s(self) -> int:
        """End of the series."""
        return self.interval_s * self.services.n_intervals


def n_rows(table: np.ndarray) -> int:
    """Rows of a table; 0 for a number.

    >>> n_rows(np.zeros((3, 2)))
    3
    """
    return np.shape(table)[0] if np.ndim(table) else 0


def check_whole(*columns: tuple[str, np.ndarray, tuple[int, ...]], least: int = 0) -> None:
    """ValueError for a column of another shape, with values that are not whole, below `least` or
    from 2^40 on.

    >>> check_whole(("first", np.array([-1]), (1,)))
    Traceback (most recent call last):
    ValueError: first must be 0 or more, got -1
    """
    for name, values, shape in columns:
        if not isinstance(values, np.ndarray):
            raise ValueError(f"{name} must be an array of whole numbers, got {values!r}")
        if values.shape != shape or values.dtype.kind != "i":
            raise ValueError(f"{name} must be whole numbers of the shape {shape}, got {values.dtype} {values.shape}")
        if values.size and values.min() < least:
            raise ValueError(f"{name} must be {least} or more, got {int(values.min())!r}")
        if values.size and values.max() >= BELOW:
            raise ValueError(f"{name} must be below 2^40, got {int(values.max())!r}")


def own_maximum(services: Services, n_observed: int, margin: float = 0.0) -> np.ndarray:
    """The maximum use of each service so far, float64 (n, n_intervals, 2); NaN in its first
    n_observed intervals.

    It does not use the interval itself or later ones. margin: added, as a share.

    Refused with ValueError: n_observed below 1, a negative margin.

    >>> used = np.array([[[2, 1], [5, 1], [3, 1], [1, 1]]])
    >>> one = Services(np.array([[8, 8]]), used, np.array([0]), np.array([4]), np.array([-1]))
    >>> own_maximum(one, 1)[0, :, 0].tolist()
    [nan, 2.0, 5.0, 5.0]
    """
    check_setting(n_observed, 1, "n_observed")
    if not 0 <= margin < math.inf:
        raise ValueError(f"margin must be 0 or more and finite, got {margin!r}")
    n_intervals = services.n_intervals
    needs = np.full(services.used.shape, np.nan)
    seen = np.maximum.accumulate(services.used, axis=1)
    needs[:, 1:] = seen[:, :-1] * (1 + margin)
    is_early = np.arange(n_intervals) < (services.first + n_observed)[:, None]
    needs[is_early] = np.nan
    return needs


def true_needs(services: Services) -> np.ndarray:
    """The true maximum use of each service in the interval and the next, float64 (n, n_intervals,
    2): a perfect prediction.

    >>> used = np.array([[[2, 1], [5, 1], [3, 1]]])
    >>> one = Services(np.array([[8, 8]]), used, np.array([0]), np.array([3]), np.array([-1]))
    >>> true_needs(one)[0, :, 0].tolist()
    [5.0, 5.0, 3.0]
    """
    following = np.concatenate([services.used[:, 1:], services.used[:, -1:]], axis=1)
    return np.maximum(services.used, following).astype(np.float64)
