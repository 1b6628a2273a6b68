"""The search: a family's hyperparameters by Optuna, over a stated budget, on the validation windows alone.

One trial is one setting on every trace given. Its value is the mean over traces of the choice score (integrated
Brier score on the validation window, lower is better) as a share of what the defaults in the code reach there: below
1 = better than they. Models are fitted on the train windows only; the test windows are never read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sojourn.flows.environment import be_quiet

be_quiet()

from sojourn.features.split import Split  # noqa: E402
from sojourn.flows.config import RetrainConfig  # noqa: E402
from sojourn.flows.jobs.job import job  # noqa: E402  (Prefect reads its settings on import)
from sojourn.flows.outside.tracking import Tracker  # noqa: E402
from sojourn.flows.outside.trials_database import ready_trials  # noqa: E402
from sojourn.flows.progress import console, stage  # noqa: E402
from sojourn.flows.reports.figures import search_figure  # noqa: E402
from sojourn.flows.since import since_s  # noqa: E402
from sojourn.flows.stage_settings import IngestSettings, TrainSettings  # noqa: E402
from sojourn.flows.stages.build_features import build_features  # noqa: E402
from sojourn.flows.stages.ingest import ingest  # noqa: E402
from sojourn.flows.stages.train import fit_settings  # noqa: E402
from sojourn.flows.stages.windows import windows  # noqa: E402
from sojourn.flows.tracking_uri import TrackingUri  # noqa: E402
from sojourn.flows.versions.opening import open_store  # noqa: E402
from sojourn.models.lifetime import SEARCH_SPACES, Bounds, FitSettings, SearchSpace  # noqa: E402  # noqa: E402
from sojourn.models.measures import BrierOverAges  # noqa: E402

if TYPE_CHECKING:
    import optuna

SEARCH = "search"
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
class Searched:
    """best: hyperparameters of the best trial. value: its score as a share of the defaults'. n_trials: all so far."""

    best: dict[str, float]
    value: float
    n_trials: int


@job("search")
def search(configs: Sequence[RetrainConfig], family: str, n_trials: int, timeout_s: float) -> Searched:
    """Search until `n_trials` trials are done in all, or for `timeout_s`; the same store goes on where it stopped.

    configs: one per trace; the first names store and seed. ValueError where the family has no search space.
    """
    import optuna

    if family not in SEARCH_SPACES:
        raise ValueError(f"family must have a search space ({', '.join(SEARCH_SPACES)}), got {family!r}")
    space, config = SEARCH_SPACES[family], configs[0]
    with stage("open the store"):
        tracker = open_store(config)
        trials_file = ready_trials(config.store)
    materials = [_material(each.ingestion, each.training) for each in configs]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    name = f"{family} on " + ", ".join(material.name for material in materials)
    found = optuna.create_study(study_name=name, load_if_exists=True, direction="minimize",
                                storage=TrackingUri.of_file(trials_file).plain,
                                sampler=optuna.samplers.TPESampler(seed=config.seed, n_startup_trials=8))
    if not found.trials:
        found.enqueue_trial(dict(space.defaults))
    with stage(f"defaults of {family}"):
        reached = [_score(space, space.defaults, material) for material in materials]
    with stage(f"search {family}") as report:

        def objective(trial: optuna.Trial) -> float:
            values = {name: _suggested(trial, name, bounds) for name, bounds in space.bounds.items()}
            shares = []
            for step, (material, default) in enumerate(zip(materials, reached, strict=True)):
                shares.append(_score(space, values, material) / default)
                trial.set_user_attr(material.name, shares[-1])
                report(trial.number * len(materials) + step + 1, n_trials * len(materials))
            return math.fsum(shares) / len(shares)

        n_left = max(n_trials - sum(trial.state.is_finished() for trial in found.trials), 0)
        if n_left:
            found.optimize(objective, n_trials=n_left, timeout=timeout_s)
    searched = Searched({name: float(value) for name, value in found.best_params.items()}, found.best_value,
                        len(found.trials))
    with stage("log"):
        _log(tracker, family, found, searched, [material.name for material in materials], timeout_s)
    console.print(f"\n{name}: best of {searched.n_trials} trials at {searched.value:.4f} of the defaults' score "
                  "(integrated Brier score on the validation windows; below 1 = better)", soft_wrap=True)
    for parameter, value in searched.best.items():
        console.print(f"  {parameter:<18}{value:>10.4g}   default {space.defaults[parameter]:.4g}")
    return searched


def _material(ingestion: IngestSettings, training: TrainSettings) -> Material:
    ingested = ingest(ingestion)
    features = build_features(ingestion.store, ingested)
    split = windows(features.rows, training.test_share, training.valid_share,
                    since_s(training.since, features.trace))
    return Material(ingested.name, without_test(split), fit_settings(training, features))


def without_test(split: Split) -> Split:
    """The split with a stub for the refit, which a trial does not need, and nothing of the test window."""
    train = split.train
    ends = train.is_event.nonzero()[0][:_N_REFIT]
    return replace(split, past=train.take(ends), test=split.test.take(np.empty(0, np.int64)))


def _suggested(trial: optuna.Trial, name: str, bounds: Bounds) -> float:
    if bounds.is_whole:
        return float(trial.suggest_int(name, int(bounds.low), int(bounds.high), log=bounds.is_log))
    return trial.suggest_float(name, bounds.low, bounds.high, log=bounds.is_log)


def _score(space: SearchSpace, values: Mapping[str, float], material: Material) -> float:
    """The Brier score over ages on the validation window; `TrialPruned` where the forest may grow too large."""
    import optuna

    split, params = material.split, space.params(values)
    model = space.build(values)
    model.fit(split.train, split.valid, split.past, replace(material.settings, params=params))
    exported = model.export()
    if exported is not None and exported.n_leaves > MAX_LEAVES:
        raise optuna.TrialPruned(f"{exported.n_leaves:,} leaves")
    return BrierOverAges.of(model.validation_table_, split.valid).score()


def _log(tracker: Tracker, family: str, found: optuna.Study, searched: Searched, traces: list[str],
         timeout_s: float) -> None:
    tags = {"kind": SEARCH, "family": family, "trace": ", ".join(traces)}
    trials = [{"number": trial.number, "state": trial.state.name, "value": trial.value, "params": trial.params,
               "shares": trial.user_attrs} for trial in found.trials]
    with tracker.run(f"search {family}", tags) as run:
        tracker.log(run, {**searched.best, "n_trials": searched.n_trials, "timeout_s": timeout_s},
                    {"share_of_defaults": searched.value})
        tracker.log_text(run, json.dumps(trials, indent=1) + "\n", "trials.json")
        tracker.log_figure(run, search_figure([trial.value for trial in found.trials]), "search.png")
