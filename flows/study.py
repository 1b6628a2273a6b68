"""The study of one trace: every family on the same later window, chosen between on the validation window alone.

Unlike `retrain` it fits families that are never served, and promotes nothing: it says which model a trace wants.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sojourn.flows.environment import be_quiet

be_quiet()

from prefect import flow  # noqa: E402  (its settings are read on import)

from sojourn import __version__  # noqa: E402
from sojourn.features.creation import backoff_keys  # noqa: E402
from sojourn.flows.build_features import build_features  # noqa: E402
from sojourn.flows.config import RetrainConfig  # noqa: E402
from sojourn.flows.figures import accuracy_figure  # noqa: E402
from sojourn.flows.ingest import ingest  # noqa: E402
from sojourn.flows.progress import console, stage  # noqa: E402
from sojourn.flows.study_report import study_table  # noqa: E402
from sojourn.flows.tracking import STUDY, Tracker  # noqa: E402
from sojourn.flows.train import Trained, fit_family, windows  # noqa: E402
from sojourn.models.lifetime import FitSettings  # noqa: E402
from sojourn.models.measures import choose_threshold, score_model  # noqa: E402


@dataclass(frozen=True, slots=True)
class Study:
    """What a study found. scores, fit_s: per family. chosen: the best on the validation window, of all families.

    refused: why a family could not be fitted on this trace. threshold_s: the trace's own "long-lived".
    """

    trace: str
    data_hash: str
    code_version: str
    n_past: int
    n_test: int
    test_from_s: int
    threshold_s: int
    chosen: str
    scores: dict[str, dict[str, float]]
    fit_s: dict[str, float]
    refused: dict[str, str]


@flow(name="evaluate", log_prints=False)
def study(config: RetrainConfig) -> Study:
    """Fit and score every configured family of one trace, log it, and print the table."""
    ingested = ingest(config)
    _, encoder, rows, _ = build_features(config, ingested)
    split = windows(config, rows)
    threshold_s = choose_threshold(split.train)
    settings = FitSettings(backoff_keys(encoder), config.n_threads, config.seed, names=rows.names)
    fitted: list[Trained] = []
    refused: dict[str, str] = {}
    for name in config.families:
        try:
            fitted.append(fit_family(name, split, settings, threshold_s))
        except ValueError as error:  # no owner, no requested time: the trace cannot tell
            refused[name] = str(error)
    if not fitted:
        raise ValueError(f"{ingested.name}: no family could be fitted: {next(iter(refused.values()))}")
    scores = {}
    with stage("score on the test window") as report:
        for done, trained in enumerate(fitted):
            report(done, len(fitted))
            scores[trained.family] = score_model(trained.model.curve_table(split.test), split.test, threshold_s)
    chosen = min(fitted, key=lambda trained: trained.choice_score).family
    found = Study(ingested.name, ingested.data_hash, __version__, len(split.past), len(split.test), split.test_from_s,
                  threshold_s, chosen, scores, {trained.family: trained.fit_s for trained in fitted}, refused)
    with stage("log"):
        _log(config, found)
    console.print()
    console.print(study_table(asdict(found)))
    for name, reason in refused.items():
        console.print(f"{name} left out: {reason}", soft_wrap=True)
    return found


def _log(config: RetrainConfig, found: Study) -> None:
    tracker = Tracker(config.mlflow_uri, config.store / "artifacts")
    tags = {"kind": STUDY, "trace": found.trace, "data_hash": found.data_hash[:12], "code_version": found.code_version}
    run = tracker.start(f"study {found.trace}", tags)
    for family, values in found.scores.items():
        child = tracker.start(family, {**tags, "kind": "family", "family": family}, run)
        tracker.log(child, {"family": family}, {**values, "fit_s": found.fit_s[family]})
        tracker.end(child)
    tracker.log(run, {**config.resolved(), "chosen": found.chosen, "threshold_s": found.threshold_s})
    tracker.log_figure(run, accuracy_figure(found.scores, found.threshold_s), "accuracy.png")
    tracker.log_text(run, json.dumps(asdict(found), indent=1, sort_keys=True) + "\n", f"{STUDY}.json")
    tracker.end(run)
