"""What a preset is: the settings of a comparison under a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.flows.placement.workloads import Start

GRID = "sojourn.flows.compare.comparison:run_comparison"
OF_REPLAYS = ("store", "tracking_uri", "trace", "reader", "recipe", "n_requests", "host_cpu_cores", "host_mem_gib",
              "policies", "loads", "seeds")
"""What an evaluation reads that replays with perfect lifetimes, in this process, and draws no page."""

OF_USAGE = ("store", "tracking_uri", "trace", "reader", "seeds")
"""What an evaluation of placement by usage reads."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings of a comparison that flags may replace.

    about: one line. runner: `module:function` of a `CompareConfig`, for an evaluation that is no grid of cells; it
    returns how many parts failed. reads: the settings that it reads, None = all; the others are refused beside it.
    """

    about: str
    policies: tuple[str, ...] = ()
    predictors: tuple[str, ...] = ()
    loads: tuple[float, ...] = (0.8,)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    starts: tuple[Start, ...] = ()
    rectifiers: tuple[str, ...] = ()
    runner: str = GRID
    reads: tuple[str, ...] | None = None
