"""Fits on two Dask workers beside fits in one process: seconds, and the Brier score over ages on later requests.

Each family of the default retrain that grows trees is fitted on a synthetic trace here with two threads, here with
another seed, and on two workers of one thread each, twice. The other seed shows what a change of the fit alone does to
the score. One run; prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.split import Split, split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.flows.workers.dask import cluster
from sojourn.flows.workers.dask_boosting import dask_learner
from sojourn.models import LIFETIME_MODELS, FitSettings
from sojourn.models.measures import BrierOverAges

FAMILIES = ("gbdt-once", "gbdt-uptime", "hazard")


@dataclass(frozen=True, slots=True)
class Fit:
    """One fit: its seconds, the Brier score over ages on the test window (lower is better), and its trees' text."""

    family: str
    way: str
    seconds: float
    score: float
    text: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-requests", type=int, default=100_000)
    parser.add_argument("--json", type=Path, default=Path("fit_workers.json"), help="where the numbers are written")
    asked = parser.parse_args()
    trace = synthesize(asked.n_requests, seed=0)
    rows = build_rows(trace, default_encoder(trace))
    split, here = split_by_time(rows), FitSettings(n_threads=2, names=rows.names)
    found: list[Fit] = []
    with tempfile.TemporaryDirectory() as store, cluster("local:2") as address, \
            dask_learner(address, 2, Path(store)) as learner:
        there = replace(here, learner=learner)
        for family in FAMILIES:
            for way, settings in (("one process", here), ("one process, another seed", replace(here, seed=1)),
                                  ("two workers", there), ("two workers, again", there)):
                found.append(fitted(family, way, split, settings))
                print(f"{family:<12} {way:<26} {found[-1].seconds:6.1f} s   {found[-1].score:.5f}", flush=True)
    asked.json.write_text(json.dumps([{name: value for name, value in asdict(fit).items() if name != "text"}
                                      for fit in found], indent=1) + "\n")
    print(table(found))


def fitted(family: str, way: str, split: Split, settings: FitSettings) -> Fit:
    """Fit a family and score it on the test window."""
    began_s = time.perf_counter()
    model = LIFETIME_MODELS[family]().fit(split.train, split.valid, split.past, settings)
    seconds = time.perf_counter() - began_s
    exported = model.export()
    assert exported is not None and exported.text is not None
    return Fit(family, way, seconds, BrierOverAges.of(model.curve_table(split.test), split.test).score(), exported.text)


def table(fits: list[Fit]) -> str:
    """A Markdown table: each family's score and seconds in one process, and ratios to these."""
    lines = ["| family | score in one process | another seed | two workers | seconds in one process | two workers | "
             "the same trees again |", "|---|---|---|---|---|---|---|"]
    for family in FAMILIES:
        here, seed, there, again = (fit for fit in fits if fit.family == family)
        seconds = statistics.median([there.seconds, again.seconds])
        lines.append(f"| {family} | {here.score:.5f} | {seed.score / here.score - 1:+.2%} | "
                     f"{there.score / here.score - 1:+.2%} | {here.seconds:.1f} | x {seconds / here.seconds:.1f} | "
                     f"{'yes' if there.text == again.text else 'NO'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
