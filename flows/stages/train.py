"""The `train` stage: fit the families, and choose the candidate on the validation window alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from prefect import task

from sojourn.features.creation import backoff_keys
from sojourn.features.split import Split
from sojourn.flows.progress import console, stage
from sojourn.flows.settings.retrain import TrainSettings
from sojourn.flows.settings.trace import since_s
from sojourn.flows.stages.build_features import Features
from sojourn.flows.stages.choice import Choice, choose
from sojourn.flows.stages.learnt_refresh import LearntRefresh, learnt_refresh
from sojourn.flows.stages.run_windows import run_windows
from sojourn.flows.stages.trained import Trained
from sojourn.models.lifetime import LIFETIME_MODELS, FitSettings, Learner, limit_text
from sojourn.models.measures import BrierOverAges, choose_threshold, parts_by_age, score_model
from sojourn.serving.inputs import LIMIT


@dataclass(frozen=True, slots=True)
class Training:
    """All families of one run, their windows, the trace's own threshold for "long-lived" (s), and the choice.

    refreshing: what predicts running requests anew. from_s: where the training window begins.
    """

    families: tuple[Trained, ...]
    split: Split
    threshold_s: int
    choice: Choice
    refreshing: LearntRefresh
    from_s: int = 0

    @property
    def candidate(self) -> str:
        """The chosen family."""
        return self.choice.family

    def of(self, family: str) -> Trained:
        """The fitted family of that name."""
        return next(trained for trained in self.families if trained.family == family)


@task(name="train")
def train(settings: TrainSettings, features: Features, learner: Learner | None = None) -> Training:
    """Fit each configured family; the candidate is chosen of the servable ones by their validation scores.

    learner: grows the trees of those that have some; None = in this process.
    """
    split = run_windows(settings, features)
    threshold_s = settings.long_lived_s or choose_threshold(split.train)
    tell_limits(split, features)
    fit = replace(fit_settings(settings, features), learner=learner)
    fitted: list[Trained] = []
    for name in settings.families:
        fitted.append(fit_family(name, split, with_fitted(fit, fitted), threshold_s))
    choice = choose(fitted, split.valid, features.encoder.history, settings.seed)
    served = next(trained for trained in fitted if trained.family == choice.family)
    refreshing = learnt_refresh(features, split, fit, served, settings.is_refreshed)
    return Training(tuple(fitted), split, threshold_s, choice, refreshing, since_s(settings.since, features.trace))


@contextmanager
def learner_of(n_fit_workers: int, dask: str | None, store: Path) -> Iterator[Learner | None]:
    """Grows trees on so many workers of the scheduler at `dask`; None for one: in this process."""
    if n_fit_workers == 1 or dask is None:
        yield None
        return
    from sojourn.flows.outside.dask_boosting import dask_learner

    with dask_learner(dask, n_fit_workers, store) as learner:
        yield learner


def fit_settings(settings: TrainSettings, features: Features) -> FitSettings:
    """What every family's fit is given beside its windows."""
    return FitSettings(backoff_keys(features.encoder), settings.n_threads, settings.seed, names=features.rows.names)


def tell_limits(split: Split, features: Features) -> None:
    """Print how the training window's ends lie to the limits that its requests state, if they state any."""
    names = features.rows.names
    text = limit_text(split.train, split.train.features[:, names.index(LIMIT)]) if LIMIT in names else ""
    if text:
        console.print(text, soft_wrap=True)


def with_fitted(settings: FitSettings, fitted: Sequence[Trained]) -> FitSettings:
    """For a family that is made of others: those of the run so far."""
    return replace(settings, fitted={trained.family: trained.model for trained in fitted})


def fit_family(name: str, split: Split, settings: FitSettings, threshold_s: int) -> Trained:
    """Fit one family; ValueError where it refuses the trace."""
    with stage(f"train {name}"):
        started = time.perf_counter()
        model = LIFETIME_MODELS[name]().fit(split.train, split.valid, split.past, settings)
        fit_s = time.perf_counter() - started
        parts = parts_by_age(model.validation_table_, split.valid)
        scores = score_model(model.validation_table_, split.valid, threshold_s, parts)
        return Trained(name, model, fit_s, scores, BrierOverAges.of_parts(parts, len(split.valid)))
