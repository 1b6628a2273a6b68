"""What a retrain logs to MLflow: a run for the candidate and its bundle, a child per family."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn import __version__
from sojourn.features.split import Examples
from sojourn.flows.gates.simulation_gate import DEPLOYABLE
from sojourn.flows.outside.data_window import train_and_test
from sojourn.flows.outside.logged_model import log_bundle
from sojourn.flows.outside.tracked_names import FAMILY
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.reports.figures import accuracy_figure, importance_figure, overview_figure, shap_figure
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.stages.candidate import Candidate
from sojourn.flows.stages.choice import CHOICE_TAG
from sojourn.flows.stages.ingest import Ingested
from sojourn.flows.stages.judge import Evaluation, simulation_scores
from sojourn.flows.stages.promotion_gates import CheckedGates
from sojourn.flows.stages.train import Training
from sojourn.flows.stages.trained import Trained
from sojourn.flows.versions.bundle_bytes import BUNDLE_TAG, BundleBytes
from sojourn.flows.versions.judged_on import JUDGED_TAG, JudgedOn, keyed
from sojourn.models.importance import mean_abs_shap, n_shap_rows, shap_rows
from sojourn.models.lifetime import Exported
from sojourn.publishing import whole_file
from sojourn.serving.curves import KINDS
from sojourn.serving.inputs import Encoder
from sojourn.simulator.experiments import pairing_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def retrain_tags(ingested: Ingested, training: Training, sample: str = "") -> dict[str, str]:
    """Tags of a retrain's runs and of its version. sample: which of the requests were read, "" for all."""
    since = f"from {training.from_s} s on, " if training.from_s else ""
    window = f"{since}decided before {training.split.test_from_s} s, judged on the rest"
    judged = JudgedOn(ingested.name, ingested.data_hash, f"{window}{sample}", training.threshold_s)
    return {"trace": ingested.name, "data_hash": ingested.data_hash[:12], "window": window, JUDGED_TAG: judged.key,
            "family": training.candidate, CHOICE_TAG: training.choice.text(), "code_version": __version__}


def differences(checked: CheckedGates, evaluation: Evaluation, family: str) -> dict[str, float]:
    """Paired differences of the candidate, each with its 95 % interval, by name, for MLflow: `against_*`.

    Of the Brier score over ages, %, to `km` and to the champion (below 0 = better); of empty hosts, pp, to best-fit
    (above 0 = better). Each compares two on the same requests, so that these names are the same whatever judged it.
    """
    pairs: dict[str, tuple[float, float, float]] = {}
    for other, found in (("km", checked.against_lookup.get(family)), ("champion", checked.against_champion)):
        if found is not None:
            pairs[f"against_{other}.brier_pct"] = (found.mean_pct, found.low_pct, found.high_pct)
    if evaluation.simulation is not None:
        table = evaluation.simulation.table
        for policy in DEPLOYABLE:
            gain, low, high = (float(table[name].loc[pairing_label(policy, family)])
                               for name in ("gain_pp", "gain_low_pp", "gain_high_pp"))
            pairs[f"against_best_fit.{policy}_pp"] = (gain, low, high)
    return {f"{name}{side}": value for name, values in pairs.items()
            for side, value in zip(("", ".low", ".high"), values, strict=True)}


def log_retrain(config: RetrainConfig, tracker: Tracker, run: str, ingested: Ingested, encoder: Encoder,
                training: Training, evaluation: Evaluation, candidate: Candidate,
                tags: Mapping[str, str]) -> tuple[str, dict[str, float]]:
    """Log a retrain in its run, the candidate's bundle last; returns the bundle's URI and the candidate's scores.

    tags: of the run; those of its children, too, but for the family. BundleError where the run's artifacts are not the
    candidate's bytes.
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
                    "threshold_s": training.threshold_s}
    refreshed = {name: value for gain in evaluation.refreshed for name, value in gain.scores().items()}
    tracker.log(run, {**config.resolved(), **split_params}, keyed(tags[JUDGED_TAG], {**_headline(scores), **refreshed}))
    tracker.log_text(run, f"{training.refreshing.refresh.text()}\n", "refresh.txt")
    tracker.log_figure(run, accuracy_figure(evaluation.scores, training.threshold_s), "accuracy.png")
    if evaluation.simulation is not None:
        later = config.source.later
        judges = f"the later {config.test_share:.0%} of requests" if later is None else later.file.name
        overview = overview_figure(evaluation.scores, evaluation.simulation.table,
                                   f"{ingested.name}: judged on {judges}")
        tracker.log_figure(run, overview, "overview.png")
        with whole_file(config.store / "overview.png") as temporary:
            overview.savefig(temporary, dpi=110, format="png")
        tracker.log_text(run, evaluation.simulation.table.to_csv(index=False), "simulation.csv")
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
    """A request with the quantities of the first one of the test window, of a made-up owner."""
    return {**dict(zip(encoder.numbers, test.features[0].tolist(), strict=False)), **dict.fromkeys(encoder.names, "-")}


def _headline(scores: dict[str, float]) -> dict[str, float]:
    """What versions are compared by in the MLflow UI: accuracy beside the simulator's pp; all else is in the
    families' own runs."""
    kept = ("ages.", "creation.ap_", "creation.mae_", "age_", "sim.")
    parts = ("ibs", "ap_", "mae_", "gain_pp", "empty_hosts", "left_out", "n_replicas")
    return {name: value for name, value in scores.items()
            if name.startswith(kept) and name.split(".")[-1].startswith(parts)}
