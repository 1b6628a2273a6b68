"""`requested-time`: the time that the user asked for, as a batch scheduler's own estimate."""

from __future__ import annotations

import numpy as np

from sojourn.models.lifetime.family import Family
from sojourn.models.lifetime.repeat_last import RepeatModel

FEATURE = "requested_s"


class RequestedModel(RepeatModel):
    """The requested time, told once for all; a request without one has the mean log lifetime.

    Users ask for more than they need; the common factor by which they do is taken out by the residuals.
    """

    name = "requested-time"

    def told(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """The position of `requested_s`. Raises ValueError where the trace has no requested time."""
        if FEATURE not in names:
            raise ValueError(f"requested-time needs the feature {FEATURE}; the trace has no requested time, "
                             f"got {len(names)} other features")
        return (names.index(FEATURE),)

    def log_seconds(self, told: np.ndarray) -> np.ndarray:
        return np.log10(np.maximum(told, 1.0))


REQUESTED_TIME = Family(RequestedModel, "the time the user asked for (`requested_s`)",
                        "through its residuals", complexity=1, is_baseline=True)
