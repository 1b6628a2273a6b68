"""One trial of a search: a family fitted with some hyperparameters and scored on the validation window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from sojourn.features.split import Split
from sojourn.flows.settings.retrain import TrainSettings
from sojourn.flows.settings.trace import TraceSource
from sojourn.flows.stages.build_features import Features, stored_features
from sojourn.flows.stages.ingest import Ingested, read_into
from sojourn.flows.stages.run_windows import run_windows
from sojourn.flows.stages.train import fit_settings
from sojourn.flows.store.code_version import check_same_code, source_hash
from sojourn.models.lifetime import SEARCH_SPACES, FitSettings, SearchSpace
from sojourn.models.measures import BrierOverAges

MAX_LEAVES = 40_000
"""A setting that may grow more on any trace is refused: the model would be larger than about 1.4 MB."""
_N_REFIT = 200


@dataclass(frozen=True, slots=True)
class Material:
    """What a trial sees of one trace: the train and validation windows; `past` is a stub, `test` is empty."""

    name: str
    split: Split
    settings: FitSettings


@dataclass(frozen=True, slots=True)
class TrialTask:
    """A trial on one trace, as it goes to a worker: the trace is found in the store.

    code: `trial_code` where it was given out.
    """

    family: str
    values: Mapping[str, float]
    store: Path
    source: TraceSource
    training: TrainSettings
    code: str


def trial_code() -> str:
    """sha256 hex of the code that decides a trial's score, with the libraries' versions."""
    return source_hash("features", "models", "serving", "flows/stages", "flows/jobs/trial.py")


def worker_score(task: TrialTask) -> float | None:
    """The score of a trial on a worker; None where the forest may grow too large."""
    check_same_code(trial_code(), task.code)
    material = _kept_material(task.store, task.source, task.training.model_dump_json())
    return score(SEARCH_SPACES[task.family], task.values, material)


@lru_cache(maxsize=4)
def _kept_material(store: Path, source: TraceSource, training: str) -> Material:
    ingested = read_into(store, source)
    return material_of(ingested, stored_features(store, ingested), TrainSettings.model_validate_json(training))


def material_of(ingested: Ingested, features: Features, training: TrainSettings) -> Material:
    """What trials see of a trace's features."""
    split = without_test(run_windows(training, features))
    return Material(ingested.name, split, fit_settings(training, features))


def without_test(split: Split) -> Split:
    """The split with a stub for the refit, which a trial does not need, and nothing of the test window.

    The stub is of ends that were observed from their start, if there are any: a family may learn from no others.
    """
    train = split.train
    ends = train.is_event.nonzero()[0]
    ends = ends[np.argsort(train.entry_s[ends] > 0.0, kind="stable")][:_N_REFIT]
    return replace(split, past=train.take(ends), test=split.test.take(np.empty(0, np.int64)))


def score(space: SearchSpace, values: Mapping[str, float], material: Material) -> float | None:
    """The Brier score over ages on the validation window; None where the forest may grow too large."""
    split, params = material.split, space.params(values)
    model = space.build(values)
    model.fit(split.train, split.valid, split.past, replace(material.settings, params=params))
    exported = model.export()
    if exported is not None and exported.n_leaves > MAX_LEAVES:
        return None
    return BrierOverAges.of(model.validation_table_, split.valid).score()
