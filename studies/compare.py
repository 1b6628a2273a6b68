"""Comparisons that stand in the docs alone: readings and ablations of policies, and any with policies of the studies.

    python -m studies {ablations,lava-readings,dvla} [--trace PATH --reader NAME] [--predictor NAME ...] [--page PAGE]
    python -m studies compare --policy move-to-front --policy hybrid ... [--trace PATH --reader NAME] ...

They are `sojourn gain` with other policies (studies/policies): its cells, its tables, its page. The functions
`write_heat_map_png` and `write_sensitivity_png` draw pictures of the page for a document.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import numpy as np

from sojourn.flows.compare.comparison import run_comparison
from sojourn.flows.compare.settings import Preset
from sojourn.flows.console import stage
from sojourn.flows.versions.promotion import open_store
from sojourn.simulator.cluster import DAY_S
from sojourn.simulator.experiments import BASELINE
from sojourn.simulator.page.comparison_data import ComparisonData
from sojourn.simulator.page.figures import (
    CLASS_COLOURS,
    CLASS_NAMES,
    EMPTY_COLOUR,
    colours_of,
    line_styles,
    sweeps,
)
from studies.settings import OF_COMPARISONS, StudySettings, run_study

_LINE_STYLES = ("-", "--", ":", "-.", (0, (8, 3)))
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
    return run_comparison(config, tracker, cells)[0]


def main() -> None:
    """Run the comparison that the command names."""
    name = sys.argv[0].split()[-1]
    defaults = {} if name == ANY else {key: value for key, value in asdict(COMPARISONS[name]).items() if key != "about"}
    run_study(None if name == ANY else name, run_compared, OF_COMPARISONS, ComparedSettings, **defaults)


def write_heat_map_png(data: ComparisonData, path: str | Path, labels: Sequence[str]) -> Path:
    """Hosts x time by lifetime class, one panel per label, the most often empty host on top."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    unknown = [label for label in labels if label not in data.host_maps]
    if unknown or not labels:
        raise ValueError(f"labels must be among {', '.join(data.host_maps)}, got {unknown or labels!r}")
    colours = (EMPTY_COLOUR, *CLASS_COLOURS)
    figure = Figure(figsize=(6 * len(labels), 4.5), dpi=110, layout="constrained")
    for axes, label in zip(figure.subplots(1, len(labels), squeeze=False)[0], labels, strict=True):
        host_map = data.host_maps[label]
        states = host_map.lifetime_class[:, host_map.by_use()]
        axes.pcolormesh(host_map.time_s / DAY_S, np.arange(states.shape[1]), states.T, cmap=ListedColormap(colours),
                        vmin=-0.5, vmax=len(colours) - 0.5, shading="nearest", rasterized=True)
        axes.axvline(data.warmup_s / DAY_S, color="black", linewidth=0.8, linestyle=":")
        axes.set(xlabel="time since the trace's start (days), metrics from the dotted line on", ylabel="hosts",
                 title=label, yticks=[])
    patches = [Patch(facecolor=colour, label=name)
               for colour, name in zip(colours, ("empty", *CLASS_NAMES), strict=True)]
    figure.legend(handles=patches, frameon=False, ncols=len(patches), loc="outside lower center", fontsize="small")
    figure.suptitle(data.description, fontsize="medium")
    target = Path(path)
    figure.savefig(target)
    return target


def write_sensitivity_png(data: ComparisonData, path: str | Path) -> Path:
    """Gains over best-fit against each setting that varies, a panel each, with 95 % intervals."""
    from matplotlib.figure import Figure

    all_sweeps = sweeps(data)
    if not all_sweeps:
        raise ValueError("summary must vary recall, noise or load, got one setting of each")
    figure = Figure(figsize=(6 * len(all_sweeps), 4.5), dpi=110, layout="constrained")
    panels = figure.subplots(1, len(all_sweeps), squeeze=False, sharey=True)[0]
    for axes, sweep in zip(panels, all_sweeps, strict=True):
        styles = line_styles(sweep.policies, colours_of(data.summary["policy"], BASELINE))
        for (label, points), (colour, dash) in zip(sweep.lines.items(), styles, strict=True):
            axes.plot(points["x"], points["gain_pp"], marker="o", label=label, color=colour,
                      linestyle=_LINE_STYLES[dash])
            axes.fill_between(points["x"], points["gain_low_pp"], points["gain_high_pp"], color=colour, alpha=0.15,
                              linewidth=0)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(xlabel=sweep.axis, title=sweep.title)
        axes.legend(frameon=False, fontsize="small")
    panels[0].set_ylabel("empty hosts above best-fit's (pp), higher is better")
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(data.description, fontsize="medium")
    target = Path(path)
    figure.savefig(target)
    return target
