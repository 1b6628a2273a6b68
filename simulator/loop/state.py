"""The engine's own state: tables of requests and hosts, and single numbers, in a NamedTuple of plain arrays.

Tables are structured arrays, one record a request or host: the loop reads several fields of one record at a time, and
numba passes few arrays faster than many.

What the loop of an elastic pool keeps besides a replay's own state: hosts that open and close, their types, and the
log of what was done. Tables are structured arrays, as in `loop`.

A host's place in the tables is used again once it is off; of the places that are off, the lowest is taken first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sojourn.simulator.cluster import Cluster

EXPIRED = -(2**62)
"""A value that must be recomputed before use."""
NOT_PLACED = -1
BAD_SCORE = -2
"""What a chain returns instead of a host where a score is negative or not a finite number."""
PAUSED, LOG_FULL = 1, 2
"""What the loop returns where migrations are to be planned outside of it, and where its log is to be taken over; called
again it goes on from there."""
BAD_DEADLINE = -3
"""What the loop returns where a hook has put a deadline that has come already."""
FRAGMENTED, FILTERED, RULED_OUT = 0, -1, -2
"""Reasons of a rejection; a positive one is the bit mask of the resources short on every open host."""
OPEN, DEFRAGMENTED, UPDATED, DRAINED, FAILED = range(5)
"""What a host is closed for, if it is."""
NO_PREDICTIONS, INITIAL, CURRENT = range(3)
"""What `exit_s` holds."""
EMPTY_HOSTS, ALLOCATED = 0, 1
"""Places in `World.level`, `World.total` and `Timeline.integral`: how many hosts are empty, and the first allocated
amount; capacities of the hosts in use begin one place a resource after that."""

REQUESTS = np.dtype([
    # given
    ("arrival_s", np.int64),  # not before 0
    ("departure_s", np.int64),  # after the arrival
    ("curve_start", np.int64),  # its curve's place in the flat arrays, and one past it
    ("curve_end", np.int64),
    ("kind", np.int64),  # of host that it needs; -1 = any
    ("group", np.int64),  # no two of one group on a host; -1 = none
    ("is_pinned", np.int64),  # 1 = can't migrate
    ("owner", np.int64),  # from 0; -1 = none
    # where it is
    ("host", np.int64),  # or NOT_PLACED; of one that migrates, the target
    ("from_host", np.int64),  # where it still holds room while it migrates, or -1
    ("first_host", np.int64),
    ("start_s", np.int64),  # from which its uptime counts
    ("ends_s", np.int64),
    ("next", np.int64),  # neighbours in its host's list, or -1
    ("previous", np.int64),
    ("next_waiting", np.int64),
    ("wait_s", np.int64),  # -1 = never placed
    ("reason", np.int64),  # of the first rejection
    ("since_s", np.int64),  # when it last started again after a failure, or EXPIRED
    # what is predicted
    ("segment", np.int64),  # its breakpoint in the flat arrays
    ("exit_s", np.int64),
    ("change_s", np.int64),  # when exit_s changes
], align=True)  # fmt: skip
HOSTS = np.dtype([
    ("valid_until_s", np.int64),  # from then on Cluster.exit_s must be recomputed
    ("first", np.int64),  # head of the list of its requests, or -1
    ("kind", np.int64),
    ("n_failures", np.int64),  # that it is in the midst of, for they may overlap
    ("n_drains", np.int64),
], align=True)  # fmt: skip
SLOTS = np.dtype([("time", np.int64), ("position", np.int64), ("heap", np.int64)])
"""A heap of slots, see exits.py. time: in the unit of the loop; ms in that of services and batch requests, else s."""
HOST_EVENTS = np.dtype([("time_s", np.int64), ("what", np.int64), ("host", np.int64)])
"""Host events at known times: see host_events.py; host, or a number of hosts."""
N_TOGETHER = 2
"""An owner's requests on one host count as exposed where they are more than so many."""
PLAN = np.dtype([("row", np.int64), ("host", np.int64), ("target", np.int64), ("planner", np.int64),
                 ("planned_s", np.int64)])
"""A request to migrate (-1 once it has been seen to), the host that it is to leave, and the one that it is to go to: -1
where the policy chooses when the migration begins. planner: what the host was closed for when that was planned; OPEN =
a rectifier planned it, which closes none."""
MIGRATION_LOG = np.dtype([("row", np.int64), ("from_host", np.int64), ("to_host", np.int64), ("at_s", np.int64),
                          ("planner", np.int64), ("planned_s", np.int64)])
"""A request that begins to migrate; or of planner FAILED: it holds from_host no more, since that failed, and goes on at
to_host, or -1; or it was broken off before and starts again at to_host, and from_host is -1."""
SETTINGS = np.dtype([
    ("predictions", np.int64),
    ("is_queueing", np.int64),  # what fits nowhere waits
    ("has_kinds", np.int64),
    ("has_groups", np.int64),
    ("stop_row", np.int64),  # stop before this request's decision; -1 = never
    ("first_migration", np.int64),  # slots of each kind of event begin here; late departures at 0
    ("first_host_event", np.int64),
    ("first_deadline", np.int64),
    ("n_at_once", np.int64),  # migrations
    ("duration_s", np.int64),  # of a migration
    ("n_a_day", np.int64),  # migrations, of those that the cap holds back; NEVER = no cap
    ("min_empty", np.int64),  # hosts, below which a batch is closed; 0 = never
    ("batch_hosts", np.int64),
    ("move_order", np.int64),  # see migration_order.py
    ("is_across", np.int64),  # one order across a batch; 0 = host by host
    ("seed", np.int64),
    ("long_s", np.int64),  # a request with more time left is long, where hosts are sampled
    ("cpu", np.int64),  # which resource
    ("mem", np.int64),  # or -1
], align=True)  # fmt: skip
COUNTS = np.dtype([
    ("n_events", np.int64),  # arrivals and departures
    ("n_rescores", np.int64),
    ("last_row", np.int64),  # of the last decision, or passed to the hook that runs, for errors
    ("last_host", np.int64),
    ("last_s", np.int64),
    ("hook", np.int64),  # that runs, by its place in composition.HOOKS; 0 = none
    ("idx_arrival", np.int64),  # where a paused loop goes on: the next arrival and departure to be looked at
    ("idx_departure", np.int64),
    ("has_room", np.int64),
    ("time_s", np.int64),  # reached by the totals
    ("mark", np.int64),  # next to be read
    ("heap_size", np.int64),
    ("first_waiting", np.int64),
    ("last_waiting", np.int64),
    ("plan_from", np.int64),  # first of the plan still to be seen to, and one past its last
    ("plan_to", np.int64),
    ("n_under_way", np.int64),
    ("n_batches", np.int64),
    ("n_planned", np.int64),
    ("n_begun", np.int64),
    ("day", np.int64),  # of the last migration that began, and how many began on it
    ("n_of_day", np.int64),
    ("n_spared", np.int64),  # planned, but ended or free to stay before their turn
    ("n_re_placed", np.int64),  # after a failure
    ("n_lost", np.int64),
    ("migrated", np.int64),  # memory, in the workload's units
    ("voided", np.int64),  # core-seconds that failures made void, in the workload's units
    ("n_logged", np.int64),  # in the log, not yet taken over
], align=True)  # fmt: skip


class Ranking(NamedTuple):
    """Hosts sorted by shape, and within it by the packing score; int64. Empty `key` where it is not used.

    key (n_hosts,), ascending: shape, emptiness, free amounts in order of dimension, host index, packed from the
    high bits down; NEVER for a place that is off. kind (n_hosts,): the shape of each host. bits and shift
    (n_resources,): width of each amount, and the factor 2^shift common to all of its values. host_bits (1,): width of
    the host index.
    """

    key: np.ndarray
    kind: np.ndarray
    bits: np.ndarray
    shift: np.ndarray
    host_bits: np.ndarray


class World(NamedTuple):
    """Everything that events read and change.

    cluster: what scorers see. requests (n,) and hosts (n_hosts,): tables. need (n, n_resources), int64. uptime_s,
    total_s, overhang_s (or none): the curves, flat, int64. order: see Ranking. slots: see SLOTS. plan: migrations.
    migration_log: at most two entries a request come of one step of the loop. level, total (1 + 2 n_resources,), int64:
    empty hosts, allocated amounts, capacities of the hosts in use; and their integrals over time. settings and counts
    (1,).
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
    migration_log: np.ndarray
    level: np.ndarray
    total: np.ndarray
    settings: np.ndarray
    counts: np.ndarray


class Timeline(NamedTuple):
    """Integrals over time, read at given marks, and states of all hosts at some of them; int64, exact.

    mark_s (n_marks,), ascending, the last one the horizon. integral (n_marks, 1 + 2 n_resources), from 0 to
    each mark: empty hosts, allocated amounts, capacities of the hosts in use. counts (n_marks,): World.counts once
    all of the mark's second has happened. sample (n_marks,): which sample to take at the mark, or -1. free (n_samples,
    n_hosts, n_resources), n_running, last_end_s (when the last of a host's requests really leaves; 0 = none),
    (n_samples, n_hosts). n_long, long_cpu: requests that really stay longer
    than long_s from then on, and their cores; n_owned, n_exposed: requests that have an owner, and those of them
    whose owner has more than N_TOGETHER there; (n_samples, n_hosts). of_owner (n_owners,): for counting, 0.
    state: what the policy names of its own, (n_samples, n_hosts), or no samples.
    """

    mark_s: np.ndarray
    integral: np.ndarray
    counts: np.ndarray
    sample: np.ndarray
    free: np.ndarray
    n_running: np.ndarray
    last_end_s: np.ndarray
    n_long: np.ndarray
    long_cpu: np.ndarray
    n_owned: np.ndarray
    n_exposed: np.ndarray
    of_owner: np.ndarray
    state: np.ndarray


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
