"""Named comparisons: settings of `sojourn compare` that flags may replace (docs/simulator/evaluations.md runs them)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.flows.placement.workloads import Start

_RECALLS = tuple(f"recall:{share:g}" for share in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0))


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings of a comparison. about: one line. A policy that is not known is left out."""

    about: str
    policies: tuple[str, ...] = ()
    predictors: tuple[str, ...] = ()
    loads: tuple[float, ...] = (0.8,)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    starts: tuple[Start, ...] = ()
    rectifiers: tuple[str, ...] = ()


PRESETS: Mapping[str, Preset] = MappingProxyType({
    "lava-table": Preset(
        "every policy with every kind of predictor",
        ("random", "first-fit", "best-fit", "worst-fit", "waste-min", "la-binary", "la", "nilas", "nilas-expected",
         "lava", "joint-fit", "joint-exact", "aligned-fit"),
        ("oracle", "noise:1", "recall:0.8", "hazard", "km", "one-shot:hazard", "one-shot:km")),
    "recall-sweep": Preset(
        "how good predictions must be: recall of long requests from 40 to 100 %, and reprediction against one-shot",
        ("nilas", "nilas-expected", "lava", "joint-fit"), (*_RECALLS, "hazard", "one-shot:hazard")),
    "load-sweep": Preset(
        "from 60 to 95 % of the hosts in use at the peak, cold start and warm start",
        ("nilas", "lava", "joint-fit"), ("oracle", "noise:1"),
        loads=(0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95), starts=("cold", "warm")),
    "ablations": Preset(
        "NILAS and LAVA with one rule changed or removed at a time",
        ("nilas", "nilas-60s", "nilas-one-shot", "nilas-unbucketed", "nilas-second", "nilas-last", "nilas-expected",
         "lava", "lava-no-class-down", "lava-no-class-up", "lava-any-class"),
        ("oracle", "hazard")),
    "lava-readings": Preset(
        "readings of LAVA where its paper is ambiguous, with perfect, noisy and learnt lifetimes",
        ("nilas", "nilas-expected", "joint-fit", "lava", "lava-any-class", "lava-95", "lava-from-opening", "lava-soft",
         "lava-soft-expected", "lava-soft-joint"),
        ("oracle", "noise:1", "hazard"), seeds=tuple(range(10))),
    "dvla": Preset(
        "DVLA's placement and its ablations beside other policies, with no migrations, its own list and ours, with "
        "better and worse predictions",
        ("la-binary", "nilas", "nilas-expected", "lava", "lava-any-class", "lava-from-opening", "lava-soft",
         "joint-fit", "joint-exact", "dapp", "dapp-short", "dapp-weighted", "dapp-max", "dapp-symmetric", "dapp-daily",
         "dapp-events", "dapp-exact", "dapp-ungrouped", "dapp-ungrouped-events", "dapp-timer", "dapp-figure-9",
         "dapp-opens"),
        ("oracle", "noise:1", "hazard", "recall:0.4", "recall:0.6", "recall:0.8", "recall:1",
         "owner-recall:0.4", "owner-recall:0.6", "owner-recall:0.8"),
        loads=(0.6, 0.7, 0.8, 0.9), rectifiers=("pdre:5", "value:5")),
    "rectification": Preset(
        "two and five live migrations a day that free hosts, under any policy",
        ("nilas", "nilas-expected", "joint-fit", "joint-exact", "dapp"), ("oracle", "noise:1"),
        rectifiers=("pdre:2", "value:2", "pdre:5", "value:5")),
})
"""By name."""


def known_preset(name: object) -> Preset:
    """The preset of a name; ValueError that lists the known ones."""
    if not isinstance(name, str) or name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    return PRESETS[name]
