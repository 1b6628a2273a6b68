"""Services and batch requests that share hosts: what each reserves or asks for, and what it really uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.simulator.whole_numbers import check_setting, is_whole

N_RESOURCES = 2
"""CPU and memory, in this order: whole milli-cores and MiB."""
BELOW = 2**40
"""Of all amounts and times, so that their sums stay within 64 bits: 10^9 cores, 1 EiB, 34 years in milliseconds."""


@dataclass(frozen=True, slots=True)
class Services:
    """Requests that stay, and reserve more than they use most of the time.

    reserved: int64 (n, 2). used: int64 (n, n_intervals, 2), in each interval; may exceed what is reserved.
    first, last: int64 (n,), the intervals in which it arrives and, last excluded, leaves; n_intervals = it stays.
    machine: int64 (n,), the machine that the trace placed it on, -1 = not known.

    Refused with ValueError: other shapes, what are no whole numbers, amounts below 0 or from 2^40 on, first above last,
    last above n_intervals.

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
        """Of the series."""
        return int(self.used.shape[1])


@dataclass(frozen=True, slots=True)
class BatchRequests:
    """Requests with a limited lifetime and a low priority, in the order of their arrival.

    arrival_ms, duration_ms: int64 (n,); the duration is from its start to its end, if it is not evicted.
    requested: int64 (n, 2), what it asks for. used: int64 (n, 2), what it uses from its start, and peak, what it uses
        from `peak_ms` of its runtime on; both may exceed what is requested.
    longest_ms: int64 (n,), what requests like it took at most: known from earlier runs, not from this one.
    machine: int64 (n,), as of `Services`.

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
    """Services and batch requests of one pool. interval_s: of the services' series, whole seconds; description: a line.

    n_machines: of the trace's own pool, 0 = not known.
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
    """Of a table; 0 of what is none.

    >>> n_rows(np.zeros((3, 2)))
    3
    """
    return np.shape(table)[0] if np.ndim(table) else 0


def check_whole(*columns: tuple[str, np.ndarray, tuple[int, ...]], least: int = 0) -> None:
    """Refuse a column, by its name, that is not of its shape, not of whole numbers, below `least` or not below 2^40.

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
