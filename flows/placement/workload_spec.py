"""What a cell replays, as text: a trace of the store, and the workload that a recipe makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sojourn.flows.settings.trace import TraceSource
from sojourn.simulator import WORKLOADS

Start = Literal["cold", "warm"]
"""The whole trace by its recipe, from an empty pool; or its later part, with what was running by then."""


@dataclass(frozen=True, slots=True)
class TraceSpec:
    """One trace in a store: a file's, or a seed's of the generator.

    data_hash: see `flows.stages.ingest.input_hash`. store: the folder of all that is kept. test_share, valid_share: of
    the requests, where predictors are learnt. The source's seed is also that of what is fitted.
    """

    source: TraceSource
    data_hash: str
    store: Path
    test_share: float
    valid_share: float

    @property
    def name(self) -> str:
        """The file's name, or `synthetic`."""
        return self.source.name


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """One workload: what a recipe makes of a trace at a load and a seed.

    start: warm = of the part of the trace that came after what predictors are fitted on. options: the recipe's own.
    """

    trace: TraceSpec
    recipe: str
    load: float
    seed: int
    start: Start = "cold"
    options: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """As in tables."""
        return f"{self.recipe}, {self.begins}"

    @property
    def begins(self) -> str:
        """The start in words. What is drawn begins empty whatever the trace's requests are: not called warm."""
        is_drawn = WORKLOADS[self.recipe].is_drawn
        return "later part" if is_drawn and self.start == "warm" else f"{self.start} start"
