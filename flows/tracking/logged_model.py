"""The files beside a logged bundle for `mlflow.pyfunc.load_model` and `mlflow models serve`.

The bundle's files do not change; a predictor reads only these. The MLmodel file names
`sojourn.serving.pyfunc` as its loader: no code and no pickle is logged."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sojourn.flows.tracking.tracker import BUNDLE, Tracker
from sojourn.serving.inputs import Encoder
from sojourn.serving.pyfunc import HORIZONS_S, NOW, QUANTILES, UPTIME

LOADER = "sojourn.serving.pyfunc"
_PACKAGES = ("sojourn", "mlflow", "numpy", "onnxruntime", "pandas")
_EXAMPLE_UPTIMES_S = (0.0, 3_600.0)


def log_bundle(tracker: Tracker, run_id: str, folder: Path, encoder: Encoder,
               request: Mapping[str, float | str]) -> str:
    """Log a bundle folder with MLflow's files of a model; returns its URI. request: an example."""
    return tracker.log_folder(run_id, folder, files_beside(run_id, BUNDLE, encoder, request))


def files_beside(run_id: str, artifact_path: str, encoder: Encoder,
                 request: Mapping[str, float | str]) -> dict[str, str]:
    """The texts of MLmodel, its requirements and its input example, by file name.

    request: an example; values that are not finite are left out.
    """
    from mlflow.models import Model

    columns = [name for name in encoder.columns() if name in request]
    values = [None if isinstance(value := request[name], float) and not math.isfinite(value) else value
              for name in columns]
    example = {"columns": [*columns, UPTIME], "data": [[*values, uptime_s] for uptime_s in _EXAMPLE_UPTIMES_S]}
    model = Model(artifact_path, run_id, signature=_signature(encoder), saved_input_example_info={
        "artifact_path": "input_example.json", "type": "dataframe", "pandas_orient": "split",
        "serving_input_path": "serving_input_example.json"})
    # `mlflow.pyfunc.add_to_model` writes the same, but its import warns of MLflow's own type hints
    model.add_flavor("python_function", loader_module=LOADER, python_version=platform.python_version(), data=".",
                     env={"virtualenv": "python_env.yaml"})
    return {
        "MLmodel": model.to_yaml(),
        "input_example.json": json.dumps(example),
        "serving_input_example.json": json.dumps({"dataframe_split": example}),
        "requirements.txt": "".join(f"{name}=={version(name)}\n" for name in _PACKAGES),
        "python_env.yaml": f"python: {platform.python_version()}\nbuild_dependencies:\n- pip\n"
                           "dependencies:\n- -r requirements.txt\n",
    }  # fmt: skip


def _signature(encoder: Encoder) -> Any:
    """Columns of any type: a signature of doubles refuses whole numbers, as owners may have."""
    from mlflow.models import ModelSignature
    from mlflow.types.schema import AnyType, Array, ColSpec, DataType, ParamSchema, ParamSpec, Schema

    any_type: Any = AnyType
    inputs: Any = [ColSpec(any_type(), name, required=False) for name in encoder.columns()]
    inputs += [ColSpec(any_type(), UPTIME), ColSpec(any_type(), NOW, required=False)]
    outputs: Any = [ColSpec(DataType.double, "remaining_s"), ColSpec(Array(DataType.double), "quantiles_s"),
               ColSpec(Array(DataType.double), "survival"), ColSpec(Array(DataType.string), "unknown")]
    params = [ParamSpec("quantiles", DataType.double, list(QUANTILES), (-1,)),
              ParamSpec("horizons_s", DataType.double, list(HORIZONS_S), (-1,))]
    return ModelSignature(Schema(inputs), Schema(outputs), ParamSchema(params))
