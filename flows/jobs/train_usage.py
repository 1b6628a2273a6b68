"""The job of usage in time: read series, judge waves and classes on the last days, write the usage section, promote."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from sojourn import __version__
from sojourn.features.usage import UsageGrid, UsageSource, read_usage
from sojourn.flows.jobs.job import job
from sojourn.flows.outside.mlflow_pages import USAGE
from sojourn.flows.outside.tracked_names import CHAMPION
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.progress import console, stage
from sojourn.flows.reports.class_figures import class_figure
from sojourn.flows.reports.periodicity_figures import period_figure
from sojourn.flows.settings.other_jobs import TrainUsageConfig
from sojourn.flows.stages.candidate import candidate_folder
from sojourn.flows.stages.promote import Judged, Promotion, promote
from sojourn.flows.stages.usage_by_file import stored_usage
from sojourn.flows.stages.usage_fit import FittedUsage, Rules, choose_rules, fit_usage, judge_usage, usage_gates
from sojourn.flows.versions.bundle_bytes import BUNDLE_TAG, BundleBytes
from sojourn.flows.versions.judged_on import JUDGED_TAG, JudgedOn, keyed
from sojourn.flows.versions.promotion_journal import BUNDLES
from sojourn.publishing import publish_files
from sojourn.serving.bundle import MANIFEST
from sojourn.serving.usage import SEEN_S, load_usage, usage_files


@dataclass(frozen=True, slots=True)
class TrainedUsage:
    """What a run leaves: the section's folder, the promotion, and the measures.

    section: in `bundles` where it was promoted, else in `candidates`.
    """

    section: Path
    promotion: Promotion
    scores: Mapping[str, float]


@job("train-usage", is_of_champion=True)
def train_usage(config: TrainUsageConfig, tracker: Tracker) -> TrainedUsage:
    """Choose, judge on the last days, fit on all of them, and promote the section if it beats one margin."""
    place = None if config.dask is None else config.store.resolve()  # workers see the store
    with stage("read series") as report, TemporaryDirectory(prefix=".usage.", dir=place) as folder:
        options = {"timezone": config.timezone, **config.usage_options}
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
    what = f"{config.usage_trace.name} {datetime.now(UTC):%Y-%m-%d}"
    with tracker.run(f"train-usage {what}", tags) as run, stage("check and promote"):
        folder_of_run = _write(config, run, grid, fitted, rules, scores, tags)
        sha256 = BundleBytes.read(folder_of_run).sha256
        source = _log(tracker, run, config, folder_of_run, sha256, fitted, keyed(judged_on.key, scores),
                      stream.report().text())
        judged = Judged(config.registered_name, run, source, sha256,
                        tracker.version_of(config.registered_name, CHAMPION), gates, what)
        promotion = promote(tracker, config.store, judged, _card(config, rules, scores), tags)
    section = config.store / BUNDLES / config.registered_name if promotion.alias == CHAMPION else folder_of_run
    for gate in promotion.gates:
        console.print(f"{'passed' if gate.is_passed else 'FAILED'}  {gate.name}: {gate.found}", soft_wrap=True)
    for line in _served(rules):
        console.print(f"served  {line}", soft_wrap=True)
    console.print(f"{promotion.name} version {promotion.version} is {promotion.alias}\nsection  {section}",
                  soft_wrap=True)
    for step in promotion.next_steps:
        console.print(f"next     {step}", soft_wrap=True)
    return TrainedUsage(section, promotion, scores)


def data_hash(grid: UsageGrid) -> str:
    """sha256 hex of what was read: requests, reservations and samples on the grid."""
    digest = hashlib.sha256(repr((grid.start_s, grid.step_s, grid.clock, grid.request_ids.tolist())).encode())
    for array in (grid.cpu, grid.mem, grid.cpu_cores, grid.mem_gib):
        if array is not None:
            digest.update(array.tobytes())
    return digest.hexdigest()


def _write(config: TrainUsageConfig, run: str, grid: UsageGrid, fitted: FittedUsage, rules: Rules,
           scores: Mapping[str, float], tags: Mapping[str, str]) -> Path:
    """The section in its run's folder, read back as a predictor would."""
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
    """Log both kinds and the section, the section last; returns its URI. BundleError where it is not its bytes."""
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


def _served(rules: Rules) -> list[str]:
    """Which surplus is served, a line a resource: `surplus of cpu: classes after 3 h, hours after 6 h, ...`."""
    return [f"surplus of {resource}: " + ", ".join(f"{rule} after {seen_s // 3600} h" for rule, seen_s in
                                                   zip(each, SEEN_S, strict=True)) for resource, each in rules.items()]


def _card(config: TrainUsageConfig, rules: Rules, scores: Mapping[str, float]) -> str:
    lines = [f"Usage section of {config.usage_trace.name}: pulse waves of requests and workload classes.\n\n"]
    lines += [f"- {line}\n" for line in _served(rules)]
    lines += [f"- {name}: {value:.4g}\n" for name, value in scores.items() if value == value]
    return "".join([*lines, "\n"])
