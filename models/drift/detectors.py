"""Detectors by name, with the constants of the detector table (docs/drift.md).

`cusum`: sums of residuals beyond a tolerance, on both sides (Page 1954; Montgomery 2013, chapter 9).

`page-hinkley`: a running sum of residuals less their mean so far, on both sides (Page 1954; Hinkley 1971).

`ScaledCusum`: sums of residuals in long-run standard errors, learnt from the weeks before. A CUSUM
of correlated residuals alarms too often. So a residual is divided by its long-run standard
deviation: that of an AR(1) of the same spread and correlation from day to day (Johnson and Bagshaw
1974, The effect of serial correlation on the performance of CUSUM tests).

`timer`: an alarm every so many days, as a baseline.

`AnyOf`: several detectors, each on one part of a day; an alarm of any is an alarm.

`hazard-ratio`: likelihood ratios of exits, summed from every possible day of change: a bound on false alarms.

A Shiryaev-Roberts sum (Shiryaev 1963; Roberts 1966) of test supermartingales. If requests are independent and their
exits within a tolerance of the expected ones, the mean time before a false alarm is at least `mean_days` (Shin, Ramdas,
Rinaldo 2024, e-detectors, theorem 2.4): the ratio (r / c)^N exp(-(r - c) E) of a day with N exits and E expected ones
has a mean of at most 1 if their hazard is at most c times the predicted one (for r > c). Requests of one owner are not
independent, so a day's log ratio is divided by the dispersion: the variance by clusters over that of independent
requests. The bound is then approximate; the detector table has measurements.

`dvla`: algorithm 1 of DVLA (Alibaba, OSDI'26, section 4.2 and appendix B) on the shares of lifetime classes.

It is for comparison: on shares without drift it is often in observation (docs/drift.md).

`change_point`: the most likely day on which exits left the expected ones, and the days near it. The
rate of exits over expected ones has one value before that day and another since (Hinkley 1970,
Inference about the change-point in a sequence of random variables).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from sojourn.models.drift.watched import BANDS_S, TOLERANCE, Detector, DriftDay, checked_state

WARMUP_DAYS = 14
"""Days for the first mean and scale of the baseline."""

_CUSUM_STATE = ("sums", "n_days", "mean", "spread", "score")


class Cusum:
    """Two-sided CUSUM of the day's exits beyond the tolerance, in standard errors.

    threshold, allowance: in standard errors. limit: the most of one day, so that a single day gives no alarm if the
    threshold is higher. half_life_days: of a baseline, the EWMA of the residual and of its distance from that mean. A
    day then counts by the distance of its residual from the mean (less the tolerance), divided by the mean distance if
    that is above 1. So changes of the exits count, not their level, and the first sum starts after 14 days. 0 = no
    baseline. After an alarm the sums start at 0 and the baseline is learnt anew. rest_days: days without sums, at the
    start and after an alarm. sides: 1 = more exits than expected, -1 = fewer.

    >>> detector = Cusum(threshold=4.0, allowance=0.5)
    >>> [detector.update(DriftDay(observed, 100.0, 100.0)) for observed in [100.0, 110.0, 160.0, 160.0]]
    [False, False, False, True]
    """

    def __init__(self, threshold: float = 8.0, allowance: float = 0.5, tolerance: float = TOLERANCE,
                 limit: float = 3.0, half_life_days: float = 0.0, rest_days: int = 0,
                 sides: tuple[int, ...] = (1, -1)) -> None:
        for name, value in (("threshold", threshold), ("limit", limit)):
            if not value > 0.0:
                raise ValueError(f"{name} must be above 0, got {value!r}")
        self.threshold, self.allowance, self.tolerance, self.limit = threshold, allowance, tolerance, limit
        self.half_life_days, self.rest_days, self.sides = half_life_days, rest_days, sides
        self._begin()
        self.score = 0.0

    def _begin(self) -> None:
        self._sums, self._n_days, self._mean, self._spread = [0.0] * len(self.sides), 0, 0.0, 0.0

    def update(self, day: DriftDay) -> bool:
        excesses = [day.residual(side, self.tolerance) for side in self.sides]
        if self.half_life_days > 0.0:
            excesses = self._from_baseline(day.residual(1), excesses)
        self._n_days += 1
        if self._n_days > self.rest_days:
            self._sums = [max(0.0, total + min(excess, self.limit) - self.allowance)
                          for total, excess in zip(self._sums, excesses, strict=True)]
        self.score = max(self._sums) / self.threshold
        if self.score < 1.0:
            return False
        self._begin()
        return True

    def _from_baseline(self, residual: float, excesses: list[float]) -> list[float]:
        """The excesses less the baseline of yesterday, in units of its mean distance; 0 in the warm-up."""
        weight = max(1.0 - 0.5 ** (1.0 / self.half_life_days), 1.0 / (self._n_days + 1))
        distance = abs(residual - self._mean)
        scale = max(self._spread * math.sqrt(math.pi / 2.0), 1.0)  # standard deviation from mean distance (normal)
        is_warm = self._n_days >= WARMUP_DAYS
        rest = [(excess - side * self._mean) / scale if is_warm else 0.0
                for side, excess in zip(self.sides, excesses, strict=True)]
        self._mean += weight * (residual - self._mean)
        self._spread += weight * (distance - self._spread) if self._n_days else 0.0
        return rest

    def state(self) -> dict[str, Any]:
        return {"sums": list(self._sums), "n_days": self._n_days, "mean": self._mean, "spread": self._spread,
                "score": self.score}

    def resume(self, state: Mapping[str, Any]) -> None:
        fields = checked_state(state, _CUSUM_STATE)
        self._sums = [float(value) for value in fields["sums"]]
        self._n_days, self._mean = int(fields["n_days"]), float(fields["mean"])
        self._spread, self.score = float(fields["spread"]), float(fields["score"])


_PAGE_HINKLEY_STATE = ("n_days", "mean", "sums", "score")


class PageHinkley:
    """Page-Hinkley on the day's residual in standard errors.

    threshold, allowance: in standard errors; the sum falls by the allowance each day and alarms above the threshold.
    warmup_days: days without an alarm at the start, for the mean. The mean is of all days since the
    start, so a constant bias is no drift.

    >>> detector = PageHinkley(threshold=5.0, allowance=0.25, warmup_days=3)
    >>> [detector.update(DriftDay(observed, 100.0, 100.0)) for observed in [100.0] * 5 + [140.0] * 2]
    [False, False, False, False, False, False, True]
    """

    def __init__(self, threshold: float = 20.0, allowance: float = 0.25, warmup_days: int = 14) -> None:
        if not threshold > 0.0:
            raise ValueError(f"threshold must be above 0, got {threshold!r}")
        self.threshold, self.allowance, self.warmup_days = threshold, allowance, warmup_days
        self._begin()
        self.score = 0.0

    def _begin(self) -> None:
        self._n_days, self._mean, self._sums = 0, 0.0, [0.0, 0.0]

    def update(self, day: DriftDay) -> bool:
        residual = day.residual(1)
        self._n_days += 1
        self._mean += (residual - self._mean) / self._n_days
        for idx, side in enumerate((1, -1)):
            self._sums[idx] = max(0.0, self._sums[idx] + side * (residual - self._mean) - self.allowance)
        is_alarm = self._n_days > self.warmup_days and max(self._sums) > self.threshold
        self.score = max(self._sums) / self.threshold
        if is_alarm:
            self._begin()
        return is_alarm

    def state(self) -> dict[str, Any]:
        return {"n_days": self._n_days, "mean": self._mean, "sums": list(self._sums), "score": self.score}

    def resume(self, state: Mapping[str, Any]) -> None:
        fields = checked_state(state, _PAGE_HINKLEY_STATE)
        self._n_days, self._mean, self.score = int(fields["n_days"]), float(fields["mean"]), float(fields["score"])
        self._sums = [float(value) for value in fields["sums"]]


HALF_LIFE_DAYS = 56.0
"""Half-life of the mean square and of the mean product with the day before, which give the scale."""
PRIOR_DAYS = 14
"""The scale starts as after so many days of independent residuals of spread 1."""
LAG_DAYS = 7
"""The scale is learnt so many days late, so that the start of a drift does not enter it."""
CORRELATION_MAX = 0.9

_SCALED_STATE = ("sums", "n_days", "square", "product", "n_learnt", "recent", "score")


class ScaledCusum:
    """CUSUM of the day's residual, beyond a tolerance, over the scale of earlier residuals; at least 1.

    threshold, allowance, limit: as in `Cusum`, in units of that scale. rest_days: days without sums
    and learning, at the start and after an alarm. The scale is kept after an alarm.

    >>> detector = ScaledCusum(threshold=3.0, allowance=1.0, tolerance=0.0, rest_days=2)
    >>> [detector.update(DriftDay(observed, 100.0, 100.0)) for observed in [100.0, 130.0, 100.0, 130.0, 130.0]]
    [False, False, False, False, True]
    """

    def __init__(self, threshold: float = 3.3, allowance: float = 0.7, tolerance: float = 0.03, limit: float = 3.0,
                 rest_days: int = 28) -> None:
        for name, value in (("threshold", threshold), ("limit", limit)):
            if not value > 0.0:
                raise ValueError(f"{name} must be above 0, got {value!r}")
        if rest_days < 0:
            raise ValueError(f"rest_days must be at least 0, got {rest_days!r}")
        self.threshold, self.allowance, self.tolerance, self.limit = threshold, allowance, tolerance, limit
        self.rest_days = rest_days
        self._square, self._product, self._n_learnt = 1.0, 0.0, PRIOR_DAYS
        self._begin()
        self.score = 0.0

    def _begin(self) -> None:
        self._sums, self._n_days = [0.0, 0.0], 0
        self._recent: list[float] = []

    @property
    def scale(self) -> float:
        """The long-run standard deviation of residuals, at least 1."""
        square = max(self._square, 1.0)
        correlation = min(max(self._product / square, 0.0), CORRELATION_MAX)
        return math.sqrt(square * (1.0 + correlation) / (1.0 - correlation))

    def update(self, day: DriftDay) -> bool:
        self._n_days += 1
        if self._n_days > self.rest_days:
            excesses = [day.residual(side, self.tolerance) / self.scale for side in (1, -1)]
            self._sums = [max(0.0, total + min(excess, self.limit) - self.allowance)
                          for total, excess in zip(self._sums, excesses, strict=True)]
            self._learn(day.residual(1))
        self.score = max(self._sums) / self.threshold
        if self.score < 1.0:
            return False
        self._begin()
        return True

    def _learn(self, residual: float) -> None:
        self._recent.append(residual)
        if len(self._recent) < LAG_DAYS + 2:
            return
        before, then = self._recent.pop(0), self._recent[0]
        self._n_learnt += 1
        weight = max(1.0 - 0.5 ** (1.0 / HALF_LIFE_DAYS), 1.0 / self._n_learnt)
        self._square += weight * (then * then - self._square)
        self._product += weight * (before * then - self._product)

    def state(self) -> dict[str, Any]:
        return {"sums": list(self._sums), "n_days": self._n_days, "square": self._square, "product": self._product,
                "n_learnt": self._n_learnt, "recent": list(self._recent), "score": self.score}

    def resume(self, state: Mapping[str, Any]) -> None:
        fields = checked_state(state, _SCALED_STATE)
        self._sums, self._n_days = [float(value) for value in fields["sums"]], int(fields["n_days"])
        self._square, self._product = float(fields["square"]), float(fields["product"])
        self._n_learnt, self.score = int(fields["n_learnt"]), float(fields["score"])
        self._recent = [float(value) for value in fields["recent"]]


class Timer:
    """An alarm on every `every_days`-th day.

    >>> timer = Timer(2)
    >>> [timer.update(DriftDay(0.0, 0.0, 0.0)) for _ in range(4)]
    [False, True, False, True]
    """

    def __init__(self, every_days: int = 28) -> None:
        if every_days < 1:
            raise ValueError(f"every_days must be at least 1, got {every_days!r}")
        self.every_days = every_days
        self.score = 0.0
        self._n_days = 0

    def update(self, day: DriftDay) -> bool:
        self._n_days += 1
        self.score = self._n_days / self.every_days
        if self._n_days < self.every_days:
            return False
        self._n_days = 0
        return True

    def state(self) -> dict[str, Any]:
        return {"n_days": self._n_days, "score": self.score}

    def resume(self, state: Mapping[str, Any]) -> None:
        fields = checked_state(state, ("n_days", "score"))
        self._n_days, self.score = int(fields["n_days"]), float(fields["score"])


OWN, NEW_OWNERS = "own", "new_owners"
Series = int | str | None
"""The input of a part: a band of age; `own` or `new_owners`; None = exits of all ages together."""
Part = tuple[Callable[[], Detector], Series]
"""A function that creates a detector, and the detector's input."""


class AnyOf:
    """Detectors by name; the score is their highest, and after an alarm all start anew.

    >>> from sojourn.models.drift.detectors import Cusum
    >>> detector = AnyOf({"all": (Cusum, None), "late": (Cusum, 1)})
    >>> late = DriftDay(1.0, 50.0, 50.0)
    >>> day = DriftDay(2_001.0, 2_050.0, 2_050.0, bands=(DriftDay(2_000.0, 2_000.0, 2_000.0), late))
    >>> [detector.update(day) for _ in range(4)], detector.raised_by, detector.series
    ([False, False, False, True], 'late', 1)
    """

    def __init__(self, parts: Mapping[str, Part]) -> None:
        if not parts:
            raise ValueError("parts must hold at least one detector, got none")
        self.parts = dict(parts)
        self.score = 0.0
        self.raised_by = next(iter(self.parts))
        """The part with the highest score."""
        self._begin()

    def _begin(self) -> None:
        self._detectors = {name: new_detector() for name, (new_detector, _) in self.parts.items()}

    @property
    def series(self) -> Series:
        """The input of the part with the highest score."""
        return self.parts[self.raised_by][1]

    def update(self, day: DriftDay) -> bool:
        alarms = [detector.update(self._of_day(day, self.parts[name][1]))
                  for name, detector in self._detectors.items()]
        self.raised_by = max(self._detectors, key=lambda name: self._detectors[name].score)
        self.score = self._detectors[self.raised_by].score
        if any(alarms):
            self._begin()
        return any(alarms)

    @staticmethod
    def _of_day(day: DriftDay, series: Series) -> DriftDay:
        if series is None:
            return day
        if isinstance(series, int):
            if series >= len(day.bands):
                raise ValueError(f"a day must have at least {series + 1} bands, got {len(day.bands)}")
            return day.bands[series]
        part = day.own if series == OWN else day.new_owners
        if part is None:
            raise ValueError(f"a day must have {series}, got None")
        return part

    def state(self) -> dict[str, Any]:
        return {"parts": {name: detector.state() for name, detector in self._detectors.items()}, "score": self.score,
                "raised_by": self.raised_by}

    def resume(self, state: Mapping[str, Any]) -> None:
        fields = checked_state(state, ("parts", "score", "raised_by"))
        parts = checked_state(fields["parts"], tuple(self.parts))
        self.score, self.raised_by = float(fields["score"]), str(fields["raised_by"])
        for name, detector in self._detectors.items():
            detector.resume(parts[name])


RATIOS = (1.25, 1.5, 2.0, 0.8, 1.0 / 1.5, 0.5)
"""Hazards, relative to the predicted one, that are detected, with equal weights."""

DISPERSION_HALF_LIFE_DAYS = 14.0
"""Half-life of the mean dispersion."""

_RATIO_STATE = ("log_sums", "dispersion", "score")


class HazardRatio:
    """Shiryaev-Roberts detector of a hazard above or below the predicted one by more than a tolerance.

    mean_days: least mean number of days before a false alarm; the threshold of the sum. limit: the most of a day's log
    ratio, as a share of the threshold's log. The dispersion is kept after an alarm.

    >>> detector = HazardRatio(mean_days=1_000.0)
    >>> [detector.update(DriftDay(observed, 100.0, 100.0)) for observed in [100.0, 160.0, 160.0, 160.0]]
    [False, False, False, True]
    """

    def __init__(self, mean_days: float = 3_650.0, tolerance: float = 0.1, limit: float = 0.5) -> None:
        if not mean_days > 1.0:
            raise ValueError(f"mean_days must be above 1, got {mean_days!r}")
        if not 0.0 <= tolerance < 0.2:
            raise ValueError(f"tolerance must be at least 0 and below 0.2, got {tolerance!r}")
        self.mean_days, self.tolerance, self.limit = mean_days, tolerance, limit
        self._dispersion = 0.0
        self._begin()
        self.score = 0.0

    def _begin(self) -> None:
        self._log_sums = [-math.inf] * len(RATIOS)

    def update(self, day: DriftDay) -> bool:
        if day.expected > 0.0:
            self._add(day)
        best = max(self._log_sums)
        total = best + math.log(sum(math.exp(each - best) for each in self._log_sums) / len(RATIOS)) if (
            best > -math.inf) else -math.inf
        self.score = max(total / math.log(self.mean_days), 0.0)
        if self.score < 1.0:
            return False
        self._begin()
        return True

    def _add(self, day: DriftDay) -> None:
        today = day.variance / day.expected
        dispersion = max(1.0, today, self._dispersion)
        most = self.limit * math.log(self.mean_days)
        for idx, ratio in enumerate(RATIOS):
            bound = 1.0 + self.tolerance if ratio > 1.0 else 1.0 - self.tolerance
            log_ratio = day.observed * math.log(ratio / bound) - (ratio - bound) * day.expected
            before = self._log_sums[idx]  # log(1 + sum) without overflow
            self._log_sums[idx] = max(before, 0.0) + math.log1p(math.exp(-abs(before))) + min(log_ratio / dispersion,
                                                                                              most)
        weight = 1.0 - 0.5 ** (1.0 / DISPERSION_HALF_LIFE_DAYS)
        self._dispersion += (today - self._dispersion) * (weight if self._dispersion > 0.0 else 1.0)

    def state(self) -> dict[str, Any]:
        return {"log_sums": [None if each == -math.inf else each for each in self._log_sums],
                "dispersion": self._dispersion, "score": self.score}

    def resume(self, state: Mapping[str, Any]) -> None:
        fields = checked_state(state, _RATIO_STATE)
        self._log_sums = [-math.inf if each is None else float(each) for each in fields["log_sums"]]
        self._dispersion, self.score = float(fields["dispersion"]), float(fields["score"])


_ALL_AND_BANDS = (None, *range(len(BANDS_S)))


def level() -> Detector:
    """Exits more than a quarter above or below the expected ones: a ramp, or a wrong model."""
    return Cusum(threshold=8.0, tolerance=TOLERANCE)


def change() -> Detector:
    """Exits that leave their baseline of the last weeks: finds a step early."""
    return Cusum(threshold=6.0, tolerance=0.12, half_life_days=28.0)


def new_owners() -> Detector:
    """More requests of new owners than usual: known at their arrival, before any end."""
    return Cusum(threshold=4.0, allowance=1.0, tolerance=0.1, rest_days=14, sides=(1,))


DETECTORS: Mapping[str, Callable[[], Detector]] = MappingProxyType({
    "timer": Timer,
    "page-hinkley": PageHinkley,
    "level": level,
    "change": change,
    "level-or-change": lambda: AnyOf({"level": (level, None), "change": (change, None)}),
    "own": lambda: AnyOf({"own": (ScaledCusum, OWN)}),
    "new-owners": lambda: AnyOf({"new-owners": (new_owners, NEW_OWNERS)}),
    "level-or-owners": lambda: AnyOf({"level": (level, None), "own": (ScaledCusum, OWN),
                                      "new-owners": (new_owners, NEW_OWNERS)}),
    "change-bands": lambda: AnyOf({f"band {band}": (change, band) for band in _ALL_AND_BANDS}),
    "cusum-bands": lambda: AnyOf({f"band {band}": (partial(Cusum, tolerance=0.1), band) for band in _ALL_AND_BANDS}),
    "hazard-ratio": HazardRatio,
    "dvla": lambda: ClassShares(DVLA_PRESETS["production"]),
    "dvla-printed": lambda: ClassShares(replace(DVLA_PRESETS["production"], is_as_printed=True)),
    "dvla-figure-9": lambda: ClassShares(DVLA_PRESETS["figure 9"]),
    "dvla-figure-9-printed": lambda: ClassShares(replace(DVLA_PRESETS["figure 9"], is_as_printed=True)),
})
"""Name in configs, tables and figures -> a new detector with its default constants."""

MONITOR_DETECTOR = "level-or-owners"
"""The monitor's default."""

WARMUP, STABLE, OBSERVATION, COOLDOWN = "warmup", "stable", "observation", "cooldown"
_LEAST_SPREAD = 1e-6

_SHARES_STATE = ("phase", "n_days", "means", "error", "spread", "n_learnt", "window", "score")


@dataclass(frozen=True, slots=True)
class ClassShareSettings:
    """Constants of algorithm 1. window_days: of an observation; alarm, confirm: thresholds of the score.

    alpha, beta: factors of the EWMA of shares and of errors (not in the paper). is_as_printed: exactly the paper's
    text: the day of an alarm is learnt twice, no day while cooling down, and averages start at 0 without correction.
    Else each day is learnt once, and averages are corrected for their start.
    """

    window_days: int = 20
    alarm: float = 2.0
    confirm: float = 3.0
    alpha: float = 0.1
    beta: float = 0.1
    warmup_days: int = 12
    cooldown_days: int = 14
    is_as_printed: bool = False


DVLA_PRESETS: Mapping[str, ClassShareSettings] = MappingProxyType({
    "production": ClassShareSettings(),
    "figure 9": ClassShareSettings(window_days=14),
})
"""The constants of the paper, and those that reproduce its figure 9 exactly (an update on days 25 and 53)."""


class ClassShares:
    """Algorithm 1: an alarm is a confirmed change, after which DVLA forms new groups.

    The score of a day is (error - its EWMA) / (EWMA of the distance from it), at least 0, where the error is 1 minus
    the cosine of the day's shares and their EWMA. A score above `alarm` begins an observation; a mean score of at least
    `confirm` over its window, relative to the baseline at its start, confirms the change.

    >>> detector = ClassShares(ClassShareSettings(window_days=2))
    >>> shares = [(0.5, 0.5)] * 14 + [(0.2, 0.8)] * 2
    >>> [detector.update(DriftDay(0.0, 0.0, 0.0, row)) for row in shares][-2:]
    [False, True]
    """

    def __init__(self, settings: ClassShareSettings = DVLA_PRESETS["production"]) -> None:
        self.settings = settings
        self.score = 0.0
        self.phase = WARMUP
        self._n_days = 0
        self._means: list[float] = []
        self._error, self._spread, self._n_learnt = 0.0, 0.0, 0
        self._window: list[list[float]] = []

    def update(self, day: DriftDay) -> bool:
        shares = list(day.shares)
        if not shares or (self._means and len(shares) != len(self._means)):
            raise ValueError(f"a day must have {len(self._means) or 'some'} class shares, got {len(shares)}")
        self._n_days += 1
        self.score = self._score(shares) / self.settings.confirm
        if self.phase == WARMUP:
            self._learn(shares)
            if self._n_days == self.settings.warmup_days:
                self._enter(STABLE)
        elif self.phase == COOLDOWN:
            if not self.settings.is_as_printed:
                self._learn(shares)
            if self._n_days == self.settings.cooldown_days:
                self._enter(STABLE)
        elif self.phase == STABLE:
            is_suspicious = self._score(shares) > self.settings.alarm
            if not is_suspicious or self.settings.is_as_printed:
                self._learn(shares)
            if is_suspicious:
                self._enter(OBSERVATION)
                return self._observe(shares)
        else:
            return self._observe(shares)
        return False

    def _observe(self, shares: list[float]) -> bool:
        self._window.append(shares)
        if len(self._window) < self.settings.window_days:
            return False
        mean = sum(map(self._score, self._window)) / len(self._window)
        self.score = mean / self.settings.confirm
        for each in self._window:
            self._learn(each)
        self._window = []
        is_confirmed = mean >= self.settings.confirm
        self._enter(COOLDOWN if is_confirmed else STABLE)
        return is_confirmed

    def _enter(self, phase: str) -> None:
        self.phase, self._n_days = phase, 0

    def _score(self, shares: list[float]) -> float:
        """The distance of the error above its mean, in mean distances; 0 in the warm-up."""
        if self.phase == WARMUP:
            return 0.0
        return max(0.0, (self._distance(shares) - self._error) / max(self._spread, _LEAST_SPREAD))

    def _distance(self, shares: list[float]) -> float:
        product = sum(a * b for a, b in zip(shares, self._means, strict=True))
        lengths = math.sqrt(sum(a * a for a in shares) * sum(b * b for b in self._means))
        return 1.0 - product / lengths if lengths > 0.0 else 0.0

    def _learn(self, shares: list[float]) -> None:
        """Update the errors by the old mean first, then the mean."""
        if not self._means:
            self._means = shares
            return
        distance = self._distance(shares)
        alpha, beta = self.settings.alpha, self.settings.beta
        self._n_learnt += 1
        if not self.settings.is_as_printed:  # at the start, a plain mean instead of the EWMA
            alpha = max(alpha, 1.0 / (self._n_learnt + 1))
            beta = max(beta, 1.0 / self._n_learnt)
        self._spread += beta * (abs(distance - self._error) - self._spread)
        self._error += beta * (distance - self._error)
        self._means = [mean + alpha * (share - mean) for mean, share in zip(self._means, shares, strict=True)]

    def state(self) -> dict[str, Any]:
        return {"phase": self.phase, "n_days": self._n_days, "means": list(self._means), "error": self._error,
                "spread": self._spread, "n_learnt": self._n_learnt, "window": [list(day) for day in self._window],
                "score": self.score}

    def resume(self, state: Mapping[str, Any]) -> None:
        fields = checked_state(state, _SHARES_STATE)
        self.phase, self._n_days = str(fields["phase"]), int(fields["n_days"])
        self._means = [float(value) for value in fields["means"]]
        self._error, self._spread = float(fields["error"]), float(fields["spread"])
        self._n_learnt, self.score = int(fields["n_learnt"]), float(fields["score"])
        self._window = [[float(value) for value in day] for day in fields["window"]]


_DROP = 3.0
"""Candidates are days with at least a twentieth of the highest likelihood."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """Indices of days. start: the first changed day; low, high: the first and last candidate."""

    start: int
    low: int
    high: int


def change_point(observed: np.ndarray, expected: np.ndarray, variance: np.ndarray) -> ChangePoint:
    """The most likely first day of a changed rate that lasts to the last day; all float64 (D,), D at least 1.

    Exits are Poisson, scaled by the median over days of variance / expected, at least 1. The rate before is fitted,
    too, within the tolerance of a calibrated model; otherwise a small bias of a long log would be the change. low,
    high: where the profile of the log-likelihood is within 3 of its maximum.

    >>> expected = np.full(30, 100.0)
    >>> change_point(np.where(np.arange(30) < 26, 108.0, 160.0), expected, expected)
    ChangePoint(start=26, low=26, high=26)
    """
    if not len(observed) == len(expected) == len(variance) > 0:
        raise ValueError(f"days must be at least one, with an expected and a variance each, got {len(observed)}")
    is_told = expected > 0.0
    scale = max(1.0, float(np.median(variance[is_told] / expected[is_told]))) if is_told.any() else 1.0
    exits, due = np.append(0.0, np.cumsum(observed)), np.append(0.0, np.cumsum(expected))
    before = _log_likelihood(exits[:-1], due[:-1], 1.0 / (1.0 + TOLERANCE), 1.0 + TOLERANCE)
    since = _log_likelihood(exits[-1] - exits[:-1], due[-1] - due[:-1], 0.0, np.inf)
    profile = (before + since) / scale
    start = int(profile.argmax())
    near = np.flatnonzero(profile >= profile[start] - _DROP)
    return ChangePoint(start, int(near[0]), int(near[-1]))


def _log_likelihood(observed: np.ndarray, expected: np.ndarray, low: float, high: float) -> np.ndarray:
    """Log-likelihood at the best rate within the bounds, minus that at rate 1."""
    due = np.maximum(expected, 1e-9)
    rate = np.clip(observed / due, low, high)
    return observed * np.log(np.maximum(rate, 1e-300)) - (rate - 1.0) * due
