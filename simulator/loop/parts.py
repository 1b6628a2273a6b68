"""The modules that are joined into a composed loop, so that each calls the policy's functions."""

from sojourn.simulator.loop import consolidation, host_events, migration, placement, pool_replay, replay

PARTS = (placement, migration, host_events, replay)
"""In the order of their sources."""
POOL_PARTS = (placement, consolidation, pool_replay)
"""Those of an elastic pool."""
