"""A pool that grows and shrinks: machine types, autoscaler, eviction, consolidation,
co-location of services and batch jobs.

May import: `engine` and what lies below it.
"""

from sojourn.simulator.elastic.mixed_replay import OUTCOMES, MixedResult, replay_mixed
from sojourn.simulator.elastic.mixed_scheduler import (
    SCHEDULERS,
    BatchRequests,
    MixedScheduler,
    MixedWorkload,
    Services,
    Timing,
    own_maximum,
    true_needs,
)
from sojourn.simulator.elastic.pool import (
    DEFAULT_TYPE,
    MACHINE_TYPES,
    BootLag,
    Consolidation,
    ElasticPool,
    MachineType,
    PoolResult,
    fits_a_type,
    simulate_pool,
    type_capacities,
)
from sojourn.simulator.elastic.recorded_runs import RecordedRuns, replay_recorded
from sojourn.simulator.elastic.rules import (
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
    "DEFAULT_TYPE", "EVICTION_ORDERS", "MACHINE_TYPES", "OUTCOMES", "SCHEDULERS", "Autoscaler", "BatchRequests",
    "BootLag", "Consolidation", "ElasticPool", "Evictor", "MachineType", "MixedResult", "MixedScheduler",
    "MixedWorkload", "PoolResult", "RecordedRuns", "ScaleOut", "Services", "Timing", "available", "evicted",
    "fits_a_type", "greedy", "homogeneous", "idle", "least_requested_host", "machines_for", "own_maximum",
    "replay_mixed", "replay_recorded", "rescheduling_cost_s", "simulate_pool", "true_needs", "type_capacities",
    "updated_demand",
]  # fmt: skip
