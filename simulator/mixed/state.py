"""The state of the event loop of services and batch requests: arrays and rules, as NamedTuples.

Times are whole milliseconds, amounts milli-cores and MiB, so all sums are exact. A request has one
number: services are 0..n_services - 1, batch requests follow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

WAITING, PENDING, RUNNING, ENDED, TOO_LARGE = 0, 1, 2, 3, 4
"""States of a request: not arrived, in the queue, running, ended, larger than every machine type by
its demand or by its highest use so far."""
NONE, BOOTING, READY = 0, 1, 2
"""States of a slot for a machine."""
SHORTEST_RUNTIME, LARGEST_EXCESS, RANDOM = 0, 1, 2
USED, CAPACITY, N_READY, N_IN_USE, N_OVERLOADED, N_ABOVE, N_PENDING = 0, 2, 4, 5, 6, 7, 8
MOST_READY, MOST_IN_USE = 9, 10
"""Columns of `MixedWorld.series`, integrals over an interval, ms: used and capacity of two resources; counts; peaks."""
N_COLUMNS = 11

COUNTS = np.dtype([(name, np.int64) for name in (
    "now", "interval", "heap_size", "next_service", "next_batch", "n_services_pending", "n_pending", "n_scanned",
    "n_refused", "is_freed", "is_cut", "is_checked", "next_ready", "next_release", "n_lags", "n_serials", "clock",
    "n_placed", "n_evictions", "n_ready", "n_in_use", "n_overloaded", "n_above", "n_short_of_slots", "n_slots")])
"""n_slots: all slots used so far come before it; loops over machines end there."""

ROWS, ORDER, MACHINE, TYPE_OF, SLOT_OF, MEMBERS, CHOSEN = 0, 1, 2, 3, 4, 5, 6
"""Rows of `MixedWorld.scratch`."""
SIZES, RANKS = 0, 1
"""Rows of `MixedWorld.scores`."""

REQUESTS = np.dtype([(name, np.int64) for name in (
    "status", "host", "after", "before", "bound", "not_on", "own_machine")])
"""host: its slot; after, before: its neighbours in the host's list; bound: slot of the machine
ordered for it; not_on: serial number of the machine that evicted it; -1 = none each."""
SERVICES = np.dtype([("first", np.int64), ("last", np.int64), *(
    (name, np.int64, 2) for name in ("reserved", "counted", "using"))])
BATCH = np.dtype([*((name, np.int64) for name in (
    "arrival", "duration", "peak_at", "longest", "drawn_rank", "level", "started", "ended", "evicted_at", "n_evicted",
    "cost")), *((name, np.int64, 2) for name in ("used", "peak", "seen"))])
"""level: 1 once its use is at its peak."""
HOSTS = np.dtype([*((name, np.int64) for name in (
    "state", "kind", "serial", "ready", "idle_since", "n_services", "n_batch", "first_service", "first_batch",
    "is_over", "is_above")), *((name, np.int64, 2) for name in (
        "capacity", "limit", "reserved", "need", "batch_demand", "used", "bound"))])


class MixedRules(NamedTuple):
    """A scheduler, as numbers. by_need: the filter of services counts needs, not reservations.
    by_use: the filter of batch requests counts present use, which must stay below the threshold.
    is_first_fit: the first host, not the least requested. is_raised: eviction raises the demand to
    the highest use so far. is_long: a rescheduled request needs room for `longest`. order: of
    eviction. most_at_once: machines in a round, 0 = a fixed pool."""

    horizon: int
    interval: int
    cycle: int
    decision: int
    start: int
    eviction: int
    idle_release: int
    most_at_once: int
    by_need: bool
    by_use: bool
    is_first_fit: bool
    is_raised: bool
    is_long: bool
    is_by_trace: bool
    order: int
    day: int
    threshold: float


class MixedWorld(NamedTuple):
    """All state. demand: int64 (n_requests, 2). service_use: int64 (n_services, n_intervals, 2).
    need: of the same shape, the need of a service that counts; ahead: the predicted need, -1 if
    unknown. limits: the room of each type for batch requests. slots: when each batch request peaks
    or ends next, see loop.SLOTS. totals: used and capacity of all machines; n_of_type: how many are
    ready; type_ms: their time. room, two: int64 (2,); member_use: int64 (n, 2): scratch."""

    counts: np.ndarray
    series: np.ndarray
    requests: np.ndarray
    demand: np.ndarray
    services: np.ndarray
    service_order: np.ndarray
    service_use: np.ndarray
    need: np.ndarray
    ahead: np.ndarray
    batch: np.ndarray
    slots: np.ndarray
    hosts: np.ndarray
    totals: np.ndarray
    n_of_type: np.ndarray
    type_ms: np.ndarray
    capacities: np.ndarray
    limits: np.ndarray
    prices: np.ndarray
    weights: np.ndarray
    lags: np.ndarray
    service_queue: np.ndarray
    queue: np.ndarray
    scratch: np.ndarray
    scores: np.ndarray
    member_use: np.ndarray
    room: np.ndarray
    two: np.ndarray
