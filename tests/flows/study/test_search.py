"""The search: better settings are found, the test window is never read, an interrupted search goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest
from typer.testing import CliRunner

from sojourn.flows.cli import app
from sojourn.flows.retrain.features import stored_features, workers_of
from sojourn.flows.retrain.ingest import read_into
from sojourn.flows.settings.retrain import RetrainConfig, TrainSettings
from sojourn.flows.study import search as trial
from sojourn.flows.study.search import Material, _scores_of_workers, search
from sojourn.flows.tracking.tracker import Tracker
from sojourn.flows.workers.dask import cluster
from sojourn.models.lifetime import SEARCH_SPACES


@pytest.mark.parametrize("family", list(SEARCH_SPACES))
def test_defaults_lie_within_their_bounds(family: str) -> None:
    space = SEARCH_SPACES[family]
    assert list(space.defaults) == list(space.bounds)
    assert all(bounds.low <= space.defaults[name] <= bounds.high for name, bounds in space.bounds.items())


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_family_without_a_space_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["lab", "search", "--family", "km", "--store", str(tmp_path)])
    assert result.exit_code == 2
    assert "family must have a search space (gbdt-once, gbdt-landmark, hazard), got 'km'" in result.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_search_reads_no_test_window_and_goes_on_where_it_stopped(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RetrainConfig(store=tmp_path, n_requests=2_000, n_threads=1)
    seen: list[Material] = []
    score = trial.score

    def watched(space: object, values: dict[str, float], material: Material) -> float | None:
        seen.append(material)
        return score(space, values, material)  # type: ignore[arg-type]

    monkeypatch.setattr("sojourn.flows.study.search.score", watched)
    first = search([config], "gbdt-once", 2, 600.0)
    assert first.n_trials == 2 and len(seen) == 3  # the defaults' own score, and two trials
    assert first.value <= 1.0  # the first trial is the defaults themselves
    for material in seen:
        split = material.split
        assert len(split.test) == 0
        assert set(split.past.idx_row) <= set(split.train.idx_row)
        assert (split.valid.arrival_s + split.valid.lifetime_s).max() <= split.test_from_s
        assert (split.train.arrival_s + split.train.lifetime_s).max() <= split.valid_from_s
    second = search([config], "gbdt-once", 3, 600.0)
    assert second.n_trials == 3 and second.value <= first.value
    tracker = Tracker(config.mlflow_uri, tmp_path / "artifacts")
    assert np.isfinite(second.value) and tracker.version_of(config.registered_name, "champion") is None


@pytest.mark.slow
def test_trials_have_the_same_scores_on_workers(tmp_path: Path) -> None:
    config = RetrainConfig(store=tmp_path, n_requests=2_000, n_threads=1)
    defaults = dict(SEARCH_SPACES["gbdt-once"].defaults)
    task = trial.TrialTask("gbdt-once", {}, config.store, config.source, config.group(TrainSettings),
                           trial.trial_code())
    here = trial.worker_score(replace(task, values=defaults))
    asked = [(optuna.trial.FixedTrial({}), defaults)] * 2
    with cluster("local:2") as address, workers_of(address) as workers:
        assert _scores_of_workers(asked, [task], workers) == [[here], [here]]  # type: ignore[arg-type]


def test_the_stub_of_the_refit_holds_ends_seen_from_their_start(tmp_path: Path) -> None:
    """A trace begins with requests that ran before; were the 200 ends all of such, a fit would refuse them."""
    ingested = read_into(tmp_path, RetrainConfig(n_requests=2_000).source)
    material = trial.material_of(ingested, stored_features(tmp_path, ingested), RetrainConfig())
    train = material.split.train
    entry_s = np.where(np.arange(len(train)) < len(train) // 2, 1.0, 0.0)
    late = replace(material.split, train=replace(train, entry_s=entry_s))
    past = trial.without_test(late).past
    assert len(past) == 200 and past.is_event.all() and not past.entry_s.any()


def test_a_worker_with_other_code_is_refused(tmp_path: Path) -> None:
    config = RetrainConfig(store=tmp_path, n_requests=2_000)
    with pytest.raises(ValueError, match="a worker must have the code and libraries that asked for 0000"):
        trial.worker_score(trial.TrialTask("gbdt-once", {}, config.store, config.source, config.group(TrainSettings),
                                           "0" * 64))
