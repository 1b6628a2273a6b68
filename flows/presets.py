"""Named comparisons: what each of the evaluations in docs/simulator/evaluations.md runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sojourn.flows.grid import Start

GRID = "sojourn.flows.comparison:run_comparison"


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
    runner: str = GRID
    reads: tuple[str, ...] | None = None


_OF_REPLAYS = ("store", "tracking_uri", "trace", "reader", "recipe", "n_requests", "host_cpu_cores", "host_mem_gib",
               "policies", "loads", "seeds")
"""What an evaluation reads that replays with perfect lifetimes, in this process, and draws no page."""
_RECALLS = tuple(f"recall:{share:g}" for share in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0))

PRESETS: Mapping[str, Preset] = MappingProxyType({
    "lava-table": Preset(
        "every policy with every kind of predictor",
        ("random", "first-fit", "best-fit", "worst-fit", "waste-min", "la-binary", "la", "nilas", "nilas-expected",
         "lava", "joint-fit", "aligned-fit"),
        ("oracle", "noise:1", "recall:0.8", "hazard", "km", "one-shot:hazard", "one-shot:km"),
    ),
    "recall-sweep": Preset(
        "how good predictions must be: recall of long requests from 40 to 100 %, and reprediction against one-shot",
        ("nilas", "nilas-expected", "lava", "joint-fit"), (*_RECALLS, "hazard", "one-shot:hazard"),
    ),
    "load-sweep": Preset(
        "from 60 to 95 % of the hosts in use at the peak, cold start and warm start",
        ("nilas", "lava", "joint-fit"), ("oracle", "noise:1"),
        loads=(0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95), starts=("cold", "warm"),
    ),
    "ablations": Preset(
        "what each rule of NILAS and LAVA is worth",
        ("nilas", "nilas-60s", "nilas-one-shot", "nilas-unbucketed", "nilas-second", "nilas-last", "nilas-expected",
         "lava", "lava-no-class-down", "lava-no-class-up", "lava-any-class"),
        ("oracle", "hazard"),
    ),
    "lava-readings": Preset(
        "readings of LAVA where its paper leaves room, with perfect, vague and learnt lifetimes",
        ("nilas", "nilas-expected", "joint-fit", "lava", "lava-any-class", "lava-95", "lava-from-opening", "lava-soft",
         "lava-soft-expected", "lava-soft-joint"),
        ("oracle", "noise:1", "hazard"), seeds=tuple(range(10)),
    ),
    "ab-pool": Preset("what an A/B in one pool and a pre/post analysis would have told, beside what is true",
                      ("nilas",), ("oracle",), seeds=tuple(range(10)), runner="sojourn.flows.ab_preset:run_ab_preset",
                      reads=_OF_REPLAYS),
    "lars": Preset("which request migrates first", ("best-fit", "nilas"), ("oracle",),
                   runner="sojourn.flows.lars:run_lars", reads=_OF_REPLAYS),
})  # fmt: skip
"""By name. A policy that is not known is left out of a preset."""
