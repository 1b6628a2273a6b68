"""The `judge` stage: measures on the test window, and the placement simulation on the same days."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from prefect import task

from sojourn.features.creation import FeatureRows
from sojourn.features.later_file import LATER_FROM
from sojourn.flows.gates.simulation_gate import MARGIN_PP, judged_pairs
from sojourn.flows.placement.asked_rows import asked_rows
from sojourn.flows.placement.replicas import Replicated, compare_replicas, with_more
from sojourn.flows.placement.simulation import later_workload
from sojourn.flows.placement.sources import TableSource
from sojourn.flows.progress import Report, stage, tell_doubts
from sojourn.flows.settings.retrain import PlacementSettings
from sojourn.flows.stages.build_features import Features
from sojourn.flows.stages.candidate import Candidate
from sojourn.flows.stages.champion import Rivals
from sojourn.flows.stages.train import Training
from sojourn.flows.stages.trained import Trained
from sojourn.models.bundle_writer import table_of
from sojourn.models.lifetime import AgeGain
from sojourn.models.measures import BrierOverAges, parts_by_age, score_model
from sojourn.serving.bundle import Schema
from sojourn.serving.forest import Forest
from sojourn.simulator import LifetimeSource, OneShot, Oracle, Workload
from sojourn.simulator.experiments import Pairing

LOOKUP = "km"
"""The lookup table that a team would use without a model; what a first version has to match."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as a bundle holds it: schema and forest, under a label for tables.

    rows: the trace's rows by the model's own encoder; None where that is the run's encoder.
    """

    label: str
    schema: Schema
    forest: Forest
    rows: FeatureRows | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Test scores of each family, its Brier score over ages by row, and the simulation, or None where it was off.

    refreshed: of the candidate, held and refreshed curves at each age that was judged on the validation window.
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
        table = trained.model.curve_table(test)
        parts = parts_by_age(table, test)
        gains = () if trained.family != training.candidate else training.refreshing.on_test(
            training.split, table, features, settings.seed)
        return score_model(table, test, training.threshold_s, parts), BrierOverAges.of_parts(parts, len(test)), gains

    with stage("score on the test window") as report, ThreadPoolExecutor(settings.n_threads) as threads:
        for done, (trained, found) in enumerate(zip(training.families, threads.map(scored, training.families),
                                                    strict=True), 1):
            report(done, len(training.families))
            scores[trained.family], briers[trained.family] = found[:2]
            refreshed = found[2] or refreshed
    if not settings.is_simulated:
        return Evaluation(scores, briers, None, None, refreshed)
    models = (ServedModel(training.candidate, candidate.bundle.schema, candidate.builder.forest),
              *(ServedModel(rival.label, rival.bundle.schema, rival.builder.forest, rival.rows)
                for rival in rivals.found if rival.is_in_placement))
    with stage("simulate placement") as report:
        workload = later_workload(recipe, settings, features.trace,
                                  int(features.trace.meta.get(LATER_FROM, training.split.test_from_s)))
        tell_doubts(workload.doubts())
        replicated = _simulate(settings, workload, features, training, models, report)
    return Evaluation(scores, briers, replicated, workload, refreshed)


def _simulate(settings: PlacementSettings, workload: Workload, features: Features,
              training: Training, models: tuple[ServedModel, ...], report: Report) -> Replicated:
    """models: the candidate first."""
    sources: dict[str, LifetimeSource] = {}
    shared = asked_rows(workload, features.trace, features.rows)
    for model in models:
        asked = shared if model.rows is None else asked_rows(workload, features.trace, model.rows)
        asked_features = model.schema.encoder.with_row(asked.rows.features, asked.rows.keys)
        sources[model.label] = TableSource(table_of(model.schema, model.forest, asked_features), asked.request_ids,
                                           idx=asked.idx)
    if LOOKUP not in sources:
        sources[LOOKUP] = TableSource(training.of(LOOKUP).model.curve_table(shared.rows), shared.request_ids,
                                      idx=shared.idx)
    candidate = models[0].label
    first_answer = OneShot(sources[candidate], is_distribution_kept=False)  # nilas and la-binary read totals alone

    def pairings(moved: Workload) -> list[Pairing]:
        oracle = Oracle(moved)
        return [
            ("first-fit", "", None),
            ("la-binary", f"{candidate}, one-shot", first_answer),
            ("nilas", f"{candidate}, one-shot", first_answer),
            *(("nilas", label, source) for label, source in sources.items()),
            *(("nilas-expected", label, source) for label, source in sources.items()),
            *(("joint-fit", label, source) for label, source in sources.items()),
            ("la-binary", "oracle", oracle),
            ("nilas", "oracle", oracle),
        ]

    first = compare_replicas(workload, pairings, settings.n_replicas, report, settings.n_threads)
    others = [model.label for model in models[1:]] or [LOOKUP]
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
