"""How jobs are accepted and where they go, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sojourn.simulator.admission.core_ends_kernels import BALANCED, BEST_FIT, MIN_IDLE

ACCEPTANCES: Mapping[str, str] = MappingProxyType({
    "greedy": "every job that can end by its deadline",
    "threshold": "only jobs whose deadline is far enough beyond the load; sequential jobs only",
})
"""By name, what is accepted."""
ALLOCATIONS: Mapping[str, int] = MappingProxyType({
    "balanced": BALANCED, "best-fit": BEST_FIT, "min-idle": MIN_IDLE})
"""By name: the least loaded cores; the most loaded that meet the deadline; those that idle least before the start, the
most loaded where that is equal. For sequential jobs `min-idle` is `best-fit`."""


def known(name: str, value: str, names: Mapping[str, object]) -> str:
    """The value, if it is one of the names; else ValueError.

    >>> known("allocation", "best-fit", ALLOCATIONS)
    'best-fit'
    """
    if value not in names:
        raise ValueError(f"{name} must be one of {', '.join(names)}, got {value!r}")
    return value
