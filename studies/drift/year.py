"""The simulated year: a synthetic trace with known drifts and one without, served under rules that say when to retrain.

A year is 52 weeks after eight weeks of history. The real lifetime model (hazard) is trained, small enough to take
seconds; outcomes are known to a rule when they happen and not before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sojourn.features.synthetic import Drift, SyntheticParameters, synthesize_with_truth
from sojourn.flows.settings.other_jobs import FOLLOW_UP_DAYS, MAX_AGE_DAYS, REFRACTORY_DAYS
from sojourn.models.drift import DETECTORS, MONITOR_DETECTOR, Detector
from sojourn.models.lifetime import HazardModel
from sojourn.publishing import whole_file
from studies.drift.retraining import Run, Served, run, summary, truth_run

HISTORY_DAYS, YEAR_DAYS, N_REQUESTS = 56, 364, 63_000
SEEDS = range(10, 15)
"""Not those on which the constants were looked at (0 to 3)."""
PARAMETERS = SyntheticParameters(drift_per_week=0.0)
"""Deployments come, go and change their habits one by one; nothing common drifts."""
BEGINS = MappingProxyType({"step": 70, "spike": 140, "ramp": 196, "owners": 294})
"""The day of the year on which each drift begins, and a day more for each seed, so that weekdays differ."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When a rule retrains: on alarms of its detector, after them, and when the model is so old."""

    detector: Callable[[], Detector] | None
    follow_ups: tuple[int, ...] = ()
    max_age_days: int | None = None
    refractory_days: int = 0

    def run(self, served: Served, first: HazardModel) -> Run:
        """A trace served under it."""
        return run(served, first, self.detector() if self.detector else None, self.follow_ups, self.max_age_days,
                   self.refractory_days)


RULES: Mapping[str, Rule] = MappingProxyType({
    "never": Rule(None),
    "timer": Rule(DETECTORS["timer"]),
    "alarms only": Rule(DETECTORS[MONITOR_DETECTOR], FOLLOW_UP_DAYS, None, REFRACTORY_DAYS),
    "monitor": Rule(DETECTORS[MONITOR_DETECTOR], FOLLOW_UP_DAYS, MAX_AGE_DAYS, REFRACTORY_DAYS),
})
"""The last is what `sojourn model monitor` does where it is told how to retrain."""


def drifts_of(seed: int) -> dict[str, Drift]:
    """What is injected in a seed's year, and its begin as the trace counts days."""
    at = {name: float(HISTORY_DAYS + day + seed % 7) for name, day in BEGINS.items()}
    return {"step": Drift("step", at["step"], 2.0), "spike": Drift("spike", at["spike"], 4.0, 2.0),
            "ramp": Drift("ramp", at["ramp"], 0.25, 28.0), "owners": Drift("owners", at["owners"], share=0.5)}


def run_years(folder: Path, n_new: int) -> list[dict[str, Any]]:
    """One record for each seed and kind of year; each is kept as it is done, so that a broken-off run goes on.

    n_new: so many at most are run; the rest is left for the next time.
    """
    found: list[dict[str, Any]] = []
    for seed in SEEDS:
        for kind in ("control", "drifts"):
            path = folder / f"year-{kind}-{seed}.json"
            if not path.is_file():
                if n_new == 0:
                    continue
                n_new -= 1
                record = one_year(kind, seed)
                with whole_file(path) as fresh:
                    fresh.write_text(json.dumps(record) + "\n")
                print(kind, seed, {name: (each["alarms"], round(each["brier"], 4)) for name, each in
                                   record["rules"].items()}, flush=True)
            found.append(json.loads(path.read_text()))
    return found


def one_year(kind: str, seed: int) -> dict[str, Any]:
    """A year under each rule. Alarms are days of the year, 0 = its first."""
    drifts = drifts_of(seed) if kind == "drifts" else {}
    trace, truth = synthesize_with_truth(N_REQUESTS, seed=seed, days=HISTORY_DAYS + YEAR_DAYS, parameters=PARAMETERS,
                                         drifts=tuple(drifts.values()))
    served = Served.of(trace, HISTORY_DAYS, HISTORY_DAYS)
    first = served.fitted(HISTORY_DAYS)
    if first is None:
        raise ValueError(f"the first {HISTORY_DAYS} days must be enough to train on")
    rules = {name: summary(served, rule.run(served, first)) for name, rule in RULES.items()}
    rules["perfect"] = summary(served, truth_run(served, truth))
    for each in rules.values():
        each["alarms"] = [day - HISTORY_DAYS for day in each["alarms"]]
        each["trained"] = [day - HISTORY_DAYS for day in each["trained"]]
    return {"kind": kind, "seed": seed, "begins": {name: drift.from_day - HISTORY_DAYS
                                                   for name, drift in drifts.items()}, "rules": rules}
