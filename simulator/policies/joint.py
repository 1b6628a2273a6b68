"""Extension of the host's exit and free room in one score: joint-fit, joint-exact and aligned-fit;
all ours.

NILAS compares extensions first, in ten buckets, and free room only within a bucket. So the edge of
a bucket alone decides between two hosts near to it, while within a bucket half an hour does not
matter. joint-fit adds the logarithm of the expected extension, which compares factors as the
buckets do, and the free share. It may choose a host that is extended a little longer but is much
fuller.

joint-fit treats the host's exit, the latest mean of its requests, as certain. But a host with many
requests probably stays longer than each of them, and a host whose last request is short or very
long may be empty tomorrow. joint-exact has the chances that a host is in use at times ahead, from
the curves of its requests, and a second extension: the expected time in which only the new request
runs there. It weighs both extensions more than joint-fit. The chances are cached: a new request is
added at once; they are computed again a second after a request has left, and after 15 minutes.

aligned-fit adds a price of the time between the two exits; for certain predictions only. A request
that leaves long before its host uses room that a request as long as the host could use, which then
extends another host. To NILAS all hosts that outlast a request are equal. With perfect lifetimes
this is the larger part of the gain; with a model's it does harm, since hosts that seem to empty
soon are those whose requests have not run long enough to show how long they stay.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sojourn.simulator.cluster import NEVER, Cluster, Request
from sojourn.simulator.policies.nilas import expected_extension, overhang_at, overhang_from
from sojourn.simulator.policies.policy import PACKING, Hooks, Policy, free_share_left, kernel

SCALE_S = 7200
"""An extension by this much costs log 2 = 0.69 of a host's room; much longer ones count by their factor."""


@kernel
def joint_cost(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """log(1 + expected extension / SCALE_S) + the free share left of the binding resource.

    >>> import numpy as np
    >>> one = Cluster(np.array([[8]]), np.array([[6]]), np.array([1]), np.array([3600]))
    >>> round(joint_cost(one, 0, Request(0, np.array([2]), 3600 + 7200), 0), 4)  # log 2 + 4/8
    1.1931
    """
    extension_s = expected_extension(cluster, host, request, now)
    return math.log1p(extension_s / SCALE_S) + free_share_left(cluster, host, request, 0)


JOINT_FIT = Policy("joint-fit", (joint_cost, *PACKING), predictions="current", above_share=joint_cost,
                   are_empty_hosts_alike=True,
                   about="expected extension of the host's exit and room left, in one score; ours")

WEIGHT = 2.0
"""Weight of the logarithm of each extension, against 1 for the host's free share."""
EDGES_S = (0, 900, *(1800 << k for k in range(10)), 3_686_400)
"""Edges of the cells of time ahead: 15 and 30 min, then doubling to 256 h, and 1,024 h."""
N_CELLS = len(EDGES_S) - 1
RENEWED_S = 900
ONE = 1_000_000
"""Logarithms of chances are whole millionths, so that their sums do not depend on the order."""
CERTAIN = 50 * ONE


class ExactState(NamedTuple):
    """edges_s: int64 (N_CELLS + 1,). gone: int64 (n_hosts, N_CELLS), minus the logarithm of the
    chance that all requests on the host have left by the cell, in millionths. alone: float64, of
    the same shape, these chances. found: as gone, while it is computed again. deadline_s
    (n_hosts,).

    own_s: float64 (N_CELLS,), a request's expected time in each cell, the same for all hosts.
    asked: int64 (4,), the key of own_s: row, time, predicted exit and age.
    """

    edges_s: np.ndarray
    gone: np.ndarray
    alone: np.ndarray
    found: np.ndarray
    deadline_s: np.ndarray
    asked: np.ndarray
    own_s: np.ndarray


def exact_state(n_hosts: int, n_requests: int) -> ExactState:
    """All hosts empty.

    >>> exact_state(2, 9).gone.shape
    (2, 12)
    """
    gone, renewed = (np.zeros((n_hosts, N_CELLS), np.int64) for _ in range(2))
    return ExactState(np.array(EDGES_S), gone, np.ones((n_hosts, N_CELLS)), renewed, np.full(n_hosts, NEVER),
                      np.full(4, -1), np.zeros(N_CELLS))


@kernel
def reached(request: Request) -> float:
    """E[max(T - age, 0)] of a request, seconds; 0 if only one lifetime is predicted."""
    return overhang_at(request, request.age_s) if len(request.overhang_s) > 0 else 0.0


@kernel
def left_after(request: Request, left_s: int, reached_s: float, ahead_s: int) -> float:
    """E[max(remaining - ahead, 0)] of a request now, seconds. left_s: its predicted remaining time.
    reached_s: its `reached`; both are the same for all cells.

    >>> one = Request(0, np.array([2]), 80, 0, np.array([0, 100, 200]), np.array([80, 40, 20]))
    >>> [left_after(one, 80, reached(one), ahead_s) for ahead_s in (0, 50, 200)]
    [80.0, 60.0, 20.0]
    >>> left_after(Request(0, one.need, 80), 80, 0.0, 50)
    30.0
    """
    if reached_s <= 0.0:
        return float(max(left_s - ahead_s, 0))
    return overhang_at(request, request.age_s + ahead_s) / reached_s * left_s


@kernel
def count(chances: np.ndarray, edges_s: np.ndarray, request: Request, now: int) -> None:
    """Add a request to a host's chances, (N_CELLS,): its mean chance to have left, by cell."""
    left_s, reached_s = request.exit_s - now, reached(request)
    before_s, low, last = left_after(request, left_s, reached_s, 0), 0, len(request.overhang_s) - 1
    for k in range(len(chances)):
        if before_s <= 0.0:
            break  # it has left for certain
        ahead_s = edges_s[k + 1]
        if reached_s <= 0.0:
            after_s = float(max(left_s - ahead_s, 0))
        else:  # as `left_after`; the search begins at the breakpoint of the cell before
            while low < last and request.uptimes_s[low + 1] <= request.age_s + ahead_s:
                low += 1
            after_s = overhang_from(request, request.age_s + ahead_s, low) / reached_s * left_s
        gone = 1.0 - min(max((before_s - after_s) / (edges_s[k + 1] - edges_s[k]), 0.0), 1.0)
        if gone < 1.0:
            chances[k] += CERTAIN if gone <= 0.0 else min(int(np.rint(-ONE * math.log(gone))), CERTAIN)
        before_s = after_s


@kernel
def weigh(state: ExactState, host: int) -> None:
    """Compute the chances of a host from their logarithms."""
    for k in range(state.gone.shape[1]):
        state.alone[host, k] = np.rint(ONE * math.exp(-state.gone[host, k] / ONE)) / ONE


@kernel
def ask(state: ExactState, request: Request, now: int) -> None:
    """Compute a request's expected time in each cell, unless `own_s` already holds it."""
    key = state.asked
    if key[0] == request.row and key[1] == now and key[2] == request.exit_s and key[3] == request.age_s:
        return
    key[0], key[1], key[2], key[3] = request.row, now, request.exit_s, request.age_s
    left_s, reached_s = request.exit_s - now, reached(request)
    before_s = left_after(request, left_s, reached_s, 0)
    for k in range(len(state.own_s)):
        after_s = left_after(request, left_s, reached_s, state.edges_s[k + 1])
        state.own_s[k] = min(max(before_s - after_s, 0.0), float(state.edges_s[k + 1] - state.edges_s[k]))
        before_s = after_s


@kernel
def placed(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """Add the request to the host's chances."""
    state = cluster.state
    count(state.gone[host], state.edges_s, request, now)
    weigh(state, host)
    state.deadline_s[host] = min(state.deadline_s[host], now + RENEWED_S)


@kernel
def departed(cluster: Cluster, host: int, row: int, now: int) -> None:
    """The host's chances are computed again in a second."""
    cluster.state.deadline_s[host] = now + 1


@kernel
def emptied(cluster: Cluster, host: int, now: int) -> None:
    """Reset the chances of an empty host."""
    cluster.state.gone[host, :] = 0
    cluster.state.alone[host, :] = 1.0
    cluster.state.deadline_s[host] = NEVER


@kernel
def resident(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """Add a running request with its present prediction."""
    count(cluster.state.found[host], cluster.state.edges_s, request, now)


@kernel
def at_deadline(cluster: Cluster, host: int, now: int) -> None:
    """After the calls of `resident`: replace the host's chances."""
    state = cluster.state
    for k in range(state.gone.shape[1]):
        state.gone[host, k] = state.found[host, k]
        state.found[host, k] = 0
    weigh(state, host)
    state.deadline_s[host] = now + RENEWED_S


@kernel
def exact_extension(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """Expected seconds in which only the request runs on the host: the sum over cells of its
    expected time in the cell x the chance that all others have left.

    >>> state = exact_state(2, 9)
    >>> state.gone[0, :2] = CERTAIN, ONE  # in use for 15 min, then empty with chance 1 / e, then empty
    >>> weigh(state, 0)
    >>> two = Cluster(np.full((2, 1), 8), np.full((2, 1), 4), np.array([1, 0]), np.array([1, 0]), state=state)
    >>> [round(exact_extension(two, host, Request(0, np.array([2]), 2000), 0), 1) for host in (0, 1)]
    [531.1, 2000.0]
    """
    state = cluster.state
    total_s = 0.0
    ask(state, request, now)
    for k in range(len(state.own_s)):
        total_s += state.own_s[k] * state.alone[host, k]
    return total_s


@kernel
def joint_exact_cost(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """2 log(1 + extension of the predicted exit / 2 h) + 2 log(1 + exact extension / 2 h) + the free share left.

    >>> one = Cluster(np.array([[8]]), np.array([[8]]), np.array([0]), np.array([0]), state=exact_state(1, 9))
    >>> round(joint_exact_cost(one, 0, Request(0, np.array([2]), 7200), 0), 4)  # 2 log 2 + 2 log 2 + 6/8
    3.5226
    """
    extensions = (math.log1p(expected_extension(cluster, host, request, now) / SCALE_S)
                  + math.log1p(exact_extension(cluster, host, request, now) / SCALE_S))
    return WEIGHT * extensions + free_share_left(cluster, host, request, 0)


JOINT_EXACT = Policy("joint-exact", (joint_exact_cost, *PACKING), predictions="current", above_share=joint_exact_cost,
                     hooks=Hooks(exact_state, placed, departed, emptied, at_deadline, "", (), resident),
                     about="as joint-fit, by the whole distribution of the host's exit, too; ours")

SLACK_WEIGHT = 0.03
"""Cost of a second between the two exits, in seconds of extension."""


@kernel
def aligned_cost(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """(Expected extension + SLACK_WEIGHT x expected slack) / SCALE_S + the free share left of the binding resource.

    The slack is the time by which the host outstays the request, E[max(R - T, 0)] = R - E[T] + E[max(T - R, 0)].

    >>> import numpy as np
    >>> one = Cluster(np.array([[8]]), np.array([[6]]), np.array([1]), np.array([79_200]))
    >>> aligned_cost(one, 0, Request(0, np.array([2]), 7200), 0)  # 0.03 x 72,000 / 7,200 + 4/8
    0.8
    """
    extension_s = expected_extension(cluster, host, request, now)
    host_left_s = 0 if cluster.n_running[host] == 0 else max(cluster.exit_s[host] - now, 0)
    slack_s = max(host_left_s - (request.exit_s - now) + extension_s, 0.0)
    return (extension_s + SLACK_WEIGHT * slack_s) / SCALE_S + free_share_left(cluster, host, request, 0)


ALIGNED_FIT = Policy("aligned-fit", (aligned_cost, *PACKING), predictions="current", are_empty_hosts_alike=True,
                     about="as joint-fit, with a price for the time that the host outlasts the request; ours")
