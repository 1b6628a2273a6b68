"""The model that predicts a running request anew, from its owner's history at that time.

It is a second hazard model, learnt from requests that reached an age, with their features at that age (a
landmark model: van Houwelingen 2007). The model of the admission cannot replace it: in its training
a request is never among its owner's running ones (docs/running_requests.md compares both). An age
is used only if the gain on the validation window exceeds the standard error over owners.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sojourn.features.refreshed import RefreshedRows
from sojourn.features.split import Examples, Split
from sojourn.models.curve_table import CurveTable
from sojourn.models.lifetime.contract import Exported, FitSettings
from sojourn.models.lifetime.hazard import HazardModel
from sojourn.models.measures import (
    N_ENDS_MIN,
    OwnerDraws,
    drawn_owners,
    integrated_at_age,
    mae_log10,
    standard_error,
    time_label,
)
from sojourn.serving.inputs import HistoryDefinition


@dataclass(frozen=True, slots=True)
class AgeGain:
    """Integrated Brier scores of the remaining time at an age, on a window, of n requests observed
    alive then, n_ends of them with an observed end.

    held: by the curve of the admission. refreshed: by that of the age. error: the standard error of
    the difference; infinite if unknown. mae_held, mae_refreshed: of log10 remaining time, of
    observed ends; NaN without any. Lower is better for all.
    """

    age_s: int
    n: int
    n_ends: int
    held: float
    refreshed: float
    error: float
    mae_held: float = math.nan
    mae_refreshed: float = math.nan

    def document(self) -> dict[str, int | float | None]:
        """The fields by name, for JSON: None for values that are not finite."""
        return {name: value if math.isfinite(value) else None for name, value in asdict(self).items()}

    def scores(self) -> dict[str, float]:
        """The scores by name, for a log: `refresh_10m.*`; without unknown ones."""
        values = {"n": float(self.n), "ibs_held": self.held, "ibs": self.refreshed, "mae_held": self.mae_held,
                  "mae": self.mae_refreshed}
        return {f"refresh_{time_label(self.age_s)}.{name}": value for name, value in values.items()
                if math.isfinite(value)}

    @property
    def is_gain(self) -> bool:
        """Whether the refreshed curve is better by more than the error, on enough ends."""
        return self.n_ends >= N_ENDS_MIN and bool(self.held - self.refreshed > self.error)


@dataclass(frozen=True, slots=True)
class ExportedRefresh:
    """The parts for a bundle: a model for running requests, the ages at which it gains, and the gains."""

    exported: Exported
    ages_s: tuple[int, ...]
    gains: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Refresh:
    """model: None if it could not be learnt. gains: at the judged ages. reason: why there is no model."""

    model: HazardModel | None
    gains: tuple[AgeGain, ...]
    reason: str = ""

    @property
    def ages_s(self) -> tuple[int, ...]:
        """The ages at which a new prediction gains, rising; may be empty."""
        return tuple(gain.age_s for gain in self.gains if gain.is_gain)

    def curve_table(self, aged: Examples) -> CurveTable:
        """The curves of rows at their ages (`RefreshedRows.of`), valid from these ages on."""
        if self.model is None:
            raise ValueError(f"a model for running requests must have been learnt, got none: {self.reason}")
        return self.model.curve_table(aged)

    def export(self) -> ExportedRefresh | None:
        """The parts for `write_bundle`; None if it gains at no age."""
        if self.model is None or not self.ages_s:
            return None
        return ExportedRefresh(self.model.export(), self.ages_s, [gain.document() for gain in self.gains])

    def gains_on(self, window: Examples, rows: RefreshedRows, held: CurveTable, history: HistoryDefinition,
                 seed: int) -> tuple[AgeGain, ...]:
        """The same figures on another window, at the ages that were judged on the validation rows.

        held: the window's curves by the served family.
        """
        gains = []
        for age_s in (gain.age_s for gain in self.gains):
            idx, aged = rows.of(window, age_s)
            if len(idx):
                gains.append(_gain(age_s, self.curve_table(aged), held.take(idx), window.take(idx), history, seed))
        return tuple(gain for gain in gains if gain is not None)

    def text(self) -> str:
        """The choice and its reasons as a sentence.

        >>> Refresh(None, (AgeGain(600, 190, 180, 0.12, 0.11, 0.002),)).text()
        'refreshed at 10m (Brier 0.1100 against 0.1200 held, +- 0.0020, 190 requests)'
        """
        if self.reason:
            return f"not refreshed: {self.reason}"
        better = [f"{time_label(gain.age_s)} (Brier {gain.refreshed:.4f} against {gain.held:.4f} held, "
                  f"+- {gain.error:.4f}, {gain.n:,} requests)" for gain in self.gains if gain.is_gain]
        worse = [f"{time_label(gain.age_s)} ({gain.refreshed:.4f} against {gain.held:.4f}, {gain.n_ends:,} ends)"
                 for gain in self.gains if not gain.is_gain]
        parts = [f"{word} {', '.join(ages)}" for word, ages in (("refreshed at", better), ("not at", worse)) if ages]
        return "; ".join(parts) or "not refreshed: no age could be judged"


def fit_refresh(split: Split, rows: RefreshedRows, settings: FitSettings, held: CurveTable,
                history: HistoryDefinition) -> Refresh:
    """Learn from requests that reached each age of `rows`, as a family from `split`; judge on the validation rows.

    held: the validation rows' curves by the served family, fitted on `split.train`. Labels are
    those known in each window; features are those known at the row's time.
    """
    train, valid, past = (rows.examples(window) for window in (split.train, split.valid, split.past))
    if not all(window.is_event.any() for window in (train, valid, past)):
        return Refresh(None, (), "too few requests of the training or validation window ended after the first age")
    model = HazardModel().fit(train, valid, past, settings)
    gains, at = [], 0
    for age_s in np.unique(rows.age_s).tolist():
        idx = rows.of(split.valid, age_s)[0]
        table = model.validation_table_.take(np.arange(at, at + len(idx)))
        at += len(idx)
        gain = _gain(age_s, table, held.take(idx), split.valid.take(idx), history, settings.seed)
        gains += [] if gain is None else [gain]
    return Refresh(model, tuple(gains))


def _gain(age_s: int, fresh: CurveTable, held: CurveTable, rows: Examples, history: HistoryDefinition,
          seed: int) -> AgeGain | None:
    parts = [integrated_at_age(table, rows, age_s) for table in (held, fresh)]
    if parts[0] is None or parts[1] is None:
        return None
    is_asked, of_held = parts[0]
    of_fresh = parts[1][1]
    difference = of_held - of_fresh
    draws = OwnerDraws(drawn_owners(rows.take(is_asked), history)[0], seed=seed)
    means = np.array([np.average(difference, weights=weight) for weight in draws])
    is_ended = rows.is_event
    left_s = rows.lifetime_s[is_ended] - age_s
    errors = [mae_log10(table.take(is_ended).quantile(0.5, age_s), left_s) for table in (held, fresh)]
    return AgeGain(age_s, len(difference), int(is_ended.sum()), float(of_held.mean()), float(of_fresh.mean()),
                   standard_error(means, draws.n_units), *errors)
