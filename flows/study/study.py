"""The study of one trace: every family on the same later window, chosen between on the validation window alone.

Unlike `retrain` it fits families that are never served, and promotes nothing: it says which model a trace wants."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from rich.markup import escape

from sojourn import __version__
from sojourn.features.split import Examples, Split
from sojourn.flows.console import console, stage
from sojourn.flows.reports.figures import accuracy_figure
from sojourn.flows.reports.study_report import (
    age_figure,
    calibration_figure,
    coverage_weeks_figure,
    study_tables,
    weeks_figure,
)
from sojourn.flows.retrain.features import build_features
from sojourn.flows.retrain.honest_columns import SUSPECTS, check_confirmed, question, suspects
from sojourn.flows.retrain.ingest import ingest
from sojourn.flows.retrain.train import (
    CHOICE_TAG,
    Choice,
    Trained,
    as_served,
    choose,
    fit_family,
    fit_settings,
    learnt_refresh,
    read_instants,
    run_windows,
    tell_limits,
    with_fitted,
)
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.tracking.tracker import FAMILY, STUDY, SYSTEM, Tracker, run_name, train_and_test
from sojourn.flows.versions.version_list import JUDGED_TAG, JudgedOn, keyed
from sojourn.flows.workers.flow import store_flow
from sojourn.models.curve_table import CurveTable, HazardTable, online_table
from sojourn.models.lifetime import BASELINES, AgeGain, ClassesModel
from sojourn.models.measures import (
    CLASS_THRESHOLDS_S,
    N_EACH_MIN,
    Assessment,
    CalibrationByAge,
    OwnerDraws,
    assess,
    by_week,
    calibration_points,
    choose_threshold,
    class_scores,
    drawn_owners,
    interval,
    limits_of,
    of_owners,
    shown_thresholds,
    time_label,
)

BOUNDS_S = (7_200, 43_200, 172_800)
"""More thresholds of "outlives" at creation: 2 h, 12 h, 2 d."""
_PIT_POINTS = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True, slots=True)
class Study:
    """What a study found; JSON values only.

    scores, fit_s: per family. chosen: on the validation window, of the families that can be served; choice: what it was
    chosen by (`flows.retrain.train.Choice`), and said: the same in words. best_of_all: the best there by mean, of all
    families. refused: why a family could not be fitted on this trace. threshold_s: the trace's own "long-lived".
    n_owners: how many owners a bootstrap draws from, 0 = requests one by one. intervals: per family and measure, 95 %.
    differences: per baseline and measure, chosen - baseline: the difference and its paired 95 % interval. weeks,
    calibration: per family, as `by_week` and `_calibration` give them. suspects: columns that look as if they were not
    known at creation, each with its reason. notes: which classes the trace shows, how instant ends are read. refreshed:
    of the chosen family, `AgeGain.document()` of each age that was judged; refresh_ages_s: those that are served;
    refresh_said: what was chosen on the validation window. online: calibration by age of the same test rows,
    recalibrated online, of families whose curves are hazards and were judged without.
    """

    trace: str
    data_hash: str
    code_version: str
    n_past: int
    n_test: int
    test_from_s: int
    threshold_s: int
    chosen: str
    choice: Choice
    said: str
    best_of_all: str
    n_owners: int
    scores: dict[str, dict[str, float]]
    validation: dict[str, float]
    intervals: dict[str, dict[str, tuple[float, float]]]
    differences: dict[str, dict[str, tuple[float, float, float]]]
    weeks: dict[str, dict[str, list[float | None]]]
    calibration: dict[str, dict[str, list[float | None]]]
    fit_s: dict[str, float]
    refused: dict[str, str]
    suspects: dict[str, str]
    notes: tuple[str, ...] = ()
    refreshed: tuple[dict[str, int | float | None], ...] = ()
    refresh_ages_s: tuple[int, ...] = ()
    refresh_said: str = ""
    online: dict[str, dict[str, float]] = field(default_factory=dict)


@store_flow("evaluate")
def study(config: RetrainConfig, tracker: Tracker) -> Study:
    """Fit and score every configured family of one trace, log it, and print the tables."""
    ingested = ingest(config.store, config.source)
    features = build_features(config.store, ingested, config.dask, config.max_requests)
    check_confirmed(features.encoder, config.confirmed_columns)
    features, instants = read_instants(config, features)
    split = run_windows(config, features)
    threshold_s = config.long_lived_s or choose_threshold(split.train)
    tell_limits(split, features)
    fitted: list[Trained] = []
    refused: dict[str, str] = {}
    settings = fit_settings(config, features)
    for name in config.families:
        try:
            fitted.append(fit_family(name, split, with_fitted(settings, fitted), threshold_s))
        except ValueError as error:  # no owner, no requested time: the trace cannot tell
            refused[name] = str(error)
    if not fitted:
        raise ValueError(f"{ingested.name}: no family could be fitted: {next(iter(refused.values()))}")
    fitted = as_served(fitted, split.valid, features.rows.decided_s, features.rows.names, threshold_s)
    choice = choose(fitted, split.valid, features.encoder.history, config.seed, features.rows.names)
    served = next(trained for trained in fitted if trained.family == choice.family)
    refreshing = learnt_refresh(features, split, settings, served, config.refresh)
    test, chosen = split.test, choice.family
    history_keys = features.encoder.history.keys
    drawn, n_owners = drawn_owners(test, features.encoder.history)
    draws = OwnerDraws(drawn, config.n_draws, seed=config.seed)
    is_seen = _is_seen(split, [idx for idx, key in enumerate(history_keys)
                               if key.kind == "owner" and len(key.columns) == 1])
    shown = shown_thresholds(split.past, test)
    cores = features.trace.requests["cpu_cores"].to_numpy()[features.rows.idx_request[test.idx_row]]
    found: dict[str, Assessment] = {}
    weeks, calibration, online = {}, {}, {}
    decided_s = features.rows.decided_s[test.idx_row]
    limit_s = limits_of(test, features.rows.names)
    refreshed: tuple[AgeGain, ...] = ()
    with stage("score on the test window") as report:
        for done, trained in enumerate(fitted):
            report(done, len(fitted))
            family, table = trained.family, trained.served(test, features.rows.decided_s)
            by_age = CalibrationByAge.of(table, test, limit_s)
            assessed = assess(table, test, threshold_s, BOUNDS_S, draws, by_age)
            if is_seen is not None:
                assessed.scores.update(of_owners(table, test, threshold_s, is_seen, by_age))
            assessed.scores.update(class_scores(table, test, cores, shown))
            found[family] = assessed
            weeks[family] = _as_json(by_week(table, test, threshold_s, split.test_from_s, by_age))
            calibration[family] = _as_json(_calibration(table, test, threshold_s, by_age))
            if isinstance(table, HazardTable) and trained.recalibrated is None:
                later = CalibrationByAge.of(online_table(table, test, decided_s), test, limit_s)
                online[family] = later.scores()
                calibration[family] |= _as_json({f"online.{name}": shares.tolist() for name, shares
                                                 in later.distributions(_PIT_POINTS).items()})
            if family == chosen:
                refreshed = refreshing.on_test(split, table, features, config.seed)
    with stage("columns known at creation?"):
        asked = suspects(features.trace, features.encoder, features.rows, served.model, split,
                         config.confirmed_columns, config.seed, config.n_threads)
    recalibrated = [f"{one.family}: judged recalibrated online." for one in fitted if one.recalibrated is not None]
    study_found = Study(
        ingested.name, ingested.data_hash, __version__, len(split.past), len(test), split.test_from_s, threshold_s,
        chosen, choice, choice.text(), min(fitted, key=lambda trained: trained.choice_score).family,
        n_owners,
        {family: assessed.scores for family, assessed in found.items()},
        {trained.family: trained.choice_score for trained in fitted},
        {family: {name: interval(values) for name, values in assessed.replicates.items()}
         for family, assessed in found.items()},
        {family: _differences(found[chosen], found[family]) for family in BASELINES
         if family in found and family != chosen},
        weeks, calibration, {trained.family: trained.fit_s for trained in fitted}, refused,
        {suspect.column: suspect.reason for suspect in asked},
        (*_class_notes(fitted, shown), *recalibrated, *instants.tags().values()),
        tuple(gain.document() for gain in refreshed), refreshing.refresh.ages_s, refreshing.refresh.text(),
        online,
    )  # fmt: skip
    with stage("log"):
        _log(config, tracker, study_found, instants.tags())
    console.print()
    for printed in study_tables(asdict(study_found)):
        console.print(printed)
        console.print()
    for name, reason in refused.items():
        console.print(f"{name} left out: {reason}")
    for note in study_found.notes:
        console.print(note, soft_wrap=True)
    for suspect in asked:
        console.print(f"[yellow]![/] {escape(question((suspect,)))}")
    return study_found


def _class_notes(fitted: Sequence[Trained], shown: Mapping[str, Sequence[int]]) -> tuple[str, ...]:
    """Which thresholds the classes are between, and which the classifiers had too few rows for."""
    notes = [f"Classes of {name.upper()} are between the thresholds that the trace shows: "
             f"{', '.join(map(time_label, shown[name])) if name in shown else 'none'}." for name in CLASS_THRESHOLDS_S]
    return tuple(notes) + tuple(
        f"{trained.family}: no classifiers of {', '.join(map(time_label, trained.model.left_out_))} "
        f"(fewer than {N_EACH_MIN} training rows outlive it, or fewer do not, at creation or of what remains)."
        for trained in fitted if isinstance(trained.model, ClassesModel) and trained.model.left_out_)


def _is_seen(split: Split, idx_owner: list[int]) -> np.ndarray | None:
    """bool (n_test,): the finest owner was there before the test window; None where the trace names no owner."""
    if not idx_owner:
        return None
    position = idx_owner[-1]
    return np.isin(split.test.keys[position], np.unique(split.past.keys[position]))


def _differences(chosen: Assessment, other: Assessment) -> dict[str, tuple[float, float, float]]:
    """chosen - other by measure: the difference, and its 95 % interval over the same draws of owners."""
    return {name: (chosen.scores[name] - other.scores[name], *interval(values - other.replicates[name]))
            for name, values in chosen.replicates.items() if name in other.replicates}


def _calibration(table: CurveTable, test: Examples, threshold_s: int,
                 by_age: CalibrationByAge) -> dict[str, list[float]]:
    """Predicted and observed shares that outlive the threshold, by decile; and the distribution of PIT at each age."""
    points = calibration_points(table, test, threshold_s)
    return {"predicted": points.predicted.tolist(), "observed": points.observed.tolist(),
            "n_rows": points.n_rows.tolist(), "pit": _PIT_POINTS.tolist(),
            **{name: shares.tolist() for name, shares in by_age.distributions(_PIT_POINTS).items()}}


def _as_json(values: Mapping[str, list[float]]) -> dict[str, list[float | None]]:
    return {name: [value if math.isfinite(value) else None for value in row] for name, row in values.items()}


def _finite(value: Any) -> Any:
    """None for numbers that JSON has no word for."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _log(config: RetrainConfig, tracker: Tracker, found: Study, instants: Mapping[str, str]) -> None:
    judged = JudgedOn(found.trace, found.data_hash, f"from {found.test_from_s} s on", found.threshold_s)
    tags = {"kind": STUDY, "trace": found.trace, "data_hash": found.data_hash[:12], JUDGED_TAG: judged.key,
            "code_version": found.code_version, CHOICE_TAG: found.said, **instants}
    if found.suspects:
        tags[SUSPECTS] = ", ".join(found.suspects)
    data = train_and_test(config.source, found.trace, found.data_hash, found.test_from_s, found.n_past, found.n_test)
    with tracker.run(run_name(found.trace, datetime.now(UTC).date(), before="study"), tags, data=data) as run:
        for family, values in found.scores.items():
            bounds = {f"{name}.{side}": bound for name, ends in found.intervals[family].items()
                      for side, bound in zip(("low", "high"), ends, strict=True)}
            online = {f"online.{name}": value for name, value in found.online.get(family, {}).items()}
            with tracker.run(family, {**tags, "kind": FAMILY, "family": family}, run, data) as child:
                tracker.log(child, {"family": family}, {
                    **keyed(judged.key, {**values, **bounds, **online, "choice": found.validation[family]}),
                    "fit_s": found.fit_s[family]})
        tracker.log(run, {**config.resolved(), "chosen": found.chosen, "best_of_all": found.best_of_all,
                          "threshold_s": found.threshold_s})
        logged = asdict(found)
        tracker.log_figure(run, accuracy_figure(found.scores, found.threshold_s), "accuracy.png")
        tracker.log_figure(run, weeks_figure(logged), "weeks.png")
        tracker.log_figure(run, calibration_figure(logged), "calibration.png")
        tracker.log_figure(run, age_figure(logged), "calibration-by-age.png")
        tracker.log_figure(run, coverage_weeks_figure(logged), "coverage-by-week.png")
        tracker.log_text(run, json.dumps(_finite(logged), indent=1, sort_keys=True) + "\n", f"{SYSTEM}/{STUDY}.json")
