"""Comparisons that stand in the docs alone: readings and ablations of policies, and any with policies of the studies.

    python -m studies {ablations,lava-readings,dvla} [--trace PATH --reader NAME] [--predictor NAME ...] [--page PAGE]
    python -m studies compare --policy move-to-front --policy hybrid ... [--trace PATH --reader NAME] ...

They are `sojourn compare` with other policies (studies/policies): its cells, its tables, its page.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType

from sojourn.flows.compare.comparison import run_comparison
from sojourn.flows.compare.settings import Preset
from sojourn.flows.console import stage
from sojourn.flows.versions.promotion import open_store
from studies.settings import OF_COMPARISONS, StudySettings, run_study

ANY = "compare"
"""The study that is no preset."""

COMPARISONS: Mapping[str, Preset] = MappingProxyType({
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
})
"""By the name of the study: the settings that it has if none are given."""


class ComparedSettings(StudySettings):
    """A comparison in one process, since no other one knows the policies."""

    n_workers: int = 1

    @property
    def about(self) -> str:
        """What it compares, as a sentence with a space after it; "" for one that is no preset."""
        words = COMPARISONS[self.preset].about if self.preset is not None else ""
        return f"{words[0].upper()}{words[1:]}. " if words else ""


def run_compared(config: StudySettings) -> int:
    """Replay, print and log; returns how many cells failed."""
    cells = config.cells()
    with stage("open the store"):
        tracker = open_store(config)
    return run_comparison(config, tracker, cells)


def main() -> None:
    """Run the comparison that the command names."""
    name = sys.argv[0].split()[-1]
    defaults = {} if name == ANY else {key: value for key, value in asdict(COMPARISONS[name]).items() if key != "about"}
    run_study(None if name == ANY else name, run_compared, OF_COMPARISONS, ComparedSettings, **defaults)
