"""Calibration: are predicted distributions right, as a whole (PIT) and at one horizon?

PIT: of a right model F(L | x), the predicted share that ends by the end, is uniform on [0, 1] (Dawid 1984; Gneiting,
Balabdaoui and Raftery 2007). A row censored at C has a PIT above F(C | x), one that entered late above F(entry | x),
so that Kaplan-Meier over PIT values gives their distribution (Cox and Snell 1968, on another scale). Unlike inverse
weights this lets censoring depend on x.

Calibration among the requests alive at an age: PIT of what remains, and coverage of its 10, 50 and 90 % quantiles.

A scheduler that is told "nine in ten are gone by then" asks at an age, among those still alive. Calibration at
creation does not show that: most ends come early, and they decide it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures.censoring import KaplanMeier
from sojourn.models.measures.measure import AGES_S, interval, time_label

DECILES = np.arange(1, 10) / 10.0
N_BINS = 10
_HALF_S = 0.5


@dataclass(frozen=True, slots=True)
class Pit:
    """PIT of each row, prepared for new row weights in O(n).

    value: float64 (n,), of the end or, where is_event (bool (n,)) is False, of the censoring. entry: float64 (n,),
    of the late entry, -1 for rows seen from the age asked at on. over: Kaplan-Meier over the values.

    A lifetime is known to a second, L - 1/2 to L + 1/2 (1 s: from 0), and a curve may rise steeply within it or jump
    there. An end is then anywhere within the rise, drawn uniformly: the randomised PIT of Czado, Gneiting and Held
    (2009), and 1 - survival(L, 0) where the rise is small. Censored and late rows have outlived their whole second.

    Coverage at q, the share that ends by the predicted quantile q, is the distribution at q. An end in the quantile's
    own second (a tie) counts within it as often as that second's rise lies below q. Compared in whole seconds instead,
    such ends would all be within: of a curve that puts a third of its mass on one second, a right q would cover more.
    """

    value: np.ndarray
    is_event: np.ndarray
    entry: np.ndarray
    over: KaplanMeier

    @classmethod
    def of(cls, table: CurveTable, rows: Examples, rng: np.random.Generator, age_s: float = 0.0) -> Pit:
        """Ask the curves of at least one row, as predicted at an age: at creation, or of what remains later.

        rng: places ends within their second. age_s: whole seconds; each row must have outlived it (not asked for at 0).
        A row that came under observation after that age counts from there on, as a late entry.
        """
        left_s = rows.lifetime_s - age_s
        if len(rows) == 0 or (age_s > 0.0 and not (left_s > 0.0).all()):
            raise ValueError(f"age_s must be outlived by each of at least one row, got {age_s!r} for {len(rows):,} rows"
                             f", {int((left_s <= 0.0).sum()):,} of them not")
        low = 1.0 - table.survival(np.where(left_s > 1.0, left_s - _HALF_S, 0.0), age_s)
        high = 1.0 - table.survival(left_s + _HALF_S, age_s)
        value = np.where(rows.is_event, low + rng.random(len(rows)) * (high - low), high)
        entry = np.full(len(rows), -1.0)
        if (is_late := rows.entry_s > age_s).any():
            entry[is_late] = 1.0 - table.take(is_late).survival(rows.entry_s[is_late] - age_s + _HALF_S, age_s)
            entry = np.minimum(entry, np.nextafter(value, -1.0))  # a flat curve; at risk at its own end all the same
        return cls(value, rows.is_event, entry, KaplanMeier.of(value, rows.is_event, entry))

    def distribution(self, points: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        """Share of PIT values up to each point, float64 (m,); of a right model the point itself.

        weight: float64 (n,), times a row counts. NaN where no row was followed that far. Above the point = ends come
        earlier than predicted. For a plot: `points` = np.linspace(0, 1, 101).
        """
        return 1.0 - self.over.survival_at(points, weight)

    def deviation_and_coverage(self, weight: np.ndarray | None = None) -> tuple[float, float]:
        """The largest |F(d) - d| over the deciles d (lower is better) and the share within the central 80 % (0.8).

        Deciles that no row was followed to are left out of the first and make the second NaN. Coverage alone may be
        right by chance: of exponential lifetimes predicted twice too long too, 80 % fall within.
        """
        found = self.distribution(DECILES, weight)
        return pit_deviation(found), float(found[-1] - found[0])

    def d_calibration(self, weight: np.ndarray | None = None) -> tuple[float, float]:
        """D-calibration (Haider et al. 2020): the chi-square statistic of 10 bins of PIT, lower is better, and p.

        A censored row is spread evenly over what lies above its PIT. A late entry, which the paper has not, is asked
        given its age: (PIT - entry) / (1 - entry). p (9 degrees of freedom) takes rows for independent: requests of
        one owner are not, and with tens of thousands of rows any model is refused. weight: times a row counts.
        """
        from scipy.stats import chi2

        counts = self.bin_counts(weight)
        expected = counts.sum() / N_BINS
        if not expected > 0.0:
            return float("nan"), float("nan")
        statistic = float(((counts - expected) ** 2).sum() / expected)
        return statistic, float(chi2.sf(statistic, N_BINS - 1))

    def bin_counts(self, weight: np.ndarray | None = None) -> np.ndarray:
        """Rows in each of 10 bins of PIT, float64 (10,), the censored spread; equal for a right model."""
        row = np.ones(len(self.value)) if weight is None else weight
        entry = np.maximum(self.entry, 0.0)
        room = 1.0 - entry
        given = np.clip((self.value - entry) / np.where(room > 0.0, room, 1.0), 0.0, 1.0)
        given[room <= 0.0] = 1.0  # outlived what the curve holds possible
        own = np.minimum((N_BINS * given).astype(np.int64), N_BINS - 1)
        left = 1.0 - given
        is_spread = ~self.is_event & (left > 0.0)
        inverse = 1.0 / np.where(is_spread, left, 1.0)
        here = np.where(is_spread, ((own + 1) / N_BINS - given) * inverse, 1.0)
        above = np.bincount(own, row * np.where(is_spread, inverse / N_BINS, 0.0), N_BINS)
        return np.bincount(own, row * here, N_BINS) + np.append(0.0, np.cumsum(above)[:-1])


def pit_deviation(at_deciles: np.ndarray) -> float:
    """The largest |F(d) - d| of a distribution of PIT at the nine deciles, float64 (9,); NaN ones are left out.

    >>> round(pit_deviation(np.array([0.1, 0.2, 0.3, 0.45, 0.5, 0.6, 0.7, float("nan"), float("nan")])), 3)
    0.05
    """
    gaps = np.abs(at_deciles - DECILES)
    return float("nan") if np.isnan(gaps).all() else float(np.nanmax(gaps))


@dataclass(frozen=True, slots=True)
class CalibrationPoints:
    """Predicted and observed share that outlasts, by bin of the prediction, rising: each (k,), k <= n_bins.

    predicted, observed: float64, in [0, 1]; observed is NaN where no row of the bin was followed that far.
    n_rows: int64.
    """

    predicted: np.ndarray
    observed: np.ndarray
    n_rows: np.ndarray


def calibration_points(table: CurveTable, rows: Examples, horizon_s: float, age_s: float = 0.0,
                       n_bins: int = N_BINS) -> CalibrationPoints:
    """Among rows alive and under observation at `age_s`: P(`horizon_s` more seconds), mean and Kaplan-Meier by bin.

    Bins hold about as many rows each; equal predictions stay together, so that there may be fewer.
    """
    is_asked = (rows.lifetime_s > age_s) & (rows.entry_s <= age_s)
    asked, predicted = rows.take(is_asked), table.take(is_asked).survival(horizon_s, age_s)
    if len(asked) == 0:
        return CalibrationPoints(np.empty(0), np.empty(0), np.empty(0, np.int64))
    edges = np.unique(np.quantile(predicted, np.arange(1, n_bins) / n_bins))
    _, n_bin, n_rows = np.unique(np.searchsorted(edges, predicted), return_inverse=True, return_counts=True)
    observed = np.empty(len(n_rows))
    for idx in range(len(n_rows)):
        group = asked.take(n_bin == idx)
        seen = KaplanMeier.of(group.lifetime_s, group.is_event, np.full(len(group), age_s))
        observed[idx] = seen.survival_at(np.array([age_s + horizon_s]))[0]
    return CalibrationPoints(np.bincount(n_bin, predicted) / n_rows, observed, n_rows)


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
