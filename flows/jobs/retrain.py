"""The main job, in five stages: ingest, build features, train, judge with simulation, promote."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table

from sojourn import __version__
from sojourn.flows.gates.known_at_creation import check_confirmed
from sojourn.flows.jobs.finished_run import TABLES, Finished, finished_run, run_tags
from sojourn.flows.jobs.job import job
from sojourn.flows.jobs.retrain_artifacts import publish_artifacts
from sojourn.flows.jobs.retrain_log import differences, log_retrain, retrain_tags
from sojourn.flows.outside.tracked_names import CHAMPION, RETRAIN
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.outside.tracking_client import TrackingError
from sojourn.flows.progress import console, stage
from sojourn.flows.reports.comparison_report import policies_table
from sojourn.flows.reports.refresh_table import refresh_table
from sojourn.flows.reports.run_report import models_table, plain_text, print_run, print_standing
from sojourn.flows.reports.version_card import CardFacts, version_card
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.stages.build_features import Features, build_features
from sojourn.flows.stages.candidate import candidate_folder, write_candidate
from sojourn.flows.stages.champion import load_rivals
from sojourn.flows.stages.ingest import Ingested, ingesting
from sojourn.flows.stages.instants import Instants, read_instants
from sojourn.flows.stages.judge import Evaluation, judge
from sojourn.flows.stages.promote import Judged, Promotion, promote
from sojourn.flows.stages.promotion_gates import CheckedGates, check_gates
from sojourn.flows.stages.train import Training, learner_of, train
from sojourn.flows.stages.unsent import Logged, is_ordered, keep_unsent, send_unsent
from sojourn.flows.stages.whole_window import score_whole
from sojourn.flows.versions.cleaning import clean
from sojourn.flows.versions.judged_on import JUDGED_TAG, keyed
from sojourn.flows.versions.promotion_journal import BUNDLES


@dataclass(frozen=True, slots=True)
class Retrained:
    """What a run leaves: the candidate's bundle folder, the promotion, and the evaluation.

    bundle: in `bundles`, which a scheduler loads and only a champion enters, or in `candidates`. evaluation: None where
    a finished run of the same key stands, so that nothing was trained.
    """

    bundle: Path
    promotion: Promotion
    evaluation: Evaluation | None


@job("retrain", is_of_champion=True)
def retrain(config: RetrainConfig, tracker: Tracker) -> Retrained:
    """Train on the earlier part of a trace, judge on the later part, and promote what passes every gate.

    Where a finished run of the same trace, code and settings stands, its result is printed and nothing is done.
    """
    send_unsent(config.store, tracker, lambda line: console.print(line, soft_wrap=True, markup=False))
    ingested = ingesting(config.source)(config.store, config.source)
    if not config.is_again:
        with stage("look for a finished run"):
            finished = finished_run(config, tracker, ingested)
        if finished is not None:
            return _nothing_new(config, tracker, ingested, finished)
    features = build_features(config.store, ingested, config.dask, config.max_requests)
    check_confirmed(features.encoder, config.confirmed_columns)
    with stage("read the champion"):
        rivals = load_rivals(config.store, config.registered_name, tracker, features)
    what = f"{ingested.name} {datetime.now(UTC):%Y-%m-%d}"
    name = f"retrain {what}"
    begun = {"kind": RETRAIN, "model": config.registered_name, "trace": ingested.name,
             **run_tags(config, ingested, rivals.champion)}
    # begun before the training: from here on the tracking store is not needed until there is something to keep
    with tracker.run(name, begun) as run, tracker.system_metrics(run) if config.is_system_logged else nullcontext():
        with learner_of(config.n_fit_workers, config.dask, config.store) as learner:
            features, instants = read_instants(config, features)
            training = train(config, features, learner)
        sample = "" if features.sample is None else features.sample.text()
        tags = {**retrain_tags(ingested, training, sample), "kind": RETRAIN, "model": config.registered_name}
        tags |= instants.tags()
        candidate = write_candidate(candidate_folder(config.store, config.registered_name, run), ingested,
                                    ingested.content_hash, features, training)
        evaluation = judge(config, config.chosen_recipe, features, training, candidate, rivals)
        whole = None if features.sample is None else score_whole(features.sample, candidate.folder,
                                                                 training.split.test_from_s, config.dask)
        with stage("check and promote"):
            checked = check_gates(config, features, training, evaluation, candidate, rivals,
                                  config.store / BUNDLES / config.registered_name)
            tables = _tables(evaluation, checked, training)

            def logged(to: Tracker, to_run: str) -> Logged:
                source, scores = log_retrain(config, to, to_run, ingested, features.encoder, training,
                                             evaluation, candidate, tags)
                to.log_text(to_run, plain_text(tables), TABLES)
                judged = Judged(config.registered_name, to_run, source, candidate.sha256, rivals.champion,
                                checked.gates, what)
                to.log(to_run, None, differences(checked, evaluation, training.candidate))
                card = version_card(_facts(config, ingested, features, training, instants, tags["window"]), scores,
                                    checked.measures, checked.against_lookup.get(training.candidate),
                                    evaluation.simulation)
                if features.sample is not None and whole is not None:
                    card += f"\n{features.sample.text()} {whole.text()}\n"
                    to.log(to_run, {"n_requests_sampled": features.sample.n_sampled},
                           keyed(tags[JUDGED_TAG], whole.scores()))
                return Logged(judged, card, {**tags, **checked.tags})

            promotion = _promoted(config, tracker, run, name, logged)
    if config.is_cleaned:
        for line in clean(config.store, tracker, config).failed:
            console.print(line, soft_wrap=True, markup=False)
    bundle_folder = _bundle_folder(config, promotion, candidate.folder)
    print_run(console, tables, promotion, str(bundle_folder), f"sojourn ui --store {config.store}")
    publish_artifacts(promotion, ingested.name, str(bundle_folder), tracker.page(run) or _command(config, run))
    return Retrained(bundle_folder, promotion, evaluation)


def _promoted(config: RetrainConfig, tracker: Tracker, run: str, name: str,
              log: Callable[[Tracker, str], Logged]) -> Promotion:
    """Log and promote; where the tracking store stays away, keep the run and say so."""
    try:
        found = log(tracker, run)
        return promote(tracker, config.store, found.judged, found.card, found.tags)
    except TrackingError as error:
        if not error.is_away or is_ordered(config.store, run):
            raise
        kept = keep_unsent(config.store, run, name, log)
        raise TrackingError(f"{error}; the run is kept in {kept}, and `sojourn sync` or the next retrain sends it",
                            error.code, is_away=True) from error


def _facts(config: RetrainConfig, ingested: Ingested, features: Features, training: Training, instants: Instants,
           window: str) -> CardFacts:
    split = training.split
    return CardFacts(config.registered_name, training.candidate, f"{training.choice.text()} {instants.text()}".rstrip(),
                     training.refreshing.refresh.ages_s, ingested.name, window, len(split.past), len(split.test),
                     features.encoder.feature_names(), ingested.data_hash, __version__)


def _tables(evaluation: Evaluation, checked: CheckedGates, training: Training) -> list[Table]:
    tables = [models_table(evaluation.scores, checked.against_lookup, training.threshold_s, training.candidate,
                           training.choice.text())]
    refresh = training.refreshing.refresh
    anew = refresh_table([gain.document() for gain in evaluation.refreshed], refresh.ages_s, refresh.text())
    tables += [] if anew is None else [anew]
    if evaluation.simulation is not None and evaluation.workload is not None:
        simulation = evaluation.simulation
        n_first, n_all = int(simulation.table["n_seeds"].iloc[0]), len(simulation.gain_pp)
        replicas = f"{n_first} replicas" + f" (of what the gates compare: {n_all})" * (n_all > n_first)
        tables.append(policies_table(simulation.table, f"{evaluation.workload.description}; {replicas}"))
    return tables


def _bundle_folder(config: RetrainConfig, promotion: Promotion, candidate: Path) -> Path:
    return config.store / BUNDLES / config.registered_name if promotion.alias == CHAMPION else candidate


def _command(config: RetrainConfig, run: str) -> str:
    return f"run {run} in `sojourn ui --store {config.store}`"


def _nothing_new(config: RetrainConfig, tracker: Tracker, ingested: Ingested, finished: Finished) -> Retrained:
    """Print what the finished run left, and say that it stands."""
    promotion = finished.promotion
    folder = _bundle_folder(config, promotion, candidate_folder(config.store, config.registered_name, finished.run_id))
    print_standing(console, finished.tables, promotion, finished.left, f"{finished.ended:%Y-%m-%d %H:%M} UTC",
                   str(folder), f"sojourn ui --store {config.store}")
    publish_artifacts(promotion, ingested.name, str(folder),
                      tracker.page(finished.run_id) or _command(config, finished.run_id))
    return Retrained(folder, promotion, None)
