"""A trace as a bundle reads it: feature rows on one clock, which of them the bundle has not learnt from, what runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows, build_rows, decision_times
from sojourn.features.split import Examples, known_at
from sojourn.features.trace import Trace
from sojourn.models.bundle_table import table_of
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

        The two clocks are matched by their Unix time of second 0 (`start_unix_s`); where either lacks it they are
        taken as one. Of a trace that does not hold the training requests, only what came after the bundle's history is
        held out: that history knows the ends before, so what had ended by then is not replayed again.
        """
        training = bundle.schema.training
        if not {"to_s", "n_requests", "history_to_s"} <= training.keys():
            raise ValueError("bundle must say what it was trained on (`to_s`, `n_requests`, `history_to_s`), got "
                             f"version {bundle.version} without")
        begins, learnt_begins = trace.meta.get("start_unix_s"), training.get("start_unix_s")
        is_known = begins is not None and learnt_begins is not None
        shift_s = 0 if begins is None or learnt_begins is None else int(begins) - int(learnt_begins)
        moved = _moved(trace, shift_s)
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
        return cls(bundle, forest, moved, rows, history, held_out_s, has_own, is_known, missing)

    def table(self, features: np.ndarray) -> CurveTable:
        """The model's curves of encoded rows."""
        return table_of(self.bundle.schema, self.forest, features)

    def held_out(self) -> Examples:
        """The requests that the model has not seen, with what became of them by the trace's end."""
        return known_at(self.rows, self.rows.decided_s >= self.held_out_s, None)

    def running(self) -> np.ndarray:
        """Positions in `rows`, int64, of what still runs at the horizon."""
        return np.flatnonzero(~self.rows.is_event)


def _moved(trace: Trace, shift_s: int) -> Trace:
    """The trace with its times so much later, without what then ended before second 0."""
    if shift_s == 0:
        return trace
    if trace.horizon_s + shift_s <= 0:
        raise ValueError(f"trace must end after the bundle's training trace began, got one that ended "
                         f"{-(trace.horizon_s + shift_s):,} s before")
    requests = trace.requests
    times = {name: requests[name] + shift_s for name in ("arrival_s", "departure_s", "submit_s") if name in requests}
    moved = requests.assign(**times)
    moved = moved[~(moved["departure_s"] < 0).fillna(False).to_numpy(bool)].reset_index(drop=True)
    meta = {**trace.meta, "start_unix_s": int(trace.meta["start_unix_s"]) - shift_s}
    return Trace(moved, trace.horizon_s + shift_s, trace.roles, trace.hosts, None, meta)
