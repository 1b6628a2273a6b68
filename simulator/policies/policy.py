"""What a policy is: a name, a filter, and scorers compared in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sojourn.simulator.cluster import Cluster, Request

Scorer = Callable[[Cluster, int, Request, int], float]
"""Score of one host for a request at `now`: finite, >= 0, lower is better, 0 the best there is. Compiled by
numba; reads the arrays only, so hosts that are alike in them score alike."""
ResourceScorer = Callable[[Cluster, int, Request, int], float]
"""As a Scorer, but its last argument is the resource dimension instead of `now`."""
Filter = Callable[[Cluster, int, Request, int], bool]
"""Whether a host on which the request fits may take it. Compiled by numba."""


@dataclass(frozen=True, slots=True)
class PerResource:
    """A scorer that is asked once per resource dimension, the binding one first."""

    scorer: ResourceScorer


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to choose a host: filter, then scorers compared lexicographically, ties to the lowest index.

    name: as configs, tables and figures show it.
    scorers: in order of importance; none means the first host on which the request fits.
    filter: which of the hosts with room may be used; None = all.
    predictions: what `exit_s` of hosts and requests holds: nothing, each request's first prediction, or the
        prediction that is current at its uptime.

    >>> Policy("any").predictions
    'none'
    >>> Policy("any", predictions="best")
    Traceback (most recent call last):
    ValueError: predictions must be one of none, initial, current, got 'best'
    """

    name: str
    scorers: tuple[Scorer | PerResource, ...] = ()
    filter: Filter | None = None
    predictions: Literal["none", "initial", "current"] = "none"

    def __post_init__(self) -> None:
        if self.predictions not in ("none", "initial", "current"):
            raise ValueError(f"predictions must be one of none, initial, current, got {self.predictions!r}")
