"""A registered version loads as MLflow's users expect it, answers as the predictor does, and names its data."""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest
from mlflow.models import Model

from made_bundles import Made, make
from made_servers import mlflow_program
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.tracking.logged_model import log_bundle
from sojourn.flows.tracking.tracker import CHAMPION, Tracker, train_and_test
from sojourn.serving import Predictor
from sojourn.serving.bundle import FILES, MANIFEST

NAME = "made"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def tracker(made: Made, new_store: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Tracker:
    """A store whose champion is the hazard bundle."""
    store = new_store(tmp_path_factory.mktemp("store"))
    tracker = Tracker(TrackingUri.of_file(store / "mlflow.db"), store / "artifacts")
    with tracker.run("made", {}) as run:
        tracker.log_data(run, train_and_test(RetrainConfig().source, "synthetic", "0123456789abcdef", 500, 7, 3))
        source = log_bundle(tracker, run, made.folders["hazard"], made.encoder, made.request(5))
        tracker.set_alias(NAME, CHAMPION, tracker.register(NAME, source, run, "", {}))
    return tracker


@pytest.mark.slow
def test_the_champion_loads_by_its_name_and_has_the_predictors_bits(
        tracker: Tracker, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracker.uri.plain)
    with warnings.catch_warnings():  # its import warns of its own type hints
        warnings.simplefilter("ignore")
        import mlflow.pyfunc
    model = mlflow.pyfunc.load_model(f"models:/{NAME}@{CHAMPION}")
    predictor = Predictor.load(made.folders["hazard"])
    requests = [made.request(idx) for idx in range(20)]
    whole = pd.DataFrame(requests).assign(uptime_s=range(20))  # int64 where MLflow would refuse it for a double
    whole["cpu_cores"] = whole["cpu_cores"].astype("int64")
    found = model.predict(whole, params={"quantiles": [0.9], "horizons_s": [3_600.0]})
    for idx, request in enumerate(requests):
        life = predictor.predict({**request, "cpu_cores": int(request["cpu_cores"])}, made.trace.horizon_s)
        assert found.loc[idx].to_list() == [life.remaining(idx), [life.quantile(0.9, idx)],
                                            [life.survival(3_600.0, idx)], list(life.unknown)]
    assert len(model.predict(pd.DataFrame({"uptime_s": [0.0]}))["quantiles_s"].iloc[0]) == 3
    with pytest.raises(mlflow.MlflowException, match="uptime_s"):
        model.predict(pd.DataFrame({"cpu_cores": [1.0]}))


def test_what_stands_beside_the_bundle(tracker: Tracker, made: Made, tmp_path: Path) -> None:
    folder = tracker.fetch(NAME, 1, tmp_path)
    beside = {"MLmodel", "input_example.json", "python_env.yaml", "requirements.txt", "serving_input_example.json"}
    written = {path.name for path in folder.iterdir()} - {"registered_model_meta"}  # which MLflow adds
    assert written == {*FILES, MANIFEST, *beside}
    for name in (*FILES, MANIFEST):
        assert (folder / name).read_bytes() == (made.folders["hazard"] / name).read_bytes()
    model: Any = Model.load(str(folder))
    assert list(model.flavors) == ["python_function"]
    assert model.get_input_schema().input_names() == [*made.encoder.columns(), "uptime_s", "now_s"]
    assert model.load_input_example(str(folder))["uptime_s"].to_list() == [0.0, 3_600.0]
    assert f"sojourn=={version('sojourn')}\n" in (folder / "requirements.txt").read_text()


def test_the_windows_are_datasets(tracker: Tracker) -> None:
    client = mlflow.MlflowClient(tracker.uri.plain)
    experiment = client.get_experiment_by_name("sojourn-lifetime")
    assert experiment is not None
    inputs = client.search_runs([experiment.experiment_id])[0].inputs
    assert inputs is not None
    found = sorted((each.dataset.name, each.dataset.digest, each.dataset.profile, each.tags[0].value)
                   for each in inputs.dataset_inputs)
    assert found == [("synthetic before 500 s", "0123456789ab", '{"num_rows": 7}', "train"),
                     ("synthetic from 500 s on", "0123456789ab", '{"num_rows": 3}', "test")]


@pytest.mark.slow
def test_mlflow_serves_the_champion(tracker: Tracker, made: Made, tmp_path: Path) -> None:
    arguments = ["models", "serve", "-m", f"models:/{NAME}@{CHAMPION}", "--env-manager", "local"]
    environment = {"MLFLOW_TRACKING_URI": tracker.uri.plain,
                   "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with mlflow_program(arguments, tmp_path, environment, "/ping") as port:
        row = {**made.request(5), "uptime_s": 7_200}
        body = json.dumps({"dataframe_records": [row], "params": {"quantiles": [0.5]}}).encode()
        url = f"http://127.0.0.1:{port}/invocations"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)["predictions"][0]
        life = Predictor.load(made.folders["hazard"]).predict(made.request(5), made.trace.horizon_s)
        assert answer == {"remaining_s": life.remaining(7_200), "quantiles_s": [life.quantile(0.5, 7_200)],
                          "survival": [life.survival(3_600, 7_200), life.survival(86_400, 7_200)],
                          "unknown": list(life.unknown)}
