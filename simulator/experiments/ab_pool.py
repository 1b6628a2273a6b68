"""A/B in one pool: hosts split at random into two halves, one under another policy (LAVA, section 5.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sojourn.features.trace import Trace
from sojourn.simulator.engine import Result, simulate
from sojourn.simulator.experiments.comparison import BASELINE
from sojourn.simulator.policies import Policy
from sojourn.simulator.predictions import LifetimeSource
from sojourn.simulator.workloads import Workload, fits_somewhere

SourceFor = Callable[[Workload], LifetimeSource | None]
"""Predictions for a workload: an oracle is of its own workload."""


def halves(workload: Workload, rng: np.random.Generator) -> tuple[Workload, Workload]:
    """The pool as two pools: half of the hosts at random, and the requests that a coin sends to each.

    Each request goes to a half with the probability of that half's share of the binding resource, whichever policy is
    there and however full it is, and stays there: where it does not fit, the other half is not asked. (One scheduler
    for both would send each request where it scores best; then the halves would differ in what they are asked for, and
    no comparison of the two would be left.) One larger than every host of its half goes to the other.

    ValueError for a workload with constraints or fewer than 2 hosts, or where a half would get no request.

    >>> from sojourn.features.synthetic import synthesize
    >>> import sojourn.simulator as sim
    >>> workload = sim.build_workload("synthetic", synthesize(1_000, seed=0), n_hosts=9)
    >>> [len(half.hosts) for half in halves(workload, np.random.default_rng(0))]
    [5, 4]
    """
    n_hosts = len(workload.hosts)
    if n_hosts < 2:
        raise ValueError(f"hosts must be at least 2 to be split, got {n_hosts}")
    if workload.constraints.host_type is not None or workload.constraints.apart_by is not None:
        raise ValueError("workload must have no constraints on hosts to be split, got some")
    is_in_a = np.zeros(n_hosts, bool)
    is_in_a[rng.permutation(n_hosts)[:(n_hosts + 1) // 2]] = True
    room = workload.capacity[:, 0]
    goes_to_a = rng.random(len(workload.trace)) < room[is_in_a].sum() / room.sum()
    goes_to_a = np.where(fits_somewhere(workload.need, workload.capacity[is_in_a]), goes_to_a, False)
    goes_to_a = np.where(fits_somewhere(workload.need, workload.capacity[~is_in_a]), goes_to_a, True)
    return _part(workload, is_in_a, goes_to_a), _part(workload, ~is_in_a, ~goes_to_a)


def _part(workload: Workload, has_host: np.ndarray, has_request: np.ndarray) -> Workload:
    trace = workload.trace
    part = Trace(trace.requests.loc[has_request].reset_index(drop=True), trace.horizon_s, trace.roles, None, None,
                 trace.meta)
    hosts = workload.hosts.loc[has_host].reset_index(drop=True)
    return replace(workload, trace=part, hosts=hosts, total_s=workload.total_s[has_request],
                   job_of=None if workload.job_of is None else workload.job_of[has_request])


@dataclass(frozen=True, slots=True)
class Trial:
    """One A/B: both halves replayed, the first under the policy, the second under best-fit."""

    a: Result
    b: Result
    warmup_s: int

    @property
    def n_rejected(self) -> int:
        """Requests that fit nowhere in their half."""
        return self.a.metrics.n_rejected + self.b.metrics.n_rejected

    def by_block(self, n_blocks: int = 10, *, is_adjusted: bool = False) -> np.ndarray:
        """Empty hosts of the half under the policy over the other's, in blocks of equal length after the warm-up, pp,
        float64 (n_blocks,).

        is_adjusted: each half's measured from its own bound, which knows what it was asked for but not its policy.
        """
        is_counted = (self.a.series["time_s"] >= self.warmup_s).to_numpy()
        ours, theirs = (half.series["empty_hosts_pct"] - is_adjusted * half.series["bound_empty_hosts_pct"]
                        for half in (self.a, self.b))
        return np.array([block.mean() for block in np.array_split((ours - theirs).to_numpy()[is_counted], n_blocks)])


def ab_trial(workload: Workload, policy: str | Policy, source_for: SourceFor, seed: int = 0) -> Trial:
    """One A/B on a pool split by the seed.

    >>> from sojourn.features.synthetic import synthesize
    >>> import sojourn.simulator as sim
    >>> workload = sim.build_workload("synthetic", synthesize(1_000, seed=0), n_hosts=9)
    >>> ab_trial(workload, "best-fit", lambda half: None).by_block(4).shape
    (4,)
    """
    a, b = halves(workload, np.random.default_rng(seed))
    return Trial(simulate(a, policy, source_for(a)), simulate(b, BASELINE), workload.warmup_s)
