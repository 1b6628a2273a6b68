"""The state of the loop: tables of requests and hosts, and single numbers, in a NamedTuple of
arrays.

Tables are structured arrays, one record a request or host: the loop reads several fields of a
record at a time, and numba passes few arrays faster than many.

The loop of an elastic pool adds hosts that open and close, their types, and a log. Once a host is
off, its place in the tables is used again, the lowest first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sojourn.simulator.cluster import Cluster

EXPIRED = -(2**62)
"""A value that must be recomputed before use."""
NOT_PLACED = -1
BAD_SCORE = -2
"""A chain returns it instead of a host if a score is negative or not a finite number."""
PAUSED, LOG_FULL, ALL_CAME = 1, 2, 3
"""The loop returns them when migrations are to be planned outside of it, when its log is to be emptied,
and when further requests are to be put in its tables; called again it continues."""
BAD_DEADLINE = -3
"""The loop returns it if a hook sets a deadline that has come already."""
FRAGMENTED, FILTERED, RULED_OUT = 0, -1, -2
"""Reasons of a rejection; a positive one is the bit mask of the resources short on every open host."""
OPEN, DEFRAGMENTED, UPDATED, DRAINED, FAILED = range(5)
"""Why a host is closed; OPEN = it is not."""
NO_PREDICTIONS, INITIAL, CURRENT = range(3)
"""Kinds of the predictions in `exit_s`."""
EMPTY_HOSTS, ALLOCATED = 0, 1
"""Places in `World.level`, `World.total` and `Timeline.integral`: how many hosts are empty, and the first allocated
amount; capacities of the hosts in use begin one place a resource after that."""

REQUESTS = np.dtype([
    # input
    ("row", np.int64),  # its row in the workload's requests; all others are places in this table
    ("arrival_s", np.int64),  # not before 0
    ("departure_s", np.int64),  # after the arrival
    ("curve_start", np.int64),  # its curve's place in the flat arrays, and one past it
    ("curve_end", np.int64),
    ("kind", np.int64),  # kind of host that it needs; -1 = any
    ("group", np.int64),  # no two of one group on a host; -1 = none
    ("is_pinned", np.int64),  # 1 = can't migrate
    ("owner", np.int64),  # from 0; -1 = none
    # its place
    ("host", np.int64),  # or NOT_PLACED; the target while it migrates
    ("from_host", np.int64),  # the source, on which it holds room while it migrates, or -1
    ("first_host", np.int64),
    ("start_s", np.int64),  # its uptime counts from here
    ("ends_s", np.int64),
    ("next", np.int64),  # neighbours in its host's list, or -1
    ("previous", np.int64),
    ("next_waiting", np.int64),
    ("wait_s", np.int64),  # -1 = never placed
    ("reason", np.int64),  # of the first rejection
    ("since_s", np.int64),  # when it last started again after a failure, or EXPIRED
    # its prediction
    ("segment", np.int64),  # its breakpoint in the flat arrays
    ("exit_s", np.int64),
    ("change_s", np.int64),  # when exit_s changes
], align=True)  # fmt: skip
HOSTS = np.dtype([
    ("valid_until_s", np.int64),  # from then on Cluster.exit_s must be recomputed
    ("first", np.int64),  # head of the list of its requests, or -1
    ("kind", np.int64),
    ("n_failures", np.int64),  # open ones, as they may overlap
    ("n_drains", np.int64),
], align=True)  # fmt: skip
SLOTS = np.dtype([("time", np.int64), ("position", np.int64), ("heap", np.int64)])
"""A heap of slots, see exits.py. time: in the unit of the loop; ms in that of services and batch requests, else s."""
HOST_EVENTS = np.dtype([("time_s", np.int64), ("what", np.int64), ("host", np.int64)])
"""Host events at known times: see host_events.py; host, or a number of hosts."""
N_TOGETHER = 2
"""An owner's requests on one host count as exposed if they are more than this."""
PLAN = np.dtype([("row", np.int64), ("host", np.int64), ("target", np.int64), ("planner", np.int64),
                 ("planned_s", np.int64)])
"""A request to migrate (-1 once that is done or dropped), its source, and its target: -1 if the
policy chooses it when the migration begins. planner: why the source was closed when it was planned;
OPEN = a rectifier, which closes none."""
MIGRATION_LOG = np.dtype([("row", np.int64), ("from_host", np.int64), ("to_host", np.int64), ("at_s", np.int64),
                          ("planner", np.int64), ("planned_s", np.int64)])
"""A request (its row in the workload) that begins to migrate. If planner is FAILED: from_host failed, and the
request continues on to_host, or -1 for none; if from_host is -1, a failure interrupted it before and it
starts again on to_host."""
SETTINGS = np.dtype([
    ("predictions", np.int64),
    ("is_queueing", np.int64),  # a request that fits nowhere waits
    ("has_kinds", np.int64),
    ("has_groups", np.int64),
    ("stop_row", np.int64),  # stop before this request's decision; -1 = never
    ("has_more", np.int64),  # 1 = requests are left that come after those in the table
    ("first_migration", np.int64),  # slots of each kind of event begin here; late departures at 0
    ("first_host_event", np.int64),
    ("first_deadline", np.int64),
    ("n_at_once", np.int64),  # migrations
    ("duration_s", np.int64),  # of a migration
    ("n_a_day", np.int64),  # migrations that may begin on a day; NEVER = no cap
    ("min_empty", np.int64),  # hosts, below which a batch is closed; 0 = never
    ("batch_hosts", np.int64),
    ("move_order", np.int64),  # see migration_order.py
    ("is_across", np.int64),  # one order across a batch; 0 = host by host
    ("seed", np.int64),
    ("long_s", np.int64),  # in samples a request with more time left is long
    ("cpu", np.int64),  # index of the resource
    ("mem", np.int64),  # or -1
], align=True)  # fmt: skip
COUNTS = np.dtype([
    ("n_events", np.int64),  # arrivals and departures
    ("n_rescores", np.int64),
    ("last_row", np.int64),  # of the last decision, or of the hook that runs, for errors
    ("last_host", np.int64),
    ("last_s", np.int64),
    ("hook", np.int64),  # the one that runs, by its place in composition.HOOKS; 0 = none
    ("idx_arrival", np.int64),  # the next arrival and departure of a paused loop
    ("idx_departure", np.int64),
    ("has_room", np.int64),
    ("time_s", np.int64),  # up to which totals are counted
    ("mark", np.int64),  # the next one
    ("heap_size", np.int64),
    ("first_waiting", np.int64),
    ("last_waiting", np.int64),
    ("plan_from", np.int64),  # first open entry of the plan, and one past its last
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
    ("n_logged", np.int64),  # entries of the log
], align=True)  # fmt: skip


class Ranking(NamedTuple):
    """Hosts sorted by shape, and within it by the packing score; int64. `key` is empty if it is not
    used.

    key (n_hosts,), ascending: shape, emptiness, free amounts in order of dimension, host index,
    packed from the high bits down; NEVER for a place that is off. kind (n_hosts,): the shape of
    each host. bits and shift (n_resources,): width of each amount, and the factor 2^shift that all
    its values share. host_bits (1,): width of the host index.
    """

    key: np.ndarray
    kind: np.ndarray
    bits: np.ndarray
    shift: np.ndarray
    host_bits: np.ndarray


class World(NamedTuple):
    """Everything that events read and change.

    cluster: the argument of scorers. requests (n,) and hosts (n_hosts,): tables. need (n,
    n_resources), int64. uptime_s, total_s, overhang_s (or empty): the curves, flat, int64. order:
    see Ranking. slots: see SLOTS. plan: migrations. migration_log: a step of the loop adds at most
    two entries a request. level, total (1 + 2 n_resources,), int64: empty hosts, allocated amounts,
    capacities of the hosts in use; and their integrals over time. settings and counts (1,).
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
    """Integrals over time at marks, and samples of all hosts at some of them; int64, exact.

    mark_s (n_marks,), ascending, the last one the horizon. integral (n_marks, 1 + 2 n_resources),
    from 0 to each mark: empty hosts, allocated amounts, capacities of the hosts in use. counts
    (n_marks,): World.counts after all events of the mark's second. sample (n_marks,): the sample to
    take at the mark, or -1. Samples, (n_samples, n_hosts): free (..., n_resources), n_running,
    last_end_s (when the last of a host's requests really leaves; 0 = none), n_long and long_cpu
    (requests that really stay longer than long_s from then on, and their cores), n_owned and
    n_exposed (requests with an owner, and those whose owner has more than N_TOGETHER there), state
    (the policy's array, or no samples). of_owner (n_owners,): zeros, for counting.
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
"""Why a host of an elastic pool is closed, besides the reasons above; 0 = it is on and open."""
CHEAPEST, EFFICIENT = range(2)
"""How the type of a new host is chosen."""
NO_RELEASE, RELEASE_EMPTY, TIMER, REGRET, BALANCED = range(5)
"""Modes of consolidation."""
UNIFORM, UPTIME, PREDICTED = range(3)
"""What an eviction costs in mode BALANCED."""
COST_LEAST, COST_MOST = 2.0**-4, 2.0**3
"""Costs are powers of 2 in between; Karpenter's cost of a pod without an annotation is 1, and 10 the most."""
OPENED, BOOTED, DRAINED_BY_CHOICE, RELEASED = range(4)
"""Entries of the log of hosts."""

NODES = np.dtype([
    ("kind", np.int64),  # its type, while it is not off
    ("opened_s", np.int64),
    ("ready_s", np.int64),  # when it has booted
    ("is_low", np.int64),  # 1 while its timer runs
    ("first_moving", np.int64),  # of the requests that migrate from it while it is drained, or -1
], align=True)  # fmt: skip
TYPES = np.dtype([
    ("price", np.float64),  # of an hour
    ("n_on", np.int64),
    ("host_s", np.int64),  # seconds that hosts of the type were on; at the end also of those still on
], align=True)  # fmt: skip
POOL = np.dtype([
    # settings
    ("boot_s", np.int64),
    ("idle_release_s", np.int64),
    ("type_choice", np.int64),
    ("mode", np.int64),
    ("is_restarting", np.int64),  # a request that leaves a drained host starts over; 0 = it migrates
    ("is_reset_by_events", np.int64),  # each arrival and departure on a host starts its timer again
    ("after_s", np.int64),
    ("recheck_s", np.int64),
    ("move_s", np.int64),  # of a live migration
    ("move_cost_s", np.int64),  # fixed cost of a move, host-seconds
    ("room_weight", np.float64),  # of a restarted request's room on its target, in the cost of its move
    ("utilisation_max", np.float64),
    ("trust", np.float64),  # factor of the predicted saving of an emptied host
    ("k", np.float64),  # Karpenter's consolidationThreshold
    ("cost", np.int64),  # of an eviction: UNIFORM, UPTIME, PREDICTED
    ("cost_unit_s", np.int64),  # an uptime that costs 1
    # the pool's totals in mode BALANCED, as of totals_s
    ("totals_s", np.int64),
    ("total_price", np.float64),
    ("total_cost", np.float64),
    # counts
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
"""A request of the host that is checked, its target, and the values to restore if the host stays."""
LOG = np.dtype([("time_s", np.int64), ("what", np.int64), ("host", np.int64), ("kind", np.int64)])


class PoolWorld(NamedTuple):
    """Everything that events of an elastic pool read and change: the fields of `World`, and these:

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
