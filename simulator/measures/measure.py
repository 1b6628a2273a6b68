"""What a measure is: figures of a finished replay, and how tables show them.

How much of the possible gain a policy has, over one replay or several.
"""

from __future__ import annotations

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
    """One figure as tables show it.

    title, unit: on the page of a comparison. better: which value is. digits: on the page; sign: "+" = with its sign.
    table: where text tables have it too: beside the gains, among the further measures, or there where it is known;
    or in the table of placement debt.
    text_digits: in these, None = as on the page. words: sentences of their captions.
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

    @property
    def text_format(self) -> str:
        """The figure's format in text tables."""
        return f"{self.sign}.{self.digits if self.text_digits is None else self.text_digits}f"


@dataclass(frozen=True, slots=True)
class Measure:
    """of: the figures of a replay of a workload by name, units in the names; {} where it can't tell. columns: by name,
    of the figures that tables show; a comparison logs the others too. over_time: series over the bins of the result's
    own series, by name, float64 (n_bins,); {} where it can't tell, None = it has none."""

    of: Callable[[Workload, Result], Mapping[str, float]]
    columns: Mapping[str, Column]
    over_time: Callable[[Workload, Result], Mapping[str, np.ndarray]] | None = None


def gap_closed_pct(gain_pp: ArrayLike, best_fit_pct: ArrayLike, bound_pct: ArrayLike) -> float:
    """The mean gain as a share of best-fit's mean distance to the bound, %; NaN where that is not above 0.

    Higher = better. gain_pp: over best-fit on the same workload, float64 (n_replays,) or one number, as best_fit_pct
    and bound_pct: the empty hosts of best-fit and of the bound there, %. A ratio of means: the mean of each replay's
    ratio would be decided by the replays whose distance happens to be small.

    >>> gap_closed_pct([1.0, 1.0], best_fit_pct=[20.0, 29.5], bound_pct=[30.0, 30.0])  # replay by replay: 10 and 200 %
    19.047619047619047
    """
    gap = float(np.mean(np.asarray(bound_pct, np.float64) - np.asarray(best_fit_pct, np.float64)))
    return 100.0 * float(np.mean(np.asarray(gain_pp, np.float64))) / gap if gap > 0.0 else float("nan")
