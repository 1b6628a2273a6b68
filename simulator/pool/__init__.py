"""A pool that grows and shrinks: machine types, rules to open, empty and close hosts, costs.

May import: `engine` and what lies below it.
"""

from sojourn.simulator.pool.pool import (
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

__all__ = [
    "DEFAULT_TYPE", "MACHINE_TYPES", "BootLag", "Consolidation", "ElasticPool", "MachineType", "PoolResult",
    "fits_a_type", "simulate_pool", "type_capacities",
]  # fmt: skip
