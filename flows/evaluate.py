"""The `evaluate` stage: measures on the test window, and the placement simulation on the same days."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from prefect import task

from sojourn.features.creation import FeatureRows
from sojourn.features.trace import Trace
from sojourn.flows.config import RetrainConfig
from sojourn.flows.progress import stage
from sojourn.flows.simulation import later_workload, model_source
from sojourn.flows.train import Training
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures import score_model
from sojourn.serving.bundle import Schema
from sojourn.serving.encoder import Encoder
from sojourn.serving.forest import Forest
from sojourn.simulator import Comparison, LifetimeSource, OneShot, Oracle, Workload, compare


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as a bundle holds it: schema and forest, under a label for tables."""

    label: str
    schema: Schema
    forest: Forest


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Test scores and tables of each family, and the simulation, or None where it was switched off."""

    scores: dict[str, dict[str, float]]
    tables: dict[str, CurveTable]
    simulation: Comparison | None
    workload: Workload | None


@task(name="evaluate")
def evaluate(config: RetrainConfig, trace: Trace, encoder: Encoder, rows: FeatureRows, training: Training,
             models: tuple[ServedModel, ...]) -> Evaluation:
    """Score every family on the test window; simulate with the served models (candidate first, then champion)."""
    test = training.split.test
    scores, tables = {}, {}
    with stage("score on the test window") as report:
        for done, trained in enumerate(training.families):
            report(done, len(training.families))
            tables[trained.family] = trained.model.curve_table(test)
            scores[trained.family] = score_model(tables[trained.family], test, training.threshold_s)
    if not config.is_simulated:
        return Evaluation(scores, tables, None, None)
    with stage("simulate placement") as report:
        workload = later_workload(config, trace, training.split.test_from_s)
        comparison = compare(workload, _cells(config, workload, trace, rows, encoder, models),
                             progress=lambda done, total, _: report(done, total))
    return Evaluation(scores, tables, comparison, workload)


def _cells(config: RetrainConfig, workload: Workload, trace: Trace, rows: FeatureRows, encoder: Encoder,
           models: tuple[ServedModel, ...]) -> list[tuple[str, str, LifetimeSource | None]]:
    sources = {model.label: model_source(workload, trace, rows, encoder, model.schema, model.forest)
               for model in models}
    candidate = models[0].label
    cells: list[tuple[str, str, LifetimeSource | None]] = [
        ("first-fit", "", None),
        ("la-binary", f"{candidate}, one-shot", OneShot(sources[candidate])),
        ("nilas", f"{candidate}, one-shot", OneShot(sources[candidate])),
    ]
    cells += [("nilas", label, source) for label, source in sources.items()]
    oracle = Oracle(workload)
    cells += [("la-binary", "oracle", oracle), ("nilas", "oracle", oracle)]
    return cells


def simulation_scores(simulation: Comparison | None, label: str) -> dict[str, float]:
    """The simulation's figures of one model, by name, for MLflow: `sim.*`, in pp or %."""
    if simulation is None:
        return {}
    table: pd.DataFrame = simulation.table
    scores = {}
    for policy, predictor, name in (
        ("best-fit", "", "best_fit"), ("nilas", label, "nilas"), ("nilas", f"{label}, one-shot", "nilas_one_shot"),
        ("la-binary", f"{label}, one-shot", "la_binary"), ("nilas", "oracle", "nilas_oracle"),
    ):  # fmt: skip
        rows = table[(table["policy"] == policy) & (table["predictor"] == predictor)]
        if len(rows):
            scores[f"sim.{name}.empty_hosts_pct"] = float(rows["empty_hosts_pct"].iloc[0])
            scores[f"sim.{name}.gain_pp"] = float(rows["gain_pp"].iloc[0])
    return scores
