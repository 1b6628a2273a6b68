"""Curves of total lifetimes from models, as the simulator asks for them: fitted on a trace's earlier part or from a
bundle, held, or refreshed at the ages at which the live predictor would refresh. Reads no store but a bundle's folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows, backoff_keys, build_rows
from sojourn.features.refreshed import RefreshedRows, refreshed_rows
from sojourn.features.split import Examples, Split, known_at
from sojourn.features.trace import Trace
from sojourn.flows.placement.predictors import PredictorSpec, held_answers
from sojourn.flows.placement.workloads import positions_of
from sojourn.models.bundle_writer import table_of
from sojourn.models.curve_table import CurveTable, HazardTable
from sojourn.models.lifetime import LIFETIME_MODELS, FitSettings, fit_refresh
from sojourn.serving import load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import RefreshModel
from sojourn.serving.inputs import Encoder
from sojourn.simulator import Curves, Held, Workload


@dataclass(frozen=True, slots=True)
class Anew:
    """Curves of those requests that were predicted anew at an age. idx: int64 (k,), their rows among all; table: of k.
    """

    age_s: int
    idx: np.ndarray
    table: CurveTable


def answers_anew(refresh: RefreshModel, rows: RefreshedRows, asked: Examples) -> tuple[Anew, ...]:
    """What a bundle's model for running requests says of those asked that reached its ages. rows: at these ages, by the
    encoder of the model."""
    forest = CurveBuilder(refresh.schema, refresh.model).forest
    found = []
    for age_s in refresh.ages_s:
        idx, aged = rows.of(asked, age_s)
        found.append(Anew(age_s, idx, table_of(refresh.schema, forest, aged.features)))
    return tuple(found)


def refreshed_curves(held: CurveTable, anew: Sequence[Anew]) -> Curves:
    """Predicted totals as `sources.held_curves` gives them; from each age on, by the curve of then.

    A request without an answer at an age keeps the one that it has. What is expected at the start (overhangs) stays.
    anew: by rising age. Also asked at each age, and where the later curves change.

    >>> from sojourn.models.curve_table import OnceTable
    >>> tables = [OnceTable(np.full(n, score), 1.0, np.zeros(3)) for n, score in ((2, 3.0), (1, 4.0))]
    >>> curves = refreshed_curves(tables[0], [Anew(600, np.array([1]), tables[1])])
    >>> curves.total_at(0, 700), curves.total_at(1, 599), curves.total_at(1, 700)
    (1000, 1000, 10000)
    """
    uptimes_s = [held.held_uptimes()]
    for one in anew:
        own = one.table.held_uptimes()
        uptimes_s += [np.array([one.age_s], np.int64), own[own > one.age_s]]
    grid_s = np.unique(np.concatenate(uptimes_s))

    def remaining(uptime_s: float) -> np.ndarray:
        left_s = held.remaining(uptime_s)
        for one in anew:
            if uptime_s >= one.age_s:
                left_s[one.idx] = one.table.remaining(uptime_s)
        return left_s

    curves = held_answers(len(held), grid_s, remaining, None)
    if not isinstance(held, HazardTable):
        return curves
    expected = held_answers(len(held), grid_s, held.remaining, lambda uptime_s: held.survival(uptime_s, 0.0))
    return replace(curves, overhang_s=expected.overhang_s)


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


@dataclass(frozen=True, slots=True)
class AskedRows:
    """Feature rows that a workload's requests ask with, each once: parts of a job and copies share theirs.

    rows: k of them, in the trace's order. request_ids: (n,). idx: int64 (n,), the row of each request.
    """

    rows: Examples
    request_ids: pd.Series
    idx: np.ndarray


def asked_rows(workload: Workload, trace: Trace, rows: FeatureRows) -> AskedRows:
    """The feature rows of a workload's requests.

    Rows are the trace's, with all the history that came before. A recipe's copy has the row of its original: a
    history replayed over the copies would see each request's own near-copies end before it.
    """
    asked = workload.trace.requests["request_id"]
    idx = positions_of(asked, trace.requests["request_id"].iloc[rows.idx_request])
    is_found = idx >= 0
    everything = known_at(rows, np.ones(len(rows), bool), None, is_late_entry=False)
    distinct, of_request = np.unique(idx[is_found], return_inverse=True)
    return AskedRows(everything.take(distinct), asked[is_found], of_request)


class TableSource:
    """A LifetimeSource from a curve table: held exits at the table's own sampling uptimes, built once.

    A hazard curve answers in closed form at any uptime; its held exits are asked again at each edge and at
    each interval's geometric middle. A held total is raised to the next uptime where it would be outlived.
    """

    def __init__(self, table: CurveTable, request_ids: pd.Series, anew: Sequence[Anew] = (),
                 idx: np.ndarray | None = None) -> None:
        """request_ids: (n,), the requests. anew: later curves of the table's rows. idx: int64 (n,), the row of each
        request; None = the table has one for each, in their order.
        """
        n = len(table) if idx is None else len(idx)
        if n != len(request_ids):
            raise ValueError(f"request_ids must have {n} elements, got {len(request_ids)}")
        curves = held_curves(table) if not anew else refreshed_curves(table, anew)
        self._held = Held(request_ids, curves if idx is None else curves.take(idx))

    def curves(self, requests: pd.DataFrame) -> Curves:
        """The curves of requests, by `request_id`; ValueError for one that the table has no row of."""
        try:
            return self._held.curves(requests)
        except KeyError as error:
            raise ValueError(f"every request must have a prediction: {error.args[0]}") from None


def held_curves(table: CurveTable) -> Curves:
    """Predicted totals in whole seconds, held from one sampling uptime to the next.

    With expected overhangs where all answers of a row are of one distribution: a point model's are not, since its score
    changes with the age.
    """
    survival = partial(table.survival, uptime_s=0.0) if isinstance(table, HazardTable) else None
    return held_answers(len(table), table.held_uptimes(), table.remaining, survival)
