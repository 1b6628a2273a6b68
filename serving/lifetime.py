"""What a scheduler holds of each request: its lifetime curve, and what the curve was made of."""

from __future__ import annotations

from array import array

from sojourn.serving.curve import LifetimeCurve, lifetime_class
from sojourn.serving.history import Admission


class Lifetime:
    """One request's prediction: its curve, and what of the request the model did not know.

    `remaining`, `quantile`, `survival` and `next_change` are the curve's own (see `LifetimeCurve`). version: the
    model that made it; curve and version stay what they are when the predictor reloads. features: float64, as the
    forest read them; kept for `Predictor.explain`.
    """

    __slots__ = ("_admission", "arrival_s", "curve", "features", "next_change", "quantile", "remaining", "survival",
                 "unknown", "version")  # fmt: skip

    def __init__(self, curve: LifetimeCurve, features: array[float], arrival_s: int, unknown: tuple[str, ...],
                 version: str, admission: Admission | None) -> None:
        self.curve = curve
        self.remaining = curve.remaining
        self.quantile = curve.quantile
        self.survival = curve.survival
        self.next_change = curve.next_change
        self.features = features
        self.arrival_s = arrival_s
        self.unknown = unknown
        self.version = version
        self._admission = admission

    def lifetime_class(self, uptime_s: float = 0.0) -> int:
        """LAVA's class (1-4) of the mean remaining time at an uptime."""
        return lifetime_class(self.remaining(uptime_s))
