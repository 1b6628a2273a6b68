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
from sojourn.simulator.elastic.pool import ElasticPool, simulate_pool
from sojourn.simulator.elastic.pool_result import PoolResult

__all__ = [
    "DEFAULT_TYPE", "EVICTION_ORDERS", "MACHINE_TYPES", "Autoscaler", "BootLag", "Consolidation", "ElasticPool",
    "Evictor", "MachineType", "PoolResult", "ScaleOut", "available", "evicted", "fits_a_type", "greedy",
    "homogeneous", "idle", "least_requested_host", "machines_for", "rescheduling_cost_s", "simulate_pool",
    "type_capacities", "updated_demand",
]  # fmt: skip
