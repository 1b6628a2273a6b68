"""Predicted exits of requests and hosts, recomputed only when they can have changed.

A request's predicted exit is constant until its next breakpoint. A host's exit is the maximum over its
requests. So it holds until the prediction of the last-leaving request changes, until another's rises above
it, or until a request comes or goes. Curves are known beforehand, so these times are, too. (Taking the
earliest breakpoint of all requests instead is right as well, but with an oracle it recomputes a host at each
departure.)

Ledger.exit_s of a request may be out of date while it is below its host's exit; the host's value is always
attained by a request whose own is up to date.
"""

from __future__ import annotations

from sojourn.simulator._numba import kernel
from sojourn.simulator._state import EXPIRED, NEVER, Ledger
from sojourn.simulator.cluster import Cluster


@kernel
def predict_first(ledger: Ledger, request: int) -> None:
    """Set a request's exit to that of its first prediction, for good."""
    ledger.exit_s[request] = ledger.start_s[request] + ledger.total_s[ledger.segment[request]]
    ledger.change_s[request] = NEVER


@kernel
def predict_now(ledger: Ledger, request: int, now: int) -> None:
    """Set a request's exit, and the time until which it holds, to its curve's at `now`."""
    start = ledger.start_s[request]
    uptime = now - start
    k = ledger.segment[request]
    last = ledger.curve_end[request] - 1
    while k < last and ledger.uptime_s[k + 1] <= uptime:
        k += 1
    ledger.segment[request] = k
    total = max(ledger.total_s[k], 1)
    while total <= uptime:
        total *= 2
    ledger.exit_s[request] = start + total
    ledger.change_s[request] = start + (ledger.uptime_s[k + 1] if k < last else total)


@kernel
def overtakes_at(ledger: Ledger, request: int, host_exit: int) -> int:
    """When a request next changes a host's exit: its next breakpoint if it is the last-leaving one, else the
    breakpoint at which its own exit rises above the host's.
    """
    time = ledger.change_s[request]
    if ledger.exit_s[request] >= host_exit or time == NEVER:
        return time
    start = ledger.start_s[request]
    last = ledger.curve_end[request] - 1
    k = ledger.segment[request]
    total = ledger.exit_s[request] - start
    while True:
        if k < last:
            k += 1
            total = max(ledger.total_s[k], 1)
        while total <= time - start:
            total *= 2
        if start + total > host_exit:
            return time
        time = start + (ledger.uptime_s[k + 1] if k < last else total)


@kernel
def refresh(cluster: Cluster, ledger: Ledger, host: int, now: int) -> None:
    """Bring a non-empty host's exit up to `now`; counts as one re-score."""
    exit_s, valid_until = EXPIRED, NEVER
    request = ledger.first[host]
    while request >= 0:
        if ledger.change_s[request] <= now:
            predict_now(ledger, request, now)
        exit_s = max(exit_s, ledger.exit_s[request])
        request = ledger.next[request]
    request = ledger.first[host]
    while request >= 0:
        valid_until = min(valid_until, overtakes_at(ledger, request, exit_s))
        request = ledger.next[request]
    cluster.exit_s[host] = exit_s
    ledger.valid_until_s[host] = valid_until
    ledger.n_rescores[0] += 1


@kernel
def enter(cluster: Cluster, ledger: Ledger, host: int, request: int, now: int) -> None:
    """Note a request on a host (n_running still without it)."""
    head = ledger.first[host]
    ledger.next[request] = head
    ledger.previous[request] = -1
    if head >= 0:
        ledger.previous[head] = request
    ledger.first[host] = request
    if cluster.n_running[host] == 0:
        cluster.exit_s[host] = ledger.exit_s[request]
        ledger.valid_until_s[host] = ledger.change_s[request]
    elif ledger.valid_until_s[host] > now:
        exit_s = max(cluster.exit_s[host], ledger.exit_s[request])
        cluster.exit_s[host] = exit_s
        ledger.valid_until_s[host] = min(ledger.valid_until_s[host], overtakes_at(ledger, request, exit_s))


@kernel
def leave(cluster: Cluster, ledger: Ledger, host: int, request: int) -> None:
    """Strike a request off a host (n_running still with it).

    An expired host value needs no care: it is recomputed before its next use anyway.
    """
    before, after = ledger.previous[request], ledger.next[request]
    if before >= 0:
        ledger.next[before] = after
    else:
        ledger.first[host] = after
    if after >= 0:
        ledger.previous[after] = before
    if cluster.n_running[host] == 1:
        ledger.valid_until_s[host] = NEVER
    elif ledger.exit_s[request] >= cluster.exit_s[host]:
        ledger.valid_until_s[host] = EXPIRED
