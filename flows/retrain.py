"""The main job: ingest, build features, train, evaluate with simulation, promote."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sojourn.flows.environment import be_quiet

be_quiet()

from prefect import flow  # noqa: E402  (its settings are read on import)

from sojourn import __version__  # noqa: E402
from sojourn.features.creation import FeatureRows, build_rows  # noqa: E402
from sojourn.features.split import Examples  # noqa: E402
from sojourn.features.trace import Trace  # noqa: E402
from sojourn.flows.build_features import build_features  # noqa: E402
from sojourn.flows.config import RetrainConfig  # noqa: E402
from sojourn.flows.evaluate import LOOKUP, Evaluation, ServedModel, evaluate, simulation_scores  # noqa: E402
from sojourn.flows.figures import accuracy_figure, importance_figure, overview_figure, shap_figure  # noqa: E402
from sojourn.flows.ingest import Ingested, content_hash, ingest  # noqa: E402
from sojourn.flows.progress import console, stage  # noqa: E402
from sojourn.flows.promote import (  # noqa: E402
    Gate,
    Promotion,
    accuracy_gate,
    latency_gate,
    parity_gate,
    promote,
    simulation_gates,
    size_gate,
)
from sojourn.flows.report import model_card, models_table, policies_table, print_run  # noqa: E402
from sojourn.flows.tracking import CHAMPION, Tracker  # noqa: E402
from sojourn.flows.train import Trained, Training, train  # noqa: E402
from sojourn.models.bundle_table import table_of  # noqa: E402
from sojourn.models.bundle_writer import write_bundle  # noqa: E402
from sojourn.models.explain import background_rows, mean_abs_shap, n_shap_rows, shap_rows  # noqa: E402
from sojourn.models.lifetime import Exported  # noqa: E402
from sojourn.serving.bundle import Bundle, load_bundle, varying_names  # noqa: E402
from sojourn.serving.curve_builder import CurveBuilder  # noqa: E402
from sojourn.serving.encoder import Encoder  # noqa: E402
from sojourn.serving.errors import BundleError  # noqa: E402
from sojourn.serving.history import HistoryState  # noqa: E402

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Retrained:
    """What a run leaves: the candidate's bundle folder, the promotion, and the evaluation.

    bundle: in `bundles`, which a scheduler loads and only a champion enters, or in `candidates`.
    """

    bundle: Path
    promotion: Promotion
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class Champion:
    """The registered champion and the test rows as its own encoder sees them."""

    version: int
    bundle: Bundle
    builder: CurveBuilder
    rows: FeatureRows
    encoder: Encoder


@flow(name="retrain", log_prints=False)
def retrain(config: RetrainConfig) -> Retrained:
    """Train on the earlier part of a trace, judge on the later part, and promote what passes every gate."""
    ingested = ingest(config)
    trace, encoder, rows, history = build_features(config, ingested)
    training = train(config, encoder, rows)
    with stage("open MLflow"):
        tracker = Tracker(config.mlflow_uri, config.store / "artifacts")
        champion, champion_reason = _champion(config, tracker, trace, encoder, rows)
    candidate = training.of(training.candidate)
    bundle_folder = _write(config, "candidates", ingested, encoder, history, training, trace.horizon_s)
    bundle = load_bundle(bundle_folder)
    builder = CurveBuilder(bundle.schema, bundle.model)
    served = [ServedModel(candidate.family, bundle.schema, builder.forest)]
    if champion is not None:
        label = f"champion v{champion.version}"
        served.append(ServedModel(label, champion.bundle.schema, champion.builder.forest, champion.rows))
    evaluation = evaluate(config, trace, rows, training, tuple(served))
    with stage("check and promote"):
        gates = _gates(config, encoder, training, evaluation, bundle, builder, champion, champion_reason)
        promotion = _log_and_promote(config, tracker, ingested, encoder, training, evaluation, gates, bundle_folder)
        if promotion.alias == CHAMPION:
            bundle_folder = _write(config, "bundles", ingested, encoder, history, training, trace.horizon_s)
    tables = [models_table(evaluation.scores, training.threshold_s, training.candidate, promotion.alias)]
    if evaluation.simulation is not None and evaluation.workload is not None:
        tables.append(policies_table(evaluation.simulation.table, evaluation.workload.description))
    print_run(console, tables, promotion, str(bundle_folder), f"sojourn ui --store {config.store}")
    return Retrained(bundle_folder, promotion, evaluation)


def _champion(config: RetrainConfig, tracker: Tracker, trace: Trace, encoder: Encoder,
              rows: FeatureRows) -> tuple[Champion | None, str]:
    """The champion ready for comparison; or None and why it cannot be compared ("" = there is none)."""
    version = tracker.version_of(config.registered_name, CHAMPION)
    if version is None:
        return None, ""
    folder = config.store / "champions" / f"{config.registered_name}-{version}"
    try:
        bundle = load_bundle(tracker.fetch(config.registered_name, version, folder))
    except (BundleError, OSError) as error:
        return None, f"version {version} cannot be loaded: {error}"
    own = bundle.schema.encoder
    missing = [column for column in own.columns() if column not in trace.requests]
    if missing:
        return None, f"version {version} reads the column {missing[0]!r}, which this trace lacks"
    try:
        own_rows = rows if own == encoder else build_rows(trace, own)
    except ValueError as error:  # a column of another type under the same name
        return None, f"version {version} does not read this trace: {error}"
    return Champion(version, bundle, CurveBuilder(bundle.schema, bundle.model), own_rows, own), ""


def _write(config: RetrainConfig, shelf: str, ingested: Ingested, encoder: Encoder, history: HistoryState,
           training: Training, horizon_s: int) -> Path:
    """Write the candidate's bundle to a shelf of the store: `candidates` before the gates, `bundles` after them."""
    candidate = training.of(training.candidate)
    exported = candidate.model.export()
    if exported is None:
        raise ValueError(f"the candidate must be servable, got {candidate.family}")
    split = training.split
    about = {
        "training": {
            "trace": ingested.name, "data_hash": ingested.data_hash, "content_hash": content_hash(config),
            "to_s": split.test_from_s, "n_requests": len(split.past), "history_to_s": horizon_s,
            "threshold_s": training.threshold_s,
        },
        "metrics": candidate.validation,
        "background": background_rows(candidate.model, split.past),
        "code_version": __version__,
    }  # fmt: skip
    folder = config.store / shelf / config.registered_name
    return write_bundle(folder, candidate.family, exported, encoder, history, about)


def _gates(config: RetrainConfig, encoder: Encoder, training: Training, evaluation: Evaluation, bundle: Bundle,
           builder: CurveBuilder, champion: Champion | None, champion_reason: str) -> tuple[Gate, ...]:
    candidate = training.of(training.candidate)
    test = training.split.test
    rows = test.features
    if bundle.schema.kind == "hazard":
        rows = bundle.schema.age_features.rows(rows, np.arange(len(test)) % len(bundle.schema.offsets))
    elif bundle.schema.kind == "uptime":
        rows = np.column_stack([rows, np.floor(test.lifetime_s / 2.0)])
    text = candidate.model.boosted_.text  # type: ignore[attr-defined]
    gates = [
        parity_gate(text, builder.forest, rows, config.seed),
        size_gate(config, len(bundle.model)),
        latency_gate(config, builder, test.features),
    ]
    if champion_reason:
        gates.append(Gate("comparison with the champion", False, champion_reason))
    other, table = LOOKUP, evaluation.tables[LOOKUP]
    if champion is not None:
        other = f"champion v{champion.version}"
        test_rows = champion.rows.features[test.idx_row]
        table = table_of(champion.bundle.schema, champion.builder.forest, test_rows)
    owners = [test.keys[idx] for idx, key in enumerate(encoder.history.keys) if key.kind == "owner"]
    gates.append(accuracy_gate(evaluation.tables[candidate.family], table, other, test, owners, config.seed))
    gates += simulation_gates(evaluation.simulation, candidate.family, other)
    return tuple(gates)


def _log_and_promote(config: RetrainConfig, tracker: Tracker, ingested: Ingested, encoder: Encoder,
                     training: Training, evaluation: Evaluation, gates: tuple[Gate, ...],
                     bundle_folder: Path) -> Promotion:
    split = training.split
    window = f"decided before {split.test_from_s} s, judged on the rest"
    tags = {"trace": ingested.name, "data_hash": ingested.data_hash[:12], "window": window,
            "family": training.candidate, "code_version": __version__}
    run = tracker.start(f"retrain {ingested.name}", tags)
    status = "FAILED"
    try:
        for trained in training.families:
            child = tracker.start(trained.family, {**tags, "family": trained.family}, run)
            scores = evaluation.scores[trained.family]
            valid = {f"valid.{name}": value for name, value in trained.validation.items()}
            fitted = {"fit_s": trained.fit_s, "clipped_share": getattr(trained.model, "clipped_share_", math.nan)}
            tracker.log(child, {"family": trained.family}, {**scores, **valid, **fitted})
            gains = trained.model.gains()
            if gains is not None:
                exported = trained.model.export()
                names = encoder.feature_names()
                if exported is not None:
                    names = (*names, *varying_names(exported.kind, encoder, exported.age_features))
                tracker.log_figure(child, importance_figure(names, gains.tolist(), trained.family), "importance.png")
                if exported is not None and trained.family == training.candidate:
                    tracker.log_figure(child, _shap_figure(config, trained, exported, names, split.test), "shap.png")
            tracker.end(child)
        scores = {**evaluation.scores[training.candidate],
                  **simulation_scores(evaluation.simulation, training.candidate)}
        split_params = {"family": training.candidate, "valid_from_s": split.valid_from_s,
                        "test_from_s": split.test_from_s, "n_past": len(split.past), "n_test": len(split.test),
                        "threshold_s": training.threshold_s}
        tracker.log(run, {**config.resolved(), **split_params}, _headline(scores))
        tracker.log_figure(run, accuracy_figure(evaluation.scores, training.threshold_s), "accuracy.png")
        if evaluation.simulation is not None:
            overview = overview_figure(evaluation.scores, evaluation.simulation.table,
                                       f"{ingested.name}: judged on the later {config.test_share:.0%} of requests")
            tracker.log_figure(run, overview, "overview.png")
            overview.savefig(config.store / "overview.png", dpi=110)
            tracker.log_text(run, evaluation.simulation.table.to_csv(index=False), "simulation.csv")
        tracker.log_text(run, ingested.report, "read-report.txt")
        n_features = load_bundle(bundle_folder).schema.n_features
        source = tracker.log_bundle(run, bundle_folder, n_features)
        lines = "\n".join(f"- {'passed' if gate.is_passed else '**failed**'} {gate.name}: {gate.found}"
                          for gate in gates)
        card = model_card(training.candidate, ingested.name, window, scores, lines)
        promotion = promote(tracker, config.registered_name, source, run, card, tags, gates)
        status = "FINISHED"
        return promotion
    finally:
        with contextlib.suppress(Exception):
            tracker.end(run, status)


def _shap_figure(config: RetrainConfig, trained: Trained, exported: Exported, names: Sequence[str],
                 test: Examples) -> Figure:
    rows = shap_rows(exported, test, n_shap_rows(exported), config.seed)
    text = trained.model.boosted_.text  # type: ignore[attr-defined]
    means = mean_abs_shap(text, rows, config.n_threads)
    unit = "log-odds of ending" if exported.kind == "hazard" else "log10 s"
    return shap_figure(names, means.tolist(), trained.family, len(rows), unit)


def _headline(scores: dict[str, float]) -> dict[str, float]:
    """What versions are compared by in the MLflow UI: accuracy beside the simulator's pp; all else is in the
    families' own runs."""
    kept = ("creation.ap_", "creation.mae_", "age_", "sim.")
    return {name: value for name, value in scores.items()
            if name.startswith(kept) and name.split(".")[-1].startswith(("ap_", "mae_", "gain_pp", "empty_hosts"))}
