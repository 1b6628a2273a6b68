"""What a rectifier's migrations freed, beside what they were expected to free."""

from __future__ import annotations

from sojourn.simulator.engine import Result
from sojourn.simulator.measures.measure import Measure
from sojourn.simulator.rectification import DAY_S
from sojourn.simulator.workloads import Workload


def migration_figures(workload: Workload, result: Result) -> dict[str, float]:
    """Of a rectifier's migrations that were planned after the warm-up; {} for a replay without one.

    migrations_a_day: those that began, a day. n_dropped: planned, and never begun. n_freed_host, n_freed_none: begun,
    and the host that the request left was empty, or not, before the day was over. moved_expected_h, moved_freed_h:
    host-hours that all groups of which some began were expected to free, and did (see `Result.migrations`).
    """
    if result.migrations is None or result.rectifier is None:
        return {}
    own = result.migrations[result.migrations["planner"] == result.rectifier]
    table = own[own["planned_s"] >= workload.warmup_s]
    begun = table[table["begun_s"].notna()]
    groups = begun.drop_duplicates("group")
    days = (workload.trace.horizon_s - workload.warmup_s) / DAY_S
    return {
        "migrations_a_day": len(begun) / days,
        "n_dropped": float(len(table) - len(begun)),
        "n_freed_host": float(begun["empty_s"].notna().sum()),
        "n_freed_none": float(begun["empty_s"].isna().sum()),
        "moved_expected_h": float(groups["expected_h"].sum()),
        "moved_freed_h": float(groups["freed_h"].sum()),
    }


MIGRATIONS = Measure(migration_figures, {})
"""Its figures stand on the page of a comparison, in a section of their own."""
