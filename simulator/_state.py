"""The engine's own arrays, as NamedTuples, so that numba sees plain types and files stay apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NEVER = np.iinfo(np.int64).max
"""A time that does not come."""
EXPIRED = -(2**62)
"""A value that must be recomputed before use."""
NOT_PLACED = -1
FRAGMENTED, FILTERED = 0, -1
"""Reasons of a rejection; a positive one is the bit mask of the resources short on every host."""


class Arrivals(NamedTuple):
    """What happens, whatever the policy does; int64.

    arrival_s (n,), not before 0, ascending; departure_s (n,), after the arrival; need (n, n_resources);
    idx_departing (n,), requests by departure, then by row.
    """

    arrival_s: np.ndarray
    departure_s: np.ndarray
    need: np.ndarray
    idx_departing: np.ndarray


class Ledger(NamedTuple):
    """Predictions and whereabouts of requests; int64.

    Per host: valid_until_s (n_hosts,), time from which Cluster.exit_s must be recomputed; first (n_hosts,),
    head of the linked list of its requests. Per request: start_s, next, previous, segment (its breakpoint in
    the flat arrays), curve_start and curve_end (its curve's, and one past it), exit_s and change_s (predicted exit,
    and when that changes). uptime_s, total_s and overhang_s (or none): the curves. n_rescores (1,): hosts recomputed.
    """

    valid_until_s: np.ndarray
    first: np.ndarray
    start_s: np.ndarray
    next: np.ndarray
    previous: np.ndarray
    segment: np.ndarray
    curve_start: np.ndarray
    curve_end: np.ndarray
    exit_s: np.ndarray
    change_s: np.ndarray
    uptime_s: np.ndarray
    total_s: np.ndarray
    overhang_s: np.ndarray
    n_rescores: np.ndarray


class Ranking(NamedTuple):
    """Hosts of one shape sorted by the packing score; int64. Empty `key` where it is not used.

    key (n_hosts,), ascending: emptiness, free amounts in order of dimension, host index, packed from the
    high bits down. bits and shift (n_resources,): width of each amount, and the factor 2^shift common to all
    of its values. host_bits (1,): width of the host index.
    """

    key: np.ndarray
    bits: np.ndarray
    shift: np.ndarray
    host_bits: np.ndarray


class Timeline(NamedTuple):
    """Integrals over time, read at given marks; int64, exact.

    mark_s (n_marks,), ascending, the last one the horizon. integral (n_marks, 1 + 2 n_resources), from 0 to
    each mark: empty hosts, allocated amounts, capacities of the hosts in use.
    """

    mark_s: np.ndarray
    integral: np.ndarray


class Decisions(NamedTuple):
    """What the policy did; int64. host (n,), or NOT_PLACED; reason (n,) of a rejection; n_events (1,)."""

    host: np.ndarray
    reason: np.ndarray
    n_events: np.ndarray
