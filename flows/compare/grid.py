"""The cells of a comparison: every policy with every predictor and every rectifier, on the same workload at each start,
load and seed.

A rectifier is a text: `RECTIFIER:MOVES` a day, as in `pdre:5`, with options after commas; or `none`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sojourn.flows.placement.predictors import REFRESHED, PredictorSpec
from sojourn.flows.placement.workloads import TraceSpec, WorkloadSpec
from sojourn.flows.retrain.features import feature_code
from sojourn.flows.store.caches import json_hash, source_hash
from sojourn.simulator import KNOWN_POLICIES
from sojourn.simulator.experiments import BASELINE, RIVALS, pairing_label
from sojourn.simulator.policies import added_code
from sojourn.simulator.rectification import BUDGET_MAX, RECTIFIERS, Rectify

REPLAYED_BY = ("features", "models", "serving", "simulator", "flows/placement", "flows/compare/cells.py",
               "flows/compare/grid.py")
CUT_BY = ("flows/retrain/train.py", "flows/compare/comparison.py", "flows/compare/cells.py")
LEARNT_BY = ("features", "models", "serving", "simulator", "flows/placement")
"""The rooms that decide what is kept: a cell's result, where its later part begins, a predictor's curves."""
NONE = "none"
N = TypeVar("N", int, float)
_FORM = "RECTIFIER:MOVES[,pinned=SHARE][,by-owner][,long=HOURS][,hour=HOUR][,every=HOURS]"


def learnt_key(trace: TraceSpec, learnt: str, bundle_version: str) -> str:
    """sha256 hex of all that decides the curves of a learnt predictor on a trace; of "", where the later part begins.
    """
    code = source_hash(*CUT_BY, *LEARNT_BY) if learnt else source_hash(*CUT_BY)
    what = REFRESHED * learnt.startswith(REFRESHED) + bundle_version if bundle_version else learnt
    return json_hash([trace.data_hash, trace.test_share, trace.valid_share, trace.source.seed, trace.is_past, what,
                    code, feature_code()])


@dataclass(frozen=True, slots=True)
class Cell:
    """One replay. predictor: None for a policy that asks for none. rectifier: of `parse_rectifier`; "" = none."""

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
            learnt_key(spec.trace, "", "") if spec.start == "warm" else None, self.policy + added_code(self.policy),
            predictor.name if predictor else None, self.rectifier,
            source_hash(*REPLAYED_BY),
        ]  # fmt: skip
        if predictor is not None and predictor.is_learnt:
            parts.append(learnt_key(spec.trace, predictor.learnt_name, predictor.version))
        return json_hash(parts)


def grid_of(workloads: Iterable[WorkloadSpec], policies: Sequence[str],
            predictors: Sequence[PredictorSpec], rectifiers: Sequence[str] = ()) -> list[Cell]:
    """All cells, workload by workload, best-fit and its rivals first; a policy that asks for no predictions comes once.

    Rivals are replayed whether asked for or not, and rectified if asked for.

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
    pairs: list[tuple[str, PredictorSpec | None]] = [(name, None) for name in dict.fromkeys((*RIVALS, *plain))]
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


def parse_rectifier(text: str, seed: int = 0) -> Rectify | None:
    """What a text means; None for `none`. seed: draws what can't be moved.

    pinned: share of the requests that can't be moved; by-owner: whole owners are drawn. long: hours from which on a
    remaining time is long. hour: of the day at which moves are planned first. every: hours after which they are planned
    again, 24 divided by a whole number. ValueError names what is wrong.

    >>> parse_rectifier("pdre:5,pinned=0.2").non_migratable_share
    0.2
    >>> parse_rectifier("best:5")
    Traceback (most recent call last):
    ValueError: rectify must be none or begin with one of pdre, value, got 'best:5'
    """
    if text == NONE:
        return None
    whole, *options = text.split(",")
    planner, _, moves = whole.partition(":")
    if planner not in RECTIFIERS:
        raise ValueError(f"rectify must be {NONE} or begin with one of {', '.join(RECTIFIERS)}, got {text!r}")
    default = Rectify()
    share, is_by_owner = default.non_migratable_share, default.is_by_owner
    long_s, hour, every_s = default.long_s, default.hour, default.every_s
    names = [option.partition("=")[0] for option in options]
    for option in options:
        name, _, value = option.partition("=")
        if names.count(name) > 1:
            raise ValueError(f"{name} must be given once, got {names.count(name)} times in {text!r}")
        if name == "pinned":
            share = _number(value, text, float, "number")
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"pinned must be a share in 0..1, got {value!r} in {text!r}")
        elif option == "by-owner":
            is_by_owner = True
        elif name == "long":
            long_s = _seconds(value, text, name)
        elif name == "hour":
            hour = _number(value, text, int, "whole number")
        elif name == "every":
            every_s = _seconds(value, text, name)
        else:
            raise ValueError(f"rectify must be {_FORM}, got {option!r} in {text!r}")
    if not moves:
        raise ValueError(f"rectify must say how many migrations a day, as in {planner}:5, got {text!r}")
    budget = _number(moves, text, int, "whole number")
    if not 0 <= budget <= BUDGET_MAX:
        raise ValueError(f"rectify must have 0 to {BUDGET_MAX:,} migrations a day, got {moves!r} in {text!r}")
    return Rectify(planner, budget, hour, share, is_by_owner, long_s, seed, every_s)


def rectifier_name(text: str) -> str:
    """The text in its one form: options that say what holds anyway are left out.

    >>> rectifier_name("pdre:05,hour=0,pinned=0.4,long=12")
    'pdre:5,long=12'
    """
    found, default = parse_rectifier(text), Rectify()
    if found is None:
        return NONE
    parts = [f"{found.planner}:{found.budget}"]
    if found.non_migratable_share != default.non_migratable_share:
        parts.append(f"pinned={found.non_migratable_share:g}")
    if found.is_by_owner:
        parts.append("by-owner")
    if found.long_s != default.long_s:
        parts.append(f"long={found.long_s / 3_600:g}")
    if found.hour != default.hour:
        parts.append(f"hour={found.hour}")
    if found.every_s != default.every_s:
        parts.append(f"every={found.every_s / 3_600:g}")
    return ",".join(parts)


def _number(value: str, text: str, kind: Callable[[str], N], name: str) -> N:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"rectify must be {_FORM}, got {value!r} for a {name} in {text!r}") from None


def _seconds(value: str, text: str, name: str) -> int:
    hours = _number(value, text, float, "number")
    if not (math.isfinite(hours) and round(3_600 * hours) >= 1):
        raise ValueError(f"{name} must be a finite number of hours above 0, got {value!r} in {text!r}")
    return round(3_600 * hours)
