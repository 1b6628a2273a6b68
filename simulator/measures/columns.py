"""The columns of a comparison's tables in their order: engine metrics, gains, and every measure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sojourn.simulator.measures.measure import Column
from sojourn.simulator.measures.registry import MEASURES
from sojourn.simulator.measures.stranding import STRANDING

COLUMNS: Mapping[str, Column] = MappingProxyType({
    "gain_pp": Column("gain over best-fit", "percentage points", "higher", sign="+"),
    "over_rival_pp": Column("gain over the rival", "percentage points", "higher", sign="+"),
    "empty_hosts_pct": Column("empty hosts", "%", "higher"),
    "bound_empty_hosts_pct": Column(
        "bound", "% empty hosts", table="further",
        words="Bound: no policy that places every request has more empty hosts than this, %."),
    "gap_closed_pct": Column(
        "gap closed", "% of best-fit to bound", "higher", 0, table="gains",
        words="Gap closed: the mean gain as a share of best-fit's mean distance to the bound, % (higher = better)."),
    "packing_density_pct": Column(
        "packing density", "% of cores on hosts in use", "higher", 1, table="gains",
        words="Packing density: cores allocated on hosts in use, % (higher = better)."),
    **STRANDING.columns,
    "utilisation_cpu_cores_pct": Column("CPU allocated", "% of all", "", 1),
    "utilisation_mem_gib_pct": Column("memory allocated", "% of all", "", 1),
    **{name: column for measure in MEASURES.values() if measure is not STRANDING
       for name, column in measure.columns.items()},
    "rejected_pct": Column(
        "rejected", "% of requests", "lower", table="gains", text_digits=3,
        words="Rejected: % of requests (lower = better). Compare gains only where few requests are rejected."),
    "n_migrations": Column("migrations", "", "lower", 0),
    "n_rectified": Column("rectified", "migrations", "lower", 0, table="where known",
                          words="Rectified: live migrations begun to free hosts, after the warm-up (lower = better)."),
    "freed_h_per_migration": Column(
        "freed per migration", "host-hours", "higher", 1, table="where known",
        words="Freed per migration: by how many host-hours in use the same policy does with less, for each such "
              "migration (higher = better)."),
    "decision_us": Column(
        "decision", "microseconds", "lower", 1, table="further",
        words="Decision: microseconds of the replay's loop per request, on the machine that it ran on "
              "(lower = better)."),
    "events_per_s": Column("speed", "events/s", "higher", 0),
    "n_seeds": Column("seeds", digits=0),
})
"""By their name in a summary; tables omit those that a comparison lacks."""
