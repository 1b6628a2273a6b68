"""A measure gives figures of a finished replay, with their columns in tables; the gap that a policy
closes; and numbers as text: one that rounds to zero has no sign."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sojourn.simulator.engine import Result
from sojourn.simulator.workloads import Workload

_UNITS = {"pct": "%", "pp": "pp", "us": "us", "s": "s", "h": "h"}


@dataclass(frozen=True, slots=True)
class Column:
    """How tables show one figure.

    title, unit: on the page of a comparison. better: the better direction. digits: on the page;
    sign: "+" = with its sign. table: the text table that has it: beside the gains, among the
    further measures (always, or if it is known), or placement debt; "" = none. text_digits: digits
    there, None = as on the page. words: sentences of the table's caption.
    """

    title: str
    unit: str = ""
    better: Literal["", "higher", "lower"] = ""
    digits: int = 2
    sign: str = ""
    table: Literal["", "gains", "further", "where known", "debt"] = ""
    text_digits: int | None = None
    words: str = ""

    def text_title(self, name: str) -> str:
        """The title with the unit that the figure's name ends in.

        >>> Column("packing density").text_title("packing_density_pct")
        'packing density %'
        """
        return f"{self.title} {_UNITS.get(name.rpartition('_')[2], '')}".strip()

    def text(self, value: float) -> str:
        """The figure in text tables; "-" if it is not known.

        >>> Column("gain", digits=1, sign="+").text(2.25), Column("gain").text(float("nan"))
        ('+2.2', '-')
        """
        digits = self.digits if self.text_digits is None else self.text_digits
        return number_text(value, digits, self.sign, "-", thousands="")


@dataclass(frozen=True, slots=True)
class Measure:
    """of: the figures of a replay of a workload by name, units in the names; {} if they are not
    known. columns: by name, of the figures that tables show; a comparison logs all figures.
    over_time: series over the bins of `Result.series`, by name, float64 (n_bins,); {} if they are
    not known, None = the measure has none."""

    of: Callable[[Workload, Result], Mapping[str, float]]
    columns: Mapping[str, Column]
    over_time: Callable[[Workload, Result], Mapping[str, np.ndarray]] | None = None


def gap_closed_pct(gain_pp: ArrayLike, best_fit_pct: ArrayLike, bound_pct: ArrayLike) -> float:
    """The mean gain as a share of best-fit's mean distance to the bound, %; NaN if that is not
    above 0.

    Higher = better. gain_pp: over best-fit on the same workload, float64 (n_replays,) or one
    number; so are best_fit_pct and bound_pct, the empty hosts of best-fit and of the bound, %. It
    is a ratio of means: a mean of ratios would depend mainly on replays with a small distance.

    >>> gap_closed_pct([1.0, 1.0], best_fit_pct=[20.0, 29.5], bound_pct=[30.0, 30.0])  # replay by replay: 10 and 200 %
    19.047619047619047
    """
    gap = float(np.mean(np.asarray(bound_pct, np.float64) - np.asarray(best_fit_pct, np.float64)))
    return 100.0 * float(np.mean(np.asarray(gain_pp, np.float64))) / gap if gap > 0.0 else float("nan")


MISSING = "–"
"""In place of a number that is not known."""


def number_text(value: float, digits: int = 2, sign: str = "", missing: str = MISSING, thousands: str = ",") -> str:
    """The number with so many digits after the point.

    sign: "+" = a number above zero has its sign, too. missing: the text for NaN and for an infinite number.
    thousands: "," between them, or "" for none.

    >>> number_text(-0.04, 1), number_text(-0.04, 2), number_text(1234.5, 1, "+")
    ('0.0', '-0.04', '+1,234.5')
    >>> number_text(0.0, 2, "+"), number_text(float("nan"))
    ('0.00', '–')
    """
    if not math.isfinite(value):
        return missing
    rounded = f"{value:{thousands}.{digits}f}"
    if not any(digit in rounded for digit in "123456789"):
        return rounded.removeprefix("-")
    return f"+{rounded}" if sign and value > 0 else rounded


def signed_text(value: float, digits: int = 2, missing: str = MISSING) -> str:
    """A difference: the number with its sign, also above zero; zero has none.

    >>> signed_text(1.5), signed_text(-0.001), signed_text(-12.34, 1)
    ('+1.50', '0.00', '-12.3')
    """
    return number_text(value, digits, "+", missing)


def interval_text(low: float, high: float, digits: int = 2, between: str = " to ", missing: str = "-") -> str:
    """Both ends of an interval of differences.

    missing: the text if an end is not known, as after one replay.

    >>> interval_text(-0.001, 1.5), interval_text(-1.0, 2.0, 1, " "), interval_text(float("nan"), 1.0)
    ('0.00 to +1.50', '-1.0 +2.0', '-')
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return missing
    return f"{signed_text(low, digits)}{between}{signed_text(high, digits)}"
