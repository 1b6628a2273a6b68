"""A pool that grows and shrinks: machine types, how hosts open, are emptied and close, and what that costs.

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
