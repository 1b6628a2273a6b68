"""The baselines and this project's own entries. An entrant's method is an object like these: see `bench/README.md`.

A method of the track predict has `predict(question)`, of the track queue `schedule(question)`, of the
track place `place(question)`, of the track end `begin(question)` (see `end_to_end`); `run` calls them.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from bench.end_to_end import END_TO_END, EndToEnd
from bench.submission import Starts
from bench.tasks import AGES_S, HORIZONS_S, UPTIMES_S, Fold, Task
from sojourn.features import Trace
from sojourn.features.creation import FeatureRows, backoff_keys, build_rows, default_encoder
from sojourn.features.split import Examples, known_at, split_by_time
from sojourn.flows.placement.predictors import (
    Learning,
    LiveRunTimes,
    fitted_tables,
    learnt_bundle,
    parse_predictor,
)
from sojourn.models import LIFETIME_MODELS, FitSettings
from sojourn.models.curve_table import CurveTable
from sojourn.models.lifetime import EventLog
from sojourn.serving.inputs import Encoder
from sojourn.simulator import Cluster, LifetimeSource, Oracle, Policy, Request, Workload, kernel, simulate
from sojourn.simulator.policies.policy import opens_host
from sojourn.simulator.queueing import (
    LastTwo,
    QueueJobs,
    QueueRules,
    RunTimes,
    Schedule,
    replay_queue,
    requested,
)

VALID_SHARE = 0.15
DAY_S, HOUR_S = 86_400, 3_600


@dataclass(frozen=True, slots=True)
class PredictQuestion:
    """What a predictor gets. trace: all of it; a prediction may use of it only what had happened by its own moment
    (at creation the decision, later the arrival and the age), and `run` looks whether it does. fold: see `Fold`.
    """

    trace: Trace
    fold: Fold


@dataclass(frozen=True, slots=True)
class QueueQuestion:
    """What a queue policy gets. jobs: to be scheduled; a start may use only what had happened by then in the schedule
    itself: submissions, starts, ends. before: jobs that had ended by `cut_s`, the first second. known: the trace as
    known then, with the attributes of later jobs.
    """

    jobs: QueueJobs
    before: QueueJobs
    known: Trace
    cut_s: int


class Predict(Protocol):
    """A method of the track predict."""

    def predict(self, question: PredictQuestion) -> np.ndarray:
        """P(still runs after each of HORIZONS_S more seconds), for each of the fold's requests at each of AGES_S, as if
        it had reached that age; float64 (n_requests, n_ages, n_horizons)."""
        ...


class Queue(Protocol):
    """A method of the track queue."""

    def schedule(self, question: QueueQuestion) -> Starts:
        """When each job starts, and if it states them, 80 % intervals of its start, known at its submission."""
        ...


@dataclass(frozen=True, slots=True)
class PlaceQuestion:
    """What a placement policy gets. workload: requests in the order of arrival, hosts of one shape; an end may be used
    only once it has come. curves: the predictions, the same for every policy."""

    workload: Workload
    curves: LifetimeSource


class Place(Protocol):
    """A method of the track place."""

    def place(self, question: PlaceQuestion) -> np.ndarray:
        """The host of each request, int64 (n,), from 0; -1 = rejected, which it may be only if no host has room."""
        ...


class _Rows:
    """Feature rows of the trace that was asked of last: folds share them."""

    trace: Trace | None = None
    encoder: Encoder
    rows: FeatureRows

    def of(self, trace: Trace) -> tuple[Encoder, FeatureRows]:
        if self.trace is not trace:
            self.encoder = default_encoder(trace)
            self.rows, self.trace = build_rows(trace, self.encoder), trace
        return self.encoder, self.rows


_ROWS = _Rows()


@dataclass(frozen=True, slots=True)
class Boost:
    """SurvivalBoost of the package `hazardous`, which is no dependency of this project: `studies/survival_boost.py`."""

    title: str
    n_rows: int = 2_000
    n_iterations: int = 30
    authors: str = "Sojourn"

    def predict(self, question: PredictQuestion) -> np.ndarray:
        """As `Predict`."""
        from studies.survival_boost import boosted, curves  # it needs a further package

        _, rows = _ROWS.of(question.trace)
        split = split_by_time(rows, 0.3, VALID_SHARE, test_from_s=question.fold.cut_s)
        with threadpool_limits(1):  # on several threads two fits of the same rows differ
            model, axis = boosted(split.past, self.n_rows, 0, n_iter=self.n_iterations, ipcw_strategy="kaplan-meier")
        return _answers(question, rows, lambda asked: curves(model, axis, asked))


@dataclass(frozen=True, slots=True)
class Family:
    """A lifetime family of `sojourn.models`, fitted anew for each fold. beside: families that it combines."""

    title: str
    family: str
    beside: tuple[str, ...] = ()
    authors: str = "Sojourn"

    def predict(self, question: PredictQuestion) -> np.ndarray:
        """As `Predict`."""
        encoder, rows = _ROWS.of(question.trace)
        split = split_by_time(rows, 0.3, VALID_SHARE, test_from_s=question.fold.cut_s)
        settings = FitSettings(backoff_keys(encoder), names=rows.names, log=EventLog.of(rows, encoder.history))
        for name in (*self.beside, self.family):
            model = LIFETIME_MODELS[name]().fit(split.train, split.valid, split.past, settings)
            settings = replace(settings, fitted={**settings.fitted, name: model})
        return _answers(question, rows, model.curve_table)


def _answers(question: PredictQuestion, rows: FeatureRows, curve_table: Callable[[Examples], CurveTable]) -> np.ndarray:
    """What the curves of the fold's requests say, as `Predict`."""
    ids = question.trace.requests["request_id"].astype(str).to_numpy()[rows.idx_request]
    place = {name: at for at, name in enumerate(ids.tolist())}
    asked = known_at(rows, np.ones(len(rows), bool), None, is_late_entry=False)
    table = curve_table(asked.take(np.array([place[name] for name in question.fold.request_ids], np.int64)))
    return np.stack([np.stack([table.survival(float(horizon_s), float(age_s)) for horizon_s in HORIZONS_S], axis=1)
                     for age_s in AGES_S], axis=1)


Source = Callable[[QueueQuestion, Path], RunTimes]


@dataclass(frozen=True, slots=True)
class Backfilling:
    """A queue policy of `sojourn.simulator`, and what predicts its run times. Intervals are of recent waits."""

    title: str
    rules: QueueRules
    source: Source
    knows_future: bool = False
    authors: str = "Sojourn"

    def schedule(self, question: QueueQuestion) -> Starts:
        """As `Queue`."""
        with tempfile.TemporaryDirectory() as folder:
            schedule = replay_queue(question.jobs, self.rules, self.source(question, Path(folder)))
        return Starts(schedule.start_s, recent_waits(schedule))


@dataclass(frozen=True, slots=True)
class Placing:
    """A placement policy of `sojourn.simulator`, or one made of its parts."""

    title: str
    policy: str | Policy
    authors: str = "Sojourn"

    def place(self, question: PlaceQuestion) -> np.ndarray:
        """As `Place`."""
        return simulate(question.workload, self.policy, question.curves).host


@kernel
def over_an_hour(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """By how many seconds the request moves the host's exit; 0 up to an hour."""
    longer_s = request.exit_s - cluster.exit_s[host]
    return float(longer_s) if cluster.n_running[host] > 0 and longer_s > HOUR_S else 0.0


HOUR_FIT = Policy("hour-fit", (opens_host, over_an_hour), predictions="current", are_empty_hosts_alike=True,
                  about="the first host in use whose exit is moved by at most an hour, else the one moved least")


def fixed_totals(task: Task) -> tuple[pd.Index, np.ndarray]:
    """The fixed curves of a place task, of a family fitted before its cut: ids, and totals from UPTIMES_S, (n, m)."""
    trace = task.trace
    encoder, rows = _ROWS.of(trace)
    known = Learning(trace, "", encoder, rows, split_by_time(rows, 0.3, VALID_SHARE, test_from_s=task.cut_s), 0)
    ids, table, _ = fitted_tables(parse_predictor(str(task.rules["curves"])), known, 2)
    totals_s = [uptime_s + np.maximum(table.remaining(float(uptime_s)), 1.0) for uptime_s in UPTIMES_S]
    whole = np.rint(np.stack(totals_s, axis=1)).astype(np.int64)
    whole[:, :-1] = np.maximum(whole[:, :-1], UPTIMES_S[1:])
    return pd.Index(ids), whole


def recent_waits(schedule: Schedule, n_latest: int = 100) -> np.ndarray:
    """The simplest interval of a start: the submission and the 10 and 90 % quantiles of the waits of the last jobs that
    had started by then; int64 (n, 2)."""
    submission_s, wait_s = schedule.jobs.submission_s, schedule.wait_s
    started = np.argsort(schedule.start_s, kind="stable")
    latest: deque[int] = deque(maxlen=n_latest)
    at, found = 0, np.zeros((len(wait_s), 2), np.int64)
    for row, now_s in enumerate(submission_s.tolist()):
        while at < len(started) and schedule.start_s[started[at]] < now_s:
            latest.append(int(wait_s[started[at]]))
            at += 1
        if latest:
            found[row] = np.rint(np.quantile(latest, (0.1, 0.9)))
    return submission_s[:, None] + found


def _requested(question: QueueQuestion, folder: Path) -> RunTimes:
    return requested(question.jobs)


def _last_two(question: QueueQuestion, folder: Path) -> RunTimes:
    return LastTwo(question.before)


def _oracle(question: QueueQuestion, folder: Path) -> RunTimes:
    return Oracle(question.jobs)


def _hazard(question: QueueQuestion, folder: Path) -> RunTimes:
    """The median of a hazard model, learnt before the cut, whose owner history goes on with the replay."""
    trace = question.known
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = split_by_time(rows, 0.5, VALID_SHARE, test_from_s=question.cut_s)
    known = Learning(trace, "", encoder, rows, split, 0)
    return LiveRunTimes(learnt_bundle(folder / "bundle", parse_predictor("hazard"), known, 2), trace.requests, 0.5)


PREDICTORS: Mapping[str, Predict] = MappingProxyType({
    "km": Family("Kaplan-Meier curves by owner", "km"),
    "last-value": Family("the owner's last lifetime", "repeat-last"),
    "tsafrir": Family("mean of the owner's last two (Tsafrir et al. 2007)", "last-two"),
    "median-16": Family("median of the owner's last 16", "median-16"),
    "cox": Family("Cox regression", "cox"),
    "rsf": Family("random survival forest", "rsf"),
    "gbsa": Family("gradient-boosted survival analysis", "gbsa"),
    "forest-leaves": Family("a random forest's leaves as curves (Meinshausen 2006)", "forest-leaves"),
    "survival-boost": Boost("SurvivalBoost on 2,000 rows (Alberge et al. 2025)"),
    "gbdt-once": Family("boosted trees, one answer at creation", "gbdt-once"),
    "gbdt-uptime": Family("boosted trees on uptimes (LAVA's predictor)", "gbdt-uptime"),
    "hazard": Family("boosted hazards of intervals", "hazard"),
    "blend": Family("boosted hazards and a learner of ends, weighted anew", "blend", ("hazard", "online")),
})  # fmt: skip
QUEUES: Mapping[str, Queue] = MappingProxyType({
    "fcfs": Backfilling("first come, first served", QueueRules(backfilling="none"), _requested),
    "easy": Backfilling("EASY backfilling by limits (Lifka 1995)", QueueRules(), _requested),
    "easy-sjbf": Backfilling("EASY by limits, short jobs first", QueueRules(backfill_order="sjf"), _requested),
    "conservative": Backfilling("conservative backfilling by limits", QueueRules(backfilling="conservative"),
                                _requested),
    "wfp3": Backfilling("WFP3 with smallest-area backfilling", QueueRules("wfp3", "saf"), _requested),
    "easy-plus-plus": Backfilling("EASY++ (Tsafrir et al. 2007)", QueueRules(backfill_order="sjf"), _last_two),
    "easy-hazard": Backfilling("EASY, short jobs first by hazard medians", QueueRules(backfill_order="sjf"), _hazard),
    "sjf": Backfilling("shortest first by hazard medians, no reservation", QueueRules("sjf", backfilling="any"),
                       _hazard),
    "easy-oracle": Backfilling("EASY, short jobs first by true run times", QueueRules(backfill_order="sjf"), _oracle,
                               knows_future=True),
})  # fmt: skip
PLACERS: Mapping[str, Place] = MappingProxyType({
    "best-fit": Placing("best fit", "best-fit"),
    "first-fit": Placing("first fit", "first-fit"),
    "first-in-use": Placing("first fit in hosts in use", "first-in-use"),
    "hour-fit": Placing("first host in use whose exit moves by at most an hour", HOUR_FIT),
    "waste-min": Placing("least waste", "waste-min"),
    "fgd": Placing("fragmentation gradient descent (Weng et al. 2023)", "fgd"),
    "la-binary": Placing("LA-Binary (Barbalho et al. 2023)", "la-binary"),
    "la": Placing("LA, hosts by the exit of their requests (Barbalho et al. 2023)", "la"),
    "nilas": Placing("NILAS (Sheng et al. 2025)", "nilas"),
    "lava": Placing("LAVA (Sheng et al. 2025)", "lava"),
    "dvla": Placing("DVLA's placement by renewed tags (DAPP)", "dapp"),
    "joint-fit": Placing("joint fit of exit and room", "joint-fit"),
    "joint-exact": Placing("joint fit by the distribution of the host's exit", "joint-exact"),
})  # fmt: skip
METHODS: Mapping[str, Predict | Queue | Place | EndToEnd] = MappingProxyType(
    {**PREDICTORS, **QUEUES, **PLACERS, **END_TO_END})
"""Method by the name of its folder of results."""
