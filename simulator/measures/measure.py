"""What a measure is: figures of a finished replay, and how tables show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

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
