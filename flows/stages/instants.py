"""Whether instant ends are kept apart in owners' histories: chosen on the validation window, where there are enough.

Requests that end within a second say little of how long the others of their owner stay. But on some traces they come in
bursts, and then an owner's last end tells that the next one fails, too (docs/lifetime.md). So both readings of the
history are tried, with a hazard model of few rows, and inside one standard error the plain one stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sojourn.features.creation import FeatureRows
from sojourn.features.later_file import test_from_s
from sojourn.features.refreshed import apart_rows, with_instants_apart
from sojourn.features.split import Examples, Split
from sojourn.flows.progress import console, stage
from sojourn.flows.settings.retrain import TrainSettings
from sojourn.flows.stages.build_features import Features
from sojourn.flows.stages.choice import simplest_within_error
from sojourn.flows.stages.feature_rows import made_rows
from sojourn.flows.stages.run_windows import run_windows
from sojourn.models.lifetime import FitSettings, HazardModel
from sojourn.models.measures import BrierOverAges, OwnerDraws, drawn_owners
from sojourn.serving.inputs import Encoder, HistoryState

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
        found = f"{self.gain:+.4f} +- {self.error:.4f}" if math.isfinite(self.gain) else "no score"
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
