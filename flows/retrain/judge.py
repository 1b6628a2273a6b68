"""The stage `judge`: the candidate's bundle, rivals, measures on the test window, the simulation.

The bundle is written once, into a folder of its run, and then identified by its hash. If a part of
the trace is used for training, the candidate is also scored on the whole test window, by partition.

Rivals are the champion, and the best version so far if that is another. A version that is worse than the champion by
less than a margin may follow it. Week after week such steps would add up. So each version names, in its tags, the most
accurate version so far and the one with the best placement. A later one takes that place only if it is shown to be
better, and every candidate is compared with those, too. So a champion loses at most one margin against the best.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from prefect import task

from sojourn import __version__
from sojourn.features.creation import build_rows
from sojourn.features.later_file import LATER_FROM
from sojourn.features.split import known_at
from sojourn.flows.console import Report, console, stage, tell_doubts
from sojourn.flows.placement.predictors import TableSource, asked_rows
from sojourn.flows.placement.workloads import Replicated, compare_replicas, later_workload, t_half_width, with_more
from sojourn.flows.retrain.features import Features, Sample, read_rows, workers_of
from sojourn.flows.retrain.gate import DEPLOYABLE, MARGIN_PP, judged_pairs
from sojourn.flows.retrain.ingest import Ingested
from sojourn.flows.retrain.train import Trained, Training, reread
from sojourn.flows.settings.retrain import PlacementSettings
from sojourn.flows.tracking.tracker import CHAMPION, Tracker
from sojourn.flows.versions.promotion import CANDIDATES, BundleBytes, fetched
from sojourn.flows.workers.dask import run_grouped
from sojourn.models.bundle_writer import given_shares, training_reference, write_bundle
from sojourn.models.importance import background_rows
from sojourn.models.lifetime import AgeGain
from sojourn.models.measures import BrierOverAges, parts_by_age, score_model
from sojourn.models.served_curves import ServedCurves
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import Bundle, load_bundle
from sojourn.serving.errors import BundleError
from sojourn.simulator import KNOWN_POLICIES, LifetimeSource, OneShot, Oracle, Workload
from sojourn.simulator.engine import missing_ahead
from sojourn.simulator.experiments import RIVALS, Pairing

LOOKUP = "km"
"""The lookup table that a team would use without a model; a first version must be better."""
MOST_ACCURATE, BEST_PLACED = "best.accuracy", "best.placement"
"""Tags of a version: the number of the best version up to it, or `ITSELF`."""
ITSELF = "itself"
_REPLAYED = (*RIVALS, "la-binary", *DEPLOYABLE)
"""Policies of the simulation."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Test scores of each family, its Brier score over ages by row, and the simulation, or None.

    refreshed: of the candidate, held and refreshed curves at each age of the validation window.
    """

    scores: dict[str, dict[str, float]]
    briers: dict[str, BrierOverAges]
    simulation: Replicated | None
    workload: Workload | None
    refreshed: tuple[AgeGain, ...] = ()


@task(name="judge")
def judge(settings: PlacementSettings, recipe: str, features: Features, training: Training, candidate: Candidate,
          rivals: Rivals) -> Evaluation:
    """Score every family on the test window; simulate with the candidate, and its rivals in placement."""
    test = training.split.test
    scores, briers = {}, {}
    refreshed: tuple[AgeGain, ...] = ()

    def scored(trained: Trained) -> tuple[dict[str, float], BrierOverAges, tuple[AgeGain, ...]]:
        table = trained.served(test, features.rows.decided_s)
        parts = parts_by_age(table, test)
        gains = () if trained.family != training.candidate else training.refreshing.on_test(
            training.split, table, features, settings.seed)
        return score_model(table, test, training.threshold_s, parts), BrierOverAges.of_parts(parts, len(test)), gains

    with stage("score on the test window") as report, ThreadPoolExecutor(settings.n_threads) as threads:
        for done, (trained, result) in enumerate(zip(training.families, threads.map(scored, training.families),
                                                     strict=True), 1):
            report(done, len(training.families))
            scores[trained.family], briers[trained.family] = result[:2]
            refreshed = result[2] or refreshed
    if not settings.simulate:
        return Evaluation(scores, briers, None, None, refreshed)
    curves = {training.candidate: ServedCurves(candidate.bundle, features.rows, training.split.test_from_s),
              **{rival.label: rival.curves for rival in rivals.versions if rival.is_in_placement}}
    with stage("simulate placement") as report:
        workload = later_workload(recipe, settings, features.trace,
                                  int(features.trace.meta.get(LATER_FROM, training.split.test_from_s)))
        tell_doubts(workload.doubts())
        replicated = _simulate(settings, workload, features, training, curves, report)
    return Evaluation(scores, briers, replicated, workload, refreshed)


@contextmanager
def loops_ahead(settings: PlacementSettings, features: Features) -> Iterator[None]:
    """The loops of the simulation are compiled meanwhile by a process beside this one; the block ends with it.

    Only what no process has compiled yet: on a new machine that takes longer than the training. If it fails, the
    simulation compiles them itself.
    """
    n_resources = len(features.trace.resources)
    is_asked = settings.simulate and settings.n_threads > 1
    missing = missing_ahead([KNOWN_POLICIES[name] for name in _REPLAYED], n_resources) if is_asked else []
    if not missing:
        yield
        return
    code = ("from sojourn.simulator import KNOWN_POLICIES; from sojourn.simulator.engine import compile_ahead; "
            f"compile_ahead([KNOWN_POLICIES[name] for name in {missing!r}], {n_resources})")
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        try:
            yield
            with stage("compile the simulation"):
                process.wait()
        finally:
            process.kill()


def _simulate(settings: PlacementSettings, workload: Workload, features: Features,
              training: Training, curves: Mapping[str, ServedCurves], report: Report) -> Replicated:
    """curves: by label, those of the candidate first."""
    sources: dict[str, LifetimeSource] = {}
    shared = asked_rows(workload, features.trace, features.rows)
    candidate = next(iter(curves))
    for label, served in curves.items():
        requests = shared if served.rows is features.rows else asked_rows(workload, features.trace, served.rows)
        sources[label] = TableSource(served.at(requests.rows.idx_row), requests.request_ids, idx=requests.idx)
    if LOOKUP not in sources:
        sources[LOOKUP] = TableSource(training.of(LOOKUP).model.curve_table(shared.rows), shared.request_ids,
                                      idx=shared.idx)
    first_answer = OneShot(sources[candidate], is_distribution_kept=False)  # nilas and la-binary read only totals

    def pairings(moved: Workload) -> list[Pairing]:
        oracle = Oracle(moved)
        return [
            *((policy, "", None) for policy in RIVALS),
            ("la-binary", f"{candidate}, one-shot", first_answer),
            ("nilas", f"{candidate}, one-shot", first_answer),
            *(("nilas", label, source) for label, source in sources.items()),
            *(("nilas-expected", label, source) for label, source in sources.items()),
            *(("joint-fit", label, source) for label, source in sources.items()),
            ("la-binary", "oracle", oracle),
            ("nilas", "oracle", oracle),
        ]

    first = compare_replicas(workload, pairings, settings.n_replicas, report, settings.n_threads)
    others = list(curves)[1:] or [LOOKUP]
    pairs = judged_pairs(first, candidate, [label for label in others if label != candidate])
    return with_more(first, workload, pairings, pairs, MARGIN_PP / 2.0, settings.max_replicas, report)


def simulation_scores(evaluation: Evaluation, label: str) -> dict[str, float]:
    """The simulation's figures of one model, by name, for MLflow: `sim.*`, in pp or %."""
    simulation, workload = evaluation.simulation, evaluation.workload
    if simulation is None or workload is None:
        return {}
    left_out = workload.left_out
    scores = {"sim.left_out_requests_pct": 100.0 * left_out.request_share,
              "sim.left_out_core_hours_pct": 100.0 * left_out.core_hour_share,
              "sim.n_replicas": float(simulation.table["n_seeds"].iloc[0]),
              "sim.n_replicas_of_gates": float(len(simulation.gain_pp))}
    for cell, name in (
        ("best-fit", "best_fit"), (f"nilas ({label})", "nilas"), (f"nilas ({label}, one-shot)", "nilas_one_shot"),
        (f"nilas-expected ({label})", "nilas_expected"), (f"joint-fit ({label})", "joint_fit"),
        (f"la-binary ({label}, one-shot)", "la_binary"), (f"nilas ({LOOKUP})", "nilas_km"),
        (f"nilas-expected ({LOOKUP})", "nilas_expected_km"), (f"joint-fit ({LOOKUP})", "joint_fit_km"),
        ("nilas (oracle)", "nilas_oracle"),
    ):  # fmt: skip
        for measure in ("empty_hosts_pct", "gain_pp"):
            scores[f"sim.{name}.{measure}"] = float(simulation.table[measure].loc[cell])
    return scores


@dataclass(frozen=True, slots=True)
class WholeWindow:
    """Brier score over ages on all test requests, with a 95 % interval over partitions, each of other owners."""

    n_test: int
    ibs: float
    low: float
    high: float

    def scores(self) -> dict[str, float]:
        """By name, for MLflow."""
        return {"whole.ages.ibs": self.ibs, "whole.ages.ibs.low": self.low, "whole.ages.ibs.high": self.high,
                "whole.n_test": float(self.n_test)}

    def text(self) -> str:
        """One sentence for output and model card."""
        return (f"On all {self.n_test:,} requests of the test window: Brier score over ages {self.ibs:.4f} "
                f"({self.low:.4f} to {self.high:.4f}, 95 %, over partitions by owner).")


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """One partition's work: the file of its rows, and the folder of the bundle."""

    rows: Path
    bundle: Path
    test_from_s: int


def score_whole(sample: Sample, bundle: Path, test_from_s: int, dask: str | None) -> WholeWindow:
    """The score of a bundle on all requests from `test_from_s` on; RuntimeError if a worker fails.

    Weights of censoring are computed within each partition.
    """
    work = [[PartitionWork(file.resolve(), bundle.resolve(), test_from_s)] for file in sample.files]
    parts: list[tuple[float, float, int]] = []
    with stage("score on all of the test window") as report, workers_of(dask) as workers:
        for done, (item, outcome) in enumerate(run_grouped(work, score_partition, workers), 1):
            report(done, len(work))
            if isinstance(outcome, Exception):
                raise RuntimeError(f"{item.rows.name} could not be scored: {type(outcome).__name__}: {outcome}")
            parts.append(outcome)
    whole = whole_window(sorted(parts))
    console.print(whole.text())
    return whole


def score_partition(work: PartitionWork) -> tuple[float, float, int]:
    """Of a partition's test requests: sum of scores, number of evaluations, number of requests."""
    rows = read_rows(work.rows)
    test = known_at(rows, rows.decided_s >= work.test_from_s, None)
    bundle = load_bundle(work.bundle)
    curves = ServedCurves(bundle, rows, int(bundle.schema.training.get("to_s", work.test_from_s)))
    brier = BrierOverAges.of(curves.at(test.idx_row), test)
    return float(brier.added.sum()), float(brier.n_asked.sum()), len(test)


def whole_window(parts: list[tuple[float, float, int]]) -> WholeWindow:
    """The ratio of the sums, with a jackknife interval over the parts.

    >>> window = whole_window([(1.0, 10.0, 4), (3.0, 10.0, 4)])
    >>> window.n_test, window.ibs
    (8, 0.2)
    """
    added, n_asked, n_test = (np.array(column, np.float64) for column in zip(*parts, strict=True))
    ibs = added.sum() / n_asked.sum()
    n = len(parts)
    without = (added.sum() - added) / (n_asked.sum() - n_asked) if n > 1 else np.array([np.nan])
    half = float(t_half_width((n * ibs - (n - 1) * without)[:, None])[0])
    return WholeWindow(int(n_test.sum()), float(ibs), float(ibs - half), float(ibs + half))


@dataclass(frozen=True, slots=True)
class Candidate:
    """The candidate. bundle: as loaded; builder: of its curves; sha256: of its manifest."""

    folder: Path
    bundle: Bundle
    builder: CurveBuilder
    sha256: str


def candidate_folder(store: Path, name: str, run_id: str) -> Path:
    """The folder of a run's candidate."""
    return store / CANDIDATES / name / run_id


def write_candidate(folder: Path, ingested: Ingested, content_hash: str, features: Features,
                    training: Training) -> Candidate:
    """Write the candidate's bundle into a folder, its run's, and load it as a scheduler would.

    content_hash: of the trace, see `flows.retrain.ingest.content_hash`.
    """
    candidate = training.of(training.candidate)
    exported = candidate.model.export()
    if exported is None:
        raise ValueError(f"the candidate must be servable, got {candidate.family}")
    split = training.split
    past = features.trace.requests.iloc[features.rows.idx_request[split.past.idx_row]]
    about = {
        "training": {
            "trace": ingested.name, "data_hash": ingested.data_hash, "content_hash": content_hash,
            "to_s": split.test_from_s, "n_requests": len(split.past), "history_to_s": features.trace.horizon_s,
            "threshold_s": training.threshold_s,
            "given_shares": given_shares(past, features.encoder.columns()),
            **({"start_unix_s": features.trace.begin_s} if features.trace.is_dated else {}),
        },
        "metrics": candidate.validation,
        "recalibrate": candidate.recalibrated is not None,
        "background": background_rows(candidate.model, split.past, exported.encoder(features.encoder)),
        "reference": training_reference(split.past, features.encoder.feature_names()),
        "code_version": __version__,
    }  # fmt: skip
    write_bundle(folder, candidate.family, exported, features.encoder, features.history, about,
                 training.refreshing.refresh.export())
    bundle, sha256 = load_bundle(folder), BundleBytes.read(folder).sha256
    if not sha256.startswith(bundle.version):
        raise ValueError(f"{folder} must stay as it was written, got another bundle there")
    return Candidate(folder, bundle, CurveBuilder(bundle.schema, bundle.model), sha256)


@dataclass(frozen=True, slots=True)
class Rival:
    """A registered version to compare with: its bundle's curves of the trace's rows by its encoder.

    is_in_accuracy, is_in_placement: whether these gates compare it.
    """

    label: str
    version: int
    curves: ServedCurves
    is_in_accuracy: bool = True
    is_in_placement: bool = True


@dataclass(frozen=True, slots=True)
class Rivals:
    """The champion first, then the best so far; reason: why a version cannot be compared, or "".

    champion: its version, None if there is none. best: the version that each tag names.
    """

    champion: int | None = None
    versions: tuple[Rival, ...] = ()
    reason: str = ""
    best: tuple[tuple[str, int], ...] = ()


def load_rivals(store: Path, name: str, tracker: Tracker, features: Features) -> Rivals:
    """The champion and the best versions so far, ready for comparison; none without a champion."""
    champion = tracker.version_of(name, CHAMPION)
    if champion is None:
        return Rivals()
    if champion not in tracker.versions(name):
        raise ValueError(f"the alias {CHAMPION} of {name} must point at a registered version, got {champion}, "
                         f"which is gone: `sojourn model rollback {name} --to VERSION --why WHY` moves it")
    tags = tracker.version_tags(name, champion)
    best = {tag: int(tags[tag]) if tags.get(tag, "").isdecimal() else champion for tag in (MOST_ACCURATE, BEST_PLACED)}
    versions, reasons = [], []
    for version in dict.fromkeys((champion, *best.values())):
        roles = (True, True) if version == champion else (best[MOST_ACCURATE] == version, best[BEST_PLACED] == version)
        label = f"champion v{version}" if version == champion else f"best so far v{version}"
        loaded = _load(store, name, tracker, features, version)
        if isinstance(loaded, str):
            reasons.append(loaded)
        else:
            versions.append(Rival(label, version, loaded, *roles))
    return Rivals(champion, tuple(versions), "; ".join(reasons), tuple(best.items()))


def _load(store: Path, name: str, tracker: Tracker, features: Features,
          version: int) -> ServedCurves | str:
    """The version's curves of the trace's rows; or why it cannot be compared."""
    try:
        with fetched(tracker, store, name, version) as folder:
            bundle = load_bundle(folder)
    except (BundleError, OSError) as error:
        return f"version {version} cannot be loaded: {error}"
    encoder = bundle.schema.encoder
    missing = [column for column in encoder.columns() if column not in features.trace.requests]
    if missing:
        return f"version {version} reads the column {missing[0]!r}, which this trace lacks"
    try:
        if replace(encoder, lookup=None) == features.encoder:
            rows = features.rows
        else:
            read = reread(features, replace(encoder, lookup=None))
            rows = build_rows(features.trace, encoder) if read is None else read
        return ServedCurves(bundle, rows, int(bundle.schema.training.get("to_s", 0)))
    except ValueError as error:  # a column of another type under the same name
        return f"version {version} does not read this trace: {error}"
