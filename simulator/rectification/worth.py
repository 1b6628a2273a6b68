"""What planned migrations are worth: which host they free, when, and with what chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.simulator.rectification.migration_group import MigrationGroup
from sojourn.simulator.rectification.pool_view import PoolView
from sojourn.simulator.rectification.value import chances, edges_s


@dataclass(frozen=True, slots=True)
class Worth:
    """Of one group of migrations, if those before it are done.

    chance, chance_without: that the source is empty within a day, with the migrations and without them,
    0..1. likely_s: when it is more likely empty than not, seconds from now; NaN where that is not within a day.
    gain_h: host-hours that the source is expected to gain within a day, less what the targets lose.
    """

    chance: float
    chance_without: float
    likely_s: float
    gain_h: float


def worth(view: PoolView, groups: Sequence[MigrationGroup]) -> list[Worth]:
    """The worth of each group, in their order; whoever planned them."""
    edges, ended = edges_s(), chances(view)
    weight_s = np.diff(edges)
    host, found = view.host.copy(), []

    def empty(at: int) -> np.ndarray:
        return np.asarray(ended[host == at].prod(axis=0))

    for group in groups:
        touched = dict.fromkeys([group.source, *group.targets])
        before = {at: empty(at) for at in touched}
        host[list(group.requests)] = group.targets
        after = {at: empty(at) for at in touched}
        gain_s = sum(float((weight_s * (after[at] - before[at])).sum()) for at in touched)
        likely = np.flatnonzero(after[group.source] >= 0.5)
        found.append(Worth(float(after[group.source][-1]), float(before[group.source][-1]),
                           float(edges[likely[0]]) if len(likely) else float("nan"), gain_s / 3_600))
    return found
