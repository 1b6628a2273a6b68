"""The stage `train`: fits families, and chooses one on the validation window alone.

It uses the one-standard-error rule (Breiman, Friedman, Olshen and Stone 1984, section 3.4.3) on paired differences: of
the families that are worse than the best by at most one standard error of the difference, it takes the first in the
order of `Family.place`. Owners are drawn with replacement, the same for each family. A family whose 90 % quantile
covers too few or too many is left out before, if another that is about as good does not. So is one that takes its
spread from the validation window, if few requests end there.

A second model predicts running requests again. And the stage decides whether owners' histories count instant ends
apart: a hazard model of few rows compares both; within one standard error the plain one stays.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, replace
from threading import Event

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
from sojourn.models.curve_table import CurveTable, HazardTable, online_table
from sojourn.models.lifetime import (
    LIFETIME_MODELS,
    STOP,
    AgeGain,
    EventLog,
    FitSettings,
    HazardModel,
    LifetimeModel,
    Refresh,
    fit_refresh,
    limit_text,
)
from sojourn.models.measures import (
    RESOLVED,
    BrierOverAges,
    CalibrationByAge,
    OwnerDraws,
    choose_threshold,
    drawn_owners,
    first_within_error,
    limits_of,
    parts_by_age,
    score_model,
)
from sojourn.serving.inputs import LIMIT, Encoder, HistoryDefinition, HistoryState
from sojourn.simulator.measures import signed_text

CHOICE_TAG = "choice"
"""Tag of a run, and of a version: the choice with its reason, in words."""
N_ENDS_MIN = 100
"""With fewer observed ends in the validation window the choice is called uncertain."""
INSTANTS_TAG = "instants"
"""Tag of a run, and of a version: whether instant ends are apart, with the reason, in words."""
INSTANT_S = 1
"""Lifetimes up to this are instant ends: in whole seconds, start and end are next to each other."""
SHARE_MIN, N_MIN = 0.01, 200
"""Both histories are compared if at least this share and number of training ends are instant."""
N_TRAIN_MAX, N_VALID_MAX = 8_000, 5_000
"""The most rows for that choice, drawn by the seed."""
TOGETHER, APART = "together", "apart"
RESIDUAL_ENDS_MIN = 1_000
"""With fewer observed ends in the validation window, families with residuals of that window fit it too well."""
COVERED, COVERED_ENDS_MIN = (0.85, 0.95), 50
"""What the 90 % quantile must cover at creation and at 1 h, if so many ends are observed there."""
CLOSE = 1.1
"""Coverage is worth a tenth of the Brier score: a version without it is not promoted (docs/gates.md)."""


AT_ONCE_UP_TO = 500_000
"""Families are fitted at once up to so many requests; the rows of two fits need more memory than one."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A fitted family, how long the fit took, and its scores on the validation window.

    brier: the score over ages by row. recalibrated: curves of the validation window, if the family's
    are served recalibrated online, and judged so.
    """

    family: str
    model: LifetimeModel
    fit_s: float
    validation: dict[str, float]
    brier: BrierOverAges
    recalibrated: HazardTable | None = None

    @property
    def on_validation(self) -> CurveTable:
        """The validation window's curves, by the model that was fitted without it."""
        return self.model.validation_table_ if self.recalibrated is None else self.recalibrated

    def served(self, rows: Examples, decided_s: np.ndarray) -> CurveTable:
        """The curves of a window's rows, as of a predictor loaded when it began. decided_s: int64, of all rows."""
        table = self.model.curve_table(rows)
        if self.recalibrated is None or not isinstance(table, HazardTable):
            return table
        return online_table(table, rows, decided_s[rows.idx_row])

    @property
    def choice_score(self) -> float:
        """The Brier score over ages on the validation window, lower is better; inf if unknown."""
        return self.validation.get("ages.ibs", math.inf)


def run_windows(settings: TrainSettings, features: Features) -> Split:
    """The windows of a run, by its settings; a later file is the test window; see `windows`."""
    trace = features.trace
    return windows(features.rows, settings.test_share, settings.valid_share, since_s(settings.since, trace),
                   test_from_s(trace.meta))


def windows(rows: FeatureRows, test_share: float, valid_share: float, from_s: int = 0,
            test_from_s: int | None = None) -> Split:
    """The windows of these shares of the requests; ValueError if the training or validation window
    has no observed end. from_s, test_from_s: begin of training and test, see `split_by_time`."""
    split = split_by_time(rows, test_share, valid_share, from_s=from_s, test_from_s=test_from_s)
    for name, part, cut_s in (("train", split.train, split.valid_from_s), ("valid", split.valid, split.test_from_s)):
        if not part.is_event.any():
            raise ValueError(f"the {name} window must hold at least one observed end, got {len(part):,} requests that "
                             f"all still ran at its end, second {cut_s}")
    return split


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen family. rival: the best by mean if that is another family, else the next, or "".

    behind: the rival's score less the family's, below 0 if the rival is better; error: the standard error of this
    difference. score: of the family; NaN if no family could be scored. Of the validation window: n_requests, n_ends
    (observed), n_owners drawn (0 = single requests). left_out: families and what their 90 % quantiles cover.
    recalibrated: see `Trained`. not_compared: see `comparable`.
    """

    family: str
    rival: str
    score: float
    behind: float
    error: float
    n_requests: int
    n_ends: int
    n_owners: int
    left_out: tuple[str, ...] = ()
    recalibrated: bool = False
    not_compared: tuple[str, ...] = ()

    @property
    def best(self) -> str:
        """The best family by mean."""
        return self.rival if self.behind < 0.0 else self.family

    def text(self) -> str:
        """Sentences for tables, cards and tags: the choice, its rival, the data, any uncertainty.

        >>> Choice("km", "", 0.1, float("nan"), float("nan"), 60, 40, 0).text().partition(". ")[0]
        'km: no other family could be chosen (60 requests, 40 ends; requests drawn, too few owners)'
        """
        of = f"{self.n_requests:,} requests, {self.n_ends:,} ends; {self._drawn()}"
        if math.isnan(self.score):
            reason = f"the first of the order, because the validation window could not be scored ({of})"
        elif not self.rival:
            reason = f"no other family could be chosen ({of})"
        elif self.behind < 0.0:
            reason = (f"{self.rival} was better by {-self.behind:.4f} on the validation window (Brier over ages), "
                      f"within its standard error of {self._error()} ({of}); {self.family} stands before it "
                      "in the order of level families")
        else:
            reason = (f"best on the validation window (Brier over ages), {self.behind:.4f} before {self.rival}, with a "
                      f"standard error of {self._error()} ({of})")
        uncertain = f" Fewer than {N_ENDS_MIN} ends: the choice is uncertain." if self.n_ends < N_ENDS_MIN else ""
        out = f" Left out for the coverage of their 90 % quantile: {', '.join(self.left_out)}." if self.left_out else ""
        out += (f" Not compared, as they take their spread from the same window: {', '.join(self.not_compared)}."
                if self.not_compared else "")
        how = " Served recalibrated by its own ends, so that the 90 % quantile covers." if self.recalibrated else ""
        return f"{self.family}: {reason}.{how}{out}{uncertain}"

    def _error(self) -> str:
        return f"{self.error:.4f}" if math.isfinite(self.error) else "unknown size"

    def _drawn(self) -> str:
        return f"{self.n_owners:,} owners drawn" if self.n_owners else "requests drawn, too few owners"


def choose(families: Sequence[Trained], valid: Examples, history: HistoryDefinition, seed: int,
           names: Sequence[str] = ()) -> Choice:
    """The choice among the servable families, or among all if none is. ValueError without families.

    valid: the validation window; each family has its curves. seed: of the draws. If the window has too few owners for
    a bootstrap, requests are drawn, as if they were independent. names: of the features, for requests' limits.
    """
    servable = [trained for trained in families if trained.model.export() is not None] or list(families)
    compared = comparable(servable, valid)
    not_compared = tuple(trained.family for trained in servable if trained not in compared)
    codes, n_owners = drawn_owners(valid, history)
    draws = OwnerDraws(codes, seed=seed)
    left_out = _uncovered(compared, valid, names, draws)
    briers = {trained.family: trained.brier for trained in compared if trained.family not in left_out}
    family, rival, behind, error = first_within_error(
        briers, {name: LIFETIME_MODELS[name].place for name in briers}, draws)
    recalibrated = any(one.family == family and one.recalibrated is not None for one in families)
    return Choice(family, rival, briers[family].score(), behind, error, len(valid), int(valid.is_event.sum()), n_owners,
                  tuple(left_out.values()), recalibrated, not_compared)


def comparable(families: Sequence[Trained], valid: Examples) -> list[Trained]:
    """Those that the validation window can compare: with few ends not those that take their residuals from it."""
    if int(valid.is_event.sum()) >= RESIDUAL_ENDS_MIN:
        return list(families)
    whole = [trained for trained in families if LIFETIME_MODELS[trained.family].answers == "whole distribution"]
    return whole if any(math.isfinite(trained.choice_score) for trained in whole) else list(families)


def as_served(families: Sequence[Trained], valid: Examples, decided_s: np.ndarray, names: Sequence[str],
              threshold_s: int) -> list[Trained]:
    """The families; of those close to the best, the ones that do not cover are recalibrated, if that brings their
    coverage on the validation window nearer and costs no accuracy there. decided_s: int64, of all rows."""
    limit_s, close = limits_of(valid, names), _close(comparable(families, valid))

    def chosen(trained: Trained) -> Trained:
        table = trained.model.validation_table_
        before = _covered(CalibrationByAge.of(table, valid, limit_s))
        if trained not in close or not isinstance(table, HazardTable) or all(map(_is_within, before.values())):
            return trained
        table = online_table(table, valid, decided_s[valid.idx_row])
        parts, after = parts_by_age(table, valid), _covered(CalibrationByAge.of(table, valid, limit_s))
        brier = BrierOverAges.of_parts(parts, len(valid))
        if brier.score() > trained.brier.score() or _farthest(after) >= _farthest(before):
            return trained
        return replace(trained, validation=score_model(table, valid, threshold_s, parts), brier=brier,
                       recalibrated=table)

    return list(map(chosen, families))


def _close(families: Sequence[Trained]) -> list[Trained]:
    best = min(trained.choice_score for trained in families)
    return [trained for trained in families if trained.choice_score <= CLOSE * best]


def _covered(calibration: CalibrationByAge) -> dict[str, float]:
    """What the 90 % quantile covers at creation and at 1 h, by the name of the measure, if enough end there."""
    scores, shares = calibration.scores(), {}
    for prefix in ("creation", "age_1h"):
        name = f"{prefix}.coverage_90"
        name += RESOLVED if f"{name}{RESOLVED}" in scores else ""
        if scores.get(f"{prefix}.n_ends", 0) >= COVERED_ENDS_MIN and not math.isnan(scores[name]):
            shares[name] = scores[name]
    return shares


def _is_within(share: float) -> bool:
    return COVERED[0] <= share <= COVERED[1]


def _farthest(shares: Mapping[str, float]) -> float:
    return max(abs(share - 0.9) for share in shares.values())


def _uncovered(families: Sequence[Trained], valid: Examples, names: Sequence[str], draws: OwnerDraws) -> dict[str, str]:
    """Of the families close to the best, those whose coverage is outside COVERED with its 95 % interval, if another's
    is within."""
    close, found = _close(families), {}
    for trained in close:
        calibration = CalibrationByAge.of(trained.on_validation, valid, limits_of(valid, names))
        shares = {name: share for name, share in _covered(calibration).items() if not _is_within(share)}
        intervals = calibration.intervals(draws) if shares else {}
        words = [f"{share:.1%} at {'1 h' if '1h' in name else 'creation'}" for name, share in shares.items()
                 if intervals[name][1] < COVERED[0] or intervals[name][0] > COVERED[1]]
        if words:
            found[trained.family] = f"{trained.family} ({' and '.join(words)})"
    return found if len(found) < len(close) else {}


@dataclass(frozen=True, slots=True)
class LearntRefresh:
    """The model for running requests, and the trace's rows at its ages; None if there is no model."""

    refresh: Refresh
    rows: RefreshedRows | None

    def on_test(self, split: Split, held: CurveTable, features: Features, seed: int) -> tuple[AgeGain, ...]:
        """Held and refreshed curves on the test window, at the judged ages. held: the choice's."""
        if self.rows is None:
            return ()
        return self.refresh.gains_on(split.test, self.rows, held, features.encoder.history, seed)


def learnt_refresh(features: Features, split: Split, settings: FitSettings, served: Trained,
                   is_wanted: bool) -> LearntRefresh:
    """The served family's model for running requests; none for a trace in part."""
    if not is_wanted:
        return LearntRefresh(Refresh(None, (), "refresh is false"), None)
    if features.sample is not None:
        return LearntRefresh(Refresh(None, (), "the trace is trained on in part"), None)
    with stage("train refresh"):
        rows = refreshed_rows(features.trace, features.encoder, features.rows)
        refresh = fit_refresh(split, rows, settings, served.on_validation, features.encoder.history)
    return LearntRefresh(refresh, None if refresh.model is None else rows)


@dataclass(frozen=True, slots=True)
class Training:
    """All families of one run, their windows, the trace's "long-lived" threshold (s), the choice.

    refreshing: the model for running requests. from_s: begin of the training window.
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
    """Fit each configured family; choose the candidate by the servable ones' validation scores."""
    split = run_windows(settings, features)
    threshold_s = settings.long_lived_s or choose_threshold(split.train)
    tell_limits(split, features)
    fit = fit_settings(settings, features)
    fitted = fit_families(settings.families, split, fit, threshold_s)
    fitted = as_served(fitted, split.valid, features.rows.decided_s, features.rows.names, threshold_s)
    choice = choose(fitted, split.valid, features.encoder.history, settings.seed, features.rows.names)
    served = next(trained for trained in fitted if trained.family == choice.family)
    refreshing = learnt_refresh(features, split, fit, served, settings.refresh)
    return Training(tuple(fitted), split, threshold_s, choice, refreshing, since_s(settings.since, features.trace))


def fit_settings(settings: TrainSettings, features: Features) -> FitSettings:
    """The arguments of every family's fit besides its windows."""
    rows = features.rows
    return FitSettings(backoff_keys(features.encoder), settings.n_threads, settings.seed, names=rows.names,
                       log=EventLog.of(rows, features.encoder.history))


def tell_limits(split: Split, features: Features) -> None:
    """Print how the training window's ends compare with the limits of its requests, if any."""
    names = features.rows.names
    text = limit_text(split.train, split.train.features[:, names.index(LIMIT)]) if LIMIT in names else ""
    if text:
        console.print(text)


def with_fitted(settings: FitSettings, fitted: Sequence[Trained]) -> FitSettings:
    """The settings with the families fitted so far, for a family that combines others."""
    return replace(settings, fitted={trained.family: trained.model for trained in fitted})


def fit_families(names: Sequence[str], split: Split, settings: FitSettings, threshold_s: int) -> list[Trained]:
    """Fit families, as many at once as there are threads; ValueError if one refuses the trace.

    First those that combine no others. One thread a fit costs a fifth less than two: LightGBM's wait for each other.
    The others have all threads in turn. The number of threads changes no bit.
    """
    alone = [name for name in names if not LIFETIME_MODELS[name].combines]
    fitted: dict[str, Trained] = {}
    for group, n_most in ((alone, settings.n_threads), ([name for name in names if name not in alone], 1)):
        if group:
            n_at_once = min(n_most, len(group)) if len(split.past) <= AT_ONCE_UP_TO else 1
            own = replace(with_fitted(settings, list(fitted.values())), n_threads=settings.n_threads // n_at_once)
            fitted |= _at_once(group, n_at_once, split, own, threshold_s)
    return [fitted[name] for name in names]


def _at_once(names: Sequence[str], n_at_once: int, split: Split, settings: FitSettings,
             threshold_s: int) -> dict[str, Trained]:
    """The fitted families; if one fails, or a signal ends the run, the others end at their next tree."""
    if n_at_once == 1:
        return {name: fit_family(name, split, settings, threshold_s) for name in names}
    stop = Event()
    context = copy_context()
    context.run(STOP.set, stop)
    with ThreadPoolExecutor(n_at_once) as threads:
        futures = {name: threads.submit(context.copy().run, fit_family, name, split, settings, threshold_s)
                   for name in reversed(names)}  # the later ones of the registry take longer: they begin first
        try:
            done, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:
            stop.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return {name: future.result() for name, future in futures.items()}


def fit_family(name: str, split: Split, settings: FitSettings, threshold_s: int) -> Trained:
    """Fit one family; ValueError if it refuses the trace."""
    with stage(f"train {name}"):
        started = time.perf_counter()
        model = LIFETIME_MODELS[name]().fit(split.train, split.valid, split.past, settings)
        fit_s = time.perf_counter() - started
        parts = parts_by_age(model.validation_table_, split.valid)
        scores = score_model(model.validation_table_, split.valid, threshold_s, parts)
        return Trained(name, model, fit_s, scores, BrierOverAges.of_parts(parts, len(split.valid)))


@dataclass(frozen=True, slots=True)
class Instants:
    """is_apart: the choice. share, n: share and number of instant ends in the training window.

    gain: fall of the Brier score over ages with them apart, on the validation window; error: its
    standard error over owners; both NaN if it was not tried. reason: why it was not tried, or "".
    """

    is_apart: bool
    share: float
    n: int
    gain: float = math.nan
    error: float = math.nan
    reason: str = ""

    def text(self) -> str:
        """One sentence with the choice and its reason; "" if there are too few instant ends to try.

        >>> print(Instants(True, 0.04, 480, 0.0031, 0.0017).text())
        Instant ends (4.0 % within 1 s) are apart in owners' histories: +0.0031 +- 0.0017 on the validation window.
        """
        if self.n < N_MIN or self.share < SHARE_MIN:
            return ""
        are = f"Instant ends ({100.0 * self.share:.1f} % within {INSTANT_S} s) are"
        if self.reason:
            return f"{are} not apart in owners' histories: {self.reason}."
        word = "apart" if self.is_apart else "not apart"
        gain = f"{signed_text(self.gain, 4)} +- {self.error:.4f}" if math.isfinite(self.gain) else "no score"
        return f"{are} {word} in owners' histories: {gain} on the validation window."

    def tags(self) -> dict[str, str]:
        """Tags of a run and a version; {} if the text is empty."""
        return {INSTANTS_TAG: self.text()} if self.text() else {}


def read_instants(settings: TrainSettings, features: Features) -> tuple[Features, Instants]:
    """The features with the chosen history, and the choice; unchanged if the history stays."""
    split = run_windows(settings, features)
    is_instant = split.train.is_event & (split.train.lifetime_s <= INSTANT_S)
    n, n_ends = int(is_instant.sum()), int(split.train.is_event.sum())
    share = n / max(n_ends, 1)
    if n < N_MIN or share < SHARE_MIN:
        return features, Instants(False, share, n)
    if all(key.kind != "owner" for key in features.encoder.history.keys):
        return _printed(features, Instants(False, share, n, reason="the trace names no owner"))
    if features.sample is not None:
        return _printed(features, Instants(False, share, n, reason="the trace is trained on in part"))
    with stage("instant ends apart?"):
        encoder = with_instants_apart(features.encoder, INSTANT_S)
        rows = _apart_rows(features, encoder)
        if rows is None:
            return _printed(features, Instants(False, share, n, reason="more owners than the history keeps"))
        instants = _tried(settings, features, rows, split)
        if instants.is_apart:
            history = HistoryState.from_arrays(encoder.history, features.history.to_arrays())
            features = replace(features, encoder=encoder, rows=rows, history=history)
    return _printed(features, replace(instants, share=share, n=n))


def reread(features: Features, encoder: Encoder) -> FeatureRows | None:
    """The rows by an encoder that only sets instant ends apart, from features that do not.

    None for another encoder, and if the rows do not hold enough: of a trace of two files or in
    part, and of more owners than the history keeps.
    """
    instant_s = encoder.history.instant_s
    is_whole = test_from_s(features.trace.meta) is None and features.sample is None
    if not is_whole or instant_s is None or encoder != with_instants_apart(features.encoder, instant_s):
        return None
    try:
        return apart_rows(features.rows, encoder)
    except ValueError:
        return None


def _printed(features: Features, instants: Instants) -> tuple[Features, Instants]:
    console.print(instants.text())
    return features, instants


def _apart_rows(features: Features, encoder: Encoder) -> FeatureRows | None:
    """The rows with instant ends apart; None if there are too many owners."""
    if test_from_s(features.trace.meta) is not None:  # the two files may differ about an end
        return made_rows(features.trace, encoder)[0]
    return reread(features, encoder)


def _tried(settings: TrainSettings, features: Features, other: FeatureRows, split: Split) -> Instants:
    """The choice between the two histories, without the figures of instant ends."""
    rng = np.random.default_rng(settings.seed)
    train, valid = _drawn(split.train, N_TRAIN_MAX, rng), _drawn(split.valid, N_VALID_MAX, rng)

    def brier_of(each: FeatureRows) -> BrierOverAges:
        fit = FitSettings((), max(settings.n_threads // 2, 1), settings.seed, names=each.names)
        train_rows, valid_rows = (replace(rows, features=each.features[rows.idx_row]) for rows in (train, valid))
        return BrierOverAges.of(HazardModel().learn(train_rows, valid_rows, fit).validation_table_, valid_rows)

    with ThreadPoolExecutor(min(settings.n_threads, 2)) as threads:
        together, apart = threads.map(brier_of, (features.rows, other))
    codes, _ = drawn_owners(valid, features.encoder.history)
    chosen, rival, behind, error = first_within_error(
        {TOGETHER: together, APART: apart}, {TOGETHER: 1, APART: 2}, OwnerDraws(codes, seed=settings.seed))
    if not rival:  # the same answers, or none could be scored
        return Instants(False, math.nan, 0)
    return Instants(chosen == APART, math.nan, 0, behind if chosen == APART else -behind, error)


def _drawn(rows: Examples, n_max: int, rng: np.random.Generator) -> Examples:
    return rows if len(rows) <= n_max else rows.take(np.sort(rng.permutation(len(rows))[:n_max]))
