"""One model's scores on a window, by name, and their variation over draws of owners.

Decisions use `ages.ibs`, over creation and all absolute ages (`models.measures.brier`), since a scheduler predicts at
an absolute age, among running requests. `creation.*` is at uptime 0; `age_10m.*` among requests alive at that age;
`share_50.*` at 50 % of each lifetime (LAVA, figure 9: it uses the lifetime that it predicts). `*_1h`, `*_7d` and
`*_long` are of "outlives" 1 h, 7 d and the trace's threshold: names do not depend on the trace, so versions can be
compared. Each measure is prepared once as a function of row weights, for a bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures.brier import BrierOverAges, Part, parts_by_age
from sojourn.models.measures.calibration import N_ENDS_MIN, WEEKLY_AGES_S, AgedPit, CalibrationByAge
from sojourn.models.measures.censoring import (
    censoring_curve,
    end_weights,
    follow_up_s,
    outliving_weights,
    weighted_mean,
)
from sojourn.models.measures.concordance import Concordance, Ranking, f1
from sojourn.models.measures.errors import log_errors
from sojourn.models.measures.measure import AGES_S, UPTIME_SHARES, Reweighed, alive_at, interval, time_label
from sojourn.models.measures.registry import MEASURES
from sojourn.models.outcomes import CensoringCurve
from sojourn.serving.inputs import WEEK_S

Group = Callable[[np.ndarray | None], dict[str, float]]
"""Prepared measures: row weights (n,), None = each row once, to values by name."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """scores: by name. replicates: for each resampled measure float64 (number of draws,), NaN where undefined."""

    scores: dict[str, float]
    replicates: dict[str, np.ndarray]


def score_model(table: CurveTable, test: Examples, threshold_s: int,
                brier: Mapping[int, Part | None] | None = None) -> dict[str, float]:
    """The scores of every version: outliving and errors, by absolute age and by share of the lifetime.

    ap, f1 and recall (higher is better) weigh by inverse probability of censoring; mae and bias are of log10 seconds
    over observed ends, median against observed (lower and nearer 0 is better); `_ipcw`: observed ends are weighted for
    the censored rows; `_restricted`: both times are cut at the follow-up, so rows that outlast it count, too; ibs is
    the integrated Brier score of the remaining time (lower is better); `ages.ibs`, over creation and all ages, decides
    between families.

    brier: `parts_by_age` of the same curves and rows; None = computed here.
    """
    test = test.without_features()
    groups = [*_resampled(table, test, threshold_s, (), brier), *_by_share(table, test, threshold_s)]
    return _scores(groups, None)


def assess(table: CurveTable, test: Examples, threshold_s: int, bounds_s: Iterable[int] = (),
           draws: Iterable[np.ndarray] = (), by_age: CalibrationByAge | None = None) -> Assessment:
    """All scores of a study. bounds_s: more thresholds at creation, as `creation.ap_12h`; draws: row weights (n,).

    by_age: of the same curves and rows; None = computed here.
    """
    resampled = [*_resampled(table, test, threshold_s, bounds_s), _concordant(table, test),
                 (by_age or CalibrationByAge.of(table, test)).scores, *_registry_groups(table, test)]
    by_share = _by_share(table, test, threshold_s)
    scores = _scores([*resampled, *by_share], None)
    by_draw = [_scores(resampled, weight) for weight in draws]
    names = [name for name in scores if any(name in values for values in by_draw)]
    return Assessment(scores, {name: np.array([values.get(name, math.nan) for values in by_draw]) for name in names})


def card_measures(table: CurveTable, test: Examples, threshold_s: int, draws: Iterable[np.ndarray],
                  limit_s: np.ndarray | None = None) -> dict[str, tuple[float, float, float]]:
    """The measures of a model card, each with its 95 % interval over drawn owners, by the names of `assess`.

    Average precision of the trace's threshold at creation, the error of the remaining time at 1 h,
    calibration at both; at 1 h only with at least N_ENDS_MIN observed ends. draws: row weights
    (n,). limit_s: see `AgedPit.of`; None = no request has one.
    """
    limit_s = np.full(len(test), np.nan) if limit_s is None else limit_s
    curve = censoring_curve(test)
    groups = [_outlives(table, test, curve, 0.0, threshold_s, "creation", "long"),
              _errors(table, test, curve, 3_600, "age_1h", "remaining")]
    groups += [part.scores for part in (AgedPit.of(table, test, age_s, limit_s) for age_s in WEEKLY_AGES_S)
               if part is not None and (part.age_s == 0 or part.pit.is_event.sum() >= N_ENDS_MIN)]
    by_draw = [_scores(groups, weight) for weight in draws]
    return {name: (value, *interval(np.array([values.get(name, math.nan) for values in by_draw])))
            for name, value in _scores(groups, None).items()}


def calibration_with_ends(measures: Mapping[str, tuple[float, float, float]]) -> dict[str, float]:
    """Coverage and PIT deviation of `card_measures`, with the ends of their intervals as `.low` and `.high`."""
    return {f"{name}{end}": value for name, values in measures.items() if "coverage_" in name or "pit_" in name
            for end, value in zip(("", ".low", ".high"), values, strict=True) if math.isfinite(value)}


def by_week(table: CurveTable, test: Examples, threshold_s: int, from_s: int,
            by_age: CalibrationByAge | None = None) -> dict[str, list[float]]:
    """Scores by whole weeks after training (LAVA, figure 10), of requests that arrived in each: week, n, f1, mae.

    f1: of "outlives the threshold" at creation, IPCW, higher is better; mae: of log10 lifetime,
    lower is better; NaN if a week has no such rows, or none with an observed lifetime above the
    threshold. Also the calibration of `CalibrationByAge.by_week`; by_age: see `assess`.
    """
    curve = censoring_curve(test)
    outlives = _outlives(table, test, curve, 0.0, threshold_s, "w", "long")
    errors = _errors(table, test, curve, 0.0, "w", "lifetime")
    week = weeks_after(test, from_s)
    table_of_weeks: dict[str, list[float]] = {"week": [], "n": [], "f1": [], "mae": []}
    for number in np.unique(week):
        weight = (week == number).astype(np.float64)
        values = {**outlives(weight), **errors(weight)}
        table_of_weeks["week"].append(float(number))
        table_of_weeks["n"].append(float(weight.sum()))
        is_followed = values.get("w.base_rate_long", 0.0) > 0.0
        table_of_weeks["f1"].append(values["w.f1_long"] if is_followed else math.nan)
        table_of_weeks["mae"].append(values["w.mae_log10_lifetime"])
    return table_of_weeks | (by_age or CalibrationByAge.of(table, test)).by_week(week)


def weeks_after(rows: Examples, from_s: int) -> np.ndarray:
    """The whole week in which each row arrived, int64 (n,), from 0; rows that arrived before from_s
    are in the first."""
    return np.maximum(rows.arrival_s - from_s, 0) // WEEK_S


def of_owners(table: CurveTable, test: Examples, threshold_s: int, is_seen: np.ndarray,
              by_age: CalibrationByAge | None = None) -> dict[str, float]:
    """Scores at creation of owners in the training data (`seen.*`) and of new ones (`unseen.*`). is_seen: bool (n,).

    by_age: see `assess`.
    """
    curve = censoring_curve(test)
    groups = [_outlives(table, test, curve, 0.0, threshold_s, "x", "long"),
              _errors(table, test, curve, 0.0, "x", "lifetime"), _concordant(table, test),
              (by_age or CalibrationByAge.of(table, test)).parts[0].scores]
    scores: dict[str, float] = {}
    for prefix, is_taken in (("seen", is_seen), ("unseen", ~is_seen)):
        scores[f"{prefix}.n"] = float(is_taken.sum())
        if is_taken.any():
            values = _scores(groups, is_taken.astype(np.float64))
            scores |= {f"{prefix}.{name.partition('.')[2]}": value for name, value in values.items()}
    return scores


def _scores(groups: Iterable[Group], weight: np.ndarray | None) -> dict[str, float]:
    return {name: value for group in groups for name, value in group(weight).items() if math.isfinite(value)}


def _resampled(table: CurveTable, test: Examples, threshold_s: int, bounds_s: Iterable[int],
               brier: Mapping[int, Part | None] | None = None) -> list[Group]:
    curve = censoring_curve(test)
    bounds = {"1h": 3_600, **{time_label(bound): bound for bound in bounds_s}, "7d": WEEK_S, "long": threshold_s}
    groups = [_outlives(table, test, curve, 0.0, bound, "creation", name) for name, bound in bounds.items()]
    groups += [_errors(table, test, curve, 0.0, "creation", "lifetime"),
               *_integrated(parts_by_age(table, test) if brier is None else brier, len(test))]
    for age_s in AGES_S:
        prefix = f"age_{time_label(age_s)}"
        groups.append(_counts(test, age_s, prefix))
        groups.append(_errors(table, test, curve, age_s, prefix, "remaining"))
        if threshold_s > age_s:
            groups.append(_outlives(table, test, curve, age_s, threshold_s, prefix, "long"))
    return groups


def _counts(test: Examples, age_s: float, prefix: str) -> Group:
    is_alive = alive_at(test, age_s).astype(np.float64)
    n_alive = float(is_alive.sum())
    if n_alive == 0.0:
        return lambda _: {}
    return lambda weight: {f"{prefix}.n_alive": n_alive if weight is None else float((weight * is_alive).sum())}


def _outlives(table: CurveTable, test: Examples, curve: CensoringCurve, age_s: float, threshold_s: int, prefix: str,
              name: str) -> Group:
    censoring, _ = outliving_weights(curve, test, threshold_s, age_s)
    is_used = censoring > 0.0
    if not is_used.any():
        return lambda _: {}
    censoring = censoring[is_used]
    score = table.survival(threshold_s - age_s, age_s)[is_used]
    is_long, is_called = test.lifetime_s[is_used] > threshold_s, score > 0.5
    ranking = Ranking.of(is_long, score)

    def group(weight: np.ndarray | None) -> dict[str, float]:
        row = censoring if weight is None else censoring * weight[is_used]
        counts = ranking.curve(row)
        return {
            f"{prefix}.ap_{name}": counts.average_precision(),
            f"{prefix}.base_rate_{name}": weighted_mean(is_long.astype(np.float64), row),
            f"{prefix}.f1_{name}": f1(is_long, is_called, row),
            f"{prefix}.recall_at_p99_{name}": counts.recall_at(0.99),
            f"{prefix}.recall_at_p95_{name}": counts.recall_at(0.95),
        }

    return group


def _errors(table: CurveTable, test: Examples, curve: CensoringCurve, age_s: float, prefix: str, what: str) -> Group:
    is_alive = alive_at(test, age_s)
    is_end = is_alive & test.is_event
    if not is_end.any():
        return lambda _: {f"{prefix}.mae_log10_{what}": math.nan}
    followed_s = follow_up_s(test.take(is_alive))
    within = outliving_weights(curve, test, followed_s, age_s)[0] if followed_s > age_s else np.zeros(len(test))
    is_used = is_end | (within > 0.0)
    of_ends, within = end_weights(curve, test, age_s)[0][is_used], within[is_used]
    ends = test.is_event[is_used].astype(np.float64)
    median_s, observed_s = table.take(is_used).quantile(0.5, age_s), test.lifetime_s[is_used] - age_s
    error = log_errors(median_s, observed_s)
    restricted = log_errors(*(np.minimum(each, followed_s - age_s) for each in (median_s, observed_s)))

    def group(weight: np.ndarray | None) -> dict[str, float]:
        row = 1.0 if weight is None else weight[is_used]
        return {
            f"{prefix}.mae_log10_{what}": weighted_mean(np.abs(error), ends * row),
            f"{prefix}.bias_log10_{what}": weighted_mean(error, ends * row),
            f"{prefix}.mae_log10_{what}_ipcw": weighted_mean(np.abs(error), of_ends * row),
            f"{prefix}.mae_log10_{what}_restricted": weighted_mean(np.abs(restricted), within * row),
            f"{prefix}.bias_log10_{what}_restricted": weighted_mean(restricted, within * row),
        }

    return group


def _integrated(parts: Mapping[int, Part | None], n: int) -> list[Group]:
    """`ages.ibs`, and the integrated Brier score at creation and of the remaining time at each age."""
    whole = BrierOverAges.of_parts(parts, n)
    groups: list[Group] = [lambda weight: {"ages.ibs": whole.score(weight)}]
    for age_s, part in parts.items():
        if part is not None:
            name = f"{'age_' + time_label(age_s) if age_s else 'creation'}.ibs"
            groups.append(partial(_mean_of, name, *part))
    return groups


def _mean_of(name: str, is_asked: np.ndarray, added: np.ndarray, weight: np.ndarray | None) -> dict[str, float]:
    return {name: weighted_mean(added, None if weight is None else weight[is_asked])}


def _concordant(table: CurveTable, test: Examples) -> Group:
    concordance = Concordance.of(test, table.quantile(0.5, 0.0))

    def ranked(weight: np.ndarray | None) -> dict[str, float]:
        harrell, uno = concordance.both(weight)
        return {"creation.c_harrell": harrell, "creation.c_uno": uno}

    return ranked


def _registry_groups(table: CurveTable, test: Examples) -> list[Group]:
    """The measures of the registry that have a function."""
    return [partial(_value_by_name, name, measure.of(table, test)) for name, measure in MEASURES.items()
            if measure.of is not None]


def _value_by_name(name: str, measure: Reweighed, weight: np.ndarray | None) -> dict[str, float]:
    return {name: measure(weight)}


def _by_share(table: CurveTable, test: Examples, threshold_s: int) -> list[Group]:
    observed, curves = test.take(test.is_event), table.take(test.is_event)

    def group(_: np.ndarray | None) -> dict[str, float]:
        scores = {}
        for share in UPTIME_SHARES:
            uptime_s = np.floor(observed.lifetime_s * share)
            prefix = f"share_{round(100 * share):02d}"
            is_called = curves.survival(np.maximum(threshold_s - uptime_s, 0.0), uptime_s) > 0.5
            scores[f"{prefix}.f1_long"] = f1(observed.lifetime_s > threshold_s, is_called)
            if round(100 * share) % 25 == 0:
                error = log_errors(curves.quantile(0.5, uptime_s), observed.lifetime_s - uptime_s)
                scores[f"{prefix}.mae_log10_remaining"] = weighted_mean(np.abs(error))
        return scores

    return [group] if len(observed) else []
