"""What a planner gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

STATUSES = ("optimal", "feasible", "heuristic", "requested")
"""optimal: proved for these samples. feasible: the best that a solver found in its time. heuristic: no solver was
asked. requested: the requested starts, planned by nobody or for want of a schedule."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Starts, and what the planner knows about them.

    planner: its name. starts: int64 (n,), steps. peak: float64 (n_resources,), the planned peak in cores and so on: the
    highest in any of the planner's samples. status: one of `STATUSES`. objective: what was minimised: the peak in units
    where there is one resource, else the priced sum. bound: no schedule has a lower objective on these samples;
    gap_pct: objective less bound over objective, %, 0 = proved. alpha: share of samples that may break deadlines and
    dependencies, as used; None where the planner has one sample. broken_pct: of the samples that this schedule breaks.
    moved: the sum of delays behind requested starts, steps. seconds: taken. reason: why it is not what was asked for:
    alpha was raised, or requested starts were kept; else "".
    """

    planner: str
    starts: np.ndarray
    peak: np.ndarray
    status: str
    objective: int
    bound: float
    gap_pct: float
    alpha: float | None
    broken_pct: float
    moved: int
    seconds: float
    reason: str = ""
