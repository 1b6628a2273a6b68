"""Figures of a model's decisions by week of arrival, as far as they can be judged; and alarms of a drift: a detector
reads the days of a log, and each alarm says since when and by how much."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.features.split import Examples
from sojourn.flows.monitor.followed import Followed
from sojourn.models.bundle_writer import feature_reference, stability_index
from sojourn.models.drift import (
    DAY_S,
    DETECTORS,
    NEW_OWNERS,
    OWN,
    REFERENCE_DAYS,
    AnyOf,
    DailyExits,
    DriftDay,
    WatchedRequests,
    change_point,
    cumulative_hazard,
    daily_exits,
    drift_days,
    new_owner_days,
    own_exits,
)
from sojourn.models.measures import BrierOverAges, KaplanMeier, OwnerDraws, Pit, interval, parts_by_age, score_model
from sojourn.serving.inputs import WEEK_S

N_ENDS_MIN = 50
"""A week with fewer observed ends is not judged."""
N_DRAWS = 100
BEFORE_DAYS, N_BEFORE_MIN = 28, 500
"""Owner features are compared with the decisions of so many days before a week, at least so many."""
N_FEATURES_SHOWN = 3
MEASURES: Mapping[str, str] = {
    "mae_log10": "MAE of log10 lifetime over observed ends, median against observed; lower is better",
    "mae_log10_ipcw": "the same, ends weighed for the censored",
    "ap_long": "average precision of \"outlives the long-lived threshold\"; higher is better",
    "ibs": "integrated Brier score at creation and of what remains at 10 min, 1 h and 6 h; lower is better",
    "ibs_low": "2.5 % of that score over draws of owners", "ibs_high": "97.5 % of it",
    "cover_50": "share of lifetimes within the predicted median; right = 0.5",
    "cover_90": "share of lifetimes within the predicted 90 % quantile; right = 0.9",
    "lifetime_distance": "largest distance of the Kaplan-Meier curve of lifetimes from that of the training rows",
    "psi_max": "largest population stability index of a feature; 0.25 and more = moved",
    "unknown_owner": "share of decisions whose owner the model had not seen",
    "exits": "observed exits in the week", "exits_expected": "exits that the curves predict of those that ran",
    "exits_z": "their difference in standard errors, owners drawn together",
    "shadow_ibs": "the shadow's Brier score on the same requests",
    "shadow_gain": "the champion's less the shadow's; above 0 = the shadow is better",
    "shadow_gain_low": "2.5 % of that difference", "shadow_gain_high": "97.5 % of it",
}  # fmt: skip
"""What a week has, in words; a measure that cannot be known is left out."""
_LOG_AGES_S = np.unique(np.rint(np.geomspace(30.0, 400.0 * DAY_S, 40)))
"""Ages at which curves are read where the model has no edges of its own, and beyond its last one."""
_AGAINST = {OWN: "before", NEW_OWNERS: "share"}
BANDS = ("in the first hour", "from 1 h to 1 d", "after the first day")


@dataclass(frozen=True, slots=True)
class Week:
    """One week. number: whole weeks since the first Monday of the clock. from_s: its Monday 00:00, s on the clock.

    wait: why it is not judged yet, "" where it is: its accuracy then is left out of `scores`. judged_s: from when each
    of its requests could be followed for the threshold. moved: features with the
    largest stability indices, largest first. is_partly_lost: records of it are missing from the log.
    """

    number: int
    from_s: int
    n: int
    n_ended: int
    wait: str
    judged_s: int
    scores: Mapping[str, float]
    moved: tuple[tuple[str, float], ...]
    is_partly_lost: bool = False


def weeks_of(followed: Followed, exits: DailyExits | None, as_of_s: int, threshold_s: int, seed: int = 0) -> list[Week]:
    """The weeks in which requests were decided, in order. A week is judged once each of its requests could be followed
    for the threshold, and at least 50 ends were seen."""
    rows = followed.examples()
    phase_s = followed.models[0].phase_s if followed.models else 0
    return [_week(followed, rows, int(number), int(number) * WEEK_S - phase_s, exits, as_of_s, threshold_s, seed)
            for number in np.unique(followed.week)]


def _week(followed: Followed, rows: Examples, number: int, from_s: int, exits: DailyExits | None, as_of_s: int,
          threshold_s: int, seed: int) -> Week:
    at = np.flatnonzero(followed.week == number)
    own = rows.take(at)
    n_ended = int(own.is_event.sum())
    judged_s = from_s + WEEK_S + threshold_s
    wait = f"before second {judged_s}" if as_of_s < judged_s else ""
    if not wait and n_ended < N_ENDS_MIN:
        wait = f"{n_ended} of {N_ENDS_MIN} ends" if n_ended else "no end was seen, check whether ends are logged"
    scores = {"unknown_owner": float(followed.is_unknown[at].mean())}
    scores |= _exits(exits, from_s)
    moved = _moved(followed, at)
    if moved:
        scores["psi_max"] = moved[0][1]
    if not wait:
        scores |= _accuracy(followed, own, at, threshold_s, seed) | _shadow(followed, rows, at, seed)
    known = {name: value for name, value in scores.items() if math.isfinite(value)}
    return Week(number, from_s, len(at), n_ended, wait, judged_s, known, tuple(moved[:N_FEATURES_SHOWN]),
                any(loss.heard_s >= from_s and loss.from_s < from_s + WEEK_S for loss in followed.losses))


def _accuracy(followed: Followed, own: Examples, at: np.ndarray, threshold_s: int, seed: int) -> dict[str, float]:
    table = followed.table.take(at)
    parts = parts_by_age(table, own)
    found = score_model(table, own, threshold_s, parts)
    scores = {name: found.get(source, math.nan) for name, source in (
        ("mae_log10", "creation.mae_log10_lifetime"), ("mae_log10_ipcw", "creation.mae_log10_lifetime_ipcw"),
        ("ap_long", "creation.ap_long"), ("ibs", "ages.ibs"))}
    brier = BrierOverAges.of_parts(parts, len(own))
    low, high = interval([brier.score(weight) for weight in OwnerDraws(own.keys[0], N_DRAWS, seed=seed)])
    cover = Pit.of(table, own, np.random.default_rng(seed)).distribution(np.array([0.5, 0.9]))
    scores |= {"ibs_low": low, "ibs_high": high, "cover_50": float(cover[0]), "cover_90": float(cover[1])}
    reference = _reference(followed)
    if reference is not None:
        scores["lifetime_distance"] = lifetime_distance(own, reference["lifetime"])
    return scores


def _shadow(followed: Followed, rows: Examples, at: np.ndarray, seed: int) -> dict[str, float]:
    if followed.shadow is None:
        return {}
    answered, curves = followed.shadow
    both = np.flatnonzero(np.isin(answered, at))
    if len(both) == 0:
        return {}
    own = rows.take(answered[both])
    shadow = BrierOverAges.of(curves.take(both), own)
    champion = BrierOverAges.of(followed.table.take(answered[both]), own)
    gains = [champion.score(weight) - shadow.score(weight) for weight in OwnerDraws(own.keys[0], N_DRAWS, seed=seed)]
    low, high = interval(gains)
    return {"shadow_ibs": shadow.score(), "shadow_gain": champion.score() - shadow.score(), "shadow_gain_low": low,
            "shadow_gain_high": high}


def lifetime_distance(rows: Examples, reference: Mapping[str, list[float | None]]) -> float:
    """The largest |S(age) - S of the training rows(age)| over the reference's ages that both were followed to."""
    seen = KaplanMeier.of(rows.lifetime_s, rows.is_event, np.minimum(rows.entry_s, np.nextafter(rows.lifetime_s, 0.0)))
    then = np.array([math.nan if value is None else value for value in reference["survival"]])
    gaps = np.abs(seen.survival_at(np.array(reference["ages_s"], np.float64)) - then)
    return math.nan if np.isnan(gaps).all() else float(np.nanmax(gaps))


def _reference(followed: Followed) -> Mapping[str, dict[str, list[float | None]]] | None:
    """Of the version that answered last; None where its bundle has none."""
    return followed.models[-1].reference if followed.models else None


def is_comparable(feature: str, owner_keys: tuple[str, ...]) -> bool:
    """Whether a feature keeps its distribution where requests do: not what adds up with time, nor part of a week.

    Counts of what an owner has run and the longest of its lifetimes rise for ever; means of a whole category settle, so
    that a change far too small to matter leaves all of its training values; the time since an owner's last request
    follows the traffic; a weekday is not spread over a week that has only begun.

    >>> [is_comparable(name, ("user",)) for name in ("cpu_cores", "user:last", "user:longest", "user:ended")]
    [True, True, False, False]
    >>> [is_comparable(name, ("user",)) for name in ("zone:mean", "weekday")]
    [False, False]
    """
    key, separator, what = feature.rpartition(":")
    if not separator:
        return feature != "weekday"
    return key in owner_keys and what not in ("arrived", "ended", "longest", "since_last")


def _moved(followed: Followed, at: np.ndarray) -> list[tuple[str, float]]:
    """Features by their stability index against the rows that their own version was trained on, largest first.

    What a feature says of an owner grows with the time that the history has run. So its index is the smaller one of
    that and of the one against the decisions of the 28 days before the week; it is left out where these are few.
    """
    sums: dict[str, float] = {}
    for place, model in enumerate(followed.models):
        is_own = followed.table.table == place
        rows = followed.table.row[at][is_own[at]]
        if model.reference is None or len(rows) == 0:
            continue
        from_s = int(followed.week[at[0]]) * WEEK_S - model.phase_s
        is_before = is_own & (followed.arrival_s < from_s) & (followed.arrival_s >= from_s - BEFORE_DAYS * DAY_S)
        before = followed.table.row[is_before]
        for idx, name in enumerate(model.features):
            reference = model.reference["features"].get(name)
            if reference is not None and is_comparable(name, model.owner_keys):
                values = followed.features[place][:, idx]
                index = stability_index(values[rows], reference)
                if ":" in name and len(before) < N_BEFORE_MIN:
                    continue
                if ":" in name:
                    index = min(index, stability_index(values[rows], feature_reference(values[before])))
                sums[name] = sums.get(name, 0.0) + index * len(rows) / len(at)
    return sorted(sums.items(), key=lambda item: (-item[1], item[0]))


def _exits(exits: DailyExits | None, from_s: int) -> dict[str, float]:
    if exits is None:
        return {}
    first = math.ceil(from_s / DAY_S) - exits.first_day
    days = slice(max(first, 0), max(first + WEEK_S // DAY_S, 0))
    observed, expected = float(exits.observed[days].sum()), float(exits.expected[days].sum())
    if expected <= 0.0:
        return {}
    spread = math.sqrt(max(float(exits.squared_all[days].sum()), expected))
    return {"exits": observed, "exits_expected": expected, "exits_z": (observed - expected) / spread}


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm. day: number of the day on the clock that raised it; since_day: from when exits left the expected ones.

    since_low_day, since_high_day: the first and last day that may be it, see `change_point`.
    where: at which ages, in words. observed, expected: exits from `since_day` to `day`, at these ages; z: their
    difference in standard errors. against: `predicted` = what the curves say; `before` = the same owners' rate of the
    28 days before; `share` = requests of new owners, instead of exits, against their usual share.
    """

    day: int
    since_day: int
    since_low_day: int
    since_high_day: int
    where: str
    observed: float
    expected: float
    z: float
    against: str = "predicted"

    @property
    def ratio(self) -> float:
        """Observed over expected exits; above 1 = requests end earlier than predicted."""
        return self.observed / self.expected if self.expected > 0.0 else math.inf


@dataclass(frozen=True, slots=True)
class DriftCheck:
    """exits: by day; scores: float64 (D,), how near an alarm the detector was after each day, 1 = alarm."""

    exits: DailyExits
    scores: np.ndarray
    alarms: tuple[Alarm, ...]


def watched_requests(followed: Followed) -> WatchedRequests:
    """The decisions as detectors take them; curves are read at the edges of hazard models, which is exact there."""
    edges = [np.array(model.edges) for model in followed.models if model.edges]
    ages_s = np.unique(np.concatenate([[0.0], *edges, _LOG_AGES_S]))
    cluster = np.where(followed.owner < 0, np.arange(len(followed)) + followed.owner.max(initial=0) + 1, followed.owner)
    return WatchedRequests(followed.begin_s, followed.watch_s, followed.end_s, followed.is_event, cluster, ages_s,
                           cumulative_hazard(followed.table, ages_s))


def check_drift(followed: Followed, as_of_s: int, detector: str) -> DriftCheck | None:
    """Run the days that were over at `as_of_s` through a detector of `DETECTORS`; None where there is no whole day."""
    if len(followed) == 0:
        return None
    first, last = int(followed.watch_s.min() // DAY_S), as_of_s // DAY_S - 1
    if last < first:
        return None
    exits = daily_exits(watched_requests(followed), first, last)
    return DriftCheck(exits, *drift_alarms(exits, detector, *owner_days(followed, first, last)))


def owner_days(followed: Followed, first: int, last: int) -> tuple[list[DriftDay], list[DriftDay]]:
    """Exits against the owners' own rate before, and requests of new owners, of the days `first` .. `last`; of
    requests whose owner is known."""
    known = np.flatnonzero(followed.owner >= 0)
    begin_s, watch_s, end_s, owner = (each[known] for each in (followed.begin_s, followed.watch_s, followed.end_s,
                                                               followed.owner))
    return (own_exits(begin_s, watch_s, end_s, followed.is_event[known], owner, first, last),
            new_owner_days(followed.arrival_s[known], owner, first, last))


def drift_alarms(exits: DailyExits, detector: str, own: Sequence[DriftDay],
                 new_owners: Sequence[DriftDay]) -> tuple[np.ndarray, tuple[Alarm, ...]]:
    """The scores of a detector of `DETECTORS` after each day, float64 (D,), and its alarms."""
    running = DETECTORS[detector]()
    scores, alarms = [], []
    for place, day in enumerate(drift_days(exits, None, own, new_owners)):
        is_alarm = running.update(day)
        scores.append(running.score)
        if is_alarm:
            series = running.series if isinstance(running, AnyOf) else None
            of_owners = {OWN: own, NEW_OWNERS: new_owners}.get(series) if isinstance(series, str) else None
            alarms.append(_alarm(exits, place, series, of_owners))
    return np.array(scores), tuple(alarms)


def _alarm(exits: DailyExits, place: int, series: int | str | None, of_owners: Sequence[DriftDay] | None) -> Alarm:
    """What an alarm of a day says, from all days up to it; of an alarm of owners from the last 28, which the day is
    compared with."""
    band = series if isinstance(series, int) else None
    bands = slice(None) if band is None else slice(band, band + 1)
    low = 0 if of_owners is None else max(place + 1 - REFERENCE_DAYS, 0)
    days = slice(low, place + 1)
    if of_owners is None:
        observed, expected = exits.observed[days, bands].sum(axis=1), exits.expected[days, bands].sum(axis=1)
        squared = exits.squared_all[days] if band is None else exits.squared[days, band]
    else:
        observed, expected, squared = np.array([(day.observed, day.expected, day.variance)
                                                for day in of_owners[days]]).T
    change = change_point(observed, expected, squared)
    start = change.start
    total, due = float(observed[start:].sum()), float(expected[start:].sum())
    spread = math.sqrt(max(float(squared[start:].sum()), due, 1e-9))
    where = "at all ages" if band is None else BANDS[band]
    first = exits.first_day
    against = _AGAINST.get(series, "predicted") if isinstance(series, str) else "predicted"
    return Alarm(first + place, first + low + start, first + low + change.low, first + low + change.high, where, total,
                 due, (total - due) / spread, against)
