"""What the loop of an elastic pool keeps besides a replay's own state: hosts that open and close, their types, and the
log of what was done. Tables are structured arrays, as in `loop`.

A host's place in the tables is used again once it is off; of the places that are off, the lowest is taken first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sojourn.simulator.cluster import Cluster
from sojourn.simulator.loop.state import Ranking

BOOTING, DRAINING, OFF = 5, 6, 7
"""What a host of an elastic pool is closed for, besides the reasons of `loop`; 0 = it is on and open."""
CHEAPEST, EFFICIENT = range(2)
"""How the type of a new host is chosen."""
NO_RELEASE, RELEASE_EMPTY, TIMER, REGRET = range(4)
"""Modes of consolidation."""
OPENED, BOOTED, DRAINED_BY_CHOICE, RELEASED = range(4)
"""What the log says of a host."""

NODES = np.dtype([
    ("kind", np.int64),  # of type, while it is not off
    ("opened_s", np.int64),
    ("ready_s", np.int64),  # when it has booted
    ("is_low", np.int64),  # 1 while its timer runs
    ("first_moving", np.int64),  # of the requests that migrate from it while it is drained, or -1
], align=True)  # fmt: skip
TYPES = np.dtype([
    ("price", np.float64),  # of an hour
    ("n_on", np.int64),
    ("host_s", np.int64),  # seconds of hosts of the type, closed ones; all at the end
], align=True)  # fmt: skip
POOL = np.dtype([
    # given
    ("boot_s", np.int64),
    ("idle_release_s", np.int64),
    ("type_choice", np.int64),
    ("mode", np.int64),
    ("is_restarting", np.int64),  # a request that leaves a drained host starts over; 0 = it migrates
    ("is_reset_by_events", np.int64),  # each arrival and departure on a host starts its timer again
    ("after_s", np.int64),
    ("recheck_s", np.int64),
    ("move_s", np.int64),  # of a live migration
    ("move_cost_s", np.int64),  # host-seconds that a move counts for besides
    ("room_weight", np.float64),  # of the room that a restarted request takes on its target, in what it costs
    ("utilisation_max", np.float64),
    ("trust", np.float64),  # in what emptying a host is predicted to save
    # counted
    ("n_scanned", np.int64),  # one past the highest place that is not off
    ("first_off", np.int64),  # no place below it is off
    ("n_booting", np.int64),
    ("n_on", np.int64),  # not off
    ("most_on", np.int64),
    ("n_opened", np.int64),
    ("n_checks", np.int64),
    ("n_drained", np.int64),
    ("n_moves", np.int64),
    ("lost", np.int64),  # core-seconds of work that has to be done again, in the workload's units
    ("n_logged", np.int64),
    ("is_consolidating", np.int64),  # only hosts in use may be chosen
], align=True)  # fmt: skip
MOVES = np.dtype([
    ("row", np.int64), ("target", np.int64), ("exit_s", np.int64), ("start_s", np.int64), ("segment", np.int64),
    ("request_exit_s", np.int64), ("change_s", np.int64), ("ends_s", np.int64),
], align=True)  # fmt: skip
"""A request of the host that is looked at, where it would go, and what is put back where the host stays."""
LOG = np.dtype([("time_s", np.int64), ("what", np.int64), ("host", np.int64), ("kind", np.int64)])


class PoolWorld(NamedTuple):
    """Everything that events of an elastic pool read and change: the fields of `loop.World`, and its own.

    nodes (n_places,), types (n_types,), pool (1,), moves (n_requests,), log: tables. risen_s: int64 (n_places + 1,),
    when the pool last grew to so many hosts. shapes: int64 (n_types, n_resources), capacities of the types.
    """

    cluster: Cluster
    requests: np.ndarray
    hosts: np.ndarray
    need: np.ndarray
    uptime_s: np.ndarray
    total_s: np.ndarray
    overhang_s: np.ndarray
    order: Ranking
    slots: np.ndarray
    plan: np.ndarray
    level: np.ndarray
    total: np.ndarray
    settings: np.ndarray
    counts: np.ndarray
    nodes: np.ndarray
    types: np.ndarray
    pool: np.ndarray
    moves: np.ndarray
    log: np.ndarray
    risen_s: np.ndarray
    shapes: np.ndarray
