"""Predicted processing times of a day's jobs, by what was known when the day began."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.features.creation import backoff_keys, build_rows, decision_times, default_encoder
from sojourn.features.split import Examples, Split, known_at
from sojourn.features.trace import Trace
from sojourn.models.bundle_writer import table_of
from sojourn.models.curve_table import CurveTable
from sojourn.models.lifetime import LIFETIME_MODELS, FitSettings
from sojourn.serving import load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.inputs import Encoder

VALID_SHARE = 0.15
"""Of the past requests, the latest: what a family chooses its size on."""
_ROW = "row_of_trace"


@dataclass(frozen=True, slots=True)
class ProcessingPredictor:
    """Answers about the jobs of a trace. from_s: the days that it may be asked about begin then or later; all that it
    was fitted on was known by then. table: the lifetime curves of examples."""

    trace: Trace
    encoder: Encoder
    table: Callable[[Examples], CurveTable]
    from_s: int

    def quantiles(self, rows: np.ndarray, day_start_s: int, shares: Sequence[float]) -> np.ndarray:
        """Processing times that shares of such jobs do not exceed, float64 (n_shares, n), at least 1 s.

        rows: of `trace.requests`, int64 (n,): jobs that are submitted from day_start_s on. What is read of the trace is
        what had ended by then, and what jobs said at their submission; no end on the day itself.

        Refused with ValueError: a day that begins before from_s, and jobs that were submitted before the day.
        """
        if day_start_s < self.from_s:
            raise ValueError(f"day_start_s must be at least {self.from_s}, when the predictor's data end, got "
                             f"{day_start_s!r}")
        submitted = decision_times(self.trace)[rows]
        if (submitted < day_start_s).any():
            raise ValueError(f"rows must be submitted at {day_start_s} or later, got {int(submitted.min())}")
        known = as_known(self.trace, day_start_s, rows)
        built = build_rows(known, self.encoder)
        place = np.full(len(self.trace), -1)
        place[known.requests[_ROW].to_numpy(np.int64)[built.idx_request]] = np.arange(len(built))
        asked = known_at(built, np.ones(len(built), bool), None, is_late_entry=False).take(place[rows])
        table = self.table(asked)
        return np.array([np.maximum(table.quantile(share, 0.0), 1.0) for share in shares])


def as_known(trace: Trace, cut_s: int, rows: np.ndarray) -> Trace:
    """The trace as it was known at cut_s, and the requests `rows` without their ends: what had not ended by then still
    runs, what had not begun began when it was submitted."""
    submitted = decision_times(trace)
    is_kept = submitted < cut_s
    is_kept[rows] = True
    requests = trace.requests.loc[is_kept].copy()
    requests[_ROW] = np.flatnonzero(is_kept)
    has_ended = trace.is_event()[is_kept] & (trace.end_s()[is_kept] <= cut_s)
    has_begun = trace.start_s()[is_kept] <= cut_s
    requests["departure_s"] = requests["departure_s"].where(has_ended)
    requests["arrival_s"] = requests["arrival_s"].where(has_begun, submitted[is_kept])
    return Trace(requests, trace.horizon_s, trace.roles, meta=trace.meta)


def fitted_predictor(trace: Trace, family: str, from_s: int, *, n_threads: int = 2,
                     seed: int = 0) -> ProcessingPredictor:
    """A lifetime family fitted on what was known at from_s. ValueError for an unknown family, or too short a past."""
    if family not in LIFETIME_MODELS:
        raise ValueError(f"predict must be estimate, bundle:FOLDER or one of {', '.join(LIFETIME_MODELS)}, got "
                         f"{family!r}")
    encoder = default_encoder(trace)
    built = build_rows(as_known(trace, from_s, np.empty(0, np.int64)), encoder)
    if len(built) < 100:
        raise ValueError(f"the trace must have at least 100 requests before second {from_s}, got {len(built)}")
    decided = np.sort(built.decided_s)
    valid_from_s = int(decided[int(len(decided) * (1 - VALID_SHARE))])
    is_train = built.decided_s < valid_from_s
    everything = np.ones(len(built), bool)
    split = Split(known_at(built, is_train, valid_from_s), known_at(built, ~is_train, from_s),
                  known_at(built, everything, from_s), known_at(built, ~everything, None), valid_from_s, from_s)
    settings = FitSettings(backoff_keys(encoder), n_threads, seed, names=built.names)
    model = LIFETIME_MODELS[family]().fit(split.train, split.valid, split.past, settings)
    return ProcessingPredictor(trace, encoder, model.curve_table, from_s)


def bundle_predictor(trace: Trace, folder: str, from_s: int, content_hash: str) -> ProcessingPredictor:
    """A served model. ValueError if it was trained on this trace (by content_hash) after from_s, or does not say."""
    bundle = load_bundle(folder)
    training = bundle.schema.training
    if not {"content_hash", "to_s"} <= training.keys():
        raise ValueError("a bundle must name its training data by `content_hash` and `to_s`, got one without them")
    if training["content_hash"] == content_hash and int(training["to_s"]) > from_s:
        raise ValueError(f"a bundle must be trained on requests before second {from_s} of this trace, got one trained "
                         f"on all before second {training['to_s']}")
    forest = CurveBuilder(bundle.schema, bundle.model).forest
    return ProcessingPredictor(trace, bundle.schema.encoder,
                               lambda asked: table_of(bundle.schema, forest, asked.features), from_s)
