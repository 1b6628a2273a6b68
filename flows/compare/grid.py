"""The cells of a comparison: every policy with every predictor, and with every rectifier, on the same workload at each
start, load and seed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sojourn.flows.placement.predictors import REFRESHED, PredictorSpec
from sojourn.flows.placement.workload_spec import TraceSpec, WorkloadSpec
from sojourn.flows.stages.feature_rows import feature_code
from sojourn.flows.store.code_version import source_hash
from sojourn.simulator import KNOWN_POLICIES
from sojourn.simulator.experiments import BASELINE, pairing_label

REPLAYED_BY = ("features", "models", "serving", "simulator", "flows/placement", "flows/compare/cell_replay.py",
               "flows/compare/cell_store.py", "flows/compare/grid.py", "flows/compare/replay.py",
               "flows/compare/learnt_curves.py", "flows/compare/migration_arrays.py", "flows/compare/rectifiers.py",
               "flows/intervals.py")
CUT_BY = ("flows/stages/windows.py", "flows/compare/learning.py", "flows/compare/learnt_curves.py")
LEARNT_BY = ("features", "models", "serving", "simulator", "flows/placement")
"""The rooms that decide what is kept: a cell's result, where its later part begins, a predictor's curves."""


def learnt_key(trace: TraceSpec, learnt: str, bundle_version: str) -> str:
    """sha256 hex of all that decides the curves of a learnt predictor on a trace; of "", where the later part begins.
    """
    code = source_hash(*CUT_BY, *LEARNT_BY) if learnt else source_hash(*CUT_BY)
    what = REFRESHED * learnt.startswith(REFRESHED) + bundle_version if bundle_version else learnt
    return _digest([trace.data_hash, trace.test_share, trace.valid_share, trace.source.seed, what,
                    code, feature_code()])


@dataclass(frozen=True, slots=True)
class Cell:
    """One replay. predictor: None for a policy that asks for none. rectifier: see rectifiers.py; "" = none."""

    workload: WorkloadSpec
    policy: str
    predictor: PredictorSpec | None = None
    rectifier: str = ""

    @property
    def placing(self) -> str:
        """The policy with its rectifier, as in tables."""
        return f"{self.policy} + {self.rectifier}" if self.rectifier else self.policy

    @property
    def label(self) -> str:
        """Policy, rectifier and predictor, as in tables."""
        return pairing_label(self.placing, self.predictor.name if self.predictor else "")

    @property
    def unrectified(self) -> Cell:
        """The same without its rectifier."""
        is_asking = KNOWN_POLICIES[self.policy].predictions != "none"
        return Cell(self.workload, self.policy, self.predictor if is_asking else None)

    def key(self) -> str:
        """sha256 hex of all that decides the result: data, settings and source code."""
        spec, predictor = self.workload, self.predictor
        parts: list[object] = [
            spec.trace.data_hash, spec.recipe, spec.load, spec.seed, spec.start, spec.options,
            learnt_key(spec.trace, "", "") if spec.start == "warm" else None, self.policy,
            predictor.name if predictor else None, self.rectifier,
            source_hash(*REPLAYED_BY),
        ]  # fmt: skip
        if predictor is not None and predictor.is_learnt:
            parts.append(learnt_key(spec.trace, predictor.learnt_name, predictor.version))
        return _digest(parts)


def grid_of(workloads: Iterable[WorkloadSpec], policies: Sequence[str],
            predictors: Sequence[PredictorSpec], rectifiers: Sequence[str] = ()) -> list[Cell]:
    """All cells, workload by workload, best-fit first; a policy that asks for no predictions comes once.

    Every rectifier asks for predictions, so with one every policy meets every predictor. Without one each comes too.

    Beside every predictor stands the oracle, asked for or not: the same policy, had it known all. A workload's cells
    stand predictor by predictor: what predicts is made once and serves all policies.
    """
    plain = [BASELINE, *(name for name in policies if KNOWN_POLICIES[name].predictions == "none" and name != BASELINE)]
    asking = [name for name in policies if KNOWN_POLICIES[name].predictions != "none"]
    if (asking or rectifiers) and not predictors:
        user = f"policy {asking[0]!r}" if asking else f"rectify {rectifiers[0]!r}"
        raise ValueError(f"predictors must be at least one for {user}, got none")
    oracle = PredictorSpec("oracle")
    beside = predictors if oracle in predictors else [oracle, *predictors]
    pairs: list[tuple[str, PredictorSpec | None]] = [(name, None) for name in plain]
    pairs += [(name, predictor) for predictor in beside for name in asking]
    rectified: list[tuple[str, PredictorSpec | None, str]] = [
        (name, predictor, rectifier) for predictor in beside for rectifier in rectifiers
        for name in [*plain, *asking]]
    found = [(name, predictor, "") for name, predictor in pairs] + rectified
    return [Cell(spec, *each) for spec in workloads for each in found]


def by_workload(cells: Iterable[Cell]) -> dict[WorkloadSpec, list[Cell]]:
    """The cells of each workload, in their order."""
    groups: dict[WorkloadSpec, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.workload, []).append(cell)
    return groups


def _digest(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
