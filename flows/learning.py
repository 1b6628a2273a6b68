"""Models fitted on the earlier part of a trace as `retrain` does, for their curves of the later part.

A model is fitted once per trace, whatever the policies, loads and seeds that it meets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sojourn.features.creation import FeatureRows, backoff_keys, build_rows
from sojourn.features.split import Split, known_at
from sojourn.features.trace import Trace
from sojourn.flows.build_features import stored_features
from sojourn.flows.grid import TraceSpec
from sojourn.flows.ingest import content_hash, ingested_trace
from sojourn.flows.learnt_curves import cut_s, keep_curves, keep_cut, kept_curves
from sojourn.flows.predictors import Predictor
from sojourn.flows.sources import held_curves
from sojourn.flows.train import windows
from sojourn.models.bundle_table import table_of
from sojourn.models.curve_table import CurveTable
from sojourn.models.lifetime import LIFETIME_MODELS, FitSettings
from sojourn.serving import load_bundle
from sojourn.serving.curve_builder import CurveBuilder
from sojourn.serving.encoder import Encoder


def learn(asked: tuple[TraceSpec, Sequence[Predictor]], n_threads: int) -> dict[str, str]:
    """Fit and keep what is not kept yet; returns why by `learnt_name` for those that failed, "" for the trace."""
    trace, predictors = asked
    missing = [one for one in predictors if kept_curves(trace, one) is None]
    if not missing and cut_s(trace) is not None:
        return {}
    try:
        ingested = ingested_trace(trace.settings, trace.data_hash)
        loaded, encoder, rows, _ = stored_features(trace.settings, ingested)
        split = windows(trace.settings, rows)
        keep_cut(trace, split.test_from_s)
    except Exception as error:  # not all of them survive the way to another process
        return {"": f"{type(error).__name__}: {error}"}
    failed = {}
    for predictor in missing:
        try:
            rows_of, table = (_of_bundle(trace, predictor, loaded, split) if predictor.kind == "bundle"
                              else _of_family(trace, predictor, encoder, rows, split, n_threads))
            ids = loaded.requests["request_id"].iloc[rows_of.idx_request[_is_asked(rows_of, split)]]
            keep_curves(trace, predictor, ids, held_curves(table))
        except Exception as error:
            failed[predictor.learnt_name] = f"{type(error).__name__}: {error}"
    return failed


def _of_family(trace: TraceSpec, predictor: Predictor, encoder: Encoder, rows: FeatureRows, split: Split,
               n_threads: int) -> tuple[FeatureRows, CurveTable]:
    settings = FitSettings(backoff_keys(encoder), n_threads, trace.settings.seed, names=rows.names)
    model = LIFETIME_MODELS[predictor.kind]().fit(split.train, split.valid, split.past, settings)
    everything = known_at(rows, np.ones(len(rows), bool), None, is_late_entry=False)
    return rows, model.curve_table(everything.take(_is_asked(rows, split)))


def _of_bundle(trace: TraceSpec, predictor: Predictor, loaded: Trace, split: Split) -> tuple[FeatureRows, CurveTable]:
    """A served model's curves, with its own encoder's rows: the owner history replayed over this trace."""
    bundle = load_bundle(predictor.argument)
    training = bundle.schema.document.get("training", {})
    if not {"content_hash", "to_s"} <= training.keys():
        raise ValueError("a bundle must say what it was trained on, so that nothing that it saw judges it, got one "
                         "without `content_hash` and `to_s`")
    if training["content_hash"] == content_hash(trace.settings) and int(training["to_s"]) > split.test_from_s:
        raise ValueError(f"a bundle must be trained on what came before second {split.test_from_s} of this trace, got "
                         f"one that saw all before second {training['to_s']}")
    rows = build_rows(loaded, bundle.schema.encoder)
    forest = CurveBuilder(bundle.schema, bundle.model).forest
    return rows, table_of(bundle.schema, forest, rows.features[_is_asked(rows, split)])


def _is_asked(rows: FeatureRows, split: Split) -> np.ndarray:
    """Whatever a later workload can hold: requests that still run at the cut, or come after it."""
    return np.asarray(rows.arrival_s + rows.lifetime_s > split.test_from_s) | (rows.arrival_s >= split.test_from_s)
