"""The event loop and all that it calls, compiled by numba together with one policy; arrays in, arrays out.

Compiled as well are the scorers of `policies`, and `measures/_stranding_kernels.py`. Every file here has a slow twin in
`tests/naive_replay.py`. Type checkers skip this room. May import: `cluster`, `jit`, `policies`.
"""

from sojourn.simulator.loop.checks import VIOLATIONS, violation
from sojourn.simulator.loop.fit import fits
from sojourn.simulator.loop.host_events import DRAIN, FAIL, RECTIFY, REOPEN, REPAIR, WAVE
from sojourn.simulator.loop.migration_order import AT_RANDOM, BY_ROW, LONGEST_FIRST, SHORTEST_FIRST
from sojourn.simulator.loop.parts import PARTS, POOL_PARTS
from sojourn.simulator.loop.pool_state import (
    BOOTED,
    CHEAPEST,
    DRAINED_BY_CHOICE,
    EFFICIENT,
    LOG,
    MOVES,
    NO_RELEASE,
    NODES,
    OFF,
    OPENED,
    POOL,
    REGRET,
    RELEASE_EMPTY,
    RELEASED,
    TIMER,
    TYPES,
    PoolWorld,
)
from sojourn.simulator.loop.python_policy import PythonScores, asking, read_only, visible
from sojourn.simulator.loop.ranking import first_position, key_of, move, no_ranking, pool_ranking, ranking
from sojourn.simulator.loop.state import (
    ALLOCATED,
    BAD_DEADLINE,
    BAD_SCORE,
    COUNTS,
    CURRENT,
    EMPTY_HOSTS,
    EXPIRED,
    HOST_EVENTS,
    HOSTS,
    INITIAL,
    NO_PREDICTIONS,
    NOT_PLACED,
    OPEN,
    PAUSED,
    PLAN,
    REQUESTS,
    SETTINGS,
    SLOTS,
    Ranking,
    Timeline,
    World,
)

__all__ = [
    "ALLOCATED", "AT_RANDOM", "BAD_DEADLINE", "BAD_SCORE", "BOOTED", "BY_ROW", "CHEAPEST", "COUNTS", "CURRENT",
    "DRAIN", "DRAINED_BY_CHOICE", "EFFICIENT", "EMPTY_HOSTS", "EXPIRED", "FAIL", "HOSTS", "HOST_EVENTS", "INITIAL",
    "LOG", "LONGEST_FIRST", "MOVES", "NODES", "NOT_PLACED", "NO_PREDICTIONS", "NO_RELEASE", "OFF", "OPEN", "OPENED",
    "PARTS", "PAUSED", "PLAN", "POOL", "POOL_PARTS", "RECTIFY", "REGRET", "RELEASED", "RELEASE_EMPTY", "REOPEN",
    "REPAIR", "REQUESTS", "SETTINGS", "SHORTEST_FIRST", "SLOTS", "TIMER", "TYPES", "VIOLATIONS", "WAVE", "PoolWorld",
    "PythonScores",
    "Ranking", "Timeline", "World", "asking", "first_position", "fits", "key_of", "move", "no_ranking",
    "pool_ranking", "ranking", "read_only", "violation", "visible",
]  # fmt: skip
