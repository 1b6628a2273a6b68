"""The stage `train`: families are fitted, and one is chosen on the validation window alone.

The one-standard-error rule (Breiman, Friedman, Olshen and Stone 1984, section 3.4.3), on paired differences: of the
families that are worse than the best by at most one standard error of the difference, the simplest is taken. The noise
is of owners: they are drawn with replacement, the same for each family.

A second model predicts running requests anew. And it is chosen whether instant ends are kept apart in owners'
histories: requests that end within a second say little of how long the others of their owner stay, but on some traces
they come in bursts, and then an owner's last end tells that the next one fails, too (docs/lifetime.md). Both readings
of the history are tried, with a hazard model of few rows, and inside one standard error the plain one stays."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from prefect import task

from sojourn.features.creation import FeatureRows, backoff_keys
from sojourn.features.later_file import test_from_s
from sojourn.features.refreshed import RefreshedRows, apart_rows, refreshed_rows, with_instants_apart
from sojourn.features.split import Examples, Split, split_by_time
from sojourn.flows.console import console, stage
from sojourn.flows.retrain.features import Features, made_rows
from sojourn.flows.settings.retrain import TrainSettings
from sojourn.flows.settings.trace import since_s
from sojourn.models.curve_table import CurveTable
from sojourn.models.lifetime import (
    LIFETIME_MODELS,
    AgeGain,
    FitSettings,
    HazardModel,
    LifetimeModel,
    Refresh,
    fit_refresh,
    limit_text,
)
from sojourn.models.measures import (
    BrierOverAges,
    OwnerDraws,
    choose_threshold,
    drawn_owners,
    parts_by_age,
    score_model,
    standard_error,
)
from sojourn.serving.inputs import LIMIT, Encoder, HistoryDefinition, HistoryState
from sojourn.simulator.measures import signed_text

CHOICE_TAG = "choice"
"""Tag of a run, and of a version: what was chosen and why, in words."""
N_ENDS_MIN = 100
"""With fewer observed ends in the validation window than this, the choice is said to be uncertain."""
INSTANTS_TAG = "instants"
"""Tag of a run, and of a version: whether instant ends are apart and why, in words."""
INSTANT_S = 1
"""Ends within so many seconds are instant: times are whole seconds, so a start and an end beside each other."""
SHARE_MIN, N_MIN = 0.01, 200
"""Both readings are tried where at least this share of the training window's ends are instant, and so many."""
N_TRAIN_MAX, N_VALID_MAX = 8_000, 5_000
"""Rows that the choice is made on: a seeded draw of more."""
TOGETHER, APART = "together", "apart"


@dataclass(frozen=True, slots=True)
class Trained:
    """A fitted family, how long the fit took, and its scores on the validation window.

    brier: the score over ages by row.
    """

    family: str
    model: LifetimeModel
    fit_s: float
    validation: dict[str, float]
    brier: BrierOverAges

    @property
    def choice_score(self) -> float:
        """The Brier score over ages on the validation window, lower is better; infinite where none can be followed."""
        return self.validation.get("ages.ibs", math.inf)


def run_windows(settings: TrainSettings, features: Features) -> Split:
    """The windows of a run: those of its settings, or the later file that it is judged on; see `windows`."""
    trace = features.trace
    return windows(features.rows, settings.test_share, settings.valid_share, since_s(settings.since, trace),
                   test_from_s(trace.meta))


def windows(rows: FeatureRows, test_share: float, valid_share: float, from_s: int = 0,
            test_from_s: int | None = None) -> Split:
    """The windows of these shares of the requests; ValueError where one that families are fitted or chosen on has no
    observed end. from_s, test_from_s: where the training and the test window begin, see `split_by_time`."""
    split = split_by_time(rows, test_share, valid_share, from_s=from_s, test_from_s=test_from_s)
    for name, seen, cut_s in (("train", split.train, split.valid_from_s), ("valid", split.valid, split.test_from_s)):
        if not seen.is_event.any():
            raise ValueError(f"the {name} window must hold at least one observed end, got {len(seen):,} requests that "
                             f"all still ran at its end, second {cut_s}")
    return split


@dataclass(frozen=True, slots=True)
class Choice:
    """family: what is chosen. rival: where a simpler family was taken, the best by mean; else the next best, "" = none.

    behind: by how much the rival's score is above the family's, below 0 where the rival is better; error: the standard
    error of this difference. score: of the family; NaN where no family could be scored. The rest is of the validation
    window: n_requests, n_ends (observed), n_owners that were drawn, 0 = requests one by one.
    """

    family: str
    rival: str
    score: float
    behind: float
    error: float
    n_requests: int
    n_ends: int
    n_owners: int

    @property
    def best(self) -> str:
        """The best by mean of those that were chosen from."""
        return self.rival if self.behind < 0.0 else self.family

    def text(self) -> str:
        """Sentences for tables, cards and tags: what was chosen, against what, on how much, and if it is uncertain.

        >>> Choice("km", "", 0.1, float("nan"), float("nan"), 60, 40, 0).text().partition(". ")[0]
        'km: no other family could be chosen (60 requests, 40 ends; requests drawn, too few owners)'
        """
        of = f"{self.n_requests:,} requests, {self.n_ends:,} ends; {self._drawn()}"
        if math.isnan(self.score):
            found = f"the simplest, because the validation window could not be scored ({of})"
        elif not self.rival:
            found = f"no other family could be chosen ({of})"
        elif self.behind < 0.0:
            found = (f"{self.rival} was better by {-self.behind:.4f} on the validation window (Brier over ages), "
                     f"within its standard error of {self._error()} ({of}); {self.family} stands before it "
                     "in the order of simplicity")
        else:
            found = (f"best on the validation window (Brier over ages), {self.behind:.4f} before {self.rival}, with a "
                     f"standard error of {self._error()} ({of})")
        uncertain = f" Fewer than {N_ENDS_MIN} ends: the choice is uncertain." if self.n_ends < N_ENDS_MIN else ""
        return f"{self.family}: {found}.{uncertain}"

    def _error(self) -> str:
        return f"{self.error:.4f}" if math.isfinite(self.error) else "unknown size"

    def _drawn(self) -> str:
        return f"{self.n_owners:,} owners drawn" if self.n_owners else "requests drawn, too few owners"


def choose(families: Sequence[Trained], valid: Examples, history: HistoryDefinition, seed: int) -> Choice:
    """Of the families that can be served; of all where none can. ValueError where there is none.

    valid: the validation window, whose curves each family has. seed: of the draws. Where the window has fewer owners
    than a bootstrap needs, requests are drawn, as if they were independent.
    """
    servable = [trained for trained in families if trained.model.export() is not None] or list(families)
    codes, n_owners = drawn_owners(valid, history)
    briers = {trained.family: trained.brier for trained in servable}
    family, rival, behind, error = simplest_within_error(
        briers, {name: LIFETIME_MODELS[name].complexity for name in briers}, OwnerDraws(codes, seed=seed))
    return Choice(family, rival, briers[family].score(), behind, error, len(valid), int(valid.is_event.sum()), n_owners)


def simplest_within_error(briers: Mapping[str, BrierOverAges], complexity: Mapping[str, int],
                          draws: OwnerDraws) -> tuple[str, str, float, float]:
    """The chosen name, its rival, and the rival's score minus the chosen one's with its standard error.

    Of equally simple ones the better is taken, then the first. A name without a score is only taken where none has one:
    then the simplest is. A name with the same answers as the chosen one is no rival of it. One that is worse than
    another by mean and no simpler is not taken: being noisier than that one would be its only merit.
    """
    names = list(briers)
    if not names:
        raise ValueError("families must hold at least one to choose from, got none")
    scores = {name: briers[name].score() for name in names}
    scored = sorted((name for name in names if math.isfinite(scores[name])), key=lambda name: scores[name])
    if not scored:
        return min(names, key=lambda name: complexity[name]), "", math.nan, math.nan
    best = scored[0]
    drawn = {name: np.empty(len(draws)) for name in scored}
    for at, weight in enumerate(draws):
        for name in scored:
            drawn[name][at] = briers[name].score(weight)
    errors = {name: standard_error(drawn[name] - drawn[best], draws.n_units) if name != best else 0.0
              for name in scored}
    level = [name for name in scored if scores[name] - scores[best] <= errors[name]
             and not any(scores[other] < scores[name] and complexity[other] <= complexity[name] for other in scored)]
    chosen = min(level, key=lambda name: (complexity[name], scores[name]))
    if chosen != best:
        return chosen, best, scores[best] - scores[chosen], errors[chosen]
    rival = next((name for name in scored[1:] if not np.array_equal(drawn[name], drawn[best])), "")
    return chosen, rival, *((scores[rival] - scores[best], errors[rival]) if rival else (math.nan, math.nan))


@dataclass(frozen=True, slots=True)
class LearntRefresh:
    """The model, and the trace's rows at its ages; None where nothing was learnt."""

    refresh: Refresh
    rows: RefreshedRows | None

    def on_test(self, split: Split, held: CurveTable, features: Features, seed: int) -> tuple[AgeGain, ...]:
        """Held and refreshed curves on the test window, at the ages that were judged. held: of the chosen family."""
        if self.rows is None:
            return ()
        return self.refresh.gains_on(split.test, self.rows, held, features.encoder.history, seed)


def learnt_refresh(features: Features, split: Split, settings: FitSettings, served: Trained,
                   is_wanted: bool) -> LearntRefresh:
    """Learn it for the family that is served. Not of a trace that is held in part: its history is of all requests."""
    if not is_wanted:
        return LearntRefresh(Refresh(None, (), "is_refreshed is false"), None)
    if features.sample is not None:
        return LearntRefresh(Refresh(None, (), "the trace is trained on in part"), None)
    with stage("train refresh"):
        rows = refreshed_rows(features.trace, features.encoder, features.rows)
        refresh = fit_refresh(split, rows, settings, served.model.validation_table_, features.encoder.history)
    return LearntRefresh(refresh, None if refresh.model is None else rows)


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
def train(settings: TrainSettings, features: Features) -> Training:
    """Fit each configured family; the candidate is chosen of the servable ones by their validation scores."""
    split = run_windows(settings, features)
    threshold_s = settings.long_lived_s or choose_threshold(split.train)
    tell_limits(split, features)
    fit = fit_settings(settings, features)
    fitted: list[Trained] = []
    for name in settings.families:
        fitted.append(fit_family(name, split, with_fitted(fit, fitted), threshold_s))
    choice = choose(fitted, split.valid, features.encoder.history, settings.seed)
    served = next(trained for trained in fitted if trained.family == choice.family)
    refreshing = learnt_refresh(features, split, fit, served, settings.is_refreshed)
    return Training(tuple(fitted), split, threshold_s, choice, refreshing, since_s(settings.since, features.trace))


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


@dataclass(frozen=True, slots=True)
class Instants:
    """is_apart: what is chosen. share: instant ends of the training window's ends; n: how many.

    gain: by how much the Brier score over ages is lower with them apart, on the validation window; error: its standard
    error over owners; both NaN where it was not tried. reason: why it was not, "" where it was.
    """

    is_apart: bool
    share: float
    n: int
    gain: float = math.nan
    error: float = math.nan
    reason: str = ""

    def text(self) -> str:
        """One sentence: what was chosen, and why; "" where there are too few instant ends to try.

        >>> print(Instants(True, 0.04, 480, 0.0031, 0.0017).text())
        Instant ends (4.0 % within 1 s) are apart in owners' histories: +0.0031 +- 0.0017 on the validation window.
        """
        if self.n < N_MIN or self.share < SHARE_MIN:
            return ""
        are = f"Instant ends ({100.0 * self.share:.1f} % within {INSTANT_S} s) are"
        if self.reason:
            return f"{are} not apart in owners' histories: {self.reason}."
        word = "apart" if self.is_apart else "not apart"
        found = f"{signed_text(self.gain, 4)} +- {self.error:.4f}" if math.isfinite(self.gain) else "no score"
        return f"{are} {word} in owners' histories: {found} on the validation window."

    def tags(self) -> dict[str, str]:
        """For a run and a version; none where there is nothing to say."""
        return {INSTANTS_TAG: self.text()} if self.text() else {}


def read_instants(settings: TrainSettings, features: Features) -> tuple[Features, Instants]:
    """The features as the choice reads them, and the choice; the same features where the plain reading stays."""
    split = run_windows(settings, features)
    is_instant = split.train.is_event & (split.train.lifetime_s <= INSTANT_S)
    n, n_ends = int(is_instant.sum()), int(split.train.is_event.sum())
    share = n / max(n_ends, 1)
    if n < N_MIN or share < SHARE_MIN:
        return features, Instants(False, share, n)
    if all(key.kind != "owner" for key in features.encoder.history.keys):
        return _told(features, Instants(False, share, n, reason="the trace names no owner"))
    if features.sample is not None:
        return _told(features, Instants(False, share, n, reason="the trace is trained on in part"))
    with stage("instant ends apart?"):
        encoder = with_instants_apart(features.encoder, INSTANT_S)
        rows = _apart_rows(features, encoder)
        if rows is None:
            return _told(features, Instants(False, share, n, reason="more owners than the history keeps"))
        found = _tried(settings, features, rows, split)
        if found.is_apart:
            history = HistoryState.from_arrays(encoder.history, features.history.to_arrays())
            features = replace(features, encoder=encoder, rows=rows, history=history)
    return _told(features, replace(found, share=share, n=n))


def reread(features: Features, encoder: Encoder) -> FeatureRows | None:
    """The rows as an encoder gives them that only sets instant ends apart, of features that do not.

    None for another encoder, and where they can't be told from the rows: of a trace of two files or in part, and of
    more owners than the history keeps.
    """
    instant_s = encoder.history.instant_s
    is_whole = test_from_s(features.trace.meta) is None and features.sample is None
    if not is_whole or instant_s is None or encoder != with_instants_apart(features.encoder, instant_s):
        return None
    try:
        return apart_rows(features.rows, encoder)
    except ValueError:
        return None


def _told(features: Features, found: Instants) -> tuple[Features, Instants]:
    console.print(found.text(), soft_wrap=True)
    return features, found


def _apart_rows(features: Features, encoder: Encoder) -> FeatureRows | None:
    """The rows with instant ends apart; None where owners are too many to tell."""
    if test_from_s(features.trace.meta) is not None:  # what each file knows of an end may differ
        return made_rows(features.trace, encoder)[0]
    return reread(features, encoder)


def _tried(settings: TrainSettings, features: Features, other: FeatureRows, split: Split) -> Instants:
    """What is chosen of the two readings; of the ends it says nothing yet."""
    rng = np.random.default_rng(settings.seed)
    train, valid = _drawn(split.train, N_TRAIN_MAX, rng), _drawn(split.valid, N_VALID_MAX, rng)
    briers = {}
    for name, each in ((TOGETHER, features.rows), (APART, other)):
        fit = FitSettings((), settings.n_threads, settings.seed, names=each.names)
        own_train, own_valid = (replace(rows, features=each.features[rows.idx_row]) for rows in (train, valid))
        model = HazardModel().learn(own_train, own_valid, fit)
        briers[name] = BrierOverAges.of(model.validation_table_, own_valid)
    codes, _ = drawn_owners(valid, features.encoder.history)
    chosen, rival, behind, error = simplest_within_error(briers, {TOGETHER: 1, APART: 2},
                                                         OwnerDraws(codes, seed=settings.seed))
    if not rival:  # the same answers, or none could be scored
        return Instants(False, math.nan, 0)
    return Instants(chosen == APART, math.nan, 0, behind if chosen == APART else -behind, error)


def _drawn(rows: Examples, n_max: int, rng: np.random.Generator) -> Examples:
    return rows if len(rows) <= n_max else rows.take(np.sort(rng.permutation(len(rows))[:n_max]))
