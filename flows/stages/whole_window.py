"""The candidate's score on the whole test window of a trace that is trained on in part: by partition, on workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sojourn.features.split import known_at
from sojourn.flows.intervals import t_half_width
from sojourn.flows.outside.workers import run_grouped
from sojourn.flows.progress import console, stage
from sojourn.flows.stages.feature_rows import read_rows
from sojourn.flows.stages.sampled_features import Sample, workers_of
from sojourn.models.bundle_writer import table_of
from sojourn.models.measures import BrierOverAges
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import load_bundle


@dataclass(frozen=True, slots=True)
class WholeWindow:
    """Brier score over ages on all test requests, with a 95 % interval over partitions, each of other owners."""

    n_test: int
    ibs: float
    low: float
    high: float

    def scores(self) -> dict[str, float]:
        """By name, for MLflow."""
        return {"whole.ages.ibs": self.ibs, "whole.ages.ibs.low": self.low, "whole.ages.ibs.high": self.high,
                "whole.n_test": float(self.n_test)}

    def text(self) -> str:
        """One sentence for output and model card."""
        return (f"On all {self.n_test:,} requests of the test window: Brier score over ages {self.ibs:.4f} "
                f"({self.low:.4f} to {self.high:.4f}, 95 %, over partitions by owner).")


@dataclass(frozen=True, slots=True)
class Asked:
    """One partition's work: rows are read from a file, the model from a bundle's folder."""

    rows: Path
    bundle: Path
    test_from_s: int


def score_whole(sample: Sample, bundle: Path, test_from_s: int, dask: str | None) -> WholeWindow:
    """The score of a bundle on all requests decided from `test_from_s` on; RuntimeError where a worker fails.

    Censoring is weighed for within each partition.
    """
    asked = [[Asked(file.resolve(), bundle.resolve(), test_from_s)] for file in sample.files]
    found: list[tuple[float, float, int]] = []
    with stage("score on all of the test window") as report, workers_of(dask) as workers:
        for done, (item, outcome) in enumerate(run_grouped(asked, score_partition, workers), 1):
            report(done, len(asked))
            if isinstance(outcome, Exception):
                raise RuntimeError(f"{item.rows.name} could not be scored: {type(outcome).__name__}: {outcome}")
            found.append(outcome)
    whole = whole_window(sorted(found))
    console.print(whole.text(), soft_wrap=True)
    return whole


def score_partition(asked: Asked) -> tuple[float, float, int]:
    """Of a partition's test requests: what they add to the score, how often they are asked, how many they are."""
    rows = read_rows(asked.rows)
    test = known_at(rows, rows.decided_s >= asked.test_from_s, None)
    bundle = load_bundle(asked.bundle)
    forest = CurveBuilder(bundle.schema, bundle.model).forest
    features = bundle.schema.encoder.with_row(test.features, test.keys)
    brier = BrierOverAges.of(table_of(bundle.schema, forest, features), test)
    return float(brier.added.sum()), float(brier.n_asked.sum()), len(test)


def whole_window(parts: list[tuple[float, float, int]]) -> WholeWindow:
    """The ratio of the sums, with a jackknife interval over the parts.

    >>> found = whole_window([(1.0, 10.0, 4), (3.0, 10.0, 4)])
    >>> found.n_test, found.ibs
    (8, 0.2)
    """
    added, n_asked, n_test = (np.array(column, np.float64) for column in zip(*parts, strict=True))
    ibs = added.sum() / n_asked.sum()
    n = len(parts)
    without = (added.sum() - added) / (n_asked.sum() - n_asked) if n > 1 else np.array([np.nan])
    half = float(t_half_width((n * ibs - (n - 1) * without)[:, None])[0])
    return WholeWindow(int(n_test.sum()), float(ibs), float(ibs - half), float(ibs + half))
