"""The train-usage job: read series, judge waves and classes, write the section, promote.

Workers read the series by file. The last two days judge models that were chosen and trained on the
days before. A period that did not help on the last known day is not served."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sojourn import __version__
from sojourn.features.usage import (
    SharedReading,
    UsageGrid,
    UsageSource,
    UsageStore,
    UsageStream,
    read_usage,
    store_usage,
)
from sojourn.flows.console import console, stage
from sojourn.flows.retrain.features import workers_of
from sojourn.flows.retrain.judge import candidate_folder
from sojourn.flows.retrain.promote import Judged, promote
from sojourn.flows.retrain.verdict import Gate, Promotion
from sojourn.flows.settings.other_jobs import TrainUsageConfig
from sojourn.flows.store.caches import check_same_code, source_hash
from sojourn.flows.tracking.tracker import CHAMPION, USAGE, Tracker, run_name
from sojourn.flows.usage.report import class_figure, period_figure
from sojourn.flows.versions.promotion import BUNDLE_TAG, BUNDLES, BundleBytes
from sojourn.flows.versions.version_list import JUDGED_TAG, JudgedOn, keyed
from sojourn.flows.workers.dask import NewWorker, run_grouped
from sojourn.flows.workers.flow import store_flow
from sojourn.models.periodicity import PeriodicitySettings, WaveFits, fit_waves, next_day_errors
from sojourn.models.workload_class import ClassModel, SlotMaxima, fit_classes, judge_newcomers, slot_maxima
from sojourn.publishing import publish_files
from sojourn.serving.bundle import MANIFEST
from sojourn.serving.usage import (
    BY_HOURS,
    CLASSES,
    DAY_S,
    N_SLOTS,
    SEEN_S,
    WAVE_COLUMNS,
    WorkloadClasses,
    load_usage,
    usage_files,
)

MEANS = PeriodicitySettings(levels="mean")
_RUNNING_S = 3_600
"""A request with a sample in the last so many seconds of the grid runs at its end."""
HOURS = (3, 6, 12, 24)
GATED_HOURS = (3, 6, 12)
N_FOLDS = 5
MUST_WIN = 0.05
"""The served surplus must leave less work under-served than one margin, by this share."""
GAIN_MIN = 0.005
"""The same in shares of all work: slow random walks gain up to 0.002 (docs/usage/served.md)."""
_ROUNDING = 1e-6
_N_DAYS_MIN = 4
_N_DAYS_JUDGED = 2
_STARTS = (0, 24, 48, 72)
_N_STARTS_MAX = 8
"""Starts of one request while rules are chosen."""
SurplusRules = Mapping[str, tuple[str, ...]]
"""Resource -> the surplus rule (of SURPLUS_RULES) at each length of observation."""
_Case = tuple[ClassModel, SlotMaxima, int]


@dataclass(frozen=True, slots=True)
class TrainedUsage:
    """section: the folder, in `bundles` if the section was promoted, else in `candidates`."""

    section: Path
    promotion: Promotion
    scores: Mapping[str, float]


@store_flow("train-usage", is_writer=True)
def train_usage(config: TrainUsageConfig, tracker: Tracker) -> TrainedUsage:
    """Choose, judge on the last days, fit on all of them, and promote the section if it beats one margin."""
    place = None if config.dask is None else config.store.resolve()  # workers see the store
    with stage("read series") as report, TemporaryDirectory(prefix=".usage.", dir=place) as folder:
        options = {"timezone": config.day_timezone, **config.usage_options}
        opened = UsageSource(read_usage, (config.usage_reader, config.usage_trace.resolve()), tuple(options.items()))
        stream = read_usage(config.usage_reader, config.usage_trace, **options)
        grid = stored_usage(stream, opened, config.dask, Path(folder) / "usage", report).grid(step_s=config.step_s)
    for doubt in stream.report().doubts():
        console.print(doubt, soft_wrap=True)
    with stage("choose the surplus before the last days"):
        rules = choose_rules(grid, config.n_classes, config.seed)
    with stage("judge on the last days"):
        scores = judge_usage(grid, rules, config.n_classes, config.seed, config.n_threads)
    with stage("fit"):
        fitted = fit_usage(grid, rules, config.n_classes, config.seed, config.n_threads)
    gates = usage_gates(scores)
    judged_on = JudgedOn(config.usage_trace.name, data_hash(grid), "the last days")
    tags = {"trace": config.usage_trace.name, "data_hash": data_hash(grid)[:12], "kind": USAGE,
            JUDGED_TAG: judged_on.key, "code_version": __version__}
    today = datetime.now(UTC).date()
    begun = {**tags, "model": config.registered_name}
    name = run_name(config.usage_trace.name, today, before="train")
    with tracker.run(name, begun) as run, stage("check and promote"):
        folder_of_run = _write(config, run, grid, fitted, rules, scores, tags)
        sha256 = BundleBytes.read(folder_of_run).sha256
        source = _log(tracker, run, config, folder_of_run, sha256, fitted, keyed(judged_on.key, scores),
                      stream.report().text())
        judged = Judged(config.registered_name, run, source, sha256,
                        tracker.version_of(config.registered_name, CHAMPION), gates,
                        run_name(config.usage_trace.name, today, after="usage"))
        promotion = promote(tracker, config.store, judged, _card(config, rules, scores), tags)
    section = config.store / BUNDLES / config.registered_name if promotion.alias == CHAMPION else folder_of_run
    for gate in promotion.gates:
        console.print(f"{'passed' if gate.is_passed else 'FAILED'}  {gate.name}: {gate.finding}")
    for line in _served(rules):
        console.print(f"served  {line}")
    console.print(f"{promotion.name} version {promotion.version} is {promotion.alias}\nsection  {section}",
                  soft_wrap=True)
    for step in promotion.next_steps:
        console.print(f"next     {step}", soft_wrap=True)
    return TrainedUsage(section, promotion, scores)


def data_hash(grid: UsageGrid) -> str:
    """sha256 hex of the requests, reservations and samples on the grid."""
    digest = hashlib.sha256(repr((grid.start_s, grid.step_s, grid.clock, grid.request_ids.tolist())).encode())
    for array in (grid.cpu, grid.mem, grid.cpu_cores, grid.mem_gib):
        if array is not None:
            digest.update(array.tobytes())
    return digest.hexdigest()


def _write(config: TrainUsageConfig, run: str, grid: UsageGrid, fitted: FittedUsage, rules: SurplusRules,
           scores: Mapping[str, float], tags: Mapping[str, str]) -> Path:
    about = {"training": {**tags, "from_s": grid.start_s, "to_s": grid.start_s + grid.step_s * grid.cpu.shape[1],
                          "n_requests": len(grid)},
             "surplus_rules": {resource: list(rules[resource]) for resource in fitted.classes},
             "metrics": {name: value for name, value in scores.items() if value == value}}
    files = usage_files(grid.clock, config.observed_s, fitted.classes, fitted.waves.request_ids,
                        fitted.waves.rows, about)
    folder = candidate_folder(config.store, config.registered_name, run)
    publish_files(folder, files, MANIFEST)
    load_usage(folder)
    return folder


def _log(tracker: Tracker, run: str, config: TrainUsageConfig, folder: Path, sha256: str, fitted: FittedUsage,
         scores: Mapping[str, float], report: str) -> str:
    """Log both kinds, then the section; returns its URI. BundleError if the server's bytes differ."""
    kinds = {"n_classes": len(fitted.classes["cpu"]), "n_waves": len(fitted.waves.request_ids),
             "n_waves_with_period": int(fitted.waves.is_confirmed.sum())}
    tracker.log(run, config.resolved(), {**scores, **kinds})
    tracker.log_text(run, report, "read-report.txt")
    tracker.log_figure(run, period_figure(fitted.waves.fits, config.usage_trace.name), "figures/periods.png")
    tracker.log_figure(run, class_figure(fitted.classes, config.usage_trace.name), "figures/classes.png")
    source = tracker.log_folder(run, folder)
    with TemporaryDirectory(prefix=".fetch.", dir=config.store) as fetched:
        BundleBytes.read(tracker.download(source, Path(fetched), f"run {run}")).check(sha256, f"run {run}")
    tracker.tag(run, BUNDLE_TAG, sha256)
    return source


def _served(rules: SurplusRules) -> list[str]:
    """The rules, a line a resource: `surplus of cpu: classes after 3 h, hours after 6 h, ...`."""
    return [f"surplus of {resource}: " + ", ".join(f"{rule} after {seen_s // 3600} h" for rule, seen_s in
                                                   zip(each, SEEN_S, strict=True)) for resource, each in rules.items()]


def _card(config: TrainUsageConfig, rules: SurplusRules, scores: Mapping[str, float]) -> str:
    lines = [f"Usage section of {config.usage_trace.name}: pulse waves of requests and workload classes.\n\n"]
    lines += [f"- {line}\n" for line in _served(rules)]
    lines += [f"- {name}: {value:.4g}\n" for name, value in scores.items() if value == value]
    return "".join([*lines, "\n"])


@dataclass(frozen=True, slots=True)
class ReadingOrder:
    """One item of a task for a worker. code: the sender's `reading_code`."""

    task: Callable[[Any], Any]
    item: Any
    code: str


def reading_code() -> str:
    """sha256 hex of the code that decides a store's bytes, with the libraries' versions."""
    return source_hash("features")


def done(order: ReadingOrder) -> Any:
    """The task's result for the item; ValueError if this process has other code."""
    check_same_code(reading_code(), order.code)
    return order.task(order.item)


def shared_over(workers: Sequence[NewWorker], task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """The task's result for each item, in their order; raises the error of the first failed one."""
    work = {place: ReadingOrder(task, item, reading_code()) for place, item in enumerate(items)}
    place_of = {id(order): place for place, order in work.items()}
    results: dict[int, Any] = {}
    failed: dict[int, Exception] = {}
    for order, outcome in run_grouped([[each] for each in work.values()], done, workers):
        (failed if isinstance(outcome, Exception) else results)[place_of[id(order)]] = outcome
    for place in sorted(failed)[:1]:
        error = failed[place]
        if isinstance(error, ValueError | OSError):
            raise error
        raise RuntimeError(f"series could not be read: {type(error).__name__}: {error}") from error
    return [results[place] for place in range(len(items))]


def stored_usage(stream: UsageStream, source: UsageSource, dask: str | None, folder: Path,
                 progress: Callable[[int, int], None] | None = None) -> UsageStore:
    """The stream's store in `folder`, read by the workers of the scheduler at `dask`, or here.

    The workers must see the trace and the folder under the same paths.
    """
    if dask is None:
        return store_usage(stream, folder, progress=progress)
    with workers_of(dask) as workers:
        shared = SharedReading(source, lambda task, items: shared_over(workers, task, items))
        return store_usage(stream, folder, progress=progress, shared=shared)


@dataclass(frozen=True, slots=True)
class ServedWaves:
    """Waves of the requests that run at a grid's end, in local time (`UsageGrid.on_local_clock`).

    rows: float64 (m, 20): expected use, then its upper level. is_confirmed: bool (m,), whether the
    wave has a period. fits: of all requests of the grid with the paper's levels, for the figures.
    """

    request_ids: list[str]
    rows: np.ndarray
    is_confirmed: np.ndarray
    fits: WaveFits


def served_waves(grid: UsageGrid, n_threads: int = 1) -> ServedWaves:
    """The waves of a grid.

    Expected use has mean levels, the upper level has p95 and p5 (`PeriodicitySettings`). A wave is
    fitted without the last day; if it is nearer to that day than a constant, the period is
    confirmed. Else the request is served as aperiodic: its mean is the expected use, the peak of
    its fit the upper level. Fits are in local time: daylight saving does not move a peak.
    """
    grid = grid.on_local_clock()
    upper, means = fit_waves(grid, n_threads=n_threads), fit_waves(grid, MEANS, n_threads=n_threads)
    is_confirmed = upper.is_periodic & _confirmed(grid, n_threads)
    n_last = max(1, _RUNNING_S // grid.step_s)
    runs = np.flatnonzero((~np.isnan(grid.cpu[:, -n_last:])).any(axis=1) & np.isfinite(upper.peak))
    is_periodic = is_confirmed[runs]
    constant = np.nanmean(grid.cpu[runs].astype(np.float64), axis=1) if len(runs) else np.empty(0)
    rows = np.hstack([_rows(means, runs, is_periodic, constant), _rows(upper, runs, is_periodic, upper.peak[runs])])
    return ServedWaves([str(name) for name in grid.request_ids[runs].tolist()], rows, is_periodic, upper)


def judge_waves(grid: UsageGrid, n_threads: int = 1) -> dict[str, float]:
    """Scores of served waves on the last day, which they have not seen; {} for under three days.

    `wave.next_day.nrmse.*`: medians over the requests whose period was confirmed on the day before, of the wave at mean
    levels, a constant mean and, if there is one, the week before. NRMSE is the root mean squared error over the range
    of the days before (`next_day_errors`). `wave.next_day.ratio`: geometric mean of wave over constant, below 1 = the
    wave is nearer. `wave.share_periodic`, `wave.share_confirmed`: of all requests.
    """
    grid = grid.on_local_clock()
    last_day_s = grid.start_s + grid.cpu.shape[1] * grid.step_s - DAY_S
    if last_day_s < grid.start_s + 2 * DAY_S:
        return {}
    errors = next_day_errors(grid, last_day_s, MEANS, n_threads=n_threads)
    before = replace(grid, cpu=grid.cpu[:, :-(DAY_S // grid.step_s)], mem=None)
    is_confirmed = errors.is_periodic & _confirmed(before, n_threads)
    scores = {"wave.share_periodic": float(errors.is_periodic.mean()),
              "wave.share_confirmed": float(is_confirmed.mean())}
    is_judged = is_confirmed & (errors.wave > 0.0) & (errors.constant > 0.0)
    if not is_judged.any():
        return scores
    wave, constant, week = (each[is_judged] for each in (errors.wave, errors.constant, errors.last_week))
    scores |= {"wave.next_day.nrmse.wave": float(np.median(wave)),
               "wave.next_day.nrmse.mean": float(np.median(constant)),
               "wave.next_day.ratio": float(np.exp(np.log(wave / constant).mean()))}
    if np.isfinite(week).any():
        scores["wave.next_day.nrmse.week_before"] = float(np.nanmedian(week))
    return scores


def _confirmed(grid: UsageGrid, n_threads: int) -> np.ndarray:
    """bool (n,): without the last day there is a period, nearer to that day than the mean."""
    last_day_s = grid.start_s + grid.cpu.shape[1] * grid.step_s - DAY_S
    if last_day_s <= grid.start_s:
        return np.zeros(len(grid), bool)
    errors = next_day_errors(grid, last_day_s, MEANS, n_threads=n_threads)
    return errors.is_periodic & (errors.wave < errors.constant)


def _rows(fits: WaveFits, rows: np.ndarray, is_periodic: np.ndarray, level: np.ndarray) -> np.ndarray:
    """The waves of some rows as in a section, float64 (m, 10); aperiodic ones are at `level`."""
    first = np.stack([getattr(fits, name)[rows] for name in WAVE_COLUMNS], axis=1)
    aperiodic = np.stack([level, level, np.full(len(rows), np.inf), np.zeros(len(rows)), np.full(len(rows), 0.5)],
                         axis=1)
    first = np.where(is_periodic[:, None], first, aperiodic)
    second = np.full_like(first, np.nan)
    if fits.second is not None:
        has = is_periodic & fits.second.is_periodic[rows]
        second[has] = np.stack([getattr(fits.second, name)[rows[has]] for name in WAVE_COLUMNS], axis=1)
    return np.hstack([first, second])


@dataclass(frozen=True, slots=True)
class FittedUsage:
    """The section's parts: classes by resource, and waves."""

    classes: Mapping[str, WorkloadClasses]
    waves: ServedWaves


def choose_rules(grid: UsageGrid, n_classes: int, seed: int) -> SurplusRules:
    """The surplus at each length of observation: the class-free one, unless that of classes wins.

    The days before the two judged ones are cut in two halves. Classes of four fifths of the
    requests, learnt in the first half, predict the other fifth in the second half. Classes win if
    they leave less work under-served than the class-free surplus of the same over-reservation, at
    the upper end of a 95 % interval over requests. Below four such days all is class-free.
    """
    rules = {}
    for resource in _resources(grid):
        maxima = slot_maxima(grid, resource)
        known = maxima.before(max(maxima.n_days - _N_DAYS_JUDGED, 1) * N_SLOTS)
        n_later = max(known.n_days // 2, _N_DAYS_JUDGED)
        first = known.n_days - n_later
        judged: list[_Case] = []
        if first >= _N_DAYS_MIN - _N_DAYS_JUDGED:
            starts = [day * N_SLOTS + later for day in range(first, known.n_days - 1) for later in _STARTS]
            step = -(-len(starts) // _N_STARTS_MAX) | 1  # odd, so that every time of the day is among them
            judged = _newcomers(known, first * N_SLOTS, starts[::step], n_classes, seed)
        rules[resource] = tuple(CLASSES if judged and judge_newcomers(judged, seen_s // 3600).worst_ratio(
            "combined", "hours") < 1.0 - _ROUNDING else BY_HOURS for seen_s in SEEN_S)
    return rules


def fit_usage(grid: UsageGrid, rules: SurplusRules, n_classes: int, seed: int, n_threads: int = 1) -> FittedUsage:
    """Classes and waves of the whole grid, with the surplus by `rules`; ValueError without days."""
    classes = {}
    for resource in _resources(grid):
        model = fit_classes(slot_maxima(grid, resource), n_classes=n_classes, seed=seed)
        if model is not None:
            classes[resource] = model.by(rules[resource]).classes
    if "cpu" not in classes:
        raise ValueError("the series must hold a request whose day was seen (nine tenths of its slots), got none")
    return FittedUsage(classes, served_waves(grid, n_threads))


def judge_usage(grid: UsageGrid, rules: SurplusRules, n_classes: int, seed: int,
                n_threads: int = 1) -> dict[str, float]:
    """Scores on the last days, which the judged models have not seen; none for a short grid.

    `wave.*`: see `judge_waves`. `class.*h.*`: under-served work and over-reservation of each
    method; `combined` is the surplus by `rules`. Requests are in five parts. Classes of four parts,
    learnt before the last two days, predict newcomers of the fifth from the last day but one.
    """
    maxima = slot_maxima(grid)
    scores = judge_waves(grid, n_threads)
    if maxima.n_days < _N_DAYS_MIN:
        return scores
    start = (maxima.n_days - _N_DAYS_JUDGED) * N_SLOTS
    judged = [(model.by(rules["cpu"]), newcomers, begin) for model, newcomers, begin in _newcomers(
        maxima, start, [start + later for later in _STARTS], n_classes, seed)]
    for hours in HOURS if judged else ():
        cases = judge_newcomers(judged, hours)
        for method in cases.under:
            scores[f"class.{hours}h.under_served.{method}"] = cases.under_served(method)
            scores[f"class.{hours}h.over_reserved.{method}"] = cases.over_reserved(method)
        scores[f"class.{hours}h.worst_ratio_to_margin"] = cases.worst_ratio("combined", "margin")
    return scores


def usage_gates(scores: Mapping[str, float]) -> tuple[Gate, ...]:
    """A section is promoted if it leaves clearly less work under-served than one margin for all.

    The margin is the simplest rival: the request's own maximum and one share for all requests after
    the same hours, of the same over-reservation. Before 12 h the margin must lose by MUST_WIN at
    the upper end of the 95 % interval over requests, and by GAIN_MIN of all work; at 12 h it must
    not win. From 24 h on both are the own maximum, so that no gate could fail.
    """
    gates = []
    for hours in GATED_HOURS:
        served = scores.get(f"class.{hours}h.under_served.combined", np.nan)
        margin = scores.get(f"class.{hours}h.under_served.margin", np.nan)
        worst = scores.get(f"class.{hours}h.worst_ratio_to_margin", np.nan)
        if hours < 12:
            is_passed = worst <= 1.0 - MUST_WIN and served <= margin - GAIN_MIN
            rule = f"{100 * MUST_WIN:g} % and {100 * GAIN_MIN:g} points below"
        else:
            is_passed, rule = served <= margin + _ROUNDING, "at most"
        text = (f"{100 * served:.2f} % of work under-served, {rule} the {100 * margin:.2f} % of one margin for all "
                f"(ratio at most {worst:.2f})")
        if np.isnan(served) or np.isnan(margin) or np.isnan(worst):
            is_passed = False
            text = f"not judged: the series must cover {_N_DAYS_MIN} days, and requests {hours} h of the last two"
        gates.append(Gate(f"under-served after {hours} h", bool(is_passed), text))
    return tuple(gates)


def _newcomers(maxima: SlotMaxima, learnt_until: int, starts: Iterable[int], n_classes: int, seed: int) -> list[_Case]:
    """Classes of four fifths learnt before a column, the last fifth, and its first columns."""
    part = np.arange(len(maxima)) % N_FOLDS
    judged = []
    for fold in range(N_FOLDS):
        others, mine = np.flatnonzero(part != fold), np.flatnonzero(part == fold)
        model = None
        if len(others) and len(mine):
            model = fit_classes(maxima.before(learnt_until, others), n_classes=n_classes, seed=seed)
        if model is not None:
            newcomers = SlotMaxima(maxima.request_ids[mine], maxima.highest[mine], maxima.mean[mine], maxima.first_slot)
            judged += [(model, newcomers, start) for start in starts]
    return judged


def _resources(grid: UsageGrid) -> tuple[str, ...]:
    return ("cpu",) if grid.mem is None else ("cpu", "mem")
