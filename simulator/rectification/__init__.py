"""A few migrations a day that free hosts: the planners, and their view of a pool.

May import: `workloads` and what lies below it. Planners do not depend on the loop that carries out
their moves.
"""

from sojourn.simulator.rectification.planners import RECTIFIERS, Planner
from sojourn.simulator.rectification.pool_view import (
    HORIZON_S,
    N_DAYS,
    SAMPLE_S,
    MigrationGroup,
    PoolView,
    Refill,
    RefillRecord,
    Spells,
    count_day,
    count_left,
    count_still,
    edges_s,
    empty_spells,
)
from sojourn.simulator.rectification.settings import BUDGET_MAX, Rectify, non_migratable
from sojourn.simulator.rectification.worth import Worth, worth

__all__ = [
    "BUDGET_MAX", "HORIZON_S", "N_DAYS", "RECTIFIERS", "SAMPLE_S", "MigrationGroup", "Planner", "PoolView", "Rectify",
    "Refill", "RefillRecord", "Spells", "Worth", "count_day", "count_left", "count_still", "edges_s", "empty_spells",
    "non_migratable", "worth",
]  # fmt: skip
