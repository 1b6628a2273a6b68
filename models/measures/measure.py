"""What a measure of a study is: how tables show it, and how it is computed where `assessment` does not do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable

Reweighed = Callable[[np.ndarray | None], float]
"""A prepared measure: row weights (n,), None = each row once, to its value; NaN where it is undefined."""


@dataclass(frozen=True, slots=True)
class Measure:
    """title: two lines; `{long}` in it is the trace's threshold of "long-lived".

    better: which value is; "80 %" = the nearest to 0.8. table: of the four of a study. words: a sentence of the
    table's caption. is_paired: the chosen family is compared with the baselines by it. is_shown: whether it is, at a
    threshold in seconds. of: prepares it for the curves of n test rows; None = `assessment` has it.
    """

    title: str
    better: Literal["higher", "lower", "10 %", "50 %", "80 %", "90 %"] = "higher"
    digits: int = 3
    table: Literal["accuracy", "distribution", "calibration by age", "classes"] = "distribution"
    words: str = ""
    is_paired: bool = False
    is_shown: Callable[[int], bool] = lambda threshold_s: True
    of: Callable[[CurveTable, Examples], Reweighed] | None = None
