"""The main job, in five stages: ingest, build features, train, judge with simulation, promote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sojourn.flows.environment import be_quiet

be_quiet()

from sojourn.flows.config import RetrainConfig  # noqa: E402
from sojourn.flows.gates.known_at_creation import check_confirmed  # noqa: E402
from sojourn.flows.jobs.job import job  # noqa: E402  (Prefect reads its settings on import)
from sojourn.flows.jobs.retrain_log import log_retrain, retrain_tags  # noqa: E402
from sojourn.flows.outside.tracking import CHAMPION  # noqa: E402
from sojourn.flows.progress import console, stage  # noqa: E402
from sojourn.flows.reports.model_card import model_card, models_table, policies_table, print_run  # noqa: E402
from sojourn.flows.stages.build_features import build_features  # noqa: E402
from sojourn.flows.stages.candidate import write_candidate  # noqa: E402
from sojourn.flows.stages.champion import load_rivals  # noqa: E402
from sojourn.flows.stages.ingest import ingest  # noqa: E402
from sojourn.flows.stages.judge import Evaluation, judge  # noqa: E402
from sojourn.flows.stages.promote import Judged, Promotion, gate_lines, promote  # noqa: E402
from sojourn.flows.stages.promotion_gates import check_gates  # noqa: E402
from sojourn.flows.stages.train import train  # noqa: E402
from sojourn.flows.versions.opening import open_store  # noqa: E402
from sojourn.flows.versions.promotion_journal import BUNDLES  # noqa: E402


@dataclass(frozen=True, slots=True)
class Retrained:
    """What a run leaves: the candidate's bundle folder, the promotion, and the evaluation.

    bundle: in `bundles`, which a scheduler loads and only a champion enters, or in `candidates`.
    """

    bundle: Path
    promotion: Promotion
    evaluation: Evaluation


@job("retrain")
def retrain(config: RetrainConfig) -> Retrained:
    """Train on the earlier part of a trace, judge on the later part, and promote what passes every gate."""
    with stage("open the store"):
        tracker = open_store(config, (config.registered_name,))
    ingested = ingest(config.ingestion)
    features = build_features(config.store, ingested)
    check_confirmed(features.encoder, config.confirmed_columns)
    training = train(config.training, features)
    with stage("read the champion"):
        rivals = load_rivals(config.promotion, tracker, features)
    tags = retrain_tags(ingested, training)
    with tracker.run(f"retrain {ingested.name}", tags) as run:
        candidate = write_candidate(config.promotion, run, ingested, ingested.content_hash, features, training)
        evaluation = judge(config.judging, features, training, candidate, rivals)
        with stage("check and promote"):
            checked = check_gates(config.gates, features, training, evaluation, candidate, rivals)
            source, scores = log_retrain(config.logging, tracker, run, ingested, features.encoder, training, evaluation,
                                         candidate)
            judged = Judged(config.registered_name, run, source, candidate.sha256, rivals.champion, checked.gates)
            card = model_card(training.candidate, ingested.name, tags["window"], scores, gate_lines(checked.gates),
                              checked.against_lookup.get(training.candidate))
            promotion = promote(tracker, config.store, judged, card, {**tags, **checked.tags})
    bundle_folder = candidate.folder
    if promotion.alias == CHAMPION:
        bundle_folder = config.store / BUNDLES / config.registered_name
    tables = [models_table(evaluation.scores, checked.against_lookup, training.threshold_s, training.candidate,
                           promotion.alias)]
    if evaluation.simulation is not None and evaluation.workload is not None:
        tables.append(policies_table(evaluation.simulation.table, evaluation.workload.description))
    print_run(console, tables, promotion, str(bundle_folder), f"sojourn ui --store {config.store}")
    return Retrained(bundle_folder, promotion, evaluation)
