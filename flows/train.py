"""The `train` stage: fit the families, and choose the candidate on the validation window alone."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from prefect import task

from sojourn.features.creation import FeatureRows, backoff_keys
from sojourn.features.split import Split
from sojourn.flows.config import RetrainConfig
from sojourn.flows.progress import stage
from sojourn.flows.windows import windows
from sojourn.models.lifetime import LIFETIME_MODELS, FitSettings, LifetimeModel
from sojourn.models.measures import choose_threshold, score_model
from sojourn.serving.encoder import Encoder


@dataclass(frozen=True, slots=True)
class Trained:
    """A fitted family, how long the fit took, and its scores on the validation window."""

    family: str
    model: LifetimeModel
    fit_s: float
    validation: dict[str, float]

    @property
    def choice_score(self) -> float:
        """The Brier score over ages on the validation window, lower is better; infinite where none can be followed."""
        return self.validation.get("ages.ibs", math.inf)


@dataclass(frozen=True, slots=True)
class Training:
    """All families of one run, their windows, the trace's own threshold for "long-lived" (s), and the candidate."""

    families: tuple[Trained, ...]
    split: Split
    threshold_s: int
    candidate: str

    def of(self, family: str) -> Trained:
        """The fitted family of that name."""
        return next(trained for trained in self.families if trained.family == family)


@task(name="train")
def train(config: RetrainConfig, encoder: Encoder, rows: FeatureRows) -> Training:
    """Fit each configured family; the candidate is the servable one with the best validation score."""
    split = windows(config, rows)
    threshold_s = config.long_lived_s or choose_threshold(split.train)
    settings = FitSettings(backoff_keys(encoder), config.n_threads, config.seed, names=rows.names)
    fitted = [fit_family(name, split, settings, threshold_s) for name in config.families]
    servable = [trained for trained in fitted if trained.model.export() is not None]
    candidate = min(servable, key=lambda trained: trained.choice_score)
    return Training(tuple(fitted), split, threshold_s, candidate.family)


def fit_family(name: str, split: Split, settings: FitSettings, threshold_s: int) -> Trained:
    """Fit one family; ValueError where it refuses the trace."""
    with stage(f"train {name}"):
        started = time.perf_counter()
        model = LIFETIME_MODELS[name]().fit(split.train, split.valid, split.past, settings)
        fit_s = time.perf_counter() - started
        return Trained(name, model, fit_s, score_model(model.validation_table_, split.valid, threshold_s))
