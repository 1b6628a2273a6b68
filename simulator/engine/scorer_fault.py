"""Which scorer failed at the decision at which a replay stopped: asked again in plain Python, host by host."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.engine.policy_check import policy_functions
from sojourn.simulator.engine.reached import plain_function
from sojourn.simulator.loop import OPEN, World, read_only
from sojourn.simulator.policies import Policy


def scorer_fault(policy: Policy, world: World, host_ids: Sequence[Any]) -> str:
    """Scorer, what it gave or raised, and the host; "" where none fails now, or it was no decision that failed."""
    counts = world.counts[0]
    row, now = int(counts["last_row"]), int(counts["last_s"])
    if row < 0 or counts["hook"] > 0 or policy.host_scores is not None:
        return ""
    request, cluster = _request(world, row, now), world.cluster
    is_asked = (cluster.free >= world.need[row]).all(axis=1) & (cluster.closed == OPEN)
    n_resources = world.need.shape[1]
    for host in np.flatnonzero(is_asked).tolist():
        for kind, function in policy_functions(policy):
            lasts = {"scorer": [now], "filter": [now], "scorer per resource": range(n_resources)}.get(kind, [])
            for last in lasts:
                given = _given(plain_function(function), _read_only(cluster), host, request, last, kind == "filter")
                if given:
                    return f"{given} from {kind.split()[0]} {function.__name__!r} for host {host_ids[host]!r}"
    return ""


def _given(plain: Any, cluster: Cluster, host: int, request: Request, last: int, is_filter: bool) -> str:
    """What is wrong with what the function gives, or ""."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            score = plain(cluster, host, request, last)
        except Exception as error:  # whatever it raises is what is to be told
            return f"{type(error).__name__}: {error}"
    return "" if is_filter or 0 <= score < np.inf else str(score)


def _request(world: World, row: int, now: int) -> Request:
    """The request as the chain saw it."""
    own = world.requests[row]
    curve = slice(int(own["curve_start"]), int(own["curve_end"]))
    return Request(row, read_only(world.need[row]), int(own["exit_s"]), now - int(own["start_s"]),
                   read_only(world.uptime_s[curve]), read_only(world.overhang_s[curve]))


def _read_only(cluster: Cluster) -> Cluster:
    state = cluster.state
    kept = read_only(state) if isinstance(state, np.ndarray) else type(state)(*map(read_only, state))
    arrays = {name: read_only(array) for name, array in cluster._asdict().items() if name != "state"}
    return Cluster(**arrays, state=kept)
