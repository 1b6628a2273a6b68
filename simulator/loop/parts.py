"""The modules that a composed loop is made of: they become one, so that each calls the policy's own functions."""

from sojourn.simulator.loop import consolidation, host_events, migration, placement, pool_replay, replay

PARTS = (placement, migration, host_events, replay)
"""In the order in which their sources follow each other."""
POOL_PARTS = (placement, consolidation, pool_replay)
"""Those of an elastic pool."""
