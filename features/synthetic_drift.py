"""Drifts of known truth for the generator: what changes in the lifetimes of a synthetic trace, and when."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

_DAY_S = 86_400
SHAPES = ("step", "ramp", "spike", "owners")


@dataclass(frozen=True, slots=True)
class Drift:
    """One change of a synthetic trace, by the time of arrival.

    shape: step = lifetimes are `factor` times as long from `from_day` on; ramp = the same, reached over `days` (in
    log units, evenly); spike = for `days` only; owners = from then on a `share` of the short-lived requests comes from
    new subscriptions, whose deployments are of the mixed kind and mostly stay for hours to days.

    Refused: an unknown shape, a factor that is not positive, a ramp or spike without days, a share outside (0, 1).
    """

    shape: str
    from_day: float
    factor: float = 2.0
    days: float = 0.0
    share: float = 0.3

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ValueError(f"shape must be one of {', '.join(SHAPES)}, got {self.shape!r}")
        if not (self.factor > 0.0 and math.isfinite(self.factor)):
            raise ValueError(f"factor must be above 0 and finite, got {self.factor!r}")
        if self.shape in ("ramp", "spike") and not self.days > 0.0:
            raise ValueError(f"days of a {self.shape} must be above 0, got {self.days!r}")
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"share must be between 0 and 1, got {self.share!r}")


def log_factor(drifts: Iterable[Drift], arrival_s: np.ndarray) -> np.ndarray:
    """What the drifts add to the log lifetime of requests that arrive at `arrival_s`, float64 (n,).

    >>> ramp = Drift("ramp", from_day=1.0, days=2.0, factor=4.0)
    >>> np.exp(log_factor([ramp], np.array([0.0, 1.0, 2.0, 5.0]) * 86_400)).round(3).tolist()
    [1.0, 1.0, 2.0, 4.0]
    """
    total = np.zeros(len(arrival_s))
    for drift in drifts:
        since_days = np.asarray(arrival_s, np.float64) / _DAY_S - drift.from_day
        if drift.shape == "step":
            share = (since_days >= 0.0).astype(np.float64)
        elif drift.shape == "ramp":
            share = np.clip(since_days / drift.days, 0.0, 1.0)
        elif drift.shape == "spike":
            share = ((since_days >= 0.0) & (since_days < drift.days)).astype(np.float64)
        else:
            continue
        total += math.log(drift.factor) * share
    return total
