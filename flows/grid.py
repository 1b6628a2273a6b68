"""The cells of a comparison: every policy with every predictor, on the same workload at each start, load and seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sojourn.flows.code_version import source_hash
from sojourn.flows.feature_rows import feature_code
from sojourn.flows.predictors import Predictor
from sojourn.simulator import KNOWN_POLICIES, WORKLOADS
from sojourn.simulator.experiments.comparison import BASELINE, label_of

if TYPE_CHECKING:
    from sojourn.flows.config import RetrainConfig

Start = Literal["cold", "warm"]
"""The whole trace by its recipe, from an empty pool; or its later part, with what was running by then."""
_FLOWS = "sojourn.flows"
_REPLAYED_BY, _LEARNT_BY, _CUT_BY = f"{_FLOWS}.cell_replay", f"{_FLOWS}.fitted_curves", f"{_FLOWS}.windows"
"""What makes the three things that are kept; all that these import is in the keys."""


@dataclass(frozen=True, slots=True)
class TraceSpec:
    """One trace: a file's, or a seed's of the generator. settings: of reading it and training on it; data_hash: see
    `flows.ingest.input_hash`."""

    settings: RetrainConfig
    data_hash: str

    @property
    def name(self) -> str:
        """The file's name, or `synthetic`."""
        return "synthetic" if self.settings.trace is None else self.settings.trace.name

    def learnt_key(self, learnt: str, bundle_version: str) -> str:
        """sha256 hex of all that decides the curves of a learnt predictor on this trace; of "", where the later part
        begins."""
        settings = self.settings
        makers = (_CUT_BY, _LEARNT_BY) if learnt else (_CUT_BY,)
        code = source_hash(*makers, alone=(f"{_FLOWS}.learning", f"{_FLOWS}.learnt_curves"))
        return _digest([self.data_hash, settings.test_share, settings.valid_share, settings.seed,
                        bundle_version or learnt, code, feature_code()])


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """One workload: what a recipe makes of a trace at a load and a seed.

    start: warm = of the part of the trace that came after what predictors are fitted on. options: the recipe's own.
    """

    trace: TraceSpec
    recipe: str
    load: float
    seed: int
    start: Start = "cold"
    options: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """As in tables."""
        return f"{self.recipe}, {self.begins}"

    @property
    def begins(self) -> str:
        """The start in words. What is drawn begins empty whatever the trace's requests are: not called warm."""
        is_drawn = WORKLOADS[self.recipe].is_drawn
        return "later part" if is_drawn and self.start == "warm" else f"{self.start} start"


@dataclass(frozen=True, slots=True)
class Cell:
    """One replay. predictor: None for a policy that asks for none."""

    workload: WorkloadSpec
    policy: str
    predictor: Predictor | None = None

    @property
    def label(self) -> str:
        """Policy and predictor, as in tables."""
        return label_of(self.policy, self.predictor.name if self.predictor else "")

    def key(self) -> str:
        """sha256 hex of all that decides the result: data, settings and source code."""
        spec, predictor = self.workload, self.predictor
        parts: list[object] = [
            spec.trace.data_hash, spec.recipe, spec.load, spec.seed, spec.start, spec.options,
            spec.trace.learnt_key("", "") if spec.start == "warm" else None, self.policy,
            predictor.name if predictor else None,
            source_hash(_REPLAYED_BY, alone=(__name__, f"{_FLOWS}.replay", f"{_FLOWS}.learnt_curves")),
        ]  # fmt: skip
        if predictor is not None and predictor.is_learnt:
            parts.append(spec.trace.learnt_key(predictor.learnt_name, predictor.version))
        return _digest(parts)


def grid_of(workloads: Iterable[WorkloadSpec], policies: Sequence[str], predictors: Sequence[Predictor]) -> list[Cell]:
    """All cells, workload by workload, best-fit first; a policy that asks for no predictions comes once.

    Beside every predictor stands the oracle, asked for or not: the same policy, had it known all. A workload's cells
    stand predictor by predictor: what predicts is made once and serves all policies.
    """
    plain = [BASELINE, *(name for name in policies if KNOWN_POLICIES[name].predictions == "none" and name != BASELINE)]
    asking = [name for name in policies if KNOWN_POLICIES[name].predictions != "none"]
    if asking and not predictors:
        raise ValueError(f"predictors must be at least one for policy {asking[0]!r}, got none")
    oracle = Predictor("oracle")
    beside = predictors if oracle in predictors else [oracle, *predictors]
    pairs: list[tuple[str, Predictor | None]] = [(name, None) for name in plain]
    pairs += [(name, predictor) for predictor in beside for name in asking]
    return [Cell(spec, *pair) for spec in workloads for pair in pairs]


def by_workload(cells: Iterable[Cell]) -> dict[WorkloadSpec, list[Cell]]:
    """The cells of each workload, in their order."""
    groups: dict[WorkloadSpec, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.workload, []).append(cell)
    return groups


def _digest(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
