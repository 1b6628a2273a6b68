"""The planners of moves, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sojourn.simulator.rectification.migration_group import MigrationGroup
from sojourn.simulator.rectification.pdre import pdre
from sojourn.simulator.rectification.pool_view import PoolView
from sojourn.simulator.rectification.value import value

Planner = Callable[[PoolView, int, int], list[MigrationGroup]]
"""The day's moves of a pool, the first to go first: of a view, with at most so many moves, and the seconds from which
on a remaining time is long."""
RECTIFIERS: Mapping[str, Planner] = MappingProxyType({"pdre": pdre, "value": value})
"""By name."""
