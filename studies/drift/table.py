"""The detector table: false alarms a year and delay of each detector, at its defaults and at an equal rate."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from sojourn.models.drift import (
    BANDS_S,
    DETECTORS,
    DVLA_PRESETS,
    OWN,
    AnyOf,
    ClassShares,
    Cusum,
    DailyExits,
    Detector,
    DriftDay,
    HazardRatio,
    PageHinkley,
    ScaledCusum,
    Timer,
    drift_days,
)
from sojourn.publishing import whole_file
from studies.drift.truths import N_DAYS, TRUTHS, made_year

CHOOSING = range(200)
"""Seeds on which thresholds and constants were chosen; the table shows the others."""
SHOWN = range(200, 400)
EQUAL_RATE = 1.0
"""False alarms a year on the autocorrelated years without drift, to which thresholds are set to compare."""
N_BANDS = len(BANDS_S)


def _dvla(preset: str, is_as_printed: bool, confirm: float) -> Detector:
    settings = replace(DVLA_PRESETS[preset], is_as_printed=is_as_printed)
    return ClassShares(replace(settings, confirm=confirm, alarm=min(settings.alarm, confirm)))


def _level(threshold: float) -> Detector:
    return Cusum(threshold=threshold)


def _change(threshold: float) -> Detector:
    return Cusum(threshold=threshold, tolerance=0.12, half_life_days=28.0)


def _level_or_change(threshold: float) -> Detector:
    return AnyOf({"level": (partial(_level, threshold * 8.0 / 6.0), None),
                  "change": (partial(_change, threshold), None)})


def _own(threshold: float) -> Detector:
    return AnyOf({"own": (partial(ScaledCusum, threshold), OWN)})


def _level_or_owners(threshold: float) -> Detector:
    return AnyOf({"level": (partial(_level, threshold * 8.0 / 3.3), None),
                  "own": (partial(ScaledCusum, threshold), OWN)})


def _change_bands(threshold: float) -> Detector:
    return AnyOf({f"{band}": (partial(_change, threshold), band) for band in (None, *range(N_BANDS))})


def _cusum_bands(threshold: float) -> Detector:
    made = partial(Cusum, threshold=threshold, tolerance=0.1)
    return AnyOf({f"{band}": (made, band) for band in (None, *range(N_BANDS))})


SCALED: Mapping[str, tuple[Callable[[float], Detector], float, float]] = MappingProxyType({
    "timer": (lambda value: Timer(max(round(value), 1)), 1.0, 1_000.0),
    "page-hinkley": (lambda value: PageHinkley(threshold=value), 1.0, 500.0),
    "level": (_level, 1.0, 500.0),
    "change": (_change, 1.0, 500.0),
    "level-or-change": (_level_or_change, 1.0, 500.0),
    "own": (_own, 0.5, 100.0),
    "level-or-owners": (_level_or_owners, 0.5, 100.0),
    "change-bands": (_change_bands, 1.0, 500.0),
    "cusum-bands": (_cusum_bands, 1.0, 500.0),
    "hazard-ratio": (lambda value: HazardRatio(mean_days=math.exp(value)), 1.0, 200.0),
    "dvla": (partial(_dvla, "production", False), 0.01, 100.0),
    "dvla-printed": (partial(_dvla, "production", True), 0.01, 100.0),
    "dvla-figure-9": (partial(_dvla, "figure 9", False), 0.01, 100.0),
    "dvla-figure-9-printed": (partial(_dvla, "figure 9", True), 0.01, 100.0),
})
"""Each detector made from its threshold (a period for the timer, a log for hazard-ratio), and where to look for it."""


def made_years(folder: Path, truth: str, seeds: Sequence[int]) -> list[tuple[list[DriftDay], int]]:
    """Days and change day of each seed; kept in the folder, so that a broken-off run goes on."""
    path = folder / f"years-{truth.replace(', ', '-')}-{seeds[0]}.npz"
    if path.is_file():
        with np.load(path) as kept:
            table, changes = kept["table"], kept["changes"]
    else:
        found, changed = [], []
        for seed in seeds:
            year = made_year(TRUTHS[truth], seed)
            exits = year.exits
            found.append(np.hstack([exits.observed, exits.expected, exits.squared, exits.squared_all[:, None],
                                   year.shares, [[own.observed, own.expected, own.variance] for own in year.own]]))
            changed.append(year.change_day)
        table, changes = np.array(found), np.array(changed)
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as fresh, fresh.open("wb") as file:
            np.savez(file, table=table, changes=changes)
    return [(_days(rows), int(change)) for rows, change in zip(table, changes, strict=True)]


def _days(table: np.ndarray) -> list[DriftDay]:
    observed, expected, squared = (table[:, idx * N_BANDS:(idx + 1) * N_BANDS] for idx in range(3))
    exits = DailyExits(0, observed, expected, squared, table[:, 3 * N_BANDS])
    own = [DriftDay(*row) for row in table[:, -3:].tolist()]
    new_owners = [DriftDay(0.0, 0.0, 0.0)] * len(table)  # owners of a made year are there from its first day
    return drift_days(exits, table[:, 3 * N_BANDS + 1:-3], own, new_owners)


def alarms_of(detector: Detector, days: Sequence[DriftDay]) -> list[int]:
    """The days on which it alarms."""
    return [number for number, day in enumerate(days) if detector.update(day)]


def alarm_rate(made: Callable[[], Detector], years: Sequence[tuple[list[DriftDay], int]]) -> tuple[float, float]:
    """Alarms a year, and half the width of the 95 % interval over years."""
    counts = np.array([len(alarms_of(made(), days)) for days, _ in years]) * 365.0 / N_DAYS
    return float(counts.mean()), float(1.96 * counts.std(ddof=1) / np.sqrt(len(counts)))


def delays(made: Callable[[], Detector], years: Sequence[tuple[list[DriftDay], int]]) -> np.ndarray:
    """Days of data from the change to the first alarm, 1 = at the end of its first day; infinite where there is none.

    float64, one a year.
    """
    found = []
    for days, change_day in years:
        later = [day for day in alarms_of(made(), days) if day >= change_day]
        found.append(later[0] - change_day + 1.0 if later else np.inf)
    return np.array(found)


def row_of(made: Callable[[], Detector], years: Mapping[str, Sequence[tuple[list[DriftDay], int]]]) -> dict[str, Any]:
    """All that the table says of one detector."""
    row: dict[str, Any] = {}
    for truth in years:
        if TRUTHS[truth].shape == "none":
            rate, half = alarm_rate(made, years[truth])
            row[truth] = {"alarms_per_year": rate, "half_width": half}
        else:
            delay = delays(made, years[truth])
            row[truth] = {"median_days": _finite(np.quantile(delay, 0.5, method="lower")),
                          "p90_days": _finite(np.quantile(delay, 0.9, method="lower")),
                          "share_within_7_days": float((delay <= 7).mean()),
                          "share_within_28_days": float((delay <= 28).mean())}
    return row


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def threshold_at(name: str, years: Sequence[tuple[list[DriftDay], int]], rate: float = EQUAL_RATE) -> float:
    """The lowest threshold, to 2 %, at which a detector alarms at most so often on years without drift."""
    made, low, high = SCALED[name]
    while high / low > 1.02:
        middle = math.sqrt(low * high)
        if alarm_rate(partial(made, middle), years)[0] <= rate:
            high = middle
        else:
            low = middle
    return high


def run_table(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """Rows of each detector at its defaults and at the equal rate; kept in table.json as they are done."""
    path = folder / "table.json"
    result: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"default": {}, "equal": {}}
    todo = [name for name in names if name not in result["equal"]]
    if todo:
        years = {truth: made_years(folder, truth, SHOWN) for truth in TRUTHS}
        choosing = made_years(folder, "none, autocorrelated", CHOOSING)
        for name in todo:
            threshold = threshold_at(name, choosing)
            result["default"][name] = row_of(DETECTORS[name], years)
            result["equal"][name] = {"threshold": threshold, **row_of(partial(SCALED[name][0], threshold), years)}
            with whole_file(path) as fresh:
                fresh.write_text(json.dumps(result, indent=1) + "\n")
            print(f"{name}: {json.dumps(result['default'][name])}", flush=True)
    return result
