"""Predictors of a comparison, and those that are not learnt.

To add one that is not learnt, such as what a trace's generator knows: a function of a workload, its spec and the text's
argument, and its line in `MADE`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sojourn.flows.placement.workload_spec import WorkloadSpec
from sojourn.simulator import LifetimeSource, LongAsShort, NoisyOracle, Oracle, Workload
from sojourn.simulator.workloads import owner_numbers

Maker = Callable[[Workload, WorkloadSpec, str], LifetimeSource]
ONE_SHOT = "one-shot:"
REFRESHED = "refreshed:"


@dataclass(frozen=True, slots=True)
class PredictorSpec:
    """What predicts: a key of MADE, a lifetime family or `bundle`; its argument; only its first word, or all of them.

    version: of the bundle. is_refreshed: running requests are predicted anew.
    """

    kind: str
    argument: str = ""
    is_one_shot: bool = False
    version: str = ""
    is_refreshed: bool = False

    @property
    def name(self) -> str:
        """Its text, as in tables."""
        return ONE_SHOT * self.is_one_shot + self.learnt_name

    @property
    def learnt_name(self) -> str:
        """Its text without `one-shot:`; both are learnt at once."""
        return REFRESHED * self.is_refreshed + self.kind + (f":{self.argument}" if self.argument else "")

    @property
    def is_learnt(self) -> bool:
        """Whether it was fitted on a trace, so that only what came later may judge it."""
        return self.kind not in MADE


def _oracle(workload: Workload, spec: WorkloadSpec, argument: str) -> LifetimeSource:
    return Oracle(workload)


def _noise(workload: Workload, spec: WorkloadSpec, argument: str) -> LifetimeSource:
    return NoisyOracle(workload, float(argument), seed=spec.seed)


def _recall(workload: Workload, spec: WorkloadSpec, argument: str) -> LifetimeSource:
    return LongAsShort(workload, float(argument), seed=spec.seed)


def _owner_recall(workload: Workload, spec: WorkloadSpec, argument: str) -> LifetimeSource:
    return LongAsShort(workload, float(argument), seed=spec.seed, owners=owner_numbers(workload))


def _truth(workload: Workload, spec: WorkloadSpec, argument: str) -> LifetimeSource:
    from sojourn.features.synthetic import synthesize_with_truth
    from sojourn.flows.placement.truth_source import truth_source

    made = spec.trace.source
    if made.file is not None:
        raise ValueError(f"predictor truth must be asked of the synthetic trace, got {spec.trace.name!r}")
    return truth_source(*synthesize_with_truth(made.n_requests, seed=made.seed))


MADE: Mapping[str, Maker] = MappingProxyType({
    "oracle": _oracle, "noise": _noise, "recall": _recall, "owner-recall": _owner_recall, "truth": _truth,
})
"""Predictors that know a workload's own lifetimes, flaws drawn from its seed; and `truth`, which knows what the
generator of the synthetic trace drew them from."""
