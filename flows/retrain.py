"""The main job: ingest, build features, train, evaluate with simulation, promote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sojourn.flows.environment import be_quiet

be_quiet()

from sojourn.flows.build_features import build_features  # noqa: E402
from sojourn.flows.candidate import write_candidate  # noqa: E402
from sojourn.flows.champion import load_rivals  # noqa: E402
from sojourn.flows.config import RetrainConfig  # noqa: E402
from sojourn.flows.evaluate import Evaluation, ServedModel, evaluate  # noqa: E402
from sojourn.flows.gates import judge  # noqa: E402
from sojourn.flows.ingest import ingest  # noqa: E402
from sojourn.flows.job import job  # noqa: E402  (Prefect reads its settings on import)
from sojourn.flows.known_at_creation import check_confirmed, suspects  # noqa: E402
from sojourn.flows.progress import console, stage  # noqa: E402
from sojourn.flows.promote import Judged, Promotion, gate_lines, promote  # noqa: E402
from sojourn.flows.promotion_journal import BUNDLES  # noqa: E402
from sojourn.flows.report import model_card, models_table, policies_table, print_run  # noqa: E402
from sojourn.flows.retrain_log import log_retrain, retrain_tags  # noqa: E402
from sojourn.flows.store_opening import open_store  # noqa: E402
from sojourn.flows.tracking import CHAMPION  # noqa: E402
from sojourn.flows.train import train  # noqa: E402
from sojourn.serving.curve_builder import CurveBuilder  # noqa: E402


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
    ingested = ingest(config)
    trace, encoder, rows, history = build_features(config, ingested)
    check_confirmed(encoder, config.confirmed_columns)
    training = train(config, encoder, rows)
    with stage("read the champion"):
        rivals = load_rivals(config, tracker, trace, encoder, rows)
    tags = retrain_tags(ingested, training)
    with tracker.run(f"retrain {ingested.name}", tags) as run:
        candidate = write_candidate(config, run, ingested, encoder, history, training, trace.horizon_s)
        builder = CurveBuilder(candidate.bundle.schema, candidate.bundle.model)
        served = (ServedModel(training.candidate, candidate.bundle.schema, builder.forest),
                  *(ServedModel(rival.label, rival.bundle.schema, rival.builder.forest, rival.rows)
                    for rival in rivals.found if rival.is_in_placement))
        evaluation = evaluate(config, trace, rows, training, served)
        with stage("check and promote"):
            asked = suspects(trace, encoder, rows, training.of(training.candidate).model, training.split,
                             config.confirmed_columns, config.seed)
            judgement = judge(config, encoder, training, evaluation, candidate.bundle, builder, rivals, asked)
            source, scores = log_retrain(config, tracker, run, ingested, encoder, training, evaluation, candidate)
            judged = Judged(config.registered_name, run, source, candidate.sha256, rivals.champion, judgement.gates)
            card = model_card(training.candidate, ingested.name, tags["window"], scores, gate_lines(judgement.gates),
                              judgement.against_lookup.get(training.candidate))
            promotion = promote(tracker, config.store, judged, card, {**tags, **judgement.tags})
    bundle_folder = candidate.folder
    if promotion.alias == CHAMPION:
        bundle_folder = config.store / BUNDLES / config.registered_name
    tables = [models_table(evaluation.scores, judgement.against_lookup, training.threshold_s, training.candidate,
                           promotion.alias)]
    if evaluation.simulation is not None and evaluation.workload is not None:
        tables.append(policies_table(evaluation.simulation.table, evaluation.workload.description))
    print_run(console, tables, promotion, str(bundle_folder), f"sojourn ui --store {config.store}")
    return Retrained(bundle_folder, promotion, evaluation)
