"""Durations by a model for jobs with few runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from made_bundles import make
from sojourn.flows.plan import LEVELS, ModelDurations, read_jobs
from sojourn.models.curve_table import HazardTable
from sojourn.serving import Predictor
from sojourn.simulator.planning import Instance, RecurringJob
from studies.planning import with_model_history


def curves(n: int) -> HazardTable:
    edges = np.array([0.0, 1_000.0, 10_000.0])
    hazards = np.tile(np.array([[0.5, 0.5]]), (n, 1))
    hazards[1:, 0] = 0.1  # the second job stays longer
    return HazardTable.from_hazards(edges, hazards, 5_000.0, np.array([0.0, 500.0, 5_000.0]))


def day() -> Instance:
    return Instance((RecurringJob("a", 0, 60, 460, np.array([7, 9]), np.array([2.0, 4.0])),
                     RecurringJob("b", 0, 60, 460, np.arange(1, 8), np.ones(7))), step_s=60.0)


def test_a_job_with_few_runs_has_the_quantiles_of_its_curve() -> None:
    table = curves(2)
    found = with_model_history(day(), table, 5)
    a, b = found.jobs
    want = [min(max(int(np.ceil(table.quantile(float(level), 0.0)[0] / 60)), 1), 400) for level in LEVELS]
    assert a.durations.tolist() == want
    assert a.usage[:, 0].tolist() == [4.0] * 25
    assert b.durations.tolist() == list(range(1, 8))  # enough of its own
    every = with_model_history(day(), table, 100)
    assert every.jobs[1].durations.mean() > every.jobs[0].durations.mean()
    with pytest.raises(ValueError, match=r"table must .*, got 3"):
        with_model_history(day(), curves(3), 5)


def test_a_table_of_jobs_asks_a_bundle(tmp_path: Path) -> None:
    bundle = make(tmp_path).folders["hazard"]
    predictor = Predictor.load(bundle)
    document = {"subscription": "s1", "cpu_cores": 2, "mem_gib": 8}
    request = json.dumps(document).replace('"', '""')
    path = tmp_path / "jobs.csv"
    path.write_text("name,requested_start_s,flexibility_s,deadline_s,durations_s,cpu_cores,request\n"
                    f'new,30,60,1000000000,,4,"{request}"\n'
                    "old,0,60,9000,10;20;30;40;50,1;2;3;4;5,\n")
    new, old = read_jobs(path, durations_of=ModelDurations(bundle)).instance.jobs
    at = int(predictor.info()["training"].get("history_to_s", 0)) + 30
    life = predictor.predict(document, at)
    assert new.durations.tolist() == [int(np.ceil(max(life.quantile(float(level), 0.0), 1.0))) for level in LEVELS]
    assert new.usage[:, 0].tolist() == [4.0] * 25
    assert old.durations.tolist() == [10, 20, 30, 40, 50]
    path.write_text(path.read_text().replace(f'"{request}"', "{x"))
    with pytest.raises(ValueError, match=r"request of job 'new' must be a JSON object, got '\{x'"):
        read_jobs(path, durations_of=ModelDurations(bundle))
    with pytest.raises(ValueError, match="history of job 'new' must have as many"):
        read_jobs(path)
