"""The main job, in five stages: ingest, build features, train, judge with simulation, promote.

A run is logged to MLflow with its bundle and a child for each family; Prefect's dashboard shows its
gates. A finished run of the same inputs, code and settings, with all results, is not repeated."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from prefect import task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from rich.table import Table

from sojourn import __version__
from sojourn.features.split import Examples
from sojourn.flows.console import console, stage
from sojourn.flows.reports.comparison_report import policies_table
from sojourn.flows.reports.figures import accuracy_figure, overview_figure
from sojourn.flows.reports.study_report import refresh_table
from sojourn.flows.retrain.features import Features, build_features
from sojourn.flows.retrain.gate import DEPLOYABLE, REASONS_TAG, next_steps, of_tag
from sojourn.flows.retrain.gates import CheckedGates, check_gates
from sojourn.flows.retrain.honest_columns import check_confirmed
from sojourn.flows.retrain.ingest import Ingested, ingesting
from sojourn.flows.retrain.judge import (
    Candidate,
    Evaluation,
    candidate_folder,
    judge,
    load_rivals,
    loops_ahead,
    score_whole,
    simulation_scores,
    write_candidate,
)
from sojourn.flows.retrain.promote import Judged, promote
from sojourn.flows.retrain.report import CardFacts, models_table, plain_text, print_run, version_card
from sojourn.flows.retrain.train import CHOICE_TAG, Instants, Trained, Training, read_instants, train
from sojourn.flows.retrain.verdict import ROOMS, Answer, Gate, Promotion, keep_answer, print_answer
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.store.caches import source_hash
from sojourn.flows.tracking.logged_model import log_bundle
from sojourn.flows.tracking.tracker import (
    CHALLENGER,
    CHAMPION,
    FAMILY,
    LEFT_TAG,
    RETRAIN,
    SYSTEM,
    RunRecord,
    Tracker,
    run_name,
    train_and_test,
)
from sojourn.flows.versions.cleaning import clean
from sojourn.flows.versions.promotion import BUNDLE_TAG, BUNDLES, BundleBytes, fetched, read_sha256
from sojourn.flows.versions.version_list import GATE, JUDGED_TAG, PASSED, JudgedOn, keyed
from sojourn.flows.workers.flow import store_flow
from sojourn.models.importance import importance_figure, mean_abs_shap, n_shap_rows, shap_figure, shap_rows
from sojourn.models.lifetime import Exported
from sojourn.models.measures import calibration_with_ends
from sojourn.publishing import whole_file
from sojourn.serving.curves import KINDS
from sojourn.serving.errors import BundleError
from sojourn.serving.inputs import Encoder
from sojourn.simulator.experiments import pairing_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GATES, RESULT, RUN = "gates", "result", "mlflow-run"
"""Keys of the artifacts."""
KEY_TAG, AGAINST_TAG = "run_key", "judged_against"
"""Tags of a retrain's run: a hash of its inputs, and the champion in its gates, or none."""
TABLES = "tables.txt"
"""A run's artifact: its printed tables."""
_DECIDES_NOTHING = ("store", "tracking_uri", "dask", "n_threads", "allow_shrunk", "again",
                    "artifacts", "keep_runs", "keep_days", "keep_caches", "keep_parts_days",
                    "clean", "log_system")


@dataclass(frozen=True, slots=True)
class Retrained:
    """The result of a run: the candidate's bundle folder, the promotion, and the evaluation.

    bundle: in `bundles` if it is champion, for schedulers, else in `candidates`. evaluation: None
    if the result of a finished run still holds, so nothing was trained.
    """

    bundle: Path
    promotion: Promotion
    evaluation: Evaluation | None


@store_flow("retrain", is_writer=True)
def retrain(config: RetrainConfig, tracker: Tracker) -> Retrained:
    """Train on the earlier part of a trace, judge on the later part, and promote if all gates pass.

    If the result of a finished run of the same trace, code and settings still holds, only print it.
    """
    ingested = ingesting(config.source)(config.store, config.source)
    if not config.again:
        with stage("look for a finished run"):
            finished = finished_run(config, tracker, ingested)
        if finished is not None:
            return _nothing_new(config, tracker, ingested, finished)
    features = build_features(config.store, ingested, config.dask, config.max_requests)
    check_confirmed(features.encoder, config.confirmed_columns)
    with stage("read the champion"):
        rivals = load_rivals(config.store, config.registered_name, tracker, features)
    today = datetime.now(UTC).date()
    begun = {"kind": RETRAIN, "model": config.registered_name, "trace": ingested.name,
             **run_tags(config, ingested, rivals.champion)}
    # begun before the training: from here on the tracking store is not needed until there is something to keep
    name = run_name(ingested.name, today, before="retrain")
    with tracker.run(name, begun) as run, tracker.system_metrics(run) if config.log_system else nullcontext():
        features, instants = read_instants(config, features)
        with loops_ahead(config, features):
            training = train(config, features)
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
            source, scores = log_retrain(config, tracker, run, ingested, features.encoder, training,
                                         evaluation, candidate, tags)
            tracker.log_text(run, plain_text(tables), TABLES)
            judged = Judged(config.registered_name, run, source, candidate.sha256, rivals.champion,
                            checked.gates, run_name(ingested.name, today, after=training.candidate))
            paired = differences(checked, evaluation, training.candidate)
            tracker.log(run, None, {**paired, **at_a_glance(paired),
                                    **keyed(tags[JUDGED_TAG], calibration_with_ends(checked.measures))})
            card = version_card(_facts(config, ingested, features, training, instants, tags["window"]),
                                scores, checked.measures, checked.against_lookup.get(training.candidate),
                                evaluation.simulation)
            if features.sample is not None and whole is not None:
                card += f"\n{features.sample.text()} {whole.text()}\n"
                tracker.log(run, {"n_requests_sampled": features.sample.n_sampled},
                            keyed(tags[JUDGED_TAG], whole.scores()))
            promotion = promote(tracker, config.store, judged, card, {**tags, **checked.tags})
    if config.clean:
        for line in clean(config.store, tracker, config).failed:
            console.print(line, soft_wrap=True, markup=False)
    bundle_folder = _bundle_folder(config, promotion, candidate.folder)
    print_run(console, tables, promotion, str(bundle_folder), f"sojourn store ui --store {config.store}")
    publish_artifacts(promotion, ingested.name, str(bundle_folder), tracker.page(run) or _command(config, run))
    _keep(config, tracker, ingested, finished_run(config, tracker, ingested))
    return Retrained(bundle_folder, promotion, evaluation)


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
    refreshed = refresh_table([gain.document() for gain in evaluation.refreshed], refresh.ages_s, refresh.text())
    tables += [] if refreshed is None else [refreshed]
    if evaluation.simulation is not None and evaluation.workload is not None:
        simulation = evaluation.simulation
        n_first, n_all = int(simulation.table["n_seeds"].iloc[0]), len(simulation.gain_pp)
        replicas = f"{n_first} replicas" + f" (of what the gates compare: {n_all})" * (n_all > n_first)
        tables.append(policies_table(simulation.table, f"{evaluation.workload.description}; {replicas}"))
    return tables


def _bundle_folder(config: RetrainConfig, promotion: Promotion, candidate: Path) -> Path:
    return config.store / BUNDLES / config.registered_name if promotion.alias == CHAMPION else candidate


def _command(config: RetrainConfig, run: str) -> str:
    return f"run {run} in `sojourn store ui --store {config.store}`"


def _nothing_new(config: RetrainConfig, tracker: Tracker, ingested: Ingested, finished: Finished) -> Retrained:
    """Print the finished run's result, and that it still holds."""
    answer = _answer(config, ingested, finished)
    print_answer(console, answer)
    publish_artifacts(answer.promotion, ingested.name, answer.bundle,
                      tracker.page(finished.run_id) or _command(config, finished.run_id))
    _keep(config, tracker, ingested, finished)
    return Retrained(Path(answer.bundle), answer.promotion, None)


def _answer(config: RetrainConfig, ingested: Ingested, finished: Finished) -> Answer:
    promotion = finished.promotion
    folder = _bundle_folder(config, promotion, candidate_folder(config.store, config.registered_name, finished.run_id))
    return Answer(promotion, promotion.alias == CHAMPION, finished.left, f"{finished.ended:%Y-%m-%d %H:%M} UTC",
                  finished.tables, ingested.report, str(folder), f"sojourn store ui --store {config.store}")


def _keep(config: RetrainConfig, tracker: Tracker, ingested: Ingested, finished: Finished | None) -> None:
    """Keep what the next run answers if nothing changes; finished: None = it would train."""
    if finished is not None:
        made_by = {record.run_id for record in tracker.version_records(config.registered_name)
                   if record.version == finished.promotion.version}
        keep_answer(config, _answer(config, ingested, finished), made_by | {finished.run_id})


def gates_list(promotion: Promotion) -> str:
    """A Markdown list of the gates; the dashboard wraps it, but would cut off a table's long cells.

    >>> from sojourn.flows.retrain.verdict import Gate
    >>> print(gates_list(Promotion("m", 1, "champion", (Gate("size", True, "2 of 5 MB"), Gate("time", False, "9 us")))))
    - passed: **size**. 2 of 5 MB
    - **FAILED: time**. 9 us
    """
    return "\n".join(f"- passed: **{gate.name}**. {gate.finding}" if gate.is_passed else
                     f"- **FAILED: {gate.name}**. {gate.finding}" for gate in promotion.gates)


@task(name="artifacts", retries=2, retry_delay_seconds=2)
def publish_artifacts(promotion: Promotion, trace: str, bundle: str, place: str) -> None:
    """Artifacts of the flow run. where: the MLflow run's page, or how to find it.

    Tried again if the server does not answer: an artifact sent twice only gets a newer version.
    """
    state = promotion.alias or "no longer champion or challenger"
    unchanged = "; nothing has changed since it was made" if promotion.is_unchanged else ""
    create_markdown_artifact(gates_list(promotion), key=GATES,
                             description=f"Gates of {promotion.name} version {promotion.version}")
    lines = [f"**{promotion.name}** version {promotion.version} is {state}{unchanged}.", "", f"- trace: `{trace}`",
             f"- bundle: `{bundle}`", f"- MLflow: {place}"]
    create_markdown_artifact("\n".join(lines), key=RESULT, description=f"Result of a retrain on {trace}")
    if place.startswith(("http://", "https://")):
        create_link_artifact(place, key=RUN, description="The run in MLflow: figures, tables and the bundle")


def retrain_tags(ingested: Ingested, training: Training, sample: str = "") -> dict[str, str]:
    """Tags of a retrain's runs and of its version. sample: the part of the requests, "" = all."""
    since = f"from {training.from_s} s on, " if training.from_s else ""
    window = f"{since}decided before {training.split.test_from_s} s, judged on the rest"
    judged = JudgedOn(ingested.name, ingested.data_hash, f"{window}{sample}", training.threshold_s)
    return {"trace": ingested.name, "data_hash": ingested.data_hash[:12], "window": window, JUDGED_TAG: judged.key,
            "family": training.candidate, CHOICE_TAG: training.choice.text(), "code_version": __version__}


def differences(checked: CheckedGates, evaluation: Evaluation, family: str) -> dict[str, float]:
    """Paired differences of the candidate with 95 % intervals, for MLflow: `against_*`.

    Of the Brier score over ages, %, to `km` and to the champion (below 0 = better); of empty hosts,
    pp, to best-fit (above 0 = better). Both are on the same requests of any test window.
    """
    pairs: dict[str, tuple[float, float, float]] = {}
    for other, difference in (("km", checked.against_lookup.get(family)), ("champion", checked.against_champion)):
        if difference is not None:
            pairs[f"against_{other}.brier_pct"] = (difference.mean_pct, difference.low_pct, difference.high_pct)
    if evaluation.simulation is not None:
        table = evaluation.simulation.table
        for policy in DEPLOYABLE:
            gain, low, high = (float(table[name].loc[pairing_label(policy, family)])
                               for name in ("gain_pp", "gain_low_pp", "gain_high_pp"))
            pairs[f"against_best_fit.{policy}_pp"] = (gain, low, high)
    return {f"{name}{side}": value for name, values in pairs.items()
            for side, value in zip(("", ".low", ".high"), values, strict=True)}


def at_a_glance(paired: Mapping[str, float]) -> dict[str, float]:
    """The metrics of the run list, with short names and two digits as its columns are narrow: of `differences`.

    >>> at_a_glance({"against_km.brier_pct": -21.437, "against_best_fit.a_pp": 0.24, "against_best_fit.b_pp": 1.5})
    {'vs_km_pct': -21.44, 'host_gain_pp': 1.5}
    """
    gains = [value for name, value in paired.items() if name.startswith("against_best_fit.") and name.endswith("_pp")]
    known = {"vs_km_pct": paired.get("against_km.brier_pct"), "vs_champ_pct": paired.get("against_champion.brier_pct"),
             "host_gain_pp": max(gains, default=None)}
    return {name: round(value, 2) for name, value in known.items() if value is not None}


def log_retrain(config: RetrainConfig, tracker: Tracker, run: str, ingested: Ingested, encoder: Encoder,
                training: Training, evaluation: Evaluation, candidate: Candidate,
                tags: Mapping[str, str]) -> tuple[str, dict[str, float]]:
    """Log a retrain in its run, the bundle last; the bundle's URI and the candidate's scores.

    tags: of the run and, except for the family, of its children. BundleError if the run's artifacts
    are not the candidate's bytes.
    """
    split = training.split
    for name, value in tags.items():
        tracker.tag(run, name, value)
    data = train_and_test(config.source, ingested.name, ingested.data_hash, split.test_from_s, len(split.past),
                          len(split.test))
    tracker.log_data(run, data)
    for trained in training.families:
        with tracker.run(trained.family, {**tags, "kind": FAMILY, "family": trained.family}, run, data) as child:
            _log_family(config, tracker, child, tags[JUDGED_TAG], encoder, training, evaluation, trained)
    scores = {**evaluation.scores[training.candidate], **simulation_scores(evaluation, training.candidate)}
    split_params = {"family": training.candidate, "from_s": training.from_s, "valid_from_s": split.valid_from_s,
                    "test_from_s": split.test_from_s, "n_past": len(split.past), "n_test": len(split.test),
                    "threshold_s": training.threshold_s, "judged_on": tags[JUDGED_TAG]}
    refreshed = {name: value for gain in evaluation.refreshed for name, value in gain.scores().items()}
    tracker.log(run, {**config.resolved(), **split_params}, keyed(tags[JUDGED_TAG], {**_headline(scores), **refreshed}))
    tracker.log_text(run, f"{training.refreshing.refresh.text()}\n", f"{SYSTEM}/refresh.txt")
    tracker.log_figure(run, accuracy_figure(evaluation.scores, training.threshold_s), "accuracy.png")
    if evaluation.simulation is not None:
        later = config.source.later
        test_data = f"the later {config.test_share:.0%} of requests" if later is None else later.file.name
        title = f"{ingested.name}: judged on {test_data}"
        table = evaluation.simulation.table
        tracker.log_figure(run, overview_figure(evaluation.scores, table, title, is_stacked=True), "overview.png")
        overview = overview_figure(evaluation.scores, table, title)
        with whole_file(config.store / "overview.png") as temporary:
            overview.savefig(temporary, dpi=110, format="png")
        tracker.log_text(run, evaluation.simulation.table.to_csv(index=False), f"{SYSTEM}/simulation.csv")
    tracker.log_text(run, ingested.report, "read-report.txt")
    source = log_bundle(tracker, run, candidate.folder, encoder, _example(encoder, split.test))
    with tempfile.TemporaryDirectory(prefix=".fetch.", dir=config.store) as folder:
        logged = BundleBytes.read(tracker.download(source, Path(folder), f"run {run}"))
    logged.check(candidate.sha256, f"run {run}")
    tracker.tag(run, BUNDLE_TAG, candidate.sha256)
    return source, scores


def _log_family(config: RetrainConfig, tracker: Tracker, run: str, judged_on: str, encoder: Encoder,
                training: Training, evaluation: Evaluation, trained: Trained) -> None:
    scores = evaluation.scores[trained.family]
    valid = {f"valid.{name}": value for name, value in trained.validation.items()}
    fitted = {"fit_s": trained.fit_s, "clipped_share": trained.model.clipped_share_}
    tracker.log(run, {"family": trained.family}, {**keyed(judged_on, {**scores, **valid}), **fitted})
    gains, exported = trained.model.gains(), trained.model.export()
    if exported is not None and exported.lookup is not None and exported.lookup.is_all:
        tracker.log_text(run, f"{trained.family} has no trees: no gains and no SHAP values. An answer is a row of its "
                              f"table, of the finest key of the request that has one "
                              f"({exported.lookup.keys.n_rows:,} rows).\n", "importance.txt")
    if exported is not None and "mixture" in exported.fields:
        tracker.log_text(run, f"{exported.fields['mixture']}\n", "mixture.txt")
    if gains is None:
        return
    names = encoder.feature_names()
    if exported is not None:
        names = (*names, *KINDS[exported.kind].varying_names(names, exported.age_features))
    tracker.log_figure(run, importance_figure(names, gains.tolist(), trained.family), "importance.png")
    if exported is not None and exported.text is not None and trained.family == training.candidate:
        figure = _shap_figure(config, trained.family, exported, exported.text, names, training.split.test)
        tracker.log_figure(run, figure, "shap.png")


def _shap_figure(config: RetrainConfig, family: str, exported: Exported, text: str, names: Sequence[str],
                 test: Examples) -> Figure:
    rows = shap_rows(exported, test, n_shap_rows(exported), config.seed)
    means = mean_abs_shap(text, rows, config.n_threads)
    return shap_figure(names, means.tolist(), family, len(rows), KINDS[exported.kind].effect_unit)


def _example(encoder: Encoder, test: Examples) -> dict[str, float | str]:
    """A request with the quantities of the test window's first one, of an invented owner."""
    return {**dict(zip(encoder.numbers, test.features[0].tolist(), strict=False)), **dict.fromkeys(encoder.names, "-")}


def _headline(scores: dict[str, float]) -> dict[str, float]:
    """The scores for comparing versions in the MLflow UI: accuracy, and the simulator's pp; the
    families' runs have the others."""
    prefixes = ("ages.", "creation.ap_", "creation.mae_", "age_", "sim.")
    parts = ("ibs", "ap_", "mae_", "gain_pp", "empty_hosts", "left_out", "n_replicas")
    return {name: value for name, value in scores.items()
            if name.startswith(prefixes) and name.split(".")[-1].startswith(parts)}


@dataclass(frozen=True, slots=True)
class Finished:
    """An earlier run's result. left: why its version was rolled back, or "". tables: as printed."""

    run_id: str
    ended: datetime
    promotion: Promotion
    left: str
    tables: str


def run_key(config: RetrainConfig, ingested: Ingested) -> str:
    """sha256 hex of a retrain's inputs but the champion: trace, code, libraries and settings."""
    settings = {name: value for name, value in config.resolved().items() if name not in _DECIDES_NOTHING}
    parts = [ingested.data_hash, source_hash(*ROOMS), settings]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def run_tags(config: RetrainConfig, ingested: Ingested, champion: int | None) -> dict[str, str]:
    """Tags by which a later run finds this one. champion: the version in its gates."""
    return {KEY_TAG: run_key(config, ingested), AGAINST_TAG: "none" if champion is None else str(champion)}


def finished_run(config: RetrainConfig, tracker: Tracker, ingested: Ingested) -> Finished | None:
    """The latest finished run of the same key whose result still holds; None if there is none.

    It holds if its results are whole, and its bundle is the champion's, or its version was rolled
    back (it would be refused again), or it is the challenger to the same champion.
    """
    for run in tracker.finished(KEY_TAG, run_key(config, ingested)):
        finished = _standing(config, tracker, run)
        if finished is not None:
            return finished
    return None


def _standing(config: RetrainConfig, tracker: Tracker, run: RunRecord) -> Finished | None:
    name, sha256 = config.registered_name, run.tags.get(BUNDLE_TAG)
    aliases = tracker.aliases(name) or {}
    champion = aliases.get(CHAMPION)
    if sha256 is None or (champion is not None and champion not in tracker.versions(name)):
        return None
    if champion is not None and tracker.version_tags(name, champion).get(BUNDLE_TAG) == sha256:
        version: int | None = champion
    else:
        version = tracker.version_of_run(name, run.run_id)
    if version is None:
        return None
    tags = tracker.version_tags(name, version)
    left = tags.get(LEFT_TAG, "")
    alias = next((alias for alias in (CHAMPION, CHALLENGER) if aliases.get(alias) == version), "")
    is_as_judged = alias == CHALLENGER and run.tags.get(AGAINST_TAG) == ("none" if champion is None else str(champion))
    if not (alias == CHAMPION or left or is_as_judged):
        return None
    try:
        with fetched(tracker, config.store, name, version) as folder:
            BundleBytes.read(folder).check(sha256, f"{name} version {version}")
        tables = tracker.text(run.run_id, TABLES)
    except (BundleError, OSError):
        return None
    if alias == CHAMPION and read_sha256(config.store / BUNDLES / name) != sha256:
        return None
    steps = next_steps(of_tag(tags.get(REASONS_TAG, "")), name, version) if alias == CHALLENGER else ()
    promotion = Promotion(name, version, alias, _gates(tags), is_unchanged=True, next_steps=steps)
    return Finished(run.run_id, datetime.fromtimestamp((run.ended_ms or 0) / 1000, UTC), promotion, left, tables)


def _gates(tags: Mapping[str, str]) -> tuple[Gate, ...]:
    verdicts = {tag.removeprefix(GATE): text.partition(": ")[::2] for tag, text in tags.items() if tag.startswith(GATE)}
    return tuple(Gate(name, state == PASSED, words) for name, (state, words) in verdicts.items())
