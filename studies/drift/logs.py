"""Real logs of months: how often the monitor alarms, and whether retraining then pays against a timer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from sojourn.features.readers import read_trace
from sojourn.flows.placement.workloads import known_by
from sojourn.models.drift import DAY_S
from sojourn.models.measures import OwnerDraws, interval
from sojourn.publishing import whole_file
from studies.drift.retraining import Served, summary
from studies.drift.year import HISTORY_DAYS, RULES

LOGS: Mapping[str, tuple[str, str, int]] = MappingProxyType({
    "SURF Lisa": ("surf", "opendc/surf_halfyear_tasks.parquet", 124),
    "NASA iPSC": ("swf", "swf/NASA-iPSC-1993-3.1-cln.swf.gz", 92),
    "HPC2N": ("swf", "swf/HPC2N-2002-2.1-cln.swf.gz", 252),
    "SDSC Blue": ("swf", "swf/SDSC-BLUE-2000-4.2-cln.swf.gz", 252),
})
"""Reader, file below the data folder, and days that are read from the first of the log."""


def run_logs(folder: Path, data: Path, n_new: int) -> list[dict[str, Any]]:
    """One record for each log; each is kept as it is done. n_new: so many at most are run."""
    found: list[dict[str, Any]] = []
    for name in LOGS:
        path = folder / f"log-{name.replace(' ', '-')}.json"
        if not path.is_file():
            if n_new == 0:
                continue
            n_new -= 1
            record = one_log(name, data)
            with whole_file(path) as fresh:
                fresh.write_text(json.dumps(record) + "\n")
            print(name, {rule: (len(each["alarms"]), len(each["trained"]), round(each["brier"], 4))
                         for rule, each in record["rules"].items()}, record["differences"], flush=True)
        found.append(json.loads(path.read_text()))
    return found


def one_log(name: str, data: Path) -> dict[str, Any]:
    """The log under each rule, and paired differences of the Brier score, 95 % over owners."""
    reader, file, days = LOGS[name]
    whole = read_trace(reader, data / file)[0]
    trace = known_by(whole, whole.begin_s + days * DAY_S)
    served = Served.of(trace, HISTORY_DAYS, HISTORY_DAYS)
    first = served.fitted(HISTORY_DAYS)
    if first is None:
        raise ValueError(f"the first {HISTORY_DAYS} days of {name} must be enough to train on")
    runs = {name: rule.run(served, first) for name, rule in RULES.items()}
    asked = np.isfinite(runs["never"].brier)
    draws = OwnerDraws(served.clusters()[asked], seed=0)
    differences = {}
    for one, other in (("timer", "never"), ("monitor", "never"), ("monitor", "timer")):
        gap = (runs[one].brier - runs[other].brier)[asked]
        differences[f"{one} - {other}"] = [float(gap.mean()), *interval(
            [float((weight * gap).sum() / weight.sum()) for weight in draws])]
    return {"log": name, "days": served.last_day + 1 - HISTORY_DAYS, "n": int(asked.sum()),
            "rules": {rule: summary(served, each) for rule, each in runs.items()}, "differences": differences}
