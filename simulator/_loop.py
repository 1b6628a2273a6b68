"""The event loop, in plain Python; `_compile.py` compiles it with a policy's own `choose`.

Events are ordered by (time, kind, sequence). Kinds at one time: departure 0, end of a migration 1, breakpoint
or deadline 2, arrival 3. A breakpoint is never an event of its own: a host's predicted exit carries the time
until which it holds and is brought up to date before it is read.
"""

from __future__ import annotations

import numpy as np

from sojourn.simulator._exits import enter, leave, predict_first, predict_now, refresh  # noqa: F401
from sojourn.simulator._ranking import first_position, key_of, move  # noqa: F401
from sojourn.simulator._room import fits, shortage
from sojourn.simulator._state import NOT_PLACED, Arrivals, Decisions, Ledger, Ranking, Timeline
from sojourn.simulator.cluster import Cluster, Request

NO_PREDICTIONS, INITIAL, CURRENT = 0, 1, 2


def choose(cluster: Cluster, ledger: Ledger, order: Ranking, request: Request, now: int) -> int:
    """First fit, as an example; each policy's composed chain takes its place."""
    for host in range(len(cluster.n_running)):
        if fits(cluster, host, request.need):
            return host
    return NOT_PLACED


def replay(
    arrivals: Arrivals,
    cluster: Cluster,
    ledger: Ledger,
    order: Ranking,
    timeline: Timeline,
    decisions: Decisions,
    predictions: int,
) -> None:
    """Run all events up to the last mark and fill timeline and decisions."""
    n, n_resources = arrivals.need.shape
    is_ranked = len(order.key) > 0
    horizon = timeline.mark_s[-1]
    level = np.zeros(1 + 2 * n_resources, np.int64)
    level[0] = len(cluster.n_running)
    total = np.zeros(1 + 2 * n_resources, np.int64)
    time, mark = 0, 0
    idx_arrival, idx_departure = 0, 0
    while True:
        while idx_departure < n and decisions.host[arrivals.idx_departing[idx_departure]] == NOT_PLACED and (
            idx_arrival == n
            or arrivals.departure_s[arrivals.idx_departing[idx_departure]] <= arrivals.arrival_s[idx_arrival]
        ):
            idx_departure += 1  # rejected, so nothing departs
        is_departure = idx_departure < n and (
            idx_arrival == n
            or arrivals.departure_s[arrivals.idx_departing[idx_departure]] <= arrivals.arrival_s[idx_arrival]
        )
        if is_departure:
            now = arrivals.departure_s[arrivals.idx_departing[idx_departure]]
        elif idx_arrival < n:
            now = arrivals.arrival_s[idx_arrival]
        else:
            break
        if now > horizon:
            break
        if now > time:
            while timeline.mark_s[mark] < now:
                for q in range(len(level)):
                    total[q] += level[q] * (timeline.mark_s[mark] - time)
                    timeline.integral[mark, q] = total[q]
                time = timeline.mark_s[mark]
                mark += 1
            for q in range(len(level)):
                total[q] += level[q] * (now - time)
            time = now
        decisions.n_events[0] += 1

        if is_departure:
            index = arrivals.idx_departing[idx_departure]
            idx_departure += 1
            host = decisions.host[index]
            change = -1
            if predictions != NO_PREDICTIONS:
                leave(cluster, ledger, host, index)
        else:
            index = idx_arrival
            idx_arrival += 1
            if predictions == CURRENT:
                predict_now(ledger, index, now)
            elif predictions == INITIAL:
                predict_first(ledger, index)
            first, end = ledger.curve_start[index], ledger.curve_end[index]
            request = Request(index, arrivals.need[index], ledger.exit_s[index], now - ledger.start_s[index],
                              ledger.uptime_s[first:end], ledger.overhang_s[first:end])
            host = choose(cluster, ledger, order, request, now)
            if host == NOT_PLACED:
                decisions.reason[index] = shortage(cluster, request.need)
                continue
            decisions.host[index] = host
            change = 1
            if predictions != NO_PREDICTIONS:
                enter(cluster, ledger, host, index, now)

        old_key = key_of(cluster, order, host) if is_ranked else 0
        was_empty = cluster.n_running[host] == 0
        cluster.n_running[host] += change
        is_empty = cluster.n_running[host] == 0
        for d in range(n_resources):
            amount = change * arrivals.need[index, d]
            cluster.free[host, d] -= amount
            level[1 + d] += amount
        if was_empty != is_empty:
            level[0] -= change
            for d in range(n_resources):
                level[1 + n_resources + d] += change * cluster.capacity[host, d]
        if is_ranked:
            move(order, old_key, key_of(cluster, order, host))

    while mark < len(timeline.mark_s):
        for q in range(len(level)):
            total[q] += level[q] * (timeline.mark_s[mark] - time)
            timeline.integral[mark, q] = total[q]
        time = timeline.mark_s[mark]
        mark += 1
