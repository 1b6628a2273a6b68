"""Models fitted on the earlier part of a trace as `retrain` does, for their curves of the later part.

A model is fitted once per trace, whatever the policies, loads and seeds that it meets.
"""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.flows.compare.learnt_curves import cut_s, keep_curves, keep_cut, kept_curves
from sojourn.flows.placement.fitted_curves import Learning, fitted_curves
from sojourn.flows.placement.predictors import PredictorSpec
from sojourn.flows.placement.workload_spec import TraceSpec
from sojourn.flows.stages.build_features import stored_features
from sojourn.flows.stages.ingest import content_hash, ingested_trace
from sojourn.flows.stages.windows import windows


def learn(asked: tuple[TraceSpec, Sequence[PredictorSpec]], n_threads: int) -> dict[str, str]:
    """Fit and keep what is not kept yet; returns why by `learnt_name` for those that failed, "" for the trace."""
    trace, predictors = asked
    missing = [one for one in predictors if kept_curves(trace, one) is None]
    if not missing and cut_s(trace) is not None:
        return {}
    try:
        ingested = ingested_trace(trace.store, trace.source, trace.data_hash)
        features = stored_features(trace.store, ingested)
        split = windows(features.rows, trace.test_share, trace.valid_share)
        keep_cut(trace, split.test_from_s)
        known = Learning(features.trace, content_hash(trace.source), features.encoder, features.rows, split,
                         trace.source.seed)
    except Exception as error:  # not all of them survive the way to another process
        return {"": f"{type(error).__name__}: {error}"}
    failed = {}
    for predictor in missing:
        try:
            keep_curves(trace, predictor, *fitted_curves(predictor, known, n_threads))
        except Exception as error:
            failed[predictor.learnt_name] = f"{type(error).__name__}: {error}"
    return failed
