"""A trace as a bundle reads it: feature rows on one clock, which of them the bundle has not learnt from, what runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows, build_rows, decision_times
from sojourn.features.split import Examples, known_at
from sojourn.features.trace import Trace
from sojourn.models.bundle_writer import table_of
from sojourn.models.curve_table import CurveTable
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import Bundle
from sojourn.serving.forest import Forest
from sojourn.serving.inputs import HistoryState

OWN_SHARE = 0.9
"""A trace with this share of the training requests brings the owner history itself; else the bundle's own goes on."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A trace on the bundle's clock, its feature rows by the bundle's encoder, and the owner history at its end.

    trace: with the columns that the bundle reads; those that it lacked are all missing, and named in `missing`.
    held_out_s: requests decided from then on were not seen by the model, nor was anything of them by its history.
    has_own_history: the history was replayed from this trace alone; else the bundle's own went on.
    """

    bundle: Bundle
    forest: Forest
    trace: Trace
    rows: FeatureRows
    history: HistoryState
    held_out_s: int
    has_own_history: bool
    is_clock_known: bool
    missing: tuple[str, ...]

    @classmethod
    def of(cls, bundle: Bundle, trace: Trace) -> Replayed:
        """Replay the trace; ValueError where the bundle does not say what it was trained on, or no request is left.

        Both are on Unix time if both have dates; if one of them has none, their begins are taken as one moment. Of a
        trace that does not hold the training requests, only what came after the bundle's history is
        held out: that history knows the ends before, so what had ended by then is not replayed again.
        """
        training = bundle.schema.training
        if not {"to_s", "n_requests", "history_to_s"} <= training.keys():
            raise ValueError("bundle must say what it was trained on (`to_s`, `n_requests`, `history_to_s`), got "
                             f"version {bundle.version} without")
        learnt_begins = training.get("start_unix_s")
        moved = trace
        if learnt_begins is None:
            moved = trace.since_begin()
        elif not trace.is_dated:
            moved = trace.moved(int(learnt_begins), int(learnt_begins))
        elif trace.horizon_s <= int(learnt_begins):
            raise ValueError(f"trace must end after the bundle's training trace began, got one that ended "
                             f"{int(learnt_begins) - trace.horizon_s:,} s before")
        missing = tuple(name for name in bundle.schema.encoder.columns() if name not in moved.requests)
        if missing:
            blank = {name: pd.Series([None] * len(moved), dtype=object) for name in missing}
            moved = Trace(moved.requests.assign(**blank), moved.horizon_s, moved.roles, moved.hosts, None, moved.meta)
        n_learnt = int((decision_times(moved) < int(training["to_s"])).sum())
        has_own = n_learnt >= OWN_SHARE * int(training["n_requests"])
        if not has_own:  # the bundle's history has what had ended by its end
            is_later = (moved.end_s() > int(training["history_to_s"])) | ~moved.is_event()
            moved = moved.select(is_later | (decision_times(moved) >= int(training["history_to_s"])))
        history = HistoryState(bundle.schema.encoder.history) if has_own else bundle.history
        rows = build_rows(moved, bundle.schema.encoder, history)
        if len(rows) == 0:
            raise ValueError("trace must hold a request whose start is known, got none")
        held_out_s = int(training["to_s"] if has_own else training["history_to_s"])
        forest = CurveBuilder(bundle.schema, bundle.model).forest
        return cls(bundle, forest, moved, rows, history, held_out_s, has_own,
                   trace.is_dated and learnt_begins is not None, missing)

    def table(self, features: np.ndarray) -> CurveTable:
        """The model's curves of encoded rows."""
        return table_of(self.bundle.schema, self.forest, features)

    def held_out(self) -> Examples:
        """The requests that the model has not seen, with what became of them by the trace's end."""
        return known_at(self.rows, self.rows.decided_s >= self.held_out_s, None)

    def running(self) -> np.ndarray:
        """Positions in `rows`, int64, of what still runs at the horizon."""
        return np.flatnonzero(~self.rows.is_event)
