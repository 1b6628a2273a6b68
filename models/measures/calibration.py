"""Calibration: are predicted distributions right, as a whole (PIT) and at one horizon?

PIT: for a right model F(L | x), the predicted share that ends by the lifetime, is uniform on [0, 1]
(Dawid 1984; Gneiting, Balabdaoui and Raftery 2007). A row censored at C has a PIT above F(C | x),
one that entered late above F(entry | x), so Kaplan-Meier over PIT values gives their distribution
(Cox and Snell 1968, on another scale). Unlike inverse weights this allows censoring to depend on x.

`AgedPit` is the calibration among requests alive at an age: PIT of the remaining time, and coverage
of its 10, 50 and 90 % quantiles. A scheduler predicts at an age, among running requests.
Calibration at creation depends mostly on early ends and does not show this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures.censoring import KaplanMeier
from sojourn.models.measures.measure import AGES_S, interval, time_label
from sojourn.serving.inputs import LIMIT, LIMIT_MAX_S, LIMIT_MIN_S

DECILES = np.arange(1, 10) / 10.0
N_BINS = 10
_HALF_S = 0.5


@dataclass(frozen=True, slots=True)
class Pit:
    """PIT of each row, prepared for new row weights in O(n).

    value: float64 (n,), of the end or, where is_event (bool (n,)) is False, of the censoring. entry: float64 (n,), of
    the late entry, -1 for rows observed from the age on. over: Kaplan-Meier over the values.

    A lifetime is known to a second, L - 1/2 to L + 1/2 (1 s: from 0), and a curve may rise steeply in it. The PIT of an
    end is then drawn uniformly from the rise: the randomised PIT of Czado, Gneiting and Held (2009), and 1 -
    survival(L, 0) where the rise is small. Censored and late rows have outlived their whole second.

    Coverage at q, the share that ends by the predicted quantile q, is the distribution at q. An end in the quantile's
    second (a tie) counts by the part of the second's rise that is below q. In whole seconds all such ends would count:
    with a third of a curve's mass on one second, a right q would cover more.
    """

    value: np.ndarray
    is_event: np.ndarray
    entry: np.ndarray
    over: KaplanMeier

    @classmethod
    def of(cls, table: CurveTable, rows: Examples, rng: np.random.Generator, age_s: float = 0.0) -> Pit:
        """The PIT of at least one row, predicted at an age: at creation, or of the remaining time later.

        rng: places ends within their second. age_s: whole seconds; each row must have outlived it
        (not needed for 0). A row that entered observation after that age counts from its entry on.
        """
        left_s = rows.lifetime_s - age_s
        if len(rows) == 0 or (age_s > 0.0 and not (left_s > 0.0).all()):
            raise ValueError(f"age_s must be outlived by each of at least one row, got {age_s!r} for {len(rows):,} rows"
                             f", {int((left_s <= 0.0).sum()):,} of them not")
        low, high = _rise(table, left_s, left_s, age_s)
        value = np.where(rows.is_event, low + rng.random(len(rows)) * (high - low), high)
        entry = np.minimum(_entered(table, rows, rows.entry_s + _HALF_S, age_s), np.nextafter(value, -1.0))
        return cls(value, rows.is_event, entry, KaplanMeier.of(value, rows.is_event, entry))

    def distribution(self, points: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        """Share of PIT values up to each point, float64 (m,); for a right model the point itself.

        weight: float64 (n,), how often a row counts. NaN where no row was followed that far. Above
        the point = ends come earlier than predicted. For a plot: `points` = np.linspace(0, 1, 101).
        """
        return 1.0 - self.over.survival_at(points, weight)

    def d_calibration(self, weight: np.ndarray | None = None) -> tuple[float, float]:
        """D-calibration (Haider et al. 2020): the chi-square statistic of 10 bins of PIT, lower is better, and p.

        A censored row is spread evenly over the PIT values above its own. A late entry (not in the
        paper) is conditioned on its age: (PIT - entry) / (1 - entry). p (9 degrees of freedom)
        supposes independent rows: requests of one owner are not, and with tens of thousands of rows
        any model is rejected. weight: how often a row counts.
        """
        from scipy.stats import chi2

        counts = self.bin_counts(weight)
        expected = counts.sum() / N_BINS
        if not expected > 0.0:
            return float("nan"), float("nan")
        statistic = float(((counts - expected) ** 2).sum() / expected)
        return statistic, float(chi2.sf(statistic, N_BINS - 1))

    def bin_counts(self, weight: np.ndarray | None = None) -> np.ndarray:
        """Rows in each of 10 bins of PIT, float64 (10,), censored rows spread; equal for a right model."""
        row = np.ones(len(self.value)) if weight is None else weight
        entry = np.maximum(self.entry, 0.0)
        room = 1.0 - entry
        conditional = np.clip((self.value - entry) / np.where(room > 0.0, room, 1.0), 0.0, 1.0)
        conditional[room <= 0.0] = 1.0  # outlived the whole curve
        bin_of = np.minimum((N_BINS * conditional).astype(np.int64), N_BINS - 1)
        rest = 1.0 - conditional
        is_spread = ~self.is_event & (rest > 0.0)
        inverse = 1.0 / np.where(is_spread, rest, 1.0)
        here = np.where(is_spread, ((bin_of + 1) / N_BINS - conditional) * inverse, 1.0)
        above = np.bincount(bin_of, row * np.where(is_spread, inverse / N_BINS, 0.0), N_BINS)
        return np.bincount(bin_of, row * here, N_BINS) + np.append(0.0, np.cumsum(above)[:-1])


def pit_deviation(at_deciles: np.ndarray) -> float:
    """The largest |F(d) - d| of a distribution of PIT at the nine deciles, float64 (9,); NaN ones do not count.

    >>> round(pit_deviation(np.array([0.1, 0.2, 0.3, 0.45, 0.5, 0.6, 0.7, float("nan"), float("nan")])), 3)
    0.05
    """
    gaps = np.abs(at_deciles - DECILES)
    return float("nan") if np.isnan(gaps).all() else float(np.nanmax(gaps))


def _rise(table: CurveTable, first_s: np.ndarray, last_s: np.ndarray, age_s: float) -> tuple[np.ndarray, np.ndarray]:
    """F before the second `first_s` and after the second `last_s`, float64 (n,) each: of what remains at the age."""
    return (1.0 - table.survival(np.where(first_s > 1.0, first_s - _HALF_S, 0.0), age_s),
            1.0 - table.survival(last_s + _HALF_S, age_s))


def _entered(table: CurveTable, rows: Examples, entry_s: np.ndarray, age_s: float) -> np.ndarray:
    """F at the late entries, float64 (n,), which are at `entry_s`; -1 for rows observed from the age on."""
    entry, is_late = np.full(len(rows), -1.0), rows.entry_s > age_s
    if is_late.any():
        entry[is_late] = 1.0 - table.take(is_late).survival(np.maximum(entry_s[is_late] - age_s, 0.0), age_s)
    return entry


NEAR_LIMIT = 0.02
"""Ends that are at most so far from their request's limit, as a share of it, are one instant."""
RESOLVED = f"_at_{round(100 * NEAR_LIMIT)}pct"
"""After the name of a measure: at this resolution."""


def limits_of(rows: Examples, names: Sequence[str]) -> np.ndarray | None:
    """Each row's limit, float64 (n,) seconds, NaN = none; None if no feature is it. names: of the features."""
    return rows.features[:, names.index(LIMIT)] if LIMIT in names else None


@dataclass(frozen=True, slots=True)
class ResolvedPit:
    """PIT at the resolution at which limits are kept: ends from 98 to 102 % of a request's limit are one instant.

    A job killed 36 s before its limit or 10 s after it ended at its limit; no model knows the second. So only the mass
    that the request's own curve has in that whole span counts, not its place in it. F rises from `low` to `high` in the
    span, and each end in it counts at every PIT from low to high alike: at q by (q - low) / (high - low), from 0 to 1.
    That is the non-randomised PIT of Czado, Gneiting and Held (2009). For a right model the mean is q, whatever
    the curve does in the span, so a quantile at the span's begin does not cover the ends in it; and the span
    depends on the request alone. Ends elsewhere have their second as span. A row censored in the span has outlived
    what lies before it; one that entered in it counts from its begin.

    part_of: int64 (m,), the row of each part: ends are split at the deciles. share: float64 (m,), of its row.
    """

    part_of: np.ndarray
    share: np.ndarray
    over: KaplanMeier

    @classmethod
    def of(cls, table: CurveTable, rows: Examples, limit_s: np.ndarray, age_s: float = 0.0) -> ResolvedPit:
        """Of at least one row, each of which outlived the age. limit_s: float64 (n,), total seconds, NaN = none."""
        first, last = (1.0 - NEAR_LIMIT) * limit_s, (1.0 + NEAR_LIMIT) * limit_s
        is_limit = (limit_s >= LIMIT_MIN_S) & (limit_s <= LIMIT_MAX_S)
        is_near = is_limit & (rows.lifetime_s >= first) & (rows.lifetime_s <= last)
        left_s, end_s = (np.where(is_near, each, rows.lifetime_s) - age_s for each in (first, last))
        low, high = _rise(table, left_s, end_s, age_s)
        entered_near = is_limit & (rows.entry_s >= first) & (rows.entry_s <= last)
        entry = _entered(table, rows, np.where(entered_near, first - _HALF_S, rows.entry_s + _HALF_S), age_s)
        low, width = np.where(rows.is_event, low, np.where(is_near, low, high)), high - low
        edges = np.concatenate([[-1.0], DECILES, [1.0]])
        with np.errstate(divide="ignore", invalid="ignore"):
            below = np.where((rows.is_event & (width > 0.0))[:, None],
                             np.clip((edges - low[:, None]) / width[:, None], 0.0, 1.0), edges >= low[:, None])
        share = np.diff(below, axis=1)
        part_of, decile = np.nonzero(share > 0.0)
        share = share[part_of, decile]
        top = np.where(rows.is_event, high, low)[part_of]
        value = (np.maximum(low[part_of], edges[decile]) + np.minimum(top, edges[decile + 1])) / 2.0
        return cls(part_of, share, KaplanMeier.of(value, rows.is_event[part_of],
                                                  np.minimum(entry[part_of], np.nextafter(value, -1.0))))

    def at_deciles(self, weight: np.ndarray | None = None) -> np.ndarray:
        """Share of PIT values up to each decile, float64 (9,). weight: float64 (n,), how often a row counts."""
        return 1.0 - self.over.survival_at(DECILES, self.share if weight is None else self.share * weight[self.part_of])


@dataclass(frozen=True, slots=True)
class CalibrationPoints:
    """Predicted and observed share of survivors, by bin of the prediction, rising: each (k,), k <= n_bins.

    predicted, observed: float64, in [0, 1]; observed is NaN where no row of the bin was followed that far.
    n_rows: int64.
    """

    predicted: np.ndarray
    observed: np.ndarray
    n_rows: np.ndarray


def calibration_points(table: CurveTable, rows: Examples, horizon_s: float, age_s: float = 0.0,
                       n_bins: int = N_BINS) -> CalibrationPoints:
    """Among rows alive and under observation at `age_s`: P(`horizon_s` more seconds), mean and Kaplan-Meier by bin.

    Bins have about equally many rows; equal predictions stay together, so there may be fewer bins.
    """
    is_asked = (rows.lifetime_s > age_s) & (rows.entry_s <= age_s)
    present, predicted = rows.take(is_asked), table.take(is_asked).survival(horizon_s, age_s)
    if len(present) == 0:
        return CalibrationPoints(np.empty(0), np.empty(0), np.empty(0, np.int64))
    edges = np.unique(np.quantile(predicted, np.arange(1, n_bins) / n_bins))
    _, n_bin, n_rows = np.unique(np.searchsorted(edges, predicted), return_inverse=True, return_counts=True)
    observed = np.empty(len(n_rows))
    for idx in range(len(n_rows)):
        group = present.take(n_bin == idx)
        km_curve = KaplanMeier.of(group.lifetime_s, group.is_event, np.full(len(group), age_s))
        observed[idx] = km_curve.survival_at(np.array([age_s + horizon_s]))[0]
    return CalibrationPoints(np.bincount(n_bin, predicted) / n_rows, observed, n_rows)


QUANTILES = (0.1, 0.5, 0.9)
"""Quantiles whose coverage is measured; each is a decile."""
PERCENTS = tuple(round(100 * q) for q in QUANTILES)
"""Their form in names and titles."""
N_ENDS_MIN = 100
"""The least observed ends for a coverage: with fewer, a share of a half has a standard error of .05
or more even for independent requests. Tables mark such a cell; weeks and cards omit it."""
WEEKLY_AGES_S = (0, 3_600)
"""Ages at which calibration is also measured by week of arrival."""


def age_prefix(age_s: float) -> str:
    """The prefix of measures at an age.

    >>> age_prefix(0), age_prefix(3_600)
    ('creation', 'age_1h')
    """
    return f"age_{time_label(age_s)}" if age_s else "creation"


@dataclass(frozen=True, slots=True)
class AgedPit:
    """PIT of the remaining time at one age. idx: int64 (k,), the rows that outlived it; pit: of these rows.

    resolved: None if no limits were given.
    """

    age_s: int
    idx: np.ndarray
    pit: Pit
    resolved: ResolvedPit | None = None

    @classmethod
    def of(cls, table: CurveTable, rows: Examples, age_s: int, limit_s: np.ndarray | None = None) -> AgedPit | None:
        """None if no row outlived the age. Each age uses the same seed to place ends within their second.

        limit_s: float64 (n,), NaN = none, for `resolved`.
        """
        is_asked = rows.lifetime_s > age_s if age_s else np.ones(len(rows), bool)
        idx = np.flatnonzero(is_asked)
        if len(idx) == 0:
            return None
        subset = (rows, table) if len(idx) == len(rows) else (rows.take(idx), table.take(idx))
        resolved = None if limit_s is None else ResolvedPit.of(subset[1], subset[0], limit_s[idx], age_s)
        return cls(age_s, idx, Pit.of(subset[1], subset[0], np.random.default_rng(0), age_s), resolved)

    @property
    def prefix(self) -> str:
        """The prefix of its measures."""
        return age_prefix(self.age_s)

    def scores(self, weight: np.ndarray | None = None) -> dict[str, float]:
        """`*.pit_deviation`, `*.coverage_10`, `*.coverage_50` and `*.coverage_90`, and the number of observed ends.

        The same with `_at_2pct`, at the resolution of limits, if these were given. At creation also `coverage_80` and
        `d_calibration_chi2`. weight: float64 (n,) of all rows, how often each counts; `*.n_ends` only without. NaN if
        no row was followed that far, or none counts.
        """
        rows_weight = None if weight is None else weight[self.idx]
        at_deciles = self.pit.distribution(DECILES, rows_weight)
        values = {f"{self.prefix}.pit_deviation": pit_deviation(at_deciles)}
        if self.age_s == 0:
            values |= {"creation.coverage_80": float(at_deciles[-1] - at_deciles[0]),
                       "creation.d_calibration_chi2": self.pit.d_calibration(rows_weight)[0]}
        values |= _coverages(self.prefix, at_deciles)
        if self.resolved is not None:
            shares = self.resolved.at_deciles(rows_weight)
            values[f"{self.prefix}.pit_deviation{RESOLVED}"] = pit_deviation(shares)
            values |= {f"{name}{RESOLVED}": value for name, value in _coverages(self.prefix, shares).items()}
        if weight is None:
            values[f"{self.prefix}.n_ends"] = float(self.pit.is_event.sum())
        return values

    def by_week(self, week: np.ndarray) -> dict[str, list[float]]:
        """The same by week of arrival, without D-calibration: one value for each distinct week of all rows, rising.

        week: int64 (n,), of all rows. NaN with fewer than N_ENDS_MIN observed ends, except for `*.n_ends`.
        """
        weeks = week[self.idx]
        columns: dict[str, list[float]] = {}
        for number in np.unique(week):
            weight = (weeks == number).astype(np.float64)
            n_ends = float((weight * self.pit.is_event).sum())
            shares = (self.pit.distribution(DECILES, weight) if n_ends >= N_ENDS_MIN else np.full(len(DECILES), np.nan))
            values = {f"{self.prefix}.n_ends": n_ends, f"{self.prefix}.pit_deviation": pit_deviation(shares),
                      **_coverages(self.prefix, shares)}
            for name, value in values.items():
                columns.setdefault(name, []).append(value)
        return columns


def _coverages(prefix: str, at_deciles: np.ndarray) -> dict[str, float]:
    return {f"{prefix}.coverage_{percent}": float(at_deciles[percent // 10 - 1]) for percent in PERCENTS}


@dataclass(frozen=True, slots=True)
class CalibrationByAge:
    """The parts of each age, computed once from a model's curves; a bootstrap, weeks and figures reweigh them.

    >>> from sojourn.models.curve_table import OnceTable
    >>> rows = Examples(np.zeros((3, 1)), (), np.array([5.0, 700.0, 5_000.0]), np.array([True, True, False]),
    ...                 np.zeros(3), np.zeros(3, np.int64), np.arange(3))
    >>> calibration = CalibrationByAge.of(OnceTable(np.full(3, 3.0), 1.0, np.linspace(-3.0, 3.0, 201)), rows)
    >>> [(part.prefix, len(part.idx)) for part in calibration.parts]
    [('creation', 3), ('age_10m', 2), ('age_1h', 1)]
    """

    parts: tuple[AgedPit, ...]

    @classmethod
    def of(cls, table: CurveTable, rows: Examples, limit_s: np.ndarray | None = None) -> CalibrationByAge:
        """At creation and at each absolute age that a row outlived. table: of the same rows, in the same order.

        limit_s: see `AgedPit.of`.
        """
        parts = (AgedPit.of(table, rows, age_s, limit_s) for age_s in (0, *AGES_S))
        return cls(tuple(part for part in parts if part is not None))

    def scores(self, weight: np.ndarray | None = None) -> dict[str, float]:
        """The scores of all ages, by name."""
        return {name: value for part in self.parts for name, value in part.scores(weight).items()}

    def intervals(self, draws: Iterable[np.ndarray]) -> dict[str, tuple[float, float]]:
        """The 95 % interval of each of `scores` over drawn owners; NaN with too few draws. draws: row weights (n,)."""
        by_draw = [self.scores(weight) for weight in draws]
        names = dict.fromkeys(name for values in by_draw for name in values)
        return {name: interval(np.array([values.get(name, np.nan) for values in by_draw])) for name in names}

    def by_week(self, week: np.ndarray) -> dict[str, list[float]]:
        """The values of each week at WEEKLY_AGES_S, by name."""
        return {name: values for part in self.parts if part.age_s in WEEKLY_AGES_S
                for name, values in part.by_week(week).items()}

    def distributions(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """`*.pit_share` of each age: the share of PIT values up to each point, float64 (m,), for a figure."""
        return {f"{part.prefix}.pit_share": part.pit.distribution(points) for part in self.parts}
