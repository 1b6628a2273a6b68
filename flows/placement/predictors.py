"""Predictors of a comparison by text: `oracle`, `noise:SIGMA`, `recall:SHARE`, `owner-recall:SHARE`, `truth`, a
lifetime family, `bundle:FOLDER`; `refreshed:` of one of the last two, or `one-shot:` of any.

To add one that is not learnt, such as what a trace's generator knows: a function of a workload, its spec and the
text's argument, and its line in `MADE`. `truth` is what the synthetic trace's own generator knows of each lifetime;
no model can know more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from sojourn.features.synthetic import LifetimeMixtures
from sojourn.features.trace import Trace
from sojourn.flows.placement.workloads import WorkloadSpec
from sojourn.simulator import Curves, Held, LifetimeSource, LongAsShort, NoisyOracle, Oracle, Workload
from sojourn.simulator.workloads import owner_numbers

Maker = Callable[[Workload, WorkloadSpec, str], LifetimeSource]
ONE_SHOT = "one-shot:"
REFRESHED = "refreshed:"
_RANGES: Mapping[str, tuple[float, float]] = MappingProxyType({"noise": (0.0, 10.0), "recall": (0.0, 1.0),
                                                             "owner-recall": (0.0, 1.0)})
UPTIMES_S = np.append(0, np.rint(np.geomspace(60, 365 * 86_400, 64))).astype(np.int64)
"""Breakpoints of every curve: each 23 % above the one before, from a minute to a year."""
Answers = Callable[[float], np.ndarray]
"""Of n requests at an uptime in seconds, float64 (n,)."""


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

    made = spec.trace.source
    if made.file is not None:
        raise ValueError(f"predictor truth must be asked of the synthetic trace, got {spec.trace.name!r}")
    return truth_source(*synthesize_with_truth(made.n_requests, seed=made.seed))


MADE: Mapping[str, Maker] = MappingProxyType({
    "oracle": _oracle, "noise": _noise, "recall": _recall, "owner-recall": _owner_recall, "truth": _truth,
})
"""Predictors that know a workload's own lifetimes, flaws drawn from its seed; and `truth`, which knows what the
generator of the synthetic trace drew them from."""


def parse_predictor(text: str) -> PredictorSpec:
    """The predictor that a text means; ValueError names the known ones.

    >>> parse_predictor("noise:1.0").name, parse_predictor("one-shot:oracle").is_one_shot
    ('noise:1', True)
    >>> parse_predictor("refreshed:hazard").name
    'refreshed:hazard'
    >>> parse_predictor("noise:loud")
    Traceback (most recent call last):
    ValueError: predictor noise must have a number, as in noise:1, got 'noise:loud'
    """
    if text.startswith(REFRESHED):
        learnt = parse_predictor(text.removeprefix(REFRESHED))
        if not learnt.is_learnt or learnt.is_one_shot or learnt.is_refreshed:
            raise ValueError("predictor refreshed: must be of a lifetime family or bundle:FOLDER, got "
                             f"{text.removeprefix(REFRESHED)!r}")
        return replace(learnt, is_refreshed=True)
    plain = text.removeprefix(ONE_SHOT)
    kind, _, argument = plain.partition(":")
    is_one_shot = plain != text
    if kind == "bundle" and argument:
        from sojourn.serving import load_bundle

        return PredictorSpec(kind, argument, is_one_shot, load_bundle(Path(argument)).version)
    if kind in _RANGES:
        return PredictorSpec(kind, f"{_number(kind, argument, text):g}", is_one_shot)
    if argument or (kind not in MADE and kind not in _families()):
        known = ", ".join([*(f"{name}:NUMBER" if name in _RANGES else name for name in MADE), "bundle:FOLDER",
                           *_families()])
        raise ValueError(f"predictor must be one of {known}, refreshed: of a learnt one, or one-shot: of one, "
                         f"got {text!r}")
    return PredictorSpec(kind, "", is_one_shot)


def _number(kind: str, argument: str, text: str) -> float:
    try:
        number = float(argument)
    except ValueError:
        raise ValueError(f"predictor {kind} must have a number, as in {kind}:1, got {text!r}") from None
    low, high = _RANGES[kind]
    if not low <= number <= high:
        raise ValueError(f"predictor {kind} must have a number in {low:g}..{high:g}, got {text!r}")
    return number


def _families() -> list[str]:
    from sojourn.models.lifetime import LIFETIME_MODELS

    return list(LIFETIME_MODELS)


def truth_source(trace: Trace, mixtures: LifetimeMixtures) -> Held:
    """A LifetimeSource of the true distributions, for `trace` and whatever is made of its requests.

    mixtures: one per request of `trace`, as `synthesize_with_truth` gives them. A request with an unknown start counts
    as made at time 0, as everywhere in a replay.

    >>> from sojourn.features.synthetic import synthesize_with_truth
    >>> trace, mixtures = synthesize_with_truth(500, seed=3, days=7)
    >>> curves = truth_source(trace, mixtures).curves(trace.requests)
    >>> curves.total_at(40, 0), int(mixtures.remaining_s(0.0)[40])
    (1395, 1395)
    """
    return Held(trace.requests["request_id"], mixture_curves(mixtures))


def mixture_curves(mixtures: LifetimeMixtures) -> Curves:
    """One curve per mixture: E[T | T > u] and E[max(T - u, 0)] at UPTIMES_S, cut to whole seconds."""
    return held_answers(len(mixtures), UPTIMES_S, mixtures.remaining_s, mixtures.survival)


def held_answers(n: int, uptimes_s: np.ndarray, remaining_s: Answers, survival: Answers | None) -> Curves:
    """One curve for each of n requests: predicted totals in whole seconds, int64 at uptimes_s, (m,) rising from 0.

    remaining_s: E[T - u | T > u]. survival: P(T > u), for expected overhangs E[max(T - u, 0)]; None = without them. A
    held total is raised to the next uptime where it would be outlived.

    >>> curves = held_answers(1, np.array([0, 60]), lambda uptime_s: np.array([30.7]), lambda uptime_s: np.array([0.5]))
    >>> curves.total_s.tolist(), curves.overhang_s.tolist()
    ([60, 90], [15, 15])
    """
    m = len(uptimes_s)
    totals, overhangs = np.empty((n, m), np.int64), np.empty((n, m), np.int64)
    for column, uptime_s in enumerate(uptimes_s.tolist()):
        left_s = np.maximum(remaining_s(float(uptime_s)), 1.0)
        totals[:, column] = uptime_s + left_s.astype(np.int64)
        if survival is not None:
            overhangs[:, column] = np.rint(survival(float(uptime_s)) * left_s)
    totals[:, :-1] = np.maximum(totals[:, :-1], uptimes_s[1:])
    overhangs = np.minimum.accumulate(overhangs, axis=1)  # answers of whole seconds may rise by one
    return Curves(np.arange(n + 1) * m, np.tile(uptimes_s, n), totals.reshape(-1),
                  overhang_s=None if survival is None else overhangs.reshape(-1))
