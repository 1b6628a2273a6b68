"""A trace served day by day under a rule that says when to retrain: what it costs, and what its accuracy is by week."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from sojourn.features import Trace
from sojourn.features.creation import FeatureRows, build_rows, default_encoder
from sojourn.features.split import Examples, known_at
from sojourn.features.synthetic import LifetimeMixtures
from sojourn.models import FitSettings
from sojourn.models.curve_table import HazardTable
from sojourn.models.drift import (
    DAY_S,
    DailyExits,
    Detector,
    DriftDay,
    WatchedRequests,
    cumulative_hazard,
    daily_exits,
    drift_days,
    new_owner_days,
    own_exits,
)
from sojourn.models.lifetime import HazardModel
from sojourn.models.measures import KaplanMeier, Pit, censoring_curve
from sojourn.models.measures.brier import brier_times, integrated_brier_rows

WEEK_S = 7 * DAY_S
VALID_SHARE = 0.15
N_INTERVALS, N_ROUNDS = 16, 30
PARAMS = {"num_leaves": 15, "min_data_in_leaf": 100, "learning_rate": 0.15}
"""A model that is trained in seconds; on the synthetic trace its Brier score is not worse than the defaults'."""
MIN_ENDS = 200
"""A window with fewer observed ends in its training part is not trained on."""


class Answers(Protocol):
    """What accuracy is measured of: curve tables, and the generator's truth."""

    def survival(self, horizon_s: np.ndarray | float, uptime_s: np.ndarray | float) -> np.ndarray: ...

    def take(self, idx: np.ndarray) -> Answers: ...


@dataclass(frozen=True, slots=True)
class TruthTable:
    """The generator's own distributions, as a curve table answers."""

    mixtures: LifetimeMixtures

    def survival(self, horizon_s: np.ndarray | float, uptime_s: np.ndarray | float) -> np.ndarray:
        return self.mixtures.survival(np.asarray(horizon_s) + uptime_s) / self.mixtures.survival(uptime_s)

    def take(self, idx: np.ndarray) -> TruthTable:
        return TruthTable(self.mixtures.take(np.flatnonzero(idx) if idx.dtype == bool else idx))


@dataclass(frozen=True, slots=True)
class Served:
    """Feature rows of a trace from its first day, what became of each, and the window that models learn from.

    first_day: the first day that is served; models learn from the `window_days` before they are made. own, new_owners:
    of each day that is served, which no model has a part in.
    """

    rows: FeatureRows
    everything: Examples
    first_day: int
    last_day: int
    window_days: int
    own: list[DriftDay]
    new_owners: list[DriftDay]

    @classmethod
    def of(cls, trace: Trace, first_day: int, window_days: int) -> Served:
        """The rows in the order of decision; days count from the trace's begin."""
        rows = build_rows(trace, default_encoder(trace))
        since_s = rows.begin_s
        rows = replace(rows, decided_s=rows.decided_s - since_s, arrival_s=rows.arrival_s - since_s, begin_s=0)
        everything = known_at(rows, np.ones(len(rows), bool), None, is_late_entry=False)
        last_day = trace.span_s // DAY_S - 1
        arrival_s, end_s = everything.arrival_s, everything.arrival_s + everything.lifetime_s.astype(np.int64)
        owner = clusters_of(everything)
        own = own_exits(arrival_s, arrival_s, end_s, everything.is_event, owner, first_day, last_day)
        return cls(rows, everything, first_day, last_day, window_days, own,
                   new_owner_days(arrival_s, owner, first_day, last_day))

    def fitted(self, now_day: int, since_day: int | None = None) -> HazardModel | None:
        """A model of what was decided since the window's begin and known at midnight of `now_day`; None = too few."""
        now_s = now_day * DAY_S
        since_s = (now_day - self.window_days if since_day is None else since_day) * DAY_S
        decided = self.rows.decided_s
        is_taken = (decided >= since_s) & (decided < now_s)
        if is_taken.sum() < 2:
            return None
        valid_from_s = int(np.quantile(decided[is_taken], 1.0 - VALID_SHARE))
        train = known_at(self.rows, is_taken & (decided < valid_from_s), valid_from_s)
        valid = known_at(self.rows, is_taken & (decided >= valid_from_s), now_s)
        past = known_at(self.rows, is_taken, now_s)
        if train.is_event.sum() < MIN_ENDS or not valid.is_event.any():
            return None
        settings = FitSettings(n_threads=1, seed=0, names=self.rows.names, params=dict(PARAMS))
        return HazardModel(N_INTERVALS, N_ROUNDS).fit(train, valid, past, settings)

    def version(self, model: HazardModel, from_day: int, to_day: int) -> Version:
        """What a model made before `from_day` answers to those who run then or arrive until `to_day` ends."""
        all_rows, from_s, to_s = self.everything, from_day * DAY_S, (to_day + 1) * DAY_S
        end_s = all_rows.arrival_s + all_rows.lifetime_s.astype(np.int64)
        idx = np.flatnonzero((end_s > from_s) & (all_rows.arrival_s < to_s))
        return Version(from_day, idx, model.curve_table(all_rows.take(idx)))

    def clusters(self) -> np.ndarray:
        """Whose ends go together, of each row."""
        return clusters_of(self.everything)

    def days(self, version: Version) -> list[DriftDay]:
        """What a detector sees of each day under one version, from its first day to the last of all."""
        since = slice(version.from_day - self.first_day, None)
        return drift_days(self.exits(version, self.last_day), None, self.own[since], self.new_owners[since])

    def exits(self, version: Version, to_day: int) -> DailyExits:
        """Exits under one version from its first day on; a running request enters at its age."""
        rows = self.everything.take(version.idx)
        ages_s = version.table.edges[0]
        arrival_s = rows.arrival_s
        watched = WatchedRequests(
            arrival_s, np.maximum(arrival_s, version.from_day * DAY_S), arrival_s + rows.lifetime_s.astype(np.int64),
            rows.is_event, self.clusters()[version.idx], ages_s, cumulative_hazard(version.table, ages_s))
        return daily_exits(watched, version.from_day, to_day)


@dataclass(frozen=True, slots=True)
class Version:
    """A model in force from a day on: the rows that it answers, and its table of them."""

    from_day: int
    idx: np.ndarray
    table: HazardTable


@dataclass(frozen=True, slots=True)
class Run:
    """A rule's year: days on which it alarmed and retrained, and each row's part of the measures (NaN = not asked).

    brier: what a row adds to the integrated Brier score of its week. pit: of each row's end or censoring.
    """

    alarms: list[int]
    trained: list[int]
    brier: np.ndarray
    pit: np.ndarray


def clusters_of(rows: Examples) -> np.ndarray:
    """Whose ends go together: the coarsest owner; without owners those who begin within the same hour."""
    return rows.keys[0] if rows.keys else rows.arrival_s // 3_600


def weeks_of(served: Served) -> np.ndarray:
    """The week in which each row arrives, 0 = the first that is served; below 0 before."""
    return (served.everything.arrival_s - served.first_day * DAY_S) // WEEK_S


def answered(served: Served, table: Answers, idx: np.ndarray, brier: np.ndarray, pit: np.ndarray) -> None:
    """Write the measures of the rows `idx`, which `table` answers, week by week."""
    week = weeks_of(served)
    for number in np.unique(week[idx]).tolist():
        own = week[idx] == number
        of_week = served.everything.take(np.flatnonzero(week == number))
        rows, answers = served.everything.take(idx[own]), table.take(own)
        brier[idx[own]] = integrated_brier_rows(answers, rows, brier_times(of_week), censoring_curve(of_week))
        pit[idx[own]] = Pit.of(answers, rows, np.random.default_rng(number)).value  # type: ignore[arg-type]


def run(served: Served, first: HazardModel, detector: Detector | None, follow_ups: tuple[int, ...] = (),
        max_age_days: int | None = None, refractory_days: int = 0) -> Run:
    """Serve the whole time; after an alarm at a day's end a model of the data known then is in force the next day.

    detector: None = never retrain. It goes on after an alarm as it does by itself. follow_ups: days after an alarm at
    which a further model is made, when more is known of what changed. refractory_days: an alarm so soon after one that
    was acted upon is the same drift; a later one begins the further models anew. max_age_days: a model is made when the
    one in force is that old; None = never for that reason.
    """
    brier, pit = np.full((2, len(served.everything)), np.nan)
    alarms: list[int] = []
    trained: list[int] = []
    due: list[int] = []
    model, day = first, served.first_day
    arrival_day = served.everything.arrival_s // DAY_S
    while day <= served.last_day:
        version = served.version(model, day, served.last_day)
        until, fresh = served.last_day, None
        days = served.days(version) if detector is not None else []
        for today, each in enumerate(days, day):
            if detector is not None and detector.update(each):
                alarms.append(today)
                if not due or today - due[0] > refractory_days:
                    due = [today + after for after in (0, *follow_ups)]
            is_old = max_age_days is not None and today + 1 - day >= max_age_days
            if (today in due or is_old) and (fresh := served.fitted(today + 1)) is not None:
                trained.append(today + 1)
                until = today
                break
        own = (arrival_day[version.idx] >= day) & (arrival_day[version.idx] <= until)
        answered(served, version.table.take(own), version.idx[own], brier, pit)
        if fresh is None:
            break
        model, day = fresh, until + 1
    return Run(alarms, trained, brier, pit)


def truth_run(served: Served, truth: LifetimeMixtures) -> Run:
    """What perfect knowledge of every distribution gives. truth: of the trace's requests."""
    brier, pit = np.full((2, len(served.everything)), np.nan)
    idx = np.flatnonzero(served.everything.arrival_s >= served.first_day * DAY_S)
    rows = served.everything.idx_row[idx]
    answered(served, TruthTable(truth.take(served.rows.idx_request[rows])), idx, brier, pit)
    return Run([], [], brier, pit)


def by_week(served: Served, result: Run) -> dict[str, list[float]]:
    """Brier score and coverage of the central 80 % by week of arrival, outcomes as known at the trace's end."""
    week, rows = weeks_of(served), served.everything
    found: dict[str, list[float]] = {"brier": [], "coverage": [], "n": []}
    for number in range(int(week.max()) + 1):
        own = (week == number) & np.isfinite(result.pit)
        found["n"].append(int(own.sum()))
        found["brier"].append(float(result.brier[own].mean()) if own.any() else float("nan"))
        found["coverage"].append(coverage(result.pit[own], rows.is_event[own]))
    return found


def coverage(pit: np.ndarray, is_event: np.ndarray) -> float:
    """The share of ends between the predicted 10 and 90 % quantiles, censored requests weighed for."""
    if len(pit) == 0:
        return float("nan")
    over = KaplanMeier.of(pit, is_event, np.full(len(pit), -1.0))
    low, high = over.survival_at(np.array([0.1, 0.9]))
    return float(low - high)


def summary(served: Served, result: Run) -> dict[str, Any]:
    """A run as JSON has it."""
    return {"alarms": result.alarms, "trained": result.trained, "weeks": by_week(served, result),
            "brier": float(np.nanmean(result.brier)),
            "coverage": coverage(result.pit[np.isfinite(result.pit)],
                                 served.everything.is_event[np.isfinite(result.pit)])}
