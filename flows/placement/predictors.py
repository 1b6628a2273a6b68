"""Predictors of a comparison by text: `oracle`, `noise:SIGMA`, `recall:SHARE`, `owner-recall:SHARE`, `truth`, a
lifetime family, `bundle:FOLDER`; `refreshed:` of one of the last two, or `one-shot:` of any.

To add one that is not learnt, such as what a trace's generator knows: a function of a workload, its spec and the
text's argument, and its line in `MADE`. `truth` is what the synthetic trace's own generator knows of each lifetime;
no model can know more.

Curves of learnt ones are fitted on a trace's earlier part or come from a bundle, held, or refreshed at the ages at
which the live predictor would refresh. A queue's run times are quantiles or means of the same curves. Nothing here
reads a store but a bundle's folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows, backoff_keys, build_rows
from sojourn.features.refreshed import RefreshedRows, refreshed_rows
from sojourn.features.split import Examples, Split, known_at
from sojourn.features.synthetic import LifetimeMixtures
from sojourn.features.trace import Trace
from sojourn.flows.placement.workloads import WorkloadSpec, positions_of
from sojourn.models.bundle_writer import table_of, write_bundle
from sojourn.models.curve_table import CurveTable, HazardTable
from sojourn.models.lifetime import LIFETIME_MODELS, EventLog, FitSettings, LifetimeModel, fit_refresh
from sojourn.models.served_curves import ServedCurves
from sojourn.serving import Lifetime, Predictor, load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import RefreshModel
from sojourn.serving.inputs import Encoder, HistoryState
from sojourn.simulator import Curves, Held, LifetimeSource, LongAsShort, NoisyOracle, Oracle, Workload
from sojourn.simulator.queueing import QueueJobs
from sojourn.simulator.workloads import owner_numbers

Maker = Callable[[Workload, WorkloadSpec, str], LifetimeSource]
ONE_SHOT = "one-shot:"
REFRESHED = "refreshed:"
_RANGES: Mapping[str, tuple[float, float]] = MappingProxyType({"noise": (0.0, 10.0), "recall": (0.0, 1.0),
                                                             "owner-recall": (0.0, 1.0)})
UPTIMES_S = np.append(0, np.rint(np.geomspace(60, 365 * 86_400, 64))).astype(np.int64)
"""Breakpoints of every curve: each 23 % above the one before, from a minute to a year."""
N_ASKED_MAX = 64
"""Times that one curve is asked for a queue; a prediction that is outlived after that doubles."""
N_DRAWS = 8
"""Draws of each run time, where rules of a queue have a chance."""
Answers = Callable[[float], np.ndarray]
"""Of n requests at an uptime in seconds, float64 (n,)."""


@dataclass(frozen=True, slots=True)
class PredictorSpec:
    """What predicts: a key of MADE, a lifetime family or `bundle`; its argument; only its first word, or all of them.

    version: of the bundle. is_refreshed: running requests are predicted anew.
    """

    kind: str
    argument: str = ""
    is_one_shot: bool = False
    version: str = ""
    is_refreshed: bool = False

    @property
    def name(self) -> str:
        """Its text, as in tables."""
        return ONE_SHOT * self.is_one_shot + self.learnt_name

    @property
    def learnt_name(self) -> str:
        """Its text without `one-shot:`; both are learnt at once."""
        return REFRESHED * self.is_refreshed + self.kind + (f":{self.argument}" if self.argument else "")

    @property
    def is_learnt(self) -> bool:
        """Whether it was fitted on a trace, so that only what came later may judge it."""
        return self.kind not in MADE


def _truth(workload: Workload, spec: WorkloadSpec, argument: str) -> LifetimeSource:
    from sojourn.features.synthetic import synthesize_with_truth

    made = spec.trace.source
    if made.file is not None:
        raise ValueError(f"predictor truth must be asked of the synthetic trace, got {spec.trace.name!r}")
    return truth_source(*synthesize_with_truth(made.n_requests, seed=made.seed))


MADE: Mapping[str, Maker] = MappingProxyType({
    "oracle": lambda workload, spec, argument: Oracle(workload),
    "noise": lambda workload, spec, argument: NoisyOracle(workload, float(argument), seed=spec.seed),
    "recall": lambda workload, spec, argument: LongAsShort(workload, float(argument), seed=spec.seed),
    "owner-recall": lambda workload, spec, argument: LongAsShort(workload, float(argument), seed=spec.seed,
                                                                 owners=owner_numbers(workload)),
    "truth": _truth,
})
"""Predictors that know a workload's own lifetimes, flaws drawn from its seed; and `truth`, which knows what the
generator of the synthetic trace drew them from."""


def parse_predictor(text: str) -> PredictorSpec:
    """The predictor that a text means; ValueError names the known ones.

    >>> parse_predictor("noise:1.0").name, parse_predictor("one-shot:oracle").is_one_shot
    ('noise:1', True)
    >>> parse_predictor("refreshed:hazard").name
    'refreshed:hazard'
    >>> parse_predictor("noise:loud")
    Traceback (most recent call last):
    ValueError: predictor noise must have a number, as in noise:1, got 'noise:loud'
    """
    if text.startswith(REFRESHED):
        learnt = parse_predictor(text.removeprefix(REFRESHED))
        if not learnt.is_learnt or learnt.is_one_shot or learnt.is_refreshed:
            raise ValueError("predictor refreshed: must be of a lifetime family or bundle:FOLDER, got "
                             f"{text.removeprefix(REFRESHED)!r}")
        return replace(learnt, is_refreshed=True)
    plain = text.removeprefix(ONE_SHOT)
    kind, _, argument = plain.partition(":")
    is_one_shot = plain != text
    if kind == "bundle" and argument:
        return PredictorSpec(kind, argument, is_one_shot, load_bundle(Path(argument)).version)
    if kind in _RANGES:
        return PredictorSpec(kind, f"{_number(kind, argument, text):g}", is_one_shot)
    if argument or (kind not in MADE and kind not in LIFETIME_MODELS):
        known = ", ".join([*(f"{name}:NUMBER" if name in _RANGES else name for name in MADE), "bundle:FOLDER",
                           *LIFETIME_MODELS])
        raise ValueError(f"predictor must be one of {known}, refreshed: of a learnt one, or one-shot: of one, "
                         f"got {text!r}")
    return PredictorSpec(kind, "", is_one_shot)


def _number(kind: str, argument: str, text: str) -> float:
    try:
        number = float(argument)
    except ValueError:
        raise ValueError(f"predictor {kind} must have a number, as in {kind}:1, got {text!r}") from None
    low, high = _RANGES[kind]
    if not low <= number <= high:
        raise ValueError(f"predictor {kind} must have a number in {low:g}..{high:g}, got {text!r}")
    return number


def truth_source(trace: Trace, mixtures: LifetimeMixtures) -> Held:
    """A LifetimeSource of the true distributions, for `trace` and whatever is made of its requests.

    mixtures: one per request of `trace`, as `synthesize_with_truth` gives them. A request with an unknown start counts
    as made at time 0, as everywhere in a replay.

    >>> from sojourn.features.synthetic import synthesize_with_truth
    >>> trace, mixtures = synthesize_with_truth(500, seed=3, days=7)
    >>> curves = truth_source(trace, mixtures).curves(trace.requests)
    >>> curves.total_at(40, 0), int(mixtures.remaining_s(0.0)[40])
    (1395, 1395)
    """
    return Held(trace.requests["request_id"], mixture_curves(mixtures))


def mixture_curves(mixtures: LifetimeMixtures) -> Curves:
    """One curve per mixture: E[T | T > u] and E[max(T - u, 0)] at UPTIMES_S, cut to whole seconds."""
    return held_answers(len(mixtures), UPTIMES_S, mixtures.remaining_s, mixtures.survival)


def held_answers(n: int, uptimes_s: np.ndarray, remaining_s: Answers, survival: Answers | None) -> Curves:
    """One curve for each of n requests: predicted totals in whole seconds, int64 at uptimes_s, (m,) rising from 0.

    remaining_s: E[T - u | T > u]. survival: P(T > u), for expected overhangs E[max(T - u, 0)]; None = without them. A
    held total is raised to the next uptime where it would be outlived.

    >>> curves = held_answers(1, np.array([0, 60]), lambda uptime_s: np.array([30.7]), lambda uptime_s: np.array([0.5]))
    >>> curves.total_s.tolist(), curves.overhang_s.tolist()
    ([60, 90], [15, 15])
    """
    m = len(uptimes_s)
    totals, overhangs = np.empty((n, m), np.int64), np.empty((n, m), np.int64)
    for column, uptime_s in enumerate(uptimes_s.tolist()):
        left_s = np.maximum(remaining_s(float(uptime_s)), 1.0)
        totals[:, column] = uptime_s + left_s.astype(np.int64)
        if survival is not None:
            overhangs[:, column] = np.rint(survival(float(uptime_s)) * left_s)
    totals[:, :-1] = np.maximum(totals[:, :-1], uptimes_s[1:])
    overhangs = np.minimum.accumulate(overhangs, axis=1)  # answers of whole seconds may rise by one
    return _of_grid(uptimes_s, totals, None if survival is None else overhangs)


def _of_grid(uptimes_s: np.ndarray, totals_s: np.ndarray, overhangs_s: np.ndarray | None) -> Curves:
    """Curves of totals and overhangs at the same uptimes, int64 (n, m)."""
    n, m = totals_s.shape
    return Curves(np.arange(n + 1) * m, np.tile(uptimes_s, n), totals_s.reshape(-1),
                  overhang_s=None if overhangs_s is None else overhangs_s.reshape(-1))


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
    return replace(curves, overhang_s=held.held_totals(grid_s)[1].reshape(-1))


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
    ids, table, anew = fitted_tables(predictor, known, n_threads)
    return ids, refreshed_curves(table, anew) if anew else held_curves(table)


def fitted_tables(predictor: PredictorSpec, known: Learning,
                  n_threads: int) -> tuple[pd.Series, CurveTable, tuple[Anew, ...]]:
    """Request ids, their curves at their prediction, and those predicted anew, as `fitted_curves` holds them."""
    rows, table, anew = (_of_bundle(predictor, known) if predictor.kind == "bundle"
                         else _of_family(predictor, known, n_threads))
    return known.trace.requests["request_id"].iloc[rows.idx_request[_is_asked(rows, known.split)]], table, anew


_Made = tuple[FeatureRows, CurveTable, tuple[Anew, ...]]


def _fitted(predictor: PredictorSpec, known: Learning, n_threads: int) -> tuple[LifetimeModel, FitSettings]:
    settings = FitSettings(backoff_keys(known.encoder), n_threads, known.seed, names=known.rows.names,
                           log=EventLog.of(known.rows, known.encoder.history))
    split = known.split
    return LIFETIME_MODELS[predictor.kind]().fit(split.train, split.valid, split.past, settings), settings


def _of_family(predictor: PredictorSpec, known: Learning, n_threads: int) -> _Made:
    rows, split = known.rows, known.split
    model, settings = _fitted(predictor, known, n_threads)
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
    trace = _with_names(known.trace, bundle.schema.encoder)
    rows = build_rows(trace, bundle.schema.encoder)
    is_its_trace = training["content_hash"] == known.content_hash
    curves = ServedCurves(bundle, rows, int(training["to_s"]) if is_its_trace else 0)
    table = curves.at(_is_asked(rows, known.split))
    if not predictor.is_refreshed or bundle.refresh is None:
        return rows, table, ()
    refresh = bundle.refresh
    aged = refreshed_rows(trace, refresh.schema.encoder, rows, refresh.ages_s)
    return rows, table, answers_anew(refresh, aged, _asked(rows, known.split))


def _with_names(trace: Trace, encoder: Encoder) -> Trace:
    """The trace with the names that the encoder reads and it lacks, as missing: a log of placements has no categories.

    A trace without any of the owners is left as it is, and refused later.
    """
    owners = {name for key in encoder.history.keys if key.kind == "owner" for name in key.columns}
    lacking = [name for name in encoder.names if name not in trace.requests]
    if not lacking or owners.intersection(encoder.names) <= set(lacking):
        return trace
    return replace(trace, requests=trace.requests.assign(**dict.fromkeys(lacking, None)))


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
    uptimes_s = table.held_uptimes()
    if isinstance(table, HazardTable):
        return _of_grid(uptimes_s, *table.held_totals(uptimes_s))
    return held_answers(len(table), uptimes_s, table.remaining, None)


def outlived_curves(table: CurveTable, limit_s: np.ndarray, quantile: float | None = None,
                    ages_s: Sequence[int] = ()) -> Curves:
    """Predicted run times: at uptime 0, and again from the same curve, given the uptime, each time one is outlived.

    limit_s: int64 (n,), seconds; no prediction exceeds it. quantile: of the remaining time, None = its mean. ages_s:
    rising uptimes above 0 at which it is also asked. A prediction lies at least 1 s above the uptime. ValueError names
    a row whose curve answers NaN.

    >>> from sojourn.models.curve_table import HazardTable
    >>> edges = np.array([0.0, 100.5, 1_000.5])
    >>> table = HazardTable.from_hazards(edges, np.array([[0.9, 0.1]]), 5_000.0, edges)
    >>> curves = outlived_curves(table, np.array([4_000]), 0.5)
    >>> curves.uptime_s.tolist(), curves.total_s.tolist()
    ([0, 77, 2914], [77, 2914, 4000])
    """
    rows, uptime_s, limits = np.arange(len(table)), np.zeros(len(table)), np.asarray(limit_s, np.float64)
    ages = np.append(np.asarray(ages_s, np.float64), np.inf)
    asked: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    while len(rows) and len(asked) < N_ASKED_MAX:
        own = table.take(rows)
        left_s = own.remaining(uptime_s) if quantile is None else own.quantile(quantile, uptime_s)
        if np.isnan(left_s).any():
            raise ValueError(f"a curve must have an answer, got NaN (row {rows[np.argmax(np.isnan(left_s))]})")
        total_s = np.minimum(uptime_s + np.maximum(np.rint(left_s), 1.0), limits[rows])
        asked.append((rows, uptime_s, total_s))
        next_s = np.minimum(total_s, ages[np.searchsorted(ages, uptime_s, side="right")])
        is_left = next_s < limits[rows]
        rows, uptime_s = rows[is_left], next_s[is_left]
    row, uptime, total = (np.concatenate(parts) for parts in zip(*asked, strict=True)) if asked else np.zeros((3, 0))
    order = np.lexsort((uptime, row))
    offsets = np.searchsorted(row[order], np.arange(len(table) + 1))
    return Curves(offsets, uptime[order], total[order])


def queue_source(jobs: QueueJobs, request_ids: pd.Series, table: CurveTable, quantile: float | None = None,
                 ages_s: Sequence[int] = ()) -> Held:
    """A LifetimeSource of jobs from the curves that a family had at their submission: history as recorded.

    request_ids: of the table's rows; ValueError names a job without one. The rest: as `outlived_curves`.
    """
    place = positions_of(pd.Series(jobs.request_ids), request_ids)
    if (place < 0).any():
        raise ValueError(f"every job must have a curve, got none for job {jobs.request_ids[int(np.argmin(place))]}")
    return Held(jobs.request_ids, outlived_curves(table.take(place), jobs.limit_s, quantile, ages_s))


def drawn_levels(n: int, n_draws: int) -> np.ndarray:
    """Quantiles, float64 (n, n_draws): those of each row are the middles of as many equal parts, in an order of its
    own, so that a column is a draw of all rows. The same on each call."""
    middles = (np.arange(n_draws) + 0.5) / max(n_draws, 1)
    return np.asarray(np.random.default_rng(0).permuted(np.tile(middles, (n, 1)), axis=1))


class LiveRunTimes:
    """A LearningSource of jobs: a served model in the queue's loop, which admits each job at its submission.

    It learns of starts and ends as the replay makes them, so a queue that another order makes gives it other histories.
    """

    def __init__(self, bundle: str | Path, requests: pd.DataFrame, quantile: float | None = None,
                 ages_s: Sequence[int] = ()) -> None:
        """bundle: a folder; its history is that of before the replay. requests: with `request_id` and the columns that
        the model reads, of all jobs. quantile, ages_s: as `outlived_curves`.
        """
        self._bundle, self._quantile, self._ages_s = bundle, quantile, tuple(map(float, ages_s))
        columns = [name for name in load_bundle(bundle).schema.encoder.columns() if name in requests]
        named = requests[columns].astype(object)
        self._requests, self._place = named.where(named.notna(), None), pd.Index(requests["request_id"])

    def begin(self, jobs: QueueJobs) -> _LiveLearner:
        """A predictor with the bundle's history, for one replay; ValueError names a job that has no request."""
        place = self._place.get_indexer(pd.Index(jobs.request_ids))
        if (place < 0).any():
            name = jobs.request_ids[int(np.argmax(place < 0))]
            raise ValueError(f"every job must have a request, got none for job {name}")
        columns = [str(name) for name in self._requests]
        rows = self._requests.iloc[place].itertuples(index=False, name=None)
        return _LiveLearner(Predictor.load(self._bundle), [dict(zip(columns, row, strict=True)) for row in rows],
                            jobs.limit_s.tolist(), self._quantile, self._ages_s, drawn_levels(len(jobs), N_DRAWS))


@dataclass(slots=True)
class _LiveLearner:
    predictor: Predictor
    requests: list[dict[str, Any]]
    limits_s: list[int]
    quantile: float | None
    ages_s: tuple[float, ...]
    levels: np.ndarray
    vms: dict[int, Lifetime] = field(default_factory=dict)

    @property
    def n_draws(self) -> int:
        return self.levels.shape[1]

    def submitted(self, row: int, now_s: int) -> tuple[list[int], list[int]]:
        self.vms[row] = self.predictor.admit(self.requests[row], now_s)
        return self._asked(row, self.quantile)

    def drawn(self, row: int) -> list[tuple[list[int], list[int]]]:
        return [self._asked(row, level) for level in self.levels[row].tolist()]

    def _asked(self, row: int, quantile: float | None) -> tuple[list[int], list[int]]:
        vm, limit_s, uptime_s, ages_s = self.vms[row], float(self.limits_s[row]), 0.0, iter((*self.ages_s, math.inf))
        uptimes: list[int] = []
        totals: list[int] = []
        age_s = next(ages_s)
        while uptime_s < limit_s and len(uptimes) < N_ASKED_MAX:
            left_s = vm.remaining(uptime_s) if quantile is None else vm.quantile(quantile, uptime_s)
            total_s = min(uptime_s + max(float(round(left_s)), 1.0), limit_s)
            uptimes.append(int(uptime_s))
            totals.append(int(total_s))
            while age_s <= uptime_s:
                age_s = next(ages_s)
            uptime_s = min(total_s, age_s)
        return uptimes, totals

    def started(self, row: int, now_s: int) -> None:
        self.vms[row] = self.predictor.started(self.vms[row], now_s)

    def ended(self, row: int, now_s: int) -> None:
        self.predictor.ended(self.vms.pop(row), now_s)


def learnt_bundle(folder: Path, predictor: PredictorSpec, known: Learning, n_threads: int) -> Path:
    """A family's bundle, learnt as `fitted_tables` does, written to a folder. Its history has what had ended when the
    later part began; what still ran then is not in it, since a queue's replay begins empty."""
    exported = _fitted(predictor, known, n_threads)[0].export()
    if exported is None:
        raise ValueError(f"predictor must be a family that can be served, got {predictor.kind}")
    trace, history = known.trace, HistoryState(known.encoder.history)
    has_ended = trace.is_event() & (trace.end_s() <= known.split.test_from_s)
    build_rows(trace.select(has_ended), known.encoder, history)
    return write_bundle(folder, predictor.kind, exported, known.encoder, history, {})
