"""What decides the curves of a learnt predictor for the later part of a trace: fitting, or a bundle's own replay.

It reads no store but a bundle's folder, so that the key of kept curves is all that this file imports.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows, backoff_keys, build_rows
from sojourn.features.refreshed import refreshed_rows
from sojourn.features.split import Examples, Split, known_at
from sojourn.features.trace import Trace
from sojourn.flows.placement.predictors import PredictorSpec
from sojourn.flows.placement.refreshed_curves import Anew, answers_anew, refreshed_curves
from sojourn.flows.placement.sources import held_curves
from sojourn.models.bundle_writer import table_of
from sojourn.models.curve_table import CurveTable
from sojourn.models.lifetime import LIFETIME_MODELS, FitSettings, fit_refresh
from sojourn.serving import load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.inputs import Encoder
from sojourn.simulator import Curves


@dataclass(frozen=True, slots=True)
class Learning:
    """What a predictor is learnt from: a trace, the hash of its content, its encoder, feature rows and windows."""

    trace: Trace
    content_hash: str
    encoder: Encoder
    rows: FeatureRows
    split: Split
    seed: int


def fitted_curves(predictor: PredictorSpec, known: Learning, n_threads: int) -> tuple[pd.Series, Curves]:
    """Request ids and their curves, of all requests that a later workload can hold."""
    rows, table, anew = (_of_bundle(predictor, known) if predictor.kind == "bundle"
                         else _of_family(predictor, known, n_threads))
    ids = known.trace.requests["request_id"].iloc[rows.idx_request[_is_asked(rows, known.split)]]
    return ids, refreshed_curves(table, anew) if anew else held_curves(table)


_Made = tuple[FeatureRows, CurveTable, tuple[Anew, ...]]


def _of_family(predictor: PredictorSpec, known: Learning, n_threads: int) -> _Made:
    rows, split = known.rows, known.split
    settings = FitSettings(backoff_keys(known.encoder), n_threads, known.seed, names=rows.names)
    model = LIFETIME_MODELS[predictor.kind]().fit(split.train, split.valid, split.past, settings)
    asked = _asked(rows, split)
    if not predictor.is_refreshed:
        return rows, model.curve_table(asked), ()
    aged = refreshed_rows(known.trace, known.encoder, rows)
    refresh = fit_refresh(split, aged, settings, model.validation_table_, known.encoder.history)
    return rows, model.curve_table(asked), tuple(
        Anew(age_s, idx, refresh.curve_table(later)) for age_s in refresh.ages_s
        for idx, later in (aged.of(asked, age_s),))


def _of_bundle(predictor: PredictorSpec, known: Learning) -> _Made:
    """A served model's curves, with its own encoder's rows: the owner history replayed over this trace."""
    bundle = load_bundle(predictor.argument)
    training = bundle.schema.training
    if not {"content_hash", "to_s"} <= training.keys():
        raise ValueError("a bundle must name its training data by `content_hash` and `to_s`, so that it is not judged "
                         "on that data, got one without them")
    from_s = known.split.test_from_s
    if training["content_hash"] == known.content_hash and int(training["to_s"]) > from_s:
        raise ValueError(f"a bundle must be trained on requests before second {from_s} of this trace, got "
                         f"one trained on all before second {training['to_s']}")
    rows = build_rows(known.trace, bundle.schema.encoder)
    forest = CurveBuilder(bundle.schema, bundle.model).forest
    table = table_of(bundle.schema, forest, rows.features[_is_asked(rows, known.split)])
    if not predictor.is_refreshed or bundle.refresh is None:
        return rows, table, ()
    refresh = bundle.refresh
    aged = refreshed_rows(known.trace, refresh.schema.encoder, rows, refresh.ages_s)
    return rows, table, answers_anew(refresh, aged, _asked(rows, known.split))


def _asked(rows: FeatureRows, split: Split) -> Examples:
    everything = known_at(rows, np.ones(len(rows), bool), None, is_late_entry=False)
    return everything.take(_is_asked(rows, split))


def _is_asked(rows: FeatureRows, split: Split) -> np.ndarray:
    """Whatever a later workload can hold: requests that still run at the cut, or come after it."""
    return np.asarray(rows.arrival_s + rows.lifetime_s > split.test_from_s) | (rows.arrival_s >= split.test_from_s)
