"""Predictors by text: `oracle`, `noise:SIGMA`, `recall:SHARE`, `owner-recall:SHARE`, `truth`, a lifetime family,
`bundle:FOLDER`; `refreshed:` of one of the last two, or `one-shot:` of any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from sojourn.flows.placement.predictors import MADE, ONE_SHOT, REFRESHED, PredictorSpec

_RANGES: Mapping[str, tuple[float, float]] = MappingProxyType({"noise": (0.0, 10.0), "recall": (0.0, 1.0),
                                                             "owner-recall": (0.0, 1.0)})


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
