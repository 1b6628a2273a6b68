"""The search: a family's hyperparameters by Optuna, over a stated budget, on the validation windows alone.

One trial is one setting on every trace given. Its value is the mean over traces of the choice score (integrated
Brier score on the validation window, lower is better) as a share of what the defaults in the code reach there: below
1 = better than they. Models are fitted on the train windows only; the test windows are never read."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sojourn.features.split import Split
from sojourn.flows.console import console, stage
from sojourn.flows.reports.figures import search_figure
from sojourn.flows.retrain.features import Features, build_features, stored_features, workers_of
from sojourn.flows.retrain.ingest import Ingested, ingest, read_into
from sojourn.flows.retrain.train import fit_settings, run_windows
from sojourn.flows.settings.retrain import RetrainConfig, TrainSettings
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.settings.trace import TraceSource
from sojourn.flows.store.caches import check_same_code, source_hash
from sojourn.flows.tracking.databases import ready_trials
from sojourn.flows.tracking.tracker import SYSTEM, Tracker
from sojourn.flows.workers.dask import NewWorker, run_grouped
from sojourn.flows.workers.flow import store_flow
from sojourn.models.lifetime import SEARCH_SPACES, Bounds, FitSettings, SearchSpace
from sojourn.models.measures import BrierOverAges

if TYPE_CHECKING:
    import optuna

SEARCH = "search"
MAX_LEAVES = 40_000
"""A setting that may grow more on any trace is refused: the model would be larger than about 1.4 MB."""
_N_REFIT = 200


@dataclass(frozen=True, slots=True)
class Searched:
    """best: hyperparameters of the best trial. value: its score as a share of the defaults'. n_trials: all so far."""

    best: dict[str, float]
    value: float
    n_trials: int


@store_flow("search")
def search(configs: Sequence[RetrainConfig], tracker: Tracker, family: str, n_trials: int,
           timeout_s: float) -> Searched:
    """Search until `n_trials` trials are done in all, or for `timeout_s`; the same store goes on where it stopped.

    configs: one per trace; the first names store and seed. ValueError where the family has no search space.
    """
    import optuna

    if family not in SEARCH_SPACES:
        raise ValueError(f"family must have a search space ({', '.join(SEARCH_SPACES)}), got {family!r}")
    space, config = SEARCH_SPACES[family], configs[0]
    with stage("open the trials"):
        trials_file = ready_trials(config.store)
    materials = [_material(each) for each in configs]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    name = f"{family} on " + ", ".join(material.name for material in materials)
    found = optuna.create_study(study_name=name, load_if_exists=True, direction="minimize",
                                storage=TrackingUri.of_file(trials_file).plain,
                                sampler=optuna.samplers.TPESampler(seed=config.seed, n_startup_trials=8,
                                                                   constant_liar=config.dask is not None))
    if not found.trials:
        found.enqueue_trial(dict(space.defaults))
    n_left = max(n_trials - sum(trial.state.is_finished() for trial in found.trials), 0)
    with stage(f"defaults of {family}"):
        reached = [score(space, space.defaults, material) or math.nan for material in materials]
    with stage(f"search {family}") as report, workers_of(config.dask) as workers:
        tasks = [TrialTask(family, {}, each.store.resolve(), each.source, each.group(TrainSettings), trial_code())
                 for each in configs]
        began_s = time.monotonic()
        while n_left > 0 and time.monotonic() - began_s < timeout_s:
            trials = [found.ask() for _ in range(min(n_left, len(workers)))]
            n_left -= len(trials)
            asked = [(trial, {name: _suggested(trial, name, bounds) for name, bounds in space.bounds.items()})
                     for trial in trials]
            scores = (_scores_of_workers(asked, tasks, workers) if config.dask else
                      [[score(space, values, material) for material in materials] for _, values in asked])
            for trial, of_trial in zip(trials, scores, strict=True):
                _tell(found, trial, of_trial, reached, materials)
            report(n_trials - n_left, n_trials)
    searched = Searched({name: float(value) for name, value in found.best_params.items()}, found.best_value,
                        len(found.trials))
    with stage("log"):
        _log(tracker, family, found, searched, [material.name for material in materials], timeout_s)
    console.print(f"\n{name}: best of {searched.n_trials} trials at {searched.value:.4f} of the defaults' score "
                  "(integrated Brier score on the validation windows; below 1 = better)", soft_wrap=True)
    for parameter, value in searched.best.items():
        console.print(f"  {parameter:<18}{value:>10.4g}   default {space.defaults[parameter]:.4g}")
    return searched


def _material(config: RetrainConfig) -> Material:
    ingested = ingest(config.store, config.source)
    return material_of(ingested, build_features(config.store, ingested, config.dask), config)


def _scores_of_workers(asked: Sequence[tuple[optuna.Trial, Mapping[str, float]]], tasks: Sequence[TrialTask],
                       workers: Sequence[NewWorker]) -> list[list[float | None]]:
    """The scores of trials that run at once, by trial and trace; RuntimeError where a worker fails."""
    scores: list[list[float | None]] = [[None] * len(tasks) for _ in asked]
    work = {(row, column): replace(task, values=values) for row, (_, values) in enumerate(asked)
            for column, task in enumerate(tasks)}
    for done, outcome in run_grouped([[each] for each in work.values()], worker_score, workers):
        if isinstance(outcome, Exception):
            raise RuntimeError(f"a trial could not be scored: {type(outcome).__name__}: {outcome}")
        row, column = next(place for place, each in work.items() if each is done)
        scores[row][column] = outcome
    return scores


def _tell(found: optuna.Study, trial: optuna.Trial, scores: Sequence[float | None], reached: Sequence[float],
          materials: Sequence[Material]) -> None:
    """Report a trial: the mean of its shares of what the defaults reach, or that it was pruned."""
    import optuna

    shares = []
    for value, default, material in zip(scores, reached, materials, strict=True):
        if value is None:
            found.tell(trial, state=optuna.trial.TrialState.PRUNED)
            return
        shares.append(value / default)
        trial.set_user_attr(material.name, shares[-1])
    found.tell(trial, math.fsum(shares) / len(shares))


def _suggested(trial: optuna.Trial, name: str, bounds: Bounds) -> float:
    if bounds.is_whole:
        return float(trial.suggest_int(name, int(bounds.low), int(bounds.high), log=bounds.is_log))
    return trial.suggest_float(name, bounds.low, bounds.high, log=bounds.is_log)


def _log(tracker: Tracker, family: str, found: optuna.Study, searched: Searched, traces: list[str],
         timeout_s: float) -> None:
    tags = {"kind": SEARCH, "family": family, "trace": ", ".join(traces)}
    trials = [{"number": trial.number, "state": trial.state.name, "value": trial.value, "params": trial.params,
               "shares": trial.user_attrs} for trial in found.trials]
    with tracker.run(f"search {family}", tags) as run:
        tracker.log(run, {**searched.best, "n_trials": searched.n_trials, "timeout_s": timeout_s},
                    {"share_of_defaults": searched.value})
        tracker.log_text(run, json.dumps(trials, indent=1) + "\n", f"{SYSTEM}/trials.json")
        tracker.log_figure(run, search_figure([trial.value for trial in found.trials]), "search.png")


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
    return source_hash("features", "models", "serving", "flows/retrain", "flows/study/search.py")


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
