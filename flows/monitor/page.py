"""One check of a model as a page: what moved, since when, by how many standard errors, and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sojourn.flows.monitor.followed import COUNTS
from sojourn.flows.monitor.weeks import MEASURES, Alarm, DriftCheck, Week
from sojourn.flows.reports.figures import plain
from sojourn.flows.reports.section import Section, pngs, section_page
from sojourn.models.drift import DAY_S
from sojourn.serving.decisions import LOSS_WORDS, Loss

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLUE, _GREY, _RED, _GREEN = "#2a6f97", "#8c8c8c", "#b23a48", "#1b7f79"
_ALWAYS = ("exits", "exits_expected", "exits_z", "psi_max", "unknown_owner")
_ACCURACY = ("ibs", "mae_log10", "mae_log10_ipcw", "ap_long", "cover_50", "cover_90", "lifetime_distance")
NEAR_SCORE = 0.5
"""From here on a detector moves towards an alarm."""
FAR_Z = 3.0
"""Weeks whose exits are further from the expected ones, in standard errors, are named."""
Clock = Callable[[float], str]


def clock_text(is_dated: bool) -> Clock:
    """How a second on the predictor's clock is written: in UTC if it is a Unix second, else as a day and hour.

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
    """What moved, since when and by how many standard errors."""
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
    """What is missing from the log, how much of it and from when; nothing where it is whole."""
    if not losses:
        return []
    told = []
    for what, words in LOSS_WORDS.items():
        own = [loss for loss in losses if loss.what == what]
        known_s = [loss.from_s for loss in own if math.isfinite(loss.from_s)]
        since = f" from {clock(min(known_s))} on" if known_s else ""
        if own:
            told.append(f"{words}: {sum(loss.n for loss in own):,}{since}")
    return [f"The log is not whole: {'; '.join(told)}. What ran when records were lost is followed up to the loss "
            "only."]


def _calm_text(scores: np.ndarray) -> str:
    """What no alarm means, by how near one the detector is."""
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
    """The page, with its pictures in it; it asks for nothing outside."""
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
    told = " ".join([*lines, *loss_text(losses, clock), about])
    return section_page(f"Monitor of {name}", told, sections, pngs(figures))


def exits_figure(check: DriftCheck, clock: Clock) -> Figure:
    """Observed over expected exits by day with two standard errors, and how near an alarm the detector was."""
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
    """Brier score with its interval, and coverage, of the weeks that are judged."""
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
