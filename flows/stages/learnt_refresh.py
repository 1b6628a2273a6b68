"""Part of `train`: the model that predicts running requests anew, beside the family that was chosen."""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.features.refreshed import RefreshedRows, refreshed_rows
from sojourn.features.split import Split
from sojourn.flows.progress import stage
from sojourn.flows.stages.build_features import Features
from sojourn.flows.stages.trained import Trained
from sojourn.models.curve_table import CurveTable
from sojourn.models.lifetime import AgeGain, FitSettings, Refresh, fit_refresh


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
