"""A fitted family of a run, with what it reached on the validation window."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sojourn.models.lifetime import LifetimeModel
from sojourn.models.measures import BrierOverAges


@dataclass(frozen=True, slots=True)
class Trained:
    """A fitted family, how long the fit took, and its scores on the validation window.

    brier: the score over ages by row.
    """

    family: str
    model: LifetimeModel
    fit_s: float
    validation: dict[str, float]
    brier: BrierOverAges

    @property
    def choice_score(self) -> float:
        """The Brier score over ages on the validation window, lower is better; infinite where none can be followed."""
        return self.validation.get("ages.ibs", math.inf)
