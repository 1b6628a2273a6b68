"""Gain against one setting that a comparison varies: the load, the oracle's recall, its noise."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.simulator.experiments import BASELINE
from sojourn.simulator.page.comparison_data import ComparisonData

_FLAWED = re.compile(r"(?:one-shot:)?(?P<name>recall|noise)[: ](?P<value>[0-9]*\.?[0-9]+)")
_TITLES = {"recall": "Gain against recall", "noise": "Gain against noise"}
_AXES = {
    "recall": "long requests known as such (%)",
    "noise": "sigma of the lognormal noise on each lifetime",
}
_COLUMNS = ["policy", "x", "gain_pp", "gain_low_pp", "gain_high_pp"]
_PERFECT = {"recall": 100.0, "noise": 0.0}


@dataclass(frozen=True, slots=True)
class Sweep:
    """Gains of several policies as one setting changes.

    name: "load", "recall" or "noise", of the second workload "load-1" and so on. title, axis: of the figure and of its
        x axis.
    lines: by label, one row per setting in ascending order: `policy`, `x`, `gain_pp`, `gain_low_pp`, `gain_high_pp`
        (empty hosts over best-fit, percentage points, higher is better; 95 % interval, NaN for one seed).
    """

    name: str
    title: str
    axis: str
    lines: Mapping[str, pd.DataFrame]

    @property
    def policies(self) -> list[str]:
        """The policy of each line."""
        return [str(points["policy"].iloc[0]) for points in self.lines.values()]


def sweeps(data: ComparisonData) -> list[Sweep]:
    """What a summary varies on each workload: recall, noise (both at the main load), load; lines of 2 points or more.

    Recall and noise are read off the predictors' names (`recall:0.8`, `noise:1`), of each policy asked anew or, as
    `one-shot:recall:0.8`, once; there the oracle stands for full recall and for no noise, which it is.

    >>> summary = pd.DataFrame({"workload": "trace", "load": 0.8, "policy": "nilas", "predictor": ["noise:1", "oracle"],
    ...                         "label": "", "gain_pp": [1.0, 4.0], "gain_low_pp": 0.0, "gain_high_pp": 5.0})
    >>> found, = sweeps(ComparisonData("noise", "", summary, summary, {}, {}, [], 0))
    >>> found.name, found.lines["nilas"]["x"].tolist(), found.lines["nilas"]["gain_pp"].tolist()
    ('noise', [0.0, 1.0], [4.0, 1.0])
    """
    workloads = list(dict.fromkeys(data.summary["workload"]))
    found = []
    for k, workload in enumerate(workloads):
        own, which = (f"-{k}" if k else "", f": {workload}" if len(workloads) > 1 else "")
        main = data.at_main_load(workload)
        found += [Sweep(name + own, _TITLES[name] + which, axis, _flawed_lines(main, name))
                  for name, axis in _AXES.items()]
        every = data.summary[(data.summary["workload"] == workload) & (data.summary["policy"] != BASELINE)]
        points = every.assign(line=every["label"], x=100 * every["load"])
        found.append(Sweep(f"load{own}", f"Gain against load{which}", "peak load of the hosts (%)", _lines(points)))
    return [sweep for sweep in found if sweep.lines]


def _flawed_lines(rows: pd.DataFrame, name: str) -> dict[str, pd.DataFrame]:
    x, line = np.full(len(rows), np.nan), rows["policy"].tolist()
    for k, predictor in enumerate(rows["predictor"].tolist()):
        match = _FLAWED.fullmatch(predictor)
        if match is not None and match["name"] == name:
            x[k] = float(match["value"]) * (100 if name == "recall" else 1)
        elif predictor in ("oracle", "one-shot:oracle"):
            x[k] = _PERFECT[name]
        if predictor.startswith("one-shot:"):
            line[k] += " (one-shot)"
    return _lines(rows.assign(x=x, line=line))


def _lines(points: pd.DataFrame) -> dict[str, pd.DataFrame]:
    points = points[points["x"].notna() & points["gain_pp"].notna()]
    lines = {}
    for line, rows in points.groupby("line", sort=False):
        ordered = rows.sort_values("x").drop_duplicates("x")[_COLUMNS]
        if len(ordered) > 1:
            lines[str(line)] = ordered.reset_index(drop=True)
    return lines
