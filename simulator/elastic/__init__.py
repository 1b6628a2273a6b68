"""A pool that grows and shrinks: machine types, autoscaler, eviction, consolidation,
co-location of services and batch jobs.

May import: `engine` and what lies below it.
"""

from sojourn.simulator.elastic.autoscaler import Autoscaler, ScaleOut, greedy, homogeneous, machines_for
from sojourn.simulator.elastic.consolidation import Consolidation
from sojourn.simulator.elastic.evictor import EVICTION_ORDERS, Evictor, evicted, rescheduling_cost_s, updated_demand
from sojourn.simulator.elastic.least_requested import available, idle, least_requested_host
from sojourn.simulator.elastic.machine_types import (
    DEFAULT_TYPE,
    MACHINE_TYPES,
    BootLag,
    MachineType,
    fits_a_type,
    type_capacities,
)
from sojourn.simulator.elastic.mixed_replay import replay_mixed
from sojourn.simulator.elastic.mixed_result import OUTCOMES, MixedResult
from sojourn.simulator.elastic.mixed_scheduler import SCHEDULERS, MixedScheduler, Timing
from sojourn.simulator.elastic.mixed_workload import BatchRequests, MixedWorkload, Services
from sojourn.simulator.elastic.pool import ElasticPool, simulate_pool
from sojourn.simulator.elastic.pool_result import PoolResult
from sojourn.simulator.elastic.recorded_runs import RecordedRuns, replay_recorded
from sojourn.simulator.elastic.service_needs import own_maximum, true_needs

__all__ = [
    "DEFAULT_TYPE", "EVICTION_ORDERS", "MACHINE_TYPES", "OUTCOMES", "SCHEDULERS", "Autoscaler", "BatchRequests",
    "BootLag", "Consolidation", "ElasticPool", "Evictor", "MachineType", "MixedResult", "MixedScheduler",
    "MixedWorkload", "PoolResult", "RecordedRuns", "ScaleOut", "Services", "Timing", "available", "evicted",
    "fits_a_type", "greedy", "homogeneous", "idle", "least_requested_host", "machines_for", "own_maximum",
    "replay_mixed", "replay_recorded", "rescheduling_cost_s", "simulate_pool", "true_needs", "type_capacities",
    "updated_demand",
]  # fmt: skip
