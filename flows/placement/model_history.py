"""Durations of jobs with little history: quantiles of the lifetime that a model predicts, in place of runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.models.curve_table import CurveTable
from sojourn.serving import Predictor
from sojourn.simulator.planning import Instance

N_QUANTILES = 25
"""As many as COSPiS draws samples: each is then drawn once."""
LEVELS = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES
"""The middle of equal shares, so that the quantiles have the distribution's mean but for its tails."""


class ModelDurations:
    """Durations of a job by a bundle's predictor, seconds. Called with a row of a table of jobs, whose column
    `request` holds the request's attributes as JSON."""

    def __init__(self, bundle: Path, day_s: int | None = None) -> None:
        """day_s: the day's begin on the clock of the bundle's training trace; default: the end of its history."""
        self._predictor = Predictor.load(bundle)
        training = self._predictor.info()["training"]
        self._day_s = int(training.get("history_to_s", 0)) if day_s is None else day_s

    def __call__(self, row: Mapping[Any, Any]) -> np.ndarray:
        name, text = row["name"], row.get("request")
        try:
            document = json.loads(text) if isinstance(text, str) else text
        except json.JSONDecodeError as error:
            raise ValueError(f"request of job {name!r} must be a JSON object, got {text!r} ({error})") from error
        if not isinstance(document, Mapping):
            raise ValueError(f"request of job {name!r} must be a JSON object, got {text!r}")
        life = self._predictor.predict(dict(document), self._day_s + int(float(row["requested_start_s"])))
        return np.maximum([life.quantile(float(level), 0.0) for level in LEVELS], 1.0)


def with_model_history(instance: Instance, table: CurveTable, least_runs: int) -> Instance:
    """The same day in which jobs with fewer than `least_runs` runs have quantiles of their predicted lifetime instead.

    table: the curve of each job, in their order. Quantiles are cut at what the deadline allows a job that starts at its
    latest; usage is that of the latest run. With `least_runs` above all histories every job is the model's.
    """
    if len(table) != len(instance):
        raise ValueError(f"table must have a curve for each of the {len(instance)} jobs, got {len(table)}")
    total_s = np.stack([table.quantile(float(level), 0.0) for level in LEVELS])
    steps = np.maximum(np.ceil(total_s / instance.step_s), 1).astype(np.int64)
    jobs = []
    for row, job in enumerate(instance.jobs):
        if len(job.durations) < least_runs:
            room = max(job.deadline - job.requested_start - job.flexibility, 1)
            job = replace(job, durations=np.minimum(steps[:, row], room),
                          usage=np.repeat(job.usage[-1:], N_QUANTILES, axis=0))
        jobs.append(job)
    return replace(instance, jobs=tuple(jobs))
