"""Calibration among the requests alive at an age: PIT of what remains, and coverage of its 10, 50 and 90 % quantiles.

A scheduler that is told "nine in ten are gone by then" asks at an age, among those still alive. Calibration at
creation does not show that: most ends come early, and they decide it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures.bootstrap import interval
from sojourn.models.measures.calibration import DECILES, Pit, pit_deviation
from sojourn.models.measures.thresholds import AGES_S, time_label

QUANTILES = (0.1, 0.5, 0.9)
"""Whose coverage is measured; each is a decile."""
PERCENTS = tuple(round(100 * q) for q in QUANTILES)
"""The same as names and titles have them."""
N_ENDS_MIN = 100
"""Fewer observed ends than this say little of a coverage: a share of a half then has a standard error of .05 or more,
even if requests were independent. Tables mark such a cell, a week with fewer has none, and a card leaves it out."""
WEEKLY_AGES_S = (0, 3_600)
"""At these ages calibration is also measured by week of arrival."""


def age_prefix(age_s: float) -> str:
    """What the names of measures at an age begin with.

    >>> age_prefix(0), age_prefix(3_600)
    ('creation', 'age_1h')
    """
    return f"age_{time_label(age_s)}" if age_s else "creation"


@dataclass(frozen=True, slots=True)
class AgedPit:
    """PIT of what remains at one age. idx: int64 (k,), the rows that outlived it; pit: of these rows."""

    age_s: int
    idx: np.ndarray
    pit: Pit

    @classmethod
    def of(cls, table: CurveTable, rows: Examples, age_s: int) -> AgedPit | None:
        """None where no row outlived the age. Ends are placed within their second by the same seed at each age."""
        is_asked = rows.lifetime_s > age_s if age_s else np.ones(len(rows), bool)
        idx = np.flatnonzero(is_asked)
        if len(idx) == 0:
            return None
        asked = (rows, table) if len(idx) == len(rows) else (rows.take(idx), table.take(idx))
        return cls(age_s, idx, Pit.of(asked[1], asked[0], np.random.default_rng(0), age_s))

    @property
    def prefix(self) -> str:
        """What the names of its measures begin with."""
        return age_prefix(self.age_s)

    def scores(self, weight: np.ndarray | None = None) -> dict[str, float]:
        """`*.pit_deviation`, `*.coverage_10`, `*.coverage_50` and `*.coverage_90`, and how many ends were observed.

        At creation also `coverage_80` and `d_calibration_chi2`. weight: float64 (n,) of all rows, times each counts;
        `*.n_ends` is only given without. NaN where no row was followed that far, or none counts.
        """
        own = None if weight is None else weight[self.idx]
        found = self.pit.distribution(DECILES, own)
        values = {f"{self.prefix}.pit_deviation": pit_deviation(found)}
        if self.age_s == 0:
            values |= {"creation.coverage_80": float(found[-1] - found[0]),
                       "creation.d_calibration_chi2": self.pit.d_calibration(own)[0]}
        values |= _coverages(self.prefix, found)
        if weight is None:
            values[f"{self.prefix}.n_ends"] = float(self.pit.is_event.sum())
        return values

    def by_week(self, week: np.ndarray) -> dict[str, list[float]]:
        """The same by week of arrival, without D-calibration: one value for each distinct week of all rows, rising.

        week: int64 (n,), of all rows. NaN where fewer than N_ENDS_MIN ends were observed, but for `*.n_ends`.
        """
        own = week[self.idx]
        columns: dict[str, list[float]] = {}
        for number in np.unique(week):
            weight = (own == number).astype(np.float64)
            n_ends = float((weight * self.pit.is_event).sum())
            found = (self.pit.distribution(DECILES, weight) if n_ends >= N_ENDS_MIN else np.full(len(DECILES), np.nan))
            values = {f"{self.prefix}.n_ends": n_ends, f"{self.prefix}.pit_deviation": pit_deviation(found),
                      **_coverages(self.prefix, found)}
            for name, value in values.items():
                columns.setdefault(name, []).append(value)
        return columns


def _coverages(prefix: str, at_deciles: np.ndarray) -> dict[str, float]:
    return {f"{prefix}.coverage_{percent}": float(at_deciles[percent // 10 - 1]) for percent in PERCENTS}


@dataclass(frozen=True, slots=True)
class CalibrationByAge:
    """The parts of each age, prepared once from a model's curves; a bootstrap, weeks and pictures only reweigh them.

    >>> from sojourn.models.curve_table import OnceTable
    >>> rows = Examples(np.zeros((3, 1)), (), np.array([5.0, 700.0, 5_000.0]), np.array([True, True, False]),
    ...                 np.zeros(3), np.zeros(3, np.int64), np.arange(3))
    >>> found = CalibrationByAge.of(OnceTable(np.full(3, 3.0), 1.0, np.linspace(-3.0, 3.0, 201)), rows)
    >>> [(part.prefix, len(part.idx)) for part in found.parts]
    [('creation', 3), ('age_10m', 2), ('age_1h', 1)]
    """

    parts: tuple[AgedPit, ...]

    @classmethod
    def of(cls, table: CurveTable, rows: Examples) -> CalibrationByAge:
        """At creation and at each absolute age that a row outlived. table: of the same rows, in the same order."""
        parts = (AgedPit.of(table, rows, age_s) for age_s in (0, *AGES_S))
        return cls(tuple(part for part in parts if part is not None))

    def scores(self, weight: np.ndarray | None = None) -> dict[str, float]:
        """Of all ages, by name."""
        return {name: value for part in self.parts for name, value in part.scores(weight).items()}

    def intervals(self, draws: Iterable[np.ndarray]) -> dict[str, tuple[float, float]]:
        """The 95 % interval of each of `scores` over drawn owners; NaN where too few draws have it. draws: row weights
        (n,)."""
        drawn = [self.scores(weight) for weight in draws]
        names = dict.fromkeys(name for values in drawn for name in values)
        return {name: interval(np.array([values.get(name, np.nan) for values in drawn])) for name in names}

    def by_week(self, week: np.ndarray) -> dict[str, list[float]]:
        """Of WEEKLY_AGES_S, by name: a value a week."""
        return {name: values for part in self.parts if part.age_s in WEEKLY_AGES_S
                for name, values in part.by_week(week).items()}

    def distributions(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """`*.pit_share` of each age: the share of PIT values up to each point, float64 (m,), for a picture."""
        return {f"{part.prefix}.pit_share": part.pit.distribution(points) for part in self.parts}
