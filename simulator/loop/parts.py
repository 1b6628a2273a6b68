"""The modules that a composed loop is made of: they become one, so that each calls the policy's own functions."""

from sojourn.simulator.loop import host_events, migration, placement, replay, waiting

PARTS = (placement, migration, waiting, host_events, replay)
"""In the order in which their sources follow each other."""
