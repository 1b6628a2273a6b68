"""Figures of a model's decisions by week of arrival, as far as they are known; alarms of a drift.

A detector reads the days of a log; each alarm has the begin and size of the change. The page shows
the change, its begin, its size in standard errors, and the advice."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sojourn.features.split import Examples
from sojourn.flows.monitor.followed import COUNTS, Followed
from sojourn.flows.reports.figures import plain
from sojourn.flows.reports.section import Section, pngs, section_page
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
from sojourn.serving.decisions import LOSS_WORDS, Loss
from sojourn.serving.inputs import WEEK_S

if TYPE_CHECKING:
    from matplotlib.figure import Figure


N_ENDS_MIN = 50
"""A week with fewer observed ends is not judged."""
N_DRAWS = 100
BEFORE_DAYS, N_BEFORE_MIN = 28, 500
"""Owner features are compared with decisions of these days before a week, if they are so many."""
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
"""The measures of a week, in words; a measure that is not known is left out."""
_LOG_AGES_S = np.unique(np.rint(np.geomspace(30.0, 400.0 * DAY_S, 40)))
"""Ages at which curves are read if the model has no edges, and beyond its last edge."""
_AGAINST = {OWN: "before", NEW_OWNERS: "share"}
BANDS = ("in the first hour", "from 1 h to 1 d", "after the first day")


@dataclass(frozen=True, slots=True)
class Week:
    """One week. number: whole weeks since the clock's first Monday. from_s: its Monday 00:00.

    wait: why it is not judged yet, so that `scores` lacks its accuracy; "" = it is judged.
    judged_s: from then on each of its requests could be followed for the threshold. moved: features
    with the largest stability indices, largest first. is_partly_lost: the log lacks some records.
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
    week = rows.take(at)
    n_ended = int(week.is_event.sum())
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
        scores |= _accuracy(followed, week, at, threshold_s, seed) | _shadow(followed, rows, at, seed)
    known = {name: value for name, value in scores.items() if math.isfinite(value)}
    return Week(number, from_s, len(at), n_ended, wait, judged_s, known, tuple(moved[:N_FEATURES_SHOWN]),
                any(loss.heard_s >= from_s and loss.from_s < from_s + WEEK_S for loss in followed.losses))


def _accuracy(followed: Followed, week: Examples, at: np.ndarray, threshold_s: int, seed: int) -> dict[str, float]:
    table = followed.table.take(at)
    parts = parts_by_age(table, week)
    measures = score_model(table, week, threshold_s, parts)
    scores = {name: measures.get(source, math.nan) for name, source in (
        ("mae_log10", "creation.mae_log10_lifetime"), ("mae_log10_ipcw", "creation.mae_log10_lifetime_ipcw"),
        ("ap_long", "creation.ap_long"), ("ibs", "ages.ibs"))}
    brier = BrierOverAges.of_parts(parts, len(week))
    low, high = interval([brier.score(weight) for weight in OwnerDraws(week.keys[0], N_DRAWS, seed=seed)])
    cover = Pit.of(table, week, np.random.default_rng(seed)).distribution(np.array([0.5, 0.9]))
    scores |= {"ibs_low": low, "ibs_high": high, "cover_50": float(cover[0]), "cover_90": float(cover[1])}
    reference = _reference(followed)
    if reference is not None:
        scores["lifetime_distance"] = lifetime_distance(week, reference["lifetime"])
    return scores


def _shadow(followed: Followed, rows: Examples, at: np.ndarray, seed: int) -> dict[str, float]:
    if followed.shadow is None:
        return {}
    answered, curves = followed.shadow
    both = np.flatnonzero(np.isin(answered, at))
    if len(both) == 0:
        return {}
    both_rows = rows.take(answered[both])
    shadow = BrierOverAges.of(curves.take(both), both_rows)
    champion = BrierOverAges.of(followed.table.take(answered[both]), both_rows)
    draws = OwnerDraws(both_rows.keys[0], N_DRAWS, seed=seed)
    gains = [champion.score(weight) - shadow.score(weight) for weight in draws]
    low, high = interval(gains)
    return {"shadow_ibs": shadow.score(), "shadow_gain": champion.score() - shadow.score(), "shadow_gain_low": low,
            "shadow_gain_high": high}


def lifetime_distance(rows: Examples, reference: Mapping[str, list[float | None]]) -> float:
    """The largest |S(age) - S of the training rows(age)| over ages that both were followed to."""
    seen = KaplanMeier.of(rows.lifetime_s, rows.is_event, np.minimum(rows.entry_s, np.nextafter(rows.lifetime_s, 0.0)))
    then = np.array([math.nan if value is None else value for value in reference["survival"]])
    gaps = np.abs(seen.survival_at(np.array(reference["ages_s"], np.float64)) - then)
    return math.nan if np.isnan(gaps).all() else float(np.nanmax(gaps))


def _reference(followed: Followed) -> Mapping[str, dict[str, list[float | None]]] | None:
    """The reference of the version that answered last; None if its bundle has none."""
    return followed.models[-1].reference if followed.models else None


def is_comparable(feature: str, owner_keys: tuple[str, ...]) -> bool:
    """Whether a feature's distribution is stable if the requests' is; not so for sums over time.

    Counts of an owner's requests and its longest lifetime always rise. Means of a whole category
    settle, so even a very small change leaves the range of their training values. The time since an
    owner's last request follows the traffic. A weekday is not uniform in part of a week.

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
    """Features by their stability index against the training rows of their version, largest first.

    A feature of an owner changes with the history's length. So its index is the smaller of that and
    of the one against the 28 days before the week; it is left out if these have few decisions.
    """
    sums: dict[str, float] = {}
    for place, model in enumerate(followed.models):
        is_of_version = followed.table.table == place
        rows = followed.table.row[at][is_of_version[at]]
        if model.reference is None or len(rows) == 0:
            continue
        from_s = int(followed.week[at[0]]) * WEEK_S - model.phase_s
        is_before = is_of_version & (followed.arrival_s < from_s) & (followed.arrival_s >= from_s - BEFORE_DAYS * DAY_S)
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
    """One alarm. day: number of the day on the clock that raised it; since_day: the first day with
    other exits than expected.

    since_low_day, since_high_day: the first and last possible day of the change, see `change_point`. where: the ages,
    in words. observed, expected: exits from `since_day` to `day`, at these ages; z: their difference in standard
    errors. against: `predicted` = by the curves; `before` = the same owners' rate of the 28 days before; `share` =
    requests of new owners, instead of exits, against their usual share.
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
    """exits: by day; scores: float64 (D,), the detector's score after each day, 1 = alarm."""

    exits: DailyExits
    scores: np.ndarray
    alarms: tuple[Alarm, ...]


def watched_requests(followed: Followed) -> WatchedRequests:
    """The decisions for detectors; curves are read at hazard models' edges: exact there."""
    edges = [np.array(model.edges) for model in followed.models if model.edges]
    ages_s = np.unique(np.concatenate([[0.0], *edges, _LOG_AGES_S]))
    cluster = np.where(followed.owner < 0, np.arange(len(followed)) + followed.owner.max(initial=0) + 1, followed.owner)
    return WatchedRequests(followed.begin_s, followed.watch_s, followed.end_s, followed.is_event, cluster, ages_s,
                           cumulative_hazard(followed.table, ages_s))


def check_drift(followed: Followed, as_of_s: int, detector: str) -> DriftCheck | None:
    """Run the whole days at `as_of_s` through a detector of `DETECTORS`; None without any."""
    if len(followed) == 0:
        return None
    first, last = int(followed.watch_s.min() // DAY_S), as_of_s // DAY_S - 1
    if last < first:
        return None
    exits = daily_exits(watched_requests(followed), first, last)
    return DriftCheck(exits, *drift_alarms(exits, detector, *owner_days(followed, first, last)))


def owner_days(followed: Followed, first: int, last: int) -> tuple[list[DriftDay], list[DriftDay]]:
    """Exits against the owners' earlier rate, and requests of new owners, of the days `first` ..
    `last`; only requests with a known owner."""
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
    """The alarm of a day, from all days up to it; of owners, from the last 28."""
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


_BLUE, _GREY, _RED, _GREEN = "#2a6f97", "#8c8c8c", "#b23a48", "#1b7f79"
_ALWAYS = ("exits", "exits_expected", "exits_z", "psi_max", "unknown_owner")
_ACCURACY = ("ibs", "mae_log10", "mae_log10_ipcw", "ap_long", "cover_50", "cover_90", "lifetime_distance")
NEAR_SCORE = 0.5
"""From this score on a detector moves towards an alarm."""
FAR_Z = 3.0
"""Weeks with exits further from the expected ones, in standard errors, are listed."""
Clock = Callable[[float], str]


def clock_text(is_dated: bool) -> Clock:
    """A second on the predictor's clock as text: in UTC if it is a Unix second, else day and hour.

    >>> clock_text(False)(90_000), clock_text(True)(1_793_532_600)
    ('day 1, 01:00', '2026-11-01 11:30 UTC')
    """
    from datetime import UTC, datetime

    def text(time_s: float) -> str:
        if is_dated:
            return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M} UTC"
        day, rest = divmod(int(time_s), DAY_S)
        return f"day {day}, {rest // 3_600:02d}:{rest % 3_600 // 60:02d}"

    return text


def alarm_text(alarm: Alarm, clock: Clock) -> str:
    """The change, its begin, and its size in standard errors."""
    low, high = (clock(day * DAY_S) for day in (alarm.since_low_day, alarm.since_high_day))
    between = "" if low == high else f" (between {low} and {high})"
    way = "earlier" if alarm.ratio > 1.0 else "later"
    what = {"predicted": f"Requests {alarm.where} end {way} than predicted: {alarm.observed:.0f} exits were seen where",
            "before": f"Requests end {way} than those of the same owners in the 28 days before: {alarm.observed:.0f} "
                      "exits were seen where",
            "share": "More requests than usual come from owners that are less than a week old: "
                     f"{alarm.observed:.0f} were made where"}[alarm.against]
    return (f"{what} {alarm.expected:.0f} were expected ({alarm.ratio:.2f} times). It began about "
            f"{clock(alarm.since_day * DAY_S)}{between} and was noticed after {clock((alarm.day + 1) * DAY_S)}; the "
            f"difference is {abs(alarm.z):.1f} standard errors, owners drawn together.")


def loss_text(losses: Sequence[Loss], clock: Clock) -> list[str]:
    """The log's kinds of missing records, their numbers and first times; [] if it is whole."""
    if not losses:
        return []
    parts = []
    for what, words in LOSS_WORDS.items():
        of_kind = [loss for loss in losses if loss.what == what]
        known_s = [loss.from_s for loss in of_kind if math.isfinite(loss.from_s)]
        since = f" from {clock(min(known_s))} on" if known_s else ""
        if of_kind:
            parts.append(f"{words}: {sum(loss.n for loss in of_kind):,}{since}")
    return [f"The log is not whole: {'; '.join(parts)}. What ran when records were lost is followed up to the loss "
            "only."]


def _calm_text(scores: np.ndarray) -> str:
    stands = f"No alarm. The detector stands at {scores[-1]:.0%} of one, at most {scores.max():.0%} so far"
    if scores[-1] >= NEAR_SCORE:
        return f"{stands}: moving towards an alarm. What to do: look at the weeks' exits z."
    if scores.max() >= NEAR_SCORE:
        return f"{stands}: it was near an alarm and is no more. What to do: look at the weeks' exits z."
    return f"{stands}: exits are as expected. What to do: nothing."


def verdict(check: DriftCheck | None, weeks: Sequence[Week], done: str, clock: Clock) -> list[str]:
    """The page's first sentences."""
    judged = [week for week in weeks if not week.wait]
    if check is None:
        return ["No whole day of decisions is in the log yet: nothing can be said. What to do: wait."]
    lines = []
    if check.alarms:
        n, first = len(check.alarms), clock((check.alarms[0].day + 1) * DAY_S)
        which = "Alarm." if n == 1 else f"Alarm, the last of {n}; the first was noticed after {first}."
        lines.append(f"{which} {alarm_text(check.alarms[-1], clock)}")
        moved = [name for week in weeks if (week.from_s + 7 * DAY_S) > check.alarms[-1].since_day * DAY_S
                 for name, index in week.moved if index >= 0.25]
        if moved:
            lines.append(f"Inputs that moved since then: {', '.join(dict.fromkeys(moved))}.")
        lines.append(f"What to do: {done}")
    else:
        lines.append(_calm_text(check.scores))
    far = [week for week in weeks if abs(week.scores.get("exits_z", 0.0)) > FAR_Z]
    if far:
        lines.append("Weeks whose exits are more than 3 standard errors from the expected ones: " + ", ".join(
            f"{week.number} (z {week.scores['exits_z']:.1f})" for week in far) + ".")
    if not judged:
        lines.append("No week can be judged by its ends yet; exits against expected exits need none.")
    return lines


def monitor_page(name: str, about: str, lines: Sequence[str], weeks: Sequence[Week], check: DriftCheck | None,
                 counts: Mapping[str, int], clock: Clock, losses: Sequence[Loss] = ()) -> str:
    """The page with its pictures, without outside resources."""
    shadow = any("shadow_ibs" in week.scores for week in weeks)
    sections = [
        _table("Weeks", weeks, clock, _ALWAYS, "Every week, however fresh. Ends need not be waited for here."),
        _table("Accuracy by week", weeks, clock, _ACCURACY,
               "Of the requests decided in the week, as far as they are known now. A week is judged once each of its "
               "requests could be followed to the long-lived threshold and 50 ends were seen."),
    ]
    if shadow:
        sections.append(_table("Champion against shadow", weeks, clock,
                               ("ibs", "shadow_ibs", "shadow_gain", "shadow_gain_low", "shadow_gain_high"),
                               "On the same requests. The interval is over draws of owners."))
    sections.append(Section("Inputs that moved most", "Population stability index against the training rows.",
                            ("week from", "feature", "index"),
                            tuple((clock(week.from_s), feature, f"{index:.2f}") for week in weeks[-4:]
                                  for feature, index in week.moved), 2,
                            "The last four weeks. 0.1 to 0.25 = moved a little, above 0.25 = moved. Left out: what "
                            "adds up with time, owners' features without 500 earlier decisions to compare "
                            "with, the time since an owner's last request, means of whole "
                            "categories, the weekday."))
    sections.append(Section("What was joined", "", ("count", "n"),
                            tuple((COUNTS[key], f"{counts[key]:,}") for key in COUNTS if counts.get(key)), 1))
    figures: dict[str, Figure] = {}
    if check is not None:
        figures["Exits-against-expected"] = exits_figure(check, clock)
    if any(not week.wait for week in weeks):
        figures["Accuracy-by-week"] = accuracy_figure(weeks)
    text = " ".join([*lines, *loss_text(losses, clock), about])
    return section_page(f"Monitor of {name}", text, sections, pngs(figures))


def exits_figure(check: DriftCheck, clock: Clock) -> Figure:
    """Observed over expected exits by day with two standard errors, and the detector's score."""
    from matplotlib.figure import Figure

    days = check.exits.first_day + np.arange(len(check.exits))
    observed, expected = check.exits.observed.sum(axis=1), check.exits.expected.sum(axis=1)
    figure = Figure(figsize=(11, 5.4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(expected > 0.0, observed / expected, np.nan)
        spread = np.where(expected > 0.0, 2.0 * np.sqrt(np.maximum(check.exits.squared_all, expected)) / expected,
                          np.nan)
    upper.fill_between(days, np.maximum(ratio - spread, 0.0), ratio + spread, color=_BLUE, alpha=0.18, linewidth=0,
                       label="two standard errors, owners drawn together")
    upper.plot(days, ratio, color=_BLUE, linewidth=1.2, marker="o", markersize=2.5, label="observed / expected")
    upper.axhline(1.0, color=_GREY, linewidth=1)
    shown = ratio[np.isfinite(ratio)]
    upper.set_ylim(0.0, max(2.0, float(np.quantile(shown, 0.98)) * 1.3 if len(shown) else 2.0))
    upper.set_ylabel("exits of a day, observed / expected")
    lower.plot(days, check.scores, color=_GREEN, linewidth=1.4)
    lower.axhline(1.0, color=_RED, linewidth=1, linestyle="--")
    lower.text(days[0], 1.02, "alarm", color=_RED, fontsize=9, va="bottom")
    lower.set_ylim(0.0, max(1.25, float(check.scores.max()) * 1.1))
    lower.set_ylabel("detector")
    lower.set_xlabel(f"day on the predictor's clock; the first is {clock(days[0] * DAY_S)}")
    for alarm in check.alarms:
        upper.axvspan(alarm.since_day, alarm.day, color=_RED, alpha=0.10, linewidth=0)
        for axes in (upper, lower):
            axes.axvline(alarm.day, color=_RED, linewidth=1.2)
    upper.legend(frameon=False, fontsize=9, loc="upper left")
    for axes in (upper, lower):
        plain(axes)
    return figure


def accuracy_figure(weeks: Sequence[Week]) -> Figure:
    """Brier score with its interval, and coverage, of the judged weeks."""
    from matplotlib.figure import Figure

    judged = [week for week in weeks if not week.wait]
    x = np.arange(len(judged))
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)

    def column(name: str) -> np.ndarray:
        return np.array([week.scores.get(name, np.nan) for week in judged])

    score = column("ibs")
    left.errorbar(x, score, [np.maximum(score - column("ibs_low"), 0.0), np.maximum(column("ibs_high") - score, 0.0)],
                  color=_BLUE, marker="o", markersize=4, linewidth=1.2, capsize=2, label="champion")
    if not np.isnan(column("shadow_ibs")).all():
        left.plot(x, column("shadow_ibs"), color=_GREEN, marker="s", markersize=4, linewidth=1.0, label="shadow")
        left.legend(frameon=False, fontsize=9)
    left.set_title("Brier score over ages, lower is better; 95 % interval over owners", fontsize=10, loc="left")
    for name, level, colour in (("cover_50", 0.5, _GREEN), ("cover_90", 0.9, _BLUE)):
        right.plot(x, column(name), color=colour, marker="o", markersize=4, linewidth=1.2, label=f"within p{level:.0%}"
                   .rstrip("%"))
        right.axhline(level, color=colour, linewidth=0.8, linestyle="--")
    right.set_ylim(0.0, 1.0)
    right.legend(frameon=False, fontsize=9, loc="lower left")
    right.set_title("Lifetimes within the predicted quantile", fontsize=10, loc="left")
    for axes in (left, right):
        axes.set_xticks(x, [str(week.number) for week in judged], rotation=90 if len(x) > 12 else 0, fontsize=8)
        axes.set_xlabel("week of the clock")
        plain(axes)
    return figure


def _table(title: str, weeks: Sequence[Week], clock: Clock, names: Sequence[str], caption: str) -> Section:
    shown = [name for name in names if any(name in week.scores for week in weeks)]
    rows = tuple((str(week.number), clock(week.from_s), _state(week, clock),
                  *((f"{week.n:,}", f"{week.n_ended:,}") if names is _ALWAYS else ()),
                  *(_figure(week.scores[name]) if name in week.scores else "-" for name in shown)) for week in weeks)
    legend = ". ".join(f"{name.replace('_', ' ')}: {MEASURES[name]}" for name in shown)
    return Section(title, caption, ("week", "from", "state", *(("decided", "ended") if names is _ALWAYS else ()),
                                    *(name.replace("_", " ") for name in shown)), rows, 3, legend)


def _state(week: Week, clock: Clock) -> str:
    lost = "; partly lost" if week.is_partly_lost else ""
    if not week.wait:
        return f"judged{lost}"
    why = f"yet: from {clock(week.judged_s)}" if week.wait.startswith("before") else f": {week.wait}"
    return f"not judged{'' if why.startswith(':') else ' '}{why}{lost}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.3g}"
