"""Services and batch requests that share the hosts of one pool: schedulers, autoscaler, eviction, and a replay of both.

May import: `pool` and what lies below it.
"""

from sojourn.simulator.mixed.mixed_replay import OUTCOMES, MixedResult, replay_mixed
from sojourn.simulator.mixed.mixed_scheduler import (
    SCHEDULERS,
    BatchRequests,
    MixedScheduler,
    MixedWorkload,
    Services,
    Timing,
    own_maximum,
    true_needs,
)
from sojourn.simulator.mixed.rules import (
    EVICTION_ORDERS,
    Autoscaler,
    Evictor,
    ScaleOut,
    available,
    evicted,
    greedy,
    homogeneous,
    idle,
    least_requested_host,
    machines_for,
    rescheduling_cost_s,
    updated_demand,
)

__all__ = [
    "EVICTION_ORDERS", "OUTCOMES", "SCHEDULERS", "Autoscaler", "BatchRequests", "Evictor", "MixedResult",
    "MixedScheduler", "MixedWorkload", "ScaleOut", "Services", "Timing", "available", "evicted", "greedy",
    "homogeneous", "idle", "least_requested_host", "machines_for", "own_maximum", "replay_mixed",
    "rescheduling_cost_s", "true_needs", "updated_demand",
]  # fmt: skip
