"""The event loop and its kernels, compiled by numba together with one policy; arrays in, arrays
out.

Every file has a slow twin in `tests/naive_replay.py`. Type checkers skip this room. May import:
`cluster`, `jit`, `policies`.
"""

from sojourn.simulator.loop import consolidation, host_events, migration, placement, pool_replay, replay
from sojourn.simulator.loop.exits import next_slot, schedule
from sojourn.simulator.loop.host_events import DRAIN, FAIL, RECTIFY, REOPEN, REPAIR, WAVE
from sojourn.simulator.loop.migration_order import (
    AT_RANDOM,
    BY_ROW,
    LONGEST_FIRST,
    SHORTEST_FIRST,
    VIOLATIONS,
    violation,
)
from sojourn.simulator.loop.occupancy import (
    first_position,
    fits,
    gpus_fit,
    key_of,
    move,
    no_ranking,
    pool_ranking,
    ranking,
    takes_kind,
)
from sojourn.simulator.loop.python_policy import PythonScores, asking, read_only, visible
from sojourn.simulator.loop.state import (
    ALL_CAME,
    ALLOCATED,
    BAD_DEADLINE,
    BAD_SCORE,
    BALANCED,
    BOOTED,
    CHEAPEST,
    COUNTS,
    CURRENT,
    DEFRAGMENTED,
    DRAINED,
    DRAINED_BY_CHOICE,
    EFFICIENT,
    EMPTY_HOSTS,
    EXPIRED,
    FAILED,
    HOST_EVENTS,
    HOSTS,
    INITIAL,
    LOG,
    LOG_FULL,
    MIGRATION_LOG,
    MOVES,
    NO_PREDICTIONS,
    NO_RELEASE,
    NODES,
    NOT_PLACED,
    OFF,
    OPEN,
    OPENED,
    PAUSED,
    PLAN,
    POOL,
    PREDICTED,
    REGRET,
    RELEASE_EMPTY,
    RELEASED,
    REQUESTS,
    SETTINGS,
    SLOTS,
    TIMER,
    TYPES,
    UNIFORM,
    UPDATED,
    UPTIME,
    PoolWorld,
    Ranking,
    Timeline,
    World,
)

PARTS = (placement, migration, host_events, replay)
"""The modules that are joined into a composed loop, so that each calls the policy's functions, in this order."""
POOL_PARTS = (placement, consolidation, pool_replay)
"""Those of an elastic pool."""

__all__ = [
    "ALLOCATED", "ALL_CAME", "AT_RANDOM", "BAD_DEADLINE", "BAD_SCORE", "BALANCED", "BOOTED", "BY_ROW", "CHEAPEST",
    "COUNTS", "CURRENT", "DEFRAGMENTED", "DRAIN", "DRAINED", "DRAINED_BY_CHOICE", "EFFICIENT", "EMPTY_HOSTS",
    "EXPIRED", "FAIL", "FAILED", "HOSTS", "HOST_EVENTS", "INITIAL", "LOG", "LOG_FULL", "LONGEST_FIRST",
    "MIGRATION_LOG", "MOVES", "NODES", "NOT_PLACED", "NO_PREDICTIONS", "NO_RELEASE", "OFF", "OPEN", "OPENED",
    "PARTS", "PAUSED", "PLAN", "POOL", "POOL_PARTS", "PREDICTED", "RECTIFY", "REGRET", "RELEASED", "RELEASE_EMPTY",
    "REOPEN", "REPAIR", "REQUESTS", "SETTINGS", "SHORTEST_FIRST", "SLOTS", "TIMER", "TYPES", "UNIFORM", "UPDATED",
    "UPTIME", "VIOLATIONS", "WAVE", "PoolWorld", "PythonScores", "Ranking", "Timeline", "World", "asking",
    "first_position", "fits", "gpus_fit", "key_of", "move", "next_slot", "no_ranking", "pool_ranking", "ranking",
    "read_only", "schedule", "takes_kind", "violation", "visible",
]  # fmt: skip
